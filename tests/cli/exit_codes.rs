//! Every exit code of the README's table, each by a real process that exits with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::env::{Answer, Gate, TestEnv};

/// How a code comes about.
type Way = fn(&TestEnv) -> Answer;

/// The table: of which command, the code, and a way to it.
const TABLE: &[(&str, i32, Way)] = &[
    ("run", 0, |env| env.run("t").script("true").answer()),
    ("run", 7, |env| env.run("t").script("exit 7").answer()),
    ("run", 128 + 15, |env| env.run("t").script("kill -TERM $$").answer()),
    ("run", 120, busy),
    ("run", 121, |env| {
        held(env);
        env.run("held").external().script("exit 1").answer()
    }),
    ("run", 122, |env| {
        env.run("t").script("true").answer().exits(0);
        env.run("t").script("echo other").answer()
    }),
    ("run", 124, |env| env.run("t").args(["--timeout", "100ms"]).script("exec sleep 60").answer()),
    ("run", 125, |env| env.run("t").params("no JSON").script("true").answer()),
    ("run", 125, |env| env.run("t").args(["--no-such-option"]).script("true").answer()),
    ("run", 125, |env| env.run("t").args(["--store", "/nowhere/idem.db"]).script("true").answer()),
    ("run", 126, |env| env.run("t").command(["/"]).answer()),
    ("run", 127, |env| env.run("t").command(["no-such-program-anywhere"]).answer()),
    ("the others", 0, |env| {
        held(env);
        env.idem(["list"]).answer()
    }),
    ("the others", 1, |env| {
        held(env);
        env.idem(["show", "99"]).answer()
    }),
    ("the others", 1, |env| {
        held(env);
        env.idem(["list", "--tool", "none"]).answer()
    }),
    ("the others", 1, |env| {
        held(env);
        env.idem(["resolve", "1", "landed"]).answer().exits(0);
        env.idem(["resolve", "1", "landed"]).answer()
    }),
    ("the others", 1, |env| {
        held(env);
        env.idem(["reconcile", "1"]).answer()
    }),
    ("the others", 2, |env| env.idem(["list", "--no-such-option"]).answer()),
    ("the others", 2, |env| {
        held(env);
        env.idem(["clear", "--tool", "held"]).answer()
    }),
    ("the others", 2, |env| {
        env.idem(["key", "--who", "a", "--conv", "c", "--tool", "t", "--params", "no JSON"]).answer()
    }),
    ("the others", 125, |env| {
        env.write("idem.db", "no store of anybody's");
        env.idem(["list", "--store", "idem.db"]).answer()
    }),
];

fn held(env: &TestEnv) {
    env.run("held").external().script("exit 1").answer().exits(1);
}

fn busy(env: &TestEnv) -> Answer {
    let gate = Gate::new(env, "gate");
    let call = || env.run("t").script("echo $$ > pid; read _ < gate");
    let owner = call().start();
    owner.command();
    let answer = call().args(["--no-wait"]).answer();
    gate.open();
    owner.answer().exits(0);
    answer
}

#[test]
fn every_exit_code_comes_about_as_the_table_says() {
    for (of, code, way) in TABLE {
        let env = TestEnv::new();
        let answer = way(&env);
        assert_eq!(answer.code(), Some(*code), "of {of}\n{answer}");
        let is_own = *of == "the others" && *code > 0 || *of == "run" && (120..=127).contains(code);
        assert!(
            !is_own || answer.messages().starts_with("idem: ") || answer.text().starts_with("claim "),
            "a code of idem's own is explained\n{answer}"
        );
    }
}

#[test]
fn the_readme_has_every_code_and_no_other() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("the README");
    let section = readme.split_once("## Exit codes").expect("its section").1;
    let section = section.split("\n## ").next().expect("its text");
    let mut written = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let of = cells[1].trim_matches('`').to_owned();
        written.extend(cells[0].split(", ").filter_map(|code| Some((of.clone(), code.parse::<i32>().ok()?))));
    }
    // The command's own codes stand in a row of their own, without numbers.
    let own = |of: &str, code: i32| of == "run" && !(120..=127).contains(&code);
    let produced = TABLE.iter().filter(|(of, code, _)| !own(of, *code));
    let produced: BTreeSet<(String, i32)> = produced.map(|(of, code, _)| ((*of).to_owned(), *code)).collect();
    assert_eq!(written, produced);
}

#[test]
fn the_man_page_of_run_has_every_code_of_idem() {
    let run = idem::cli::manual::PAGES.iter().find(|page| page.verb == "run").expect("a page");
    for (_, code, _) in TABLE.iter().filter(|(of, code, _)| *of == "run" && (120..=127).contains(code)) {
        assert!(run.statuses.iter().any(|(status, _)| *status == code.to_string()), "{code}");
    }
}
