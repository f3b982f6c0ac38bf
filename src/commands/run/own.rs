//! The owner's part of a run: spawn, stream and record, then record the end (design §§5, 6).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::record::Recorder;
use super::{Answer, Arrival};
use crate::domain::claim::{Chunk, ClaimId, State};
use crate::domain::end::{End, EndTerms, judge_end};
use crate::domain::store::{Finish, Finished, Store, StoreError};
use crate::exit;
use crate::liveness::AttemptLock;
use crate::process::signals::Signals;
use crate::process::{self, Input, Outlet, Program, SpawnError};
use crate::view::envelope::Output;
use crate::view::words::{self, Words};

/// What an owner holds: its claim, the lock that proves it alive, and the handlers that keep signals from ending it.
pub(super) struct Owned {
    pub(super) id: ClaimId,
    pub(super) attempt: i64,
    pub(super) lock: AttemptLock,
    pub(super) signals: Signals,
}

/// Runs the command of a claim that this process owns.
///
/// The claim is committed and synced (G1). Whatever happens from here on ends in a recorded outcome, or in a row that
/// says running while its lock is free, which the next arrival holds.
pub(super) fn run(arrival: &mut Arrival<'_>, owned: Owned) -> anyhow::Result<Answer> {
    if let Some(signal) = owned.signals.pending() {
        let words = words::stopped_before_start(owned.id, signal);
        let code = u8::try_from(128 + signal).unwrap_or(exit::OWN);
        return not_started(arrival, owned, code, Some(signal), words);
    }
    let spawned = owned.lock.let_command_inherit().map_err(SpawnError::System);
    let mut child = match spawned.and_then(|()| process::spawn(&program(arrival, &owned))) {
        Ok(child) => child,
        Err(error) => {
            let program = arrival.args.command[0].to_string_lossy();
            let words = words::not_started(owned.id, &program, &error.to_string());
            let code = match error {
                SpawnError::NotFound(_) => exit::NOT_FOUND,
                SpawnError::NotExecutable(_) => exit::NOT_EXECUTABLE,
                SpawnError::System(_) => exit::OWN,
            };
            return not_started(arrival, owned, code, None, words);
        }
    };
    owned.signals.forward_to(child.id());
    // While the command runs nobody waits for it. What it can't do now, a later run does.
    let _ = arrival.store.upkeep();
    let mut outlets = arrival.outlets();
    let mut recorder = Recorder::new(arrival.store.as_mut(), owned.id, arrival.wants_output);
    let ran = process::pump(&mut child, &owned.signals, &mut outlets, &mut recorder);
    let (rest, truncated, output) = recorder.finish();
    arrival.ui.after_output(outlets[0].open_line(), outlets[1].open_line());
    say_what_was_not_passed_on(arrival, &outlets);
    match ran {
        Ok(ran) => {
            if ran.left_open {
                arrival.ui.note(&format!(
                    "the command has ended; a process that it left behind still has its output open, and what that one \
                     writes after {} ms is neither passed on nor recorded",
                    process::GRACE.as_millis()
                ));
            }
            let end = Ended { end: ran.end, rest, truncated, output };
            record(arrival, owned, end)
        }
        Err(error) => Ok(lost(arrival, owned.id, exit::OWN, "its end could not be waited for", &error, output)),
    }
}

struct Ended {
    end: End,
    rest: Vec<Chunk>,
    truncated: bool,
    output: Option<Output>,
}

fn record(arrival: &mut Arrival<'_>, owned: Owned, ended: Ended) -> anyhow::Result<Answer> {
    let (exit_code, signal) = parts(ended.end);
    let finish = Finish {
        ended: judge_end(&end_terms(arrival), ended.end),
        exit_code,
        signal,
        truncated: ended.truncated,
        started: true,
        actor: arrival.actor.clone(),
    };
    let code = status(ended.end);
    // The usual end costs no look at the row: its output has been passed on, and that is all that the caller wants.
    let nothing_to_say = finish.ended.state == State::Completed && !arrival.wants_output;
    let finished = finish_or_drop_output(arrival.store.as_mut(), owned.id, finish, &ended.rest);
    match finished {
        Ok((finished, missing)) => {
            // Let go only now: whoever sees the lock free must see the outcome.
            let _ = owned.lock.release();
            if nothing_to_say && !missing && finished == Finished::Recorded {
                return Ok(Answer::silent(code));
            }
            Ok(match arrival.store.get(owned.id) {
                Ok(Some(claim)) => {
                    let words = match finished {
                        Finished::Recorded => words::ran(&claim),
                        Finished::Late(state) => words::ran_late(&claim, state),
                    };
                    Answer::ran(code, &claim, words, ended.output, finished)
                }
                // No error that ends in "nothing was run" may come from here on.
                _ => Answer::lost(code, None, words::recorded_and_unreadable(owned.id), ended.output),
            })
        }
        Err(error) => {
            let how = how_it_ended(ended.end);
            Ok(lost(arrival, owned.id, code, &how, &error, ended.output))
        }
    }
}

