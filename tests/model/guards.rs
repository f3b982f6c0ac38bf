//! That the search can fail: without one of the program's guards it finds the way to a broken promise, and with it none.
//!
//! Each prints the shortest way: `cargo test --test model guards -- --nocapture`.

use super::contract::Broken;
use super::scenario::{EXTERNAL, LOCAL, LOCAL_RERUN, MARKS, MARKS_RESEND, NONE, PROBE, RESEND, beside, far, shared};
use super::search::search;
use super::world::{Faults, Guard, Scenario};
use super::{figures, who};

const UNSEEN: Faults = Faults { unseen: 1, ..NONE };
const DEATHS: Faults = Faults { deaths: 2, ..NONE };
const REFUSED: Faults = Faults { refusals: 1, ..NONE };

/// Two commands at a time, or a write that is sent twice.
fn twice(broken: Broken) -> bool {
    matches!(broken, Broken::TwoCommands(..) | Broken::SentTwice(..))
}

/// A failure that is run again by somebody who was there for it.
fn run_again(broken: Broken) -> bool {
    matches!(broken, Broken::WaiterRan(..))
}

fn rewritten(broken: Broken) -> bool {
    matches!(broken, Broken::Rewritten(_))
}

/// Searches without the guard, and then with it.
fn needs(guard: Guard, of: impl Fn() -> Scenario, looks_for: fn(Broken) -> bool) {
    let without = of().without(guard);
    let found = search(&without, looks_for);
    let Some((_, trace)) = &found.broken else {
        panic!("without {guard:?}, {} keeps its promises: {}", who(&without), figures(&found));
    };
    println!("without {guard:?}, after {} steps; {}\n{}", trace.length, figures(&found), trace.text);
    let found = search(&of(), looks_for);
    if let Some((_, trace)) = found.broken {
        panic!("with {guard:?} too:\n{}", trace.text);
    }
}

macro_rules! guards {
    ($($(#[$doc:meta])* $name:ident: $guard:ident, $of:expr, $looks_for:expr;)+) => {
        $($(#[$doc])* #[test] fn $name() { needs(Guard::$guard, || $of, $looks_for); })+
    };
}

guards! {
    /// The index, and in the same transaction the look at what came since.
    the_inserts_uniqueness: Unique, beside(&[LOCAL, LOCAL], NONE), twice;
    /// Two rows that hold one key, before anything runs.
    the_unique_index: Index, beside(&[LOCAL, LOCAL_RERUN], DEATHS), |broken| matches!(broken, Broken::TwoHolders(..));
    the_liveness_lock: Lock, beside(&[LOCAL, LOCAL_RERUN], NONE), twice;
    a_lock_that_proves_nothing: Unprovable, shared(&[LOCAL, far(LOCAL_RERUN)], UNSEEN), twice;
    the_lock_that_the_command_inherits: Inherited, beside(&[LOCAL, LOCAL_RERUN], DEATHS), twice;
    the_hold: Hold, beside(&[EXTERNAL, EXTERNAL], NONE), twice;
    the_compared_state: ComparedState, beside(&[LOCAL, LOCAL_RERUN], NONE), twice;
    the_compared_state_of_a_final_result: ComparedState, beside(&[LOCAL, LOCAL], NONE), rewritten;
    the_compared_mark: ComparedMark, beside(&[MARKS, MARKS], DEATHS), twice;
    the_mark_that_an_end_is_judged_by: FinishedMark, beside(&[MARKS, MARKS], NONE), twice;
    /// A command that has closed the lock, and whose idem is dead, looks as dead as that. It asks before it sends.
    the_mark_that_is_refused: RefusedMark, beside(&[MARKS, MARKS], Faults { deaths: 1, closed: 1, ..NONE }),
        |broken| matches!(broken, Broken::SentTwice(..));
    the_attempt_that_was_missed: Missed, beside(&[LOCAL, LOCAL], NONE), run_again;
    /// Found by this model: who read a claim as running and found it changed started anew.
    the_claim_that_changed_while_it_was_judged: ChangedIsPast, beside(&[LOCAL, LOCAL], NONE), run_again;
    the_same_in_place_of_another: ChangedIsPast, beside(&[LOCAL, LOCAL_RERUN], NONE), run_again;
    the_row_that_is_read_again: ReadAgain, beside(&[LOCAL, LOCAL], NONE), |broken| broken == Broken::Endless;
    the_lock_that_is_let_go: LetGo, beside(&[LOCAL, LOCAL], NONE), |broken| broken == Broken::Stuck;
    what_is_recorded_and_nothing_else_is_replayed: TrueReplay, beside(&[LOCAL, LOCAL], NONE),
        |broken| matches!(broken, Broken::FalseReplay(_));
    what_is_unknown_is_not_freed: Hold, beside(&[EXTERNAL, EXTERNAL], NONE), |broken| matches!(broken, Broken::FreedUnknown(_));
    what_has_landed_is_not_released_as_not_landed: FinishedMark, beside(&[MARKS, MARKS], NONE),
        |broken| matches!(broken, Broken::FalselyReleased(_));
    the_lock_before_the_insert: LockFirst, beside(&[LOCAL, LOCAL_RERUN], NONE), twice;
    the_end_before_the_unlock: EndFirst, beside(&[LOCAL, LOCAL_RERUN], NONE), twice;
    the_kept_end_before_the_unlock: PendingFirst, beside(&[LOCAL, LOCAL_RERUN], REFUSED), twice;
    the_look_at_what_is_kept: PendingSeen, beside(&[LOCAL, LOCAL_RERUN], REFUSED), twice;
    the_one_transaction_of_a_resend: OneTransaction, beside(&[RESEND, RESEND, EXTERNAL], NONE), twice;
    the_owner_that_may_live_while_its_target_is_asked: ProbedAlive, shared(&[PROBE, far(PROBE)], UNSEEN), twice;
    /// Found by this model: a resend that had never reached the target was released, and with it the attempt before it.
    the_attempt_before_a_resend: Earlier, beside(&[RESEND, RESEND, EXTERNAL], DEATHS),
        |broken| matches!(broken, Broken::SentTwice(..));
    the_same_by_its_marks: Earlier, beside(&[RESEND, MARKS_RESEND, EXTERNAL], DEATHS),
        |broken| matches!(broken, Broken::SentTwice(..));
    the_persons_word_before_a_late_end: LateEnd, beside(&[EXTERNAL, EXTERNAL], Faults { words: 1, ..NONE }), rewritten;
}
