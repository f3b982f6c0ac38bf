//! Signals: what is sent to idem reaches the command, once, and what became of the command is recorded.

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::env::{Gate, Running, TestEnv, is_alive, is_stopped, wait_for};

/// The end of a script that goes on until the test writes `stop` or is gone; a trap is run between two looks.
const UNTIL_STOPPED: &str = "echo $$ > pid; while [ -e pid ] && ! [ -e stop ]; do sleep 0.02; done";

/// A script that starts no process of its own, so that it can be stopped at any moment.
const AT_THE_GATE: &str = "echo $$ > pid; read _ < gate; echo done; exit 3";

fn send(pid: i32, signal: Signal) {
    signal::kill(Pid::from_raw(pid), signal).expect("a living process");
}

/// Waits until a file in the work folder has exactly this text.
fn wait_for_text(env: &TestEnv, name: &str, text: &str) {
    wait_for(&format!("{text:?} in {name}"), || (env.text_of(name) == text).then_some(()));
}

/// Whether a process sleeps and has dealt with all signals that were sent to it.
fn is_at_rest(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = |line: &str| line.starts_with("SigPnd:") || line.starts_with("ShdPnd:");
    let none = |line: &str| line.trim_end().ends_with("\t0000000000000000");
    status.contains("\nState:\tS") && status.lines().filter(|line| pending(line)).all(none)
}

#[test]
fn each_signal_reaches_the_command_which_decides_what_it_means() {
    let env = TestEnv::new();
    let names = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT"];
    let traps: Vec<String> = names.iter().map(|name| format!("trap 'echo {name} >> got' {name}")).collect();
    let owner = env.run("t").counting(&format!("{}; {UNTIL_STOPPED}; echo done", traps.join("; "))).start();
    owner.command();
    let mut expected = String::new();
    for name in names {
        owner.signal(format!("SIG{name}").parse().expect("a signal"));
        expected = format!("{expected}{name}\n");
        wait_for_text(&env, "got", &expected);
    }
    env.write("stop", "");
    owner.answer().exits(0).prints("done\n");
    assert_eq!(env.text_of("got"), expected, "each of them once");
    assert_eq!(env.states(), ["completed"]);
}

#[test]
fn a_command_that_a_forwarded_signal_ends_is_128_plus_the_signal_and_released() {
    let env = TestEnv::new();
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];
    for signal in signals {
        let _ = std::fs::remove_file(env.file("pid"));
        let call = || env.run(signal.as_str()).args(["--json"]).script(UNTIL_STOPPED);
        let owner = call().start();
        owner.command();
        owner.signal(signal);
        let answer = owner.answer();
        let envelope = answer.exits(128 + signal as i32).envelope();
        assert_eq!(envelope["signal"], signal.as_str(), "{answer}");
        assert_eq!(envelope["state"], "released", "{answer}");
        assert_eq!(envelope["outcome"], "not-landed", "{answer}");
    }
}

#[test]
fn a_caller_that_ends_an_external_call_leaves_it_held() {
    let env = TestEnv::new();
    let call = || env.run("push").external().counting(&format!("echo pushing; {UNTIL_STOPPED}"));
    let owner = call().start();
    owner.command();
    owner.signal(Signal::SIGTERM);
    owner.answer().exits(143).prints("pushing\n").says("may have reached the target");
    assert_eq!(env.rows("SELECT state, outcome, signal FROM claim"), ["held|unknown|15"]);
    call().answer().exits(121).prints("");
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_second_and_a_third_signal_work_too() {
    let env = TestEnv::new();
    let script = format!("n=0; trap 'n=$((n+1)); echo $n >> got; [ $n = 3 ] && exit 9' TERM; {UNTIL_STOPPED}");
    let owner = env.run("t").counting(&script).start();
    owner.command();
    for seen in ["1\n", "1\n2\n", "1\n2\n3\n"] {
        owner.signal(Signal::SIGTERM);
        wait_for_text(&env, "got", seen);
    }
    owner.answer().exits(9);
    assert_eq!(env.rows("SELECT state, exit_code FROM claim"), ["released|9"]);
}

#[test]
fn idem_waits_for_a_command_that_takes_its_time_after_the_signal() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = format!("trap 'echo cleaning; read _ < gate; echo clean; exit 5' TERM; {UNTIL_STOPPED}");
    let call = || env.run("t").counting(&script);
    let owner = call().start();
    owner.command();
    owner.signal(Signal::SIGTERM);
    wait_for("the start of the cleaning up", || {
        (env.idem(["show", "1", "--stdout"]).answer().stdout() == b"cleaning\n").then_some(())
    });
    call().args(["--no-wait"]).answer().exits(120);
    gate.open();
    owner.answer().exits(5).prints("cleaning\nclean\n");
}

