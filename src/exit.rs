//! The exit codes of design §10, and the one place that maps an error to its code, kind and hint.

use crate::domain::canonical::ParamsError;
use crate::domain::claim::words;
use crate::domain::store::StoreError;
use crate::policy::PolicyError;

/// Done.
pub const DONE: u8 = 0;
/// No such claim, or nothing matched, or a refusal: nothing was changed.
pub const NOTHING: u8 = 1;
/// Wrong usage of a command other than `run`.
pub const USAGE: u8 = 2;
/// Busy: the owner is still running.
pub const BUSY: u8 = 120;
/// Held: outcome unknown, not run.
pub const HELD: u8 = 121;
/// This key was claimed by another command.
pub const MISMATCH: u8 = 122;
/// `--timeout` ended the command.
pub const TIMEOUT: u8 = 124;
/// idem's own error; for `run` wrong usage too.
pub const OWN: u8 = 125;
/// The command can't be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;

/// Which command failed: `run` keeps codes 0–119 for the command it runs, so its wrong usage is 125.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// `idem run`.
    Run,
    /// Any other command.
    Other,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wrong usage.
    Usage,
    /// The params are no JSON that has a key; the word is the error's class.
    Params(&'static str),
    /// The store can't be used; the word says why.
    Store(&'static str),
    /// The operator's policy doesn't allow the call as it is.
    Policy,
    /// There is no policy that can be used where there should be one.
    PolicyFile,
    /// A call that is inside itself.
    InsideItself,
    /// No such claim, or nothing matched.
    Nothing,
    /// A change that idem refuses, such as of a claim whose owner lives.
    Refused,
    /// The system failed.
    System,
}

impl Kind {
    /// Returns the kind's word in `error.kind` of the JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Usage => "usage",
            Kind::Params(word) | Kind::Store(word) => word,
            Kind::Policy => "policy",
            Kind::PolicyFile => "policy-file",
            Kind::InsideItself => "inside-itself",
            Kind::Nothing => "no-such-claim",
            Kind::Refused => "refused",
            Kind::System => "system",
        }
    }

    /// Returns the exit code: the table.
    pub fn code(self, of: Of) -> u8 {
        match (self, of) {
            (Kind::Usage | Kind::Params(_) | Kind::Policy, Of::Other) => USAGE,
            (Kind::Nothing | Kind::Refused, Of::Other) => NOTHING,
            _ => OWN,
        }
    }
}

words! {
    /// Why an arrival with a claim got no result: the words of `error.kind` that are no error of idem's own.
    NoResult {
        /// The owner is still running.
        Busy = "busy",
        /// The outcome is unknown.
        Held = "held",
        /// The key was claimed by another command.
        Mismatch = "mismatch",
        /// The call is inside itself.
        InsideItself = "inside-itself",
        /// The command was not found.
        CommandNotFound = "command-not-found",
        /// The command can't be executed.
        CommandNotExecutable = "command-not-executable",
        /// The system could not start the command.
        System = "system",
        /// A signal told this arrival to end before it ran anything.
        Interrupted = "interrupted",
        /// The command ran, and its end could not be recorded.
        Unrecorded = "unrecorded",
        /// The command ran, and its end is kept on this host until the store takes it.
        Pending = "pending",
    }
}

/// An error on its way to the person or program that called.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub kind: Kind,
    /// The sentence, lower case and without a full stop.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// Makes a failure without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), hint: None }
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Turns any error into a failure, by what is at its root.
    pub fn from_error(error: anyhow::Error) -> Failure {
        let error = match error.downcast::<Failure>() {
            Ok(failure) => return failure,
            Err(error) => error,
        };
        let message = format!("{error:#}");
        if let Some(store) = error.downcast_ref::<StoreError>() {
            return Failure::new(Kind::Store(store.kind()), message).hint(store.hint());
        }
        if let Some(params) = error.downcast_ref::<ParamsError>() {
            return Failure::new(Kind::Params(params.class.as_str()), message)
                .hint("give --params one JSON text (RFC 8259) with a single meaning");
        }
        if let Some(policy) = error.downcast_ref::<PolicyError>() {
            return Failure::new(Kind::PolicyFile, message).hint(policy.hint());
        }
        Failure::new(Kind::System, message)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_codes() {
        for (kind, run, other) in [
            (Kind::Usage, 125, 2),
            (Kind::Params("syntax"), 125, 2),
            (Kind::Store("store-full"), 125, 125),
            (Kind::Policy, 125, 2),
            (Kind::PolicyFile, 125, 125),
            (Kind::InsideItself, 125, 125),
            (Kind::Nothing, 125, 1),
            (Kind::Refused, 125, 1),
            (Kind::System, 125, 125),
        ] {
            assert_eq!((kind.code(Of::Run), kind.code(Of::Other)), (run, other), "{kind:?}");
        }
    }

    #[test]
    fn an_error_keeps_its_kind_through_its_contexts() {
        use anyhow::Context;
        let full = Err::<(), _>(StoreError::Full("/s".into())).context("claiming").expect_err("an error");
        let failure = Failure::from_error(full);
        assert_eq!(failure.kind, Kind::Store("store-full"));
        assert!(failure.message.starts_with("claiming: no space"), "{}", failure.message);
        assert!(failure.hint.is_some());
    }
}
