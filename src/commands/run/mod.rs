//! `idem run`: one arrival, from its arguments to its answer (design §5).
//!
//! `call` checks the call and `options` the rest, `judged` judges the arrival by the `facts` until it is answered, `own` runs
//! the command for the owner, `record` keeps its output and `ended` its end, `answer` has what each outcome is answered.

mod answer;
pub(super) mod call;
mod ended;
mod facts;
mod judged;
mod options;
mod own;
mod record;
mod spool;
mod status_file;
mod subst;

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;

use self::answer::{Answer, Tone};
use self::call::Call;
use super::policed::Policed;
use super::settle::{self, lock_failed};
use super::{group, pending};
use crate::cli::{Global, RunArgs};
use crate::domain::arrival::Terms;
use crate::domain::claim::{Claim, ClaimId, CommandLine, Means};
use crate::domain::event::EventKind;
use crate::domain::group::Enclosing;
use crate::domain::store::{Store, Which};
use crate::exit::{Failure, Of};
use crate::liveness::{LockFile, ProbeLock};
use crate::process::Outlet;
use crate::settings;
use crate::store::Location;
use crate::ui::{self, Ui};
use crate::view::envelope::{Envelope, ErrorFields, Output};
use crate::view::words;

/// How much of a claim's output is recorded, in bytes, both streams together (design §12, paths).
pub(super) const MAX_OUTPUT: u64 = 64 * 1024 * 1024;

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
    let words = words::Words { message: failure.message, hint: failure.hint };
    Answer { code, envelope, words, tone: Tone::Error }
}

fn arrive(global: &Global, args: &RunArgs, ui: &Ui, status_file: &mut Option<File>) -> anyhow::Result<Answer> {
    // Opened first: an answer that can't be given back would be a lost result, and errors are answers too.
    *status_file = args.status_file.as_deref().map(status_file::open).transpose()?;
    let policed = Policed::of(global, args.identity.tool.as_deref())?;
    let args = &match &policed {
        Some(policed) => Cow::Owned(policed.run(args)?),
        None => Cow::Borrowed(args),
    };
    options::check_codes(args)?;
    options::check_durations(args)?;
    options::check_needs(args)?;
    let means = options::means(args)?;
    let call = Call::read(&args.identity, &args.redact, args.stdin, policed.as_ref())?;
    let location = settings::store(global)?;
    if let Err(error) = status_file::check(status_file.as_ref(), &location) {
        // Not even this answer goes there.
        *status_file = None;
        return Err(error);
    }
    let mut store = location.open()?;
    if store.made_where_told() {
        ui.note(&words::made_store(&location.shown().to_string()));
    }
    pending::deliver_before(&call.key, &location, store.as_mut(), ui)?;
    let mut arrival = Arrival {
        args,
        command: CommandLine::new(&args.command),
        terms: options::terms(args),
        wants_output: args.json || status_file.is_some(),
        wants_group: true,
        policy: policed.as_ref().and_then(Policed::named_path),
        enclosing: settings::enclosing(&location),
        actor: settings::actor(),
        until: args.wait.and_then(|wait| Instant::now().checked_add(wait)),
        joined: false,
        locks: None,
        seen: None,
        waited: None,
        asked: None,
        right: None,
        told_to_end: None,
        means,
        call,
        location,
        store,
        ui,
    };
    let answer = arrival.settle().and_then(|answer| with_group(&mut arrival, answer));
    // The process is about to end, and the kernel closes and unlocks all at once: closing a store orderly is paid for.
    std::mem::forget(arrival);
    answer
}

/// Puts the members of the claim's group into an envelope that is wanted. Fails where that is all that a replay is to give back:
/// without them it isn't whole, and nothing has been passed on yet (G4).
fn with_group(arrival: &mut Arrival<'_>, mut answer: Answer) -> anyhow::Result<Answer> {
    let Some(id) = answer.envelope.id.filter(|_| arrival.wants_output && arrival.wants_group) else {
        return Ok(answer);
    };
    match group::members(arrival.store.as_mut(), id, true) {
        Ok(members) => answer.envelope.members = group::fields(members),
        Err(error) if answer.envelope.idempotent && arrival.args.json => {
            return Err(error.context("the members of its group can't be read, and a replay is the whole group"));
        }
        Err(error) => {
            // What ran or was replayed has been passed on: that its members can't be told is said, and changes no code.
            let failure = Failure::from_error(error);
            arrival.ui.error(&format!("the members of its group can't be read: {}", failure.message), None);
            answer.envelope.error.get_or_insert(ErrorFields::of(&failure));
        }
    }
    Ok(answer)
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
    enclosing: Option<Enclosing>,
    /// Whether the group around it has this call.
    joined: bool,
    actor: String,
    /// When `--wait` runs out.
    until: Option<Instant>,
    wants_output: bool,
    /// Whether an envelope has the members of the claim's group.
    wants_group: bool,
    /// The policy, where it was named.
    policy: Option<&'a Path>,
    /// The newest row that this arrival has looked at, or that was there when it first found nobody holding the key: of
    /// an attempt that began later it is told, even where that has ended since.
    seen: Option<ClaimId>,
    /// The attempt that it waited for, or was there for.
    waited: Option<ClaimId>,
    /// The claim that it has an answer about: of its own probe, or of somebody else's that it waited for.
    asked: Option<(ClaimId, Option<String>)>,
    /// The signal that told it to end while it asked: it starts nothing any more.
    told_to_end: Option<i32>,
    /// The right to ask about a claim, from the probe until it is known whether this arrival runs the command.
    right: Option<ProbeLock>,
}

impl Arrival<'_> {
    fn locks(&mut self) -> anyhow::Result<&LockFile> {
        if self.locks.is_none() {
            self.locks = Some(settle::locks(&self.location)?);
        }
        self.locks.as_ref().context("the lock file was just opened")
    }

    /// Asks the lock file, and names it in an error of the system.
    fn by_locks<T>(&mut self, ask: impl FnOnce(&LockFile) -> io::Result<T>) -> anyhow::Result<T> {
        let asked = ask(self.locks()?);
        Ok(asked.map_err(|error| lock_failed(&self.location, &error))?)
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
        settle::output(self.store.as_mut(), claim.id, Which::Result).ok()
    }
}
