//! From held to known: a person says what happened, or frees the key.

use crate::env::{Answer, Call, Gate, KILL_IDEM, TestEnv, become_free, is_alive};

/// A call whose command kills idem, until it is calm.
fn call(env: &TestEnv) -> Call<'_> {
    env.run("t").counting(&format!("[ -e calm ] || {{ {KILL_IDEM}; echo $$ > pid; }}"))
}

/// A claim whose idem was killed, and whose command has ended; nobody has noticed yet.
fn interrupted(env: &TestEnv) {
    let killed = call(env).answer();
    assert_eq!(killed.code(), None, "idem was killed\n{killed}");
    become_free(env.pid_in("pid"));
}

/// The same call, which is calm from now on.
fn again(env: &TestEnv) -> Answer {
    env.write("calm", "");
    call(env).answer()
}

#[test]
fn not_landed_lets_the_next_arrival_run() {
    let env = TestEnv::new();
    interrupted(&env);
    again(&env).exits(121);
    env.idem(["resolve", "1", "not-landed", "--note", "looked it up"]).answer().exits(0);
    assert_eq!(env.rows("SELECT state, outcome FROM claim"), ["released|not-landed"]);
    again(&env).exits(0).is_a_first_run();
    assert_eq!(env.runs(), 2);
    assert!(env.shown("1").to_string().contains("looked it up"), "the note is in the history");
}

#[test]
fn landed_lets_the_next_arrival_replay() {
    let env = TestEnv::new();
    env.run("pay").external().counting("echo sent; exit 7").answer().exits(7);
    env.idem(["resolve", "1", "landed"]).answer().exits(0);
    assert_eq!(env.rows("SELECT state, outcome FROM claim"), ["completed|landed"]);
    let replay = env.run("pay").external().counting("echo sent; exit 7").answer();
    replay.exits(0).prints("sent\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn landed_can_say_what_it_looked_like() {
    let env = TestEnv::new();
    env.run("pay").external().counting("echo half; exit 7").answer().exits(7);
    env.write("receipt", "whole\n");
    env.idem(["resolve", "1", "landed", "--exit", "3", "--stdout", "receipt"]).answer().exits(0);
    env.run("pay").external().counting("echo half; exit 7").answer().exits(3).prints("whole\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn clear_lets_the_next_arrival_run_and_keeps_the_history() {
    let env = TestEnv::new();
    interrupted(&env);
    again(&env).exits(121);
    env.idem(["clear", "1"]).answer().exits(0);
    again(&env).exits(0).is_a_first_run();
    assert_eq!(env.states(), ["cleared", "completed"]);
    assert_eq!(env.rows("SELECT attempt FROM claim ORDER BY id"), ["1", "2"], "attempts go on counting after a clear");
}

#[test]
fn a_dead_owner_needs_no_arrival_to_be_resolved_or_cleared() {
    for (verb, state) in [(&["resolve", "1", "not-landed"][..], "released"), (&["clear", "1"][..], "cleared")] {
        let env = TestEnv::new();
        interrupted(&env);
        assert_eq!(env.states(), ["running"], "nobody has noticed yet");
        env.idem(verb.iter().copied()).answer().exits(0);
        assert_eq!(env.states(), [state]);
        again(&env).exits(0).is_a_first_run();
        assert_eq!(env.runs(), 2);
    }
}

#[test]
fn a_living_owner_is_neither_resolved_nor_cleared() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").script("echo $$ > pid; read _ < gate; echo done").start();
    env.pid_in("pid");
    for verb in [&["clear", "1"][..], &["resolve", "1", "landed"][..], &["resolve", "1", "not-landed"][..]] {
        env.idem(verb.iter().copied()).answer().exits(1).says("idem: ").says("running");
        assert_eq!(env.states(), ["running"], "nothing has changed");
    }
    gate.open();
    owner.answer().exits(0).prints("done\n");
    assert_eq!(env.states(), ["completed"]);
}

#[test]
fn a_key_that_is_freed_by_force_is_free_at_once_and_the_old_owners_end_is_history() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("[ -e calm ] || { echo $$ > pid; read _ < gate; }; echo $IDEM_ATTEMPT");
    let owner = call().start();
    let command = owner.command();
    env.idem(["clear", "1", "--force"]).answer().exits(0);
    assert!(is_alive(command), "clearing kills nobody");
    env.write("calm", "");
    call().answer().exits(0).prints("2\n").is_a_first_run();
    gate.open();
    owner.answer().exits(0).prints("1\n");
    assert_eq!(env.states(), ["cleared", "completed"]);
    let shown = env.shown("1");
    let last = shown["events"].as_array().and_then(|events| events.last()).expect("an event");
    let known = (&last["detail"]["outcome"], &last["detail"]["exit_code"]);
    assert_eq!(known, (&"landed".into(), &0.into()), "what the old owner recorded later is history: {shown}");
    call().answer().exits(0).prints("2\n").is_a_replay();
    assert_eq!(env.runs(), 2);
}

