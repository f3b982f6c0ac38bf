//! G1, G2 and G3: what was started, and what had become of everything before.

use super::Violation;
use super::case::{Case, Start};
use crate::kinds::NOT_LANDED;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for start in &case.starts {
        violations.extend(has_a_claim(case, start));
        violations.extend(is_alone(case, start));
    }
    violations.extend(one_start_a_claim(case));
    violations.extend(was_there(case));
    for (n, earlier) in case.starts.iter().enumerate() {
        for later in &case.starts[n + 1..] {
            violations.extend(may_follow(case, earlier, later));
        }
    }
    violations
}

/// G1: what began has its row, as the attempt that it was told to be.
fn has_a_claim(case: &Case<'_>, start: &Start) -> Option<Violation> {
    let row = case.row(start.claim);
    (row.is_none_or(|row| row.attempt != start.attempt))
        .then(|| case.violation("G1", &format!("a command began that has no claim: {start:?}, {row:?}")))
}

/// G1: a command that looks for its own claim finds it, from its first moment on.
fn was_there(case: &Case<'_>) -> Vec<Violation> {
    let found = |code: Option<i32>| matches!(code, None | Some(0)) || (code == Some(125) && case.store_goes_away);
    let missed = case.looks.iter().filter(|(_, code)| !found(*code));
    missed.map(|look| case.violation("G1", &format!("a command began and its claim isn't there: {look:?}"))).collect()
}

fn one_start_a_claim(case: &Case<'_>) -> Vec<Violation> {
    let mut claims: Vec<i64> = case.starts.iter().map(|start| start.claim).collect();
    claims.sort_unstable();
    let twice = claims.windows(2).filter(|pair| pair[0] == pair[1]);
    twice.map(|pair| case.violation("G1", &format!("claim {} began twice", pair[0]))).collect()
}

/// G2: nobody else's command of this key lives, unless a person has forced the key from the older one. An owner that can't
/// be seen is held, and a person may free what is held.
fn is_alone(case: &Case<'_>, start: &Start) -> Vec<Violation> {
    let freed = |older: i64| {
        let mut words = case.words.iter().filter(|word| word.claim == older && word.counts && word.at < start.at);
        words.any(|word| word.force || case.store_goes_away)
    };
    let others = start.alive.iter().filter(|other| !freed((**other).min(start.claim)));
    others.map(|other| case.violation("G2", &format!("the command of claim {other} lives beside {start:?}"))).collect()
}

/// G3: a command begins after another one, of which it must be known that it has not landed, or somebody bears it.
///
/// Of local ones the rows say why; see [`super::support`].
fn may_follow(case: &Case<'_>, earlier: &Start, later: &Start) -> Option<Violation> {
    if !case.kind.is_external() || case.freed_between(earlier, later) || case.resends(later) {
        return None;
    }
    if case.sent.contains(&earlier.claim) {
        let text = format!("it had been sent by {earlier:?}, and began again with {later:?}");
        return Some(case.violation("G3", &text));
    }
    let asked = case.probed_no.iter().any(|at| (earlier.at..later.at).contains(at));
    let said_no = case.ends.get(&earlier.claim) == Some(&NOT_LANDED);
    // Without a mark nothing was sent, which is as it was.
    if case.kind.has_marks() || (case.kind.has_probe() && asked) || said_no {
        return None;
    }
    Some(case.violation("G3", &format!("nobody knew of {earlier:?}, and it began again with {later:?}")))
}
