//! `--resend-within`: where the target dedupes on the key for a while, an unknown outcome may be sent again for as long.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::env::{Call, Gate, Running, TestEnv, wait_for};

/// An external call that ends unclear on each attempt up to this one, and notes its key and attempt.
fn pay_until<'a>(env: &'a TestEnv, clear_from: u32, options: &[&str]) -> Call<'a> {
    let script = format!("echo $IDEM_KEY $IDEM_ATTEMPT >> sent; [ $IDEM_ATTEMPT -ge {clear_from} ] || exit 7; echo ok");
    env.run("pay").external().args(options.iter().copied()).counting(&script)
}

/// An external call whose second attempt succeeds.
fn pay<'a>(env: &'a TestEnv, options: &[&str]) -> Call<'a> {
    pay_until(env, 2, options)
}

const WITHIN: [&str; 2] = ["--resend-within", "1h"];

/// What an hour and more is, in the store's milliseconds.
const OVER_AN_HOUR: u64 = 3_700_000;

fn held(env: &TestEnv) {
    pay(env, &[]).answer().exits(7);
    assert_eq!(env.states(), ["held"]);
}

/// Fails unless an arrival that may resend within an hour is told that the claim is held.
#[track_caller]
fn is_over(env: &TestEnv) {
    pay(env, &WITHIN).answer().exits(121).prints("").says("not retried");
    assert_eq!(env.runs(), 1);
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn within_its_time_an_unknown_outcome_is_sent_again_with_the_same_key() {
    let env = TestEnv::new();
    pay(&env, &WITHIN).answer().exits(7);
    pay(&env, &WITHIN).answer().exits(0).prints("ok\n").is_a_first_run();
    let text = env.text_of("sent");
    let sent: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!((sent.len(), sent[0].0), (2, sent[1].0), "{text}");
    assert_eq!((sent[0].1, sent[1].1), ("1", "2"));
    let rows = env.rows("SELECT state, reason, outcome, attempt FROM claim ORDER BY id");
    assert_eq!(rows, ["released|resent|unknown|1", "completed|exit|landed|2"]);
    pay(&env, &WITHIN).answer().exits(0).prints("ok\n").is_a_replay();
    assert_eq!(env.runs(), 2);
}

#[test]
fn who_does_not_say_that_it_may_be_sent_again_is_held() {
    let env = TestEnv::new();
    pay(&env, &WITHIN).answer().exits(7);
    pay(&env, &[]).answer().exits(121).prints("");
    assert_eq!(env.runs(), 1);
}

#[test]
fn the_arrival_alone_may_say_it() {
    let env = TestEnv::new();
    held(&env);
    pay(&env, &WITHIN).answer().exits(0).prints("ok\n").is_a_first_run();
    assert_eq!(env.runs(), 2);
}

#[test]
fn the_shorter_of_the_two_times_counts() {
    for (stored, stated) in [("30m", "2h"), ("2h", "30m")] {
        let env = TestEnv::new();
        pay(&env, &["--resend-within", stored]).answer().exits(7);
        env.tamper("UPDATE claim SET created_at = created_at - 2400000, uptime = uptime - 2400000");
        pay(&env, &["--resend-within", stated]).answer().exits(121).prints("");
        pay(&env, &["--resend-within", "2h"]).answer().exits(if stored == "2h" { 0 } else { 121 });
    }
}

#[test]
fn after_its_time_it_is_held() {
    let env = TestEnv::new();
    held(&env);
    env.tamper(&format!("UPDATE claim SET created_at = created_at - {OVER_AN_HOUR}, uptime = uptime - {OVER_AN_HOUR}"));
    is_over(&env);
    pay(&env, &["--resend-within", "10h"]).answer().exits(0).is_a_first_run();
}

#[test]
fn one_clock_that_says_that_the_time_is_over_is_enough() {
    for clock in ["created_at", "uptime"] {
        let env = TestEnv::new();
        held(&env);
        env.tamper(&format!("UPDATE claim SET {clock} = {clock} - {OVER_AN_HOUR}"));
        is_over(&env);
    }
}

#[test]
fn a_clock_that_was_set_back_gives_no_more_time() {
    let env = TestEnv::new();
    held(&env);
    let set = format!("created_at = created_at + {OVER_AN_HOUR}, uptime = uptime - {OVER_AN_HOUR}");
    env.tamper(&format!("UPDATE claim SET {set}"));
    is_over(&env);
}

#[test]
fn a_first_start_that_is_still_to_come_on_another_boot_is_held() {
    let env = TestEnv::new();
    held(&env);
    env.tamper(&format!("UPDATE claim SET boot = 'another boot', created_at = created_at + {OVER_AN_HOUR}"));
    is_over(&env);
}

/// How long this machine has been up, in whole seconds.
fn up_for() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").expect("/proc/uptime");
    uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).expect("seconds")
}

