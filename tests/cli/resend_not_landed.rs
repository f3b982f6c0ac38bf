//! A resend that is known not to have landed says nothing of the attempt in whose place it came: the call is held again, and
//! nobody who stated nothing sends what may have landed (design G3).

use crate::env::{Answer, Call, Gate, Running, TestEnv, set_mode};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

const WITHIN: [&str; 2] = ["--resend-within", "1h"];

/// An external call; its first attempt ends unclear, each later one as this says.
fn pay<'a>(env: &'a TestEnv, options: &[&str], later: &str) -> Call<'a> {
    let script = format!("[ $IDEM_ATTEMPT = 1 ] && exit 7; {later}");
    env.run("pay").external().args(options.iter().copied()).counting(&script)
}

/// Sends once with an unclear end, then again with these options and this end of it.
fn sent_again(env: &TestEnv, options: &[&str], later: &str) -> Answer {
    pay(env, &WITHIN, later).args(options.iter().copied()).answer().exits(7);
    pay(env, &WITHIN, later).args(options.iter().copied()).answer()
}

/// Fails unless the call is held for the attempt before the newest one, and a plain arrival runs nothing.
#[track_caller]
fn is_held_for_the_earlier_one(env: &TestEnv, later: &str, runs: usize) {
    let newest = env.rows("SELECT state, reason, outcome FROM claim ORDER BY id DESC LIMIT 1");
    assert_eq!(newest, ["held|resent|unknown"]);
    let held = pay(env, &["--json"], later).answer();
    held.exits(121);
    let envelope = held.envelope();
    let message = envelope["message"].as_str().expect("a message").to_owned();
    for words in
        ["sent again in place of an attempt", "may have reached the target", "not retried", "the target decides"]
    {
        assert!(message.contains(words), "{message}");
    }
    let hint = envelope["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains("idem resolve 2 landed") && hint.contains("idem resolve 2 not-landed"), "{hint}");
    assert_eq!((&envelope["reason"], &envelope["outcome"]), (&"resent".into(), &"unknown".into()));
    assert_eq!(env.runs(), runs);
}

#[test]
fn one_that_is_refused_before_it_lands() {
    let env = TestEnv::new();
    let again = sent_again(&env, &["--not-landed-exit", "6"], "exit 6");
    again
        .exits(6)
        .says("did not land")
        .says("an attempt whose outcome is unknown")
        .says("Claim 2 is held and was not retried");
    is_held_for_the_earlier_one(&env, "exit 6", 2);
}

#[test]
fn one_that_dies_before_it_marks_that_it_sends() {
    let env = TestEnv::new();
    sent_again(&env, &["--marks"], "exit 1").exits(1);
    // The first one had said nothing either, and was released: it takes one that had.
    assert_eq!(env.states(), ["released", "released"]);
    let env = TestEnv::new();
    let call = |options: &[&str]| {
        let script = format!("[ $IDEM_ATTEMPT = 1 ] && {IDEM} mark sending; exit 1");
        env.run("pay").external().args(["--marks"]).args(options.iter().copied()).counting(&script)
    };
    call(&WITHIN).answer().exits(1).says("its outcome is unknown");
    call(&WITHIN).answer().exits(1).says("Claim 2 is held and was not retried");
    call(&[]).answer().exits(121);
    assert_eq!((env.runs(), env.states()), (2, vec!["released".to_owned(), "held".to_owned()]));
}

#[test]
fn one_that_cannot_be_started() {
    let env = TestEnv::new();
    let script = env.write("pay.sh", "#!/bin/sh\necho x >> sent\nexit 7\n");
    let executable = |yes| set_mode(&script, if yes { 0o755 } else { 0o644 });
    let call = |options: &[&str]| env.run("pay").external().args(options.iter().copied()).command(["./pay.sh"]);
    executable(true);
    call(&WITHIN).answer().exits(7);
    executable(false);
    let again = call(&WITHIN).answer();
    again.exits(126).says("nothing was run now").says("Claim 2 is held").does_not_say("is released");
    executable(true);
    call(&[]).answer().exits(121).says("sent again in place of an attempt whose outcome is unknown");
    assert_eq!(env.lines_in("sent"), 1);
    // Whoever states it may send once more, and the number is that of a second spawn.
    call(&WITHIN).answer().exits(7).is_a_first_run();
    let rows = env.rows("SELECT state, reason, attempt FROM claim ORDER BY id");
    assert_eq!(rows, ["released|resent|1", "released|resent|2", "held|exit|2"]);
    assert_eq!(env.lines_in("sent"), 2);
}

/// A call that marks: its first attempt ends unclear, each later one waits before it has said anything.
fn silent_later<'a>(env: &'a TestEnv, options: &[&str]) -> Call<'a> {
    let script = format!("[ $IDEM_ATTEMPT = 1 ] && {{ {IDEM} mark sending; exit 7; }}; echo $$ > pid; read _ < gate");
    env.run("pay").external().args(["--marks"]).args(options.iter().copied()).counting(&script)
}

/// It is sent, ends unclear, is sent again, and idem and its command are killed before the command marks that it sends.
fn killed_before_it_marks(env: &TestEnv) {
    let _gate = Gate::new(env, "gate");
    silent_later(env, &WITHIN).answer().exits(7);
    silent_later(env, &WITHIN).start().kill_9_with_command();
}

