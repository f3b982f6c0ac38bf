//! What the end of a command means: landed, not landed, or nobody knows.

use nix::sys::signal::Signal;

use crate::env::{Gate, Running, TestEnv, set_mode, wait_for};

#[test]
fn a_local_failure_is_released_and_the_next_arrival_runs_again_as_attempt_2() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("echo attempt $IDEM_ATTEMPT; exit 3");
    call().answer().exits(3).prints("attempt 1\n").is_a_first_run();
    assert_eq!(env.states(), ["released"]);
    call().answer().exits(3).prints("attempt 2\n").is_a_first_run();
    assert_eq!(env.states(), ["released", "released"], "each attempt keeps its row");
    assert_eq!(
        env.rows("SELECT attempt, outcome, exit_code FROM claim ORDER BY id"),
        ["1|not-landed|3", "2|not-landed|3"]
    );
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_retry_that_succeeds_is_replayed_from_then_on() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("echo $IDEM_ATTEMPT; [ $IDEM_ATTEMPT = 2 ]");
    call().answer().exits(1).prints("1\n");
    call().answer().exits(0).prints("2\n").is_a_first_run();
    call().answer().exits(0).prints("2\n").is_a_replay();
    assert_eq!(env.runs(), 2);
}

#[test]
fn twenty_waiters_on_a_failing_attempt_all_get_that_failure_and_none_runs() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("echo $$ > pid; read _ < gate; echo no luck; exit 9");
    let owner = call().start();
    owner.command();
    let waiters: Vec<Running> = (0..20).map(|_| call().start()).collect();
    env.wait_for_waiters(20);
    gate.open();
    owner.answer().exits(9).prints("no luck\n").is_a_first_run();
    for waiter in waiters {
        waiter.answer().exits(9).prints("no luck\n").is_a_replay();
    }
    assert_eq!(env.runs(), 1, "fifty waiters never turn into fifty runs");
    call().answer().exits(9).is_a_first_run();
    assert_eq!(env.runs(), 2, "an arrival that comes after the release runs the command anew");
}

#[test]
fn an_external_failure_is_held_and_the_second_arrival_is_not_run() {
    let env = TestEnv::new();
    let call = || env.run("pay").external().counting("echo sent; exit 7");
    call().answer().exits(7).prints("sent\n").is_a_first_run();
    assert_eq!(env.rows("SELECT id, state, outcome, exit_code FROM claim"), ["1|held|unknown|7"]);
    for _ in 0..2 {
        call()
            .answer()
            .exits(121)
            .prints("")
            .says("idem: ")
            .says("may have reached the target")
            .says("not retried")
            .says("resolve 1 landed")
            .says("resolve 1 not-landed");
    }
    assert_eq!(env.runs(), 1);
    let kinds = env.event_kinds("1");
    assert_eq!(kinds.iter().filter(|kind| *kind == "held").count(), 2, "each held arrival is an event: {kinds:?}");
}

#[test]
fn the_failing_external_attempt_itself_says_that_it_is_held() {
    let env = TestEnv::new();
    env.run("pay").external().script("exit 7").answer().exits(7).says("idem: ").says("held");
}