#[test]
fn since_a_start_on_another_boot_this_boots_whole_time_has_passed_at_least() {
    let env = TestEnv::new();
    held(&env);
    // The clock says that hardly a moment has passed, and an uptime of the other boot says nothing here.
    env.tamper("UPDATE claim SET boot = 'another boot', uptime = uptime + 1000000000");
    let shorter = format!("{}s", (up_for() / 2).max(1));
    pay(&env, &["--resend-within", &shorter]).answer().exits(121).prints("");
    let longer = format!("{}s", up_for() + 3600);
    pay(&env, &["--resend-within", &longer]).answer().exits(0).is_a_first_run();
}

#[test]
fn the_first_start_of_all_attempts_counts_and_no_later_one() {
    let env = TestEnv::new();
    pay_until(&env, 9, &WITHIN).answer().exits(7);
    pay_until(&env, 9, &WITHIN).answer().exits(7).is_a_first_run();
    env.tamper(&format!("UPDATE claim SET created_at = created_at - {OVER_AN_HOUR} WHERE attempt = 1"));
    pay_until(&env, 9, &WITHIN).answer().exits(121).prints("");
    assert_eq!(env.states(), ["released", "held"]);
    assert_eq!(env.runs(), 2);
}

#[test]
fn an_attempt_that_was_sent_again_and_ends_unclear_is_held_as_any_other() {
    let env = TestEnv::new();
    pay_until(&env, 3, &[]).answer().exits(7);
    pay_until(&env, 3, &WITHIN).answer().exits(7).is_a_first_run();
    pay_until(&env, 3, &[]).answer().exits(121);
    pay_until(&env, 3, &WITHIN).answer().exits(0).prints("ok\n").is_a_first_run();
    let rows = env.rows("SELECT state, attempt FROM claim ORDER BY id");
    assert_eq!(rows, ["released|1", "released|2", "completed|3"]);
}

#[test]
fn the_target_is_asked_before_it_is_sent_again() {
    for (answer, prints, row) in [
        (0, "receipt\n", "completed|probe|landed"),
        (1, "ok\n", "released|probe|not-landed"),
        (2, "ok\n", "released|resent|unknown"),
    ] {
        let env = TestEnv::new();
        held(&env);
        let probe = format!("echo probe >> probes; echo receipt; exit {answer}");
        pay(&env, &WITHIN).args(["--probe", &probe]).answer().exits(0).prints(prints);
        assert_eq!(env.rows("SELECT state, reason, outcome FROM claim WHERE id = 1"), [row]);
        assert_eq!((env.runs(), env.lines_in("probes")), (if answer == 0 { 1 } else { 2 }, 1));
    }
}

#[test]
fn ten_arrivals_that_may_send_again_send_once() {
    let env = TestEnv::new();
    held(&env);
    let arrivals: Vec<Running> = (0..10).map(|_| pay(&env, &WITHIN).start()).collect();
    let answers = arrivals.into_iter().map(Running::answer);
    let sent = answers.filter(|answer| !answer.exits(0).prints("ok\n").is_marked_as_replay()).count();
    assert_eq!((sent, env.runs()), (1, 2));
}

