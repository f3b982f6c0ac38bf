//! What the store says of each claim, held against what its command did and what persons said.

use super::Violation;
use super::case::Case;
use crate::kinds::{Kind, LANDED, LIVES, NOT_LANDED};
use crate::rows::Row;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (n, row) in case.rows.iter().enumerate() {
        let next = case.rows.get(n + 1).copied();
        if !is_true(case, row, next) {
            violations.push(case.violation("truth", &format!("{row:?} is not so: end {:?}", case.ends.get(&row.id))));
        }
        if !has_its_outcome(case, row) {
            violations.push(case.violation("truth", &format!("the outcome of {row:?}")));
        }
        if next.is_some_and(|next| row.holds_key() || next.attempt < row.attempt) {
            violations.push(case.violation("G2", &format!("{row:?} is not the newest: {next:?}")));
        }
    }
    let runs = case.rows.len();
    if case.events.is_some_and(|events| events != (runs, true)) {
        violations.push(case.violation("G7", &format!("{runs} attempts, and events {:?}", case.events)));
    }
    violations
}

/// Whether the truth is as the claim's state and reason say.
fn is_true(case: &Case<'_>, row: &Row, next: Option<&Row>) -> bool {
    let kind = case.kind;
    let end = case.ends.get(&row.id).copied();
    let sent = case.sent.contains(&row.id);
    // It was drawn that what exits with 0 has sent.
    let exited = end.is_some() && end.map(i64::from) == row.exit_code;
    let next_start = next.and_then(|next| case.start(next.id));
    match (row.state.as_str(), row.reason.as_str()) {
        ("completed", "exit") => end == Some(0) && exited && sent,
        ("completed", "landed-exit") => end == Some(LANDED) && exited && sent && kind == Kind::Codes,
        ("completed", "kept-failure") => kind == Kind::Kept && end.is_none_or(|code| code != 0 || !exited),
        ("completed", "timeout") => kind == Kind::Kept,
        ("completed", "marks") => kind.has_marks() && sent,
        ("completed", "probe") => kind.has_probe() && !case.sent.is_empty(),
        ("completed", "resolved") => case.was_told(row.id, &["landed"]),
        ("held", "exit") => kind.is_external() && exited && end != Some(0),
        ("held", "signal" | "timeout") => kind.is_external(),
        ("held", "interrupted") => true,
        // Its own attempt may not even have begun: held for the one before it.
        ("held", "resent") => kind.may_resend(),
        ("held", "owner-lost") => case.store_goes_away,
        ("held" | "released", "steps") => kind == Kind::Grouped,
        ("released", "exit") => !kind.is_external() && exited && end != Some(0),
        ("released", "signal" | "timeout") => !kind.is_external(),
        ("released", "not-landed-exit") => end == Some(NOT_LANDED) && exited && !sent,
        ("released", "not-started") => case.start(row.id).is_none(),
        ("released", "marks") => kind.has_marks() && !sent,
        ("released", "probe") => kind.has_probe() && !sent && !case.probed_no.is_empty(),
        // Whose word it was is known where its command began.
        ("released", "resent") => kind.may_resend() && next_start.is_none_or(|start| case.resends(start)),
        ("released", "interrupted") => kind == Kind::Rerun && next_start.is_none_or(|start| case.reruns(start)),
        ("released", "resolved") => case.was_told(row.id, &["not-landed"]),
        ("cleared", _) => case.was_told(row.id, &["clear"]),
        ("expired", _) => {
            let over = |next: &Row| row.finished.is_some_and(|end| next.created + 1 >= end + u128::from(LIVES));
            kind == Kind::Expiring && next.is_none_or(over)
        }
        _ => false,
    }
}

/// What is known of the write goes with the state.
fn has_its_outcome(case: &Case<'_>, row: &Row) -> bool {
    // An owner whose claim was resolved by force, or while it couldn't be seen, may know better later.
    let owner_may_live = case.store_goes_away || case.words.iter().any(|word| word.claim == row.id && word.force);
    match (row.state.as_str(), row.reason.as_str()) {
        ("released" | "completed", "resolved") if owner_may_live => true,
        ("completed", "kept-failure" | "timeout") => row.outcome == "not-landed",
        ("completed", _) => row.outcome == "landed",
        ("held", _) | ("released", "resent" | "interrupted") => row.outcome == "unknown",
        ("released", _) => row.outcome == "not-landed",
        _ => true,
    }
}
