//! What can happen next: the atomic steps of arrivals, in the order of `src/commands/run`.

use super::contract::{self, Broken};
use super::store::{self, Claimed};
use super::world::{Arrival, At, Command, Done, Ending, Guard, Place, Scenario, Seen, Stored, To, World};
use idem::domain::arrival::{Answered, Holder, Liveness, Past, ProbeFacts, Steps, Verdict, after_wait, judge};
use idem::domain::claim::{Mark, Outcome, Reason, State};
use idem::domain::end::{End, Open, by_marks, judge_end};
use idem::domain::probe::{answer, judge_answer};

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Arrival(usize),
    Command(usize),
    Person,
    World,
}

/// One step, and the world after it.
pub(crate) struct Step {
    pub(crate) who: Who,
    pub(crate) what: &'static str,
    /// The claim that it is about, or 0.
    pub(crate) of: usize,
    /// What that became.
    pub(crate) to: Option<To>,
    pub(crate) world: World,
    /// Whether something went wrong or somebody came from outside: nobody may rely on such a step.
    pub(crate) fault: bool,
    pub(crate) broken: Option<Broken>,
}

impl Step {
    pub(crate) fn new(who: Who, what: &'static str, of: usize, world: World) -> Step {
        Step { who, what, of, to: None, world, fault: false, broken: None }
    }

    pub(crate) fn fault(self) -> Step {
        Step { fault: true, ..self }
    }

    pub(crate) fn broken(self, broken: Option<Broken>) -> Step {
        Step { broken, ..self }
    }

    pub(crate) fn to(self, to: To) -> Step {
        Step { to: Some(to), ..self }
    }
}

/// Adds the steps of one arrival.
pub(crate) fn of_arrival(of: &Scenario, world: &World, me: usize, steps: &mut Vec<Step>) {
    Me { of, world, me, who: Who::Arrival(me) }.steps(steps);
}

struct Me<'a> {
    of: &'a Scenario,
    world: &'a World,
    me: usize,
    who: Who,
}

