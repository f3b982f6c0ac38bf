//! The JSON envelope (design §10, §12): the same names for `run --json`, `--status-file`, `show --json` and `list --json`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use super::group::MemberFields;
use crate::domain::claim::{Claim, Mark, Reason, Stream};
use crate::domain::end::signal_name;
use crate::domain::event::Event;
use crate::exit::Failure;

/// One claim, or one arrival that came to none. A value that isn't there is null, never a missing name.
#[derive(Serialize, Debug, Default)]
pub struct Envelope {
    /// The claim's number.
    pub id: Option<i64>,
    /// The key, 64 lower-case hex digits.
    pub key: Option<String>,
    /// True on a replay: the command was not run for this arrival.
    pub idempotent: bool,
    /// The claim's state.
    pub state: Option<&'static str>,
    /// Why it is in that state.
    pub reason: Option<&'static str>,
    /// What is known of the write.
    pub outcome: Option<&'static str>,
    /// What happened, in a sentence.
    pub message: String,
    /// Who calls.
    pub who: Option<String>,
    /// The conversation.
    pub conv: Option<String>,
    /// The tool.
    pub tool: Option<String>,
    /// The params' value as given.
    pub params: Option<Box<RawValue>>,
    /// `local` or `external`.
    pub effect: Option<&'static str>,
    /// The number of the attempt, from 1.
    pub attempt: Option<i64>,
    /// The command line; bytes that are no UTF-8 are shown as U+FFFD.
    pub command: Option<Vec<String>>,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended the command, such as `SIGTERM`.
    pub signal: Option<String>,
    /// Standard output and standard error.
    #[serde(flatten)]
    pub output: OutputFields,
    /// Whether output is missing from the record.
    pub truncated: bool,
    /// The group's members; a call without any has an empty list.
    pub members: Vec<MemberFields>,
    /// When it was claimed, RFC 3339.
    pub created_at: Option<String>,
    /// When its end was recorded.
    pub finished_at: Option<String>,
    /// What went wrong, where idem's own exit code says that something did.
    pub error: Option<ErrorFields>,
}

/// The output's fields: `…_base64` is there only when the bytes aren't UTF-8, and then the plain one is null.
#[derive(Serialize, Debug, Default)]
pub struct OutputFields {
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
}

/// An error's fields.
#[derive(Serialize, Debug)]
pub struct ErrorFields {
    /// One word.
    pub kind: &'static str,
    /// A sentence.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

/// What a command printed, by stream.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Adds bytes to one stream.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }
}

impl From<Output> for OutputFields {
    fn from(output: Output) -> Self {
        let fields = |bytes: Vec<u8>| match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        let (stdout, stdout_base64) = fields(output.stdout);
        let (stderr, stderr_base64) = fields(output.stderr);
        OutputFields { stdout, stdout_base64, stderr, stderr_base64 }
    }
}

impl Envelope {
    /// Makes the envelope of a claim. `output`: what it printed; `None` leaves it out (lists).
    pub fn of_claim(claim: &Claim, message: String, output: Option<Output>) -> Envelope {
        Envelope {
            id: Some(claim.id),
            key: Some(claim.key.to_string()),
            idempotent: false,
            state: Some(claim.state.as_str()),
            reason: claim.reason.map(Reason::as_str),
            outcome: Some(claim.outcome.as_str()),
            message,
            who: Some(claim.who.clone()),
            conv: Some(claim.conv.clone()),
            tool: Some(claim.tool.clone()),
            params: raw(claim.params.clone()),
            effect: Some(claim.effect.as_str()),
            attempt: Some(claim.attempt),
            command: Some(claim.command.args().iter().map(|arg| arg.to_string_lossy().into_owned()).collect()),
            exit_code: claim.exit_code,
            signal: claim.signal.map(signal_name),
            output: output.map(OutputFields::from).unwrap_or_default(),
            truncated: claim.missing > 0,
            members: Vec::new(),
            created_at: Some(claim.created_at.to_string()),
            finished_at: claim.finished_at.map(|at| at.to_string()),
            error: None,
        }
    }

    /// Makes the envelope of an error that left no claim.
    pub fn of_failure(failure: &Failure) -> Envelope {
        Envelope { message: failure.message.clone(), error: Some(ErrorFields::of(failure)), ..Envelope::default() }
    }

