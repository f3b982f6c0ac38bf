//! `--ttl`: a completed claim lets its key go after a while, and stays as history.

use nix::sys::signal::Signal;

use crate::env::{Call, Gate, Running, TestEnv, wait_for};

/// A call that prints which attempt it is.
fn call<'a>(env: &'a TestEnv, options: &[&str]) -> Call<'a> {
    env.run("t").args(options.iter().copied()).counting("echo $IDEM_ATTEMPT")
}

const AN_HOUR: [&str; 2] = ["--ttl", "1h"];

/// So short that it has run out when the next arrival comes.
const AT_ONCE: [&str; 2] = ["--ttl", "1ms"];

/// What an hour and more is, in the store's milliseconds.
const OVER_AN_HOUR: u64 = 3_700_000;

/// Has these clocks of all claims say that it was more than an hour earlier.
fn age(env: &TestEnv, clocks: &[&str]) {
    for clock in clocks {
        env.tamper(&format!("UPDATE claim SET {clock} = {clock} - {OVER_AN_HOUR}"));
    }
}

#[test]
fn a_completed_claim_never_expires_unless_told_to() {
    let env = TestEnv::new();
    call(&env, &[]).answer().exits(0).prints("1\n");
    age(&env, &["created_at", "finished_at", "uptime"]);
    call(&env, &[]).answer().exits(0).prints("1\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn until_its_time_is_over_it_is_replayed_and_after_that_it_is_run_anew() {
    let env = TestEnv::new();
    for attempt in ["1\n", "2\n"] {
        call(&env, &AN_HOUR).answer().exits(0).prints(attempt).is_a_first_run();
        call(&env, &AN_HOUR).answer().exits(0).prints(attempt).is_a_replay();
        call(&env, &[]).answer().exits(0).prints(attempt).is_a_replay();
        age(&env, &["created_at", "finished_at", "uptime"]);
    }
    assert_eq!(env.runs(), 2);
    let rows = env.rows("SELECT state, reason, outcome, attempt FROM claim ORDER BY id");
    assert_eq!(rows, ["expired|expired|landed|1", "completed|exit|landed|2"]);
}

#[test]
fn the_time_is_the_claims_own_and_not_the_arrivals() {
    let env = TestEnv::new();
    call(&env, &[]).answer().exits(0);
    call(&env, &AT_ONCE).answer().exits(0).prints("1\n").is_a_replay();
    let own = || env.run("own").script("echo $IDEM_ATTEMPT");
    own().args(AT_ONCE).answer().exits(0).prints("1\n");
    own().answer().exits(0).prints("2\n").is_a_first_run();
    own().answer().exits(0).prints("2\n").is_a_replay();
}

#[test]
fn what_has_expired_is_history_that_is_kept() {
    let env = TestEnv::new();
    call(&env, &AT_ONCE).answer().exits(0);
    call(&env, &AT_ONCE).answer().exits(0).prints("2\n").is_a_first_run();
    let shown = env.shown("1");
    assert_eq!((&shown["state"], &shown["stdout"]), (&"expired".into(), &"1\n".into()), "{shown}");
    assert_eq!(env.event_details("1", "expired").len(), 1, "{shown}");
    env.idem(["list", "--json", "--state", "expired"]).answer().exits(0).envelope();
}

#[test]
fn who_waited_for_the_attempt_gets_its_result_however_short_its_time() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").args(AT_ONCE).counting("echo $$ > pid; read _ < gate; echo $IDEM_ATTEMPT");
    let owner = call().start();
    owner.command();
    let waiters: Vec<Running> = (0..5).map(|_| call().start()).collect();
    env.wait_for_waiters(5);
    gate.open();
    owner.answer().exits(0).prints("1\n");
    for waiter in waiters {
        waiter.answer().exits(0).prints("1\n").is_a_replay();
    }
    assert_eq!(env.runs(), 1);
    call().answer().exits(0).prints("2\n").is_a_first_run();
}

