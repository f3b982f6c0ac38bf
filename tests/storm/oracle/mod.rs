//! The oracle: what the contract promises, held against what the commands really did.
//!
//! A command's own lines in the journal, the target's files and the kernel's locks are the truth. What the store and the
//! answers say is held against them, never the other way round. What can't be known for certain, since a kill may have come
//! before or after, is allowed either way.

mod answers;
mod attempts;
mod case;
mod support;

use std::collections::BTreeMap;
use std::fmt;

use crate::facts::Fact;
use crate::standing::Standing;
use case::Case;

/// A broken promise.
#[derive(Debug)]
pub(crate) struct Violation {
    /// Of the contract's, where it is one of them.
    pub(crate) promise: &'static str,
    pub(crate) key: String,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken, {}: {}", self.promise, self.key, self.text)
    }
}

/// What a storm came to.
#[derive(Default)]
pub(crate) struct Figures {
    arrivals: usize,
    runs: usize,
    replays: usize,
    held: usize,
    refused: usize,
    kept: usize,
    kills: usize,
    clears: usize,
    resolves: usize,
    server_kills: usize,
    claims: usize,
    sent: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures {
            arrivals,
            runs,
            replays,
            held,
            refused,
            kept,
            kills,
            clears,
            resolves,
            server_kills,
            claims,
            sent,
        } = self;
        write!(
            f,
            "{arrivals} arrivals, {claims} claims, {runs} runs, {sent} sent, {replays} replays, {held} held, {refused} refused, {kept} kept for later, \
             {kills} kills, {clears} clears, {resolves} resolves, {server_kills} server kills"
        )
    }
}

/// Everything that stands against idem, and what the storm came to.
pub(crate) fn judge(facts: &[Fact], standing: &Standing) -> (Vec<Violation>, Figures) {
    let mut by_key: BTreeMap<&str, Vec<(usize, &Fact)>> = BTreeMap::new();
    for (at, fact) in facts.iter().enumerate() {
        by_key.entry(fact.key()).or_default().push((at, fact));
    }
    let mut violations = complaints(facts);
    violations.extend(numbers(standing));
    for (key, facts) in by_key.iter().filter(|(key, _)| !key.is_empty()) {
        let case = Case::new(key, facts, standing);
        violations.extend(attempts::judge(&case));
        violations.extend(support::judge(&case));
        violations.extend(answers::judge(&case));
    }
    (violations, figures(facts, standing))
}

fn complaints(facts: &[Fact]) -> Vec<Violation> {
    let complaint = |fact: &Fact| match fact {
        Fact::Complaint { key, text } => {
            Some(Violation { promise: "a complaint:", key: key.clone(), text: text.clone() })
        }
        _ => None,
    };
    facts.iter().filter_map(complaint).collect()
}

/// Nothing was forgotten: where numbers have no gaps, none is missing.
fn numbers(standing: &Standing) -> Option<Violation> {
    let missing: Vec<i64> =
        (1..).zip(&standing.rows).filter(|(number, row)| row.id != *number).map(|(number, _)| number).take(1).collect();
    (standing.numbers_have_no_gaps && !missing.is_empty()).then(|| Violation {
        promise: "G7",
        key: String::new(),
        text: format!("claim {missing:?} is not there any more"),
    })
}

fn figures(facts: &[Fact], standing: &Standing) -> Figures {
    let mut figures = Figures { claims: standing.rows.len(), ..Figures::default() };
    figures.sent = standing.sent.values().map(Vec::len).sum();
    let mut words = BTreeMap::new();
    for fact in facts {
        match fact {
            Fact::Arrives { .. } => figures.arrivals += 1,
            Fact::Started { .. } => figures.runs += 1,
            Fact::Answered(answered) if answered.idempotent => figures.replays += 1,
            Fact::Answered(answered) if answered.code == Some(121) => figures.held += 1,
            Fact::Answered(answered) if answered.code == Some(125) => figures.refused += 1,
            Fact::Answered(answered) if answered.error.as_deref() == Some("pending") => figures.kept += 1,
            Fact::Kills { .. } => figures.kills += 1,
            Fact::ServerKilled => figures.server_kills += 1,
            Fact::Word { word, says, .. } => drop(words.insert(*word, says.as_str())),
            Fact::Taken { word, code: Some(0), .. } => match words.get(word) {
                Some(&"clear") => figures.clears += 1,
                Some(_) => figures.resolves += 1,
                None => {}
            },
            _ => {}
        }
    }
    figures
}
