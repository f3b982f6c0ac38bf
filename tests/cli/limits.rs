//! Time limits: everything that the command started is ended, and the end is recorded as what it is.

use crate::env::{Gate, Running, TestEnv, is_alive, wait_for};

#[test]
fn a_command_that_takes_too_long_is_ended_with_124_and_released() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("t").args(["--timeout", "1s"]).counting("echo so far; read _ < gate");
    call().answer().exits(124).prints("so far\n").says("time limit").is_a_first_run();
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["released|timeout|not-landed"]);
    call().args(["--json"]).answer().exits(124).is_a_first_run();
    assert_eq!(env.runs(), 2, "the next arrival runs it again");
}

#[test]
fn an_external_command_that_takes_too_long_is_held() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("pay").external().args(["--timeout", "1s"]).counting("echo sending; read _ < gate");
    call().answer().exits(124).prints("sending\n").says("may have reached the target").says("resolve 1 landed");
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["held|timeout|unknown"]);
    call().answer().exits(121).prints("").says("time limit");
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_time_limit_has_its_envelope() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = env.run("t").args(["--timeout", "1s", "--json"]).script("echo so far; read _ < gate").answer();
    let envelope = call.exits(124).envelope();
    for (name, value) in
        [("state", "released"), ("reason", "timeout"), ("outcome", "not-landed"), ("stdout", "so far\n")]
    {
        assert_eq!(envelope[name], value, "{name} in {envelope}");
    }
    assert_eq!(envelope["exit_code"], 124, "{envelope}");
    assert_eq!(env.shown("1")["reason"], "timeout");
}

#[test]
fn a_kept_time_limit_is_replayed_as_124() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call =
        || env.run("t").args(["--timeout", "1s", "--keep-failure"]).counting("echo so far; read _ < gate").answer();
    call().exits(124).prints("so far\n").is_a_first_run();
    call().exits(124).prints("so far\n").is_a_replay().says("time limit");
    assert_eq!(env.runs(), 1);
}

#[test]
fn those_who_wait_for_an_attempt_get_its_time_limit_too() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    for (effect, code) in [(&[][..], 124), (&["--external"][..], 121)] {
        let _ = std::fs::remove_file(env.file("pid"));
        let tool = format!("t{code}");
        let call = || {
            let call = env.run(&tool).args(effect.iter().copied()).args(["--timeout", "3s"]);
            call.script("echo $$ > pid; echo run >> runs; read _ < gate")
        };
        let owner = call().start();
        owner.command();
        let waiters: Vec<Running> = (0..3).map(|_| call().start()).collect();
        env.wait_for_waiters(3);
        owner.answer().exits(124).is_a_first_run();
        for waiter in waiters {
            let answer = waiter.answer();
            assert_eq!(answer.exits(code).is_marked_as_replay(), code == 124, "{answer}");
        }
    }
    assert_eq!(env.runs(), 2);
}

/// A script that writes its process id to a file of this name, and goes on as long as that is there.
fn for_ever(name: &str) -> String {
    format!("echo $$ > {name}; while [ -e {name} ]; do sleep 0.05; done")
}

#[test]
fn three_generations_are_ended_together_with_one_that_does_not_listen() {
    let env = TestEnv::new();
    env.write("second.sh", "sh third.sh & echo $$ > second; wait; sleep 1000");
    env.write("third.sh", format!("trap 'echo told > told-third' TERM; {}", for_ever("third")));
    env.write("session.sh", for_ever("session"));
    env.write("orphan.sh", format!("trap 'echo told > told; exit' TERM; {}", for_ever("orphan")));
    let first = "sh second.sh & (sh orphan.sh &) & setsid sh session.sh & echo $$ > first; wait; sleep 1000";
    let limits = ["--timeout", "3s", "--kill-after", "500ms"];
    let answer = env.run("t").args(limits).script(first).answer();
    answer.exits(124).does_not_say("left behind");
    for name in ["first", "second", "third", "session", "orphan"] {
        let pid: i32 = env.text_of(name).trim().parse().expect("all of them had started");
        assert!(!is_alive(pid), "{name} still lives\n{answer}");
    }
    for told in ["told", "told-third"] {
        assert!(env.has(told), "each was asked first, so that it could clean up: no {told}");
    }
}

