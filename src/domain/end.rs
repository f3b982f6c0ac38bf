//! What a run's end means: the table of design §6, as a pure function.

use super::claim::{Effect, Mark, Outcome, Reason, State};
use super::codes::ExitCodes;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The command exited with this code.
    Exited(i32),
    /// This signal ended the command.
    Signaled(i32),
    /// Its time limit ended it; the signal of its end, where it was one.
    TimedOut {
        /// What it was at last: SIGTERM, SIGKILL, or none where it exited by itself after SIGTERM.
        signal: Option<i32>,
    },
    /// The command never started.
    NotStarted,
}

/// Returns a signal's name, such as `SIGTERM`.
pub fn signal_name(number: i32) -> String {
    match nix::sys::signal::Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("SIG{number}"),
    }
}

/// What the caller said of the command's ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTerms {
    /// Whether a failure can leave us not knowing.
    pub effect: Effect,
    /// `--landed-exit`.
    pub landed_exit: ExitCodes,
    /// `--not-landed-exit`.
    pub not_landed_exit: ExitCodes,
    /// `--keep-failure`.
    pub keep_failure: bool,
    /// `--marks`.
    pub marks: bool,
}

/// What an attempt's end makes of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The claim's new state.
    pub state: State,
    /// What is known of the write.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
}

/// What else of a call is unknown, whatever came of the attempt at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The outcome of one of its steps.
    pub step: bool,
    /// That of the attempt in whose place this one was sent again (`--resend-within`).
    pub earlier: bool,
}

impl Ended {
    /// Nobody knows, and nothing runs until somebody does.
    pub fn held(reason: Reason) -> Ended {
        Ended { state: State::Held, outcome: Outcome::Unknown, reason }
    }

    /// It has landed, and later arrivals get its result.
    pub fn landed(reason: Reason) -> Ended {
        Ended { state: State::Completed, outcome: Outcome::Landed, reason }
    }

    /// It has not landed, and the next arrival runs it.
    pub fn not_landed(reason: Reason) -> Ended {
        Ended { state: State::Released, outcome: Outcome::NotLanded, reason }
    }
}

/// Judges an attempt's end by how it came, by the last mark that its command left, and by what else of the call is unknown.
///
/// Where the outcome of a step is, its own failure is unknown too, whatever its effect: the step may have landed (§8). And that
/// a resend has not landed says nothing of the attempt before it: *the first one times out; the second, sent again within the
/// window, can't be started; a third arrival, whose caller stated no window, comes.* Only the word of a caller for its own
/// arrival may send what may have landed, so the call is held again (G3).
pub fn judge_end(terms: &EndTerms, end: End, mark: Option<Mark>, open: Open) -> Ended {
    let ended = by_end_and_mark(terms, end, mark);
    if ended.state == State::Held || ended.outcome == Outcome::Landed {
        return ended;
    }
    if open.step && end != End::NotStarted {
        return Ended::held(Reason::Steps);
    }
    if open.earlier { Ended::held(Reason::Resent) } else { ended }
}

/// Judges by the end and the mark.
///
/// Exit 0 and `--landed-exit` are the command's last word. Of what else it may end with, a mark `landed` says more: whatever
/// fails later, it has landed. The other marks speak where the end leaves us not knowing.
fn by_end_and_mark(terms: &EndTerms, end: End, mark: Option<Mark>) -> Ended {
    let ended = by_end(terms, end);
    match (ended.outcome, mark) {
        (Outcome::Landed, _) => ended,
        _ if end == End::NotStarted => ended,
        (_, Some(Mark::Landed)) => Ended::landed(Reason::Marks),
        (Outcome::Unknown, mark) => by_marks(terms.marks, mark).unwrap_or(ended),
        (Outcome::NotLanded, _) => ended,
    }
}

/// Judges by the marks alone: what they say of an attempt whose end nobody saw, or whose end says nothing.
///
/// `marks`: whether the caller said that the command marks `sending` before it sends. Only then does no mark mean anything.
pub fn by_marks(marks: bool, mark: Option<Mark>) -> Option<Ended> {
    match mark {
        Some(Mark::Landed) => Some(Ended::landed(Reason::Marks)),
        Some(Mark::NotLanded) => Some(Ended::not_landed(Reason::Marks)),
        None if marks => Some(Ended::not_landed(Reason::Marks)),
        Some(Mark::Sending) | None => None,
    }
}

