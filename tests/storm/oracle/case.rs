//! All that is known of one key.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::facts::{Answered, Fact};
use crate::kinds::Kind;
use crate::rows::Row;
use crate::standing::Standing;

/// A command that really began.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// Its place in the journal.
    pub(super) at: usize,
    pub(super) arrival: u64,
    pub(super) claim: i64,
    pub(super) attempt: u64,
    pub(super) alive: Vec<i64>,
}

/// What a person said.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) at: usize,
    pub(super) claim: i64,
    pub(super) says: String,
    pub(super) force: bool,
    /// When idem had answered.
    pub(super) taken: Option<usize>,
    /// Whether it may have had its effect.
    pub(super) counts: bool,
}

pub(super) struct Case<'a> {
    pub(super) key: &'a str,
    pub(super) kind: Kind,
    pub(super) rows: Vec<&'a Row>,
    pub(super) sent: BTreeSet<i64>,
    pub(super) starts: Vec<Start>,
    pub(super) words: Vec<Word>,
    pub(super) answers: Vec<(usize, &'a Answered)>,
    /// What each command exited with, as far as it came to its end.
    pub(super) ends: BTreeMap<i64, u8>,
    /// What idem exited with when commands asked for their own claims.
    pub(super) looks: Vec<(i64, Option<i32>)>,
    /// When a probe said that nothing had arrived.
    pub(super) probed_no: Vec<usize>,
    resends: BTreeSet<u64>,
    reruns: BTreeSet<u64>,
    pub(super) store_goes_away: bool,
    pub(super) events: Option<(usize, bool)>,
}

impl<'a> Case<'a> {
    pub(super) fn new(key: &'a str, facts: &[(usize, &'a Fact)], standing: &'a Standing) -> Case<'a> {
        let mut case = Case {
            key,
            kind: Kind::of(key),
            rows: standing.rows.iter().filter(|row| row.key == key).collect(),
            sent: standing.sent.get(key).into_iter().flatten().copied().collect(),
            starts: Vec::new(),
            words: Vec::new(),
            answers: Vec::new(),
            ends: BTreeMap::new(),
            looks: Vec::new(),
            probed_no: Vec::new(),
            resends: BTreeSet::new(),
            reruns: BTreeSet::new(),
            store_goes_away: standing.store_goes_away,
            events: standing.events.get(key).copied(),
        };
        let mut numbers = BTreeMap::new();
        for (at, fact) in facts {
            case.take(*at, fact, &mut numbers);
        }
        case
    }

    fn take(&mut self, at: usize, fact: &'a Fact, numbers: &mut BTreeMap<u64, usize>) {
        match fact {
            Fact::Arrives { arrival, resends, reruns, .. } => {
                self.resends.extend(resends.then_some(*arrival));
                self.reruns.extend(reruns.then_some(*arrival));
            }
            Fact::Answered(answered) => self.answers.push((at, answered)),
            Fact::Started { arrival, claim, attempt, alive, .. } => self.starts.push(Start {
                at,
                arrival: *arrival,
                claim: *claim,
                attempt: *attempt,
                alive: alive.clone(),
            }),
            Fact::Ended { claim, code, .. } => drop(self.ends.insert(*claim, *code)),
            Fact::Said { claim, what_was_said, code, .. } if what_was_said.starts_with("show ") => {
                self.looks.push((*claim, *code));
            }
            Fact::Probed { says: 1, .. } => self.probed_no.push(at),
            Fact::Word { word, claim, says, force, .. } => {
                numbers.insert(*word, self.words.len());
                let (says, force) = (says.clone(), *force);
                self.words.push(Word { at, claim: *claim, says, force, taken: None, counts: true });
            }
            Fact::Taken { word, code, .. } => {
                if let Some(number) = numbers.get(word) {
                    let uncertain = self.store_goes_away && *code == Some(125);
                    let word = &mut self.words[*number];
                    (word.taken, word.counts) = (Some(at), *code == Some(0) || uncertain);
                }
            }
            _ => {}
        }
    }

    pub(super) fn violation(&self, promise: &'static str, text: &str) -> Violation {
        Violation { promise, key: self.key.to_owned(), text: format!("{:?}: {text}", self.kind) }
    }

    pub(super) fn row(&self, claim: i64) -> Option<&'a Row> {
        self.rows.iter().find(|row| row.id == claim).copied()
    }

    pub(super) fn start(&self, claim: i64) -> Option<&Start> {
        self.starts.iter().find(|start| start.claim == claim)
    }

    /// Whether the arrival that began this one stated that its target dedupes.
    pub(super) fn resends(&self, start: &Start) -> bool {
        self.resends.contains(&start.arrival)
    }

    /// Whether it stated that an interrupted command may be run again.
    pub(super) fn reruns(&self, start: &Start) -> bool {
        self.reruns.contains(&start.arrival)
    }

    /// Whether a person said one of these of this very claim.
    pub(super) fn was_told(&self, claim: i64, says: &[&str]) -> bool {
        self.words.iter().any(|word| word.counts && word.claim == claim && says.contains(&word.says.as_str()))
    }

    /// Whether a person freed the key after one command began and before another one did: of that attempt, or of a later one
    /// that had taken its place.
    pub(super) fn freed_between(&self, earlier: &Start, later: &Start) -> bool {
        self.words.iter().any(|word| {
            word.counts
                && word.says != "landed"
                && (earlier.claim..later.claim).contains(&word.claim)
                && word.at < later.at
                && word.taken.is_none_or(|taken| taken > earlier.at)
        })
    }
}