#[test]
fn those_who_waited_for_an_attempt_that_ended_unclear_do_not_send_again() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("pay").external().args(WITHIN).counting("echo $$ > pid; read _ < gate; exit 7");
    let owner = call().start();
    owner.command();
    let waiters: Vec<Running> = (0..5).map(|_| call().start()).collect();
    env.wait_for_waiters(5);
    gate.open();
    owner.answer().exits(7);
    for waiter in waiters {
        waiter.answer().exits(121).prints("");
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn who_was_there_before_it_was_sent_again_does_not_send_it_once_more() {
    let env = TestEnv::new();
    let call = || pay_until(&env, 9, &WITHIN);
    call().answer().exits(7);
    // It has found the claim held, may send again, and stops before it does. (With -D the process itself stays idem.)
    let stopped = "inject=pipe2:signal=SIGSTOP:when=1";
    let late = call().under(["strace", "-D", "-qq", "-o", "trace", "-e", stopped]).start();
    wait_for("the late one stops", || env.text_of("trace").contains("SIGSTOP").then_some(()));
    call().answer().exits(7).is_a_first_run();
    late.signal(Signal::SIGCONT);
    late.answer().exits(121).prints("");
    assert_eq!(env.runs(), 2, "fifty waiters never turn into fifty runs");
}

#[test]
fn ten_arrivals_that_may_send_again_what_ends_unclear_again_send_once() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = "[ $IDEM_ATTEMPT = 1 ] || { echo $$ > pid; read _ < gate; }; exit 7";
    let call = || env.run("pay").external().args(WITHIN).counting(script);
    call().answer().exits(7);
    let first = call().start();
    first.command();
    let waiters: Vec<Running> = (0..9).map(|_| call().start()).collect();
    env.wait_for_waiters(9);
    gate.open();
    first.answer().exits(7);
    for waiter in waiters {
        waiter.answer().exits(121).prints("");
    }
    assert_eq!(env.runs(), 2);
}

#[test]
fn what_a_dead_owner_left_may_be_sent_again_too() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let script = "[ $IDEM_ATTEMPT = 1 ] || { echo ok; exit 0; }; echo $$ > pid; read _ < gate";
    let call = |options: &[&str]| env.run("pay").external().args(options.iter().copied()).counting(script);
    call(&WITHIN).start().kill_9_with_command();
    call(&[]).answer().exits(121).says("interrupted");
    call(&WITHIN).answer().exits(0).prints("ok\n").is_a_first_run();
    assert_eq!(env.runs(), 2);
    assert_eq!(env.states(), ["released", "completed"]);
}

#[test]
fn who_finds_the_dead_owner_may_send_again_at_once() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let script = "[ $IDEM_ATTEMPT = 1 ] || { echo ok; exit 0; }; echo $$ > pid; read _ < gate";
    let call = || env.run("pay").external().args(WITHIN).counting(script);
    call().start().kill_9_with_command();
    call().answer().exits(0).prints("ok\n").is_a_first_run();
    assert_eq!(env.rows("SELECT state, reason FROM claim WHERE id = 1"), ["released|resent"]);
}

#[test]
fn what_may_still_be_running_is_never_sent_again() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("pay").external().counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    owner.command();
    call().args(WITHIN).args(["--no-wait"]).answer().exits(120);
    std::fs::remove_file(env.beside_store("-lock")).expect("a lock file that somebody tidies away");
    for _ in 0..2 {
        call().args(WITHIN).answer().exits(121).prints("");
    }
    assert_eq!(env.runs(), 1);
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["held|owner-lost"]);
    gate.open();
    owner.answer().exits(0).prints("done\n");
    call().args(WITHIN).answer().exits(0).prints("done\n").is_a_replay();
}

#[test]
fn wherever_a_resending_idem_is_killed_nobody_else_sends() {
    let env = TestEnv::new();
    for n in 0..40 {
        let tool = format!("t{n}");
        let call = || {
            let call = env.run(&tool).external();
            call.script("echo $IDEM_TOOL >> sent; [ $IDEM_ATTEMPT = 2 ] || exit 7; echo ok")
        };
        call().answer().exits(7);
        let resending = call().args(WITHIN).start();
        // No moment is the right one: the point is to hit as many different ones as a run has.
        thread::sleep(Duration::from_micros(n * 300));
        if n % 2 == 0 {
            resending.signal_group(Signal::SIGKILL);
        } else {
            resending.signal(Signal::SIGKILL);
        }
        let other = call().answer();
        let sent = env.text_of("sent").lines().filter(|line| **line == *tool).count();
        match other.code() {
            Some(0) => assert_eq!((sent, other.is_marked_as_replay()), (2, true), "killed after {n} steps\n{other}"),
            Some(121) => assert!(sent <= 2, "killed after {n} steps\n{other}"),
            _ => panic!("killed after {n} steps\n{other}"),
        }
    }
}

#[test]
fn sending_again_is_told_by_the_history() {
    let env = TestEnv::new();
    held(&env);
    pay(&env, &WITHIN).answer().exits(0);
    let shown = env.shown("2");
    let events = shown["events"].as_array().expect("events");
    let released = events.iter().find(|event| event["kind"] == "became-released");
    let released = released.unwrap_or_else(|| panic!("no such event in {shown}"));
    assert!(released.to_string().contains("resent"), "{released}");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(2), "{shown}");
}