/// Judges an attempt whose owner is dead and has left no end: by what its marks say, see [`by_marks`], and by what else of the call
/// is unknown. That its own write has not landed frees the key only where nothing else is.
pub fn without_end(marked: Option<Ended>, open: Open) -> Ended {
    match marked {
        Some(ended) if ended.state != State::Released => ended,
        Some(_) if open.step => Ended::held(Reason::Steps),
        Some(ended) if !open.earlier => ended,
        _ => Ended::held(Reason::Interrupted),
    }
}

/// Judges a claim that was held for its steps, once each of them is known.
///
/// `earlier_is_unknown`: see [`Open::earlier`]. That this attempt has not landed says nothing of the one before it.
pub fn after_steps(earlier_is_unknown: bool) -> Ended {
    if earlier_is_unknown { Ended::held(Reason::Resent) } else { Ended::not_landed(Reason::Steps) }
}

fn by_end(terms: &EndTerms, end: End) -> Ended {
    match end {
        End::NotStarted => Ended::not_landed(Reason::NotStarted),
        End::Exited(0) => Ended::landed(Reason::Exit),
        End::Exited(code) if terms.landed_exit.contains(code) => Ended::landed(Reason::LandedExit),
        End::Exited(code) if terms.not_landed_exit.contains(code) => Ended::not_landed(Reason::NotLandedExit),
        End::Exited(_) => failed(terms, Reason::Exit),
        End::Signaled(_) => failed(terms, Reason::Signal),
        // Whatever it exited with afterwards: it was told to end before it had said so.
        End::TimedOut { .. } => failed(terms, Reason::Timeout),
    }
}

