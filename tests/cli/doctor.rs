//! `idem doctor`: where the store is, whether it is well, and what to do where it isn't.

use std::fs;

use serde_json::Value;

use crate::env::{Gate, KILL_IDEM, TestEnv, set_mode};

/// What doctor says, and its exit code.
fn doctor(env: &TestEnv, code: i32) -> Value {
    env.idem(["doctor", "--json"]).answer().exits(code).json_line()
}

/// The finding of one check that isn't fine.
#[track_caller]
fn trouble(health: &Value, check: &str) -> Value {
    let findings = health["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["check"] == check && finding["level"] != "fine");
    found.unwrap_or_else(|| panic!("{check} in {health}")).clone()
}

#[test]
fn a_store_that_is_well_is_0_and_everything_is_told() {
    let env = TestEnv::new();
    env.run("t").script("true").answer().exits(0);
    let answer = env.idem(["doctor"]).answer();
    let text = answer.exits(0).text();
    let store = env.store().display().to_string();
    for words in [&store[..], "by default", "mode 0700", "mode 0600", "version 4", "write-ahead log", "synced", "free"]
    {
        assert!(text.contains(words), "{words:?}\n{answer}");
    }
    for words in ["freed by its death", "integrity", "whole", "SQLite 3.", "0 claims with an owner that lives"] {
        assert!(text.contains(words), "{words:?}\n{answer}");
    }
    let health = doctor(&env, 0);
    assert_eq!((&health["store"], &health["decided_by"]), (&store.into(), &"default".into()));
    assert_eq!(env.states(), ["completed"]);
}

#[test]
fn it_tells_what_decided_on_the_place() {
    let env = TestEnv::new();
    env.run("t").script("true").answer().exits(0);
    let store = env.store();
    let by_env = env.idem(["doctor", "--json"]).var("IDEM_STORE", &store).answer().json_line();
    assert_eq!(by_env["decided_by"], "IDEM_STORE");
    let flag = ["--store".into(), store.clone().into_os_string()];
    let by_flag = env.idem(["doctor", "--json"]).args(flag).var("IDEM_STORE", "/else").answer().json_line();
    assert_eq!((&by_flag["decided_by"], &by_flag["store"]), (&"--store".into(), &store.to_str().into()));
}

#[test]
fn to_look_makes_no_store() {
    let env = TestEnv::new();
    let health = doctor(&env, 0);
    assert!(trouble(&health, "store")["message"].as_str().is_some_and(|text| text.contains("first run makes it")));
    assert!(!env.state_home().join("idem").exists());
    let file = env.file("idem.db").into_os_string();
    env.idem(["doctor".into(), "--store".into(), file]).answer().exits(0);
    assert_eq!(fs::read_dir(env.work()).expect("the folder").count(), 0);
}

#[test]
fn a_store_that_can_not_be_used_is_125_with_the_advice_of_a_run() {
    let env = TestEnv::new();
    let missing = env.file("none/idem.db").into_os_string();
    let answer = env.idem(["doctor".into(), "--store".into(), missing]).answer();
    assert!(answer.exits(125).text().contains("create the folder"), "{answer}");
    env.run("t").script("true").answer().exits(0);
    set_mode(&env.store(), 0o666);
    let health = doctor(&env, 125);
    assert_eq!(health["level"], "unusable");
    assert!(trouble(&health, "store")["hint"].as_str().is_some_and(|hint| hint.contains("chmod go-w")), "{health}");
    set_mode(&env.store(), 0o600);
    env.tamper("PRAGMA user_version = 99");
    let health = doctor(&env, 125);
    assert!(trouble(&health, "store")["hint"].as_str().is_some_and(|hint| hint.contains("newer idem")), "{health}");
    env.tamper("PRAGMA user_version = 4");
    set_mode(env.store().parent().expect("a folder"), 0o777);
    trouble(&doctor(&env, 125), "store");
    set_mode(env.store().parent().expect("a folder"), 0o700);
    doctor(&env, 0);
    env.idem(["doctor"]).no_var("HOME").no_var("XDG_STATE_HOME").answer().exits(125);
}

#[test]
fn claims_that_wait_for_somebody_are_told_with_what_to_do() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    env.run("held").external().script("exit 1").answer().exits(1);
    env.run("dead").script(KILL_IDEM).answer();
    let owner = env.run("alive").script("echo $$ > pid; read _ < gate").start();
    owner.command();
    let health = doctor(&env, 1);
    let held = trouble(&health, "held");
    assert!(
        held["message"].as_str().is_some_and(|text| text.contains("1 claim held") && text.ends_with(": 1")),
        "{held}"
    );
    let dead = trouble(&health, "owner-dead");
    assert!(dead["message"].as_str().is_some_and(|text| text.ends_with(": 2")), "{dead}");
    assert!(dead["hint"].as_str().is_some_and(|hint| hint.contains("idem reconcile")), "{dead}");
    assert_eq!(env.states(), ["held", "running", "running"], "to look changes nothing");
    fs::remove_file(env.beside_store("-lock")).expect("the lock file");
    let lost = trouble(&doctor(&env, 1), "owner-unprovable");
    assert!(
        lost["message"].as_str().is_some_and(|text| text.ends_with(": 2 and 3") || text.ends_with(": 3")),
        "{lost}"
    );
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn rights_leftovers_and_damage_need_attention() {
    let env = TestEnv::new();
    env.run("t").script("true").answer().exits(0);
    set_mode(&env.store(), 0o644);
    assert!(trouble(&doctor(&env, 1), "file")["hint"].as_str().is_some_and(|hint| hint.contains("chmod 600")));
    set_mode(&env.store(), 0o600);
    fs::write(env.beside_store("-new"), "").expect("a leftover");
    trouble(&doctor(&env, 1), "leftover");
    fs::remove_file(env.beside_store("-new")).expect("the leftover");
    env.tamper("PRAGMA writable_schema = 1; DELETE FROM sqlite_schema WHERE name = 'claim_held'");
    let damaged = trouble(&doctor(&env, 1), "integrity");
    assert!(damaged["message"].as_str().is_some_and(|text| text.contains("never used")), "{damaged}");
    let unseen = env.idem(["doctor", "--integrity", "none", "--json"]).answer().exits(0).json_line();
    assert_eq!(trouble(&unseen, "integrity")["level"], "note");
}