#[test]
fn a_step_that_is_ended_with_the_call_around_it_still_records_its_end() {
    let env = TestEnv::new();
    env.write("step.sh", for_ever("step"));
    let step = format!("{} run --who agent --conv c1 --tool step -- sh step.sh; exit 7", env!("CARGO_BIN_EXE_idem"));
    env.run("t").args(["--timeout", "3s", "--kill-after", "60s"]).script(&step).answer().exits(124);
    assert!(!is_alive(env.pid_in("step")));
    let rows = env.rows("SELECT tool, state, reason = 'timeout', signal FROM claim ORDER BY id");
    assert_eq!(rows, ["t|released|1|15", "step|released|0|15"]);
}

#[test]
fn a_command_that_cleans_up_in_time_is_not_killed_and_yet_timed_out() {
    let env = TestEnv::new();
    let script = format!("trap 'echo cleaned up; exit 0' TERM; {}", for_ever("pid"));
    let answer = env.run("t").args(["--timeout", "1s", "--kill-after", "60s"]).script(&script).answer();
    answer.exits(124).prints("cleaned up\n");
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["released|timeout"], "it is no success");
}

#[test]
fn a_command_that_does_not_listen_is_killed_after_a_while() {
    let env = TestEnv::new();
    let script = format!("trap '' TERM; {}", for_ever("pid"));
    let limits = ["--timeout", "1s", "--kill-after", "100ms"];
    env.run("t").args(limits).script(&script).answer().exits(124);
    assert!(!is_alive(env.pid_in("pid")));
}

#[test]
fn a_stopped_command_is_ended_by_its_time_limit_too() {
    let env = TestEnv::new();
    let limits = ["--timeout", "1s", "--kill-after", "60s"];
    env.run("t").args(limits).script("kill -STOP $$; sleep 1000").answer().exits(124);
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["released|timeout"]);
}

#[test]
fn a_command_that_ends_in_time_is_as_it_would_be_without_a_limit() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let daemon = "setsid sh -c 'echo $$ > daemon; read _ < gate' < /dev/null > /dev/null 2>&1 & \
                  until [ -s daemon ]; do :; done";
    let call = || env.run("t").args(["--timeout", "60s"]).counting(&format!("{daemon}; echo up"));
    call().answer().exits(0).prints("up\n").says_exactly("");
    assert!(is_alive(env.pid_in("daemon")), "what it left behind lives on");
    call().answer().exits(0).prints("up\n").is_a_replay();
    env.run("own").args(["--timeout", "60s"]).script("exit 124").answer().exits(124);
    let rows = env.rows("SELECT exit_code, reason = 'timeout' FROM claim WHERE id = 2");
    assert_eq!(rows, ["124|0"], "the command's own 124 is no time limit");
}

#[test]
fn the_time_limit_of_an_owner_that_waits_for_nothing_else_is_noticed_while_the_command_writes() {
    let env = TestEnv::new();
    let call = env.run("t").args(["--timeout", "1s", "--max-output", "1kB", "--quiet"]);
    call.script("exec yes").under(["sh", "-c", "exec \"$0\" \"$@\" > /dev/null"]).answer().exits(124);
}

#[test]
fn wrong_limits_run_nothing() {
    let env = TestEnv::new();
    let wrong: [&[&str]; 5] = [
        &["--kill-after", "1s"],
        &["--timeout", "soon"],
        &["--timeout", "-1s"],
        &["--timeout", ""],
        &["--timeout", "1s", "--kill-after", "never"],
    ];
    for options in wrong {
        env.run("t").args(options.iter().copied()).counting("true").answer().refuses();
    }
    assert_eq!(env.runs(), 0);
    assert!(!env.store().exists() || env.states().is_empty());
}

#[test]
fn a_limit_without_end_is_none() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner =
        env.run("t").args(["--timeout", "100000000d"]).script("echo $$ > pid; read _ < gate; echo done").start();
    owner.command();
    wait_for("the record", || (env.states() == ["running"]).then_some(()));
    gate.open();
    owner.answer().exits(0).prints("done\n");
}
