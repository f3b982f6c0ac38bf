//! `idem policy`: all that is wrong with a policy, and what applies to a tool.

use idem::domain::policy::KEYS;
use serde_json::json;

use crate::env::{TestEnv, set_mode};

const POLICY: &str = "\
[defaults]
effect = \"local\"
keep-failure = true

[tools.\"mail.*\"]
effect = \"external\"
not-landed-exit = [6, 7]   # the server said no
timeout = \"30s\"

[tools.\"mail.send\"]
timeout = \"10s\"
";

#[test]
fn check_says_all_that_is_wrong_each_with_its_line() {
    let env = TestEnv::new();
    let path = env.write_policy(
        "[defaults]\nefect = \"local\"\ntimeout = \"soon\"\n[tools.\"a*\"]\n[tools.\"a*b\"]\nmarks = 1\n[other]\n",
    );
    let answer = env.idem(["policy", "check"]).answer();
    answer.exits(1).says_exactly("");
    let text = answer.text();
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<String> = [2, 3, 5, 6, 7].iter().map(|line| format!("{}:{line}: ", path.display())).collect();
    assert_eq!(lines.len(), starts.len(), "{answer}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(&start), "{start}\n{answer}");
    }
}

#[test]
fn check_takes_a_path_an_option_or_the_default() {
    let env = TestEnv::new();
    env.idem(["policy", "check"]).answer().exits(1).says("there is no policy");
    let path = env.write("own.toml", "[defaults]\nnonsense = 1\n");
    set_mode(&path, 0o600);
    env.write_policy(POLICY);
    env.idem(["policy", "check"]).answer().exits(0).says_exactly("");
    for args in [&["own.toml"][..], &["--policy", "own.toml"]] {
        let answer = env.idem(["policy", "check"]).args(args.iter().copied()).answer();
        assert!(answer.exits(1).text().contains("own.toml:2: "), "{answer}");
    }
    env.idem(["policy", "check", "missing"]).answer().exits(125).says("not there");
    set_mode(&path, 0o666);
    env.idem(["policy", "check", "own.toml"]).answer().exits(1).prints("").says("other users can write");
}

#[test]
fn a_mistake_of_the_syntax_has_its_line() {
    let env = TestEnv::new();
    let path = env.write_policy("[defaults]\nmarks = true\ntimeout = 30s\n");
    let answer = env.idem(["policy", "check"]).answer();
    assert!(answer.exits(1).text().starts_with(&format!("{}:3: ", path.display())), "{answer}");
}

#[test]
fn show_tells_what_applies_and_from_which_line() {
    let env = TestEnv::new();
    let path = env.write_policy(POLICY);
    let at = |line: usize| format!("{}:{line}", path.display());
    let answer = env.idem(["policy", "show", "mail.send"]).answer();
    let text = answer.exits(0).says_exactly("").text();
    let rows: Vec<Vec<String>> = text
        .lines()
        .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(|cell| cell.trim().to_owned()).collect())
        .collect();
    let row = |said: &str, line: usize, section: &str| vec![said.to_owned(), format!("{} [{section}]", at(line))];
    let expected = vec![
        row("effect = \"external\"", 6, "tools.\"mail.*\""),
        row("not-landed-exit = [6, 7]", 7, "tools.\"mail.*\""),
        row("timeout = \"10s\"", 11, "tools.\"mail.send\""),
    ];
    assert_eq!(rows, expected, "what is for local calls alone isn't told of an external one\n{answer}");
}

#[test]
fn show_speaks_json() {
    let env = TestEnv::new();
    let path = env.write_policy(POLICY);
    let shown = env.idem(["policy", "show", "other", "--json"]).answer().exits(0).json_lines();
    let keys = json!({
        "effect": {"value": "\"local\"", "line": 2, "section": "defaults"},
        "keep-failure": {"value": "true", "line": 3, "section": "defaults"},
    });
    assert_eq!(shown, [json!({"tool": "other", "policy": path, "keys": keys})]);
}

#[test]
fn show_of_a_tool_without_rules_and_of_no_policy() {
    let env = TestEnv::new();
    env.idem(["policy", "show", "t"]).answer().exits(1).prints("").says("there is no policy");
    let path = env.write_policy("");
    let nothing = format!("{} says nothing of t\n", path.display());
    env.idem(["policy", "show", "t"]).answer().exits(0).prints(nothing);
    env.write_policy("[defaults]\nx = 1\n");
    env.idem(["policy", "show", "t"]).answer().exits(125).says("policy.toml:2");
    env.idem(["policy", "show", ""]).answer().exits(2);
}

#[test]
fn what_a_policy_says_never_reaches_a_terminal_raw() {
    let env = TestEnv::new();
    env.write_policy("[tools.\"t\\u001b[2J*\"]\ntimeout = \"1s\"\nx\u{202e}y = 1\n");
    let answer = env.idem(["policy", "check"]).answer();
    assert!(answer.code() == Some(1), "{answer}");
    let text = answer.text() + &answer.messages();
    assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{answer}");
}

#[test]
fn the_policy_page_has_every_key_and_its_example_is_sound() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policy.md")).expect("the page");
    for key in KEYS {
        assert!(page.contains(&format!("\n| `{key}` |")), "{key} has no row in docs/policy.md");
    }
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let env = TestEnv::new();
    env.write_policy(example);
    env.idem(["policy", "check"]).answer().exits(0);
}
