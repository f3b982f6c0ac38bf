//! The rules of ends, marks, probes, windows and arrivals put together: what the next arrival of a call does, for every
//! row of design §6 × every probe × every mark × inside the window or past it.
//!
//! The rules themselves are the program's pure functions, called in the order in which `idem run` calls them. What they
//! have to come to is said here once more, in another form: what is known, and what may be done with that.

use idem::domain::arrival::{Answered, Holder, Liveness, ProbeFacts, Steps, Terms, Verdict, judge};
use idem::domain::claim::{Effect, Mark, Outcome, Reason, State};
use idem::domain::codes::ExitCodes;
use idem::domain::end::{End, EndTerms, Ended, Open, by_marks, judge_end};
use idem::domain::probe::{answer, judge_answer};

/// How an attempt came to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    Ended(End),
    /// idem died, and its command with it.
    Died,
}

/// What the next arrival comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Replays,
    /// It runs the command, which is known not to have landed.
    Runs,
    /// It runs the command, which may have landed, since the target dedupes.
    Resends,
    Held,
}

const ROWS: [Row; 8] = [
    Row::Ended(End::Exited(0)),
    Row::Ended(End::Exited(3)),
    Row::Ended(End::Exited(6)),
    Row::Ended(End::NotStarted),
    Row::Ended(End::Exited(1)),
    Row::Ended(End::Signaled(15)),
    Row::Ended(End::TimedOut { signal: Some(9) }),
    Row::Died,
];

const PROBES: [Option<End>; 5] =
    [None, Some(End::Exited(0)), Some(End::Exited(1)), Some(End::Exited(2)), Some(End::TimedOut { signal: Some(15) })];

const MARKS: [(bool, Option<Mark>); 8] = [
    (false, None),
    (false, Some(Mark::Sending)),
    (false, Some(Mark::Landed)),
    (false, Some(Mark::NotLanded)),
    (true, None),
    (true, Some(Mark::Sending)),
    (true, Some(Mark::Landed)),
    (true, Some(Mark::NotLanded)),
];

#[derive(Clone, Copy, Debug)]
struct Case {
    row: Row,
    effect: Effect,
    probe: Option<End>,
    marks: bool,
    mark: Option<Mark>,
    in_window: bool,
}

/// What has to come of it.
fn expected(case: Case) -> Next {
    let landed = Row::Ended(End::Exited(0)) == case.row || Row::Ended(End::Exited(3)) == case.row;
    let not_landed = Row::Ended(End::Exited(6)) == case.row || Row::Ended(End::NotStarted) == case.row;
    let started = case.row != Row::Ended(End::NotStarted);
    if landed || (started && case.mark == Some(Mark::Landed)) {
        return Next::Replays;
    }
    if not_landed || (case.effect == Effect::Local && case.row != Row::Died) {
        return Next::Runs;
    }
    match (case.mark, case.marks) {
        (Some(Mark::NotLanded), _) | (None, true) => return Next::Runs,
        _ => {}
    }
    match case.probe {
        Some(End::Exited(0)) => Next::Replays,
        Some(End::Exited(1)) => Next::Runs,
        _ if case.in_window => Next::Resends,
        _ => Next::Held,
    }
}

/// What the program's rules make of it.
fn played(case: Case) -> Next {
    let codes = |text: &str| -> ExitCodes { text.parse().expect("codes") };
    let terms = EndTerms {
        effect: case.effect,
        landed_exit: codes("3"),
        not_landed_exit: codes("6"),
        keep_failure: false,
        marks: case.marks,
    };
    let mut now = match case.row {
        Row::Ended(end) => judge_end(&terms, end, case.mark, Open::default()),
        Row::Died => Ended { state: State::Running, outcome: Outcome::Unknown, reason: Reason::Interrupted },
    };
    let ask = |now: Ended| case.probe.and_then(|probe| judge_answer(answer(probe), false)).unwrap_or(now);
    if now.state == State::Held {
        now = ask(now);
    }
    // Then an arrival comes, and goes on until it is answered or runs.
    let arrival = Terms {
        effect: case.effect,
        no_wait: false,
        allow_command_change: false,
        rerun_if_interrupted: false,
        probe: case.probe.is_some(),
    };
    let mut answered = Answered::No;
    for _ in 0..10 {
        let holder = Holder {
            state: now.state,
            effect: case.effect,
            same_command: true,
            encloses_arrival: false,
            owner: Liveness::Dead,
            by_marks: by_marks(case.marks, case.mark),
            steps: Steps::NotAsked,
            earlier_is_unknown: false,
            probe: ProbeFacts { stored: case.probe.is_some(), running: false, answered },
            in_window: case.in_window && now.state == State::Held,
            is_over: false,
        };
        match judge(&holder, &arrival) {
            Verdict::Claim => return Next::Runs,
            Verdict::Replay => return Next::Replays,
            Verdict::Held => return Next::Held,
            Verdict::RunAgain(Reason::Resent) => return Next::Resends,
            Verdict::Hold(reason) => now = Ended { state: State::Held, outcome: Outcome::Unknown, reason },
            Verdict::Conclude(ended) => now = ended,
            Verdict::Probe => {
                answered = Answered::ByOwn;
                now = ask(now);
            }
            other => panic!("{other:?} of {case:?}"),
        }
    }
    panic!("no end of {case:?}");
}

#[test]
fn the_next_arrival_for_every_end_probe_mark_and_window() {
    let mut cases = 0;
    for row in ROWS {
        for effect in [Effect::Local, Effect::External] {
            for probe in PROBES {
                for (marks, mark) in MARKS {
                    for in_window in [true, false] {
                        let case = Case { row, effect, probe, marks, mark, in_window };
                        assert_eq!(played(case), expected(case), "{case:?}");
                        cases += 1;
                    }
                }
            }
        }
    }
    assert_eq!(cases, 8 * 2 * 5 * 8 * 2);
}

/// A resend that has not landed says nothing of the attempt in whose place it came: its call goes on being held, for that
/// one's sake, whoever tells what of the resend: its marks, or its step that is known.
#[test]
fn what_is_known_of_a_resend_frees_nothing_while_the_attempt_before_it_is_unknown() {
    let arrival = Terms {
        effect: Effect::External,
        no_wait: false,
        allow_command_change: false,
        rerun_if_interrupted: false,
        probe: false,
    };
    let judged = |state, by_marks, steps, earlier_is_unknown| {
        let holder = Holder {
            state,
            effect: Effect::External,
            same_command: true,
            encloses_arrival: false,
            owner: Liveness::Dead,
            by_marks,
            steps,
            earlier_is_unknown,
            probe: ProbeFacts { stored: false, running: false, answered: Answered::No },
            in_window: false,
            is_over: false,
        };
        judge(&holder, &arrival)
    };
    let not_landed = Ended::not_landed(Reason::Marks);
    for (earlier, verdict) in [(true, Verdict::Hold(Reason::Interrupted)), (false, Verdict::Conclude(not_landed))] {
        assert_eq!(judged(State::Running, Some(not_landed), Steps::NotAsked, earlier), verdict);
    }
    let by_steps = Ended::not_landed(Reason::Steps);
    for (earlier, verdict) in [(true, Verdict::Hold(Reason::Resent)), (false, Verdict::Conclude(by_steps))] {
        assert_eq!(judged(State::Held, None, Steps::Known, earlier), verdict);
    }
    // What has landed is the call's end, whatever came before it.
    let landed = Ended::landed(Reason::Marks);
    for earlier in [true, false] {
        assert_eq!(judged(State::Running, Some(landed), Steps::NotAsked, earlier), Verdict::Conclude(landed));
    }
}
