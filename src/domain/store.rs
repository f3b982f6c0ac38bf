//! The store of claims, as a trait: what every implementation must do (design §11), held by one generic contract test.
//!
//! Invariant: each method that writes is one transaction. What a method's name calls *recorded* is synced to disk when
//! it returns (G1); appended output and arrivals that ran nothing need not be.

mod error;

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use super::claim::{Chunk, Claim, ClaimId, LockPlace, Mark, NewClaim, State, Stream};
use super::end::{End, EndTerms, Ended, signal_name};
use super::event::{Event, EventKind, NewEvent};
use super::group::{Emitted, Enclosing, Member};
use super::health::{Finding, Integrity};
use super::key::Key;
use super::moment::Moment;
use super::prune::{Pruned, Pruning, Reached, Space};
use super::stats::Stats;
use super::timestamp::Timestamp;

pub use error::StoreError;

/// What came of trying to claim a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The row was inserted: the arrival is the owner.
    Inserted {
        /// The new claim's number.
        id: ClaimId,
        /// The number of this attempt among the key's spawns, from 1.
        attempt: i64,
        /// When it was claimed.
        created_at: Timestamp,
    },
    /// This claim holds the key.
    Taken(Box<Claim>),
    /// Nobody holds the key any more, but this attempt began and ended since the arrival looked, or is the one in whose place
    /// the new claim was to come, and isn't any more what it was judged by.
    Missed(Box<Claim>),
}

/// An attempt's end, ready to be recorded. The store judges it, in the transaction that reads the last mark: one that came
/// between a look and the record would otherwise be lost.
#[derive(Clone, Debug)]
pub struct Finish {
    /// How the command ended.
    pub end: End,
    /// What its ends mean.
    pub terms: EndTerms,
    /// The command's exit code, where it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    /// How many bytes of output are missing from the record.
    pub missing: i64,
    /// How many bytes of output are in the record once the rest is in it too: where the answer to an earlier write was lost,
    /// this tells what of the rest is there already.
    pub recorded: i64,
    /// Who records it.
    pub actor: String,
}

impl Finish {
    /// Returns what its event tells of it, once it was judged.
    pub fn detail(&self, ended: Ended) -> String {
        json!({
            "outcome": ended.outcome.as_str(),
            "reason": ended.reason.as_str(),
            "exit_code": self.exit_code,
            "signal": self.signal.map(signal_name),
        })
        .to_string()
    }

    /// Tells whether an event's detail is of this end. That of another change has no exit code.
    pub fn is_told_by(&self, detail: &str) -> bool {
        let detail: Value = serde_json::from_str(detail).unwrap_or_default();
        let ended = detail.get("exit_code").zip(detail.get("signal"));
        ended.is_some_and(|(code, signal)| {
            code.as_i64() == self.exit_code.map(i64::from) && signal.as_str() == self.signal.map(signal_name).as_deref()
        })
    }
}

/// What recording an attempt's end came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The claim has its outcome.
    Recorded(Ended),
    /// Somebody had decided about the claim meanwhile: the outcome went to its history, the claim is as they left it.
    Late(State),
}

/// A change of a claim's state other than by its owner's end.
#[derive(Clone, Debug)]
pub struct Transition {
    /// The state that the claim must still be in. When it isn't, nothing changes.
    pub from: State,
    /// The mark that it must still have: a command that says `sending` while it is being judged must not be overlooked.
    pub mark: Option<Mark>,
    /// What it becomes, and why.
    pub to: Ended,
    /// The events to leave, in order.
    pub events: Vec<NewEvent>,
    /// Who does it.
    pub actor: String,
    /// The result that later arrivals are given instead of what was recorded.
    pub result: Option<NewResult>,
}

impl Transition {
    /// Makes a change of this claim as it was read, without events.
    pub fn of(claim: &Claim, to: Ended, actor: String) -> Transition {
        Transition { from: claim.state, mark: claim.mark, to, events: Vec::new(), actor, result: None }
    }

