//! G4, G5, and that each answer is true: what arrivals were told.

use std::collections::BTreeMap;

use super::Violation;
use super::case::{Case, Start};
use crate::command::has_landed;
use crate::facts::Answered;
use crate::kinds::Kind;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (_, answered) in &case.answers {
        let started: Vec<&Start> = case.starts.iter().filter(|start| start.arrival == answered.arrival).collect();
        let objections = [code(case, answered), start(answered, &started), end(case, answered, &started)];
        for objection in objections.into_iter().flatten() {
            let text = format!("{objection}: {answered:?}, which began {started:?}");
            violations.push(case.violation("answer", &text));
        }
    }
    violations.extend(stays_completed(case));
    violations.extend(replays_are_equal(case));
    violations
}

/// What an arrival may exit with.
fn code(case: &Case<'_>, answered: &Answered) -> Option<&'static str> {
    let allowed = match answered.code {
        // A signal; its workers know whose.
        None => true,
        Some(0 | 1 | 120 | 121 | 124) => true,
        Some(10 | 20) => matches!(case.kind, Kind::Codes | Kind::Resent),
        Some(122) => case.kind == Kind::Changing,
        Some(125) => case.store_goes_away,
        // SIGKILL and SIGTERM.
        Some(137 | 143) => true,
        Some(_) => false,
    };
    (!allowed).then_some("no such exit code was to be expected")
}

/// Who may have started a command.
fn start(answered: &Answered, started: &[&Start]) -> Option<&'static str> {
    let error = answered.error.as_deref();
    let turned_away = matches!(error, Some("busy" | "held" | "mismatch"));
    match (answered.code, started) {
        (_, [_, _, ..]) => Some("it began twice"),
        (_, [_]) if answered.idempotent => Some("a replay that ran"),
        (_, [_]) if turned_away => Some("turned away, and it ran"),
        (Some(125), [_]) if answered.says_nothing_was_run => Some("it says that nothing was run"),
        (_, [start]) if answered.id.is_some_and(|id| id != start.claim) => Some("it ran another claim"),
        _ => None,
    }
}

/// What it says of the end.
fn end(case: &Case<'_>, answered: &Answered, started: &[&Start]) -> Option<&'static str> {
    let state = answered.state.as_deref();
    let known = matches!(answered.reason.as_deref(), Some("exit" | "landed-exit"));
    let begun = answered.id.is_some_and(|id| case.start(id).is_some());
    if answered.code == Some(0) && answered.told && !answered.idempotent && started.is_empty() {
        return Some("0, and nothing ran");
    }
    if state == Some("completed") && known && !begun {
        return Some("completed, and never begun");
    }
    // Where the store has gone in between, the envelope says so by its error.
    let whole = answered.error.is_none();
    if case.kind == Kind::Grouped && answered.idempotent && state == Some("completed") && known && whole {
        let whole = ["made".to_owned(), format!("{}-a", case.key), format!("{}-b", case.key)];
        if answered.members != whole {
            return Some("it replays without its whole group");
        }
    }
    // Its own end, told by itself: whatever came later, it isn't unknown.
    let own = !answered.idempotent && answered.code == Some(0) && state == Some("completed") && known;
    let row = answered.id.and_then(|id| case.row(id));
    let stays = row.is_some_and(|row| matches!(row.state.as_str(), "completed" | "cleared" | "expired"));
    let ended = answered.id.and_then(|id| case.ends.get(&id)).is_some_and(|code| has_landed(*code));
    (own && !(stays && ended)).then_some("told that it is done, and it isn't")
}

/// G4: what was told to anybody to be completed never runs again, unless a person cleared it or its time is over.
fn stays_completed(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let told = case.answers.iter().filter(|(_, answered)| answered.state.as_deref() == Some("completed"));
    let mut claims: Vec<i64> = told.filter_map(|(_, answered)| answered.id).collect();
    claims.sort_unstable();
    claims.dedup();
    for claim in claims {
        let expired = case.kind == Kind::Expiring && case.row(claim).is_some_and(|row| row.state == "expired");
        let cleared = |start: &Start| {
            let mut words = case.words.iter();
            words.any(|word| word.claim == claim && word.says == "clear" && word.counts && word.at < start.at)
        };
        let again = case.starts.iter().find(|start| start.claim > claim && !cleared(start));
        if let (Some(start), false) = (again, expired) {
            violations.push(case.violation("G4", &format!("claim {claim} was told to be completed, and {start:?}")));
        }
    }
    violations
}

/// G4: all who were told of one claim in one state were given the same, its own run included where that saw its end.
fn replays_are_equal(case: &Case<'_>) -> Vec<Violation> {
    let mut given: BTreeMap<_, &Answered> = BTreeMap::new();
    let mut violations = Vec::new();
    for (_, answered) in &case.answers {
        let reason = answered.reason.as_deref();
        // What a probe or a person said takes the place of what its own run printed.
        let own = matches!(reason, Some("exit" | "landed-exit" | "kept-failure"));
        let whole = answered.told && answered.code.is_some() && answered.error.is_none();
        if !whole || answered.id.is_none() || !(answered.idempotent || own) {
            continue;
        }
        let first = *given.entry((answered.id, answered.state.as_deref(), reason)).or_insert(answered);
        let same = |of: &Answered| (of.code, of.exit_code, of.signal.clone(), of.stdout.clone());
        if same(first) != same(answered) {
            violations.push(case.violation("G4", &format!("{first:?} and {answered:?}")));
        }
    }
    violations
}
