//! What the contract allows, worked out for a model that knows the truth: whether the target has taken a write.
//!
//! - **Two commands** of one key never live at a time, unless a person has decided about the earlier attempt. Neither a
//!   window (`--resend-within`) nor `--rerun-if-interrupted` nor a probe frees a key whose command may live (G2, G6).
//! - **A second send** after a first one that has reached the target needs somebody's word: a person's, on the earlier
//!   attempt or one between the two; the arrival's own `--resend-within`, the window open in the moment of the insert; or the
//!   arrival's own `--rerun-if-interrupted`, both local, the earlier owner killed without an end that it recorded or kept (G3).
//!   That a call is safe to run again holds for good, so that one such word serves those who come after it; that the target
//!   dedupes holds for a time, so that each resend needs its own.
//! - **Released as not landed**: only what has not landed and can't land any more, a person's word aside. A command that asks
//!   before it sends (`--marks`) and is refused can't (G3, G6).
//! - **Released as unknown**: only in the moment in which the one who bears that takes its place.
//! - **A replay** gives back a recorded outcome, and a true one, a person's word aside (G4).
//! - **Who waited** for an attempt, read it as running, or had looked before it began, never becomes the owner of another one
//!   once that has left an outcome of its own that is known (§5). Somebody is there from the moment in which it reads the
//!   newest number, or a claim: before that, nothing tells it from an arrival that comes later. The newest attempt that it was
//!   there for is the one that answers it, and one that it has found without an end sends it back to the start.
//! - **History**: no row goes away, none goes back, a final result and an exit status stay (G7).
//! - **Everybody ends**: where nothing more goes wrong, each way leads to an answer for each arrival.
//!
//! Commands keep their own promises, since idem relies on them: exit 0 has landed, `--not-landed-exit` has not, a local one
//! fails only before it has written, one with `--marks` sends after `idem mark sending` has returned 0, and then only. A target
//! that dedupes doesn't refuse what it has. Probes tell the truth of this moment, or nothing.

use super::world::{Bears, Command, Row, Stored, World};
use idem::domain::claim::{Mark, Outcome, State};

/// A promise that was broken. The numbers are those of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    TwoCommands(usize, usize),
    SentTwice(usize, usize),
    FalselyReleased(usize),
    FreedUnknown(usize),
    TwoHolders(usize, usize),
    FalseReplay(usize),
    WaiterRan(usize, usize),
    Rewritten(usize),
    /// Nothing can happen any more, and somebody has no answer.
    Stuck,
    /// Steps that lead to where they came from.
    Endless,
}

impl Broken {
    /// The promise, and what became of it.
    pub(crate) fn words(self) -> String {
        match self {
            Broken::TwoCommands(a, b) => format!("G2: the commands of claims {a} and {b} live at the same time"),
            Broken::SentTwice(a, b) => {
                format!("G3: the write of claim {a} was sent again by claim {b}, and nobody bore that")
            }
            Broken::FalselyReleased(id) => format!("G3: claim {id} is released as not landed, and it has or still may"),
            Broken::FreedUnknown(id) => format!("G3: claim {id} was freed though its outcome is unknown"),
            Broken::TwoHolders(a, b) => format!("G2: claims {a} and {b} hold the key together"),
            Broken::FalseReplay(id) => format!("G4: claim {id} was replayed, and that is no outcome that was recorded"),
            Broken::WaiterRan(a, b) => format!("§5: claim {b} was made by an arrival that was there for claim {a}"),
            Broken::Rewritten(id) => format!("G7: the history of claim {id} was overwritten"),
            Broken::Stuck => "nobody can go on, and somebody has no answer".to_owned(),
            Broken::Endless => "somebody may go on for ever".to_owned(),
        }
    }
}

/// Whether an attempt's command may still send, whatever the store says to it.
fn may_send(world: &World, id: usize) -> bool {
    let row = world.row(id);
    match row.command {
        Command::Fresh => !row.stored.marks,
        Command::MaySend => true,
        Command::NotStarted => is_about_to_start(world, id),
        _ => false,
    }
}

