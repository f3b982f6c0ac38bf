//! What can happen beside the arrivals: commands, deaths, hosts that aren't seen, time, and a person.

use super::contract;
use super::steps::{Step, Who, let_go, of_arrival};
use super::store;
use super::world::{At, Bears, Command, REFUSED, Scenario, To, Word, World};
use idem::domain::arrival::Liveness;
use idem::domain::claim::{Effect, Mark, Outcome, Reason, State};

/// Everything that can happen next.
pub(crate) fn next(of: &Scenario, world: &World) -> Vec<Step> {
    let mut steps = Vec::new();
    for me in 0..world.arrivals.len() {
        of_arrival(of, world, me, &mut steps);
        kill(of, world, me, &mut steps);
    }
    for id in 1..=world.rows.len() {
        command(of, world, id, &mut steps);
        sight(of, world, id, &mut steps);
    }
    person(of, world, &mut steps);
    if of.faults.time && world.window_open && of.profiles.iter().any(|profile| profile.resend) {
        let mut later = world.clone();
        later.window_open = false;
        steps.push(Step::new(Who::World, "the time of --resend-within runs out", 0, later).fault());
    }
    steps
}

/// What a command does next, by its own promises.
fn command(of: &Scenario, world: &World, id: usize, steps: &mut Vec<Step>) {
    let row = world.row(id);
    let local = row.stored.effect == Effect::Local;
    // A target that dedupes doesn't refuse what it has.
    let deduped = row.bears == Bears::Resend && world.has_landed();
    let mut go = |what: &'static str, command: Command| {
        let mut world = world.clone();
        let row = world.row_mut(id);
        row.command = command;
        if let Command::Ended(_) = command {
            row.locked.1 = false;
        }
        let sends = command == Command::Sent && !row.sent;
        row.sent |= command == Command::Sent;
        let broken = if sends { contract::at_send(&world, id) } else { None };
        steps.push(Step::new(Who::Command(id), what, id, world).broken(broken));
    };
    match row.command {
        Command::NotStarted | Command::Ended(_) => return,
        Command::Fresh if row.stored.marks => go("fails before it sends: exit 1", Command::Ended(Some(1))),
        Command::Fresh | Command::MaySend => {
            go("sends: the target has it", Command::Sent);
            go("fails before it sends: exit 1", Command::Ended(Some(1)));
            if !local && !deduped {
                go("is refused by the target: exit 6", Command::Ended(Some(REFUSED)));
            }
        }
        Command::Sent | Command::Told => {
            go("exits with 0", Command::Ended(Some(0)));
            if !local {
                go("fails after it has sent: exit 1", Command::Ended(Some(1)));
            }
        }
        Command::Over => go("gives up: exit 1", Command::Ended(Some(1))),
    }
    if row.locked.1 && world.left.closed > 0 {
        let mut world = world.clone();
        world.left.closed -= 1;
        world.row_mut(id).locked.1 = false;
        steps.push(Step::new(Who::Command(id), "closes what it has inherited, the lock too", id, world).fault());
    }
    let marks = match row.command {
        Command::Fresh if row.stored.marks => Some((Mark::Sending, Command::MaySend, "marks `sending`")),
        Command::MaySend if row.stored.marks && !deduped => {
            Some((Mark::NotLanded, Command::Over, "marks `not-landed`"))
        }
        Command::Sent if row.stored.marks => Some((Mark::Landed, Command::Told, "marks `landed`")),
        _ => None,
    };
    if let Some((mark, then, what)) = marks {
        let mut world = world.clone();
        let was = world.row(id).stored;
        let taken = store::mark(of, &mut world, id, mark);
        world.row_mut(id).command = match mark {
            _ if taken => then,
            Mark::Sending | Mark::NotLanded => Command::Over,
            Mark::Landed => Command::Told,
        };
        let broken = contract::at_change(&world, id, &was, false);
        let what = if taken { what } else { "is told that the attempt is over, and sends no more" };
        steps.push(Step::new(Who::Command(id), what, id, world).broken(broken));
    }
}

