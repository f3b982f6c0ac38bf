//! The events of a call as lines that a person reads: one a line, oldest first, arrivals of one kind in a row as one.

use serde_json::Value;

use super::escape::escape;
use super::words::shorten;
use crate::domain::claim::Claim;
use crate::domain::event::{Event, EventKind};

/// How much of what a probe said is shown, in characters.
const SAID: usize = 80;

/// Returns the lines. Where there is more than one attempt, each says which claim it is about.
pub fn history(events: &[Event], attempts: &[Claim]) -> Vec<String> {
    let with_claim = attempts.len() > 1;
    let mut lines = Vec::new();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let alike = |event: &&Event| is_arrival(event.kind) && event.kind == first.kind && event.claim == first.claim;
        let count = rest.iter().take_while(alike).count().max(1);
        let last = &rest[count - 1];
        rest = &rest[count..];
        let claim = if with_claim { format!("claim {}: ", first.claim) } else { String::new() };
        let times = if count > 1 { format!(" ({count} times, the last at {})", last.at) } else { String::new() };
        lines.push(format!("{}  {claim}{}{times}  by {}", first.at, told(first), escape(&last.actor)));
    }
    lines
}

/// Arrivals that ran nothing: hundreds of them may say the same.
fn is_arrival(kind: EventKind) -> bool {
    use EventKind::{Busy, Held, InsideItself, Mismatch, Replay};
    matches!(kind, Replay | Busy | Held | Mismatch | InsideItself)
}

fn told(event: &Event) -> String {
    let detail: Value =
        event.detail.as_deref().and_then(|detail| serde_json::from_str(detail).ok()).unwrap_or_default();
    let text = |name: &str| detail[name].as_str().map(|text| escape(text).into_owned());
    let because = text("reason").map_or(String::new(), |reason| format!(" ({reason})"));
    let outcome = || text("outcome").unwrap_or_else(|| "unknown".to_owned());
    match event.kind {
        EventKind::Run => "run: claimed, and the command started".to_owned(),
        EventKind::Replay => "replay: an arrival got the result".to_owned(),
        EventKind::Busy => "busy: an arrival was told that it is running".to_owned(),
        EventKind::Held => "held: an arrival was told that nobody knows".to_owned(),
        EventKind::Mismatch => "mismatch: an arrival had another command".to_owned(),
        EventKind::InsideItself => "inside-itself: its own command called it".to_owned(),
        EventKind::BecameCompleted => format!("completed{because}{}", end(&detail)),
        EventKind::BecameHeld => format!("held{because}{}: outcome unknown", end(&detail)),
        EventKind::BecameReleased => format!("released{because}{}", end(&detail)),
        EventKind::Expired => "expired: its time to live ran out".to_owned(),
        EventKind::Probe => probe(&detail),
        EventKind::Mark => format!("mark: the command said {}", text("mark").unwrap_or_default()),
        EventKind::Resolved => format!("resolved by a person: {}{}", outcome(), note(&detail)),
        EventKind::Cleared => format!("cleared by a person{}", note(&detail)),
        EventKind::LateOutcome => format!("late-outcome: the old owner ended{}, {}", end(&detail), outcome()),
    }
}

fn end(detail: &Value) -> String {
    match (detail["exit_code"].as_i64(), detail["signal"].as_str()) {
        (_, Some(signal)) => format!(", ended by {}", escape(signal)),
        (Some(code), None) => format!(", exited with {code}"),
        (None, None) => String::new(),
    }
}

fn probe(detail: &Value) -> String {
    let how = match (detail["exit_code"].as_i64(), detail["signal"].as_str()) {
        _ if detail["timed_out"] == true => "ran out of time".to_owned(),
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by {}", escape(signal)),
        (None, None) => "could not be started".to_owned(),
    };
    let said =
        [&detail["stdout"], &detail["stderr"]].into_iter().filter_map(Value::as_str).find(|text| !text.is_empty());
    let said = said.map_or(String::new(), |said| format!(", and said: {}", shorten(&escape(said.trim_end()), SAID)));
    format!("probe: {how}: {}{said}", escape(detail["outcome"].as_str().unwrap_or("unknown")))
}

fn note(detail: &Value) -> String {
    let forced = if detail["forced"] == true { ", by force" } else { "" };
    let note = detail["note"].as_str().map_or(String::new(), |note| format!(": {}", escape(note)));
    format!("{forced}{note}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::Timestamp;

    fn event(at: i64, kind: EventKind, detail: &str) -> Event {
        let detail = (!detail.is_empty()).then(|| detail.to_owned());
        Event { claim: 1, at: Timestamp(at), kind, actor: format!("ada@h[{at}]"), detail }
    }

    #[test]
    fn arrivals_of_one_kind_are_one_line() {
        let events = [
            event(1, EventKind::Run, ""),
            event(2, EventKind::Replay, ""),
            event(3, EventKind::Replay, ""),
            event(4, EventKind::Held, ""),
            event(5, EventKind::Replay, ""),
        ];
        let lines = history(&events, &[]);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[1].contains("(2 times, the last at 1970-01-01T00:00:00.003Z)  by ada@h[3]"), "{}", lines[1]);
    }

    #[test]
    fn details_are_words_and_never_control_characters() {
        let probe = r#"{"outcome":"unknown","exit_code":3,"signal":null,"timed_out":false,"stdout":"","stderr":"no\u001b[2J route"}"#;
        let told = told(&event(1, EventKind::Probe, probe));
        assert!(told.starts_with("probe: exited with 3: unknown, and said: no") && !told.contains('\u{1b}'), "{told}");
        let resolved = r#"{"outcome":"landed","forced":true,"note":"saw it"}"#;
        assert_eq!(
            super::told(&event(1, EventKind::Resolved, resolved)),
            "resolved by a person: landed, by force: saw it"
        );
        assert!(super::told(&event(1, EventKind::BecameHeld, "no JSON")).contains("held"));
    }
}
