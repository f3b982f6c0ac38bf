//! Owners that die: death is a fact that a lock proves, and what nobody knows any more is held.

use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::env::{Gate, KILL_IDEM, Running, TestEnv, become_free, has_open, is_alive, wait_for};

/// Says who it is and waits at the gate.
const AT_THE_GATE: &str = "echo $$ > pid; echo so far; read _ < gate; echo done";

/// Kills idem and its command with signal 9 and waits until both are gone.
fn kill_both(owner: Running) {
    let command = owner.command();
    owner.kill_9();
    signal::kill(Pid::from_raw(command), Signal::SIGKILL).expect("the command still lives");
    become_free(command);
}

#[test]
fn while_the_command_outlives_its_killed_idem_the_claim_is_busy_and_then_held() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    let owner = call().start();
    let command = owner.command();
    owner.kill_9();
    assert!(is_alive(command), "the command outlives idem");
    call().args(["--no-wait"]).answer().exits(120).prints("");
    let waiter = call().start();
    env.wait_for_waiters(1);
    gate.open();
    become_free(command);
    waiter.answer().exits(121).prints("").says("interrupted");
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["held|interrupted|unknown"]);
    call().answer().exits(121).prints("").says("interrupted").says("unknown");
    assert_eq!(env.runs(), 1);
}

#[test]
fn an_external_command_that_outlives_its_killed_idem_is_held_with_the_words_for_it() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("pay").external().counting(AT_THE_GATE);
    let owner = call().start();
    let command = owner.command();
    owner.kill_9();
    call().args(["--no-wait"]).answer().exits(120);
    gate.open();
    become_free(command);
    call().answer().exits(121).says("may have reached the target").says("not retried").says("the target decides");
    assert_eq!(env.runs(), 1);
}

#[test]
fn when_idem_and_its_command_are_both_killed_the_next_arrival_finds_it_held_at_once() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    kill_both(call().start());
    assert_eq!(env.states(), ["running"], "nobody has noticed yet");
    call().args(["--no-wait"]).answer().exits(121).says("interrupted");
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["held|interrupted"]);
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_command_that_kills_its_idem_leaves_a_held_claim() {
    let env = TestEnv::new();
    let call = || env.run("t").counting(&format!("{KILL_IDEM}; echo $$ > pid"));
    let killed = call().answer();
    assert_eq!(killed.code(), None, "idem was killed\n{killed}");
    become_free(env.pid_in("pid"));
    call().answer().exits(121);
    assert_eq!(env.runs(), 1);
}

#[test]
fn twenty_arrivals_that_find_the_dead_owner_together_run_nothing() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    kill_both(call().start());
    let arrivals: Vec<Running> = (0..20).map(|_| call().start()).collect();
    for arrival in arrivals {
        arrival.answer().exits(121);
    }
    assert_eq!(env.runs(), 1);
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn waiters_whose_owner_dies_with_its_command_run_nothing() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    let owner = call().start();
    owner.command();
    let waiters: Vec<Running> = (0..10).map(|_| call().start()).collect();
    env.wait_for_waiters(10);
    kill_both(owner);
    for waiter in waiters {
        waiter.answer().exits(121).prints("");
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn wherever_idem_is_killed_the_command_never_runs_twice() {
    let env = TestEnv::new();
    for n in 0..60 {
        let tool = format!("t{n}");
        let call = || env.run(&tool).script("echo $IDEM_TOOL >> ran; echo done");
        let owner = call().start();
        // No moment is the right one: the point is to hit as many different ones as a run has.
        thread::sleep(Duration::from_micros(n * 250));
        if n % 2 == 0 {
            owner.signal_group(Signal::SIGKILL);
        } else {
            owner.signal(Signal::SIGKILL);
        }
        let again = call().answer();
        let runs = env.text_of("ran").lines().filter(|line| **line == *tool).count();
        match again.code() {
            Some(0) => assert_eq!((runs, again.stdout()), (1, &b"done\n"[..]), "killed after {n} steps\n{again}"),
            Some(121) => assert!(runs <= 1, "killed after {n} steps\n{again}"),
            _ => panic!("killed after {n} steps\n{again}"),
        }
    }
}

#[test]
fn twenty_arrivals_that_may_rerun_the_interrupted_command_run_it_once_more() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(&format!("{AT_THE_GATE} $IDEM_ATTEMPT"));
    kill_both(call().start());
    let arrivals: Vec<Running> = (0..20).map(|_| call().args(["--rerun-if-interrupted"]).start()).collect();
    env.wait_for_waiters(19);
    gate.open();
    for arrival in arrivals {
        arrival.answer().exits(0).prints("so far\ndone 2\n");
    }
    assert_eq!(env.runs(), 2);
    assert_eq!(env.states(), ["released", "completed"]);
}

#[test]
fn rerun_if_interrupted_is_only_for_calls_between_which_nothing_external_stands() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    env.run("pay").external().args(["--rerun-if-interrupted"]).counting("true").answer().refuses();
    assert_eq!(env.runs(), 0);
    kill_both(env.run("pay").external().counting(AT_THE_GATE).start());
    env.run("pay").args(["--rerun-if-interrupted"]).counting(AT_THE_GATE).answer().exits(121);
    assert_eq!(env.runs(), 1);
}

