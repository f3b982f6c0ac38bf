//! Arrivals that meet while a target is asked: one asks, the others wait for its answer, and signals reach the probe.

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::env::{Call, Gate, Running, TestEnv, become_free, is_alive, wait_for};

/// A probe that counts itself, says who it is and waits at its gate for the answer to be given.
fn at_the_gate(answer: i32) -> String {
    format!("echo probe >> probes; echo $$ > pid; read _ < asked; echo receipt; exit {answer}")
}

/// An external call that always ends with 7, and prints which attempt it was.
fn pay<'a>(env: &'a TestEnv, options: &[&str]) -> Call<'a> {
    env.run("pay").external().args(options.iter().copied()).counting("echo sent $IDEM_ATTEMPT; exit 7")
}

/// A call of [`pay`] whose outcome nobody knows, and no probe is stored with it.
fn held(env: &TestEnv) {
    pay(env, &[]).answer().exits(7);
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn two_arrivals_at_a_held_claim_ask_once_and_take_the_same_answer() {
    for (answer, code) in [(0, 0), (2, 121)] {
        let env = TestEnv::new();
        let asked = Gate::new(&env, "asked");
        held(&env);
        let probe = at_the_gate(answer);
        let first = pay(&env, &["--probe", &probe]).start();
        first.command();
        let others: Vec<Running> = (0..3).map(|_| pay(&env, &["--probe", &probe]).start()).collect();
        env.wait_for_waiters(3);
        asked.open();
        first.answer().exits(code);
        for other in others {
            let other = other.answer();
            assert_eq!(other.exits(code).is_marked_as_replay(), code == 0, "{other}");
        }
        assert_eq!((env.lines_in("probes"), env.runs()), (1, 1), "answer {answer}");
    }
}

#[test]
fn arrivals_that_waited_for_not_landed_are_one_new_attempt_and_its_waiters() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    held(&env);
    let probe = "echo probe >> probes; [ $IDEM_ATTEMPT = 1 ] || exit 1; echo $$ > pid; read _ < asked; exit 1";
    let first = pay(&env, &["--probe", probe]).start();
    first.command();
    let others: Vec<Running> = (0..5).map(|_| pay(&env, &["--probe", probe]).start()).collect();
    env.wait_for_waiters(5);
    asked.open();
    let answers = others.into_iter().chain([first]).map(Running::answer);
    let ran = answers.filter(|answer| !answer.exits(7).prints("sent 2\n").is_marked_as_replay()).count();
    assert_eq!((ran, env.runs()), (1, 2), "fifty waiters never turn into fifty runs");
    assert_eq!(env.states(), ["released", "released"]);
}

#[test]
fn twenty_arrivals_whose_probe_says_not_landed_run_the_command_once() {
    let env = TestEnv::new();
    let call = || {
        let call = env.run("pay").external().args(["--probe", "echo probe >> probes; [ $IDEM_ATTEMPT = 2 ]"]);
        call.counting("echo sent $IDEM_ATTEMPT; [ $IDEM_ATTEMPT = 2 ]")
    };
    let without = env.run("pay").external().counting("echo sent $IDEM_ATTEMPT; [ $IDEM_ATTEMPT = 2 ]");
    without.answer().exits(1);
    let arrivals: Vec<Running> = (0..20).map(|_| call().start()).collect();
    let answers = arrivals.into_iter().map(Running::answer);
    let ran = answers.filter(|answer| !answer.exits(0).prints("sent 2\n").is_marked_as_replay()).count();
    assert_eq!((ran, env.runs(), env.lines_in("probes")), (1, 2, 1));
}

#[test]
fn who_may_not_wait_for_the_answer_is_told_that_the_claim_is_held() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    held(&env);
    let probe = at_the_gate(0);
    let first = pay(&env, &["--probe", &probe]).start();
    first.command();
    for wait in [&["--no-wait"][..], &["--wait", "100ms"]] {
        pay(&env, wait).args(["--probe", &probe]).answer().exits(121).prints("");
        pay(&env, wait).answer().exits(121).prints("");
    }
    asked.open();
    first.answer().exits(0).prints("receipt\n").is_a_replay();
    assert_eq!((env.lines_in("probes"), env.runs()), (1, 1));
}

#[test]
fn who_waited_for_an_attempt_gets_what_the_probe_at_its_end_says() {
    for (answer, owners, waiters, prints) in [(0, 0, 0, "receipt\n"), (1, 7, 7, "sent 1\n"), (2, 7, 121, "")] {
        let env = TestEnv::new();
        let (gate, asked) = (Gate::new(&env, "gate"), Gate::new(&env, "asked"));
        let probe = at_the_gate(answer);
        let call = || {
            let call = env.run("pay").external().args(["--probe", &probe]);
            call.counting("echo $$ > command; echo sent $IDEM_ATTEMPT; read _ < gate; exit 7")
        };
        let owner = call().start();
        env.pid_in("command");
        let waiting: Vec<Running> = (0..3).map(|_| call().start()).collect();
        env.wait_for_waiters(3);
        gate.open();
        owner.command();
        assert_eq!(
            env.rows("SELECT state, exit_code FROM claim"),
            ["held|7"],
            "the end is recorded before it is asked"
        );
        call().args(["--no-wait"]).answer().exits(121).prints("");
        asked.open();
        owner.answer().exits(owners).is_a_first_run();
        for waiter in waiting {
            let waiter = waiter.answer();
            let replay = waiter.exits(waiters).prints(prints).is_marked_as_replay();
            assert_eq!(replay, waiters != 121, "{waiter}");
        }
        assert_eq!((env.lines_in("probes"), env.runs()), (1, 1), "answer {answer}");
    }
}

