//! Stores that an older idem made are brought up to date, and no row is lost.

use std::process::Command;

use crate::env::{TestEnv, set_mode};

/// Makes the store as schema 1 had it, with these rows of `claim` for calls of the tools `done`, `unclear` and `gone`.
fn schema_1(env: &TestEnv) {
    // The keys are computed by today's program, elsewhere: they are the contract's and don't change.
    let other = TestEnv::new();
    other.run("done").script("echo result").answer().exits(0);
    other.run("unclear").external().script("exit 7").answer().exits(7);
    other.run("gone").script("exit 1").answer().exits(1);
    let keys = other.rows("SELECT key FROM claim ORDER BY id");
    let mut sql = include_str!("../../src/store/sqlite/schema/001.sql").to_owned();
    let rows = [
        ("done", "local", "echo result", "'completed', 'exit', 'landed', 0"),
        ("unclear", "external", "exit 7", "'held', 'exit', 'unknown', 7"),
        ("gone", "local", "exit 1", "'released', 'exit', 'not-landed', 1"),
    ];
    for (key, (tool, effect, script, end)) in keys.iter().zip(rows) {
        let command = hex(&format!("sh\0-c\0{script}\0"));
        sql += &format!(
            "INSERT INTO claim (key, effect, attempt, who, conv, tool, params, command, created_at, finished_at, lock_offset,
                                lock_inode, owner, process, state, reason, outcome, exit_code)
             VALUES ('{key}', '{effect}', 1, 'agent', 'c1', '{tool}', '{{}}', x'{command}', 1000, 2000, 7, 7, 'a@h[1]',
                     'start 9, boot b', {end});"
        );
    }
    sql += &format!("INSERT INTO output (claim, stream, data) VALUES (1, 1, x'{}');", hex("result\n"));
    sql += "INSERT INTO event VALUES (1, 1, 1000, 'run', 'a@h[1]', NULL);";
    sql += "PRAGMA user_version = 1; PRAGMA application_id = 0x6964656d; PRAGMA journal_mode = WAL;";
    let folder = env.state_home().join("idem");
    std::fs::create_dir(&folder).expect("the store's folder");
    set_mode(&folder, 0o700);
    let script = env.write("schema-1.sql", sql);
    let script = std::fs::File::open(script).expect("the script");
    let made = Command::new("sqlite3").arg("-bail").arg(env.store()).stdin(script).output().expect("sqlite3");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    set_mode(&env.store(), 0o600);
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_store_of_schema_1_goes_on_as_it_was() {
    let env = TestEnv::new();
    schema_1(&env);
    env.run("done").counting("echo result").answer().exits(122);
    env.run("done").script("echo result").answer().exits(0).prints("result\n").is_a_replay();
    env.run("unclear").external().script("exit 7").answer().exits(121);
    assert_eq!(env.rows("PRAGMA user_version"), ["4"]);
    assert_eq!(env.states(), ["completed", "held", "released"]);
    // Nothing is known of when the host was up: a window is counted by the wall clock alone, and has long been over.
    env.run("unclear").external().args(["--resend-within", "1h"]).script("exit 7").answer().exits(121);
    // What is new works on what is old.
    env.run("unclear").external().args(["--probe", "echo there"]).script("exit 7").answer().exits(0).prints("there\n");
    env.run("gone").script("exit 1").answer().exits(1).is_a_first_run();
    assert_eq!(env.rows("SELECT attempt FROM claim ORDER BY id"), ["1", "1", "1", "2"]);
    assert_eq!(env.shown("1")["events"][0]["kind"], "run");
}

#[test]
fn sixty_four_at_once_bring_a_store_up_to_date_once() {
    let env = TestEnv::new();
    schema_1(&env);
    let all: Vec<_> = (0..64).map(|_| env.run("done").script("echo result").start()).collect();
    for one in all {
        one.answer().exits(0).is_a_replay();
    }
    assert_eq!(env.states(), ["completed", "held", "released"]);
}