    /// Adds an event.
    pub fn event(mut self, kind: EventKind, detail: Option<String>) -> Transition {
        self.events.push(NewEvent { kind, detail });
        self
    }
}

/// A result that is stated for a claim whose command left none: by a person, a probe or a mark.
#[derive(Clone, Debug)]
pub struct NewResult {
    /// The exit code.
    pub exit_code: i32,
    /// What was printed.
    pub output: NewOutput,
}

/// The output of a stated result. What was recorded stays in the store in any case.
#[derive(Clone, Debug)]
pub enum NewOutput {
    /// What was recorded.
    Recorded,
    /// This in place of the recorded standard output.
    Stdout(Vec<u8>),
    /// This as standard output, and nothing else.
    Only {
        /// The bytes.
        stdout: Vec<u8>,
        /// How many more there were.
        missing: i64,
    },
}

/// What became of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// It is recorded, or was before.
    Recorded,
    /// There is no such claim, or the token is not that attempt's.
    NotThisAttempt,
    /// The attempt is over; its claim is in this state.
    Over(State),
    /// It has marked that it landed, and nothing undoes that.
    HasLanded,
}

/// Which claims to list. Every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Any of these states; empty: any state.
    pub states: Vec<State>,
    /// Exactly this who.
    pub who: Option<String>,
    /// Exactly this conversation.
    pub conv: Option<String>,
    /// Exactly this tool.
    pub tool: Option<String>,
    /// Claimed at or after this time.
    pub since: Option<Timestamp>,
    /// Claimed before this time.
    pub before: Option<Timestamp>,
    /// No steps of other calls, but for those that are held: one that waits for a person must not be missed.
    pub without_steps: bool,
    /// At most this many, newest first; `None`: all.
    pub limit: Option<u64>,
}

/// A claim in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The claim.
    pub claim: Claim,
    /// How many arrivals it has seen, its own run included.
    pub arrivals: i64,
}

/// What an id named.
#[derive(Clone, Debug)]
pub enum Found {
    /// One claim: by number, or the newest of the one key that the prefix fits.
    Claim(Box<Claim>),
    /// Nothing.
    Nothing,
    /// A prefix that fits several keys.
    Ambiguous,
}

/// How somebody names a claim: its number, or `key:` and a unique prefix of its key (design §10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimRef {
    /// The claim's number.
    Id(ClaimId),
    /// Lower-case hex digits, 1 to 64 of them.
    KeyPrefix(String),
}

/// Which output of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What a replay gives: a stated result, where there is one.
    Result,
    /// What its command printed.
    Printed,
    /// The result that was stated in its place.
    Stated,
}

/// A store of claims.
pub trait Store {
    /// Tells whether this opening made the store, at a place that somebody named: a mistyped one would be another ledger.
    fn made_where_told(&self) -> bool {
        false
    }

    /// Returns the claim that holds the key. Reads only, and takes no lock that a writer could hold.
    fn holder(&mut self, key: &Key) -> Result<Option<Claim>, StoreError>;

    /// Returns a number below that of every attempt of the key that is claimed from now on, 0 in an empty store: for
    /// [`NewClaim::seen`].
    fn newest(&mut self, key: &Key) -> Result<ClaimId, StoreError>;

    /// Inserts the claim unless the key is held or an attempt was missed; the insert is the arbiter. Recorded, with its `run` event.
    ///
    /// In the same transaction it releases the claim in whose place the new one comes, where it comes in one's. If that has
    /// changed since it was judged, nothing is inserted.
    fn claim(&mut self, new: &NewClaim) -> Result<Claimed, StoreError>;

    /// Returns the claim that was made with this very lock, where there is one: what came of a claim whose answer was lost.
    fn made_with(&mut self, key: &Key, lock: LockPlace) -> Result<Option<Claim>, StoreError>;

