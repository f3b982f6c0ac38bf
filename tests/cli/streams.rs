//! Streams: whoever reads them notices no wrapper, and whatever becomes of the reader the record is whole.

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::env::{Gate, TestEnv, seq, wait_for};

/// A shell pipeline that reads idem's stdout with this reader and keeps idem's exit status in `status`.
fn read_by(reader: &str) -> [String; 3] {
    ["sh".into(), "-c".into(), format!("{{ \"$0\" \"$@\"; echo $? > status; }} | {{ {reader}; }}")]
}

/// Waits for the states of all attempts.
fn wait_for_states(env: &TestEnv, states: &[&str]) {
    wait_for(&format!("the states {states:?}"), || (env.store().exists() && env.states() == states).then_some(()));
}

#[test]
fn a_line_can_be_read_while_the_command_waits() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let reader = read_by("read line; echo \"$line\" > got; cat > rest");
    let call = env.run("t").script("echo first; read _ < gate; echo last").under(reader).start();
    wait_for("the line in its reader's hands", || (env.text_of("got") == "first\n").then_some(()));
    gate.open();
    call.answer().exits(0);
    assert_eq!((env.text_of("rest"), env.text_of("status")), ("last\n".into(), "0\n".into()));
}

#[test]
fn a_question_without_a_line_end_can_be_read_and_answered() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "answer");
    let reader = ["sh", "-c", "\"$0\" \"$@\" 2>&1 < answer | { head -c 6 > got; cat > rest; }"];
    let call = env.run("t").script("printf 'sure? ' >&2; read yes; echo \"you said $yes\"").under(reader).start();
    wait_for("the question", || (env.text_of("got") == "sure? ").then_some(()));
    asked.send(b"yes\n");
    call.answer().exits(0);
    assert_eq!(env.text_of("rest"), "you said yes\n");
}

#[test]
fn bytes_that_no_text_has_come_through_and_come_back() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--quiet"]).counting(r"printf '\377\000'; printf '\000\377' >&2");
    for _ in 0..2 {
        call().answer().exits(0).prints(b"\xff\x00").says_exactly(b"\x00\xff");
    }
    env.idem(["show", "1", "--stderr"]).answer().exits(0).prints(b"\x00\xff");
    assert_eq!(env.runs(), 1);
}

#[test]
fn when_the_reader_goes_away_the_command_ends_as_it_would_and_its_status_and_output_are_recorded() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--keep-failure"]).counting("seq 300000; echo end > end; exit 7");
    call().under(read_by("head -n 1")).answer().exits(0).prints("1\n").says_exactly("");
    assert!(env.has("end"), "the command ran to its end");
    assert_eq!(env.text_of("status"), "7\n");
    call().answer().exits(7).prints(seq(300_000)).is_a_replay().does_not_say("not recorded");
    assert_eq!(env.runs(), 1);
}

#[test]
fn when_the_reader_of_messages_goes_away_the_record_is_whole_too() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--quiet"]).counting("seq 300000 >&2; echo out");
    let reader = ["sh", "-c", "exec 3>&1; { \"$0\" \"$@\" 2>&1 >&3; echo $? > status; } | head -n 1 >&2"];
    call().under(reader).answer().prints("out\n");
    assert_eq!(env.text_of("status"), "0\n");
    call().answer().exits(0).prints("out\n").says_exactly(seq(300_000));
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_command_that_never_stops_writing_runs_on_without_its_reader_until_its_time_limit() {
    let env = TestEnv::new();
    let limits = ["--timeout", "1s", "--max-output", "1MiB"];
    let call = env.run("t").args(limits).command(["yes"]).under(read_by("head -n 1"));
    call.answer().exits(0).prints("y\n").does_not_say("panic");
    assert_eq!(env.text_of("status"), "124\n", "the broken pipe was not the command's");
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["released|timeout"]);
}

#[test]
fn a_full_disk_under_idems_own_streams_does_not_spoil_the_record() {
    for (name, to) in [("stdout", "> /dev/full"), ("stderr", "2> /dev/full"), ("both", "> /dev/full 2> /dev/full")] {
        let env = TestEnv::new();
        let call = || env.run("t").args(["--keep-failure"]).counting("seq 50000; echo warning >&2; exit 3");
        let full = ["sh".to_owned(), "-c".into(), format!("exec \"$0\" \"$@\" {to}")];
        let first = call().under(full).answer();
        first.exits(3);
        if name == "stdout" {
            first.says("could not be passed on to stdout").says("recorded");
        }
        let replay = call().answer();
        replay.exits(3).prints(seq(50_000)).says("warning\n").is_a_replay().does_not_say("not recorded");
        assert_eq!(env.runs(), 1, "{name}");
    }
}

