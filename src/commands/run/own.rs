//! The owner's part of a run: spawn, stream and record, then record the end (design §§5, 6).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::answer::Tone;
use super::ended::{self, Recording};
use super::options::max_output;
use super::record::{Recorded, Recorder};
use super::{Answer, Arrival, subst};
use crate::cli::Stdin;
use crate::commands::asking::{Asked, Question};
use crate::commands::environment::Attempt;
use crate::domain::arrival::Liveness;
use crate::domain::claim::{ClaimId, Mark, Reason, State};
use crate::domain::end::{End, EndTerms, Ended, Open, judge_end};
use crate::domain::store::{Finish, Finished, StoreError};
use crate::exit;
use crate::liveness::{Asker, AttemptLock, ProbeLock};
use crate::process::signals::Signals;
use crate::process::{self, Input, Limit, Outlet, Program, SpawnError};
use crate::view::envelope::Output;
use crate::view::words::{self, Words};

/// `--kill-after`, where it isn't given.
const KILL_AFTER: Duration = Duration::from_secs(10);

/// From how many recorded bytes on the store's log is made short again after the run.
const LARGE_OUTPUT: u64 = 128 * 1024;

/// What an owner holds: its claim, the lock that proves it alive, and the handlers that keep signals from ending it.
pub(super) struct Owned {
    pub(super) id: ClaimId,
    pub(super) attempt: i64,
    pub(super) lock: AttemptLock,
    pub(super) signals: Signals,
    /// Whether it is sent again in place of an attempt whose outcome is unknown.
    pub(super) resends: bool,
}

/// Runs the command of a claim that this process owns.
///
/// The claim is committed and synced (G1). Whatever happens from here on ends in a recorded outcome, or in a row that
/// says running while its lock is free, which the next arrival holds.
pub(super) fn run(arrival: &mut Arrival<'_>, owned: Owned) -> anyhow::Result<Answer> {
    if let Some(signal) = owned.signals.take_pending() {
        let code = u8::try_from(128 + signal).unwrap_or(exit::OWN);
        return not_started(arrival, &owned, code, Some(signal), &words::stopped_before_start(signal));
    }
    let limit = limit(arrival);
    if limit.is_some() {
        process::adopt_orphans();
    }
    let mut child = match start(arrival, &owned) {
        Ok(child) => child,
        Err(error) => return could_not_start(arrival, &owned, &error),
    };
    owned.signals.forward_to(child.id());
    arrival.store.attend(owned.id);
    // While the command runs nobody waits for it. What it can't do now, a later run does.
    let _ = arrival.store.upkeep();
    let mut outlets = arrival.outlets(Outlet::live);
    let (max, capture) = (max_output(arrival.args), arrival.wants_output);
    let mut recorder = Recorder::new(arrival.store.as_mut(), owned.id, max, capture);
    let ran = process::pump(&mut child, &owned.signals, limit, &mut outlets, &mut recorder);
    let mut recorded = recorder.finish();
    let unsure = arrival.store.leave_off();
    recorded.rest.splice(..0, unsure);
    let large = recorded.recorded >= LARGE_OUTPUT;
    let left_open = ran.as_ref().is_ok_and(|ran| ran.left_open);
    let answer = match ran {
        Ok(ran) => record(arrival, &owned, ran.end, recorded, &mut outlets[0]),
        Err(error) => lost(arrival, owned.id, exit::OWN, "its end could not be waited for", &error, recorded.output),
    };
    let more_to_say = arrival.wants_output || answer.tone != Tone::Silent || left_open;
    deliver(owned.signals, &mut outlets, more_to_say);
    arrival.ui.after_output(outlets[0].open_line(), outlets[1].open_line());
    say_about_output(arrival, &outlets, left_open);
    if large {
        let _ = arrival.store.shrink();
    }
    Ok(answer)
}

fn start(arrival: &mut Arrival<'_>, owned: &Owned) -> Result<Child, SpawnError> {
    owned.lock.let_command_inherit().map_err(SpawnError::System)?;
    process::spawn(&program(arrival, owned))
}

