//! The story of one call: what `idem show` tells a person who was woken up.

use std::fmt::Write;

use super::envelope::Output;
use super::escape::{escape, escape_lines};
use super::words;
use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, State};
use crate::domain::event::Event;
use crate::domain::timestamp::Timestamp;

/// How much of each stream is shown, in bytes, from its end.
const SHOWN: usize = 4096;

/// What the story is told from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The claim that was asked for.
    pub claim: &'a Claim,
    /// All attempts of its key, oldest first.
    pub attempts: &'a [Claim],
    /// All their events, oldest first.
    pub events: &'a [Event],
    /// What the claim's command printed.
    pub output: &'a Output,
    /// Whether its owner lives; asked only while it runs.
    pub owner: Option<Liveness>,
    /// The store's clock.
    pub now: Timestamp,
}

/// Returns the story.
pub fn story(facts: &Facts<'_>) -> String {
    let claim = facts.claim;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<9} {value}");
    };
    let reason = claim.reason.map_or(String::new(), |reason| format!(" ({reason})"));
    line("claim", &format!("{}, {}{reason}, outcome {}", claim.id, claim.state, claim.outcome));
    line("call", &format!("{} / {} / {}", escape(&claim.who), escape(&claim.conv), escape(&claim.tool)));
    line("params", &escape(&claim.params));
    line("command", &words::command(claim));
    line("effect", claim.effect.as_str());
    line("key", &claim.key.to_string());
    line("attempt", &format!("{} of {}", claim.attempt, facts.attempts.len()));
    line("claimed", &format!("{}, {} ago", claim.created_at, words::age(claim.created_at.age(facts.now))));
    if let Some(at) = claim.finished_at {
        line("ended", &format!("{at}, {}", words::end_of(claim)));
    }
    if claim.missing > 0 {
        line("output", &format!("{} bytes of it are missing from the record", claim.missing));
    }
    line("owner", &format!("{}{}", escape(&claim.owner.actor), owner(facts.owner)));
    let _ = writeln!(text, "\nhistory");
    for event in facts.events {
        let _ = writeln!(text, "  {}", event_line(event, facts.attempts.len() > 1));
    }
    for (name, bytes) in [("stdout", &facts.output.stdout), ("stderr", &facts.output.stderr)] {
        text += &printed(name, bytes);
    }
    if let Some(now) = what_now(claim, facts.owner) {
        let _ = write!(text, "\nwhat to do now\n  {now}\n");
    }
    text
}

fn owner(liveness: Option<Liveness>) -> &'static str {
    match liveness {
        None => "",
        Some(Liveness::Alive) => ", alive",
        Some(Liveness::Dead) => ", dead: the next arrival will find the outcome unknown",
        Some(Liveness::Unprovable) => ", can be proven neither alive nor dead (the lock file was replaced)",
    }
}

fn event_line(event: &Event, with_claim: bool) -> String {
    let claim = if with_claim { format!("claim {}: ", event.claim) } else { String::new() };
    let detail = event.detail.as_ref().map_or(String::new(), |detail| format!("  {}", escape(detail)));
    format!("{}  {claim}{}  by {}{detail}", event.at, event.kind, escape(&event.actor))
}

fn printed(name: &str, bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return format!("\n{name}: nothing\n");
    }
    let shown = &bytes[bytes.len().saturating_sub(SHOWN)..];
    let cut = if shown.len() < bytes.len() { format!(", the last {} of them", shown.len()) } else { String::new() };
    let text = escape_lines(&String::from_utf8_lossy(shown));
    let lines: Vec<String> =
        text.strip_suffix('\n').unwrap_or(&text).split('\n').map(|line| format!("  {line}")).collect();
    format!("\n{name}: {} bytes{cut}\n{}\n", bytes.len(), lines.join("\n"))
}

fn what_now(claim: &Claim, owner: Option<Liveness>) -> Option<String> {
    let dead = matches!(owner, Some(Liveness::Dead | Liveness::Unprovable));
    match claim.state {
        State::Held => Some(words::how_to_resolve(claim.id)),
        State::Running if dead => Some(words::how_to_resolve(claim.id)),
        State::Running => Some("nothing: it is running".to_owned()),
        State::Released => Some("nothing: the next arrival runs the command".to_owned()),
        State::Completed | State::Cleared | State::Expired => None,
    }
}