#[test]
fn rerun_if_interrupted_leaves_a_living_owner_alone() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    let owner = call().start();
    owner.command();
    call().args(["--rerun-if-interrupted", "--no-wait"]).answer().exits(120);
    gate.open();
    owner.answer().exits(0);
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_daemon_left_behind_does_not_keep_a_finished_claim_busy() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let daemon = "setsid sh -c 'echo $$ > daemon; read _ < gate' < /dev/null > /dev/null 2>&1 & \
                  while ! [ -s daemon ]; do :; done";
    for (n, (effect, exit, again)) in [("local", 0, 0), ("local", 3, 3), ("external", 3, 121)].into_iter().enumerate() {
        drop(std::fs::remove_file(env.file("daemon")));
        let tool = format!("agent-{n}");
        let option = if effect == "external" { &["--external"][..] } else { &[][..] };
        let call =
            || env.run(&tool).args(option).args(["--no-wait"]).script(&format!("{daemon}; echo up; exit {exit}"));
        call().answer().exits(exit).prints("up\n");
        let pid = env.pid_in("daemon");
        assert!(is_alive(pid), "the daemon lives on");
        assert!(has_open(pid, &env.beside_store("-lock")), "the daemon has inherited the lock file");
        let repeat = call().answer();
        repeat.exits(again);
        assert_eq!(repeat.is_marked_as_replay(), exit == 0, "only a success is replayed\n{repeat}");
    }
}

#[test]
fn waiters_wake_up_at_the_end_of_the_command_though_a_daemon_has_inherited_the_lock() {
    let env = TestEnv::new();
    let (gate, _shut) = (Gate::new(&env, "gate"), Gate::new(&env, "shut"));
    let daemon = "setsid sh -c 'echo $$ > daemon; read _ < shut' < /dev/null > /dev/null 2>&1 &";
    let call = || env.run("t").counting(&format!("{daemon} {AT_THE_GATE}"));
    let owner = call().start();
    owner.command();
    let waiter = call().start();
    env.wait_for_waiters(1);
    let daemon = env.pid_in("daemon");
    gate.open();
    owner.answer().exits(0);
    waiter.answer().exits(0).prints("so far\ndone\n").is_a_replay();
    assert!(is_alive(daemon), "the daemon lives on");
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_daemon_of_a_killed_idem_still_counts_as_its_command() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || {
        env.run("t").counting("setsid sh -c 'echo $$ > daemon; read _ < gate' > /dev/null 2>&1 & echo $$ > pid; wait")
    };
    let owner = call().start();
    let daemon = env.pid_in("daemon");
    kill_both(owner);
    call().args(["--no-wait"]).answer().exits(120);
    gate.open();
    become_free(daemon);
    call().answer().exits(121);
}

/// The process id and the start time of a process, as the store has them for people to read.
fn recorded_as(pid: u32) -> (String, String) {
    let fields = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let start = fields.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(19));
    (format!("[{pid}]"), format!("start {}", start.unwrap_or("1")))
}

#[test]
fn no_age_and_no_process_id_makes_a_living_claim_free_or_a_dead_one_busy() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    let owner = call().start();
    owner.command();
    let (mut pid, mut start) = recorded_as(owner.pid().unsigned_abs());
    let mut claim_to_be_of = |other: u32| {
        let (new_pid, new_start) = recorded_as(other);
        let set = format!(
            "owner = replace(owner, '{pid}', '{new_pid}'), process = replace(process, '{start}', '{new_start}')"
        );
        env.tamper(&format!("UPDATE claim SET {set}"));
        let kept =
            format!("SELECT count(*) FROM claim WHERE instr(owner, '{new_pid}') AND instr(process, '{new_start}')");
        assert_eq!(env.rows(&kept), ["1"], "the store tells of {new_pid} {new_start}");
        (pid, start) = (new_pid, new_start);
    };
    // The clock jumps by fifty years, and the recorded process is not there: the lock says that the owner lives.
    env.tamper("UPDATE claim SET created_at = 1");
    claim_to_be_of(4_194_304);
    call().args(["--no-wait"]).answer().exits(120);
    // The recorded process is a living one, this very test: the lock says that the owner is dead.
    claim_to_be_of(std::process::id());
    kill_both(owner);
    call().args(["--no-wait"]).answer().exits(121);
    assert_eq!(env.runs(), 1);
}

#[test]
fn what_was_printed_before_the_crash_is_there_for_whoever_has_to_decide() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let owner = env.run("pay").external().counting(AT_THE_GATE).start();
    owner.command();
    wait_for("the recorded output", || {
        let shown = env.idem(["show", "1", "--stdout"]).answer();
        (shown.stdout() == b"so far\n").then_some(())
    });
    kill_both(owner);
    env.idem(["show", "1", "--stdout"]).answer().exits(0).prints("so far\n");
}

#[test]
fn an_owner_that_can_be_proven_neither_alive_nor_dead_is_held_and_its_own_word_still_counts() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    let owner = call().start();
    owner.command();
    std::fs::remove_file(env.beside_store("-lock")).expect("a lock file that somebody tidies away");
    call().args(["--no-wait"]).answer().exits(121);
    call().args(["--rerun-if-interrupted"]).answer().exits(121);
    assert_eq!(env.runs(), 1);
    gate.open();
    owner.answer().exits(0);
    assert_eq!(env.states(), ["completed"], "a recorded truth that comes late still counts");
    call().answer().exits(0).prints("so far\ndone\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_link_to_the_store_has_the_same_owners() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").counting(AT_THE_GATE).start();
    owner.command();
    std::os::unix::fs::symlink(env.store(), env.file("link.db")).expect("a link to the store");
    let linked = || env.run("t").args(["--store", "link.db"]).counting(AT_THE_GATE);
    linked().args(["--no-wait"]).answer().exits(120);
    gate.open();
    owner.answer().exits(0);
    linked().answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
}