fn is_about_to_start(world: &World, id: usize) -> bool {
    let row = world.row(id);
    row.command == Command::NotStarted && world.arrivals[row.by].at == super::world::At::Spawn(id)
}

/// Whether a person has decided about an attempt from this one on, before that one.
fn person_between(world: &World, from: usize, to: usize) -> bool {
    (from..to).any(|id| world.row(id).person)
}

/// Looks at the moment in which a command starts.
pub(crate) fn at_start(world: &World, id: usize) -> Option<Broken> {
    let lives = |row: &Row| row.command.lives();
    let other = (1..=world.rows.len()).find(|&other| {
        let earlier = other.min(id);
        other != id && lives(world.row(other)) && !world.row(earlier).person
    })?;
    Some(Broken::TwoCommands(other.min(id), other.max(id)))
}

/// Looks at the moment in which the target takes a write.
pub(crate) fn at_send(world: &World, id: usize) -> Option<Broken> {
    let other = (1..=world.rows.len()).find(|&other| {
        let (earlier, later) = (other.min(id), other.max(id));
        let mut words = (earlier + 1..=later).map(|row| (row, world.row(row).bears));
        let said = words.any(|(row, bears)| bears == Bears::Rerun || (bears == Bears::Resend && row == later));
        other != id && world.row(other).sent && !said && !person_between(world, earlier, later)
    })?;
    Some(Broken::SentTwice(other.min(id), other.max(id)))
}

/// Looks at the moment in which a claim is inserted.
pub(crate) fn at_insert(world: &World, there: u8, id: usize) -> Option<Broken> {
    if let Some(other) = (1..id).find(|&other| world.row(other).stored.state.holds_key()) {
        return Some(Broken::TwoHolders(other, id));
    }
    let newest = (1..id).rev().find(|other| there & 1 << other != 0)?;
    let row = world.row(newest);
    let known = row.own_end && row.stored.outcome != Outcome::Unknown;
    (known && !row.person).then_some(Broken::WaiterRan(newest, id))
}

/// Looks at a replay of what was read.
pub(crate) fn at_replay(world: &World, seen: super::world::Seen) -> Option<Broken> {
    let row = world.row(seen.id);
    let said = seen.stored;
    let is_true = match said.outcome {
        Outcome::Landed => world.has_landed(),
        Outcome::NotLanded => !row.sent,
        Outcome::Unknown => false,
    };
    let fine = said.has_end && (is_true || row.person);
    (!fine).then_some(Broken::FalseReplay(seen.id))
}

/// Looks at what a write to the store has made of a row. `borne`: another attempt takes its place in this very moment.
pub(crate) fn at_change(world: &World, id: usize, was: &Stored, borne: bool) -> Option<Broken> {
    let row = world.row(id);
    let now = &row.stored;
    use State::{Cleared, Completed, Expired, Held, Released, Running};
    let goes_on = match (was.state, now.state) {
        (before, after) if before == after => {
            let final_one = before == Completed && (was.outcome != now.outcome || was.has_end != now.has_end);
            // What a person said of a freed claim gives way to its owner's own end; the event of the word stays.
            let late = row.person && !was.has_end && now.has_end;
            !final_one && (was.outcome == Outcome::Unknown || was.outcome == now.outcome || late)
        }
        (Running, _) => true,
        (Held, Completed | Released | Cleared) | (Completed, Cleared | Expired) => true,
        _ => false,
    };
    let kept = (!was.has_end || now.has_end) && (was.mark != Some(Mark::Landed) || now.mark == was.mark);
    if !goes_on || !kept {
        return Some(Broken::Rewritten(id));
    }
    if was.state.holds_key() && now.state == Released && !row.person {
        if now.outcome == Outcome::Unknown {
            return (!borne).then_some(Broken::FreedUnknown(id));
        }
        if row.sent || may_send(world, id) {
            return Some(Broken::FalselyReleased(id));
        }
    }
    None
}
