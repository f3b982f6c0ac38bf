//! What an arrival means: the rules of design §5 and the order of answers of §12, as a pure function.

use super::claim::{Effect, Outcome, Reason, State};
use super::end::{Ended, Open, after_steps, without_end};

/// What the operating system says of an owner (design §5, liveness).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its lock is held: idem or its command lives.
    Alive,
    /// Its lock is free: both are gone.
    Dead,
    /// Its lock can't be tested here: the lock file was removed and made anew, or is another host's.
    Unprovable,
}

impl Liveness {
    /// Completes what the lock says by what the store does: an owner on another host, whose lock can't be tested here, lives
    /// as long as it shows itself. One that doesn't is lost, and never proven dead (G6).
    pub fn or_seen(self, seen_lately: bool) -> Liveness {
        match self {
            Liveness::Unprovable if seen_lately => Liveness::Alive,
            proven => proven,
        }
    }
}

/// What an arrival brings along, as far as the judgement goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The arrival's own effect.
    pub effect: Effect,
    /// `--no-wait`.
    pub no_wait: bool,
    /// `--allow-command-change`.
    pub allow_command_change: bool,
    /// `--rerun-if-interrupted`.
    pub rerun_if_interrupted: bool,
    /// `--probe`: it brings a probe of its own.
    pub probe: bool,
}

/// What is known of the claim that holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its state.
    pub state: State,
    /// Its effect.
    pub effect: Effect,
    /// Whether its command line is the arrival's.
    pub same_command: bool,
    /// Whether the arrival was started by that very claim's command or probe, directly or through steps.
    pub encloses_arrival: bool,
    /// Whether its owner lives; dead where it has recorded an end.
    pub owner: Liveness,
    /// What its command's marks say by themselves.
    pub by_marks: Option<Ended>,
    /// What is known of its steps; looked at only where that can matter.
    pub steps: Steps,
    /// Whether it was sent again in place of an attempt whose outcome is still unknown; looked at only where that can matter.
    pub earlier_is_unknown: bool,
    /// What there is to ask the target with, and whether that is being done; looked at only while it is held.
    pub probe: ProbeFacts,
    /// Whether the arrival states that the target dedupes on the key, and that time isn't over.
    pub in_window: bool,
    /// Whether its result has outlived its time to live.
    pub is_over: bool,
}

/// What is known of the steps of a claim that is held for one of them, or whose marks say that it has not landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Steps {
    /// It can't matter.
    #[default]
    NotAsked,
    /// The outcome of one is still unknown.
    Open,
    /// Each is known.
    Known,
}

/// What is known of the probing of a held claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProbeFacts {
    /// The claim has a probe stored.
    pub stored: bool,
    /// Somebody is asking right now.
    pub running: bool,
    /// Whether this arrival has had an answer already.
    pub answered: Answered,
}

/// Whose probe an arrival has had an answer of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Answered {
    /// Nobody's.
    #[default]
    No,
    /// That of somebody else, whom it waited for.
    ByOther,
    /// Its own.
    ByOwn,
}

/// What to do with an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key is free: try to claim it.
    Claim,
    /// Give back the recorded result.
    Replay,
    /// Outcome unknown: run nothing.
    Held,
    /// Another command has this key: run nothing, replay nothing.
    Mismatch,
    /// The call is inside itself: waiting would never end.
    InsideItself,
    /// The owner lives and the arrival doesn't wait.
    Busy,
    /// The owner lives: wait for it, then judge by [`after_wait`].
    Wait,
    /// The owner is gone and left no outcome: hold the claim for this reason, then answer held.
    Hold(Reason),
    /// Outcome unknown: ask the target, then judge anew.
    Probe,
    /// Held for steps: find out about them, then judge anew.
    AskSteps,
    /// Outcome unknown and somebody is asking the target: wait for the answer, then judge anew.
    WaitForProbe,
    /// The owner is gone, and the marks of its command say what came of it: record that, then judge anew.
    Conclude(Ended),
    /// Outcome unknown, and a second run is borne: claim the key in place of this claim, which is released for this reason.
    RunAgain(Reason),
    /// The result has outlived its time to live: the claim expires, then arrive anew.
    Expire,
}

