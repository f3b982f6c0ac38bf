//! The claim: the row that owns a key, and the words that describe it (design §2).
//!
//! Invariant: one row is one attempt. A second attempt of the same call is a new row; the old one stays as history.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use super::group::Enclosing;
use super::key::Key;
use super::moment::{Moment, Uptime};
use super::timestamp::Timestamp;

/// Gives an enum one word a variant, for the store, the flags and the JSON alike.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// Every variant, in the contract's order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the contract's word, as the store, the flags and the JSON spell it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Returns the variant of a word, or `None` for a word that the contract doesn't have.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// The state of a claim (design §2). The first three hold the key.
    State {
        /// Claimed; no outcome recorded yet.
        Running = "running",
        /// Outcome final; every further arrival replays it.
        Completed = "completed",
        /// Outcome unknown; nothing runs until somebody who knows says so.
        Held = "held",
        /// Known not to have landed; the next arrival runs it as a new attempt.
        Released = "released",
        /// Freed by a person; history.
        Cleared = "cleared",
        /// Its time to live ran out; history.
        Expired = "expired",
    }
}

impl State {
    /// Tells whether a row in this state holds its key: exactly the states that the unique index covers.
    pub fn holds_key(self) -> bool {
        matches!(self, State::Running | State::Completed | State::Held)
    }
}

words! {
    /// What is known of the write (design §2).
    Outcome {
        /// It reached its target.
        Landed = "landed",
        /// It did not.
        NotLanded = "not-landed",
        /// Nobody knows yet.
        Unknown = "unknown",
    }
}

words! {
    /// Whether a failure can leave us not knowing (design §2).
    Effect {
        /// A failure means that nothing was written.
        Local = "local",
        /// A failure may come after the target took the write.
        External = "external",
    }
}

words! {
    /// Why a claim is in its state.
    Reason {
        /// The command exited, and its code says it all.
        Exit = "exit",
        /// The exit code is one of `--landed-exit`.
        LandedExit = "landed-exit",
        /// The exit code is one of `--not-landed-exit`.
        NotLandedExit = "not-landed-exit",
        /// A failure that `--keep-failure` made final.
        KeptFailure = "kept-failure",
        /// A signal ended the command.
        Signal = "signal",
        /// `--timeout` ended the command.
        Timeout = "timeout",
        /// The command never started: not found, not executable, or a signal came first.
        NotStarted = "not-started",
        /// The owner died without recording an outcome.
        Interrupted = "interrupted",
        /// The owner can be proven neither alive nor dead.
        OwnerLost = "owner-lost",
        /// A person resolved it.
        Resolved = "resolved",
        /// A person cleared it.
        Cleared = "cleared",
        /// The command's own marks say what is known of the write.
        Marks = "marks",
        /// A probe asked the target.
        Probe = "probe",
        /// An arrival ran the unknown again, since the target dedupes on the key.
        Resent = "resent",
        /// Its time to live ran out.
        Expired = "expired",
        /// What is known of its steps: it failed while one's outcome was unknown, or none's is any more.
        Steps = "steps",
    }
}

words! {
    /// What a command has said of its write so far (design §8).
    Mark {
        /// It is about to send: from here on the target may have taken the write.
        Sending = "sending",
        /// The target has taken the write. Nothing later undoes that.
        Landed = "landed",
        /// The target has not taken it and will not.
        NotLanded = "not-landed",
    }
}

/// A claim's number: 1, 2, 3…, never reused.
pub type ClaimId = i64;

/// A command line, its arguments compared and stored as bytes: each argument ends with a NUL, which none can contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandLine(Vec<u8>);

impl CommandLine {
    /// Joins the arguments.
    pub fn new<S: AsRef<OsStr>>(args: &[S]) -> Self {
        let mut bytes = Vec::new();
        for arg in args {
            bytes.extend_from_slice(arg.as_ref().as_bytes());
            bytes.push(0);
        }
        CommandLine(bytes)
    }

    /// Takes the stored form back.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        CommandLine(bytes)
    }

    /// Returns the stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the arguments, the program first.
    pub fn args(&self) -> Vec<OsString> {
        let joined = self.0.strip_suffix(&[0]).unwrap_or(&self.0);
        joined.split(|&byte| byte == 0).map(|arg| OsString::from_vec(arg.to_vec())).collect()
    }
}

/// Where an attempt's liveness can be tested: a byte of the lock file (design §5).
///
/// The inode is that of the lock file at the time; in a store that many hosts share, a number that tells the file from those
/// of other hosts too. A file that was removed and made anew has another one as long as
/// anybody still holds the old one open, so equal inodes prove that a free byte means a dead owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockPlace {
    /// The byte's offset: random, in `1..2^62`.
    pub offset: i64,
    /// The lock file's inode number.
    pub inode: i64,
}

