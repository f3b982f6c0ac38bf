//! `idem run`: one arrival, from its arguments to its answer (design §5).
//!
//! `call` checks the call, this file judges the arrival until it is answered, `own` runs the command for the owner,
//! `record` keeps its output, `answer` has what each outcome is answered.

mod answer;
pub(super) mod call;
mod own;
mod record;
mod spool;
mod status_file;
mod subst;

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use anyhow::Context;

use self::answer::{Answer, Tone};
use self::call::Call;
use self::own::Owned;
use super::asking::{self, Question};
use super::settle::{self, lock_failed};
use crate::cli::{Global, RunArgs};
use crate::domain::arrival::{Holder, Liveness, Past, ProbeFacts, Terms, Verdict, after_wait, judge};
use crate::domain::claim::{Claim, ClaimId, CommandLine, Effect, InPlaceOf, Means, NewClaim, Probe, Reason, State};
use crate::domain::end::{Ended, by_marks};
use crate::domain::event::EventKind;
use crate::domain::moment::{is_over, is_within};
use crate::domain::store::{Claimed, Store, Transition, Which};
use crate::domain::timestamp::Timestamp;
use crate::exit::{Failure, Kind, Of};
use crate::liveness::{LockFile, ProbeLock};
use crate::process::Outlet;
use crate::process::signals::Signals;
use crate::settings;
use crate::store::Location;
use crate::store::sqlite::SqliteStore;
use crate::ui::{self, Ui};
use crate::view::envelope::{Envelope, Output};

/// Answers one arrival. Returns the exit code.
pub(super) fn run(global: &Global, args: &RunArgs) -> u8 {
    let ui = Ui::new(args.quiet);
    let json = args.json;
    let mut status_file = None;
    let answer = arrive(global, args, &ui, &mut status_file).unwrap_or_else(|error| failed(args, error));
    match answer.tone {
        Tone::Silent | Tone::Said => {}
        Tone::Note => ui.note(&answer.words.message),
        Tone::Error => ui.error(&answer.words.message, answer.words.hint.as_deref()),
    }
    let line = if json || status_file.is_some() { answer.envelope.line() } else { String::new() };
    if json && let Err(error) = ui::print(&line) {
        ui.error(&format!("the JSON could not be written: {error}"), None);
    }
    if let Some(mut file) = status_file
        && let Err(error) = status_file::write(&mut file, &line)
    {
        ui.error(&format!("the status file could not be written: {error}"), None);
    }
    answer.code
}

/// Answers an error. Everything that ends here ended before a command was started.
fn failed(args: &RunArgs, error: anyhow::Error) -> Answer {
    let mut failure = Failure::from_error(error);
    failure.message = format!("{}; nothing was run", failure.message);
    let text = |name: &Option<std::ffi::OsString>| name.as_ref().map(|name| name.to_string_lossy().into_owned());
    let identity = &args.identity;
    let envelope = Envelope {
        who: text(&identity.who),
        conv: text(&identity.conv),
        tool: text(&identity.tool),
        ..Envelope::of_failure(&failure)
    };
    let code = failure.kind.code(Of::Run);
    let words = crate::view::words::Words { message: failure.message, hint: failure.hint };
    Answer { code, envelope, words, tone: Tone::Error }
}

fn arrive(global: &Global, args: &RunArgs, ui: &Ui, status_file: &mut Option<File>) -> anyhow::Result<Answer> {
    // Opened first: an answer that can't be given back would be a lost result, and errors are answers too.
    *status_file = args.status_file.as_deref().map(status_file::open).transpose()?;
    check_codes(args)?;
    check_durations(args)?;
    let means = means(args)?;
    let call = Call::read(&args.identity, &args.redact, args.stdin)?;
    let location = settings::store(global)?;
    if let Err(error) = status_file::check(status_file.as_ref(), &location) {
        // Not even this answer goes there.
        *status_file = None;
        return Err(error);
    }
    let store = Box::new(SqliteStore::open(&location)?);
    let mut arrival = Arrival {
        args,
        command: CommandLine::new(&args.command),
        terms: terms(args),
        wants_output: args.json || status_file.is_some(),
        enclosing: settings::enclosing_claim(&location),
        actor: settings::actor(),
        until: args.wait.and_then(|wait| Instant::now().checked_add(wait)),
        locks: None,
        seen: None,
        asked: None,
        means,
        call,
        location,
        store,
        ui,
    };
    let answer = arrival.settle();
    // The process is about to end, and the kernel closes and unlocks all at once: closing a store orderly is paid for.
    std::mem::forget(arrival);
    answer
}