#[test]
fn who_comes_while_the_end_is_asked_about_waits_for_the_answer() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    let probe = at_the_gate(0);
    let owner = pay(&env, &["--probe", &probe]).start();
    owner.command();
    let waiter = pay(&env, &["--probe", &probe]).start();
    env.wait_for_waiters(1);
    asked.open();
    owner.answer().exits(0).prints("sent 1\nreceipt\n").is_a_first_run();
    waiter.answer().exits(0).prints("receipt\n").is_a_replay();
    assert_eq!((env.lines_in("probes"), env.runs()), (1, 1));
}

#[test]
fn who_came_while_the_end_was_asked_about_gets_that_failure_when_it_did_not_land() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    let probe = at_the_gate(1);
    let owner = pay(&env, &["--probe", &probe]).start();
    owner.command();
    let waiters: Vec<Running> = (0..3).map(|_| pay(&env, &["--probe", &probe]).start()).collect();
    env.wait_for_waiters(3);
    asked.open();
    owner.answer().exits(7).prints("sent 1\n").is_a_first_run();
    for waiter in waiters {
        waiter.answer().exits(7).prints("sent 1\n").is_a_replay();
    }
    assert_eq!(env.runs(), 1, "only an arrival that comes after a release runs the command anew");
}

/// A probe that notes each TERM and goes on until the test writes `stop`.
const DEAF: &str = "trap 'echo told >> told' TERM; echo $$ > pid; \
                    while [ -e pid ] && ! [ -e stop ]; do sleep 0.02; done; exit 1";

#[test]
fn an_arrival_that_was_told_to_end_while_it_asked_never_starts_the_command() {
    let env = TestEnv::new();
    held(&env);
    let arrival = pay(&env, &["--probe", DEAF]).start();
    arrival.command();
    arrival.signal(Signal::SIGTERM);
    wait_for("the probe's trap", || env.has("told").then_some(()));
    env.write("stop", "");
    let answer = arrival.answer();
    assert_ne!(answer.code(), Some(7), "it did not run the command\n{answer}");
    assert_eq!(env.runs(), 1, "{answer}");
    assert_ne!(env.states().last().map(String::as_str), Some("running"), "{answer}");
    pay(&env, &["--probe", "exit 1"]).answer().exits(7).prints("sent 2\n").is_a_first_run();
}

#[test]
fn a_signal_at_the_end_of_an_attempt_reaches_the_probes_whole_group() {
    let env = TestEnv::new();
    let _shut = Gate::new(&env, "shut");
    let probe = "sh -c 'echo $$ > child; read _ < shut' & until [ -s child ]; do :; done; echo $$ > pid; wait";
    let owner = pay(&env, &["--probe", probe]).start();
    owner.command();
    owner.signal(Signal::SIGTERM);
    owner.answer().prints("sent 1\n");
    become_free(env.pid_in("child"));
    assert_eq!(env.rows("SELECT state, outcome, exit_code FROM claim"), ["held|unknown|7"]);
    assert_eq!(env.event_details("1", "probe")[0]["outcome"], "unknown");
}

#[test]
fn a_signal_during_the_delay_ends_the_wait_and_the_claim_stays_held() {
    let env = TestEnv::new();
    let owner = pay(&env, &["--probe", "touch probed", "--probe-delay", "1h"]).start();
    wait_for("the recorded end", || (env.store().exists() && env.states() == ["held"]).then_some(()));
    owner.signal(Signal::SIGTERM);
    owner.answer().prints("sent 1\n");
    assert!(!env.has("probed"));
    assert_eq!(env.rows("SELECT state, outcome, exit_code FROM claim"), ["held|unknown|7"]);
}