#[test]
fn closed_streams_spoil_no_record_and_nothing_of_idems_takes_their_place() {
    let all = "<&- >&- 2>&-";
    for closed in ["<&-", ">&-", "2>&-", all] {
        let env = TestEnv::new();
        let look = "for fd in 0 1 2; do echo \"$fd $(readlink /proc/$PPID/fd/$fd)\"; done > idems; \
                    for fd in 0 1 2; do echo \"$fd $(readlink /proc/$$/fd/$fd)\"; done > commands";
        let script = format!("{look}; cat > read; seq 50000; echo warning >&2; exit 3");
        let call = || env.run("t").args(["--keep-failure"]).counting(&script);
        let shell = ["sh".to_owned(), "-c".into(), format!("exec \"$0\" \"$@\" {closed}")];
        let first = call().under(shell.clone()).answer();
        first.exits(3);
        if ["<&-", "2>&-"].contains(&closed) {
            first.prints(seq(50_000));
        }
        for list in ["idems", "commands"] {
            let text = env.text_of(list);
            assert_eq!(text.lines().count(), 3, "{text}");
            assert!(!text.contains("idem.db") && !text.contains("deleted"), "with {closed}, {list}: {text}");
        }
        // A replay with closed streams has nowhere to put it, and says nothing wrong either.
        call().under(shell).answer().exits(3);
        call().answer().exits(3).prints(seq(50_000)).says("warning\n").is_a_replay();
        assert_eq!(env.runs(), 1, "{closed}");
    }
}

#[test]
fn the_outcome_is_recorded_before_a_slow_reader_has_read() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    // One write, which fills the pipe at once, so that idem makes both its own pipe and the command's hold 1 MiB. It is more
    // than the one holds, and no more than both hold together.
    let script = "dd if=/dev/zero bs=1500000 count=1 2> dd";
    let expected = "\0".repeat(1_500_000);
    let call = env.run("t").script(script).under(read_by("read _ < gate; cat > got")).start();
    wait_for_states(&env, &["completed"]);
    env.run("t").args(["--no-wait"]).script(script).answer().exits(0).prints(&expected).is_a_replay();
    assert!(!env.has("status"), "idem still waits for its reader");
    gate.open();
    call.answer().exits(0);
    assert!(env.text_of("got") == expected, "the reader has it all");
    assert_eq!(env.text_of("status"), "0\n");
}

#[test]
fn a_time_limit_ends_a_command_whose_reader_does_not_read() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = env.run("t").args(["--timeout", "1s"]).command(["yes"]);
    let call = call.under(read_by("read _ < gate; head -c 4 > got; cat > /dev/null")).start();
    wait_for_states(&env, &["released"]);
    assert_eq!(env.rows("SELECT reason FROM claim"), ["timeout"]);
    gate.open();
    call.answer().exits(0);
    assert_eq!((env.text_of("got"), env.text_of("status")), ("y\ny\n".into(), "124\n".into()));
}

#[test]
fn a_signal_reaches_a_command_whose_reader_does_not_read() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = env.run("t").script("echo $PPID > idem; echo $$ > pid; exec yes");
    let call = call.under(read_by("read _ < gate; cat > /dev/null")).start();
    let (idem, command) = (env.pid_in("idem"), env.pid_in("pid"));
    wait_for("a command that waits for its reader", || {
        let text = std::fs::read_to_string(format!("/proc/{command}/stat")).ok()?;
        (text.contains("(yes) S")).then_some(())
    });
    signal::kill(Pid::from_raw(idem), Signal::SIGTERM).expect("a signal for idem");
    wait_for_states(&env, &["released"]);
    assert_eq!(env.rows("SELECT signal FROM claim"), ["15"]);
    gate.open();
    call.answer().exits(0);
    assert_eq!(env.text_of("status"), "143\n");
}

#[test]
fn a_reader_that_leaves_a_replay_early_changes_nothing() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--keep-failure", "--quiet"]).script("seq 300000; exit 7");
    call().answer().exits(7);
    call().under(read_by("head -n 1")).answer().exits(0).prints("1\n").says_exactly("");
    assert_eq!(env.text_of("status"), "7\n");
    call().answer().exits(7).prints(seq(300_000));
}