fn failed(terms: &EndTerms, reason: Reason) -> Ended {
    match terms.effect {
        Effect::External => Ended::held(reason),
        Effect::Local if terms.keep_failure => {
            // That a time limit ended it must be told by the replay too.
            let reason = if reason == Reason::Timeout { reason } else { Reason::KeptFailure };
            Ended { state: State::Completed, outcome: Outcome::NotLanded, reason }
        }
        Effect::Local => Ended::not_landed(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Open = Open { step: false, earlier: false };
    const STEP: Open = Open { step: true, earlier: false };
    const EARLIER: Open = Open { step: false, earlier: true };
    const BOTH: Open = Open { step: true, earlier: true };

    fn terms(effect: Effect) -> EndTerms {
        EndTerms {
            effect,
            landed_exit: "3".parse().expect("valid"),
            not_landed_exit: "6,7".parse().expect("valid"),
            keep_failure: false,
            marks: false,
        }
    }

    #[test]
    fn the_table_of_ends() {
        use Outcome::{Landed, NotLanded, Unknown};
        use State::{Completed, Held, Released};
        let table = [
            (End::Exited(0), (Completed, Landed, Reason::Exit), (Completed, Landed, Reason::Exit)),
            (End::Exited(3), (Completed, Landed, Reason::LandedExit), (Completed, Landed, Reason::LandedExit)),
            (
                End::Exited(6),
                (Released, NotLanded, Reason::NotLandedExit),
                (Released, NotLanded, Reason::NotLandedExit),
            ),
            (
                End::Exited(7),
                (Released, NotLanded, Reason::NotLandedExit),
                (Released, NotLanded, Reason::NotLandedExit),
            ),
            (End::NotStarted, (Released, NotLanded, Reason::NotStarted), (Released, NotLanded, Reason::NotStarted)),
            (End::Exited(1), (Released, NotLanded, Reason::Exit), (Held, Unknown, Reason::Exit)),
            (End::Exited(255), (Released, NotLanded, Reason::Exit), (Held, Unknown, Reason::Exit)),
            (End::Signaled(9), (Released, NotLanded, Reason::Signal), (Held, Unknown, Reason::Signal)),
            (
                End::TimedOut { signal: Some(15) },
                (Released, NotLanded, Reason::Timeout),
                (Held, Unknown, Reason::Timeout),
            ),
            (End::TimedOut { signal: None }, (Released, NotLanded, Reason::Timeout), (Held, Unknown, Reason::Timeout)),
            (End::Signaled(15), (Released, NotLanded, Reason::Signal), (Held, Unknown, Reason::Signal)),
        ];
        for (end, local, external) in table {
            for (effect, (state, outcome, reason)) in [(Effect::Local, local), (Effect::External, external)] {
                assert_eq!(
                    judge_end(&terms(effect), end, None, NONE),
                    Ended { state, outcome, reason },
                    "{end:?} {effect}"
                );
            }
        }
    }

    #[test]
    fn a_kept_failure_is_final_only_where_it_is_known_not_to_have_landed() {
        let kept = |effect| EndTerms { keep_failure: true, ..terms(effect) };
        for end in [End::Exited(1), End::Signaled(15), End::TimedOut { signal: None }] {
            let local = judge_end(&kept(Effect::Local), end, None, NONE);
            assert_eq!((local.state, local.outcome), (State::Completed, Outcome::NotLanded), "{end:?}");
            let limit_ended_it = matches!(end, End::TimedOut { .. });
            assert_eq!(local.reason, if limit_ended_it { Reason::Timeout } else { Reason::KeptFailure }, "{end:?}");
            assert_eq!(judge_end(&kept(Effect::External), end, None, NONE).state, State::Held, "{end:?}");
        }
        assert_eq!(
            judge_end(&kept(Effect::Local), End::Exited(6), None, NONE).state,
            State::Released,
            "said not to have landed"
        );
        assert_eq!(judge_end(&kept(Effect::Local), End::NotStarted, None, NONE).state, State::Released, "it never ran");
    }

    /// Every end of §6 × every mark: the state that it leaves, for a local and for an external call.
    #[test]
    fn the_table_of_ends_and_marks() {
        use Mark::{Landed, NotLanded, Sending};
        const DONE: (State, Reason) = (State::Completed, Reason::Exit);
        const LANDED: (State, Reason) = (State::Completed, Reason::Marks);
        const NOT: (State, Reason) = (State::Released, Reason::Marks);
        let timed_out = End::TimedOut { signal: Some(15) };
        let released = |reason| (State::Released, reason);
        let held = |reason| (State::Held, reason);
        // The end; then for each of [none, none with --marks, sending, landed, not-landed] what a local and an external
        // call become.
        let table = [
            (End::Exited(0), [DONE; 5], [DONE; 5]),
            (End::Exited(3), [(State::Completed, Reason::LandedExit); 5], [(State::Completed, Reason::LandedExit); 5]),
            (
                End::Exited(6),
                with(LANDED, [released(Reason::NotLandedExit); 4]),
                with(LANDED, [released(Reason::NotLandedExit); 4]),
            ),
            (End::NotStarted, [released(Reason::NotStarted); 5], [released(Reason::NotStarted); 5]),
            (
                End::Exited(1),
                with(LANDED, [released(Reason::Exit); 4]),
                with(LANDED, [held(Reason::Exit), NOT, held(Reason::Exit), NOT]),
            ),
            (
                End::Signaled(9),
                with(LANDED, [released(Reason::Signal); 4]),
                with(LANDED, [held(Reason::Signal), NOT, held(Reason::Signal), NOT]),
            ),
            (
                timed_out,
                with(LANDED, [released(Reason::Timeout); 4]),
                with(LANDED, [held(Reason::Timeout), NOT, held(Reason::Timeout), NOT]),
            ),
        ];
        let marks = [(false, None), (true, None), (true, Some(Sending)), (true, Some(Landed)), (true, Some(NotLanded))];
        for (end, local, external) in table {
            for (effect, expected) in [(Effect::Local, local), (Effect::External, external)] {
                for ((marks, mark), (state, reason)) in marks.into_iter().zip(expected) {
                    let ended = judge_end(&EndTerms { marks, ..terms(effect) }, end, mark, NONE);
                    assert_eq!((ended.state, ended.reason), (state, reason), "{end:?} {effect} {marks} {mark:?}");
                    let stated = mark.is_none() || judge_end(&terms(effect), end, mark, NONE) == ended;
                    assert!(stated, "a mark counts without --marks too: {end:?} {mark:?}");
                }
            }
        }
    }

    /// The marks' order of the table, `landed` put into its place.
    fn with(landed: (State, Reason), others: [(State, Reason); 4]) -> [(State, Reason); 5] {
        let [none, none_with_marks, sending, not_landed] = others;
        [none, none_with_marks, sending, landed, not_landed]
    }

    /// What an attempt that nobody saw the end of has become, by its marks alone.
    #[test]
    fn the_marks_alone() {
        let state = |marks, mark| by_marks(marks, mark).map(|ended| ended.state);
        for marks in [false, true] {
            assert_eq!(state(marks, Some(Mark::Landed)), Some(State::Completed));
            assert_eq!(state(marks, Some(Mark::NotLanded)), Some(State::Released));
            assert_eq!(state(marks, Some(Mark::Sending)), None);
        }
        assert_eq!(state(false, None), None, "who didn't promise to mark has said nothing by not marking");
        assert_eq!(state(true, None), Some(State::Released));
    }

    #[test]
    fn without_an_end_nothing_is_released_while_anything_is_unknown() {
        let (landed, not) = (Ended::landed(Reason::Marks), Ended::not_landed(Reason::Marks));
        let (steps, interrupted) = (Ended::held(Reason::Steps), Ended::held(Reason::Interrupted));
        for (open, expected) in [(NONE, not), (STEP, steps), (EARLIER, interrupted), (BOTH, steps)] {
            assert_eq!(without_end(Some(not), open), expected, "{open:?}");
            assert_eq!(without_end(Some(landed), open), landed, "{open:?}");
            assert_eq!(without_end(None, open), interrupted, "{open:?}");
        }
        assert_eq!([false, true].map(after_steps), [Ended::not_landed(Reason::Steps), Ended::held(Reason::Resent)]);
    }

    #[test]
    fn a_kept_failure_that_had_landed_is_told_as_landed() {
        let kept = EndTerms { keep_failure: true, ..terms(Effect::Local) };
        assert_eq!(judge_end(&kept, End::Exited(1), Some(Mark::Landed), NONE), Ended::landed(Reason::Marks));
        assert_eq!(judge_end(&kept, End::Exited(1), Some(Mark::Sending), NONE).reason, Reason::KeptFailure);
    }

    #[test]
    fn a_failure_beside_a_step_that_nobody_knows_of_is_unknown_too() {
        let held = Ended::held;
        for (end, local, external) in [
            (End::Exited(0), Ended::landed(Reason::Exit), Ended::landed(Reason::Exit)),
            (End::Exited(3), Ended::landed(Reason::LandedExit), Ended::landed(Reason::LandedExit)),
            (End::Exited(6), held(Reason::Steps), held(Reason::Steps)),
            (End::Exited(1), held(Reason::Steps), held(Reason::Exit)),
            (End::Signaled(9), held(Reason::Steps), held(Reason::Signal)),
            (End::NotStarted, Ended::not_landed(Reason::NotStarted), Ended::not_landed(Reason::NotStarted)),
        ] {
            for keep_failure in [false, true] {
                let local_terms = EndTerms { keep_failure, ..terms(Effect::Local) };
                assert_eq!(judge_end(&local_terms, end, None, STEP), local, "{end:?}");
            }
            assert_eq!(judge_end(&terms(Effect::External), end, None, STEP), external, "{end:?}");
        }
        let marked = judge_end(&terms(Effect::External), End::Exited(1), Some(Mark::NotLanded), STEP);
        assert_eq!(marked, held(Reason::Steps), "its own write has not landed, and the step's may have");
        assert_eq!(
            judge_end(&terms(Effect::Local), End::Exited(1), Some(Mark::Landed), STEP),
            Ended::landed(Reason::Marks)
        );
    }

    /// Of a resend only its own landing, or not knowing, is told of the call; all else leaves the earlier attempt unknown.
    #[test]
    fn a_resend_that_has_not_landed_is_held_for_the_attempt_before_it() {
        let held = Ended::held;
        for (end, mark, expected) in [
            (End::Exited(0), None, Ended::landed(Reason::Exit)),
            (End::Exited(3), None, Ended::landed(Reason::LandedExit)),
            (End::Exited(6), None, held(Reason::Resent)),
            (End::NotStarted, None, held(Reason::Resent)),
            (End::Exited(1), None, held(Reason::Exit)),
            (End::Exited(1), Some(Mark::NotLanded), held(Reason::Resent)),
            (End::Exited(1), Some(Mark::Landed), Ended::landed(Reason::Marks)),
            (End::Signaled(9), Some(Mark::Sending), held(Reason::Signal)),
        ] {
            assert_eq!(judge_end(&terms(Effect::External), end, mark, EARLIER), expected, "{end:?} {mark:?}");
        }
        let silent = EndTerms { marks: true, ..terms(Effect::External) };
        assert_eq!(judge_end(&silent, End::Signaled(9), None, EARLIER), held(Reason::Resent), "it died before it sent");
        assert_eq!(judge_end(&silent, End::Exited(6), None, BOTH), held(Reason::Steps), "its steps are asked first");
        assert_eq!(judge_end(&silent, End::NotStarted, None, BOTH), held(Reason::Resent));
        for keep_failure in [false, true] {
            let local = EndTerms { keep_failure, ..terms(Effect::Local) };
            assert_eq!(
                judge_end(&local, End::Exited(1), None, EARLIER),
                held(Reason::Resent),
                "an arrival that says local"
            );
        }
    }

    #[test]
    fn signals_have_their_names() {
        assert_eq!([15, 9, 34].map(signal_name), ["SIGTERM", "SIGKILL", "SIG34"]);
    }
}
