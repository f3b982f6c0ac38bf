//! Stores as an older idem made them.

use std::fmt::Write;
use std::process::{Command, Stdio};

use crate::env::{TestEnv, set_mode};

const STEPS: [&str; 3] = [
    include_str!("../../src/store/sqlite/schema/001.sql"),
    include_str!("../../src/store/sqlite/schema/002.sql"),
    include_str!("../../src/store/sqlite/schema/003.sql"),
];

/// Makes the default store as this schema had it, with a completed claim of `done`, a held one of `unclear` and a
/// released one of `gone`.
pub(crate) fn make(env: &TestEnv, schema: usize) {
    let mut sql = STEPS[..schema].concat();
    let rows = [
        ("done", "local", "echo result", "'completed', 'exit', 'landed', 0"),
        ("unclear", "external", "exit 7", "'held', 'exit', 'unknown', 7"),
        ("gone", "local", "exit 1", "'released', 'exit', 'not-landed', 1"),
    ];
    for (tool, effect, script, end) in rows {
        let key = env.idem(["key", "--who", "agent", "--conv", "c1", "--tool", tool]).answer().exits(0).text();
        let key = key.trim();
        let command: String = format!("sh\0-c\0{script}\0").bytes().map(|byte| format!("{byte:02x}")).collect();
        writeln!(
            sql,
            "INSERT INTO claim (key, effect, attempt, who, conv, tool, params, command, created_at, finished_at, lock_offset,
                                lock_inode, owner, process, state, reason, outcome, exit_code)
             VALUES ('{key}', '{effect}', 1, 'agent', 'c1', '{tool}', '{{}}', x'{command}', 1000, 2000, 7, 7, 'a@h[1]',
                     'start 9, boot b', {end});"
        )
        .expect("room");
    }
    sql += "INSERT INTO output (claim, stream, data) VALUES (1, 1, CAST('result' || char(10) AS BLOB));
            INSERT INTO event VALUES (1, 1, 1000, 'run', 'a@h[1]', NULL);";
    write!(sql, "PRAGMA user_version = {schema}; PRAGMA application_id = 0x6964656d; PRAGMA journal_mode = WAL;")
        .expect("room");
    let folder = env.state_home().join("idem");
    std::fs::create_dir(&folder).expect("the store's folder");
    set_mode(&folder, 0o700);
    let script = std::fs::File::open(env.write("old.sql", sql)).expect("the script");
    let mut sqlite3 = Command::new("sqlite3");
    let made = sqlite3.arg("-bail").arg(env.store()).stdin(script).stdout(Stdio::null()).status().expect("sqlite3");
    assert!(made.success(), "sqlite3: {made}");
    set_mode(&env.store(), 0o600);
}