#[test]
fn twenty_waiters_on_an_external_attempt_that_ends_unclear_are_answered_with_121() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("pay").external().counting("echo $$ > pid; read _ < gate; exit 7");
    let owner = call().start();
    owner.command();
    let waiters: Vec<Running> = (0..20).map(|_| call().start()).collect();
    env.wait_for_waiters(20);
    gate.open();
    owner.answer().exits(7);
    for waiter in waiters {
        waiter.answer().exits(121).says("not retried");
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn exit_0_has_landed_whatever_the_effect() {
    let env = TestEnv::new();
    env.run("local").script("true").answer().exits(0);
    env.run("external").external().script("true").answer().exits(0);
    let rows = env.rows("SELECT effect, state, outcome FROM claim ORDER BY id");
    assert_eq!(rows, ["local|completed|landed", "external|completed|landed"]);
}

#[test]
fn an_exit_that_the_caller_calls_landed_completes_and_is_replayed_as_it_was() {
    let env = TestEnv::new();
    for effect in [&[][..], &["--external"][..]] {
        let tool = format!("publish{}", effect.len());
        let call = || env.run(&tool).args(effect).args(["--landed-exit", "6,10-19"]).counting("echo there; exit 12");
        call().answer().exits(12).prints("there\n").is_a_first_run();
        call().answer().exits(12).prints("there\n").is_a_replay();
    }
    assert_eq!(env.runs(), 2);
    assert_eq!(env.rows("SELECT DISTINCT state, outcome, exit_code FROM claim"), ["completed|landed|12"]);
}

#[test]
fn an_exit_that_the_caller_calls_not_landed_releases_an_external_claim() {
    let env = TestEnv::new();
    let call = || env.run("pay").external().args(["--not-landed-exit", "7,20-29"]).counting("exit 25");
    call().answer().exits(25).is_a_first_run();
    call().answer().exits(25).is_a_first_run();
    assert_eq!(env.runs(), 2);
    assert_eq!(env.states(), ["released", "released"]);
}

#[test]
fn a_code_outside_the_given_ones_keeps_its_usual_meaning() {
    let env = TestEnv::new();
    let codes = ["--landed-exit", "10-19", "--not-landed-exit", "20-29"];
    env.run("pay").external().args(codes).script("exit 30").answer().exits(30);
    env.run("cut").external().args(codes).script("exit 9").answer().exits(9);
    assert_eq!(env.states(), ["held", "held"]);
}

#[test]
fn keep_failure_completes_a_local_failure_and_replays_it() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--keep-failure"]).counting("echo why >&2; exit 4");
    call().answer().exits(4).says_exactly("why\n").is_a_first_run();
    call().answer().exits(4).says("why").is_a_replay();
    assert_eq!(env.runs(), 1);
    assert_eq!(env.states(), ["completed"]);
}

#[test]
fn keep_failure_can_not_make_a_known_end_of_an_unclear_external_one() {
    let env = TestEnv::new();
    env.run("pay").external().args(["--keep-failure"]).counting("exit 4").answer().refuses().says("--keep-failure");
    assert_eq!(env.runs(), 0);
}

#[test]
fn a_command_that_a_signal_killed_is_never_a_success() {
    let env = TestEnv::new();
    let local = || env.run("t").counting("echo half; kill -KILL $$");
    local().answer().exits(137).prints("half\n");
    local().answer().exits(137).is_a_first_run();
    let external = || env.run("pay").external().counting("kill -TERM $$");
    external().answer().exits(143);
    external().answer().exits(121);
    assert_eq!(env.runs(), 3);
    let rows = env.rows("SELECT state, signal IS NULL FROM claim ORDER BY id");
    assert_eq!(rows, ["released|0", "released|0", "held|0"]);
}

#[test]
fn a_kept_death_by_a_signal_is_replayed_as_128_plus_the_signal() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--keep-failure"]).counting("kill -KILL $$");
    call().answer().exits(137).is_a_first_run();
    call().answer().exits(137).is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_caller_that_cuts_idem_off_reaches_the_command_and_the_end_is_recorded() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = "trap 'echo cut off; exit 5' TERM; echo $$ > pid; read _ < gate; exit 0";
    let call = || env.run("push").external().counting(script);
    let owner = call().start();
    owner.command();
    owner.signal(Signal::SIGTERM);
    owner.answer().exits(5).prints("cut off\n");
    assert_eq!(env.rows("SELECT state, outcome, exit_code FROM claim"), ["held|unknown|5"]);
    call().answer().exits(121);
    gate.open();
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_key_press_that_interrupts_the_whole_group_is_recorded_too() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("push").external().counting("echo $$ > pid; read _ < gate");
    let owner = call().start();
    owner.command();
    owner.signal_group(Signal::SIGINT);
    owner.answer().exits(130);
    assert_eq!(env.rows("SELECT state, outcome, signal FROM claim"), ["held|unknown|2"]);
    call().answer().exits(121);
    assert_eq!(env.runs(), 1);
}

