//! The story of one call: what `idem show` tells a person who was woken up, to be read in ten seconds.
//!
//! In this order: how it stands, what was asked and by whom, what is known, the history of all attempts, what was
//! printed, what to do now.

use std::fmt::Write;
use std::time::Duration;

use super::envelope::Output;
use super::escape::{escape, escape_lines};
use super::group::{Node, tree};
use super::history::history;
use super::words::{self, OpenStep, Unknown};
use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, Effect, Mark, Reason, State};
use crate::domain::event::Event;
use crate::domain::moment::{self, Moment, is_within};

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
    pub printed: &'a Output,
    /// What later arrivals get in its place, where somebody stated another result.
    pub stated: Option<&'a Output>,
    /// Whether its owner lives; asked only while it runs.
    pub owner: Option<Liveness>,
    /// The members of its group.
    pub members: &'a [Node],
    /// Its steps whose outcome is unknown, where it is held for them.
    pub open_steps: Vec<OpenStep>,
    /// When the call's command was first started.
    pub first_start: Option<Moment>,
    /// The present moment, by the store's clock.
    pub now: Moment,
}

/// Returns the story.
pub fn story(facts: &Facts<'_>) -> String {
    let claim = facts.claim;
    let mut text = format!("claim {} is {}: {}\n\n", claim.id, claim.state, headline(facts));
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<9} {value}");
    };
    line("asked", &format!("{} / {} / {}", escape(&claim.who), escape(&claim.conv), escape(&claim.tool)));
    line("params", &escape(&claim.params));
    line("command", &words::command(claim));
    line("effect", effect(claim));
    line("attempt", &format!("{} of {}", claim.attempt, facts.attempts.len()));
    line("claimed", &format!("{}, {} ago", claim.created_at, words::age(claim.created_at.age(facts.now.at))));
    line("owner", &format!("{}{}", escape(&claim.owner.actor), owner(facts.owner)));
    if let Some(at) = claim.finished_at {
        line("ended", &format!("{at}, {} ago: {}", words::age(at.age(facts.now.at)), end(claim)));
    }
    line("outcome", &outcome(claim));
    for (name, value) in means(facts) {
        line(name, &value);
    }
    if claim.missing > 0 {
        line("output", &format!("{} bytes of it are missing from the record", claim.missing));
    }
    if let Some(parent) = claim.parent {
        line("step of", &format!("claim {parent}"));
    }
    line("key", &claim.key.to_string());
    let _ = writeln!(text, "\nhistory");
    for line in history(facts.events, facts.attempts) {
        let _ = writeln!(text, "  {line}");
    }
    if !facts.members.is_empty() {
        let _ = writeln!(text, "\ngroup");
        for line in tree(facts.members) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text += &printed(facts);
    if let Some(now) = what_now(facts) {
        let _ = write!(text, "\nwhat to do now\n  {now}\n");
    }
    text
}

/// How it stands, in a few words.
fn headline(facts: &Facts<'_>) -> String {
    if let Some(later) = later(facts) {
        return format!("it is history; a later attempt of its call, claim {}, is {}", later.id, later.state);
    }
    let words = match (facts.claim.state, facts.owner) {
        (State::Running, Some(Liveness::Alive) | None) => "its command runs",
        (State::Running, Some(Liveness::Dead)) => "its owner is dead and has left no outcome",
        (State::Running, Some(Liveness::Unprovable)) => "its owner can be proven neither alive nor dead",
        (State::Completed, _) if is_over(facts) => "its result has expired, and the next arrival runs the command",
        (State::Completed, _) => "every repeat gets its result",
        (State::Held, _) => "nobody knows whether it landed, and nothing runs until somebody does",
        (State::Released, _) => "the next arrival runs the command",
        (State::Cleared, _) => "a person has freed its key",
        (State::Expired, _) => "its result has expired",
    };
    words.to_owned()
}

/// The newest attempt of the call, where that isn't this one: what an arrival meets is that one's matter.
fn later<'a>(facts: &Facts<'a>) -> Option<&'a Claim> {
    facts.attempts.last().filter(|newest| newest.id > facts.claim.id)
}

/// How it ended; where a result was stated, the exit code is that one's, and the history tells the command's own.
fn end(claim: &Claim) -> String {
    match (claim.state, claim.reason, claim.exit_code) {
        (State::Completed, Some(Reason::Probe | Reason::Resolved), Some(code)) => format!("repeats exit with {code}"),
        (State::Completed, Some(Reason::Marks), Some(0)) => "repeats exit with 0".to_owned(),
        _ => format!("it {}", words::end_of(claim)),
    }
}

