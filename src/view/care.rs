//! What `prune` and `stats` say: sentences, tables and JSON.

use serde::Serialize;

use super::columns::columns;
use super::envelope::{ErrorFields, line};
use super::escape::escape;
use crate::domain::prune::{Pruned, Pruning, Space};
use crate::domain::size::Size;
use crate::domain::stats::{Counts, Stats};
use crate::domain::timestamp::Timestamp;

/// What pruning did or would do, as JSON. Sizes are bytes.
#[derive(Serialize, Debug)]
pub struct PruneSummary {
    /// Whether anything was changed.
    pub changed: bool,
    /// What was done, in a sentence.
    pub message: String,
    ended_before: String,
    claims: u64,
    completed: u64,
    history: u64,
    events: u64,
    members: u64,
    bytes: u64,
    /// The store's file before and after, and what is free in it; null where nothing was changed.
    store_bytes_before: Option<u64>,
    store_bytes_after: Option<u64>,
    store_bytes_free: Option<u64>,
    error: Option<ErrorFields>,
}

impl PruneSummary {
    /// Tells of what would be pruned.
    pub fn would(pruning: &Pruning, pruned: &Pruned) -> PruneSummary {
        let before = pruning.ended_before;
        PruneSummary {
            changed: false,
            message: if pruned.claims() == 0 { nothing(pruning) } else { would_prune(pruning, pruned) },
            ended_before: before.to_string(),
            claims: pruned.claims(),
            completed: pruned.completed,
            history: pruned.history,
            events: pruned.events,
            members: pruned.members,
            bytes: pruned.bytes,
            store_bytes_before: None,
            store_bytes_after: None,
            store_bytes_free: None,
            error: None,
        }
    }

    /// Tells of what was pruned.
    pub fn done(pruning: &Pruning, pruned: &Pruned, space: &Space) -> PruneSummary {
        let given_back = space.before.saturating_sub(space.after);
        let inside = match space.free_inside {
            0 => String::new(),
            free => format!("; {} are free within it, for later claims", Size(free)),
        };
        let file = format!(
            "the store's file went from {} to {}, {} given back{inside}",
            Size(space.before),
            Size(space.after),
            Size(given_back)
        );
        let message =
            if pruned.claims() == 0 { nothing(pruning) } else { format!("pruned {}; {file}", what(pruning, pruned)) };
        PruneSummary {
            changed: pruned.claims() > 0,
            message,
            store_bytes_before: Some(space.before),
            store_bytes_after: Some(space.after),
            store_bytes_free: Some(space.free_inside),
            ..PruneSummary::would(pruning, pruned)
        }
    }

    /// Adds that nothing was changed since nobody agreed.
    pub fn refused(mut self) -> PruneSummary {
        self.message += "; nothing was changed";
        self.error = Some(ErrorFields {
            kind: "usage",
            message: self.message.clone(),
            hint: Some("prune changes nothing without --yes where nobody can be asked".to_owned()),
        });
        self
    }

    /// Returns what to do next, where there was an error.
    pub fn hint(&self) -> Option<&str> {
        self.error.as_ref()?.hint.as_deref()
    }

    /// Returns it as one line with its line break.
    pub fn line(&self) -> String {
        line(self)
    }
}

/// Says what would go, and what that means.
pub fn would_prune(pruning: &Pruning, pruned: &Pruned) -> String {
    let again = if pruned.completed > 0 { ". Calls of completed claims run again when they come" } else { "" };
    format!("would prune {}{again}", what(pruning, pruned))
}

fn nothing(pruning: &Pruning) -> String {
    format!("nothing that can be pruned ended before {}; nothing was changed", pruning.ended_before)
}

fn what(pruning: &Pruning, pruned: &Pruned) -> String {
    format!(
        "{} that ended before {} ({} completed, {} released, cleared or expired), with {} and {}: {}",
        number(pruned.claims(), "claim", "claims"),
        pruning.ended_before,
        pruned.completed,
        pruned.history,
        number(pruned.events, "event", "events"),
        number(pruned.members, "member of their groups", "members of their groups"),
        Size(pruned.bytes)
    )
}

