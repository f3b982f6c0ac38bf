//! Asking the target about a held claim, and recording what it answered (design §7): for `run` and for `reconcile`.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::environment::Attempt;
use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, Outcome, Probe, Reason, State};
use crate::domain::end::{End, Ended, signal_name};
use crate::domain::event::{EventKind, NewEvent};
use crate::domain::probe::{answer, judge_answer};
use crate::domain::store::{NewOutput, NewResult, Store, StoreError, Transition};
use crate::process::signals::Signals;
use crate::process::{self, Input, Probed, Program};
use crate::store::Location;
use crate::view::words;

/// `--probe-timeout`, where it isn't given.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Tells whether a shell would find nothing to run in a probe: it would exit 0, and so always say that it landed.
pub(super) fn is_blank(probe: &OsStr) -> bool {
    let mut lines = probe.as_encoded_bytes().split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.all(|line| line.is_empty() || line.starts_with(b"#"))
}

/// How much of each of a probe's streams its event keeps, in bytes.
const KEPT: usize = 4096;

/// What asking came to.
#[derive(Debug)]
pub(super) struct Asked {
    /// What the target answered.
    pub(super) answer: Outcome,
    /// What the probe came to, as part of a sentence: `exited with 2, so that is not known either`.
    pub(super) how: String,
    /// What it printed, where it is the result.
    pub(super) stdout: Vec<u8>,
    /// Whether the answer could not be recorded: nothing may follow from it.
    pub(super) unrecorded: bool,
    /// What the claim has become by it; `None`: it is as it was, or as somebody else left it meanwhile.
    pub(super) became: Option<Ended>,
}

/// A claim to ask about, as it was read.
pub(super) struct Question<'a> {
    pub(super) claim: &'a Claim,
    pub(super) probe: &'a Probe,
    /// Whether its owner lives: that a write has not landed by now frees nothing that may land yet.
    pub(super) owner: Liveness,
    pub(super) location: &'a Location,
    pub(super) actor: &'a str,
}

