//! Finding out about a claim whose outcome is unknown, without running its command: from the marks of a dead owner, from its
//! target, from its steps (design §§7, 8). For `reconcile`, and for an arrival at a call that is held for its steps.

use std::collections::HashSet;
use std::time::Instant;

use anyhow::Context;

use super::asking::{Asked, Question};
use super::pending::{self, AtLast};
use super::settle;
use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, ClaimId, Outcome, Probe, Reason, State};
use crate::domain::end::{Open, after_steps, by_marks, without_end};
use crate::domain::store::Store;
use crate::liveness::{Asker, ProbeLock};
use crate::process::signals::Signals;
use crate::store::Location;
use crate::ui::Ui;
use crate::view::words::{self, OpenStep};

/// Who finds out, and where.
pub(super) struct Finder<'a> {
    pub(super) location: &'a Location,
    pub(super) actor: &'a str,
    /// The claims that were looked at: each is asked about once.
    pub(super) seen: HashSet<ClaimId>,
    /// The signal that told this process to end meanwhile.
    pub(super) told_to_end: Option<i32>,
    /// How long somebody else who is asking is waited for.
    pub(super) patience: Patience,
}

/// How long to wait for somebody else's answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// Not at all.
    None,
    /// Until then; `None`: until it comes.
    Until(Option<Instant>),
}

impl<'a> Finder<'a> {
    pub(super) fn new(location: &'a Location, actor: &'a str) -> Finder<'a> {
        Finder { location, actor, seen: HashSet::new(), told_to_end: None, patience: Patience::None }
    }

    /// Finds out what can be found out. `probe`: what to ask with, in place of what is stored with the claim. Returns the
    /// claim as it is then, and a few words on how.
    pub(super) fn find_out(
        &mut self,
        store: &mut dyn Store,
        claim: &Claim,
        probe: Option<&Probe>,
    ) -> anyhow::Result<(Claim, String)> {
        if !self.seen.insert(claim.id) {
            return Ok((read(store, claim.id)?, "asked about already".to_owned()));
        }
        let claim = self.without_owner(store, claim)?;
        match (claim.state, claim.reason) {
            (State::Held, Some(Reason::Steps)) => self.ask_steps(store, claim),
            (State::Held, _) => self.ask(store, claim, probe),
            (State::Running, _) => Ok((claim, "its owner lives; not asked".to_owned())),
            _ if claim.state.holds_key() || claim.outcome != Outcome::Unknown => {
                Ok((claim, "known already; not asked".to_owned()))
            }
            _ => Ok((claim, "history; not asked".to_owned())),
        }
    }

    /// Concludes or holds a claim whose owner is gone. Returns the claim as it is then.
    fn without_owner(&mut self, store: &mut dyn Store, claim: &Claim) -> anyhow::Result<Claim> {
        let gone = settle::owner(self.location, claim)?;
        if matches!(gone, Some(Liveness::Dead | Liveness::Unprovable)) {
            // Only now: it keeps what it could not record before it lets go of its lock.
            match pending::deliver_of(claim, self.location, store, &Ui::new(false))? {
                AtLast::Nothing => {}
                AtLast::Recorded => return read(store, claim.id),
                AtLast::Unusable => {
                    store.transition(claim.id, &settle::held(claim, Reason::Interrupted, self.actor))?;
                    return read(store, claim.id);
                }
            }
        }
        let marked = by_marks(claim.means.marks, claim.mark);
        let change = match (claim.state, gone, marked) {
            (State::Running, Some(Liveness::Dead), marked) => {
                settle::concluded(claim, without_end(marked, open(store, claim.id)?), self.actor)
            }
            (State::Running, Some(Liveness::Unprovable), _) => settle::held(claim, Reason::OwnerLost, self.actor),
            (State::Held, _, Some(ended))
                if ended.state == State::Completed && claim.reason == Some(Reason::Interrupted) =>
            {
                settle::concluded(claim, ended, self.actor)
            }
            _ => return Ok(claim.clone()),
        };
        store.transition(claim.id, &change)?;
        read(store, claim.id)
    }

    /// Finds out about the steps that a claim is held for, and releases it where each is known.
    fn ask_steps(&mut self, store: &mut dyn Store, claim: Claim) -> anyhow::Result<(Claim, String)> {
        for step in store.open_steps(claim.id)? {
            if self.told_to_end.is_none() && !self.seen.contains(&step) {
                let step = read(store, step)?;
                self.find_out(store, &step, None)?;
            }
        }
        let open = store.open_steps(claim.id)?;
        if !open.is_empty() {
            return Ok((claim, format!("it waits for its steps, {}", words::ids(&open))));
        }
        let ended = after_steps(store.earlier_is_unknown(claim.id)?);
        store.transition(claim.id, &settle::concluded(&claim, ended, self.actor))?;
        if ended.state == State::Held {
            let claim = read(store, claim.id)?;
            return self.ask(store, claim, None);
        }
        let what = "its steps are known; the next arrival runs it again, and steps that have landed replay".to_owned();
        Ok((read(store, claim.id)?, what))
    }

    /// Waits for somebody else's probe, as long as there is patience for it.
    fn wait_for(&self, claim: &Claim) -> anyhow::Result<()> {
        if let Patience::Until(until) = self.patience {
            let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
            let failed = |error: std::io::Error| settle::lock_failed(self.location, &error);
            settle::locks(self.location)?.wait_for_probe(claim.lock, limit).map_err(failed)?;
        }
        Ok(())
    }

    /// Asks the target about a held claim.
    fn ask(&mut self, store: &mut dyn Store, claim: Claim, probe: Option<&Probe>) -> anyhow::Result<(Claim, String)> {
        let Some(probe) = probe.cloned().or_else(|| claim.means.probe.clone()) else {
            return Ok((claim, "no probe is stored with it".to_owned()));
        };
        let right = ProbeLock::take(&self.location.lock_path(), claim.lock, Asker::Other);
        let Some(_right) = right.map_err(|error| settle::lock_failed(self.location, &error))? else {
            self.wait_for(&claim)?;
            return Ok((read(store, claim.id)?, "somebody else is asking just now".to_owned()));
        };
        let claim = read(store, claim.id)?;
        if claim.state != State::Held {
            return Ok((claim, "known meanwhile; not asked".to_owned()));
        }
        let owner = if claim.may_have_owner() { settle::liveness(self.location, &claim)? } else { Liveness::Dead };
        let signals = Signals::install().context("the signal handlers can't be installed")?;
        let question = Question { claim: &claim, probe: &probe, owner, location: self.location, actor: self.actor };
        let asked = question.ask(store, &signals)?;
        self.told_to_end = signals.take_pending();
        Ok((read(store, claim.id)?, said(&asked)))
    }
}