/// Records the end, if need be without the rest of the output: of the two the outcome is what nobody can look up. Tells
/// whether output is missing.
fn finish_or_drop_output(
    store: &mut dyn Store,
    id: ClaimId,
    finish: Finish,
    rest: &[Chunk],
) -> Result<(Finished, bool), StoreError> {
    match store.finish(id, &finish, rest) {
        Err(StoreError::Full(_)) if !rest.is_empty() => {
            Ok((store.finish(id, &Finish { truncated: true, ..finish }, &[])?, true))
        }
        finished => Ok((finished?, finish.truncated)),
    }
}

/// Releases a claim whose command never started.
fn not_started(
    arrival: &mut Arrival<'_>,
    owned: Owned,
    code: u8,
    signal: Option<i32>,
    words: Words,
) -> anyhow::Result<Answer> {
    let finish = Finish {
        ended: judge_end(&end_terms(arrival), End::NotStarted),
        exit_code: signal.is_none().then_some(i32::from(code)),
        signal,
        truncated: false,
        started: false,
        actor: arrival.actor.clone(),
    };
    match arrival.store.finish(owned.id, &finish, &[]) {
        Ok(_) => {
            let _ = owned.lock.release();
            let claim = arrival.store.get(owned.id)?.ok_or_else(|| anyhow::anyhow!("claim {} is gone", owned.id))?;
            Ok(Answer::not_started(code, &claim, words))
        }
        Err(error) => {
            let claim = arrival.store.get(owned.id).ok().flatten();
            Ok(Answer::lost(code, claim, words::not_released(owned.id, &words.message, &error.to_string()), None))
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

fn program(arrival: &Arrival<'_>, owned: &Owned) -> Program {
    let call = &arrival.call;
    let text = |text: &str| OsString::from(text);
    Program {
        args: arrival.args.command.clone(),
        env: vec![
            ("IDEM_KEY", text(&call.key.to_string())),
            ("IDEM_KEY_UUID", text(&call.key.uuid())),
            ("IDEM_KEY_SHORT", text(&call.key.short())),
            ("IDEM_CLAIM", text(&owned.id.to_string())),
            ("IDEM_ATTEMPT", text(&owned.attempt.to_string())),
            ("IDEM_WHO", text(&call.who)),
            ("IDEM_CONV", text(&call.conv)),
            ("IDEM_TOOL", text(&call.tool)),
            ("IDEM_STORE", arrival.location.path.clone().into_os_string()),
        ],
        stdin: if call.took_stdin { Input::Null } else { Input::Inherit },
    }
}

fn end_terms(arrival: &Arrival<'_>) -> EndTerms {
    EndTerms {
        effect: arrival.terms.effect,
        landed_exit: arrival.args.landed_exit.clone().unwrap_or_default(),
        not_landed_exit: arrival.args.not_landed_exit.clone().unwrap_or_default(),
        keep_failure: arrival.args.keep_failure,
    }
}

fn say_what_was_not_passed_on(arrival: &Arrival<'_>, outlets: &[Outlet; 2]) {
    for (outlet, name) in outlets.iter().zip(["stdout", "stderr"]) {
        if let Some(error) = outlet.failure() {
            arrival.ui.note(&format!(
                "the command's output could not be passed on to {name}: {error}; the command ran on and its output is recorded"
            ));
        }
    }
}

fn parts(end: End) -> (Option<i32>, Option<i32>) {
    match end {
        End::Exited(code) => (Some(code), None),
        End::Signaled(signal) => (None, Some(signal)),
        End::NotStarted => (None, None),
    }
}

fn status(end: End) -> u8 {
    let status = match end {
        End::Exited(code) => code,
        End::Signaled(signal) => 128 + signal,
        End::NotStarted => i32::from(exit::OWN),
    };
    u8::try_from(status).unwrap_or(exit::OWN)
}

fn how_it_ended(end: End) -> String {
    match end {
        End::Exited(code) => format!("exited with {code}"),
        End::Signaled(signal) => format!("was ended by {}", crate::view::envelope::signal_name(signal)),
        End::NotStarted => "never started".to_owned(),
    }
}

/// Returns idem's own stdout and stderr, for passing the command's on.
pub(super) fn own_streams() -> [BorrowedFd<'static>; 2] {
    // Statics of the standard library: they are never closed.
    static STDOUT: std::sync::LazyLock<io::Stdout> = std::sync::LazyLock::new(io::stdout);
    static STDERR: std::sync::LazyLock<io::Stderr> = std::sync::LazyLock::new(io::stderr);
    [STDOUT.as_fd(), STDERR.as_fd()]
}
