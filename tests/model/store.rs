//! The store of the model: each function is one transaction, as in `src/store`.

use super::contract::{self, Broken};
use super::world::{At, Bears, Command, Ending, Guard, Place, Row, Scenario, Seen, Stored, To, World};
use idem::domain::claim::{Effect, Mark, Outcome, Reason, State};
use idem::domain::end::{Open, judge_end};

/// What came of an insert.
pub(crate) enum Claimed {
    Inserted(usize),
    Taken(Seen),
    Missed(Seen),
}

/// Records an attempt's end, as `Store::finish` does.
pub(crate) fn finish(of: &Scenario, world: &mut World, id: usize, end: Ending) -> Option<Broken> {
    let by = world.row(id).by;
    let was = world.row(id).stored;
    let claim = of.claim(world.read(id));
    let open = Open { step: false, earlier: of.earlier_is_unknown(world, id) };
    let row = world.row_mut(id);
    let mark = if of.guard == Some(Guard::FinishedMark) { None } else { was.mark };
    let ended = judge_end(&of.ends[by], end.end(), mark, open);
    row.own_end = true;
    let open = claim.state == State::Running || claim.is_held_without_end();
    if open || of.guard == Some(Guard::LateEnd) {
        set(&mut row.stored, to(of, ended.into()));
        row.stored.has_end = true;
    } else if matches!(was.state, State::Cleared | State::Released) && !was.has_end {
        row.stored.has_end = true;
        if ended.outcome != Outcome::Unknown {
            row.stored.outcome = ended.outcome;
        }
    }
    contract::at_change(world, id, &was, false)
}

/// Changes a claim's state if it is still what it was read as, as `Store::transition` does. Tells whether it was.
pub(crate) fn change(of: &Scenario, world: &mut World, seen: Seen, change: To, borne: bool) -> (bool, Option<Broken>) {
    let change = to(of, change);
    let row = world.row_mut(seen.id);
    let was = row.stored;
    let state = was.state == seen.stored.state || of.guard == Some(Guard::ComparedState);
    let mark = was.mark == seen.stored.mark || matches!(of.guard, Some(Guard::ComparedMark | Guard::ComparedState));
    if !state || !mark {
        return (false, None);
    }
    set(&mut row.stored, change);
    if change.0 == State::Completed {
        row.stored.has_end = true;
    }
    (true, contract::at_change(world, seen.id, &was, borne))
}

/// Where the hold is taken away, what would be held is released.
fn to(of: &Scenario, change: To) -> To {
    match change {
        To(State::Held, outcome, reason) if of.guard == Some(Guard::Hold) => To(State::Released, outcome, reason),
        other => other,
    }
}

fn set(stored: &mut Stored, To(state, outcome, reason): To) {
    stored.state = state;
    stored.outcome = outcome;
    stored.reason = Some(reason);
}

/// Inserts a claim, as `Store::claim` does.
pub(crate) fn claim(of: &Scenario, world: &mut World, by: usize, place: Option<Place>) -> (Claimed, Option<Broken>) {
    let newest = world.rows.len();
    let missed = world.arrivals[by].seen.is_some_and(|seen| newest > seen);
    if missed && !matches!(of.guard, Some(Guard::Missed | Guard::Unique)) {
        let seen = world.read(newest);
        let claimed = if seen.stored.state.holds_key() { Claimed::Taken(seen) } else { Claimed::Missed(seen) };
        return (claimed, None);
    }
    let mut bears = Bears::Nothing;
    if let Some(place) = place.filter(|place| !place.resend || world.window_open) {
        bears = match take_place(of, world, by, place, true) {
            Ok(Some(bears)) => bears,
            Ok(None) if of.guard == Some(Guard::ChangedIsPast) => Bears::Nothing,
            Ok(None) => {
                // It isn't what it was judged by any more.
                let claimed = world.holder().map_or(Claimed::Missed(world.read(place.seen.id)), Claimed::Taken);
                return (claimed, None);
            }
            Err(broken) => return (Claimed::Missed(place.seen), Some(broken)),
        };
    }
    insert(of, world, by, bears)
}

/// Releases the claim in whose place a new one comes. Returns what its arrival bears, by what is true; none where the claim
/// has changed.
pub(crate) fn take_place(
    of: &Scenario,
    world: &mut World,
    by: usize,
    place: Place,
    borne: bool,
) -> Result<Option<Bears>, Broken> {
    let id = place.seen.id;
    let reason = if place.resend { Reason::Resent } else { Reason::Interrupted };
    let row = *world.row(id);
    let gone = !row.command.lives() && !world.owner_lives(id) && !row.own_end && row.pending.is_none();
    let (changed, broken) = change(of, world, place.seen, To(State::Released, Outcome::Unknown, reason), borne);
    if let Some(broken) = broken {
        return Err(broken);
    }
    if changed {
        world.arrivals[by].start_anew(id);
    }
    let local = row.stored.effect == Effect::Local && of.profiles[by].terms.effect == Effect::Local;
    Ok(changed.then_some(match place.resend {
        true if of.profiles[by].resend && world.window_open => Bears::Resend,
        false if of.profiles[by].terms.rerun_if_interrupted && local && gone => Bears::Rerun,
        _ => Bears::Nothing,
    }))
}

/// The insert itself: the unique index is the arbiter.
pub(crate) fn insert(of: &Scenario, world: &mut World, by: usize, bears: Bears) -> (Claimed, Option<Broken>) {
    if let Some(holder) = world.holder().filter(|_| !matches!(of.guard, Some(Guard::Index | Guard::Unique))) {
        return (Claimed::Taken(holder), None);
    }
    let profile = &of.profiles[by];
    let stored = Stored {
        state: State::Running,
        reason: None,
        outcome: Outcome::Unknown,
        effect: profile.terms.effect,
        mark: None,
        marks: profile.marks,
        probe: profile.terms.probe,
        has_end: false,
        asked: 0,
    };
    world.rows.push(Row {
        stored,
        by,
        locked: (of.guard != Some(Guard::LockFirst), false),
        asking: [None; 2],
        unseen: false,
        pending: None,
        command: Command::NotStarted,
        sent: false,
        person: false,
        own_end: false,
        bears,
    });
    let id = world.rows.len();
    for other in 0..world.arrivals.len() {
        let arrival = &mut world.arrivals[other];
        if other != by && arrival.seen.is_some() && !matches!(arrival.at, At::Done(_) | At::Killed) {
            arrival.there |= 1 << id;
        }
    }
    let broken = contract::at_insert(world, world.arrivals[by].there, id);
    (Claimed::Inserted(id), broken)
}

/// Records a mark, as `Store::mark` does. Tells whether it was taken.
pub(crate) fn mark(of: &Scenario, world: &mut World, id: usize, mark: Mark) -> bool {
    let claim = of.claim(world.read(id));
    let open = claim.state == State::Running || claim.is_held_without_end();
    let row = world.row_mut(id);
    if (!open && of.guard != Some(Guard::RefusedMark)) || row.stored.mark == Some(Mark::Landed) {
        return false;
    }
    row.stored.mark = Some(mark);
    true
}

/// Records the ends that are kept beside the store, as whoever opens it does first. Those whose owner is still at it are its own.
pub(crate) fn deliver(of: &Scenario, world: &mut World, host: usize) -> Option<Broken> {
    for id in 1..=world.rows.len() {
        let in_use = world.owner_lives(id);
        if let Some(end) = of.kept(world, id, host).filter(|_| !in_use) {
            world.row_mut(id).pending = None;
            let broken = finish(of, world, id, end);
            if broken.is_some() {
                return broken;
            }
        }
    }
    None
}