#[test]
fn one_whose_idem_died_before_its_command_marked_that_it_sends() {
    let env = TestEnv::new();
    killed_before_it_marks(&env);
    silent_later(&env, &[]).answer().exits(121).says("interrupted");
    assert_eq!(env.rows("SELECT state, reason FROM claim WHERE id = 2"), ["held|interrupted"]);
    env.idem(["reconcile", "--all"]).answer();
    assert_eq!((env.runs(), env.rows("SELECT state FROM claim WHERE id = 2")), (2, vec!["held".to_owned()]));
}

#[test]
fn the_same_where_reconcile_finds_the_dead_owner() {
    let env = TestEnv::new();
    killed_before_it_marks(&env);
    env.idem(["reconcile", "--all"]).answer();
    assert_eq!(env.rows("SELECT state, reason FROM claim WHERE id = 2"), ["held|interrupted"]);
    silent_later(&env, &[]).answer().exits(121);
    assert_eq!(env.runs(), 2);
}

#[test]
fn the_target_is_asked_and_its_word_is_for_all_attempts() {
    for (answer, state, then) in [(0, "completed|probe", 0), (1, "released|probe", 6), (2, "held|resent", 121)] {
        let env = TestEnv::new();
        let later = "exit 6";
        pay(&env, &WITHIN, later).answer().exits(7);
        // Before it is sent again the target can't tell; at its end it can.
        let probe = format!("echo >> asked; [ $(wc -l < asked) = 1 ] && exit 2; exit {answer}");
        let again = pay(&env, &WITHIN, later).args(["--not-landed-exit", "6", "--probe", &probe]).answer();
        again.exits(if answer == 0 { 0 } else { 6 });
        assert_eq!(env.rows("SELECT state, reason FROM claim WHERE id = 2"), [state], "{again}");
        assert_eq!(env.lines_in("asked"), 2, "{again}");
        pay(&env, &["--not-landed-exit", "6"], later).answer().exits(then);
        assert_eq!(env.runs(), if answer == 1 { 3 } else { 2 });
    }
}

#[test]
fn a_persons_word_is_for_all_attempts_too() {
    let later = "[ $IDEM_ATTEMPT = 2 ] && exit 6; echo ok";
    for (word, state) in [(["resolve", "2", "not-landed"], "released"), (["clear", "2", "--yes"], "cleared")] {
        let env = TestEnv::new();
        sent_again(&env, &["--not-landed-exit", "6"], later).exits(6);
        env.idem(word).answer().exits(0);
        assert_eq!(env.rows("SELECT state FROM claim WHERE id = 2"), [state]);
        pay(&env, &["--not-landed-exit", "6"], later).answer().exits(0).prints("ok\n").is_a_first_run();
        assert_eq!(env.runs(), 3);
    }
    let env = TestEnv::new();
    sent_again(&env, &["--not-landed-exit", "6"], later).exits(6);
    env.idem(["resolve", "2", "landed"]).answer().exits(0);
    pay(&env, &[], later).answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 2);
}

#[test]
fn those_who_waited_for_it_get_121() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || pay(&env, &WITHIN, "echo $$ > pid; read _ < gate; exit 6").args(["--not-landed-exit", "6"]);
    call().answer().exits(7);
    let again = call().start();
    again.command();
    let waiters: Vec<Running> = (0..4).map(|_| call().start()).collect();
    env.wait_for_waiters(4);
    gate.open();
    again.answer().exits(6);
    for waiter in waiters {
        waiter.answer().exits(121).prints("");
    }
    assert_eq!(env.runs(), 2);
}

/// What a chain of them knows is what its first one left.
#[test]
fn a_chain_of_resends_stays_unknown_until_somebody_knows() {
    let env = TestEnv::new();
    let later = "exit 6";
    sent_again(&env, &["--not-landed-exit", "6"], later).exits(6);
    for _ in 0..3 {
        pay(&env, &WITHIN, later).args(["--not-landed-exit", "6"]).answer().exits(6).is_a_first_run();
    }
    pay(&env, &[], later).answer().exits(121);
    assert_eq!(env.states(), ["released", "released", "released", "released", "held"]);
    env.idem(["resolve", "5", "not-landed"]).answer().exits(0);
    // Nothing is unknown any more: the next one's own end frees the key.
    pay(&env, &[], later).args(["--not-landed-exit", "6"]).answer().exits(6);
    assert_eq!(env.states().last().map(String::as_str), Some("released"));
}

#[test]
fn one_that_is_held_for_a_step_is_held_for_the_earlier_one_then() {
    let env = TestEnv::new();
    let later = format!("{IDEM} run --tool step --external -- sh -c 'exit 9'; exit 6");
    sent_again(&env, &["--not-landed-exit", "6"], &later).exits(6);
    assert_eq!(env.rows("SELECT tool, state, reason FROM claim WHERE id > 1"), ["pay|held|steps", "step|held|exit"]);
    env.idem(["resolve", "3", "not-landed"]).answer().exits(0);
    // Its step is known now. That it has not landed itself says nothing of the attempt before it.
    pay(&env, &[], &later).answer().exits(121).says("may have reached the target");
    assert_eq!(env.rows("SELECT state, reason FROM claim WHERE id = 2"), ["held|resent"]);
    assert_eq!(env.runs(), 2);
}