impl LockPlace {
    /// Returns what proves to a store that somebody belongs to the attempt (`IDEM_TOKEN`): 16 lower-case hex digits. The
    /// offset is random, and the attempt's environment is where it is told.
    pub fn token(self) -> String {
        format!("{:016x}", self.offset)
    }
}

/// Who owns an attempt: for people to read, never for deciding (design §5).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Owner {
    /// `user@host[pid]`, as in events.
    pub actor: String,
    /// When that process started, in ticks of its host's boot: what tells a process id from its next use.
    pub process: String,
}

/// What asks the target whether a write has landed (design §7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// A shell command.
    pub command: OsString,
    /// The folder that it runs in: that of the run it was given with.
    pub folder: OsString,
    /// How long after the attempt's end it asks: some targets read behind their writes.
    pub delay: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// How much of what it prints may be recorded, in bytes.
    pub max_output: u64,
}

/// What the caller gave along that can turn an unknown outcome into a known one, or let a known one expire.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Means {
    /// `--probe`.
    pub probe: Option<Probe>,
    /// `--marks`: the command marks `sending` before it sends.
    pub marks: bool,
    /// `--resend-within`: for how long the target dedupes on the key.
    pub resend_within: Option<Duration>,
    /// `--ttl`: how long after its end a completed claim expires.
    pub ttl: Option<Duration>,
}

/// A claim that a new one takes the place of, in the same transaction: its outcome stays unknown, so at no moment may the
/// key be free for an arrival that has not said that it bears a second run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPlaceOf {
    /// The claim.
    pub claim: ClaimId,
    /// The state it must still be in.
    pub from: State,
    /// The mark it must still have.
    pub mark: Option<Mark>,
    /// Why it is released.
    pub reason: Reason,
    /// For how long after the key's first start this may happen; `None`: whenever.
    pub within: Option<Duration>,
}

/// What is known of an attempt before it runs: the row to insert.
#[derive(Clone, Debug)]
pub struct NewClaim {
    /// The key that the claim wants to hold.
    pub key: Key,
    /// Who calls.
    pub who: String,
    /// The conversation, run or pipeline that the call belongs to.
    pub conv: String,
    /// The tool's name.
    pub tool: String,
    /// The params as given, on one line (design §12, JSON shapes).
    pub params: String,
    /// Bound inputs as canonical JSON, where there are any (design §3).
    pub bound: Option<String>,
    /// Whether a failure can leave us not knowing.
    pub effect: Effect,
    /// The command as given, before any substitution.
    pub command: CommandLine,
    /// The attempt whose command started this arrival: the new claim is a step of its group, if it is still open.
    pub enclosing: Option<Enclosing>,
    /// The newest row of the store when the arrival found nobody holding the key: what came later it has missed.
    pub seen: ClaimId,
    /// The byte that this attempt already holds.
    pub lock: LockPlace,
    /// Who runs it.
    pub owner: Owner,
    /// What can make its outcome known.
    pub means: Means,
    /// The claim in whose place it comes.
    pub in_place_of: Option<InPlaceOf>,
    /// How often its owner will show itself to a store that many hosts share.
    pub seen_every: Duration,
}

/// A row of the store: one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The claim's number.
    pub id: ClaimId,
    /// The key it holds or held.
    pub key: Key,
    /// Its state.
    pub state: State,
    /// Why it is in that state; none while it runs.
    pub reason: Option<Reason>,
    /// What is known of the write.
    pub outcome: Outcome,
    /// Who called.
    pub who: String,
    /// The conversation.
    pub conv: String,
    /// The tool.
    pub tool: String,
    /// The params as given, one line of JSON.
    pub params: String,
    /// Whether a failure can leave us not knowing.
    pub effect: Effect,
    /// The number of this spawn among all spawns of the key, from 1.
    pub attempt: i64,
    /// The command as given.
    pub command: CommandLine,
    /// The claim whose command started this one, as a step of its group.
    pub parent: Option<ClaimId>,
    /// The command's exit code, where it exited.
    pub exit_code: Option<i32>,
    /// The number of the signal that ended the command, where one did.
    pub signal: Option<i32>,
    /// How many bytes of output are missing from the record.
    pub missing: i64,
    /// When it was claimed.
    pub created_at: Timestamp,
    /// How long the owner's host had been up then.
    pub uptime: Uptime,
    /// When its end was recorded.
    pub finished_at: Option<Timestamp>,
    /// Where its liveness can be tested.
    pub lock: LockPlace,
    /// Who runs or ran it.
    pub owner: Owner,
    /// What can make its outcome known.
    pub means: Means,
    /// What its command has said of the write so far.
    pub mark: Option<Mark>,
    /// Whether its owner, with or without an end, has shown itself lately: within three of its own intervals, by the clock of a store
    /// that many hosts share. Elsewhere it is never told. It decides nothing but how long others wait (G6).
    pub seen_lately: bool,
}