/// Who is on a terminal: idem alone, the leader of the terminal's session with nobody to bring it back when it is
/// stopped, as under `ssh -t`; under a shell without job control; or at the prompt of one that has it.
const ALONE: &str = "exec \"$IDEM\" run --who a --conv c --tool t -- sh command.sh";
const UNDER_A_SHELL: &str = "trap : INT QUIT; \"$IDEM\" run --who a --conv c --tool t -- sh command.sh; exit $?";
const AT_A_PROMPT: &str = "exec sh -i";

/// Starts this on a terminal of its own. The command is this script, and the test types through the gate.
fn on_a_terminal(env: &TestEnv, who: &str, script: &str) -> (Running, Gate) {
    let typed = Gate::new(env, "typed");
    env.write("command.sh", format!("echo $PPID > idem; {script}"));
    let terminal = "export IDEM=\"$0\"; exec script -qec \"$WHO\" /dev/null < typed";
    let call = env.idem([] as [&str; 0]).under(["sh", "-c", terminal]).var("TERM", "dumb").var("WHO", who);
    (call.start(), typed)
}

#[test]
fn a_key_press_that_interrupts_on_a_terminal_is_delivered_once() {
    for who in [ALONE, UNDER_A_SHELL] {
        let env = TestEnv::new();
        let gate = Gate::new(&env, "gate");
        // The tracer sees each delivery; a shell's trap would run once for two that come close together.
        let tracer = "exec strace -DDD -q -o signals -e trace=none -e signal=INT,QUIT sh traced.sh";
        let traps = "trap 'echo INT >> got' INT; trap 'echo QUIT >> got' QUIT";
        let reading = "echo $$ > pid; while [ -e pid ] && ! [ -e stop ]; do read _ < gate; done; exit 3";
        env.write("traced.sh", format!("{traps}; {reading}"));
        let (running, typed) = on_a_terminal(&env, who, tracer);
        running.command();
        for (key, name) in [(b"\x03", "INT"), (b"\x1c", "QUIT")] {
            typed.send(key);
            wait_for("the command's trap", || {
                // A signal that came just before the shell began to read waits for the end of the line.
                gate.send(b"\n");
                env.text_of("got").contains(name).then_some(())
            });
        }
        env.write("stop", "");
        gate.open();
        running.answer().exits(3);
        wait_for("the end of the trace", || env.text_of("signals").contains("+++").then_some(()));
        let trace = env.text_of("signals");
        for name in ["--- SIGINT ", "--- SIGQUIT "] {
            assert_eq!(trace.matches(name).count(), 1, "{trace}");
        }
        assert_eq!(env.rows("SELECT exit_code FROM claim"), ["3"]);
    }
}

#[test]
fn a_command_that_a_key_press_ends_is_130_and_recorded() {
    let env = TestEnv::new();
    let (running, typed) = on_a_terminal(&env, ALONE, UNTIL_STOPPED);
    running.command();
    typed.send(b"\x03");
    running.answer().exits(130);
    assert_eq!(env.rows("SELECT state, signal FROM claim"), ["released|2"]);
}

/// Stops idem and its command and has them go on, twice, by these two ways.
fn stop_and_go_on(idem: i32, command: i32, stop: impl Fn(), go_on: impl Fn()) {
    for _ in 0..2 {
        stop();
        wait_for("both stopped", || (is_stopped(idem) && is_stopped(command)).then_some(()));
        go_on();
        // What is still to be forwarded of this would undo the next stop.
        wait_for("both going on", || (is_at_rest(idem) && is_at_rest(command)).then_some(()));
    }
}

#[test]
fn a_key_press_stops_both_and_the_shell_brings_both_back() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let (running, typed) = on_a_terminal(&env, AT_A_PROMPT, AT_THE_GATE);
    typed.send(b"\"$IDEM\" run --who a --conv c --tool t -- sh command.sh\n");
    let (idem, command) = (env.pid_in("idem"), env.pid_in("pid"));
    stop_and_go_on(idem, command, || typed.send(b"\x1a"), || typed.send(b"fg\n"));
    gate.open();
    wait_for("the record", || (env.states() == ["released"]).then_some(()));
    typed.send(b"exit\n");
    running.answer().exits(3);
}

#[test]
fn a_key_press_can_not_stop_for_ever_what_nobody_could_bring_back() {
    let env = TestEnv::new();
    // No shell is there to say `fg`: the system keeps such a group from being stopped at a terminal, idem in it as well.
    let script = format!("trap 'echo TSTP >> got' TSTP; {UNTIL_STOPPED}; exit 3");
    let (running, typed) = on_a_terminal(&env, ALONE, &script);
    running.command();
    typed.send(b"\x1a");
    wait_for_text(&env, "got", "TSTP\n");
    env.write("stop", "");
    running.answer().exits(3);
}

#[test]
fn a_terminal_that_hangs_up_reaches_the_command() {
    // The system tells the session's leader, and when that ends the rest: in the one case idem alone, in the other both.
    for who in [ALONE, UNDER_A_SHELL] {
        let env = TestEnv::new();
        let script = format!("trap 'echo HUP >> got' HUP; {UNTIL_STOPPED}; exit 4");
        let (running, _typed) = on_a_terminal(&env, who, &script);
        running.command();
        running.kill_9();
        wait_for_text(&env, "got", "HUP\n");
        env.write("stop", "");
        wait_for("the record", || (env.rows("SELECT state, exit_code FROM claim") == ["released|4"]).then_some(()));
    }
}

