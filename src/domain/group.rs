//! Groups: what one call made, its emitted members and its steps, whichever of its attempts made each (design §8).
//!
//! A group belongs to the attempts of a key since the key was last cleared or its result last expired.

use super::canonical::Json;
use super::claim::{Claim, ClaimId, State};
use super::timestamp::Timestamp;

/// The attempt whose command somebody belongs to, as the environment tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enclosing {
    /// The claim's number.
    pub id: ClaimId,
    /// What proves it: [`super::claim::LockPlace::token`].
    pub token: String,
}

/// A member of a group, in the group's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The attempt that made it or, a step, came to it first.
    pub claim: ClaimId,
    /// When that was.
    pub at: Timestamp,
    /// What it is.
    pub made: Made,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// A member that the command emitted.
    Emitted {
        /// Its name, unique in the group.
        name: String,
        /// Its value, JSON as given.
        data: Option<String>,
    },
    /// A call of its own: the newest attempt of its key.
    Step(Box<Claim>),
}

/// What became of an emitted member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emitted {
    /// It is recorded, or was before with the same value.
    Recorded,
    /// There is no such claim, or the token is not that attempt's.
    NotThisAttempt,
    /// The attempt is over; its claim is in this state.
    Over(State),
    /// The name has another value already, given here as JSON.
    Other(Option<String>),
}

/// Tells whether two members' values are the same: by their canonical text, as it is with params.
pub fn same(a: Option<&str>, b: Option<&str>) -> bool {
    let canonical = |text: &str| {
        let mut canonical = String::new();
        Json::parse(text.as_bytes()).ok()?.write_canonical(&mut canonical);
        Some(canonical)
    };
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || canonical(a).is_some_and(|a| canonical(b).is_some_and(|b| a == b)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_however_it_is_spelled() {
        assert!(same(None, None));
        assert!(same(Some(r#"{"a":1,"b":[2.0]}"#), Some(r#"{ "b": [2], "a": 1.0 }"#)));
        assert!(!same(Some("9007199254740993"), Some("9007199254740992")));
        assert!(!same(Some("null"), None), "no value is not the value null");
        assert!(!same(Some("1"), Some("2")));
    }
}