fn effect(claim: &Claim) -> &'static str {
    match claim.effect {
        Effect::Local => "local: a failure means that nothing was written",
        Effect::External => "external: a failure may come after the target took it",
    }
}

fn outcome(claim: &Claim) -> String {
    let reason = claim.reason.map_or(String::new(), |reason| format!(" (by: {reason})"));
    let mark = match (claim.mark, claim.means.marks) {
        (Some(Mark::Sending), _) => "; its command marked that it was sending",
        (Some(Mark::Landed), _) => "; its command marked that it landed",
        (Some(Mark::NotLanded), _) => "; its command marked that it did not land",
        (None, true) => "; its command marks before it sends, and has not marked",
        (None, false) => "",
    };
    format!("{}{reason}{mark}", claim.outcome)
}

/// What can make the outcome known, or lets it expire.
fn means(facts: &Facts<'_>) -> Vec<(&'static str, String)> {
    let means = &facts.claim.means;
    let mut lines = Vec::new();
    if let Some(probe) = &means.probe {
        let folder = probe.folder.to_string_lossy();
        let command = words::shorten(&escape(&probe.command.to_string_lossy()), 120);
        lines.push(("probe", format!("{command}  (in {})", escape(&folder))));
    }
    if let (Some(window), Some(first)) = (means.resend_within, &facts.first_start) {
        let end = first.at.plus(window);
        let open = if is_within(window, first, &facts.now) { "until" } else { "ended" };
        lines.push(("resend", format!("the target is said to dedupe on the key for {}: {open} {end}", long(window))));
    }
    if let Some(ttl) = means.ttl {
        let when = match (facts.claim.state, facts.claim.finished_at) {
            (State::Completed, Some(at)) if is_over(facts) => format!(", that was {}", at.plus(ttl)),
            (State::Completed, Some(at)) => format!(", at {}", at.plus(ttl)),
            _ => String::new(),
        };
        lines.push(("expires", format!("{} after its end{when}", long(ttl))));
    }
    lines
}

fn is_over(facts: &Facts<'_>) -> bool {
    let lasted = facts.claim.means.ttl.zip(facts.claim.finished_at);
    lasted.is_some_and(|(ttl, ended)| moment::is_over(ttl, &facts.claim.claimed(), ended, &facts.now))
}

fn long(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(duration)
}

fn owner(liveness: Option<Liveness>) -> &'static str {
    match liveness {
        None => "",
        Some(Liveness::Alive) => ", alive",
        Some(Liveness::Dead) => ", dead: the next arrival will find the outcome unknown",
        Some(Liveness::Unprovable) => ", can be proven neither alive nor dead (the lock file was replaced)",
    }
}

fn printed(facts: &Facts<'_>) -> String {
    let mut text = String::new();
    for (name, bytes) in [("stdout", &facts.printed.stdout), ("stderr", &facts.printed.stderr)] {
        text += &stream(name, bytes);
    }
    if let Some(stated) = facts.stated {
        text += &stream("repeats get this as stdout", &stated.stdout);
    }
    text
}

fn stream(name: &str, bytes: &[u8]) -> String {
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

fn what_now(facts: &Facts<'_>) -> Option<String> {
    let claim = facts.claim;
    if let Some(later) = later(facts) {
        return Some(format!("nothing about this one; `idem show {}` tells of the later attempt", later.id));
    }
    let dead = matches!(facts.owner, Some(Liveness::Dead | Liveness::Unprovable));
    let window = claim.means.resend_within.zip(facts.first_start.as_ref());
    let window = window
        .filter(|(window, first)| claim.reason != Some(Reason::OwnerLost) && is_within(*window, first, &facts.now));
    let window_end = window.map(|(window, first)| first.at.plus(window));
    match claim.state {
        State::Held => {
            Some(words::what_then(claim, &Unknown { probe: None, window_end, steps: facts.open_steps.clone() }))
        }
        State::Running if dead => Some(format!(
            "the next arrival, or `idem reconcile {}`, judges it by its marks and its probe; or {}",
            claim.id,
            words::how_to_resolve(claim.id)
        )),
        State::Running => Some("nothing: it is running".to_owned()),
        State::Released => Some("nothing: the next arrival runs the command".to_owned()),
        State::Completed if is_over(facts) => Some("nothing: the next arrival runs the command".to_owned()),
        State::Completed => {
            Some(format!("nothing; `idem clear {}` frees its key, if the call is to run again", claim.id))
        }
        State::Cleared | State::Expired => None,
    }
}