fn could_not_start(arrival: &mut Arrival<'_>, owned: &Owned, error: &SpawnError) -> anyhow::Result<Answer> {
    let program = arrival.args.command[0].to_string_lossy();
    let words = words::could_not_start(&program, &error.to_string());
    let code = match error {
        SpawnError::NotFound(_) => exit::NOT_FOUND,
        SpawnError::NotExecutable(_) => exit::NOT_EXECUTABLE,
        SpawnError::System(_) => exit::OWN,
    };
    not_started(arrival, owned, code, None, &words)
}

/// Waits for slow readers, once the outcome is recorded: they keep no claim busy. From here on a signal ends idem as it
/// would have ended the command that still had something to write.
fn deliver(signals: Signals, outlets: &mut [Outlet; 2], more_to_say: bool) {
    if !more_to_say && outlets.iter().all(|outlet| outlet.waits_for().is_none()) {
        // Nothing to wait for, and the process is about to end with the command's status: the handlers stay.
        std::mem::forget(signals);
        return;
    }
    // One that came while the outcome was recorded has had its effect: the command had ended.
    let _ = signals.take_pending();
    drop(signals);
    outlets.iter_mut().for_each(Outlet::drain);
}

fn record(arrival: &mut Arrival<'_>, owned: &Owned, end: End, mut recorded: Recorded, stdout: &mut Outlet) -> Answer {
    let (exit_code, signal) = parts(end);
    let finish = Finish {
        end,
        terms: end_terms(arrival),
        exit_code,
        signal,
        missing: i64::try_from(recorded.missing).unwrap_or(i64::MAX),
        recorded: i64::try_from(recorded.recorded).unwrap_or(i64::MAX),
        actor: arrival.actor.clone(),
    };
    let code = status(end);
    let asking = right_to_ask(arrival, owned, &finish);
    let recording = ended::record(arrival, owned, finish, std::mem::take(&mut recorded.rest));
    if !matches!(recording, Recording::Lost(_)) {
        // Let go only now: whoever sees the lock free must see the outcome, in the store or kept beside it.
        let _ = owned.lock.release();
    }
    let (finished, dropped) = match recording {
        Recording::Done { finished, dropped } => (finished, dropped),
        Recording::Kept(file, error) => {
            return pending(arrival, owned.id, code, &words::end(end), (&file, &error), recorded.output);
        }
        Recording::Lost(error) => return lost(arrival, owned.id, code, &words::end(end), &error, recorded.output),
    };
    // The usual end costs no look at the row: its output has been passed on, and that is all that the caller wants.
    let refused = dropped || recorded.refused;
    let as_wished = !refused && (recorded.missing == 0 || arrival.args.no_record_output);
    let usual = as_wished && is_completed_by_its_end(finished);
    if usual && !arrival.wants_output {
        return Answer::silent(code);
    }
    let asked = asking.and_then(|right| ask(arrival, owned, finished, right));
    let became = asked.as_ref().and_then(|asked| asked.became);
    let landed = became == Some(Ended::landed(Reason::Probe));
    if let Some(asked) = asked {
        if landed {
            stdout.pass(&asked.stdout);
            recorded.output.iter_mut().for_each(|output| output.stdout.extend_from_slice(&asked.stdout));
        }
        arrival.asked = Some((owned.id, Some(asked.how)));
    }
    let Ok(Some(claim)) = arrival.store.get(owned.id) else {
        // No error that ends in "nothing was run" may come from here on.
        return Answer::lost(code, None, words::recorded_and_unreadable(owned.id), recorded.output);
    };
    let how = words::end(end);
    // Late: somebody else decided, before the end was recorded or while the target was being asked.
    let late = match finished {
        Finished::Recorded(ended) => claim.state != became.unwrap_or(ended).state,
        Finished::Late(_) => true,
    };
    let words = if late {
        words::ran_late(&claim, &how)
    } else {
        words::ran(&words::Ran { claim: &claim, how: &how, refused, unknown: arrival.unknown(&claim) })
    };
    let tone = match (usual, refused || late || claim.state == State::Held) {
        (true, _) => Tone::Silent,
        (false, true) => Tone::Error,
        (false, false) => Tone::Note,
    };
    // Landed after all: that the command failed to say so is no failure of the call.
    Answer::ran(if landed { exit::DONE } else { code }, &claim, words, recorded.output, tone)
}