    /// Shows from now on that the owner of this claim lives, where many hosts share the store: its command has started. Ends
    /// with [`Store::leave_off`] and with this process.
    fn attend(&mut self, id: ClaimId);

    /// Ends what works in the background for a running attempt. Returns the output that isn't known to be recorded yet, in
    /// order: what comes after it belongs behind it.
    fn leave_off(&mut self) -> Vec<Chunk>;

    /// Sleeps until a claim isn't running any more as it was read, or until `at_most` has passed; it may wake early.
    fn wait_for_change(&mut self, claim: &Claim, at_most: Duration) -> Result<(), StoreError>;

    /// Returns a claim by its number.
    fn get(&mut self, id: ClaimId) -> Result<Option<Claim>, StoreError>;

    /// Appends output of a running attempt, in order, and tells how many bytes are missing so far. Not synced.
    ///
    /// `wait`: whether to wait for other writers; otherwise [`StoreError::Busy`] comes at once where there are some.
    fn append_output(&mut self, id: ClaimId, chunks: &[Chunk], missing: i64, wait: bool) -> Result<(), StoreError>;

    /// Records an attempt's end and the rest of its output. A held claim that its own owner comes back to takes the
    /// outcome too (a recorded truth that comes late still counts); what a person decided stays as it is.
    fn finish(&mut self, id: ClaimId, finish: &Finish, rest: &[Chunk]) -> Result<Finished, StoreError>;

    /// Tells whether this very end of an attempt has been recorded, as its outcome or in its history: what came of a `finish`
    /// whose answer was lost, or after which its caller was killed. An attempt has one owner, and that one end.
    fn has_recorded(&mut self, id: ClaimId, finish: &Finish) -> Result<bool, StoreError>;

    /// Bounds how long everything waits from now on: for other writers, for another program's lock, for a server. What comes
    /// then is an error that [may pass](StoreError::may_pass). `None`: as long as is usual.
    fn set_patience(&mut self, at_most: Option<Duration>);

    /// Records a change of state if the claim is still in the state it is changed from; tells whether it was.
    fn transition(&mut self, id: ClaimId, transition: &Transition) -> Result<bool, StoreError>;

    /// Records several changes of state at once: all of those whose claim is still in the state it is changed from. Returns
    /// which were not.
    fn transitions(&mut self, changes: &[(ClaimId, Transition)]) -> Result<Vec<ClaimId>, StoreError>;

    /// Records what a command says of its write, where the claim is running, or is held without an end of its own, and the
    /// token is the attempt's.
    fn mark(&mut self, from: &Enclosing, mark: Mark, actor: &str) -> Result<Marked, StoreError>;

    /// Adds a member to the group of an attempt that is open, under a name of its own. Recorded.
    fn emit(&mut self, from: &Enclosing, name: &str, data: Option<&str>) -> Result<Emitted, StoreError>;

    /// Adds a call to the group of the attempt whose command came to it, if that is open and doesn't have it. Recorded.
    fn join(&mut self, enclosing: &Enclosing, step: &Key) -> Result<(), StoreError>;

    /// Returns the members of an attempt's group, in order.
    fn group(&mut self, id: ClaimId) -> Result<Vec<Member>, StoreError>;

    /// Returns the steps of an attempt's group whose outcome is unknown: that run or are held. Not those that have this very
    /// call below them: what they wait for is itself.
    fn open_steps(&mut self, id: ClaimId) -> Result<Vec<ClaimId>, StoreError>;

    /// Tells whether an attempt was sent again in place of one whose outcome is still unknown (design §7, `--resend-within`).
    /// Unknown claim: no.
    fn earlier_is_unknown(&mut self, id: ClaimId) -> Result<bool, StoreError>;

    /// Returns the claims that are held for a step.
    fn held_for(&mut self, step: &Key) -> Result<Vec<Claim>, StoreError>;

    /// Returns how often the target was asked about an attempt.
    fn times_asked(&mut self, id: ClaimId) -> Result<i64, StoreError>;