/// Judges an arrival by the claim that holds its key.
///
/// The order is the contract's: a call inside itself first (its two commands nearly always differ, and "mismatch" would
/// send people the wrong way), another command before busy and held (§12).
pub fn judge(holder: &Holder, terms: &Terms) -> Verdict {
    if !holder.state.holds_key() {
        return Verdict::Claim;
    }
    let at_work = holder.state == State::Running || (holder.state == State::Held && holder.probe.running);
    if at_work && holder.encloses_arrival {
        return Verdict::InsideItself;
    }
    if holder.state == State::Completed && holder.is_over {
        // It holds nothing any more, and so it mismatches with nothing (§12).
        return Verdict::Expire;
    }
    if !holder.same_command && !terms.allow_command_change {
        return Verdict::Mismatch;
    }
    match holder.state {
        State::Completed => Verdict::Replay,
        State::Held => judge_held(holder, terms),
        _ => judge_running(holder, terms),
    }
}

/// The target's own answer first; then the word of the caller that a second run is borne; else it stays held (G3).
///
/// A claim that is held for a step waits for what becomes of that one: what its own target says tells nothing of it.
fn judge_held(holder: &Holder, terms: &Terms) -> Verdict {
    match holder.steps {
        Steps::Open if holder.probe.answered != Answered::No => return Verdict::Held,
        Steps::Open => return Verdict::AskSteps,
        Steps::Known => return become_of(after_steps(holder.earlier_is_unknown)),
        Steps::NotAsked => {}
    }
    let probe = holder.probe;
    if let Some(ended) = holder.by_marks
        && ended.state == State::Completed
        && holder.owner == Liveness::Dead
    {
        // Its command, whose idem was gone, said so after the claim was held. No other mark counts by then.
        return Verdict::Conclude(ended);
    }
    let would_send = holder.in_window && holder.owner == Liveness::Dead;
    // What somebody else was told is enough for holding. Before it sends again, an arrival that can ask asks for itself:
    // the other one may have been ended before it had an answer.
    let enough = match probe.answered {
        Answered::No => false,
        Answered::ByOther => !would_send,
        Answered::ByOwn => true,
    };
    if !enough && probe.running {
        // Two never ask at once: the second one takes the first one's answer.
        return if terms.no_wait { Verdict::Held } else { Verdict::WaitForProbe };
    }
    if !enough && (terms.probe || probe.stored) {
        return Verdict::Probe;
    }
    if would_send { Verdict::RunAgain(Reason::Resent) } else { Verdict::Held }
}

fn judge_running(holder: &Holder, terms: &Terms) -> Verdict {
    let both_local = holder.effect == Effect::Local && terms.effect == Effect::Local;
    match holder.owner {
        Liveness::Alive if terms.no_wait => Verdict::Busy,
        Liveness::Alive => Verdict::Wait,
        Liveness::Unprovable => Verdict::Hold(Reason::OwnerLost),
        // Only a proven death may free anything (G6).
        // The word of --rerun-if-interrupted counts between local calls (§12).
        Liveness::Dead if holder.by_marks.is_none() && terms.rerun_if_interrupted && both_local => {
            Verdict::RunAgain(Reason::Interrupted)
        }
        Liveness::Dead => {
            let open = Open { step: holder.steps == Steps::Open, earlier: holder.earlier_is_unknown };
            become_of(without_end(holder.by_marks, open))
        }
    }
}

/// What to do where that is what a claim has become.
fn become_of(ended: Ended) -> Verdict {
    if ended.state == State::Held { Verdict::Hold(ended.reason) } else { Verdict::Conclude(ended) }
}

/// What has become of an attempt that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Why it is in its state.
    pub reason: Option<Reason>,
    /// What is known of the write.
    pub outcome: Outcome,
    /// Whether its owner recorded an end, in time or late.
    pub has_end: bool,
}