/// Fails for lists of exit codes that contradict each other or the contract.
fn check_codes(args: &RunArgs) -> anyhow::Result<()> {
    let (Some(not_landed), landed) = (&args.not_landed_exit, &args.landed_exit) else {
        return Ok(());
    };
    if not_landed.contains(0) {
        return Err(Failure::new(
            Kind::Usage,
            "exit code 0 means that the call landed, so --not-landed-exit can't have it",
        )
        .into());
    }
    match landed.as_ref().and_then(|landed| landed.common(not_landed)) {
        None => Ok(()),
        Some(code) => {
            Err(Failure::new(Kind::Usage, format!("exit code {code} is in both --landed-exit and --not-landed-exit"))
                .into())
        }
    }
}

/// Fails for a time that leaves none.
fn check_durations(args: &RunArgs) -> anyhow::Result<()> {
    let nothing = [
        (args.timeout, "--timeout", "leaves the command no time", "leave it out for no limit"),
        (args.probe_timeout, "--probe-timeout", "leaves the probe no time", "leave it out for 30 s"),
        (args.resend_within, "--resend-within", "leaves no time to send again", "leave it out"),
        (args.ttl, "--ttl", "keeps no result for a repeat", "leave it out for a result that never expires"),
    ];
    match nothing.iter().find(|(given, ..)| given.is_some_and(|given| given.as_millis() == 0)) {
        None => Ok(()),
        Some((_, option, why, hint)) => Err(Failure::new(Kind::Usage, format!("{option} 0 {why}")).hint(*hint).into()),
    }
}

/// Returns what the caller gave along to make an unknown outcome known, or a known one expire.
fn means(args: &RunArgs) -> anyhow::Result<Means> {
    let probe = args.probe.as_ref().map(|command| {
        if command.is_empty() {
            let failure = Failure::new(Kind::Usage, "the probe is empty, and an empty command would always say landed");
            return Err(failure.hint("give --probe a shell command that asks the target").into());
        }
        let folder = std::env::current_dir().context("the current folder can't be told, and the probe runs in it")?;
        Ok::<_, anyhow::Error>(Probe {
            command: command.clone(),
            folder: folder.into_os_string(),
            delay: args.probe_delay.unwrap_or_default(),
            timeout: args.probe_timeout.unwrap_or(asking::TIMEOUT),
        })
    });
    Ok(Means { probe: probe.transpose()?, marks: args.marks, resend_within: args.resend_within, ttl: args.ttl })
}

fn terms(args: &RunArgs) -> Terms {
    Terms {
        effect: if args.external { Effect::External } else { Effect::Local },
        no_wait: args.no_wait,
        allow_command_change: args.allow_command_change,
        rerun_if_interrupted: args.rerun_if_interrupted,
        probe: args.probe.is_some(),
    }
}

/// One arrival: what it was called with, and the store that it asks.
pub(super) struct Arrival<'a> {
    args: &'a RunArgs,
    ui: &'a Ui,
    call: Call,
    command: CommandLine,
    terms: Terms,
    means: Means,
    location: Location,
    store: Box<dyn Store>,
    /// Opened once it is needed: a replay needs no lock.
    locks: Option<LockFile>,
    enclosing: Option<ClaimId>,
    actor: String,
    /// When `--wait` runs out.
    until: Option<Instant>,
    wants_output: bool,
    /// The newest row that this arrival has looked at, or that was there when it first found nobody holding the key: of
    /// an attempt that began later it is told, even where that has ended since.
    seen: Option<ClaimId>,
    /// The claim that it has an answer about: of its own probe, or of somebody else's that it waited for.
    asked: Option<(ClaimId, Option<String>)>,
}

/// What an arrival does next.
enum Step {
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
    fn settle(&mut self) -> anyhow::Result<Answer> {
        let mut step = Step::Look;
        loop {
            step = match step {
                Step::Answer(answer) => return Ok(*answer),
                Step::Look => match self.store.holder(&self.call.key)? {
                    Some(claim) => self.meet(&claim)?,
                    None => self.own(None)?,
                },
                Step::Meet(claim) => self.meet(&claim)?,
                Step::Past(claim) => self.judge_past(&claim)?,
            };
        }
    }

