//! The table of `idem list`: aligned whatever the names are, whole where it is piped, cut on a terminal, held never missed.

use crate::env::{Answer, TestEnv};

/// Runs idem on a terminal of this width, and gives what is to be seen there, without the carriage returns.
fn on_a_terminal(env: &TestEnv, columns: u32, args: &[&str], vars: &[(&str, &str)]) -> String {
    let terminal =
        format!("export IDEM=\"$0\" ARGS=\"$*\"; script -qec 'stty cols {columns} rows 24; \"$IDEM\" $ARGS' /dev/null");
    let mut call = env.idem(args.iter().copied()).under(["sh".to_owned(), "-c".to_owned(), terminal]);
    for (name, value) in [("TERM", "xterm")].iter().chain(vars) {
        call = call.var(name, *value);
    }
    call.answer().text().replace('\r', "")
}

/// Names of every width that a cell can have, with the cells that they take on a terminal.
const NAMES: [(&str, usize); 9] = [
    ("plain", 5),
    ("漢字の名前", 10),
    ("e\u{301}te\u{301}", 3),
    ("a\u{200b}b", 2),
    ("שלום", 4),
    ("سلام", 4),
    ("ｗｉｄｅ", 8),
    ("🦀🦀", 4),
    ("\u{1b}[31m\u{202e}x", 19),
];

fn named_claims(env: &TestEnv) {
    for (name, _) in NAMES {
        env.idem(["run", "--who", name, "--conv", "c", "--tool", "t"]).script("true").answer().exits(0);
    }
}

#[test]
fn every_row_is_aligned_whatever_is_in_its_names() {
    let env = TestEnv::new();
    named_claims(&env);
    let answer = env.idem(["list"]).answer();
    let text = answer.exits(0).text();
    assert!(!text.chars().any(|char| char.is_control() && char != '\n'), "no control character is raw\n{answer}");
    assert!(!text.contains('\u{202e}'), "nothing turns the line around\n{answer}");
    let widest = NAMES.iter().map(|(_, cells)| cells).max().expect("names");
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), NAMES.len());
    for (row, (name, cells)) in rows.iter().rev().zip(NAMES) {
        let shown = if name.contains('\u{1b}') { "\\u{1b}[31m\\u{202e}x" } else { name };
        let rest = row.split_once(shown).unwrap_or_else(|| panic!("{shown:?} is not in {row:?}")).1;
        let padding = rest.len() - rest.trim_start().len();
        assert_eq!(cells + padding, widest + 2, "{name:?} is padded to the column's width\n{answer}");
    }
}

#[test]
fn on_a_terminal_no_line_is_longer_than_it_and_elsewhere_nothing_is_cut() {
    let env = TestEnv::new();
    let long = "x".repeat(60);
    for name in ["漢".repeat(30), long.clone()] {
        env.idem(["run", "--who", &name, "--conv", "c1", "--tool", &long, "--external"]).script("exit 1").answer();
    }
    let piped = env.idem(["list"]).answer();
    assert!(piped.exits(0).text().contains(&long) && piped.text().contains(&"漢".repeat(30)), "{piped}");
    let seen = on_a_terminal(&env, 90, &["list", "--color", "never"], &[]);
    assert!(seen.contains('…') && !seen.contains(&long), "{seen}");
    let cells = |line: &str| line.chars().map(|char| if char == '漢' { 2 } else { 1 }).sum::<usize>();
    for line in seen.lines() {
        assert!(cells(line) <= 90, "{} cells: {line}", cells(line));
    }
    assert_eq!(seen.lines().filter(|line| line.contains("<== held")).count(), 2, "what is held is said\n{seen}");
    let ends: Vec<usize> = seen.lines().filter_map(|line| Some(cells(line.split_once("  <== held")?.0))).collect();
    assert_eq!(ends[0], ends[1], "cut rows are aligned too\n{seen}");
}

#[test]
fn a_name_that_runs_from_right_to_left_keeps_its_place_on_a_terminal() {
    let env = TestEnv::new();
    env.idem(["run", "--who", "שלום", "--conv", "عربي", "--tool", "t"]).script("true").answer().exits(0);
    let seen = on_a_terminal(&env, 100, &["list"], &[]);
    assert!(seen.contains("\u{2068}שלום\u{2069}  \u{2068}عربي\u{2069}"), "{seen}");
    let piped = env.idem(["list"]).answer().text();
    assert!(!piped.contains('\u{2068}'), "who pipes it gets the names as they are: {piped}");
}

