//! The way of an arrival to its answer: judged by the claim that holds its key, it does what the verdict says, until there is
//! an answer (design §5).

use std::time::{Duration, Instant};

use anyhow::Context;

use super::facts::past;
use super::own::Owned;
use super::{Answer, Arrival, ended, options, own};
use crate::commands::asking::Question;
use crate::commands::finding::{Finder, Patience};
use crate::commands::pending::{self, AtLast};
use crate::commands::settle::{self, lock_failed};
use crate::domain::arrival::{Liveness, Verdict, after_wait, judge};
use crate::domain::claim::{Claim, InPlaceOf, NewClaim, Probe, Reason, State};
use crate::domain::end::Ended;
use crate::domain::event::EventKind;
use crate::domain::store::{Claimed, StoreError, Transition};
use crate::liveness::{Asker, LockFile, ProbeLock};
use crate::process::signals::Signals;
use crate::settings;
use crate::ui::Waiting;

/// How often an arrival that waits looks for a store that is away.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How often an arrival that waits for a shared store looks whether the owner still lives.
const LOOK_AT_OWNER: Duration = Duration::from_secs(1);

/// What an arrival does next.
enum Next {
    /// It is answered.
    Answer(Box<Answer>),
    /// It looks who holds the key.
    Look,
    /// It is judged by the claim that holds the key.
    Meet(Box<Claim>),
    /// It is judged by what has become of an attempt that it waited for or was there for.
    Past(Box<Claim>),
}