/// Returns the steps that a claim is held for, and in place of those that are held for steps of theirs, these: what somebody
/// has to find out about.
pub(super) fn open_leaves(store: &mut dyn Store, location: &Location, id: ClaimId) -> anyhow::Result<Vec<OpenStep>> {
    let mut leaves = Vec::new();
    let mut seen = HashSet::from([id]);
    let mut next = vec![id];
    while let Some(id) = next.pop() {
        for step in store.open_steps(id)? {
            if !seen.insert(step) {
                continue;
            }
            let claim = read(store, step)?;
            if claim.is_held_for_steps() {
                next.push(step);
            } else {
                let runs = settle::owner(location, &claim)? == Some(Liveness::Alive);
                leaves.push(OpenStep { id: step, runs });
            }
        }
    }
    leaves.sort_unstable_by_key(|leaf| leaf.id);
    Ok(leaves)
}

/// What else is unknown of the call of an attempt.
fn open(store: &mut dyn Store, id: ClaimId) -> anyhow::Result<Open> {
    Ok(Open { step: !store.open_steps(id)?.is_empty(), earlier: store.earlier_is_unknown(id)? })
}

fn read(store: &mut dyn Store, id: ClaimId) -> anyhow::Result<Claim> {
    store.get(id)?.with_context(|| format!("claim {id} is gone"))
}

fn said(asked: &Asked) -> String {
    match (asked.answer, asked.became) {
        (Outcome::Landed, Some(_)) => "its probe says that it landed; repeats get the probe's answer".to_owned(),
        (Outcome::NotLanded, Some(_)) => {
            "its probe says that it did not land; the next arrival runs the command".to_owned()
        }
        _ => format!("its probe {}", asked.how),
    }
}
