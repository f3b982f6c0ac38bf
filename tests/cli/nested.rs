//! A call inside itself would wait for itself: that is an error at once, never a deadlock.

use crate::env::{Running, TestEnv};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// `idem run` as a shell script writes it.
fn nested(tool: &str, command: &str) -> String {
    format!("{IDEM} run --who agent --conv c1 --tool {tool} -- {command}")
}

/// A script that runs itself under idem, once, and reports how that ended.
fn in_itself(idem_run: &str, tool: &str) -> String {
    // The inner call has the very arguments of the outer one, so that this isn't a matter of another command.
    format!(
        "echo run >> runs; if [ -e inner ]; then exit 0; fi; touch inner; \
         {idem_run} --who agent --conv c1 --tool {tool} -- sh -c \"$0\" \"$0\"; echo inner exit $?"
    )
}

#[test]
fn the_same_call_inside_itself_is_an_error_at_once() {
    let env = TestEnv::new();
    let script = in_itself(&format!("{IDEM} run"), "t");
    let answer = env.run("t").command(["sh", "-c", &script, &script]).answer();
    answer.exits(0).prints("inner exit 125\n").says("inside itself").says("nothing was run");
    assert_eq!(env.runs(), 1);
}

#[test]
fn it_is_no_matter_of_waiting_or_of_the_command() {
    let env = TestEnv::new();
    for (n, option) in ["", "--no-wait", "--allow-command-change", "--external"].into_iter().enumerate() {
        let tool = format!("t{n}");
        let inner = format!("{IDEM} run --who agent --conv c1 --tool {tool} {option} -- echo two; echo inner exit $?");
        let answer = env.run(&tool).script(&inner).answer();
        answer.exits(0).prints("inner exit 125\n").says("inside itself").says("nothing was run");
    }
}

#[test]
fn a_call_two_levels_inside_itself_is_an_error_as_well() {
    let env = TestEnv::new();
    let inner = format!("{}; echo inner exit $?", nested("a", "echo deep"));
    let middle = nested("b", &format!("sh -c '{inner}'"));
    let answer = env.run("a").script(&middle).answer();
    answer.exits(0).prints("inner exit 125\n").says("inside itself");
}

#[test]
fn a_cleared_environment_does_not_hide_that_a_call_is_inside_itself() {
    let env = TestEnv::new();
    // The inner idem is told nothing, but it has inherited the lock of the claim that it would wait for, for ever.
    let cleared = "env -i HOME=\"$HOME\" XDG_STATE_HOME=\"$XDG_STATE_HOME\"";
    let script = in_itself(&format!("{cleared} {IDEM} run --wait 1s"), "t");
    let answer = env.run("t").command(["sh", "-c", &script, &script]).answer();
    answer.exits(0).prints("inner exit 125\n").says("inside itself").says("nothing was run");
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_call_inside_itself_on_another_store_is_another_call() {
    let env = TestEnv::new();
    let other = env.file("other.db");
    let inner = format!("{IDEM} run --store {} --who agent --conv c1 --tool t -- echo two", other.display());
    env.run("t").script(&inner).answer().exits(0).prints("two\n");
}

#[test]
fn another_call_inside_a_call_runs() {
    let env = TestEnv::new();
    let script = format!("{}; echo outer", nested("step", "echo inner"));
    env.run("t").script(&script).answer().exits(0).prints("inner\nouter\n");
    assert_eq!(env.states(), ["completed", "completed"]);
}

#[test]
fn a_step_takes_who_and_conv_from_the_call_around_it_but_names_its_own_tool() {
    let env = TestEnv::new();
    env.run("outer").script(&format!("{IDEM} run --tool step -- true")).answer().exits(0);
    assert_eq!(env.rows("SELECT who, conv, tool FROM claim ORDER BY id"), ["agent|c1|outer", "agent|c1|step"]);
    let untold = env.run("untold").script(&format!("{IDEM} run -- true; echo inner exit $?")).answer();
    untold.exits(0).prints("inner exit 125\n").says("--tool");
}

#[test]
fn calls_that_run_beside_each_other_are_not_taken_for_nested_ones() {
    let env = TestEnv::new();
    let call = || env.run("t").counting("echo done");
    let arrivals: Vec<Running> = (0..8).map(|_| call().start()).collect();
    for arrival in arrivals {
        arrival.answer().exits(0).prints("done\n");
    }
    assert_eq!(env.runs(), 1);
}