    fn meet(&mut self, claim: &Claim) -> anyhow::Result<Step> {
        self.saw(claim);
        let facts = self.facts(claim)?;
        self.act_on(judge(&facts, &self.terms), claim, false)
    }

    /// Judges by what has become of an attempt that this arrival waited for, or was there for.
    fn judge_past(&mut self, ended: &Claim) -> anyhow::Result<Step> {
        self.saw(ended);
        let facts = self.facts(ended)?;
        if !facts.same_command && !self.terms.allow_command_change && !ended.state.holds_key() {
            // The end of another command is no answer, and history mismatches with nothing (§12).
            return Ok(Step::Look);
        }
        match after_wait(&facts, &past(ended), &self.terms) {
            // It lives on: somebody else's shared lock was in the way for a moment.
            Verdict::Wait => Ok(Step::Look),
            verdict => self.act_on(verdict, ended, true),
        }
    }

    /// Does what a verdict says. `past`: whether the claim is an attempt that this arrival waited for.
    fn act_on(&mut self, verdict: Verdict, claim: &Claim, past: bool) -> anyhow::Result<Step> {
        let answer = |answer| Ok(Step::Answer(Box::new(answer)));
        match verdict {
            Verdict::Claim => Ok(Step::Look),
            Verdict::Replay => answer(Answer::replay(self, claim)?),
            Verdict::Held => answer(Answer::held(self, claim)),
            Verdict::Mismatch => answer(Answer::mismatch(self, claim)),
            Verdict::InsideItself => answer(Answer::inside_itself(self, claim)),
            Verdict::Busy => answer(Answer::busy(self, claim, false)),
            Verdict::Wait => self.wait_for(claim),
            Verdict::WaitForProbe => self.wait_for_probe(claim, past),
            Verdict::Probe => self.probe(claim),
            Verdict::Hold(reason) => self.hold(claim, reason),
            Verdict::Conclude(ended) => {
                self.store.transition(claim.id, &settle::concluded(claim, ended, &self.actor))?;
                Ok(Step::Look)
            }
            Verdict::Expire => {
                let to = Ended { state: State::Expired, outcome: claim.outcome, reason: Reason::Expired };
                let change = Transition::of(claim, to, self.actor.clone()).event(EventKind::Expired, None);
                self.store.transition(claim.id, &change)?;
                Ok(Step::Look)
            }
            Verdict::RunAgain(reason) => {
                let within = if reason == Reason::Resent { self.window(claim) } else { None };
                self.own(Some(InPlaceOf { claim: claim.id, from: claim.state, mark: claim.mark, reason, within }))
            }
        }
    }

    /// Holds a claim whose owner is gone and has left no outcome.
    fn hold(&mut self, claim: &Claim, reason: Reason) -> anyhow::Result<Step> {
        match self.store.transition(claim.id, &settle::held(claim, reason, &self.actor)) {
            Ok(_) => Ok(Step::Look),
            // A full disk, say. That the owner is gone is a fact all the same, and the answer to it is known.
            Err(_) => {
                let held = Claim { state: State::Held, reason: Some(reason), ..claim.clone() };
                Ok(Step::Answer(Box::new(Answer::held(self, &held))))
            }
        }
    }

