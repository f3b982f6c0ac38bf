//! Output: live for the caller, and recorded whole, byte by byte.

use crate::env::{Gate, TestEnv, seq, wait_for};

#[test]
fn bytes_that_are_no_text_come_back_as_they_were() {
    let env = TestEnv::new();
    let all: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    env.write("bytes", &all);
    let call = || env.run("t").script("cat bytes; cat bytes >&2");
    call().answer().exits(0).prints(&all).says_exactly(&all);
    let replay = call().answer();
    replay.exits(0).prints(&all).is_a_replay();
    assert!(replay.stderr().ends_with(&all), "stderr comes back as it was");
}

#[test]
fn megabytes_on_both_streams_come_back_whole() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--quiet"]).counting("seq 400000 & seq 300000 >&2; wait");
    let first = call().answer();
    first.exits(0).prints(seq(400_000)).says_exactly(seq(300_000));
    call().answer().exits(0).prints(first.stdout()).says_exactly(first.stderr());
    assert_eq!(env.runs(), 1);
}

#[test]
fn output_without_a_line_end_stays_without_one() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--quiet"]).script("printf out; printf err >&2");
    for _ in 0..2 {
        call().answer().exits(0).prints("out").says_exactly("err");
    }
}

#[test]
fn a_note_of_idem_begins_on_a_line_of_its_own() {
    let env = TestEnv::new();
    let answer = env.run("pay").external().script("printf 'no end' >&2; exit 7").answer();
    answer.exits(7).says("no end\nidem: ");
}

#[test]
fn the_streams_come_back_in_the_order_in_which_they_were_written() {
    let env = TestEnv::new();
    // Each line waits until the one before has gone all the way through, so that there is one true order.
    let script = "for n in 1 2 3; do echo out $n; until grep -q \"out $n\" seen; do :; done; \
                  echo err $n >&2; until grep -q \"err $n\" seen; do :; done; done";
    let expected = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n";
    // Both streams go into one file, as to a terminal.
    let call = || env.run("t").args(["--quiet"]).counting(script).under(["sh", "-c", "\"$0\" \"$@\" > seen 2>&1"]);
    for _ in 0..2 {
        call().answer().exits(0);
        assert_eq!(env.text_of("seen"), expected);
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn output_is_passed_on_while_the_command_runs() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = env.run("t").script("echo first; echo warning >&2; read _ < gate");
    let owner = call.under(["sh", "-c", "\"$0\" \"$@\" > out 2> err"]).start();
    wait_for("the output so far", || {
        (env.text_of("out") == "first\n" && env.text_of("err") == "warning\n").then_some(())
    });
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn a_background_process_that_holds_the_pipe_does_not_hold_up_the_answer() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("{ echo $$ > server; read _ < gate; } & echo ok; echo fine >&2");
    call().answer().exits(0).prints("ok\n").says("fine\n");
    call().answer().exits(0).prints("ok\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn what_the_command_wrote_before_its_end_is_whole_though_a_background_process_holds_the_pipe() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = || env.run("t").args(["--quiet"]).script("{ read _ < gate; } & seq 200000");
    let expected = seq(200_000);
    call().answer().exits(0).prints(&expected);
    call().answer().exits(0).prints(&expected);
}

#[test]
fn a_reader_that_leaves_early_does_not_spoil_the_record() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("seq 200000; echo end > end");
    call().under(["sh", "-c", "\"$0\" \"$@\" | head -n 1"]).answer().prints("1\n").does_not_say("panic");
    assert!(env.has("end"), "the command finished");
    let expected = seq(200_000);
    call().answer().exits(0).prints(expected).is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_closed_stdout_does_not_spoil_the_record() {
    let env = TestEnv::new();
    let closed = ["sh", "-c", "exec \"$0\" \"$@\" >&-"];
    env.run("t").counting("echo out; echo end > end").under(closed).answer().exits(0);
    assert!(env.has("end"), "the command finished");
    env.run("t").counting("echo out; echo end > end").answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn every_kind_of_replay_says_that_it_is_one() {
    let env = TestEnv::new();
    let failure = || env.run("kept").args(["--keep-failure"]).script("echo no >&2; exit 1");
    failure().answer().exits(1).is_a_first_run();
    failure().answer().exits(1).is_a_replay();
    let there = || env.run("there").args(["--landed-exit", "5"]).script("exit 5");
    there().answer().exits(5).is_a_first_run();
    there().answer().exits(5).is_a_replay();
    let silent = || env.run("silent").script("true");
    silent().answer().exits(0).is_a_first_run();
    silent().answer().exits(0).is_a_replay();
    env.run("pay").external().script("exit 1").answer().exits(1).is_a_first_run();
    env.idem(["resolve", "4", "landed"]).answer().exits(0);
    env.run("pay").external().script("exit 1").answer().exits(0).is_a_replay();
}