    /// Leaves an event that changes nothing. Recorded.
    fn leave(&mut self, id: ClaimId, event: &NewEvent, actor: &str) -> Result<(), StoreError>;

    /// Leaves an event of an arrival that ran nothing. Cheap: it waits for no writer.
    fn arrived(&mut self, id: ClaimId, kind: EventKind, actor: &str) -> Result<(), StoreError>;

    /// Does the store's housekeeping, where it is due. Called while nobody waits: as the command runs.
    fn upkeep(&mut self) -> Result<(), StoreError>;

    /// Makes the store's log short again after a large output: the next opening reads all of it.
    fn shrink(&mut self) -> Result<(), StoreError>;

    /// Finds the claim that somebody named.
    fn find(&mut self, claim: &ClaimRef) -> Result<Found, StoreError>;

    /// Lists claims, newest first, with arrivals up to date.
    fn list(&mut self, filter: &Filter) -> Result<Vec<Listed>, StoreError>;

    /// Returns how many claims fit, whatever the filter's limit is, but counts no further than to `most`. Reads only.
    fn count(&mut self, filter: &Filter, most: u64) -> Result<u64, StoreError>;

    /// Returns the claims that fit, newest first. Reads only, so it waits for no writer.
    fn claims(&mut self, filter: &Filter) -> Result<Vec<Claim>, StoreError>;

    /// Returns every attempt of a key, oldest first.
    fn attempts(&mut self, key: &Key) -> Result<Vec<Claim>, StoreError>;

    /// Returns the events of all attempts of a key, oldest first, with arrivals up to date.
    fn events(&mut self, key: &Key) -> Result<Vec<Event>, StoreError>;

    /// Hands the output of an attempt to `visit`, in order, and stops where `visit` fails.
    fn output(
        &mut self,
        id: ClaimId,
        which: Which,
        visit: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, StoreError>;

    /// The same of a result, for an arrival that it is replayed to: its event is left, as [`Store::arrived`] does.
    fn replay(
        &mut self,
        id: ClaimId,
        actor: &str,
        visit: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, StoreError> {
        // That the event can't be left is no reason to keep the result back.
        let _ = self.arrived(id, EventKind::Replay, actor);
        self.output(id, Which::Result, visit)
    }

    /// Counts what the claims of this who, conv and tool have seen since then, arrivals up to date. States, steps and limit
    /// don't count.
    fn stats(&mut self, filter: &Filter) -> Result<Stats, StoreError>;

    /// Prunes in small transactions, and tells `reached` after each how far it is. What it was told of stays pruned
    /// whatever comes after it, a kill too.
    ///
    /// The newest claim stays, whatever its age, since its number would be given again. So do every attempt of a key that is
    /// held or running, the newest attempt of a step whose group stays, and a group a step of which is held or running.
    fn prune(&mut self, pruning: &Pruning, reached: &mut dyn FnMut(&Reached)) -> Result<Pruned, StoreError>;

    /// Gives what is free within the store back to the file system, in small transactions; tells `left` how many bytes are
    /// still to go.
    fn give_back(&mut self, left: &mut dyn FnMut(u64)) -> Result<Space, StoreError>;

    /// Looks at what is in effect in the store, and whether it is whole.
    fn examine(&mut self, integrity: Integrity) -> Result<Vec<Finding>, StoreError>;

    /// Tells whether `ancestor`, or another attempt of its key, is `claim` or started it, directly or through steps. (*P runs S
    /// and is killed; P's second attempt waits for S; S calls P.*)
    fn encloses(&mut self, ancestor: ClaimId, claim: ClaimId) -> Result<bool, StoreError>;

    /// Returns when the key's command was first started, over all attempts.
    fn first_start(&mut self, key: &Key) -> Result<Option<Moment>, StoreError>;

    /// Returns the present moment by the store's own clock.
    fn now(&mut self) -> Result<Moment, StoreError>;
}