#[test]
fn who_was_there_before_an_attempt_gets_its_result_however_short_its_time() {
    let env = TestEnv::new();
    for attempt in ["1\n", "2\n"] {
        // It has looked and found nothing that holds the key, and stops before its claim.
        let stopped = "inject=pipe2:signal=SIGSTOP:when=1";
        let late = call(&env, &AT_ONCE).under(["strace", "-D", "-qq", "-o", "trace", "-e", stopped]).start();
        wait_for("the late one stops", || env.text_of("trace").contains("SIGSTOP").then_some(()));
        call(&env, &AT_ONCE).answer().exits(0).prints(attempt).is_a_first_run();
        late.signal(Signal::SIGCONT);
        late.answer().exits(0).prints(attempt).is_a_replay();
        env.write("trace", "");
    }
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_held_claim_never_expires() {
    let env = TestEnv::new();
    let call = || env.run("pay").external().args(AT_ONCE).counting("exit 7");
    call().answer().exits(7);
    age(&env, &["created_at", "finished_at", "uptime"]);
    call().answer().exits(121).prints("");
    assert_eq!((env.runs(), env.states()), (1, vec!["held".to_owned()]));
}

#[test]
fn a_running_claim_never_expires() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").args(AT_ONCE).counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    owner.command();
    age(&env, &["created_at", "uptime"]);
    call().args(["--no-wait"]).answer().exits(120).prints("");
    gate.open();
    owner.answer().exits(0).prints("done\n");
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_clock_that_jumps_ahead_expires_nothing() {
    let env = TestEnv::new();
    call(&env, &AN_HOUR).answer().exits(0);
    age(&env, &["created_at", "finished_at"]);
    call(&env, &AN_HOUR).answer().exits(0).prints("1\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn after_another_boot_the_clock_decides() {
    let env = TestEnv::new();
    call(&env, &AN_HOUR).answer().exits(0);
    env.tamper("UPDATE claim SET boot = 'another boot', uptime = uptime + 1000000000");
    call(&env, &AN_HOUR).answer().exits(0).prints("1\n").is_a_replay();
    age(&env, &["created_at", "finished_at"]);
    call(&env, &AN_HOUR).answer().exits(0).prints("2\n").is_a_first_run();
}

#[test]
fn twenty_arrivals_at_an_expired_claim_run_the_command_once() {
    let env = TestEnv::new();
    call(&env, &AN_HOUR).answer().exits(0);
    age(&env, &["created_at", "finished_at", "uptime"]);
    let arrivals: Vec<Running> = (0..20).map(|_| call(&env, &AN_HOUR).start()).collect();
    let answers = arrivals.into_iter().map(Running::answer);
    let ran = answers.filter(|answer| !answer.exits(0).prints("2\n").is_marked_as_replay()).count();
    assert_eq!((ran, env.runs()), (1, 2));
    assert_eq!(env.states(), ["expired", "completed"]);
}

#[test]
fn every_way_to_be_completed_expires() {
    let env = TestEnv::new();
    let ways: [(&[&str], &str, i32); 4] = [
        (&["--keep-failure"], "exit 3", 3),
        (&["--external", "--landed-exit", "6"], "exit 6", 6),
        (&["--external", "--probe", "true"], "exit 7", 0),
        (&["--external"], "$IDEM_UNDER_TEST mark landed; exit 7", 7),
    ];
    for (n, (options, script, code)) in ways.into_iter().enumerate() {
        let call = || env.run(&format!("t{n}")).args(options.iter().copied()).args(AT_ONCE).script(script);
        for _ in 0..2 {
            call().var("IDEM_UNDER_TEST", env!("CARGO_BIN_EXE_idem")).answer().exits(code).is_a_first_run();
        }
    }
    assert_eq!(env.rows("SELECT state, count(*) FROM claim GROUP BY 1 ORDER BY 1"), ["completed|4", "expired|4"]);
}

#[test]
fn a_failure_after_the_expiry_leaves_the_expired_result_behind() {
    let env = TestEnv::new();
    let call = || env.run("t").args(AT_ONCE).counting("echo $IDEM_ATTEMPT; [ $IDEM_ATTEMPT = 1 ]");
    call().answer().exits(0).prints("1\n");
    call().answer().exits(1).prints("2\n").is_a_first_run();
    call().answer().exits(1).prints("3\n").is_a_first_run();
    assert_eq!(env.states(), ["expired", "released", "released"], "what has expired is never replayed again");
}
