//! Who waits on a terminal sees for whom and since when; nobody else is told anything.

use crate::env::{Gate, TestEnv, wait_for};

/// Starts a run on a terminal whose content goes to the file `screen`.
fn on_a_terminal<'a>(env: &'a TestEnv, options: &str, tool: &str, script: &str) -> crate::env::Running {
    let terminal = "export IDEM=\"$0\" OPTIONS=\"$1\" TOOL=\"$2\" SCRIPT=\"$3\"; exec script -qefc \
                    'stty cols 120 rows 24; exec \"$IDEM\" run --who agent --conv c1 --tool $TOOL $OPTIONS -- sh -c \"$SCRIPT\"' \
                    screen";
    let call: crate::env::Call<'a> = env.idem([options, tool, script]).under(["sh", "-c", terminal]);
    call.var("TERM", "xterm").start()
}

const BLOCKED: &str = "echo $$ > pid; read _ < gate; echo done";

#[test]
fn a_wait_for_an_owner_says_who_it_is_and_goes_away() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").script(BLOCKED).start();
    owner.command();
    let actor = env.shown("1")["owner"].as_str().expect("an owner").to_owned();
    env.tamper("UPDATE claim SET created_at = created_at - 7200000");
    let waiter = on_a_terminal(&env, "", "t", BLOCKED);
    let line = format!("claim 1 is run by {actor}; waiting for its end");
    wait_for("the line", || env.text_of("screen").contains(&line).then_some(()));
    assert!(env.text_of("screen").contains("idem: 2h"), "for how long: {:?}", env.text_of("screen"));
    gate.open();
    owner.answer().exits(0);
    waiter.answer().exits(0);
    let screen = env.text_of("screen");
    let after = screen.rsplit_once(&line).expect("the line").1;
    assert!(after.contains("\u{1b}[2K"), "the line is taken away: {screen:?}");
    assert!(after.contains("done") && after.contains("replay of claim 1"), "then comes the answer: {screen:?}");
}

#[test]
fn a_wait_for_a_probe_is_shown_too() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner =
        env.run("t").external().args(["--probe", "echo $$ > pid; read _ < gate; exit 0"]).script("exit 1").start();
    owner.command();
    let waiter = on_a_terminal(&env, "--external", "t", "exit 1");
    wait_for("the line", || env.text_of("screen").contains("its target is being asked").then_some(()));
    gate.open();
    owner.answer().exits(0);
    waiter.answer().exits(0);
}

#[test]
fn a_wait_is_not_shown_to_who_wants_it_quiet_nor_where_nobody_looks() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").script(BLOCKED).start();
    owner.command();
    let piped = env.run("t").script(BLOCKED).start();
    let quiet = on_a_terminal(&env, "--quiet", "t", BLOCKED);
    env.wait_for_waiters(2);
    gate.open();
    owner.answer().exits(0);
    let piped = piped.answer();
    piped.exits(0).does_not_say("waiting");
    assert_eq!(piped.messages().lines().count(), 1, "the replay's note alone\n{piped}");
    quiet.answer().exits(0);
    let seen: String = env.text_of("screen").lines().filter(|line| !line.starts_with("Script ")).collect();
    assert_eq!(seen.trim_end_matches('\r'), "done", "nothing but the result");
}

#[test]
fn a_wait_that_runs_out_takes_its_line_away_before_it_says_so() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").script(BLOCKED).start();
    owner.command();
    on_a_terminal(&env, "--wait 1s", "t", BLOCKED).answer().exits(120);
    let screen = env.text_of("screen");
    let (before, after) = screen.rsplit_once("waiting for its end").expect("the line");
    assert!(before.contains("claim 1 is run by"), "{screen:?}");
    assert!(after.contains("\u{1b}[2K") && after.contains("still running after the wait"), "{screen:?}");
    gate.open();
    owner.answer().exits(0);
}