    /// Takes the liveness lock, then tries to insert the claim, in place of another one where that is borne; as the owner,
    /// it runs the command.
    ///
    /// In this order: whoever sees the row can test the lock. The other way round, an arrival between the insert and the
    /// lock would see a running row with a free lock, and take a living owner for a dead one.
    fn own(&mut self, in_place_of: Option<InPlaceOf>) -> anyhow::Result<Step> {
        let seen = match self.seen {
            Some(seen) => seen,
            None => self.store.newest()?,
        };
        // From now on this arrival is there: of an attempt that begins later and ends before the insert below it is told.
        self.seen = Some(seen);
        let owner = settings::owner();
        let location = self.location.clone();
        let failed = |error: io::Error| lock_failed(&location, &error);
        let lock = self.locks()?.take().map_err(failed)?;
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
            parent: self.enclosing,
            seen,
            lock: lock.place(),
            owner,
            means: self.means.clone(),
            in_place_of,
        };
        let (taken, past) = match self.store.claim(&new)? {
            Claimed::Inserted { id, attempt, .. } => {
                let answer = own::run(self, Owned { id, attempt, lock, signals })?;
                return Ok(Step::Answer(Box::new(answer)));
            }
            Claimed::Taken(claim) => (claim, false),
            Claimed::Missed(claim) => (claim, true),
        };
        lock.release().map_err(failed)?;
        Ok(if past { Step::Past(taken) } else { Step::Meet(taken) })
    }

    /// Waits for the owner of a running claim, to be judged by what has become of that very attempt.
    fn wait_for(&mut self, claim: &Claim) -> anyhow::Result<Step> {
        let limit = self.time_left();
        let location = self.location.clone();
        let waited = self.locks()?.wait(claim.lock, limit).map_err(|error| lock_failed(&location, &error))?;
        if !waited {
            return Ok(Step::Answer(Box::new(Answer::busy(self, claim, true))));
        }
        Ok(self.store.get(claim.id)?.map_or(Step::Look, |ended| Step::Past(Box::new(ended))))
    }

    /// Waits for somebody else's probe of a held claim, and takes its answer.
    fn wait_for_probe(&mut self, claim: &Claim, past: bool) -> anyhow::Result<Step> {
        let limit = self.time_left();
        let location = self.location.clone();
        let waited = self.locks()?.wait_for_probe(claim.lock, limit).map_err(|error| lock_failed(&location, &error))?;
        if !waited {
            return Ok(Step::Answer(Box::new(Answer::held(self, claim))));
        }
        self.asked = Some((claim.id, None));
        match self.store.get(claim.id)? {
            Some(told) if past => Ok(Step::Past(Box::new(told))),
            _ => Ok(Step::Look),
        }
    }

    /// Asks the target about a held claim, unless somebody else does.
    fn probe(&mut self, claim: &Claim) -> anyhow::Result<Step> {
        let right = ProbeLock::take(&self.location.lock_path(), claim.lock);
        let Some(right) = right.map_err(|error| lock_failed(&self.location, &error))? else {
            return Ok(Step::Look);
        };
        // Somebody who has just had an answer may have let go since the row was read.
        let now = self.store.get(claim.id)?;
        let Some(claim) = now.filter(|now| now.state == State::Held && now.mark == claim.mark) else {
            return Ok(Step::Look);
        };
        let Some(probe) = self.means.probe.clone().or_else(|| claim.means.probe.clone()) else {
            return Ok(Step::Look);
        };
        let owner = self.owner(&claim)?;
        let signals = Signals::install().context("the signal handlers can't be installed")?;
        let question = Question { claim: &claim, probe: &probe, owner, location: &self.location, actor: &self.actor };
        let asked = question.ask(self.store.as_mut(), &signals)?;
        drop(right);
        self.asked = Some((claim.id, Some(asked.how)));
        let told_to_end = signals.take_pending();
        drop(signals);
        match (told_to_end, asked.became) {
            // It was to end, whatever the probe made of the signal: nothing is started any more.
            (Some(signal), Some(ended)) if ended.state == State::Released => {
                let claim = self.store.get(claim.id)?.unwrap_or(claim);
                Ok(Step::Answer(Box::new(Answer::stopped(self, &claim, signal))))
            }
            (Some(_), None) => {
                let claim = self.store.get(claim.id)?.unwrap_or(claim);
                Ok(if claim.state == State::Held {
                    Step::Answer(Box::new(Answer::held(self, &claim)))
                } else {
                    Step::Look
                })
            }
            _ => Ok(Step::Look),
        }
    }

    /// Returns how much of `--wait` is left.
    fn time_left(&self) -> Option<std::time::Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn saw(&mut self, claim: &Claim) {
        self.seen = self.seen.max(Some(claim.id));
    }

    fn facts(&mut self, claim: &Claim) -> anyhow::Result<Holder> {
        let owner = self.owner(claim)?;
        let encloses_arrival = claim.state == State::Running && owner == Liveness::Alive && self.is_under(claim)?;
        Ok(Holder {
            state: claim.state,
            effect: claim.effect,
            same_command: claim.command == self.command,
            encloses_arrival,
            owner,
            by_marks: by_marks(claim.means.marks, claim.mark),
            probe: self.probe_facts(claim)?,
            in_window: claim.state == State::Held && self.in_window(claim)?,
            is_over: self.is_over(claim)?,
        })
    }

    /// Tells whether a claim's owner lives. One that has recorded an end doesn't; one that was lost may.
    fn owner(&mut self, claim: &Claim) -> anyhow::Result<Liveness> {
        let unended =
            claim.state == State::Running || (claim.state == State::Held && claim.reason == Some(Reason::OwnerLost));
        if !unended {
            return Ok(Liveness::Dead);
        }
        let location = self.location.clone();
        Ok(self.locks()?.test(claim.lock).map_err(|error| lock_failed(&location, &error))?)
    }

    fn probe_facts(&mut self, claim: &Claim) -> anyhow::Result<ProbeFacts> {
        if claim.state != State::Held {
            return Ok(ProbeFacts::default());
        }
        let location = self.location.clone();
        let running = self.locks()?.is_probed(claim.lock).map_err(|error| lock_failed(&location, &error))?;
        let answered = self.asked.as_ref().is_some_and(|(asked, _)| *asked == claim.id);
        Ok(ProbeFacts { stored: claim.means.probe.is_some(), running, answered })
    }

    /// Returns for how long after the key's first start an unknown outcome may be sent again: as this arrival states, or
    /// as was stated with the claim, where that is shorter.
    fn window(&self, claim: &Claim) -> Option<std::time::Duration> {
        let own = self.means.resend_within?;
        Some(claim.means.resend_within.map_or(own, |stored| own.min(stored)))
    }

    fn in_window(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let Some(window) = self.window(claim) else { return Ok(false) };
        let now = self.store.now()?;
        Ok(self.store.first_start(&claim.key)?.is_some_and(|first| is_within(window, &first, &now)))
    }

    /// Returns until when an unknown outcome may be sent again, as far as the clock goes; `None` where it may not.
    fn window_end(&mut self, claim: &Claim) -> Option<Timestamp> {
        let window = self.window(claim).filter(|_| claim.state == State::Held)?;
        let first = self.store.first_start(&claim.key).ok().flatten()?;
        let open = is_within(window, &first, &self.store.now().ok()?);
        open.then(|| first.at.plus(window))
    }

    fn is_over(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let (Some(ttl), Some(ended)) = (claim.means.ttl, claim.finished_at) else { return Ok(false) };
        Ok(claim.state == State::Completed && is_over(ttl, &claim.claimed(), ended, &self.store.now()?))
    }

    /// Returns how this arrival's own probe of a claim ended.
    fn probe_of(&self, claim: &Claim) -> Option<&str> {
        let (asked, how) = self.asked.as_ref()?;
        how.as_deref().filter(|_| *asked == claim.id)
    }

    /// Tells whether the command of a running claim started this arrival, directly or through steps.
    fn is_under(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        if let Some(enclosing) = self.enclosing
            && self.store.encloses(claim.id, enclosing)?
        {
            return Ok(true);
        }
        Ok(self.locks()?.runs_under(claim.lock))
    }

    fn locks(&mut self) -> anyhow::Result<&LockFile> {
        if self.locks.is_none() {
            let path = self.location.lock_path();
            self.locks = Some(LockFile::open(&path).map_err(|error| lock_failed(&self.location, &error))?);
        }
        self.locks.as_ref().context("the lock file was just opened")
    }

    /// Where output goes: on to idem's own streams, opened like this, or, with `--json`, into the envelope alone.
    fn outlets(&self, open: fn(BorrowedFd<'static>) -> Outlet) -> [Outlet; 2] {
        if self.args.json { [Outlet::closed(), Outlet::closed()] } else { own::own_streams().map(open) }
    }

    /// Leaves the arrival's event. That this fails is no reason to answer otherwise.
    fn log(&mut self, claim: &Claim, kind: EventKind) {
        let _ = self.store.arrived(claim.id, kind, &self.actor);
    }

    /// Returns what a claim's command printed, where an envelope wants it.
    fn recorded_output(&mut self, claim: &Claim) -> Option<Output> {
        if !self.wants_output {
            return None;
        }
        let mut output = Output::default();
        let read = self.store.output(claim.id, Which::Result, &mut |stream, bytes| {
            output.push(stream, bytes);
            Ok(())
        });
        read.ok().map(|_| output)
    }
}

fn past(claim: &Claim) -> Past {
    Past { reason: claim.reason, outcome: claim.outcome, has_end: claim.exit_status().is_some() }
}