fn a_command_that_can_not_start_is_released(env: &TestEnv, program: &str, code: i32) {
    for (tool, effect) in [("local", &[][..]), ("external", &["--external"][..])] {
        let call = || env.run(tool).args(effect).command([program]);
        call().answer().exits(code).prints("").says("idem: ").says(program);
        call().answer().exits(code).is_a_first_run();
        // It never ran: the key is free for another command, and no attempt number is used up.
        env.run(tool).args(effect).script("echo $IDEM_ATTEMPT").answer().exits(0).prints("1\n").is_a_first_run();
    }
    let rows = env.rows("SELECT state, count(*) FROM claim GROUP BY state ORDER BY state");
    assert_eq!(rows, ["completed|2", "released|4"]);
}

#[test]
fn a_command_that_is_not_there_is_127_and_its_claim_is_released() {
    a_command_that_can_not_start_is_released(&TestEnv::new(), "no-such-command-anywhere", 127);
}

#[test]
fn a_command_that_is_not_executable_is_126_and_its_claim_is_released() {
    let env = TestEnv::new();
    let plain = env.write("plain-file", "not a program\n");
    set_mode(&plain, 0o644);
    a_command_that_can_not_start_is_released(&env, "./plain-file", 126);
}

#[test]
fn a_folder_as_the_command_is_126_and_a_missing_path_127() {
    let env = TestEnv::new();
    env.run("folder").command(["/"]).answer().exits(126);
    env.run("path").command(["./not/there"]).answer().exits(127);
    assert_eq!(env.states(), ["released", "released"]);
}

#[test]
fn a_command_that_itself_exits_127_did_run() {
    let env = TestEnv::new();
    let call = || env.run("pay").external().counting("exit 127");
    call().answer().exits(127);
    call().answer().exits(121);
    assert_eq!(env.runs(), 1);
}

#[test]
fn arrivals_that_were_there_before_a_failure_get_that_failure() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("echo no luck; exit 3");
    // It has looked and found nobody, and stops before its claim. (With -D the process itself stays idem.)
    let stopped = "inject=pipe2:signal=SIGSTOP:when=1";
    let late = call().under(["strace", "-D", "-qq", "-o", "trace", "-e", stopped]).start();
    wait_for("the late one stops", || {
        let told = std::fs::read_to_string(env.file("trace")).unwrap_or_default();
        told.contains("SIGSTOP").then_some(())
    });
    call().answer().exits(3).prints("no luck\n").is_a_first_run();
    late.signal(Signal::SIGCONT);
    late.answer().exits(3).prints("no luck\n").is_a_replay();
    assert_eq!(env.runs(), 1);
    call().answer().exits(3).is_a_first_run();
    assert_eq!(env.runs(), 2, "who arrives after the release runs");
}

#[test]
fn a_failure_is_that_of_those_too_who_were_about_to_look_whether_its_owner_lives() {
    for options in [&[][..], &["--rerun-if-interrupted"]] {
        let env = TestEnv::new();
        let gate = Gate::new(&env, "gate");
        let call = || {
            env.run("t").args(options.iter().copied()).counting("echo $$ > pid; read _ < gate; echo no luck; exit 3")
        };
        let owner = call().start();
        owner.command();
        // It has read the claim, which runs, and stops before it looks at the lock.
        let lock = env.beside_store("-lock");
        let stopped = "inject=openat:signal=SIGSTOP:when=1";
        let strace = ["strace", "-D", "-qq", "-o", "trace", "-P", lock.to_str().expect("text"), "-e", stopped];
        let late = call().under(strace).start();
        wait_for("the late one stops", || env.text_of("trace").contains("SIGSTOP").then_some(()));
        gate.open();
        owner.answer().exits(3).is_a_first_run();
        late.signal(Signal::SIGCONT);
        late.answer().exits(3).prints("no luck\n").is_a_replay();
        assert_eq!(env.runs(), 1, "{options:?}");
    }
}
