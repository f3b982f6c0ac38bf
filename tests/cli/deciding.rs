//! `clear` and `resolve` of several claims: what they say beforehand, what they need to be told, and what they leave alone.

use crate::env::{Gate, TestEnv};

/// Claims 1 and 2 of pay and 3 of mail are held, 4 of mail is completed.
fn claims(env: &TestEnv) {
    for (tool, params) in [("pay", "1"), ("pay", "2"), ("mail", "3")] {
        env.run(tool).params(params).external().script("echo sent; exit 1").answer().exits(1);
    }
    env.run("mail").params("4").script("true").answer().exits(0);
}

/// The states of the four.
const BEFORE: [&str; 4] = ["held", "held", "held", "completed"];

#[test]
fn several_claims_are_resolved_by_their_ids() {
    let env = TestEnv::new();
    claims(&env);
    let answer = env.idem(["resolve", "1", "3", "1", "landed"]).answer();
    answer.exits(0).prints(
        "claim 1 went from held to completed: later arrivals get its result\n\
         claim 3 went from held to completed: later arrivals get its result\n",
    );
    assert_eq!(env.states(), ["completed", "held", "completed", "completed"]);
    env.run("pay").params("1").external().script("echo sent; exit 1").answer().exits(0).prints("sent\n").is_a_replay();
    env.idem(["resolve", "2", "--note", "looked it up", "not-landed"]).answer().exits(0);
    assert_eq!(env.states()[1], "released", "options may stand between id and outcome");
}

#[test]
fn resolve_by_filter_needs_a_yes_and_takes_only_what_nobody_knows() {
    let env = TestEnv::new();
    claims(&env);
    let answer = env.idem(["resolve", "landed", "--tool", "mail"]).answer();
    answer.exits(2).prints("").says("would resolve claim 3 (agent / c1 / mail), from held to completed").says("--yes");
    answer.does_not_say("claim 4");
    assert_eq!(env.states(), BEFORE);
    env.idem(["resolve", "not-landed", "--tool", "pay", "--who", "agent", "--conv", "c1", "--yes"]).answer().exits(0);
    assert_eq!(env.states(), ["released", "released", "held", "completed"]);
    env.idem(["resolve", "landed", "--tool", "pay", "--yes"]).answer().exits(1).says("nothing was changed");
    env.idem(["resolve", "landed", "--conv", "other", "--yes"]).answer().exits(1);
    assert_eq!(env.states(), ["released", "released", "held", "completed"]);
}

#[test]
fn where_one_claim_can_not_be_resolved_none_is() {
    let env = TestEnv::new();
    claims(&env);
    env.idem(["resolve", "1", "4", "landed"]).answer().exits(1).prints("").says("claim 4 is completed already");
    env.idem(["resolve", "1", "9", "landed"]).answer().exits(1).prints("").says("no claim 9");
    assert_eq!(env.states(), BEFORE);
}

#[test]
fn a_living_owner_is_left_alone_by_a_filter() {
    let env = TestEnv::new();
    claims(&env);
    let gate = Gate::new(&env, "gate");
    let owner = env.run("pay").params("5").script("echo $$ > pid; read _ < gate").start();
    owner.command();
    let answer = env.idem(["resolve", "landed", "--tool", "pay", "--yes"]).answer();
    assert!(!answer.exits(0).text().contains("claim 5"), "{answer}");
    assert_eq!(env.states()[4], "running");
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn what_resolve_is_told_has_to_have_one_meaning() {
    let env = TestEnv::new();
    claims(&env);
    env.write("out", "x");
    let lines: [&[&str]; 9] = [
        &["resolve"],
        &["resolve", "1"],
        &["resolve", "1", "2", "--yes"],
        &["resolve", "landed"],
        &["resolve", "landed", "--yes"],
        &["resolve", "1", "landed", "not-landed"],
        &["resolve", "1", "landed", "--tool", "pay"],
        &["resolve", "1", "2", "landed", "--stdout", "out"],
        &["resolve", "landed", "--state", "held"],
    ];
    for line in lines {
        env.idem(line.iter().copied()).answer().exits(2).prints("").says("idem: ");
    }
    assert_eq!(env.states(), BEFORE);
}

#[test]
fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let env = TestEnv::new();
    claims(&env);
    let dry = |args: &[&str]| {
        let answer = env.idem(args.iter().copied()).args(["--dry-run"]).answer();
        answer.exits(0).says_exactly("");
        assert_eq!(env.states(), BEFORE, "{answer}");
        answer.text()
    };
    assert_eq!(
        dry(&["clear", "1", "4"]),
        "would clear claim 1 (agent / c1 / pay), which is held: its next arrival runs the command, though it may have \
         landed\n\
         would clear claim 4 (agent / c1 / mail), which is completed: its next arrival runs the command\n"
    );
    assert_eq!(dry(&["clear", "--tool", "mail"]).lines().count(), 2, "a filter needs no --yes to be tried");
    assert_eq!(dry(&["clear", "--tool", "mail", "--yes"]).lines().count(), 2, "--yes makes it no less dry");
    let resolve =
        "would resolve claim 2 (agent / c1 / pay), from held to released: the next arrival runs the command\n";
    assert_eq!(dry(&["resolve", "2", "not-landed"]), resolve);
    assert_eq!(dry(&["resolve", "landed", "--tool", "pay", "--yes"]).lines().count(), 2);
    env.idem(["clear", "--tool", "none", "--dry-run"]).answer().exits(1);
    env.idem(["resolve", "4", "landed", "--dry-run"]).answer().exits(1);
    env.idem(["clear", "--dry-run"]).answer().exits(2);
}

#[test]
fn a_claim_that_is_named_twice_is_cleared_once() {
    let env = TestEnv::new();
    claims(&env);
    env.idem(["clear", "4", "4", "1"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared", "held", "held", "cleared"]);
}

#[test]
fn names_of_a_call_do_not_steer_what_is_said_beforehand() {
    let env = TestEnv::new();
    env.run("t\u{1b}[2J\u{202e}").external().script("exit 1").answer().exits(1);
    for line in [["clear", "1", "--dry-run"].as_slice(), &["resolve", "1", "landed", "--dry-run"]] {
        let text = env.idem(line.iter().copied()).answer().text();
        assert!(text.contains("t\\u{1b}[2J\\u{202e}"), "{text:?}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
}