#[test]
fn waiters_of_an_owner_whose_key_was_freed_by_force_run_the_command_only_once() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("[ -e calm ] || { echo $$ > pid; read _ < gate; }; echo $IDEM_ATTEMPT");
    let owner = call().start();
    owner.command();
    let waiters: Vec<_> = (0..3).map(|_| call().start()).collect();
    env.wait_for_waiters(3);
    env.idem(["clear", "1", "--force"]).answer().exits(0);
    env.write("calm", "");
    call().answer().exits(0).prints("2\n");
    gate.open();
    owner.answer().exits(0);
    for waiter in waiters {
        waiter.answer().exits(0).is_a_replay();
    }
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_known_outcome_is_not_resolved_a_second_time_unasked() {
    let env = TestEnv::new();
    env.run("t").script("echo done").answer().exits(0);
    env.idem(["resolve", "1", "not-landed"]).answer().exits(1).says("idem: ");
    assert_eq!(env.states(), ["completed"]);
    env.run("t").script("echo done").answer().exits(0).is_a_replay();
}

#[test]
fn resolving_and_clearing_are_events_with_an_actor() {
    let env = TestEnv::new();
    env.run("pay").external().script("exit 1").answer().exits(1);
    env.idem(["resolve", "1", "landed", "--note", "seen on the account"]).answer().exits(0);
    env.idem(["clear", "1", "--note", "once more"]).answer().exits(0);
    let shown = env.shown("1");
    let events = shown["events"].as_array().expect("events");
    for note in ["seen on the account", "once more"] {
        let event = events.iter().find(|event| event["detail"].to_string().contains(note));
        let event = event.unwrap_or_else(|| panic!("no event has the note {note:?} in {shown}"));
        assert!(event["actor"].as_str().is_some_and(|actor| !actor.is_empty()), "who did it: {event}");
    }
}

#[test]
fn who_waited_for_an_attempt_gets_its_end_though_its_key_was_freed_meanwhile() {
    for (decision, external) in
        [(["clear", "1", "--force"].as_slice(), true), (&["resolve", "1", "not-landed", "--force"], false)]
    {
        let env = TestEnv::new();
        let gate = Gate::new(&env, "gate");
        let call = || {
            let call = env.run("t").counting("echo $$ > pid; read _ < gate; echo done");
            if external { call.external() } else { call }
        };
        let owner = call().start();
        owner.command();
        let waiters: Vec<_> = (0..3).map(|_| call().start()).collect();
        env.wait_for_waiters(3);
        env.idem(decision).answer().exits(0);
        gate.open();
        owner.answer().exits(0).prints("done\n");
        for waiter in waiters {
            waiter.answer().exits(0).prints("done\n").is_a_replay();
        }
        assert_eq!(env.runs(), 1, "nobody else arrived after {decision:?}");
    }
}
