//! What a command leaves behind keeps neither idem nor the claim, and gets nothing of idem's but the liveness lock.

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::env::{Answer, Gate, TestEnv, become_free, is_alive, is_stopped, seq, wait_for};

/// Starts a process that lives as long as the gate is closed, with these words before and after it.
fn left_behind(before: &str, after: &str) -> String {
    format!("{before} sh -c 'echo $$ > left; read _ < gate' {after} & until [ -s left ]; do :; done; echo ok")
}

#[test]
fn idem_is_back_with_all_that_was_written_while_a_background_process_keeps_the_pipe() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let script = left_behind("", "");
    let call = || env.run("t").args(["--no-wait"]).counting(&script);
    let first = call().answer();
    first.exits(0).prints("ok\n").says("idem: ").says("left behind").is_a_first_run();
    assert!(is_alive(env.pid_in("left")), "it lives on");
    assert_eq!(env.states(), ["completed"]);
    call().answer().exits(0).prints("ok\n").is_a_replay().does_not_say("left behind");
    assert_eq!(env.runs(), 1);
}

#[test]
fn the_note_of_a_process_left_behind_is_one_that_quiet_silences() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = env.run("t").args(["--quiet"]).script(&left_behind("", ""));
    call.answer().exits(0).prints("ok\n").says_exactly("");
    assert!(is_alive(env.pid_in("left")), "it lives on");
}

#[test]
fn a_background_process_that_keeps_one_stream_only_loses_nothing_of_the_other() {
    for after in ["> /dev/null", "2> /dev/null"] {
        let env = TestEnv::new();
        let _gate = Gate::new(&env, "gate");
        let script = format!("{}; seq 50000; seq 50000 >&2", left_behind("", after));
        let answer = env.run("t").args(["--quiet"]).script(&script).answer();
        let lines = seq(50_000);
        answer.exits(0).prints(format!("ok\n{lines}")).says_exactly(&lines);
        env.idem(["show", "1", "--stderr"]).answer().exits(0).prints(&lines);
    }
}

#[test]
fn a_daemon_that_kept_the_streams_and_the_lock_keeps_neither_idem_nor_the_claim() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    for (tool, exit, again) in [("done", 0, 0), ("failed", 3, 3)] {
        let _ = std::fs::remove_file(env.file("left"));
        let script = format!("{}; exit {exit}", left_behind("setsid", ""));
        let call = || env.run(tool).args(["--no-wait"]).script(&script);
        call().answer().exits(exit).prints("ok\n");
        assert!(is_alive(env.pid_in("left")), "the daemon lives on");
        let repeat = call().answer();
        repeat.exits(again).prints("ok\n");
        assert_eq!(repeat.is_marked_as_replay(), exit == 0, "only a success is replayed\n{repeat}");
    }
}

#[test]
fn a_daemon_that_closed_its_streams_is_nothing_to_speak_of() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = env.run("t").script(&left_behind("setsid", "< /dev/null > /dev/null 2>&1"));
    call.answer().exits(0).prints("ok\n").says_exactly("");
    assert!(is_alive(env.pid_in("left")), "the daemon lives on");
}

/// The open files of the command itself, by number.
const FILES: &str = "for fd in /proc/$$/fd/*; do echo \"${fd##*/} $(readlink $fd)\"; done";

/// What a command has open with idem before it and doesn't have without.
fn added(direct: &Answer, answer: &Answer) -> Vec<String> {
    let numbers = |answer: &Answer| -> Vec<String> {
        let text = answer.exits(0).text();
        text.lines().map(|line| line.split(' ').next().expect("a number").to_owned()).collect()
    };
    let without = numbers(direct);
    let text = answer.exits(0).text();
    let more = text.lines().filter(|line| !without.iter().any(|fd| line.split(' ').next() == Some(fd)));
    more.map(str::to_owned).collect()
}

#[test]
fn of_idems_descriptors_the_command_gets_the_liveness_lock_and_no_other() {
    let env = TestEnv::new();
    let direct = env.idem([] as [&str; 0]).under(["sh", "-c", FILES]).answer();
    let lock = env.beside_store("-lock").display().to_string();
    env.write("bound", "x");
    let ways: [&[&str]; 5] = [
        &[],
        &["--bind-stdin", "--bind-file", "bound"],
        &["--timeout", "60s", "--stdin", "null"],
        &["--status-file", "status"],
        &["--external", "--no-record-output"],
    ];
    for (n, options) in ways.into_iter().enumerate() {
        let answer = env.run(&format!("t{n}")).args(options).stdin("some input").script(FILES).answer();
        let added = added(&direct, &answer);
        assert_eq!(added.len(), 1, "with {options:?}: {added:?}\n{answer}");
        assert!(added[0].ends_with(&format!(" {lock}")), "with {options:?}: {added:?}");
        let text = answer.text();
        let streams: Vec<&str> = text.lines().filter(|line| line.starts_with("1 ") || line.starts_with("2 ")).collect();
        assert!(streams.len() == 2 && streams.iter().all(|line| line.contains(" pipe:")), "two pipes: {streams:?}");
    }
}

#[test]
fn descriptors_that_the_caller_passed_are_passed_on_under_their_numbers() {
    let env = TestEnv::new();
    let passing = ["sh", "-c", "exec 3> three 7> seven 9< nine; exec \"$0\" \"$@\""];
    env.write("nine", "in nine\n");
    let script = "echo to three >&3; echo to seven >&7; cat <&9";
    env.run("t").script(script).under(passing).answer().exits(0).prints("in nine\n");
    assert_eq!((env.text_of("three"), env.text_of("seven")), ("to three\n".into(), "to seven\n".into()));
}

fn send(pid: i32, signal: Signal) {
    signal::kill(Pid::from_raw(pid), signal).expect("a living process");
}

#[test]
fn a_stopped_command_and_a_stopped_idem_keep_their_claim() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    let command = owner.command();
    for pid in [command, owner.pid()] {
        send(pid, Signal::SIGSTOP);
        wait_for("a stopped process", || is_stopped(pid).then_some(()));
        call().args(["--no-wait"]).answer().exits(120).prints("");
    }
    gate.open();
    for pid in [command, owner.pid()] {
        send(pid, Signal::SIGCONT);
    }
    owner.answer().exits(0).prints("done\n");
    call().answer().exits(0).prints("done\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_command_that_ends_under_a_stopped_idem_is_answered_once_idem_goes_on() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("pay").external().counting("echo $$ > pid; read _ < gate; echo sent");
    let owner = call().start();
    let command = owner.command();
    send(owner.pid(), Signal::SIGSTOP);
    wait_for("a stopped idem", || is_stopped(owner.pid()).then_some(()));
    gate.open();
    become_free(command);
    call().args(["--no-wait"]).answer().exits(120).prints("");
    send(owner.pid(), Signal::SIGCONT);
    owner.answer().exits(0).prints("sent\n");
    assert_eq!(env.rows("SELECT state, outcome FROM claim"), ["completed|landed"]);
    assert_eq!(env.runs(), 1);
}
