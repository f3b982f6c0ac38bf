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
use super::settle::lock_failed;
use crate::cli::{Global, RunArgs};
use crate::domain::arrival::{Holder, Liveness, Past, Terms, Verdict, after_wait, judge};
use crate::domain::claim::{Claim, ClaimId, CommandLine, Effect, NewClaim, Outcome, Reason, State};
use crate::domain::event::EventKind;
use crate::domain::store::{Claimed, Store, Transition};
use crate::exit::{Failure, Kind, Of};
use crate::liveness::LockFile;
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
    if args.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Failure::new(Kind::Usage, "--timeout 0 leaves the command no time")
            .hint("leave it out for no limit")
            .into());
    }
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

fn terms(args: &RunArgs) -> Terms {
    Terms {
        effect: if args.external { Effect::External } else { Effect::Local },
        no_wait: args.no_wait,
        allow_command_change: args.allow_command_change,
        rerun_if_interrupted: args.rerun_if_interrupted,
    }
}

/// One arrival: what it was called with, and the store that it asks.
pub(super) struct Arrival<'a> {
    args: &'a RunArgs,
    ui: &'a Ui,
    call: Call,
    command: CommandLine,
    terms: Terms,
    location: Location,
    store: Box<dyn Store>,
    /// Opened once it is needed: a replay needs no lock.
    locks: Option<LockFile>,
    enclosing: Option<ClaimId>,
    actor: String,
    /// When `--wait` runs out.
    until: Option<Instant>,
    wants_output: bool,
}

/// What an attempt to claim the key came to.
enum Try {
    Owned(Owned),
    Taken(Box<Claim>),
    Missed(Box<Claim>),
}