    /// Returns the envelope as one line with its line break.
    pub fn line(&self) -> String {
        line(self)
    }
}

impl ErrorFields {
    /// Returns a failure's fields.
    pub fn of(failure: &Failure) -> ErrorFields {
        ErrorFields { kind: failure.kind.as_str(), message: failure.message.clone(), hint: failure.hint.clone() }
    }
}

/// Everything about one claim: `show --json`.
#[derive(Serialize, Debug)]
pub struct Story {
    /// The claim itself.
    #[serde(flatten)]
    pub claim: Envelope,
    /// Who runs or ran it.
    pub owner: String,
    /// The claim whose command started it.
    pub parent: Option<i64>,
    /// What can make its outcome known, or lets it expire.
    pub terms: TermsFields,
    /// Its key's events over all attempts, oldest first.
    pub events: Vec<EventFields>,
    /// Its key's attempts, oldest first.
    pub attempts: Vec<Envelope>,
}

/// The fields of what was given along with a claim. Durations are milliseconds.
#[derive(Serialize, Debug)]
pub struct TermsFields {
    /// What its command has said of the write so far.
    mark: Option<&'static str>,
    marks: bool,
    probe: Option<String>,
    probe_folder: Option<String>,
    probe_delay_ms: Option<u64>,
    probe_timeout_ms: Option<u64>,
    resend_within_ms: Option<u64>,
    ttl_ms: Option<u64>,
}

impl From<&Claim> for TermsFields {
    fn from(claim: &Claim) -> Self {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let probe = claim.means.probe.as_ref();
        TermsFields {
            mark: claim.mark.map(Mark::as_str),
            marks: claim.means.marks,
            probe: probe.map(|probe| probe.command.to_string_lossy().into_owned()),
            probe_folder: probe.map(|probe| probe.folder.to_string_lossy().into_owned()),
            probe_delay_ms: probe.map(|probe| millis(probe.delay)),
            probe_timeout_ms: probe.map(|probe| millis(probe.timeout)),
            resend_within_ms: claim.means.resend_within.map(millis),
            ttl_ms: claim.means.ttl.map(millis),
        }
    }
}

/// An event's fields.
#[derive(Serialize, Debug)]
pub struct EventFields {
    claim: i64,
    at: String,
    kind: &'static str,
    actor: String,
    detail: Option<Box<RawValue>>,
}

impl From<&Event> for EventFields {
    fn from(event: &Event) -> Self {
        EventFields {
            claim: event.claim,
            at: event.at.to_string(),
            kind: event.kind.as_str(),
            actor: event.actor.clone(),
            detail: event.detail.clone().and_then(raw),
        }
    }
}

impl Story {
    /// Returns the story as one line with its line break.
    pub fn line(&self) -> String {
        line(self)
    }
}

/// Takes JSON as it is, but for what would break the line; text that isn't JSON is left out.
pub(super) fn raw(mut json: String) -> Option<Box<RawValue>> {
    // idem writes none, but a store may come from elsewhere. In JSON they stand between values only.
    if json.contains(['\n', '\r']) {
        json = json.replace(['\n', '\r'], " ");
    }
    RawValue::from_string(json).ok()
}

pub(super) fn line(value: &impl Serialize) -> String {
    // Maps with string keys and plain values: there is nothing that could fail to be written.
    let mut line = serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"message\":\"{error}\"}}"));
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_no_text_is_given_as_base64() {
        let fields = OutputFields::from(Output { stdout: b"\xff\x00".to_vec(), stderr: b"ok".to_vec() });
        let json = serde_json::to_value(&fields).expect("JSON");
        assert_eq!(json["stdout"], serde_json::Value::Null);
        assert_eq!(json["stdout_base64"], "/wA=");
        assert_eq!(json["stderr"], "ok");
        assert!(json.get("stderr_base64").is_none());
    }

    #[test]
    fn what_is_not_there_is_null() {
        let json: serde_json::Value = serde_json::from_str(&Envelope::default().line()).expect("JSON");
        for name in ["id", "key", "state", "reason", "params", "stdout", "stderr", "exit_code", "signal", "error"] {
            assert_eq!(json.get(name), Some(&serde_json::Value::Null), "{name}");
        }
        assert_eq!(json["members"], serde_json::json!([]));
    }
}
