//! What is known of a claim, for the judgement of an arrival: from its row, the operating system's locks and the clocks.

use std::time::Duration;

use super::Arrival;
use crate::commands::finding::open_leaves;
use crate::domain::arrival::{Answered, Holder, Liveness, Past, ProbeFacts, Steps};
use crate::domain::claim::{Claim, Reason, State};
use crate::domain::end::{Ended, by_marks};
use crate::domain::moment::{is_over, is_within};
use crate::domain::timestamp::Timestamp;
use crate::view::words::Unknown;

impl Arrival<'_> {
    /// Gathers them, each where it can matter: a replay costs no look at a lock or a clock.
    pub(super) fn facts(&mut self, claim: &Claim) -> anyhow::Result<Holder> {
        let owner = self.owner(claim)?;
        let probe = self.probe_facts(claim)?;
        // Under its command, or under the probe that is asking about it.
        let at_work = (claim.state == State::Running && owner == Liveness::Alive) || probe.running;
        let encloses_arrival = at_work && self.is_under(claim)?;
        let by_marks = by_marks(claim.means.marks, claim.mark);
        Ok(Holder {
            state: claim.state,
            effect: claim.effect,
            same_command: claim.command == self.command,
            encloses_arrival,
            owner,
            by_marks,
            steps: self.steps(claim, by_marks)?,
            earlier_is_unknown: would_release(claim, by_marks) && self.store.earlier_is_unknown(claim.id)?,
            probe,
            in_window: claim.state == State::Held && self.in_window(claim)?,
            is_over: self.is_over(claim)?,
        })
    }

    /// Tells whether a claim's owner lives. One that has recorded an end doesn't; one that was lost may.
    pub(super) fn owner(&mut self, claim: &Claim) -> anyhow::Result<Liveness> {
        if !claim.may_have_owner() {
            return Ok(Liveness::Dead);
        }
        Ok(self.by_locks(|locks| locks.test(claim.lock))?.or_seen(claim.seen_lately))
    }

    fn steps(&mut self, claim: &Claim, by_marks: Option<Ended>) -> anyhow::Result<Steps> {
        if !would_release(claim, by_marks) {
            return Ok(Steps::NotAsked);
        }
        Ok(if self.store.open_steps(claim.id)?.is_empty() { Steps::Known } else { Steps::Open })
    }

    /// Gathers what the words of an unknown outcome need.
    pub(super) fn unknown(&mut self, claim: &Claim) -> Unknown {
        let steps = if claim.is_held_for_steps() {
            open_leaves(self.store.as_mut(), &self.location, claim.id)
        } else {
            Ok(Vec::new())
        };
        Unknown {
            probe: self.probe_of(claim).map(str::to_owned),
            window_end: self.window_end(claim),
            // Words go on without them where they can't be read.
            steps: steps.unwrap_or_default(),
        }
    }

    /// Tells whether somebody else asks about a held claim, so that its answer may be near.
    pub(super) fn is_asked_by_another(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let facts = self.probe_facts(claim)?;
        Ok(facts.running && facts.answered == Answered::No)
    }

    fn probe_facts(&mut self, claim: &Claim) -> anyhow::Result<ProbeFacts> {
        if claim.state != State::Held {
            return Ok(ProbeFacts::default());
        }
        let running = self.by_locks(|locks| locks.is_probed(claim.lock))?;
        let answered = match &self.asked {
            Some((asked, how)) if *asked == claim.id => {
                if how.is_some() {
                    Answered::ByOwn
                } else {
                    Answered::ByOther
                }
            }
            _ => Answered::No,
        };
        Ok(ProbeFacts { stored: claim.means.probe.is_some(), running, answered })
    }

    /// Returns for how long after the key's first start an unknown outcome may be sent again: as this arrival states, or
    /// as was stated with the claim, where that is shorter.
    pub(super) fn window(&self, claim: &Claim) -> Option<Duration> {
        let own = self.means.resend_within?;
        Some(claim.means.resend_within.map_or(own, |stored| own.min(stored)))
    }

    fn in_window(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let Some(window) = self.window(claim) else { return Ok(false) };
        let now = self.store.now()?;
        Ok(self.store.first_start(&claim.key)?.is_some_and(|first| is_within(window, &first, &now)))
    }

    /// Returns until when a repeat that states it may send an unknown outcome again, as far as the clock goes; `None` where
    /// none may.
    fn window_end(&mut self, claim: &Claim) -> Option<Timestamp> {
        // Never of a claim whose owner may live.
        let open = claim.state == State::Held && claim.reason != Some(Reason::OwnerLost);
        let window = self.window(claim).or(claim.means.resend_within).filter(|_| open)?;
        let first = self.store.first_start(&claim.key).ok().flatten()?;
        let open = is_within(window, &first, &self.store.now().ok()?);
        open.then(|| first.at.plus(window))
    }

    fn is_over(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let (Some(ttl), Some(ended)) = (claim.means.ttl, claim.finished_at) else { return Ok(false) };
        Ok(claim.state == State::Completed && is_over(ttl, &claim.claimed(), ended, &self.store.now()?))
    }

    /// Returns how this arrival's own probe of a claim ended.
    fn probe_of(&self, claim: &Claim) -> Option<&str> {
        let (asked, how) = self.asked.as_ref()?;
        how.as_deref().filter(|_| *asked == claim.id)
    }

    /// Tells whether the command of a running claim started this arrival, directly or through steps.
    fn is_under(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        if let Some(enclosing) = self.enclosing.as_ref().map(|enclosing| enclosing.id)
            && self.store.encloses(claim.id, enclosing)?
        {
            return Ok(true);
        }
        Ok(self.locks()?.runs_under(claim.lock))
    }
}

/// Tells whether a claim could be released by what is known of this very attempt: then it matters what else is unknown.
fn would_release(claim: &Claim, by_marks: Option<Ended>) -> bool {
    let marked = claim.state == State::Running && by_marks.is_some_and(|ended| ended.state == State::Released);
    marked || claim.is_held_for_steps()
}

/// Returns what has become of an attempt that was waited for.
pub(super) fn past(claim: &Claim) -> Past {
    Past { reason: claim.reason, outcome: claim.outcome, has_end: claim.exit_status().is_some() }
}