fn number(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What a store has seen, as JSON.
#[derive(Serialize, Debug)]
pub struct StatsFields {
    since: Option<String>,
    #[serde(flatten)]
    total: CountFields,
    by_tool: Vec<ToolFields>,
    by_day: Vec<DayFields>,
}

#[derive(Serialize, Debug)]
struct ToolFields {
    tool: String,
    #[serde(flatten)]
    counts: CountFields,
}

#[derive(Serialize, Debug)]
struct DayFields {
    day: String,
    #[serde(flatten)]
    counts: CountFields,
}

#[derive(Serialize, Debug)]
struct CountFields {
    runs: u64,
    replays: u64,
    busy: u64,
    held: u64,
    mismatches: u64,
    kept_from_running: u64,
    failures: u64,
    held_now: u64,
    running_now: u64,
}

impl From<&Counts> for CountFields {
    fn from(counts: &Counts) -> Self {
        CountFields {
            runs: counts.runs,
            replays: counts.replays,
            busy: counts.busy,
            held: counts.held,
            mismatches: counts.mismatches,
            kept_from_running: counts.kept_from_running(),
            failures: counts.failures,
            held_now: counts.held_now,
            running_now: counts.running_now,
        }
    }
}

impl StatsFields {
    /// Makes the fields.
    pub fn new(stats: &Stats, since: Option<Timestamp>) -> StatsFields {
        let tool = |(tool, counts): (&String, &Counts)| ToolFields { tool: tool.clone(), counts: counts.into() };
        StatsFields {
            since: since.map(|since| since.to_string()),
            total: (&stats.total).into(),
            by_tool: stats.by_tool.iter().map(tool).collect(),
            by_day: (stats.by_day.iter())
                .map(|(day, counts)| DayFields { day: day.to_string(), counts: counts.into() })
                .collect(),
        }
    }

    /// Returns it as one line with its line break.
    pub fn line(&self) -> String {
        line(self)
    }
}

/// Returns the counts for people: a sentence, a table by tool, and one by day with the newest first.
pub fn stats_text(stats: &Stats, since: Option<Timestamp>) -> String {
    let total = &stats.total;
    let since = since.map_or(String::new(), |since| format!(" since {since}"));
    let kept = total.kept_from_running();
    let mut text = format!(
        "{}{since}; {} kept from running: {}, {}, {}, {}\n{}; {} held now, {} running\n",
        number(total.runs, "run", "runs"),
        number(kept, "duplicate", "duplicates"),
        number(total.replays, "replay", "replays"),
        number(total.busy, "time busy", "times busy"),
        number(total.held, "time held", "times held"),
        number(total.mismatches, "mismatch", "mismatches"),
        number(total.failures, "failure", "failures"),
        number(total.held_now, "claim", "claims"),
        total.running_now
    );
    let tools = stats.by_tool.iter().map(|(tool, counts)| row(&escape(tool), counts, true));
    text += &format!("\n{}", columns(&std::iter::once(heading("TOOL", true)).chain(tools).collect::<Vec<_>>()));
    if !stats.by_day.is_empty() {
        let days = stats.by_day.iter().rev().map(|(day, counts)| row(&day.to_string(), counts, false));
        text += &format!("\n{}", columns(&std::iter::once(heading("DAY", false)).chain(days).collect::<Vec<_>>()));
    }
    text
}

fn heading(first: &str, now: bool) -> Vec<String> {
    let names = [first, "RUNS", "KEPT", "REPLAYS", "BUSY", "HELD", "MISMATCHES", "FAILURES", "HELD NOW"];
    names[..names.len() - usize::from(!now)].iter().copied().map(str::to_owned).collect()
}

fn row(first: &str, counts: &Counts, now: bool) -> Vec<String> {
    let numbers = [
        counts.runs,
        counts.kept_from_running(),
        counts.replays,
        counts.busy,
        counts.held,
        counts.mismatches,
        counts.failures,
    ];
    let mut row = vec![first.to_owned()];
    row.extend(numbers.iter().map(ToString::to_string));
    row.extend(now.then(|| counts.held_now.to_string()));
    row
}
