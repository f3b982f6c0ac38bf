//! The record of an attempt's end, whatever it takes: nobody could look the outcome up.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::own::{Owned, end_terms};
use super::{Arrival, options};
use crate::domain::claim::Chunk;
use crate::domain::end::{End, Ended};
use crate::domain::pending::Pending;
use crate::domain::store::{Finish, Finished, StoreError};
use crate::liveness::AttemptLock;
use crate::store::pending::{Kept, keep};
use crate::view::words;

/// How long the first try may wait for others: a queue of writers is no trouble, and nothing is said about it.
const FIRST_TRY: Duration = Duration::from_secs(3);

/// How long each later one may. A signal is heeded in between.
const LATER_TRY: Duration = Duration::from_millis(500);

/// How long the first try waits even where nothing is to be waited for: other idems write for milliseconds.
const A_TURN: Duration = Duration::from_millis(200);

/// The first pause between two tries; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// What became of the record.
#[derive(Debug)]
pub(super) enum Recording {
    /// The store has it.
    Done {
        finished: Finished,
        /// Whether the rest of the output had to be left out.
        dropped: bool,
    },
    /// This file has it, and the store doesn't, for this reason.
    Kept(PathBuf, StoreError),
    /// Nobody has it.
    Lost(StoreError),
}

/// Records the end of an attempt. What the store can't take within `--record-wait` is kept on this host.
///
/// When this returns, whoever looks finds the end, in the store or beside it: the owner may let go of its lock.
pub(super) fn record(arrival: &mut Arrival<'_>, owned: &Owned, finish: Finish, rest: Vec<Chunk>) -> Recording {
    let wait = options::record_wait(arrival.args);
    let until = Instant::now().checked_add(wait);
    arrival.store.set_patience(Some(wait.clamp(A_TURN, FIRST_TRY)));
    match arrival.store.finish(owned.id, &finish, &rest) {
        Ok(finished) => {
            arrival.store.set_patience(None);
            Recording::Done { finished, dropped: false }
        }
        Err(error) => {
            let pending = Pending {
                store: arrival.location.identity(),
                key: arrival.call.key,
                id: Some(owned.id),
                lock: owned.lock.place(),
                at: SystemTime::now().into(),
                finish,
                rest,
            };
            // What is asked of the store from here on waits for nobody.
            arrival.store.set_patience(Some(LATER_TRY));
            let recording = persist(arrival, owned, &pending, error, until);
            if matches!(recording, Recording::Done { .. }) {
                arrival.store.set_patience(None);
            }
            recording
        }
    }
}

/// Keeps it on this host that an attempt never started whose claim nobody knows to be there: the next idem here releases it,
/// where it is. Where that can't be kept either, the claim is held, as one whose owner died.
pub(super) fn keep_unstarted(arrival: &Arrival<'_>, lock: &AttemptLock) {
    let finish = Finish {
        end: End::NotStarted,
        terms: end_terms(arrival),
        exit_code: None,
        signal: None,
        missing: 0,
        recorded: 0,
        actor: arrival.actor.clone(),
    };
    let pending = Pending {
        store: arrival.location.identity(),
        key: arrival.call.key,
        id: None,
        lock: lock.place(),
        at: SystemTime::now().into(),
        finish,
        rest: Vec::new(),
    };
    let _ = keep(&arrival.location, &pending);
}

/// Goes on after the store has refused the end.
///
/// It is kept first and then waited for: *the disk is full, the owner waits for room, and somebody who has lost patience
/// kills it.* The kept file is this process's own until it lets go of it, so nobody else records it meanwhile.
fn persist(
    arrival: &mut Arrival<'_>,
    owned: &Owned,
    pending: &Pending,
    error: StoreError,
    until: Option<Instant>,
) -> Recording {
    let kept = keep(&arrival.location, pending).ok();
    let tried =
        if error.may_pass() { try_on(arrival, owned, pending, error, until, kept.as_ref()) } else { Err(error) };
    let error = match tried {
        Ok(finished) => return done(kept, finished, false),
        Err(error) => error,
    };
    // Only now is the rest of the output given up, since until now somebody might have made room: of the two the outcome is
    // what nobody can look up, and the output was passed on. Rather here than whole in the kept file: the store is where
    // everybody looks, from another home too, and who waits for this call goes on with an outcome in it.
    if matches!(error, StoreError::Full(_)) && !pending.rest.is_empty() {
        let without = without_rest(pending);
        if let Ok(finished) = arrival.store.finish(owned.id, &without, &[]) {
            return done(kept, finished, true);
        }
    }
    // The place that had no room before may have some by now.
    match kept.or_else(|| keep(&arrival.location, pending).ok()) {
        Some(kept) => Recording::Kept(kept.path().to_owned(), error),
        None => Recording::Lost(error),
    }
}

/// Removes what was kept of an end that the store has now.
fn done(kept: Option<Kept>, finished: Finished, dropped: bool) -> Recording {
    // One that stays behind is found to be recorded.
    let _ = kept.map(Kept::remove);
    Recording::Done { finished, dropped }
}

/// Tries again until the store takes the end, the time is over, or a signal says that it has lasted long enough.
fn try_on(
    arrival: &mut Arrival<'_>,
    owned: &Owned,
    pending: &Pending,
    mut error: StoreError,
    until: Option<Instant>,
    kept: Option<&Kept>,
) -> Result<Finished, StoreError> {
    let left = || until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
    if left().is_zero() {
        return Err(error);
    }
    let file = kept.map(|kept| kept.path().display().to_string());
    let wait = options::record_wait(arrival.args);
    arrival.ui.note(&words::waiting_for_store(&error.to_string(), wait, file.as_deref()));
    let mut pause = FIRST_PAUSE;
    loop {
        if !owned.signals.sleep(pause.min(left())) {
            // It has had its effect: the command had ended.
            let _ = owned.signals.take_pending();
            return Err(error);
        }
        match try_again(arrival, owned, pending) {
            Err(again) if again.may_pass() && !left().is_zero() => error = again,
            tried => return tried,
        }
        pause = (2 * pause).min(MOST_PAUSE);
    }
}

/// Records the end, unless an earlier try has although its answer said otherwise: a second record would be a late outcome.
fn try_again(arrival: &mut Arrival<'_>, owned: &Owned, pending: &Pending) -> Result<Finished, StoreError> {
    let id = owned.id;
    if arrival.store.has_recorded(id, &pending.finish)?
        && let Some(claim) = arrival.store.get(id)?
    {
        return Ok(match claim.reason {
            Some(reason) => Finished::Recorded(Ended { state: claim.state, outcome: claim.outcome, reason }),
            None => Finished::Late(claim.state),
        });
    }
    arrival.store.finish(id, &pending.finish, &pending.rest)
}

/// Returns the end of an attempt whose rest of the output is given up.
fn without_rest(pending: &Pending) -> Finish {
    let dropped: usize = pending.rest.iter().map(|chunk| chunk.data.len()).sum();
    let dropped = i64::try_from(dropped).unwrap_or(i64::MAX);
    let finish = &pending.finish;
    Finish { missing: finish.missing.saturating_add(dropped), recorded: finish.recorded - dropped, ..finish.clone() }
}