impl Question<'_> {
    /// Asks, once the probe's delay after the attempt's end has passed. Whoever asks has taken the right to
    /// ([`crate::liveness::ProbeLock`]), and the handlers of signals stand.
    ///
    /// Killed at any moment, it leaves the claim held: the answer and the change that it makes are one transaction.
    pub(super) fn ask(&self, store: &mut dyn Store, signals: &Signals) -> Result<Asked, StoreError> {
        let ended = self.claim.finished_at.unwrap_or(self.claim.created_at);
        let delay = self.probe.delay.saturating_sub(ended.age(store.now()?.at));
        if !signals.sleep(delay) {
            let how = "was not run: idem was told to end".to_owned();
            return Ok(Asked { answer: Outcome::Unknown, how, stdout: Vec::new(), unrecorded: false, became: None });
        }
        let (probed, how) = self.run(signals);
        let told = answer(probed.end);
        let event = NewEvent { kind: EventKind::Probe, detail: Some(self.detail(told, &probed)) };
        let recorded = match judge_answer(told, self.owner != Liveness::Dead) {
            // Its own write has not landed; of a step's nobody knows, and it waits for that.
            Some(ended) if ended.state == State::Released && !store.open_steps(self.claim.id)?.is_empty() => {
                self.record(store, Ended::held(Reason::Steps), &event, &probed)
            }
            Some(ended) => self.record(store, ended, &event, &probed),
            None => {
                // A history that can't be written changes nothing of what is known.
                let _ = store.leave(self.claim.id, &event, self.actor);
                Ok(None)
            }
        };
        let (how, became, unrecorded) = match recorded {
            Ok(became) => (self.what_followed(how, told, became), became, false),
            Err(error) => {
                let said = if told == Outcome::Landed { "that it landed" } else { "that it did not land" };
                (format!("says {said}, but this could not be recorded: {error}"), None, true)
            }
        };
        Ok(Asked { answer: told, how, stdout: probed.stdout, unrecorded, became })
    }

    /// Runs the probe. Returns what it came to, and how it ended, as part of a sentence.
    fn run(&self, signals: &Signals) -> (Probed, String) {
        let not_started = |how: String| {
            let stderr = how.clone().into_bytes();
            (Probed { end: End::NotStarted, stdout: Vec::new(), stderr, missing: 0 }, how)
        };
        let folder = Path::new(&self.probe.folder);
        if !folder.is_dir() {
            return not_started(format!("was not run: its folder {} is not there", folder.display()));
        }
        match process::probe(&self.program(), self.probe.timeout, signals) {
            Ok(probed) => {
                let how = how_it_ended(probed.end, self.probe.timeout);
                (probed, how)
            }
            Err(error) => not_started(error.to_string()),
        }
    }

    fn what_followed(&self, how: String, told: Outcome, became: Option<Ended>) -> String {
        match (told, became) {
            (Outcome::Unknown, _) => format!("{how}, so that is not known either"),
            (Outcome::NotLanded, None) if self.owner != Liveness::Dead => {
                "says that it has not landed so far, but its command may still be alive".to_owned()
            }
            (_, None) => format!("{how}, but the claim changed while its target was asked"),
            (_, Some(ended)) if ended.state == State::Held => format!("{how}: its own write has not landed"),
            (_, Some(_)) => how,
        }
    }

    /// Records an answer. `None`: somebody was faster, and what they did stands.
    fn record(
        &self,
        store: &mut dyn Store,
        ended: Ended,
        event: &NewEvent,
        probed: &Probed,
    ) -> Result<Option<Ended>, StoreError> {
        let reason = json!({ "reason": ended.reason.as_str(), "outcome": ended.outcome.as_str() }).to_string();
        let mut change = Transition::of(self.claim, ended, self.actor.to_owned());
        change.events.push(event.clone());
        change = change.event(EventKind::became(ended.state), Some(reason));
        if ended.state == State::Completed {
            // As much as of the command's own output is recorded, by what was said with the probe.
            let room = usize::try_from(self.probe.max_output).unwrap_or(usize::MAX).min(probed.stdout.len());
            let missing = probed.missing + (probed.stdout.len() - room) as u64;
            let missing = i64::try_from(missing).unwrap_or(i64::MAX);
            let output = NewOutput::Only { stdout: probed.stdout[..room].to_vec(), missing };
            change.result = Some(NewResult { exit_code: 0, output });
        }
        let changed = match store.transition(self.claim.id, &change) {
            // Of the two the outcome is what nobody can look up.
            Err(StoreError::Full(_)) if change.result.is_some() => {
                let missing = i64::try_from(probed.missing + probed.stdout.len() as u64).unwrap_or(i64::MAX);
                let output = NewOutput::Only { stdout: Vec::new(), missing };
                store.transition(
                    self.claim.id,
                    &Transition { result: Some(NewResult { exit_code: 0, output }), ..change },
                )?
            }
            changed => changed?,
        };
        if changed {
            return Ok(Some(ended));
        }
        let _ = store.leave(self.claim.id, event, self.actor);
        Ok(None)
    }

    fn program(&self) -> Program {
        Program {
            args: vec!["sh".into(), "-c".into(), self.probe.command.clone()],
            env: Attempt::of(self.claim).environment_of_probe(self.location),
            stdin: Input::Null,
            folder: Some(self.probe.folder.clone()),
            own_group: true,
        }
    }

    fn detail(&self, told: Outcome, probed: &Probed) -> String {
        let (exit_code, signal, timed_out) = match probed.end {
            End::Exited(code) => (Some(code), None, false),
            End::Signaled(signal) => (None, Some(signal_name(signal)), false),
            End::TimedOut { signal } => (None, signal.map(signal_name), true),
            End::NotStarted => (None, None, false),
        };
        // Nothing of it, where no output is to be recorded.
        let recorded = self.probe.max_output > 0;
        let excerpt = |bytes: &[u8]| if recorded { excerpt(bytes) } else { String::new() };
        json!({
            "outcome": told.as_str(),
            "exit_code": exit_code,
            "signal": signal,
            "timed_out": timed_out,
            "stdout": excerpt(&probed.stdout),
            "stderr": excerpt(&probed.stderr),
        })
        .to_string()
    }
}

fn how_it_ended(end: End, timeout: Duration) -> String {
    match end {
        End::TimedOut { .. } => format!("gave no answer within {}", humantime::format_duration(timeout)),
        other => words::end(other),
    }
}

/// The beginning of what was printed; the whole of a result is the claim's output.
fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(KEPT)]).into_owned();
    if bytes.len() > KEPT { format!("{text}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_asks_nothing_is_blank() {
        for blank in ["", " ", "# todo", "\n\t\n  # later\n"] {
            assert!(is_blank(OsStr::new(blank)), "{blank:?}");
        }
        for probe in ["true", "# why\ncurl x", "#\n:"] {
            assert!(!is_blank(OsStr::new(probe)), "{probe:?}");
        }
    }
}
