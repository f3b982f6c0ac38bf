//! Marks that are refused: from outside, of another claim or attempt, and too late ones.

use crate::env::{Gate, TestEnv, become_free};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

#[test]
fn outside_of_a_command_a_mark_is_wrong_usage() {
    let env = TestEnv::new();
    env.idem(["mark", "landed"]).answer().exits(2).prints("").says("idem: ");
    env.run("t").script("exit 3").answer().exits(3);
    for claim in ["one", "", "1x"] {
        let call = env.idem(["mark", "landed"]).var("IDEM_STORE", env.store()).var("IDEM_CLAIM", claim);
        call.var("IDEM_TOKEN", "0123456789abcdef").answer().exits(2).prints("").says("idem: ");
    }
    for missing in ["IDEM_CLAIM", "IDEM_TOKEN"] {
        let script = format!("unset {missing}; {IDEM} mark landed; echo $?");
        env.run(missing).script(&script).answer().exits(0).prints("2\n").says("idem: ");
    }
    assert_eq!(env.rows("SELECT state, count(*) FROM claim GROUP BY 1"), ["completed|2", "released|1"]);
}

#[test]
fn a_number_or_a_token_that_can_be_none_is_wrong_usage_too() {
    let env = TestEnv::new();
    env.run("t").script("exit 3").answer().exits(3);
    for (claim, token) in [("-1", "0123456789abcdef"), ("1", "short"), ("1", "0123456789abcdeX")] {
        let call = env.idem(["mark", "landed"]).var("IDEM_STORE", env.store()).var("IDEM_CLAIM", claim);
        call.var("IDEM_TOKEN", token).answer().exits(2).prints("").says("idem: ");
    }
}

#[test]
fn a_word_that_is_no_mark_is_wrong_usage_inside_as_well() {
    let env = TestEnv::new();
    let script = format!("for word in '' unknown Landed 'landed sending'; do {IDEM} mark $word; echo $?; done");
    env.run("t").external().script(&format!("{script}; exit 7")).answer().exits(7).prints("2\n2\n2\n2\n");
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn a_mark_with_another_claims_number_or_token_changes_nothing() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner =
        env.run("one").external().script("echo $IDEM_TOKEN > token; echo $$ > pid; read _ < gate; exit 7").start();
    owner.command();
    let script = format!(
        "IDEM_CLAIM=1 {IDEM} mark landed; echo $?; IDEM_CLAIM=99 {IDEM} mark landed; echo $?; \
         IDEM_TOKEN=$(cat token) {IDEM} mark landed; echo $?; IDEM_TOKEN=0000000000000000 {IDEM} mark landed; echo $?; exit 7"
    );
    env.run("two").external().script(&script).answer().exits(7).prints("1\n1\n1\n1\n").says("idem: ");
    gate.open();
    owner.answer().exits(7);
    assert_eq!(env.states(), ["held", "held"]);
    for id in ["1", "2"] {
        assert!(env.event_details(id, "mark").is_empty(), "no mark was taken for {id}");
    }
}

#[test]
fn a_daemon_that_marks_after_the_end_of_its_attempt_is_refused() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let daemon = format!(
        "setsid sh -c 'echo $$ > daemon; read _ < gate; {IDEM} mark landed; echo $? > late' \
                          < /dev/null > /dev/null 2>&1 & until [ -s daemon ]; do :; done"
    );
    env.run("pay").external().script(&format!("{daemon}; exit 7")).answer().exits(7);
    let daemon = env.pid_in("daemon");
    gate.open();
    become_free(daemon);
    assert_eq!(env.text_of("late"), "1\n");
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn a_mark_comes_too_late_once_a_person_has_decided() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = format!("echo $$ > pid; read _ < gate; {IDEM} mark landed; echo $?; exit 7");
    let owner = env.run("pay").external().script(&script).start();
    owner.command();
    env.idem(["resolve", "1", "not-landed", "--force"]).answer().exits(0);
    gate.open();
    owner.answer().prints("1\n");
    assert_eq!(env.states(), ["released"]);
    assert!(env.event_details("1", "mark").is_empty());
}

#[test]
fn a_store_that_can_not_be_used_is_125() {
    let env = TestEnv::new();
    env.write("garbage", "this is no store".repeat(1000));
    let script = format!("IDEM_STORE=$PWD/garbage {IDEM} mark landed; echo $?; exit 7");
    env.run("pay").external().script(&script).answer().exits(7).prints("125\n").says("idem: ");
    assert_eq!(env.states(), ["held"]);
}
