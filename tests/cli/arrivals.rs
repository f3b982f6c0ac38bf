//! Arrivals of one call: one of them runs the command, the others wait for it and replay it.

use std::collections::HashSet;

use crate::env::{Answer, Gate, Running, TestEnv};

/// Prints bytes that no second run would print.
const UNIQUE: &str = "head -c 24 /dev/urandom | od -An -tx1";

fn fifty(env: &TestEnv, script: &str) -> Vec<Running> {
    (0..50).map(|_| env.run("t").params(r#"{"amount":5}"#).counting(script).start()).collect()
}

fn one_ran_and_the_others_replayed(env: &TestEnv, answers: &[Answer]) {
    for answer in answers {
        answer.exits(0).prints(answers[0].stdout());
    }
    assert!(!answers[0].stdout().is_empty(), "the command printed something");
    assert_eq!(env.runs(), 1, "the command runs once");
    let marked = answers.iter().filter(|answer| answer.is_marked_as_replay()).count();
    assert_eq!(marked, answers.len() - 1, "all but one say that they are replays");
    assert_eq!(env.states(), ["completed"]);
}

#[test]
fn fifty_arrivals_at_once_on_a_store_that_does_not_exist_yet_run_the_command_once() {
    let env = TestEnv::new();
    let arrivals = fifty(&env, UNIQUE);
    let answers: Vec<Answer> = arrivals.into_iter().map(Running::answer).collect();
    one_ran_and_the_others_replayed(&env, &answers);
}

#[test]
fn fifty_arrivals_that_all_meet_a_running_command_get_its_one_result() {
    let env = TestEnv::new();
    env.run("another").script("true").answer().exits(0);
    let gate = Gate::new(&env, "gate");
    let arrivals = fifty(&env, &format!("read _ < gate; {UNIQUE}"));
    env.wait_for_waiters(49);
    gate.open();
    let answers: Vec<Answer> = arrivals.into_iter().map(Running::answer).collect();
    for answer in &answers {
        answer.exits(0).prints(answers[0].stdout());
    }
    assert_eq!(env.runs(), 1, "the command runs once");
    let marked = answers.iter().filter(|answer| answer.is_marked_as_replay()).count();
    assert_eq!(marked, 49, "all but one say that they are replays");
}

fn sixty_four_different_keys_all_succeed(env: &TestEnv) {
    let start = |n: usize| env.run("t").params(&format!(r#"{{"n":{n}}}"#)).counting(&format!("echo {n}")).start();
    let arrivals: Vec<Running> = (0..64).map(start).collect();
    for (n, arrival) in arrivals.into_iter().enumerate() {
        arrival.answer().exits(0).prints(format!("{n}\n")).is_a_first_run().says_exactly("");
    }
    assert_eq!(env.runs(), 64);
    assert_eq!(env.rows("SELECT count(*), count(DISTINCT key) FROM claim WHERE state = 'completed'"), ["64|64"]);
}

#[test]
fn sixty_four_different_calls_at_once_on_a_store_that_does_not_exist_yet_all_succeed() {
    sixty_four_different_keys_all_succeed(&TestEnv::new());
}

#[test]
fn sixty_four_different_calls_at_once_on_an_explicit_new_store_all_succeed() {
    let env = TestEnv::new();
    let store = env.file("ledger.db");
    let start = |n: usize| {
        env.run("t").params(&n.to_string()).var("IDEM_STORE", &store).counting(&format!("echo {n}; exit $(({n} % 3))"))
    };
    let arrivals: Vec<Running> = (0..64).map(|n| start(n).start()).collect();
    for (n, arrival) in arrivals.into_iter().enumerate() {
        let code = i32::try_from(n % 3).expect("a small number");
        arrival.answer().exits(code).prints(format!("{n}\n")).does_not_say("locked");
    }
    assert_eq!(env.runs(), 64);
    start(0).answer().exits(0).is_a_replay();
    assert!(!env.store().exists(), "the default store stays out of it");
}

#[test]
fn a_repeat_replays_the_same_bytes_without_running_anything() {
    let env = TestEnv::new();
    let call = || env.run("t").params(r#"{"a":1}"#).counting(&format!("{UNIQUE}; echo warning >&2"));
    let first = call().answer();
    first.exits(0).is_a_first_run().says_exactly("warning\n");
    for _ in 0..3 {
        let again = call().answer();
        again.exits(0).prints(first.stdout()).is_a_replay();
        assert!(again.stderr().ends_with(first.stderr()), "the recorded stderr comes back unchanged\n{again}");
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_replay_names_the_claim_before_it_gives_back_the_output() {
    let env = TestEnv::new();
    env.run("other").script("true").answer().exits(0);
    let call = || env.run("t").script("echo first line >&2");
    call().answer().exits(0);
    let replay = call().answer();
    replay.exits(0).is_a_replay();
    let messages = replay.messages();
    let (note, recorded) = messages.split_once('\n').expect("a note on a line of its own");
    assert!(note.starts_with("idem: ") && note.contains('2'), "the note names claim 2\n{replay}");
    assert_eq!(recorded, "first line\n", "only the recorded bytes follow\n{replay}");
}

#[test]
fn success_without_any_output_is_a_success_and_the_repeat_replays_the_empty_output() {
    let env = TestEnv::new();
    let call = || env.run("issue-create").external().counting(":");
    call().answer().exits(0).prints("").says_exactly("");
    call().answer().exits(0).prints("").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn ten_identical_calls_that_meet_no_running_command_any_more_replay_all_the_same() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("echo done");
    call().answer().exits(0);
    let arrivals: Vec<Running> = (0..10).map(|_| call().start()).collect();
    for arrival in arrivals {
        arrival.answer().exits(0).prints("done\n").is_a_replay();
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn an_arrival_that_may_not_wait_is_told_that_the_owner_is_still_running() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    owner.command();
    call().args(["--no-wait"]).answer().exits(120).prints("").says("idem: ").says("running");
    call().args(["--wait", "1s"]).answer().exits(120).prints("").says("idem: ").says("running");
    gate.open();
    owner.answer().exits(0).prints("done\n");
    call().args(["--no-wait"]).answer().exits(0).prints("done\n").is_a_replay();
    assert_eq!(env.runs(), 1);
    let kinds = env.event_kinds("1");
    assert_eq!(kinds.iter().filter(|kind| *kind == "busy").count(), 2, "each busy arrival is an event: {kinds:?}");
}

#[test]
fn a_bounded_wait_that_is_long_enough_gets_the_result() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    owner.command();
    let waiter = call().args(["--wait", "1h"]).start();
    gate.open();
    owner.answer().exits(0).is_a_first_run();
    waiter.answer().exits(0).prints("done\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn every_arrival_leaves_an_event() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("echo done");
    call().answer().exits(0);
    for _ in 0..5 {
        call().answer().exits(0).is_a_replay();
    }
    env.run("t").script("echo something else").answer().exits(122);
    // The next writer takes the arrivals into the history; asking for it does too.
    let kinds = env.event_kinds("1");
    assert_eq!(kinds.iter().filter(|kind| *kind == "replay").count(), 5, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "mismatch").count(), 1, "{kinds:?}");
}

#[test]
fn arrivals_in_parallel_lose_no_event() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("echo done");
    call().answer().exits(0);
    let others = |n: usize| env.run("other").params(&n.to_string()).script("true").start();
    let arrivals: Vec<Running> = (0..20).flat_map(|n| [call().start(), others(n)]).collect();
    for arrival in arrivals {
        arrival.answer().exits(0);
    }
    let kinds = env.event_kinds("1");
    assert_eq!(kinds.iter().filter(|kind| *kind == "replay").count(), 20, "{kinds:?}");
    let shown = env.shown("1");
    let events = shown["events"].as_array().expect("events");
    let whole: HashSet<String> = events.iter().map(ToString::to_string).collect();
    for event in &whole {
        assert!(event.contains("\"at\"") && event.contains("\"actor\""), "an event has a time and an actor: {event}");
    }
}