impl Me<'_> {
    fn steps(&self, steps: &mut Vec<Step>) {
        let arrival = &self.world.arrivals[self.me];
        match arrival.at {
            At::Away => self.come(steps),
            At::Look => steps.push(self.look(self.world.clone(), "looks who holds the key")),
            At::Judge(seen, past) => steps.push(self.judge(seen, past)),
            At::Wait(id) => self.wait(id, steps),
            At::Woken(id) => {
                steps.push(self.go("reads what became of the attempt that it waited for", id, self.past(id)));
            }
            At::WaitForProbe { of, for_attempt, asked } => self.wait_for_probe(of, for_attempt, asked, steps),
            At::Change(seen, to) => {
                let mut world = self.world.clone();
                let (changed, broken) = store::change(self.of, &mut world, seen, to, false);
                // Who read it as running was there for it.
                let past =
                    !changed && seen.stored.state == State::Running && self.of.guard != Some(Guard::ChangedIsPast);
                world.arrivals[self.me].at = match past {
                    true if self.of.guard == Some(Guard::ReadAgain) => At::Judge(seen, true),
                    true => At::Woken(seen.id),
                    false => At::Look,
                };
                if changed {
                    world.arrivals[self.me].start_anew(seen.id);
                }
                let what = if changed { "changes the claim" } else { "finds the claim changed meanwhile" };
                let step = Step::new(self.who, what, seen.id, world).broken(broken);
                steps.push(if changed { step.to(to) } else { step });
            }
            At::Own(place) => steps.push(self.own(place)),
            At::Insert(place) => steps.push(self.insert(place)),
            At::Apart => {
                let mut world = self.world.clone();
                let claimed = store::insert(self.of, &mut world, self.me, super::world::Bears::Resend);
                steps.push(self.claimed(world, claimed));
            }
            At::LateLock(id) => {
                let mut world = self.world.clone();
                world.row_mut(id).locked.0 = true;
                world.arrivals[self.me].at = At::Spawn(id);
                steps.push(Step::new(self.who, "takes the liveness lock", id, world));
            }
            At::Probe(seen) => steps.push(self.take_right(seen)),
            At::Ask(seen, may_live) => self.ask(seen, steps, |answer| At::Answer(seen, may_live, answer)),
            At::Answer(seen, may_live, told) => steps.push(self.record_answer(seen, may_live, told, false)),
            At::Spawn(id) => self.spawn(id, steps),
            At::Run(id) => {
                if let Command::Ended(code) = self.world.row(id).command {
                    let next = if self.of.guard == Some(Guard::EndFirst) {
                        At::FinishLate(id, Ending::Of(code))
                    } else {
                        At::Finish(id, Ending::Of(code))
                    };
                    let mut step = self.at("sees the command's end", id, next);
                    if self.of.guard == Some(Guard::EndFirst) {
                        step.world.row_mut(id).locked = (false, false);
                        step.what = "sees the command's end, and lets go of the lock";
                    }
                    steps.push(step);
                }
            }
            At::Finish(id, end) => self.finish(id, end, steps),
            At::FinishLate(id, end) => {
                let mut world = self.world.clone();
                let broken = store::finish(self.of, &mut world, id, end);
                world.arrivals[self.me].end(At::Done(Done::Ran));
                steps.push(Step::new(self.who, "records the end", id, world).broken(broken));
            }
            At::Keep(id, end) => {
                let mut step = self.at("keeps the end beside the store", id, At::Unlock(id, false));
                step.world.row_mut(id).pending = Some(end);
                steps.push(step);
            }
            At::KeepLate(id, end) => {
                let mut step = self.done("keeps the end beside the store", id, Done::Ran);
                step.world.row_mut(id).pending = Some(end);
                steps.push(step);
            }
            At::Unlock(id, asks) => {
                let mut step = if asks {
                    self.at("lets go of the lock", id, At::OwnAsk(id))
                } else {
                    self.done("lets go of the lock; it is done", id, Done::Ran)
                };
                if self.of.guard != Some(Guard::LetGo) {
                    step.world.row_mut(id).locked = (false, false);
                }
                steps.push(step);
            }
            At::OwnAsk(id) => {
                let seen = self.world.read(id);
                if seen.stored.state == State::Held {
                    self.ask(seen, steps, |answer| At::OwnAnswer(seen, answer));
                } else {
                    steps.push(self.done("finds that somebody has decided; it is done", id, Done::Ran));
                }
            }
            At::OwnAnswer(seen, told) => steps.push(self.record_answer(seen, false, told, true)),
            At::Done(_) | At::Killed => {}
        }
    }

    fn host(&self) -> usize {
        self.of.profiles[self.me].host
    }

    fn arrival(&self) -> &Arrival {
        &self.world.arrivals[self.me]
    }

    /// A step to this place in the program.
    fn at(&self, what: &'static str, of: usize, at: At) -> Step {
        self.go(what, of, Arrival { at, ..*self.arrival() })
    }

    fn go(&self, what: &'static str, of: usize, arrival: Arrival) -> Step {
        let mut world = self.world.clone();
        world.arrivals[self.me] = arrival;
        Step::new(self.who, what, of, world)
    }

    /// A step to the end: it lets go of all that it has.
    fn done(&self, what: &'static str, of: usize, answer: Done) -> Step {
        let mut world = self.world.clone();
        let_go(&mut world, self.me, self.host());
        world.arrivals[self.me].end(At::Done(answer));
        Step::new(self.who, what, of, world)
    }

    /// Comes, records what waits for the store, and looks. Those who are alike come in their order: which is which is nobody's
    /// matter.
    fn come(&self, steps: &mut Vec<Step>) {
        let alike = |&other: &usize| self.of.profiles[other] == self.of.profiles[self.me];
        if (0..self.me).rev().find(alike).is_some_and(|other| self.world.arrivals[other].at == At::Away) {
            return;
        }
        let mut world = self.world.clone();
        if let Some(broken) = store::deliver(self.of, &mut world, self.host()) {
            steps.push(Step::new(self.who, "comes and records what is kept", 0, world).broken(Some(broken)));
            return;
        }
        steps.push(self.look(world, "comes, and looks who holds the key"));
    }

    fn look(&self, mut world: World, what: &'static str) -> Step {
        let holder = world.holder();
        world.arrivals[self.me].at = match holder {
            Some(seen) => self.meet(seen),
            None => At::Own(None),
        };
        if let Some(seen) = holder.filter(|seen| seen.stored.state == State::Running) {
            world.arrivals[self.me].there |= 1 << seen.id;
        }
        Step::new(self.who, what, holder.map_or(0, |seen| seen.id), world)
    }

    /// A claim that began after this arrival had looked is one that it was there for.
    fn meet(&self, seen: Seen) -> At {
        At::Judge(seen, self.arrival().seen.is_some_and(|known| seen.id > known))
    }

    fn past(&self, id: usize) -> Arrival {
        let mut seen = self.world.read(id);
        if self.of.guard == Some(Guard::TrueReplay) {
            seen.stored = Stored { state: State::Completed, outcome: Outcome::Landed, has_end: true, ..seen.stored };
        }
        Arrival { at: At::Judge(seen, true), ..*self.arrival() }
    }

    /// Gathers the facts and judges, by the program's own rules.
    fn judge(&self, seen: Seen, past: bool) -> Step {
        let id = seen.id;
        let mut arrival = *self.arrival();
        arrival.seen = arrival.seen.max(Some(id));
        if past {
            arrival.waited = Some(id);
        }
        let profile = &self.of.profiles[self.me];
        let claim = self.of.claim(seen);
        let stored = seen.stored;
        if stored.state != State::Running && (!stored.has_end || stored.outcome == Outcome::Unknown) {
            arrival.start_anew(id);
        }
        let owner = if claim.may_have_owner() { self.of.liveness(self.world, id, self.host()) } else { Liveness::Dead };
        let holder = self.holder(seen, owner, &arrival);
        let verdict = if past {
            let stored = seen.stored;
            let past = Past { reason: stored.reason, outcome: stored.outcome, has_end: stored.has_end };
            after_wait(&holder, &past, &profile.terms)
        } else {
            judge(&holder, &profile.terms)
        };
        let follows = matches!(
            verdict,
            Verdict::Hold(_) | Verdict::Conclude(_) | Verdict::RunAgain(_) | Verdict::Probe | Verdict::Held
        );
        let may_be_kept = claim.state == State::Running || claim.is_held_without_end();
        let looks = follows && may_be_kept && self.of.guard != Some(Guard::PendingSeen);
        if let Some(end) = self.of.kept(self.world, id, self.host()).filter(|_| looks) {
            // What is kept is looked for again, now that the owner is known to be gone.
            let mut world = self.world.clone();
            world.row_mut(id).pending = None;
            let broken = store::finish(self.of, &mut world, id, end);
            let past = arrival.waited == Some(id) || seen.stored.state == State::Running;
            arrival.at = if past { At::Judge(world.read(id), true) } else { At::Look };
            world.arrivals[self.me] = arrival;
            return Step::new(self.who, "finds an end that is kept, and records it", id, world).broken(broken);
        }
        self.act(verdict, seen, arrival, owner)
    }

    fn holder(&self, seen: Seen, owner: Liveness, arrival: &Arrival) -> Holder {
        let stored = seen.stored;
        let held = stored.state == State::Held;
        let answered = match arrival.asked {
            Some((asked, own)) if held && asked == seen.id => {
                if own {
                    Answered::ByOwn
                } else {
                    Answered::ByOther
                }
            }
            _ => Answered::No,
        };
        let asking = self.world.row(seen.id).asking[self.host()];
        let profile = &self.of.profiles[self.me];
        Holder {
            state: stored.state,
            effect: stored.effect,
            same_command: true,
            encloses_arrival: false,
            owner,
            by_marks: by_marks(stored.marks, stored.mark),
            steps: Steps::NotAsked,
            earlier_is_unknown: self.of.earlier_is_unknown(self.world, seen.id),
            probe: ProbeFacts { stored: held && stored.probe, running: held && asking.is_some(), answered },
            in_window: held && profile.resend && self.world.window_open,
            is_over: false,
        }
    }

    /// Does what the verdict says.
    fn act(&self, verdict: Verdict, seen: Seen, mut arrival: Arrival, owner: Liveness) -> Step {
        let id = seen.id;
        let keeps_right = matches!(verdict, Verdict::Claim | Verdict::RunAgain(_) | Verdict::Conclude(_));
        let answered = match verdict {
            Verdict::Replay => Some(("replays", Done::Replay)),
            Verdict::Held => Some(("answers 121, held", Done::Held)),
            Verdict::Busy => Some(("answers 120, busy", Done::Busy)),
            _ => None,
        };
        if let Some((what, done)) = answered {
            let step = self.done(what, id, done);
            let broken = if done == Done::Replay { contract::at_replay(self.world, seen) } else { None };
            return step.broken(broken);
        }
        let (what, at) = match verdict {
            Verdict::Claim => ("finds the key free by now", At::Look),
            Verdict::Wait => {
                arrival.there |= 1 << id;
                ("finds the owner alive, and waits", At::Wait(id))
            }
            Verdict::WaitForProbe => {
                let asking = self.world.row(id).asking[self.host()];
                let for_attempt = arrival.waited == Some(id) || asking.is_some_and(|(_, owner)| owner);
                let at = At::WaitForProbe { of: seen, for_attempt, asked: self.world.row(id).stored.asked };
                ("finds that somebody asks, and waits", at)
            }
            Verdict::Probe => ("is to ask the target", At::Probe(seen)),
            Verdict::Hold(reason) => {
                let what = match owner {
                    Liveness::Unprovable => "can't tell whether the owner lives",
                    _ => "finds the owner gone without a word",
                };
                (what, At::Change(seen, To(State::Held, Outcome::Unknown, reason)))
            }
            Verdict::Conclude(ended) => {
                ("finds the owner gone, and marks that say enough", At::Change(seen, ended.into()))
            }
            Verdict::RunAgain(Reason::Resent) => ("is to send again", At::Own(Some(Place { seen, resend: true }))),
            Verdict::RunAgain(_) => {
                ("finds the owner gone, and is to run again", At::Own(Some(Place { seen, resend: false })))
            }
            other => unreachable!("{other:?}: no steps, no times to live, one command"),
        };
        arrival.at = at;
        let mut step = self.go(what, id, arrival);
        if !keeps_right {
            let_go(&mut step.world, self.me, self.host());
        }
        step
    }

    /// Waits for the owner: for its lock, or in a shared store for the row and whoever is seen.
    fn wait(&self, id: usize, steps: &mut Vec<Step>) {
        let alive = self.of.liveness(self.world, id, self.host()) == Liveness::Alive;
        if self.of.shared {
            if !alive || self.world.row(id).stored.state != State::Running {
                steps.push(self.go("waits no longer, and reads the row", id, self.past(id)));
            }
        } else if !alive {
            steps.push(self.at("is woken: the lock is free", id, At::Woken(id)));
        }
    }

    fn wait_for_probe(&self, seen: Seen, for_attempt: bool, asked: u8, steps: &mut Vec<Step>) {
        let row = self.world.row(seen.id);
        if row.asking[self.host()].is_some() {
            return;
        }
        let mut arrival = *self.arrival();
        if row.stored.asked > asked {
            arrival.asked = Some((seen.id, false));
        }
        let newest = self.world.rows.len();
        arrival.at = if for_attempt || newest > seen.id { At::Judge(self.world.read(newest), true) } else { At::Look };
        steps.push(self.go("finds that nobody asks any more", seen.id, arrival));
    }

    fn own(&self, place: Option<Place>) -> Step {
        let mut arrival = *self.arrival();
        arrival.seen = arrival.seen.or(Some(self.world.rows.len()));
        arrival.at = At::Insert(place);
        self.go("reads the newest number, and takes a liveness lock", 0, arrival)
    }

    fn insert(&self, place: Option<Place>) -> Step {
        let mut world = self.world.clone();
        if let Some(place) = place.filter(|place| place.resend && self.of.guard == Some(Guard::OneTransaction)) {
            let released = store::take_place(self.of, &mut world, self.me, place, true);
            world.arrivals[self.me].at = At::Apart;
            return Step::new(self.who, "releases the claim", place.seen.id, world).broken(released.err());
        }
        let claimed = store::claim(self.of, &mut world, self.me, place);
        let mut step = self.claimed(world, claimed);
        if let (At::Judge(seen, true), Some(place)) = (step.world.arrivals[self.me].at, place)
            && seen.id == place.seen.id
            && place.seen.stored.state == State::Held
        {
            // It was there for no attempt: the key is free.
            step.world.arrivals[self.me].at = At::Look;
        }
        step
    }

    fn claimed(&self, mut world: World, (claimed, broken): (Claimed, Option<Broken>)) -> Step {
        let late = self.of.guard == Some(Guard::LockFirst);
        let (what, id, at) = match claimed {
            Claimed::Inserted(id) => {
                let_go(&mut world, self.me, self.host());
                ("claims", id, if late { At::LateLock(id) } else { At::Spawn(id) })
            }
            Claimed::Taken(seen) => ("finds the key taken", seen.id, self.meet(seen)),
            Claimed::Missed(seen) => ("is told of an attempt that came and went", seen.id, At::Judge(seen, true)),
        };
        if !matches!(claimed, Claimed::Inserted(_)) {
            let_go(&mut world, self.me, self.host());
        }
        world.arrivals[self.me].at = at;
        Step::new(self.who, what, id, world).broken(broken)
    }

    /// Takes the right to ask, and reads the claim again under it.
    fn take_right(&self, seen: Seen) -> Step {
        let id = seen.id;
        if self.world.row(id).asking[self.host()].is_some() {
            return self.at("finds that somebody else asks", id, At::Look);
        }
        let now = self.world.read(id);
        if now.stored.state != State::Held || now.stored.mark != seen.stored.mark {
            return self.at("finds the claim changed", id, At::Look);
        }
        let may_live = self.of.claim(now).may_have_owner()
            && self.of.liveness(self.world, id, self.host()) != Liveness::Dead
            && self.of.guard != Some(Guard::ProbedAlive);
        let mut step = self.at("takes the right to ask", id, At::Ask(now, may_live));
        step.world.row_mut(id).asking[self.host()] = Some((self.me, false));
        step.world.arrivals[self.me].right = Some(id);
        step
    }

    /// The probe's answer: the truth of this moment, or none.
    fn ask(&self, seen: Seen, steps: &mut Vec<Step>, then: impl Fn(Outcome) -> At) {
        let (truth, what) = if self.world.has_landed() {
            (End::Exited(0), "asks: it has landed")
        } else {
            (End::Exited(1), "asks: it has not landed")
        };
        steps.push(self.at(what, seen.id, then(answer(truth))));
        steps.push(self.at("asks: the target can't tell", seen.id, then(answer(End::Exited(2)))));
    }

    fn record_answer(&self, seen: Seen, may_live: bool, told: Outcome, owner: bool) -> Step {
        let mut world = self.world.clone();
        let changed = match judge_answer(told, may_live) {
            Some(ended) => store::change(self.of, &mut world, seen, ended.into(), false),
            None => (false, None),
        };
        let row = world.row_mut(seen.id);
        row.stored.asked += 1;
        let what = if changed.0 { "records the answer" } else { "leaves the answer to the history" };
        if owner {
            let_go(&mut world, self.me, self.host());
            world.arrivals[self.me].end(At::Done(Done::Ran));
        } else {
            world.arrivals[self.me].asked = Some((seen.id, true));
            world.arrivals[self.me].at = At::Look;
        }
        let to = To(world.row(seen.id).stored.state, world.row(seen.id).stored.outcome, Reason::Probe);
        let step = Step::new(self.who, what, seen.id, world).broken(changed.1);
        if changed.0 { step.to(to) } else { step }
    }

    fn spawn(&self, id: usize, steps: &mut Vec<Step>) {
        let mut step = self.at("starts the command", id, At::Run(id));
        let row = step.world.row_mut(id);
        row.command = Command::Fresh;
        row.locked.1 = row.locked.0 && self.of.guard != Some(Guard::Inherited);
        let broken = contract::at_start(&step.world, id);
        steps.push(step.broken(broken));
        if self.world.left.deaths > 0 {
            let mut step = self.at("can't start the command", id, At::Finish(id, Ending::NotStarted)).fault();
            step.world.left.deaths -= 1;
            steps.push(step);
        }
    }

    /// Takes the right to ask where that is likely, and records the end.
    fn finish(&self, id: usize, end: Ending, steps: &mut Vec<Step>) {
        let profile = &self.of.profiles[self.me];
        let open = Open { step: false, earlier: self.of.earlier_is_unknown(self.world, id) };
        let likely = judge_end(&self.of.ends[self.me], end.end(), Some(Mark::Sending), open).state == State::Held;
        let mut world = self.world.clone();
        let free = world.row(id).asking[self.host()].is_none();
        let asks = profile.terms.probe && likely && free;
        if asks {
            world.row_mut(id).asking[self.host()] = Some((self.me, true));
            world.arrivals[self.me].right = Some(id);
        }
        let refused = (world.left.refusals > 0).then(|| world.clone());
        let broken = store::finish(self.of, &mut world, id, end);
        let stored = world.row(id).stored;
        let held = stored.state == State::Held;
        world.arrivals[self.me].at = At::Unlock(id, asks && held);
        let to = To(stored.state, stored.outcome, stored.reason.unwrap_or(Reason::Exit));
        steps.push(Step::new(self.who, "records the end", id, world).broken(broken).to(to));
        if let Some(mut world) = refused {
            world.left.refusals -= 1;
            let late = self.of.guard == Some(Guard::PendingFirst);
            world.arrivals[self.me].at = if late { At::KeepLate(id, end) } else { At::Keep(id, end) };
            if late {
                world.row_mut(id).locked = (false, false);
            }
            let what = if late {
                "can't record the end, and lets go of the lock"
            } else {
                "can't record the end: the store refuses it"
            };
            steps.push(Step::new(self.who, what, id, world).fault());
        }
    }
}

/// Lets go of the right to ask.
pub(crate) fn let_go(world: &mut World, me: usize, host: usize) {
    if let Some(id) = world.arrivals[me].right.take() {
        world.row_mut(id).asking[host] = None;
    }
}
