//! What is written into the journal: by the workers what they are about to do and what came of it, by the commands what
//! they did.

use serde::{Deserialize, Serialize};

/// One line of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum Fact {
    /// idem is about to be started for an arrival.
    Arrives { arrival: u64, key: String, resends: bool, reruns: bool },
    /// What it answered.
    Answered(Answered),
    /// Somebody is about to be sent a signal, so that whatever comes afterwards may be its doing.
    Kills { arrival: u64, key: String, whom: String },
    /// A command has begun; these other claims' commands of its key live.
    Started { arrival: u64, key: String, claim: i64, attempt: u64, pid: i32, alive: Vec<i64> },
    /// What became of a mark, or of a member or step, of a command.
    Said { key: String, claim: i64, what_was_said: String, code: Option<i32> },
    /// A command is about to exit.
    Ended { arrival: u64, key: String, claim: i64, code: u8 },
    /// A probe has looked at the target.
    Probed { key: String, says: u8 },
    /// A person is about to say something of a claim.
    Word { word: u64, key: String, claim: i64, says: String, force: bool },
    /// What idem exited with.
    Taken { word: u64, key: String, code: Option<i32> },
    /// Something that never may be, seen by a worker or a command.
    Complaint { key: String, text: String },
    /// The store's server is killed.
    ServerKilled,
}

/// The answer to an arrival, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) arrival: u64,
    pub(crate) key: String,
    /// Nothing where a signal ended idem.
    pub(crate) code: Option<i32>,
    /// Whether there is an envelope; without one what follows says nothing.
    pub(crate) told: bool,
    pub(crate) id: Option<i64>,
    pub(crate) state: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) idempotent: bool,
    pub(crate) exit_code: Option<i64>,
    pub(crate) signal: Option<String>,
    /// Length and fingerprint of what the command printed.
    pub(crate) stdout: String,
    /// Names of the group's members and tools of its steps, in order.
    pub(crate) members: Vec<String>,
    pub(crate) error: Option<String>,
    pub(crate) says_nothing_was_run: bool,
}

impl Fact {
    /// The key that this is about.
    pub(crate) fn key(&self) -> &str {
        match self {
            Fact::Answered(answered) => &answered.key,
            Fact::Arrives { key, .. }
            | Fact::Kills { key, .. }
            | Fact::Started { key, .. }
            | Fact::Said { key, .. }
            | Fact::Ended { key, .. }
            | Fact::Probed { key, .. }
            | Fact::Word { key, .. }
            | Fact::Taken { key, .. }
            | Fact::Complaint { key, .. } => key,
            Fact::ServerKilled => "",
        }
    }
}