/// Kills idem, its command, or both.
fn kill(of: &Scenario, world: &World, me: usize, steps: &mut Vec<Step>) {
    if world.left.deaths == 0 {
        return;
    }
    let host = of.profiles[me].host;
    let idem_lives = !matches!(world.arrivals[me].at, At::Away | At::Done(_) | At::Killed);
    let row = (1..=world.rows.len()).find(|&id| world.row(id).by == me);
    let command = row.filter(|&id| world.row(id).command.lives());
    if idem_lives {
        let mut after = world.clone();
        after.left.deaths -= 1;
        let_go(&mut after, me, host);
        if let Some(id) = row {
            after.row_mut(id).locked.0 = false;
        }
        after.arrivals[me].end(At::Killed);
        if let Some(id) = command {
            let mut both = after.clone();
            both.row_mut(id).command = Command::Ended(None);
            both.row_mut(id).locked.1 = false;
            steps.push(Step::new(Who::Arrival(me), "is killed, and its command with it", id, both).fault());
        }
        steps.push(Step::new(Who::Arrival(me), "is killed", row.unwrap_or(0), after).fault());
    }
    if let Some(id) = command {
        let row = world.row(id);
        // A local command's death undoes what it has done: so its caller says. Where idem is dead nobody counts on that.
        if row.stored.effect == Effect::Local && row.sent && idem_lives {
            return;
        }
        let mut after = world.clone();
        after.left.deaths -= 1;
        after.row_mut(id).command = Command::Ended(None);
        after.row_mut(id).locked.1 = false;
        steps.push(Step::new(Who::Command(id), "is killed", id, after).fault());
    }
}

/// Whether other hosts see the owner: one that is gone isn't seen any more, one that lives may be overlooked for a while.
fn sight(of: &Scenario, world: &World, id: usize, steps: &mut Vec<Step>) {
    let row = world.row(id);
    let far = of.shared && of.profiles.iter().any(|profile| profile.host != of.profiles[row.by].host);
    if !far || matches!(row.stored.state, State::Completed | State::Released | State::Cleared) {
        return;
    }
    let mut after = world.clone();
    after.row_mut(id).unseen = !row.unseen;
    let lives = world.owner_lives(id);
    match (row.unseen, lives) {
        (false, false) => steps.push(Step::new(Who::World, "the owner isn't seen any more", id, after)),
        (false, true) if world.left.unseen > 0 => {
            after.left.unseen -= 1;
            steps.push(Step::new(Who::World, "the owner isn't seen, though it lives", id, after).fault());
        }
        (true, true) => steps.push(Step::new(Who::World, "the owner is seen again", id, after).fault()),
        _ => {}
    }
}

/// A person reads a claim, decides, and says so: `clear`, `resolve`, and both with `--force`.
fn person(of: &Scenario, world: &World, steps: &mut Vec<Step>) {
    if let Some(word) = world.word {
        let mut after = world.clone();
        after.word = None;
        after.row_mut(word.of.id).person = true;
        let (changed, broken) = store::change(of, &mut after, word.of, word.to, false);
        if !changed {
            after.row_mut(word.of.id).person = world.row(word.of.id).person;
        }
        let what = if changed { "decides" } else { "is told that the claim has changed" };
        steps.push(Step::new(Who::Person, what, word.of.id, after).to(word.to).broken(broken));
        return;
    }
    if world.left.words == 0 || world.rows.is_empty() {
        return;
    }
    let mut looked = world.clone();
    looked.left.words -= 1;
    if let Some(broken) = store::deliver(of, &mut looked, 0) {
        steps.push(Step::new(Who::Person, "comes, and what is kept is recorded", 0, looked).broken(Some(broken)));
        return;
    }
    let Some(seen) = looked.holder() else { return };
    let forced = seen.stored.state == State::Running && of.liveness(&looked, seen.id, 0) != Liveness::Dead;
    let mut say = |what, to| {
        let mut world = looked.clone();
        world.word = Some(Word { of: seen, to });
        steps.push(Step::new(Who::Person, what, seen.id, world).fault());
    };
    let what = if forced { "is to clear the claim, with --force" } else { "is to clear the claim" };
    say(what, To(State::Cleared, seen.stored.outcome, Reason::Cleared));
    if seen.stored.state == State::Completed {
        return;
    }
    let (what, to) = if world.has_landed() {
        ("is to resolve it as landed", To(State::Completed, Outcome::Landed, Reason::Resolved))
    } else {
        ("is to resolve it as not landed", To(State::Released, Outcome::NotLanded, Reason::Resolved))
    };
    say(what, to);
}