/// Judges an arrival that waited for an attempt, by what has become of that attempt (design §5, step 3).
///
/// Its end is the answer for everybody who waited, a failure that released the claim included: fifty waiters never turn
/// into fifty runs. That a person freed the key meanwhile, or that its result has expired since, changes nothing for them
/// where the end is known; nor does a held end make them ask or send again. What left no known end sends the arrival back
/// to the start.
pub fn after_wait(holder: &Holder, past: &Past, terms: &Terms) -> Verdict {
    let interrupted = matches!(past.reason, Some(Reason::Interrupted | Reason::OwnerLost));
    match holder.state {
        State::Completed | State::Expired => Verdict::Replay,
        State::Released | State::Cleared if past.has_end && past.outcome != Outcome::Unknown && !interrupted => {
            Verdict::Replay
        }
        // Its owner is still asking the target.
        State::Held if !interrupted && holder.probe.running && holder.probe.answered == Answered::No => {
            Verdict::WaitForProbe
        }
        State::Held if !interrupted => Verdict::Held,
        _ => judge(holder, terms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        effect: Effect::Local,
        no_wait: false,
        allow_command_change: false,
        rerun_if_interrupted: false,
        probe: false,
    };
    const OWN_PROBE: Terms = Terms { probe: true, ..TERMS };
    const NO_WAIT: Terms = Terms { no_wait: true, ..TERMS };
    const RERUN: Terms = Terms { rerun_if_interrupted: true, ..TERMS };
    const ANY_COMMAND: Terms = Terms { allow_command_change: true, ..TERMS };

    fn holder(state: State, owner: Liveness) -> Holder {
        Holder {
            state,
            effect: Effect::Local,
            same_command: true,
            encloses_arrival: false,
            owner,
            by_marks: None,
            steps: Steps::NotAsked,
            earlier_is_unknown: false,
            probe: ProbeFacts::default(),
            in_window: false,
            is_over: false,
        }
    }

    #[test]
    fn the_table_of_arrivals() {
        use Liveness::{Alive, Dead, Unprovable};
        let external = |mut holder: Holder| {
            holder.effect = Effect::External;
            holder
        };
        let table = [
            (holder(State::Completed, Dead), TERMS, Verdict::Replay),
            (holder(State::Completed, Dead), NO_WAIT, Verdict::Replay),
            (holder(State::Held, Dead), TERMS, Verdict::Held),
            (holder(State::Held, Dead), RERUN, Verdict::Held),
            (holder(State::Running, Alive), TERMS, Verdict::Wait),
            (holder(State::Running, Alive), NO_WAIT, Verdict::Busy),
            (holder(State::Running, Alive), RERUN, Verdict::Wait),
            (holder(State::Running, Dead), TERMS, Verdict::Hold(Reason::Interrupted)),
            (holder(State::Running, Dead), NO_WAIT, Verdict::Hold(Reason::Interrupted)),
            (holder(State::Running, Dead), RERUN, Verdict::RunAgain(Reason::Interrupted)),
            (external(holder(State::Running, Dead)), RERUN, Verdict::Hold(Reason::Interrupted)),
            (
                holder(State::Running, Dead),
                Terms { effect: Effect::External, ..RERUN },
                Verdict::Hold(Reason::Interrupted),
            ),
            (holder(State::Running, Unprovable), TERMS, Verdict::Hold(Reason::OwnerLost)),
            (holder(State::Running, Unprovable), RERUN, Verdict::Hold(Reason::OwnerLost)),
            (holder(State::Released, Dead), TERMS, Verdict::Claim),
            (holder(State::Cleared, Alive), TERMS, Verdict::Claim),
            (holder(State::Expired, Dead), TERMS, Verdict::Claim),
        ];
        for (holder, terms, verdict) in table {
            assert_eq!(judge(&holder, &terms), verdict, "{holder:?} {terms:?}");
        }
    }

    #[test]
    fn an_owner_elsewhere_lives_as_long_as_it_shows_itself_and_is_never_proven_dead() {
        use Liveness::{Alive, Dead, Unprovable};
        for (proven, seen, not_seen) in [(Alive, Alive, Alive), (Dead, Dead, Dead), (Unprovable, Alive, Unprovable)] {
            assert_eq!((proven.or_seen(true), proven.or_seen(false)), (seen, not_seen));
        }
    }

    #[test]
    fn another_command_is_answered_before_busy_and_held() {
        for state in [State::Completed, State::Held, State::Running] {
            for owner in [Liveness::Alive, Liveness::Dead, Liveness::Unprovable] {
                let other = Holder { same_command: false, ..holder(state, owner) };
                for terms in [TERMS, NO_WAIT, RERUN] {
                    assert_eq!(judge(&other, &terms), Verdict::Mismatch, "{other:?}");
                }
                assert_eq!(judge(&other, &ANY_COMMAND), judge(&holder(state, owner), &ANY_COMMAND));
            }
        }
        for state in [State::Released, State::Cleared, State::Expired] {
            let other = Holder { same_command: false, ..holder(state, Liveness::Dead) };
            assert_eq!(judge(&other, &TERMS), Verdict::Claim, "history mismatches with nothing");
        }
    }

    #[test]
    fn a_call_inside_itself_is_told_so_whatever_its_command() {
        for same_command in [true, false] {
            let own = Holder { encloses_arrival: true, same_command, ..holder(State::Running, Liveness::Alive) };
            for terms in [TERMS, NO_WAIT, RERUN, ANY_COMMAND] {
                assert_eq!(judge(&own, &terms), Verdict::InsideItself);
            }
        }
        let probe = ProbeFacts { stored: true, running: true, answered: Answered::No };
        let asking = Holder { encloses_arrival: true, probe, ..holder(State::Held, Liveness::Dead) };
        assert_eq!(judge(&asking, &TERMS), Verdict::InsideItself, "a probe that calls what it is asked about");
        let held = Holder { encloses_arrival: true, ..holder(State::Held, Liveness::Dead) };
        assert_eq!(judge(&held, &TERMS), Verdict::Held, "nobody is at work there");
        let ended = Holder { encloses_arrival: true, probe, ..holder(State::Completed, Liveness::Dead) };
        assert_eq!(judge(&ended, &TERMS), Verdict::Replay, "a daemon of an ended call waits on nothing");
    }

    #[test]
    fn nothing_is_claimed_while_the_key_is_held() {
        for &state in State::ALL {
            for owner in [Liveness::Alive, Liveness::Dead, Liveness::Unprovable] {
                for effect in [Effect::Local, Effect::External] {
                    let holder = Holder { effect, ..holder(state, owner) };
                    for terms in [TERMS, NO_WAIT, RERUN, ANY_COMMAND] {
                        assert_eq!(judge(&holder, &terms) == Verdict::Claim, !state.holds_key());
                    }
                }
            }
        }
    }

    #[test]
    fn who_waited_gets_what_the_attempt_became() {
        let ended = |state| holder(state, Liveness::Dead);
        use Outcome::{Landed, NotLanded, Unknown};
        let table = [
            (State::Completed, Some(Reason::Exit), Landed, true, Verdict::Replay),
            (State::Released, Some(Reason::Exit), NotLanded, true, Verdict::Replay),
            (State::Released, Some(Reason::Signal), NotLanded, true, Verdict::Replay),
            (State::Released, Some(Reason::NotStarted), NotLanded, true, Verdict::Replay),
            (State::Released, Some(Reason::NotLandedExit), NotLanded, true, Verdict::Replay),
            (State::Released, Some(Reason::Interrupted), Unknown, false, Verdict::Claim),
            (State::Released, Some(Reason::Resolved), NotLanded, false, Verdict::Claim),
            (State::Released, Some(Reason::Resolved), Landed, true, Verdict::Replay),
            (State::Held, Some(Reason::Exit), Unknown, true, Verdict::Held),
            (State::Held, Some(Reason::Interrupted), Unknown, false, Verdict::Held),
            (State::Expired, Some(Reason::Expired), Landed, true, Verdict::Replay),
            (State::Released, Some(Reason::Probe), NotLanded, true, Verdict::Replay),
            (State::Released, Some(Reason::Probe), NotLanded, false, Verdict::Claim),
            (State::Released, Some(Reason::Marks), NotLanded, false, Verdict::Claim),
            (State::Released, Some(Reason::Resent), Unknown, true, Verdict::Claim),
            (State::Cleared, Some(Reason::Cleared), Unknown, false, Verdict::Claim),
            (State::Cleared, Some(Reason::Cleared), Unknown, true, Verdict::Claim),
            (State::Cleared, Some(Reason::Cleared), Landed, true, Verdict::Replay),
            (State::Cleared, Some(Reason::Cleared), NotLanded, true, Verdict::Replay),
            (State::Running, None, Unknown, false, Verdict::Hold(Reason::Interrupted)),
        ];
        for (state, reason, outcome, has_end, verdict) in table {
            let past = Past { reason, outcome, has_end };
            assert_eq!(after_wait(&ended(state), &past, &TERMS), verdict, "{state} {past:?}");
        }
    }
    #[test]
    fn a_held_claim_is_asked_about_once_then_sent_again_where_that_is_borne() {
        use Answered::{ByOther, ByOwn, No};
        let facts = |stored, running, answered| ProbeFacts { stored, running, answered };
        let table = [
            // Nothing to ask with.
            (facts(false, false, No), TERMS, Verdict::Held, Verdict::RunAgain(Reason::Resent)),
            (facts(false, false, No), NO_WAIT, Verdict::Held, Verdict::RunAgain(Reason::Resent)),
            // A probe, stored or its own.
            (facts(true, false, No), TERMS, Verdict::Probe, Verdict::Probe),
            (facts(false, false, No), OWN_PROBE, Verdict::Probe, Verdict::Probe),
            (facts(true, false, ByOwn), TERMS, Verdict::Held, Verdict::RunAgain(Reason::Resent)),
            (facts(true, false, ByOwn), OWN_PROBE, Verdict::Held, Verdict::RunAgain(Reason::Resent)),
            // Somebody else's answer: enough to hold, and not to send again.
            (facts(true, false, ByOther), TERMS, Verdict::Held, Verdict::Probe),
            (facts(false, false, ByOther), OWN_PROBE, Verdict::Held, Verdict::Probe),
            (facts(false, false, ByOther), TERMS, Verdict::Held, Verdict::RunAgain(Reason::Resent)),
            (facts(true, true, ByOther), TERMS, Verdict::Held, Verdict::WaitForProbe),
            // Somebody else is asking, with a probe of theirs.
            (facts(false, true, No), TERMS, Verdict::WaitForProbe, Verdict::WaitForProbe),
            (facts(true, true, No), OWN_PROBE, Verdict::WaitForProbe, Verdict::WaitForProbe),
            (facts(true, true, No), NO_WAIT, Verdict::Held, Verdict::Held),
            (facts(true, true, ByOwn), TERMS, Verdict::Held, Verdict::RunAgain(Reason::Resent)),
        ];
        for (probe, terms, past_it, in_window) in table {
            let held = Holder { probe, ..holder(State::Held, Liveness::Dead) };
            assert_eq!(judge(&held, &terms), past_it, "{probe:?} {terms:?}");
            assert_eq!(judge(&Holder { in_window: true, ..held }, &terms), in_window, "{probe:?} {terms:?}");
            for owner in [Liveness::Alive, Liveness::Unprovable] {
                let may_live = Holder { in_window: true, owner, ..held };
                assert!(!matches!(judge(&may_live, &terms), Verdict::RunAgain(_)), "its command may be alive (G6)");
            }
        }
    }

    #[test]
    fn the_marks_of_a_dead_owner_are_taken_at_their_word() {
        let by_marks = Some(Ended::not_landed(Reason::Marks));
        for terms in [TERMS, NO_WAIT, RERUN, OWN_PROBE] {
            let marked = |owner| judge(&Holder { by_marks, ..holder(State::Running, owner) }, &terms);
            assert_eq!(marked(Liveness::Dead), Verdict::Conclude(Ended::not_landed(Reason::Marks)));
            let beside_a_step = Holder { by_marks, steps: Steps::Open, ..holder(State::Running, Liveness::Dead) };
            assert_eq!(judge(&beside_a_step, &terms), Verdict::Hold(Reason::Steps));
            assert!(
                matches!(marked(Liveness::Alive), Verdict::Wait | Verdict::Busy),
                "a living owner speaks for itself"
            );
            assert_eq!(marked(Liveness::Unprovable), Verdict::Hold(Reason::OwnerLost), "it may mark more");
            // Marked after it was held, by a command that idem's death left behind.
            let held = |ended, owner| judge(&Holder { by_marks: Some(ended), ..holder(State::Held, owner) }, &terms);
            let landed = Ended::landed(Reason::Marks);
            assert_eq!(held(landed, Liveness::Dead), Verdict::Conclude(landed));
            assert!(!matches!(held(landed, Liveness::Unprovable), Verdict::Conclude(_)), "its end may come yet");
            let not_landed = Ended::not_landed(Reason::Marks);
            assert!(!matches!(held(not_landed, Liveness::Dead), Verdict::Conclude(_)), "it may mark more");
        }
    }

    #[test]
    fn only_a_completed_claim_expires_and_not_for_those_who_waited_for_it() {
        for &state in State::ALL {
            let over = Holder { is_over: true, ..holder(state, Liveness::Dead) };
            assert_eq!(judge(&over, &TERMS) == Verdict::Expire, state == State::Completed, "{state}");
        }
        let over = Holder { is_over: true, ..holder(State::Completed, Liveness::Dead) };
        let past = Past { reason: Some(Reason::Exit), outcome: Outcome::Landed, has_end: true };
        assert_eq!(after_wait(&over, &past, &TERMS), Verdict::Replay);
    }

    #[test]
    fn who_waited_for_an_attempt_takes_the_answer_of_its_owners_probe() {
        let past = Past { reason: Some(Reason::Exit), outcome: Outcome::Unknown, has_end: true };
        let asking = |running, answered| Holder {
            probe: ProbeFacts { stored: true, running, answered },
            in_window: true,
            ..holder(State::Held, Liveness::Dead)
        };
        assert_eq!(after_wait(&asking(true, Answered::No), &past, &OWN_PROBE), Verdict::WaitForProbe);
        assert_eq!(after_wait(&asking(true, Answered::ByOther), &past, &OWN_PROBE), Verdict::Held);
        assert_eq!(
            after_wait(&asking(false, Answered::No), &past, &OWN_PROBE),
            Verdict::Held,
            "121 for all who waited"
        );
        // An attempt that left no end is asked about by those who waited, too.
        let past = Past { reason: Some(Reason::Interrupted), outcome: Outcome::Unknown, has_end: false };
        assert_eq!(after_wait(&asking(false, Answered::No), &past, &TERMS), Verdict::Probe);
    }

    #[test]
    fn who_is_held_for_a_step_goes_on_when_the_step_is_known_and_not_before() {
        let asked = |steps, answered: Answered| Holder {
            steps,
            in_window: true,
            probe: ProbeFacts { stored: true, running: false, answered },
            ..holder(State::Held, Liveness::Dead)
        };
        let held = |steps| asked(steps, Answered::ByOther);
        for terms in [TERMS, NO_WAIT, RERUN, OWN_PROBE] {
            assert_eq!(
                judge(&held(Steps::Open), &terms),
                Verdict::Held,
                "neither its probe nor its window speaks of it"
            );
            assert_eq!(judge(&asked(Steps::Open, Answered::No), &terms), Verdict::AskSteps);
            let released = Verdict::Conclude(Ended::not_landed(Reason::Steps));
            assert_eq!(judge(&held(Steps::Known), &terms), released);
            assert_eq!(judge(&asked(Steps::Known, Answered::No), &terms), released);
        }
        let past = Past { reason: Some(Reason::Steps), outcome: Outcome::Unknown, has_end: true };
        assert_eq!(after_wait(&held(Steps::Open), &past, &TERMS), Verdict::Held);
    }
}
