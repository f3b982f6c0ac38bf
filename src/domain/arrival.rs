//! What an arrival means: the rules of design §5 and the order of answers of §12, as a pure function.

use super::claim::{Effect, Outcome, Reason, State};

/// What the operating system says of an owner (design §5, liveness).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its lock is held: idem or its command lives.
    Alive,
    /// Its lock is free: both are gone.
    Dead,
    /// Its lock can't be tested any more: the lock file was removed and made anew.
    Unprovable,
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
    /// Whether the arrival was started by that very claim's command, directly or through steps.
    pub encloses_arrival: bool,
    /// Whether its owner lives; asked only while it runs.
    pub owner: Liveness,
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
    /// The owner is proven dead and both sides are local and safe to run again: release the claim, then arrive anew.
    Release,
}

/// Judges an arrival by the claim that holds its key.
///
/// The order is the contract's: a call inside itself first (its two commands nearly always differ, and "mismatch" would
/// send people the wrong way), another command before busy and held (§12).
pub fn judge(holder: &Holder, terms: &Terms) -> Verdict {
    if !holder.state.holds_key() {
        return Verdict::Claim;
    }
    if holder.state == State::Running && holder.encloses_arrival {
        return Verdict::InsideItself;
    }
    if !holder.same_command && !terms.allow_command_change {
        return Verdict::Mismatch;
    }
    match holder.state {
        State::Completed => Verdict::Replay,
        State::Held => Verdict::Held,
        _ => judge_running(holder, terms),
    }
}

fn judge_running(holder: &Holder, terms: &Terms) -> Verdict {
    let both_local = holder.effect == Effect::Local && terms.effect == Effect::Local;
    match holder.owner {
        Liveness::Alive if terms.no_wait => Verdict::Busy,
        Liveness::Alive => Verdict::Wait,
        // Only a proven death may free anything (G6); the word of --rerun-if-interrupted counts between local calls (§12).
        Liveness::Dead if terms.rerun_if_interrupted && both_local => Verdict::Release,
        Liveness::Dead => Verdict::Hold(Reason::Interrupted),
        Liveness::Unprovable => Verdict::Hold(Reason::OwnerLost),
    }
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
/// into fifty runs. That a person freed the key meanwhile changes nothing for them where the end is known. What left no
/// known end sends the arrival back to the start.
pub fn after_wait(holder: &Holder, past: &Past, terms: &Terms) -> Verdict {
    let interrupted = matches!(past.reason, Some(Reason::Interrupted | Reason::OwnerLost));
    match holder.state {
        State::Released | State::Cleared if past.has_end && past.outcome != Outcome::Unknown && !interrupted => {
            Verdict::Replay
        }
        _ => judge(holder, terms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms =
        Terms { effect: Effect::Local, no_wait: false, allow_command_change: false, rerun_if_interrupted: false };
    const NO_WAIT: Terms = Terms { no_wait: true, ..TERMS };
    const RERUN: Terms = Terms { rerun_if_interrupted: true, ..TERMS };
    const ANY_COMMAND: Terms = Terms { allow_command_change: true, ..TERMS };

    fn holder(state: State, owner: Liveness) -> Holder {
        Holder { state, effect: Effect::Local, same_command: true, encloses_arrival: false, owner }
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
            (holder(State::Running, Dead), RERUN, Verdict::Release),
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
        let ended = Holder { encloses_arrival: true, ..holder(State::Completed, Liveness::Dead) };
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
}