/// Tells whether the end was the usual one: completed, and the exit status says all there is to say.
fn is_completed_by_its_end(finished: Finished) -> bool {
    match finished {
        Finished::Recorded(ended) => ended.state == State::Completed && ended.reason != Reason::Marks,
        Finished::Late(_) => false,
    }
}

/// Takes the right to ask about this attempt where its end is likely to leave it unknown and there is a probe.
///
/// Before the end is recorded, so that those who wait find it taken when they wake, and take this probe's answer.
fn right_to_ask(arrival: &Arrival<'_>, owned: &Owned, finish: &Finish) -> Option<ProbeLock> {
    arrival.means.probe.as_ref()?;
    let open = Open { step: false, earlier: owned.resends };
    if judge_end(&finish.terms, finish.end, Some(Mark::Sending), open).state != State::Held {
        return None;
    }
    // Where locks fail, the next arrival asks.
    ProbeLock::take(&arrival.location.lock_path(), owned.lock.place(), Asker::Owner).ok().flatten()
}

/// Asks the target about the attempt that has just ended. `None`: nothing is to be asked, or it could not be.
fn ask(arrival: &mut Arrival<'_>, owned: &Owned, finished: Finished, _right: ProbeLock) -> Option<Asked> {
    let Finished::Recorded(ended) = finished else { return None };
    // Of one that is held for its steps, its own target knows nothing.
    if ended.state != State::Held || ended.reason == Reason::Steps {
        return None;
    }
    let probe = arrival.means.probe.clone()?;
    let claim = arrival.store.get(owned.id).ok().flatten().filter(|claim| claim.state == State::Held)?;
    // What had told the command to end has had its effect.
    let _ = owned.signals.take_pending();
    let question = Question {
        claim: &claim,
        probe: &probe,
        owner: Liveness::Dead,
        location: &arrival.location,
        actor: &arrival.actor,
    };
    question.ask(arrival.store.as_mut(), &owned.signals).ok()
}

/// Records that the command of a claim never started. `why`: what there is to say of it.
fn not_started(
    arrival: &mut Arrival<'_>,
    owned: &Owned,
    code: u8,
    signal: Option<i32>,
    why: &Words,
) -> anyhow::Result<Answer> {
    let finish = Finish {
        end: End::NotStarted,
        terms: end_terms(arrival),
        exit_code: signal.is_none().then_some(i32::from(code)),
        signal,
        missing: 0,
        recorded: 0,
        actor: arrival.actor.clone(),
    };
    match ended::record(arrival, owned, finish, Vec::new()) {
        Recording::Done { .. } => {
            let _ = owned.lock.release();
            let claim = arrival.store.get(owned.id)?.ok_or_else(|| anyhow::anyhow!("claim {} is gone", owned.id))?;
            let words = words::not_started(&claim, why, &arrival.unknown(&claim));
            Ok(Answer::not_started(code, &claim, words))
        }
        Recording::Kept(file, error) => {
            let _ = owned.lock.release();
            let claim = arrival.store.get(owned.id).ok().flatten();
            let file = file.display().to_string();
            let words = words::not_recorded_yet(owned.id, &why.message, &error.to_string(), &file);
            Ok(Answer::pending(code, claim, words, None))
        }
        Recording::Lost(error) => {
            let claim = arrival.store.get(owned.id).ok().flatten();
            Ok(Answer::lost(code, claim, words::start_unrecorded(owned.id, &why.message, &error.to_string()), None))
        }
    }
}

/// Answers for a run whose end is known here and not in the store. The lock ends with this process.
fn lost(
    arrival: &mut Arrival<'_>,
    id: ClaimId,
    code: u8,
    how: &str,
    error: &dyn std::error::Error,
    output: Option<Output>,
) -> Answer {
    let claim = arrival.store.get(id).ok().flatten();
    Answer::lost(code, claim, words::unrecorded(id, how, &error.to_string()), output)
}