impl Claim {
    /// Tells whether its owner may still live: while it runs, and while it is held since the owner was lost. One that has
    /// recorded an end doesn't.
    pub fn may_have_owner(&self) -> bool {
        self.state == State::Running || (self.state == State::Held && self.reason == Some(Reason::OwnerLost))
    }

    /// Tells whether it is held without an end of its own: its owner was killed, or was thought lost.
    pub fn is_held_without_end(&self) -> bool {
        self.state == State::Held && matches!(self.reason, Some(Reason::Interrupted | Reason::OwnerLost))
    }

    /// Tells whether it is held for its steps (design §8).
    pub fn is_held_for_steps(&self) -> bool {
        self.state == State::Held && self.reason == Some(Reason::Steps)
    }

    /// Returns the moment when it was claimed, by both clocks.
    pub fn claimed(&self) -> Moment {
        Moment { at: self.created_at, uptime: self.uptime.clone() }
    }

    /// Returns the status with which a run or a replay of this attempt ends: the exit code, or 128+N for a signal.
    pub fn exit_status(&self) -> Option<i32> {
        self.exit_code.or(self.signal.map(|signal| 128 + signal))
    }
}

/// One of the command's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output as it arrived. Their order is the order across both streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which stream it came from.
    pub stream: Stream,
    /// The bytes, never interpreted.
    pub data: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_to_one() {
        for state in State::ALL {
            assert_eq!(State::from_word(state.as_str()), Some(*state));
        }
        for reason in Reason::ALL {
            assert_eq!(Reason::from_word(reason.as_str()), Some(*reason));
        }
        assert_eq!(State::from_word("Running"), None);
    }

    #[test]
    fn a_command_line_survives_odd_arguments() {
        let args: Vec<OsString> = vec!["sh".into(), "".into(), OsString::from_vec(b"\xff\n".to_vec()), "".into()];
        let line = CommandLine::new(&args);
        assert_eq!(line.args(), args);
        assert_ne!(line, CommandLine::new(&args[..3]));
    }

    fn claim(state: State, reason: Option<Reason>) -> Claim {
        Claim {
            id: 1,
            key: Key::of(""),
            state,
            reason,
            outcome: Outcome::Unknown,
            who: String::new(),
            conv: String::new(),
            tool: String::new(),
            params: String::new(),
            effect: Effect::Local,
            attempt: 1,
            command: CommandLine::new::<OsString>(&[]),
            parent: None,
            exit_code: None,
            signal: None,
            missing: 0,
            created_at: Timestamp(7),
            uptime: Uptime { boot: "b".to_owned(), millis: 8 },
            finished_at: None,
            lock: LockPlace { offset: 0x1f, inode: 2 },
            owner: Owner::default(),
            means: Means::default(),
            mark: None,
            seen_lately: false,
        }
    }

    #[test]
    fn who_may_have_an_owner_or_an_end_of_its_own() {
        for state in State::ALL {
            assert_eq!(state.holds_key(), matches!(state.as_str(), "running" | "completed" | "held"));
            for reason in Reason::ALL.iter().copied().map(Some).chain([None]) {
                let claim = claim(*state, reason);
                let told = (claim.may_have_owner(), claim.is_held_without_end(), claim.is_held_for_steps());
                let expected = match (state, reason) {
                    (State::Running, _) => (true, false, false),
                    (State::Held, Some(Reason::OwnerLost)) => (true, true, false),
                    (State::Held, Some(Reason::Interrupted)) => (false, true, false),
                    (State::Held, Some(Reason::Steps)) => (false, false, true),
                    _ => (false, false, false),
                };
                assert_eq!(told, expected, "{state} {reason:?}");
            }
        }
    }

    #[test]
    fn a_row_gives_its_exit_status_its_moment_and_its_token() {
        let row = claim(State::Completed, Some(Reason::Exit));
        assert_eq!(row.exit_status(), None);
        assert_eq!(Claim { exit_code: Some(3), ..row.clone() }.exit_status(), Some(3));
        assert_eq!(Claim { signal: Some(15), ..row.clone() }.exit_status(), Some(143));
        assert_eq!(Claim { exit_code: Some(124), signal: Some(9), ..row.clone() }.exit_status(), Some(124));
        assert_eq!(row.claimed(), Moment { at: Timestamp(7), uptime: Uptime { boot: "b".to_owned(), millis: 8 } });
        assert_eq!(row.lock.token(), "000000000000001f");
        assert_eq!((State::Held.to_string().as_str(), Mark::ALL.len()), ("held", 3));
    }
}
