//! What a run's end means: the table of design §6, as a pure function.

use super::claim::{Effect, Outcome, Reason, State};
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

/// Judges an attempt's end.
pub fn judge_end(terms: &EndTerms, end: End) -> Ended {
    match end {
        End::NotStarted => released(Reason::NotStarted),
        End::Exited(0) => completed(Reason::Exit),
        End::Exited(code) if terms.landed_exit.contains(code) => completed(Reason::LandedExit),
        End::Exited(code) if terms.not_landed_exit.contains(code) => released(Reason::NotLandedExit),
        End::Exited(_) => failed(terms, Reason::Exit),
        End::Signaled(_) => failed(terms, Reason::Signal),
        // Whatever it exited with afterwards: it was told to end before it had said so.
        End::TimedOut { .. } => failed(terms, Reason::Timeout),
    }
}

fn completed(reason: Reason) -> Ended {
    Ended { state: State::Completed, outcome: Outcome::Landed, reason }
}

fn released(reason: Reason) -> Ended {
    Ended { state: State::Released, outcome: Outcome::NotLanded, reason }
}

fn failed(terms: &EndTerms, reason: Reason) -> Ended {
    match terms.effect {
        Effect::External => Ended { state: State::Held, outcome: Outcome::Unknown, reason },
        Effect::Local if terms.keep_failure => {
            // That a time limit ended it must be told by the replay too.
            let reason = if reason == Reason::Timeout { reason } else { Reason::KeptFailure };
            Ended { state: State::Completed, outcome: Outcome::NotLanded, reason }
        }
        Effect::Local => released(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(effect: Effect) -> EndTerms {
        EndTerms {
            effect,
            landed_exit: "3".parse().expect("valid"),
            not_landed_exit: "6,7".parse().expect("valid"),
            keep_failure: false,
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
                assert_eq!(judge_end(&terms(effect), end), Ended { state, outcome, reason }, "{end:?} {effect}");
            }
        }
    }

    #[test]
    fn a_kept_failure_is_final_only_where_it_is_known_not_to_have_landed() {
        let kept = |effect| EndTerms { keep_failure: true, ..terms(effect) };
        for end in [End::Exited(1), End::Signaled(15), End::TimedOut { signal: None }] {
            let local = judge_end(&kept(Effect::Local), end);
            assert_eq!((local.state, local.outcome), (State::Completed, Outcome::NotLanded), "{end:?}");
            let limit_ended_it = matches!(end, End::TimedOut { .. });
            assert_eq!(local.reason, if limit_ended_it { Reason::Timeout } else { Reason::KeptFailure }, "{end:?}");
            assert_eq!(judge_end(&kept(Effect::External), end).state, State::Held, "{end:?}");
        }
        assert_eq!(judge_end(&kept(Effect::Local), End::Exited(6)).state, State::Released, "said not to have landed");
        assert_eq!(judge_end(&kept(Effect::Local), End::NotStarted).state, State::Released, "it never ran");
    }
}