/// Answers for a run whose end is kept on this host until the store takes it.
fn pending(
    arrival: &mut Arrival<'_>,
    id: ClaimId,
    code: u8,
    how: &str,
    (file, error): (&Path, &StoreError),
    output: Option<Output>,
) -> Answer {
    let claim = arrival.store.get(id).ok().flatten();
    let words = words::pending(id, how, &error.to_string(), &file.display().to_string());
    Answer::pending(code, claim, words, output)
}

fn limit(arrival: &Arrival<'_>) -> Option<Limit> {
    let kill_after = arrival.args.kill_after.unwrap_or(KILL_AFTER);
    arrival.args.timeout.map(|timeout| Limit { timeout, kill_after })
}

fn program(arrival: &mut Arrival<'_>, owned: &Owned) -> Program {
    let stdin = stdin(arrival);
    let args = arrival.args.command.clone();
    let args =
        if arrival.args.subst { subst::substitute(&args, &arrival.call.key, owned.id, owned.attempt) } else { args };
    let call = &arrival.call;
    let attempt = Attempt {
        key: &call.key,
        id: owned.id,
        number: owned.attempt,
        who: &call.who,
        conv: &call.conv,
        tool: &call.tool,
        token: owned.lock.place().token(),
    };
    let mut env = attempt.environment(&arrival.location);
    // Absolute, since the command may change its folder; what was named for a call holds for its steps.
    env.extend(arrival.policy.map(|path| ("IDEM_POLICY", path.into())));
    Program { args, env, stdin, folder: None, own_group: false }
}

/// The command's standard input: what was bound, nothing where idem read it for the params, or idem's own.
fn stdin(arrival: &mut Arrival<'_>) -> Input {
    match arrival.call.stdin.take() {
        Some(spooled) => Input::File(spooled),
        None if arrival.call.took_stdin || arrival.args.stdin == Stdin::Null => Input::Null,
        None => Input::Inherit,
    }
}

pub(super) fn end_terms(arrival: &Arrival<'_>) -> EndTerms {
    EndTerms {
        effect: arrival.terms.effect,
        landed_exit: arrival.args.landed_exit.clone().unwrap_or_default(),
        not_landed_exit: arrival.args.not_landed_exit.clone().unwrap_or_default(),
        keep_failure: arrival.args.keep_failure,
        marks: arrival.means.marks,
    }
}

fn say_about_output(arrival: &Arrival<'_>, outlets: &[Outlet; 2], left_open: bool) {
    for (outlet, name) in outlets.iter().zip(["stdout", "stderr"]) {
        if let Some(error) = outlet.failure() {
            arrival.ui.note(&format!(
                "the command's output could not be passed on to {name}: {error}; the command ran on, and its output is \
                 recorded"
            ));
        }
    }
    if left_open {
        arrival.ui.note(&format!(
            "the command has ended; a process that it left behind still has its output open, and what that one writes \
             later than {} ms after the end is neither passed on nor recorded",
            process::GRACE.as_millis()
        ));
    }
}

fn parts(end: End) -> (Option<i32>, Option<i32>) {
    match end {
        End::Exited(code) => (Some(code), None),
        End::Signaled(signal) => (None, Some(signal)),
        End::TimedOut { signal } => (Some(i32::from(exit::TIMEOUT)), signal),
        End::NotStarted => (None, None),
    }
}

fn status(end: End) -> u8 {
    let status = match end {
        End::Exited(code) => code,
        End::Signaled(signal) => 128 + signal,
        End::TimedOut { .. } => i32::from(exit::TIMEOUT),
        End::NotStarted => i32::from(exit::OWN),
    };
    u8::try_from(status).unwrap_or(exit::OWN)
}

/// Returns idem's own stdout and stderr, for passing the command's on.
pub(super) fn own_streams() -> [BorrowedFd<'static>; 2] {
    // Statics of the standard library: they are never closed.
    static STDOUT: std::sync::LazyLock<io::Stdout> = std::sync::LazyLock::new(io::stdout);
    static STDERR: std::sync::LazyLock<io::Stderr> = std::sync::LazyLock::new(io::stderr);
    [STDOUT.as_fd(), STDERR.as_fd()]
}