#[test]
fn a_signal_stops_both_and_another_lets_both_go_on_while_the_claim_stays_theirs() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting(AT_THE_GATE);
    let owner = call().start();
    let (idem, command) = (owner.pid(), owner.command());
    let stop = || {
        owner.signal(Signal::SIGTSTP);
        wait_for("both stopped", || (is_stopped(idem) && is_stopped(command)).then_some(()));
        call().args(["--no-wait"]).answer().exits(120).prints("");
    };
    stop_and_go_on(idem, command, stop, || owner.signal(Signal::SIGCONT));
    gate.open();
    owner.answer().exits(3).prints("done\n");
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_hang_up_that_the_caller_ignores_ends_neither_idem_nor_the_command() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").script("echo $$ > pid; read _ < gate; kill -HUP $$; echo done").under(["nohup"]).start();
    let command = owner.command();
    owner.signal_group(Signal::SIGHUP);
    send(command, Signal::SIGHUP);
    assert!(is_alive(command) && is_alive(owner.pid()), "ignored signals are gone once they are sent");
    gate.open();
    owner.answer().exits(0).prints("done\n");
}

/// Has a signal come to idem at its first system call of these names from the claim on.
fn signalled_at(syscalls: &str) -> [String; 6] {
    let inject = format!("inject={syscalls}:signal=SIGTERM:when=1");
    ["strace".into(), "-qq".into(), "-o".into(), "trace".into(), "-e".into(), inject]
}

#[test]
fn a_signal_between_the_claim_and_the_start_runs_nothing_and_releases_the_claim() {
    let env = TestEnv::new();
    // With a store that is there, the first sync of a run is the claim's.
    env.run("before").script("true").answer().exits(0);
    let call = || env.run("pay").external().counting("true");
    let answer = call().args(["--status-file", "status"]).under(signalled_at("fsync,fdatasync")).answer();
    assert!(env.text_of("trace").contains("--- SIGTERM"), "the signal came\n{answer}");
    answer.exits(143).prints("").says("nothing was run").says("released");
    assert_eq!(env.status_file("status")["state"], "released");
    assert_eq!(env.runs(), 0);
    assert_eq!(env.rows("SELECT state, outcome FROM claim WHERE id = 2"), ["released|not-landed"]);
    call().answer().exits(0).is_a_first_run();
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_signal_at_the_very_start_of_the_command_is_not_lost() {
    let env = TestEnv::new();
    env.run("before").script("true").answer().exits(0);
    let _gate = Gate::new(&env, "gate");
    let answer = env.run("t").script("read _ < gate").under(signalled_at("clone,clone3,vfork,fork")).answer();
    assert!(env.text_of("trace").contains("--- SIGTERM"), "the signal came\n{answer}");
    answer.exits(143);
    assert_eq!(env.rows("SELECT state FROM claim WHERE id = 2"), ["released"]);
}

#[test]
fn a_signal_to_an_arrival_that_waits_ends_that_one_alone() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    owner.command();
    let waiter = call().start();
    env.wait_for_waiters(1);
    waiter.signal(Signal::SIGTERM);
    let ended = waiter.answer();
    assert_eq!(ended.code(), None, "the signal ended it\n{ended}");
    gate.open();
    owner.answer().exits(0).prints("done\n");
    assert_eq!(env.runs(), 1);
}

#[test]
fn the_callers_own_time_limit_on_an_external_call_leaves_it_held() {
    let env = TestEnv::new();
    let call = || env.run("push").external().counting(&format!("echo accepted; {UNTIL_STOPPED}"));
    call().under(["timeout", "2"]).answer().exits(124).prints("accepted\n").says("may have reached the target");
    assert_eq!(env.rows("SELECT state, outcome, signal FROM claim"), ["held|unknown|15"]);
    call().answer().exits(121).prints("");
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_caller_that_blocks_the_signal_of_a_childs_end_still_gets_the_end() {
    let env = TestEnv::new();
    // The mask of a supervisor that reads its signals from a descriptor, and lets its children inherit that.
    let blocked = env.run("t").counting("echo hi; exit 3").under(["env", "--block-signal=CHLD"]);
    blocked.answer().exits(3).prints("hi\n");
    assert_eq!(env.states(), ["released"]);
}

#[test]
fn an_alarm_of_the_callers_reaches_the_command_and_its_end_is_recorded() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").script("trap 'echo rang; exit 4' ALRM; echo $$ > pid; read _ < gate").start();
    owner.command();
    owner.signal(Signal::SIGALRM);
    owner.answer().exits(4).prints("rang\n");
    drop(gate);
    assert_eq!(env.states(), ["released"]);
}
