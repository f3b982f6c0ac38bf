//! A look into the store from outside, by the `sqlite3` program.

use std::path::Path;
use std::process::Command;

use super::TestEnv;

impl TestEnv {
    /// The rows of a query on the default store, columns parted by `|`. It never changes the store.
    #[track_caller]
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        sqlite3(&self.store(), &["-readonly"], query)
    }

    /// Changes the default store behind idem's back.
    #[track_caller]
    pub(crate) fn tamper(&self, statement: &str) -> Vec<String> {
        sqlite3(&self.store(), &[], statement)
    }

    /// The states of all attempts, oldest first.
    #[track_caller]
    pub(crate) fn states(&self) -> Vec<String> {
        self.rows("SELECT state FROM claim ORDER BY id")
    }
}

#[track_caller]
fn sqlite3(store: &Path, options: &[&str], statement: &str) -> Vec<String> {
    let output = Command::new("sqlite3")
        .args(["-batch", "-noheader", "-init", "/dev/null"])
        .args(options)
        .args(["-cmd", ".timeout 10000"])
        .arg(store)
        .arg(statement)
        .output()
        .unwrap_or_else(|error| panic!("these tests need the sqlite3 program: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "sqlite3 {}: {statement}: {complaint}", store.display());
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