impl Arrival<'_> {
    /// Judges the arrival by the claim that holds the key, until there is an answer.
    ///
    /// Every round either answers or has seen the claim change: a change of state that this arrival makes is compared with
    /// the state that it was judged by, and where another was faster, the row is read and judged anew.
    pub(super) fn settle(&mut self) -> anyhow::Result<Answer> {
        let mut next = Next::Look;
        loop {
            next = match next {
                Next::Answer(answer) => return Ok(*answer),
                Next::Look => match self.store.holder(&self.call.key)? {
                    Some(claim) => self.meet(&claim)?,
                    None => self.own(None)?,
                },
                Next::Meet(claim) => self.meet(&claim)?,
                Next::Past(claim) => self.judge_past(&claim)?,
            };
        }
    }

    /// Judges by the claim that holds the key. One that began after this arrival had come is one that it was there for: it
    /// gets that attempt's end, and never turns it into another run.
    fn meet(&mut self, claim: &Claim) -> anyhow::Result<Next> {
        if self.seen.is_some_and(|seen| claim.id > seen) {
            return self.judge_past(claim);
        }
        self.saw(claim);
        let facts = self.facts(claim)?;
        self.act_on(judge(&facts, &self.terms), claim)
    }

    /// Judges by what has become of an attempt that this arrival waited for, or was there for.
    fn judge_past(&mut self, ended: &Claim) -> anyhow::Result<Next> {
        self.saw(ended);
        self.waited = Some(ended.id);
        let facts = self.facts(ended)?;
        if !facts.same_command && !self.terms.allow_command_change && !ended.state.holds_key() {
            // The end of another command is no answer, and history mismatches with nothing (§12).
            return Ok(Next::Look);
        }
        self.act_on(after_wait(&facts, &past(ended), &self.terms), ended)
    }

    /// Does what a verdict says.
    fn act_on(&mut self, verdict: Verdict, claim: &Claim) -> anyhow::Result<Next> {
        let answer = |answer| Ok(Next::Answer(Box::new(answer)));
        let verdict = match self.at_last(verdict, claim)? {
            Ok(verdict) => verdict,
            Err(next) => return Ok(next),
        };
        let answers = matches!(
            verdict,
            Verdict::Claim
                | Verdict::Replay
                | Verdict::Held
                | Verdict::Mismatch
                | Verdict::InsideItself
                | Verdict::Busy
        );
        if let Some(signal) = self.told_to_end.filter(|_| !answers) {
            return self.stopped(signal);
        }
        if !matches!(verdict, Verdict::Claim | Verdict::RunAgain(_) | Verdict::Conclude(_)) {
            // Whoever waits for this arrival's probe waits no longer than it takes to know whether it runs the command.
            self.right = None;
        }
        if !matches!(verdict, Verdict::Claim | Verdict::Mismatch | Verdict::InsideItself) {
            self.join()?;
        }
        match verdict {
            Verdict::Claim => Ok(Next::Look),
            Verdict::Replay => answer(Answer::replay(self, claim)?),
            Verdict::Held if self.is_asked_by_another(claim)? => answer(self.held_while_asked(claim)),
            Verdict::Held => answer(Answer::held(self, claim)),
            Verdict::Mismatch => answer(Answer::mismatch(self, claim)),
            Verdict::InsideItself => answer(Answer::inside_itself(self, claim)),
            Verdict::Busy => answer(Answer::busy(self, claim, false)),
            Verdict::Wait => self.wait_for(claim),
            Verdict::WaitForProbe => self.wait_for_probe(claim),
            Verdict::Probe => self.probe(claim),
            Verdict::AskSteps => self.ask_steps(claim),
            Verdict::Hold(reason) => self.hold(claim, reason),
            Verdict::Conclude(ended) => {
                let changed = self.store.transition(claim.id, &settle::concluded(claim, ended, &self.actor))?;
                if changed { Ok(Next::Look) } else { self.changed_meanwhile(claim) }
            }
            Verdict::Expire => {
                let to = Ended { state: State::Expired, outcome: claim.outcome, reason: Reason::Expired };
                let change = Transition::of(claim, to, self.actor.clone()).event(EventKind::Expired, None);
                self.store.transition(claim.id, &change)?;
                Ok(Next::Look)
            }
            Verdict::RunAgain(reason) => {
                let within = if reason == Reason::Resent { self.window(claim) } else { None };
                self.own(Some(InPlaceOf { claim: claim.id, from: claim.state, mark: claim.mark, reason, within }))
            }
        }
    }

    /// Makes sure, before anything follows from an owner being gone, that it has left no end that waits for the store: see
    /// [`pending::deliver_of`]. `Err`: it had, and what to do now that it is recorded.
    fn at_last(&mut self, verdict: Verdict, claim: &Claim) -> anyhow::Result<Result<Verdict, Next>> {
        let follows = matches!(
            verdict,
            Verdict::Hold(_) | Verdict::Conclude(_) | Verdict::RunAgain(_) | Verdict::Probe | Verdict::Held
        );
        if !follows || !(claim.state == State::Running || claim.is_held_without_end()) {
            return Ok(Ok(verdict));
        }
        match pending::deliver_of(claim, &self.location, self.store.as_mut(), self.ui)? {
            AtLast::Nothing => Ok(Ok(verdict)),
            // It had an end, so neither silence nor a willingness to run again says anything about it.
            AtLast::Unusable if claim.state == State::Running => Ok(Ok(Verdict::Hold(Reason::Interrupted))),
            AtLast::Unusable => Ok(Ok(verdict)),
            // Whoever waited for this attempt gets its end, and never turns it into another run. So does one that found it
            // running: *A fails while its store can't be written, keeps that, and goes; B finds the claim running and the lock
            // free, and records what A kept, which releases the key.* B was there for that failure.
            AtLast::Recorded if claim.state == State::Running || self.waited == Some(claim.id) => {
                Ok(Err(self.store.get(claim.id)?.map_or(Next::Look, |ended| Next::Past(Box::new(ended)))))
            }
            AtLast::Recorded => Ok(Err(Next::Look)),
        }
    }

    /// Makes the call a step of the group around it, whoever runs it or has run it: a replay of the parent gives it back too.
    ///
    /// Before anything is waited for: *the parent's time runs out while this arrival waits for the step's owner*; the
    /// parent's end must see a step whose outcome is unknown.
    fn join(&mut self) -> anyhow::Result<()> {
        if let Some(enclosing) = self.enclosing.as_ref().filter(|_| !self.joined) {
            self.store.join(enclosing, &self.call.key)?;
            self.joined = true;
        }
        Ok(())
    }

    /// Holds a claim whose owner is gone and has left no outcome.
    fn hold(&mut self, claim: &Claim, reason: Reason) -> anyhow::Result<Next> {
        match self.store.transition(claim.id, &settle::held(claim, reason, &self.actor)) {
            Ok(true) => Ok(Next::Look),
            Ok(false) => self.changed_meanwhile(claim),
            // A full disk, say. That the owner is gone is a fact all the same, and the answer to it is known.
            Err(_) => {
                let held = Claim { state: State::Held, reason: Some(reason), ..claim.clone() };
                Ok(Next::Answer(Box::new(Answer::held(self, &held))))
            }
        }
    }

    /// Goes on after a claim was found changed since it was read. One that was running then is one that this arrival was there
    /// for: what became of it is its answer.
    ///
    /// *A runs; B reads the row; A fails, releases the claim and lets go of its lock; B finds the lock free and would hold the
    /// claim, which is released by now.* Were B to start anew, it would find nobody and run what it was there for again.
    fn changed_meanwhile(&mut self, claim: &Claim) -> anyhow::Result<Next> {
        if claim.state != State::Running {
            return Ok(Next::Look);
        }
        Ok(self.store.get(claim.id)?.map_or(Next::Look, |now| Next::Past(Box::new(now))))
    }

    /// Takes the liveness lock, then tries to insert the claim, in place of another one where that is borne; as the owner,
    /// it runs the command.
    ///
    /// In this order: whoever sees the row can test the lock. The other way round, an arrival between the insert and the
    /// lock would see a running row with a free lock, and take a living owner for a dead one.
    fn own(&mut self, in_place_of: Option<InPlaceOf>) -> anyhow::Result<Next> {
        if let Some(signal) = self.told_to_end {
            return self.stopped(signal);
        }
        let seen = match self.seen {
            Some(seen) => seen,
            None => self.store.newest(&self.call.key)?,
        };
        // From now on this arrival is there: of an attempt that begins later and ends before the insert below it is told.
        self.seen = Some(seen);
        let held = in_place_of.as_ref().filter(|old| old.from == State::Held).map(|old| old.claim);
        let resends = in_place_of.as_ref().is_some_and(|old| old.reason == Reason::Resent);
        let owner = settings::owner();
        let lock = self.by_locks(LockFile::take)?;
        // From here on a signal doesn't end this process: it would leave a claim behind that nobody knows to be empty.
        let signals = Signals::install().context("the signal handlers can't be installed")?;
        let new = NewClaim {
            key: self.call.key,
            who: self.call.who.clone(),
            conv: self.call.conv.clone(),
            tool: self.call.tool.clone(),
            params: self.call.params.clone(),
            bound: self.call.bound.clone(),
            effect: self.terms.effect,
            command: self.command.clone(),
            enclosing: self.enclosing.clone(),
            seen,
            lock: lock.place(),
            owner,
            means: self.means.clone(),
            in_place_of,
            seen_every: options::seen_every(self.args),
        };
        let claimed = match self.store.claim(&new) {
            Err(error @ StoreError::ClaimUncertain(..)) => {
                ended::keep_unstarted(self, &lock);
                return Err(error.into());
            }
            claimed => claimed?,
        };
        // Only now: who waits for this arrival's probe then finds the attempt that came of it.
        self.right = None;
        let next = match claimed {
            Claimed::Inserted { id, attempt, .. } => {
                let answer = own::run(self, Owned { id, attempt, lock, signals, resends })?;
                return Ok(Next::Answer(Box::new(answer)));
            }
            // Somebody else has released what was to be sent again, and this arrival was there for no attempt of it.
            Claimed::Missed(claim) if held == Some(claim.id) => Next::Look,
            Claimed::Missed(claim) => Next::Past(claim),
            Claimed::Taken(claim) => Next::Meet(claim),
        };
        lock.release().map_err(|error| lock_failed(&self.location, &error))?;
        Ok(next)
    }

    /// Waits for the owner of a running claim, to be judged by what has become of that very attempt.
    fn wait_for(&mut self, claim: &Claim) -> anyhow::Result<Next> {
        let limit = self.time_left();
        let shown =
            self.show_wait(claim, &format!("claim {} is run by {}; waiting for its end", claim.id, claim.owner.actor));
        let ended = if self.location.is_shared() {
            self.wait_by_store(claim, limit)?
        } else if self.by_locks(|locks| locks.wait(claim.lock, limit))? {
            Some(self.store.get(claim.id)?)
        } else {
            None
        };
        drop(shown);
        match ended {
            None => Ok(Next::Answer(Box::new(Answer::busy(self, claim, true)))),
            Some(ended) => Ok(ended.map_or(Next::Look, |ended| Next::Past(Box::new(ended)))),
        }
    }

    /// Waits for an owner who may be on another host: for the row, and for what its lock or the store's clock say of it.
    /// Returns the row once the owner isn't known to live any more; `None`: the time ran out.
    fn wait_by_store(&mut self, claim: &Claim, limit: Option<Duration>) -> anyhow::Result<Option<Option<Claim>>> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut away = None;
        loop {
            let now = match self.store.get(claim.id) {
                // A server that is started again, say. Nothing is lost by waiting for it as an owner would.
                Err(StoreError::Unreachable(..)) if self.is_patient(&mut away) => continue,
                now => now?,
            };
            let Some(now) = now else { return Ok(Some(None)) };
            away = None;
            if now.state != State::Running || self.owner(&now)? != Liveness::Alive {
                return Ok(Some(Some(now)));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            match self.store.wait_for_change(&now, left.map_or(LOOK_AT_OWNER, |left| left.min(LOOK_AT_OWNER))) {
                Err(StoreError::Unreachable(..)) => {}
                waited => waited?,
            }
        }
    }

    /// Pauses while the store is away, as long as `--record-wait` and what is left of `--wait` allow; tells whether it did.
    fn is_patient(&self, away: &mut Option<Instant>) -> bool {
        let since = *away.get_or_insert_with(Instant::now);
        let over = self.time_left().is_some_and(|left| left.is_zero());
        if over || since.elapsed() >= options::record_wait(self.args) {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
        true
    }

    /// Shows a person what is waited for, and how old it is.
    fn show_wait(&mut self, claim: &Claim, what: &str) -> Option<Waiting> {
        let now = self.store.now().ok()?;
        self.ui.waiting(claim.created_at.age(now.at), what)
    }

    /// Waits for somebody else's probe of a held claim, and takes its answer.
    ///
    /// *An attempt's end is being asked about; ten arrivals come; the answer is "not landed", the key is free, and each of the
    /// ten runs the command.* At its end they wait for that attempt, and get it. Where somebody asks later, they get the
    /// attempt that comes of the answer; the first of them makes it, if the asker doesn't.
    fn wait_for_probe(&mut self, claim: &Claim) -> anyhow::Result<Next> {
        let limit = self.time_left();
        let for_attempt =
            self.waited == Some(claim.id) || self.by_locks(|locks| locks.is_probed_by_owner(claim.lock))?;
        let before = self.store.times_asked(claim.id)?;
        let asked = format!("claim {} of {} is held, and its target is being asked", claim.id, claim.owner.actor);
        let shown = self.show_wait(claim, &format!("{asked}; waiting for the answer"));
        let waited = self.by_locks(|locks| locks.wait_for_probe(claim.lock, limit))?;
        drop(shown);
        if !waited {
            return Ok(Next::Answer(Box::new(self.held_while_asked(claim))));
        }
        // One that was killed, or told to end before it had asked, leaves no answer: then this arrival asks.
        if self.store.times_asked(claim.id)? > before {
            self.asked = Some((claim.id, None));
        }
        let newest = self.store.attempts(&claim.key)?.pop();
        Ok(match newest {
            Some(newest) if for_attempt || newest.id > claim.id => Next::Past(Box::new(newest)),
            _ => Next::Look,
        })
    }

    /// Finds out about the steps that a claim is held for, as an arrival at each of them would, and runs none.
    fn ask_steps(&mut self, claim: &Claim) -> anyhow::Result<Next> {
        let mut finder = Finder::new(&self.location, &self.actor);
        finder.patience = if self.terms.no_wait { Patience::None } else { Patience::Until(self.until) };
        finder.find_out(self.store.as_mut(), claim, None)?;
        self.told_to_end = finder.told_to_end;
        self.asked = Some((claim.id, None));
        Ok(Next::Look)
    }

    /// Asks the target about a held claim, unless somebody else does.
    fn probe(&mut self, claim: &Claim) -> anyhow::Result<Next> {
        let right = ProbeLock::take(&self.location.lock_path(), claim.lock, Asker::Other);
        let Some(right) = right.map_err(|error| lock_failed(&self.location, &error))? else {
            return Ok(Next::Look);
        };
        // Somebody who has just had an answer may have let go since the row was read.
        let now = self.store.get(claim.id)?;
        let Some(claim) = now.filter(|now| now.state == State::Held && now.mark == claim.mark) else {
            return Ok(Next::Look);
        };
        let Some(probe) = self.probe_for(&claim) else { return Ok(Next::Look) };
        let owner = self.owner(&claim)?;
        let signals = Signals::install().context("the signal handlers can't be installed")?;
        let question = Question { claim: &claim, probe: &probe, owner, location: &self.location, actor: &self.actor };
        let asked = question.ask(self.store.as_mut(), &signals)?;
        self.right = Some(right);
        self.asked = Some((claim.id, Some(asked.how)));
        self.told_to_end = signals.take_pending();
        drop(signals);
        if asked.unrecorded || (self.told_to_end.is_some() && asked.became.is_none()) {
            // Nothing may follow from an answer that isn't there for others, nor from none.
            let claim = self.store.get(claim.id)?.unwrap_or(claim);
            if claim.state == State::Held {
                return Ok(Next::Answer(Box::new(Answer::held(self, &claim))));
            }
        }
        Ok(Next::Look)
    }

    /// Answers 121 while somebody else asks.
    fn held_while_asked(&mut self, claim: &Claim) -> Answer {
        self.asked = Some((claim.id, Some("is being run by somebody else right now".to_owned())));
        Answer::held(self, claim)
    }

    /// Answers an arrival that was told to end while it asked, where it would now start something, wait or ask again.
    fn stopped(&mut self, signal: i32) -> anyhow::Result<Next> {
        let asked = self.asked.as_ref().map_or(0, |(asked, _)| *asked);
        let claim = self.store.get(asked)?.with_context(|| format!("claim {asked} is gone"))?;
        Ok(Next::Answer(Box::new(Answer::stopped(self, &claim, signal))))
    }

    /// Returns what to ask with: the arrival's own probe, else the stored one. How long the target reads behind is the
    /// target's: without a delay of its own it takes the stored one.
    fn probe_for(&self, claim: &Claim) -> Option<Probe> {
        let stored = claim.means.probe.as_ref();
        let Some(own) = &self.means.probe else { return stored.cloned() };
        let delay = match self.args.probe_delay {
            Some(delay) => delay,
            None => stored.map_or(Duration::ZERO, |stored| stored.delay),
        };
        Some(Probe { delay, ..own.clone() })
    }

    /// Returns how much of `--wait` is left.
    fn time_left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn saw(&mut self, claim: &Claim) {
        self.seen = self.seen.max(Some(claim.id));
    }
}
