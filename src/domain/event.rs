//! Events: every arrival, every transition and every human decision, with time and actor (design §2, §11).

use super::claim::{ClaimId, State, words};
use super::timestamp::Timestamp;

words! {
    /// What happened.
    EventKind {
        /// An arrival that became the owner and ran the command.
        Run = "run",
        /// An arrival that was given the recorded result.
        Replay = "replay",
        /// An arrival that was told that the owner is still running.
        Busy = "busy",
        /// An arrival that found the claim held.
        Held = "held",
        /// An arrival with the same key and another command.
        Mismatch = "mismatch",
        /// An arrival from within the claim's own command.
        InsideItself = "inside-itself",
        /// The claim's outcome became final.
        BecameCompleted = "became-completed",
        /// The claim's outcome became unknown.
        BecameHeld = "became-held",
        /// The claim was found not to have landed, and gave its key back.
        BecameReleased = "became-released",
        /// Its time to live ran out, and an arrival found it so.
        Expired = "expired",
        /// The target was asked whether the write had landed.
        Probe = "probe",
        /// The command said how far it got.
        Mark = "mark",
        /// A person said what became of it.
        Resolved = "resolved",
        /// A person freed the key.
        Cleared = "cleared",
        /// An owner recorded its outcome after a person had freed or resolved its claim.
        LateOutcome = "late-outcome",
    }
}

impl EventKind {
    /// Returns the kind of event by which a claim came into this state: by its end, its marks or a probe.
    pub fn became(state: State) -> EventKind {
        match state {
            State::Completed => EventKind::BecameCompleted,
            State::Held => EventKind::BecameHeld,
            _ => EventKind::BecameReleased,
        }
    }
}

/// One line of a claim's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The claim it belongs to.
    pub claim: ClaimId,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// Who did it: `user@host[pid]`.
    pub actor: String,
    /// More, as a JSON object.
    pub detail: Option<String>,
}

/// An event that is about to be recorded: its claim, time and actor follow from where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// More, as a JSON object.
    pub detail: Option<String>,
}