#[test]
fn colour_is_for_terminals_and_for_who_asks_for_it() {
    let env = TestEnv::new();
    env.run("pay").external().script("exit 1").answer().exits(1);
    let colored = |text: &str| text.contains("\u{1b}[");
    let piped = |args: &[&str]| env.idem(args.iter().copied()).answer().text();
    assert!(!colored(&piped(&["list"])));
    assert!(colored(&piped(&["list", "--color", "always"])));
    assert!(colored(&on_a_terminal(&env, 100, &["list"], &[])));
    assert!(!colored(&on_a_terminal(&env, 100, &["list"], &[("NO_COLOR", "1")])));
    assert!(colored(&on_a_terminal(&env, 100, &["list"], &[("NO_COLOR", "")])), "an empty NO_COLOR says nothing");
    assert!(colored(&on_a_terminal(&env, 100, &["list", "--color", "always"], &[("NO_COLOR", "1")])));
    assert!(!colored(&on_a_terminal(&env, 100, &["list", "--color", "never"], &[])));
}

#[test]
fn what_is_held_is_marked_in_any_colour_and_nothing_else_is() {
    let env = TestEnv::new();
    env.run("mail").script("true").answer().exits(0);
    env.run("pay").external().script("exit 1").answer().exits(1);
    let text = env.idem(["list"]).answer().text();
    let marked: Vec<&str> = text.lines().filter(|line| line.ends_with("<== held")).collect();
    assert_eq!(marked.len(), 1, "{text}");
    assert!(marked[0].contains("pay"), "{text}");
}

fn ids(answer: &Answer) -> Vec<String> {
    let id = |line: &str| line.split_whitespace().next().expect("an id").to_owned();
    answer.text().lines().skip(1).map(id).collect()
}

#[test]
fn fifty_are_shown_and_a_line_says_how_many_more_there_are_and_how_many_of_them_wait() {
    let env = TestEnv::new();
    env.run("pay").external().script("exit 1").answer().exits(1);
    let many =
        "n=0; while [ $n -lt 53 ]; do n=$((n+1)); \"$0\" run --who a --conv c --tool t --params $n -- true; done";
    env.idem(Vec::<String>::new()).under(["sh", "-c", many]).answer().exits(0);
    let answer = env.idem(["list"]).answer();
    answer.exits(0).says_exactly("idem: 4 more claims match, 1 of them held; --limit 0 shows all\n");
    let shown = ids(&answer);
    assert_eq!((shown.len(), shown[0].as_str(), shown[49].as_str()), (50, "54", "5"), "newest first");
    let json = env.idem(["list", "--json"]).answer();
    assert_eq!(json.exits(0).says("4 more").envelopes().len(), 50);
    env.idem(["list", "--limit", "53"]).answer().exits(0).says("1 more claim matches, 1 of them held");
    env.idem(["list", "--tool", "t", "--limit", "52"])
        .answer()
        .says_exactly("idem: 1 more claim matches; --limit 0 shows all\n");
    for all in [["list", "--limit", "0"], ["list", "--limit", "54"]] {
        let answer = env.idem(all).answer();
        answer.exits(0).says_exactly("");
        assert_eq!(ids(&answer).len(), 54);
    }
}

#[test]
fn older_than_and_since_leave_a_span() {
    let env = TestEnv::new();
    for n in 1..=3 {
        env.run("t").params(&n.to_string()).script("true").answer().exits(0);
    }
    env.tamper("UPDATE claim SET created_at = created_at - 3600000 * 2 * (3 - id)");
    let listed = |args: &[&str]| ids(&env.idem(["list"]).args(args.iter().copied()).answer());
    assert_eq!(listed(&["--older-than", "1h"]), ["2", "1"]);
    assert_eq!(listed(&["--older-than", "3h"]), ["1"]);
    assert_eq!(listed(&["--older-than", "1h", "--since", "3h"]), ["2"]);
    env.idem(["list", "--older-than", "5h"]).answer().exits(1).prints("");
    env.idem(["list", "--older-than", "yesterday"]).answer().exits(2).prints("");
}

#[test]
fn states_are_named_in_the_help_and_in_the_error() {
    let env = TestEnv::new();
    env.idem(["list", "--state", "frozen"])
        .answer()
        .exits(2)
        .says("running, completed, held, released, cleared, expired");
    let help = env.idem(["list", "--help"]).answer().text();
    assert!(help.contains("held") && help.contains("Examples:"), "{help}");
}