impl Arrival<'_> {
    /// Judges the arrival by the claim that holds the key, until there is an answer.
    ///
    /// Every round either answers or has seen the claim change: a change of state that this arrival makes is compared with
    /// the state that it was judged by, and where another was faster, the row is read and judged anew.
    fn settle(&mut self) -> anyhow::Result<Answer> {
        let mut holder = self.store.holder(&self.call.key)?;
        loop {
            let claim = match holder {
                Some(claim) => claim,
                None => match self.try_to_own()? {
                    Try::Owned(owned) => return own::run(self, owned),
                    Try::Taken(claim) => *claim,
                    Try::Missed(claim) => match self.judge_past(&claim)? {
                        Waited::Answer(answer) => return Ok(*answer),
                        Waited::Again => {
                            holder = self.store.holder(&self.call.key)?;
                            continue;
                        }
                    },
                },
            };
            let facts = self.facts(&claim)?;
            holder = match judge(&facts, &self.terms) {
                Verdict::Wait => match self.wait_for(&claim)? {
                    Waited::Answer(answer) => return Ok(*answer),
                    Waited::Again => self.store.holder(&self.call.key)?,
                },
                verdict => match self.act_on(verdict, &claim)? {
                    Some(answer) => return Ok(answer),
                    None => self.store.holder(&self.call.key)?,
                },
            };
        }
    }

    /// Does what a verdict says. `None`: the claim has changed, judge anew.
    fn act_on(&mut self, verdict: Verdict, claim: &Claim) -> anyhow::Result<Option<Answer>> {
        match verdict {
            Verdict::Claim => Ok(None),
            Verdict::Replay => Answer::replay(self, claim).map(Some),
            Verdict::Held => Ok(Some(Answer::held(self, claim))),
            Verdict::Mismatch => Ok(Some(Answer::mismatch(self, claim))),
            Verdict::InsideItself => Ok(Some(Answer::inside_itself(self, claim))),
            Verdict::Busy | Verdict::Wait => Ok(Some(Answer::busy(self, claim, self.args.wait.is_some()))),
            Verdict::Hold(reason) => {
                let change = self.change(State::Held, reason, Outcome::Unknown, EventKind::BecameHeld);
                match self.store.transition(claim.id, &change) {
                    Ok(_) => Ok(None),
                    // A full disk, say. That the owner is gone is a fact all the same, and the answer to it is known.
                    Err(_) => {
                        let held = Claim { state: State::Held, reason: Some(reason), ..claim.clone() };
                        Ok(Some(Answer::held(self, &held)))
                    }
                }
            }
            Verdict::Release => {
                let reason = Reason::Interrupted;
                let change = self.change(State::Released, reason, Outcome::Unknown, EventKind::BecameReleased);
                self.store.transition(claim.id, &change)?;
                Ok(None)
            }
        }
    }

    /// Takes the liveness lock, then tries to insert the claim.
    ///
    /// In this order: whoever sees the row can test the lock. The other way round, an arrival between the insert and the
    /// lock would see a running row with a free lock, and take a living owner for a dead one.
    fn try_to_own(&mut self) -> anyhow::Result<Try> {
        // From now on this arrival is there: of an attempt that begins later and ends before the insert below it is told.
        let seen = self.store.newest()?;
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
        };
        match self.store.claim(&new)? {
            Claimed::Inserted { id, attempt, .. } => Ok(Try::Owned(Owned { id, attempt, lock, signals })),
            Claimed::Taken(claim) => {
                lock.release().map_err(failed)?;
                Ok(Try::Taken(claim))
            }
            Claimed::Missed(claim) => {
                lock.release().map_err(failed)?;
                Ok(Try::Missed(claim))
            }
        }
    }

    /// Waits for the owner of a running claim and judges by what has become of that very attempt.
    fn wait_for(&mut self, claim: &Claim) -> anyhow::Result<Waited> {
        let answer = |answer| Ok(Waited::Answer(Box::new(answer)));
        let limit = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let location = self.location.clone();
        let waited = self.locks()?.wait(claim.lock, limit).map_err(|error| lock_failed(&location, &error))?;
        if !waited {
            return answer(Answer::busy(self, claim, true));
        }
        match self.store.get(claim.id)? {
            Some(ended) => self.judge_past(&ended),
            None => Ok(Waited::Again),
        }
    }

    /// Judges by what has become of an attempt that this arrival waited for, or was there for.
    fn judge_past(&mut self, ended: &Claim) -> anyhow::Result<Waited> {
        let facts = self.facts(ended)?;
        if !facts.same_command && !self.terms.allow_command_change && !ended.state.holds_key() {
            // The end of another command is no answer, and history mismatches with nothing (§12).
            return Ok(Waited::Again);
        }
        match after_wait(&facts, &past(ended), &self.terms) {
            // It lives on: somebody else's shared lock was in the way for a moment.
            Verdict::Wait => Ok(Waited::Again),
            verdict => Ok(match self.act_on(verdict, ended)? {
                Some(done) => Waited::Answer(Box::new(done)),
                None => Waited::Again,
            }),
        }
    }

    fn facts(&mut self, claim: &Claim) -> anyhow::Result<Holder> {
        let running = claim.state == State::Running;
        let owner = if running {
            let location = self.location.clone();
            self.locks()?.test(claim.lock).map_err(|error| lock_failed(&location, &error))?
        } else {
            Liveness::Dead
        };
        let encloses_arrival = running && owner == Liveness::Alive && self.is_under(claim)?;
        Ok(Holder {
            state: claim.state,
            effect: claim.effect,
            same_command: claim.command == self.command,
            encloses_arrival,
            owner,
        })
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

    fn change(&self, to: State, reason: Reason, outcome: Outcome, kind: EventKind) -> Transition {
        let detail = serde_json::json!({ "reason": reason.as_str() }).to_string();
        let actor = self.actor.clone();
        Transition { from: State::Running, to, reason, outcome, kind, actor, detail: Some(detail), result: None }
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
        let read = self.store.output(claim.id, &mut |stream, bytes| {
            output.push(stream, bytes);
            Ok(())
        });
        read.ok().map(|_| output)
    }
}

fn past(claim: &Claim) -> Past {
    Past { reason: claim.reason, outcome: claim.outcome, has_end: claim.exit_status().is_some() }
}

/// What waiting came to.
enum Waited {
    Answer(Box<Answer>),
    Again,
}
