//! One key, another command: the params don't express the call, so nothing runs and nothing is replayed.

use crate::env::{Gate, TestEnv};

/// Another key would send beside what may have landed: then that comes first.
#[test]
fn a_mismatch_with_what_is_unknown_advises_no_other_key() {
    let env = TestEnv::new();
    env.run("t").external().script("exit 7").answer().exits(7);
    let held = env.run("t").external().args(["--json"]).script("exit 8").answer();
    held.exits(122)
        .says("and is held, its outcome unknown")
        .says("idem resolve 1 landed")
        .does_not_say("put what differs");
    let gate = Gate::new(&env, "gate");
    let owner = env.run("r").script("echo $$ > pid; read _ < gate").start();
    owner.command();
    let running = env.run("r").script("true").answer();
    running.exits(122).says("and is running").says("wait for the end of claim 2").does_not_say("put what differs");
    gate.open();
    owner.answer().exits(0);
    env.run("r").script("true").answer().exits(122).says("put what differs into --params").does_not_say("and is ");
}

#[test]
fn another_command_under_a_completed_key_is_neither_run_nor_replayed() {
    let env = TestEnv::new();
    env.run("t").counting("echo one").answer().exits(0).prints("one\n");
    let other = env.run("t").counting("echo two").answer();
    other.exits(122).prints("").says("idem: ").says("another command").is_a_first_run();
    assert_eq!(env.runs(), 1);
    env.run("t").counting("echo one").answer().exits(0).prints("one\n").is_a_replay();
}

#[test]
fn one_more_or_one_less_argument_is_another_command() {
    let env = TestEnv::new();
    env.run("t").command(["echo", "a b"]).answer().exits(0);
    env.run("t").command(["echo", "a", "b"]).answer().exits(122);
    env.run("t").command(["echo"]).answer().exits(122);
    env.run("t").command(["echo", "a b", ""]).answer().exits(122);
    env.run("t").command(["echo", "a b"]).answer().exits(0).is_a_replay();
}

#[test]
fn a_mismatch_comes_before_busy() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").counting("echo $$ > pid; read _ < gate").start();
    env.pid_in("pid");
    env.run("t").counting("echo two").args(["--no-wait"]).answer().exits(122);
    env.run("t").counting("echo two").answer().exits(122);
    gate.open();
    owner.answer().exits(0);
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_mismatch_comes_before_held() {
    let env = TestEnv::new();
    env.run("pay").external().counting("exit 1").answer().exits(1);
    env.run("pay").external().counting("echo two").answer().exits(122);
    env.run("pay").external().counting("exit 1").answer().exits(121);
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_released_claim_mismatches_with_nothing() {
    let env = TestEnv::new();
    env.run("t").counting("exit 1").answer().exits(1);
    env.run("t").counting("echo $IDEM_ATTEMPT").answer().exits(0).prints("2\n").is_a_first_run();
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_cleared_claim_mismatches_with_nothing() {
    let env = TestEnv::new();
    env.run("t").counting("echo one").answer().exits(0);
    env.idem(["clear", "1"]).answer().exits(0);
    env.run("t").counting("echo two").answer().exits(0).prints("two\n").is_a_first_run();
    assert_eq!(env.runs(), 2);
}

#[test]
fn allow_command_change_is_the_way_out() {
    let env = TestEnv::new();
    env.run("t").counting("cat /dev/null; echo one").answer().exits(0);
    let changed = || env.run("t").counting("echo two").args(["--allow-command-change"]);
    changed().answer().exits(0).prints("one\n").is_a_replay();
    assert_eq!(env.runs(), 1);
    env.run("pay").external().counting("exit 1").answer().exits(1);
    env.run("pay").external().counting("exit 2").args(["--allow-command-change"]).answer().exits(121);
    assert_eq!(env.runs(), 2);
}

#[test]
fn arguments_that_are_not_utf_8_are_compared_byte_by_byte() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let env = TestEnv::new();
    let call = |byte: u8| {
        let odd = OsString::from_vec(vec![b'a', byte]);
        env.run("t").command([OsString::from("printf"), OsString::from("%s"), odd])
    };
    call(0xff).answer().exits(0).prints([b'a', 0xff]);
    call(0xff).answer().exits(0).prints([b'a', 0xff]).is_a_replay();
    call(0xfe).answer().exits(122).prints("");
}