#[test]
fn an_idem_that_is_killed_while_it_asks_about_its_end_leaves_a_held_claim_with_its_record() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    let probe = format!("[ -e calm ] && {{ echo found; exit 0; }}; {}", at_the_gate(2));
    let owner = pay(&env, &["--probe", &probe]).start();
    let asking = owner.command();
    owner.kill_9();
    assert_eq!(env.rows("SELECT state, outcome, exit_code FROM claim"), ["held|unknown|7"]);
    env.idem(["show", "1", "--stdout"]).answer().exits(0).prints("sent 1\n");
    env.write("calm", "");
    // The probe that was left alone is nobody's any more, and keeps nobody from asking again.
    assert!(is_alive(asking), "it waits at its gate");
    pay(&env, &["--no-wait"]).answer().exits(0).prints("found\n").is_a_replay();
    asked.open();
    become_free(asking);
    pay(&env, &[]).answer().exits(0).prints("found\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn an_arrival_that_is_killed_while_it_asks_leaves_the_question_to_those_who_wait() {
    let env = TestEnv::new();
    let _asked = Gate::new(&env, "asked");
    held(&env);
    let first = pay(&env, &["--probe", &at_the_gate(0)]).start();
    let asking = first.command();
    let waiter = pay(&env, &["--probe", "echo found"]).start();
    env.wait_for_waiters(1);
    first.kill_9();
    signal::kill(Pid::from_raw(asking), Signal::SIGKILL).expect("the probe still lives");
    let waiter = waiter.answer();
    assert!(matches!(waiter.code(), Some(0 | 121)), "it asks, or was told that nobody knows\n{waiter}");
    pay(&env, &["--probe", "echo found"]).answer().exits(0).prints("found\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn an_attempt_after_not_landed_is_as_alive_as_any_other() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = |options: &[&str]| {
        let call = env.run("pay").external().args(options.iter().copied());
        call.counting("[ $IDEM_ATTEMPT = 2 ] || exit 7; echo $$ > pid; read _ < gate; echo done")
    };
    call(&[]).answer().exits(7);
    let second = call(&["--probe", "exit 1"]).start();
    second.command();
    call(&["--no-wait", "--probe", "exit 1"]).answer().exits(120).prints("");
    let waiter = call(&[]).start();
    env.wait_for_waiters(1);
    gate.open();
    second.answer().exits(0).prints("done\n").is_a_first_run();
    waiter.answer().exits(0).prints("done\n").is_a_replay();
    assert_eq!(env.runs(), 2);
}

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

#[test]
fn a_probe_that_runs_the_call_it_is_asked_about_is_an_error_and_no_deadlock() {
    let env = TestEnv::new();
    let script = "exit 7";
    let inner = format!("{IDEM} run --who agent --conv c1 --tool pay --external -- sh -c '{script}'; echo $? >> inner");
    let probe = ["--probe-timeout", "10m", "--probe", &format!("{inner}; exit 2")];
    let call = || env.run("pay").external().args(probe).script(script);
    call().answer().exits(7);
    call().answer().exits(121);
    let inner = env.text_of("inner");
    assert!(inner.lines().count() == 2 && inner.lines().all(|code| code == "121" || code == "125"), "{inner}");
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn a_probe_that_reconciles_the_claim_it_is_asked_about_is_no_deadlock_either() {
    let env = TestEnv::new();
    let probe = format!("{IDEM} reconcile $IDEM_CLAIM --probe 'exit 2' > /dev/null; echo $? >> inner; exit 2");
    pay(&env, &["--probe-timeout", "10m", "--probe", &probe]).answer().exits(7);
    assert_eq!(env.text_of("inner"), "1\n");
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn a_probe_marks_nothing() {
    let env = TestEnv::new();
    let probe = format!("{IDEM} mark landed; echo $? >> marked; exit 2");
    pay(&env, &["--probe", &probe]).answer().exits(7);
    pay(&env, &[]).answer().exits(121);
    let marked = env.text_of("marked");
    assert!(marked.lines().count() == 2 && marked.lines().all(|code| code == "1" || code == "2"), "{marked}");
    assert!(env.event_details("1", "mark").is_empty());
}

#[test]
fn what_a_probe_leaves_behind_keeps_nobody_from_asking_again() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let daemon = "setsid sh -c 'echo $$ > daemon; read _ < gate' < /dev/null > /dev/null 2>&1 & \
                  until [ -s daemon ]; do :; done; echo probe >> probes; exit 2";
    pay(&env, &["--probe", daemon]).answer().exits(7);
    assert!(is_alive(env.pid_in("daemon")), "the daemon lives on");
    pay(&env, &["--no-wait", "--probe", daemon]).answer().exits(121);
    assert_eq!(env.lines_in("probes"), 2);
    pay(&env, &["--no-wait", "--probe", "echo found"]).answer().exits(0).prints("found\n").is_a_replay();
}

#[test]
fn a_signal_to_an_arrival_that_waits_for_an_answer_ends_that_one_alone() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    held(&env);
    let probe = at_the_gate(0);
    let first = pay(&env, &["--probe", &probe]).start();
    first.command();
    let waiter = pay(&env, &["--probe", &probe]).start();
    env.wait_for_waiters(1);
    waiter.signal(Signal::SIGTERM);
    let ended = waiter.answer();
    assert!(matches!(ended.code(), None | Some(143)), "the signal ended it\n{ended}");
    asked.open();
    first.answer().exits(0).prints("receipt\n").is_a_replay();
    assert_eq!((env.lines_in("probes"), env.runs()), (1, 1));
}
