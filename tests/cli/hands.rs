//! The commands for people: list, show, clear, resolve and key.

use crate::env::{Gate, TestEnv};

/// Three claims: 1 completed, 2 held, 3 released.
fn three_claims(env: &TestEnv) {
    env.run("mail").params(r#"{"to":"x"}"#).script("echo sent; echo noted >&2").answer().exits(0);
    env.run("pay").external().script("echo half; exit 7").answer().exits(7);
    env.run("build").script("exit 1").answer().exits(1);
}

fn ids(env: &TestEnv, filter: &[&str]) -> Vec<i64> {
    let answer = env.idem(["list", "--json"]).args(filter).answer();
    let id = |claim: &serde_json::Value| claim["id"].as_i64().unwrap_or_else(|| panic!("an id\n{answer}"));
    let mut ids: Vec<i64> = answer.envelopes().iter().map(id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn list_shows_who_did_what_and_how_it_stands() {
    let env = TestEnv::new();
    three_claims(&env);
    let answer = env.idem(["list", "--all"]).answer();
    let text = answer.exits(0).text();
    for word in ["mail", "pay", "build", "completed", "held", "released", "agent", "c1"] {
        assert!(text.contains(word), "the list has {word:?}\n{answer}");
    }
}

#[test]
fn list_filters_by_state_who_conv_tool_and_age() {
    let env = TestEnv::new();
    three_claims(&env);
    env.idem(["run", "--who", "other", "--conv", "c2", "--tool", "mail"]).script("true").answer().exits(0);
    assert_eq!(ids(&env, &["--all"]), [1, 2, 3, 4]);
    assert_eq!(ids(&env, &[]), [1, 2, 4], "history is shown with --all only");
    assert_eq!(ids(&env, &["--state", "held"]), [2]);
    assert_eq!(ids(&env, &["--state", "released"]), [3], "who asks for history gets it");
    assert_eq!(ids(&env, &["--who", "other"]), [4]);
    assert_eq!(ids(&env, &["--conv", "c2"]), [4]);
    assert_eq!(ids(&env, &["--tool", "mail"]), [1, 4]);
    assert_eq!(ids(&env, &["--tool", "mail", "--who", "agent"]), [1]);
    assert_eq!(ids(&env, &["--since", "1h"]), [1, 2, 4]);
    assert_eq!(ids(&env, &["--since", "2020-01-01T00:00:00Z"]), [1, 2, 4]);
    assert_eq!(ids(&env, &["--limit", "1"]).len(), 1);
    env.idem(["list", "--since", "2999-01-01T00:00:00Z"]).answer().exits(1).prints("");
    env.idem(["list", "--who", "nobody"]).answer().exits(1).prints("");
}

#[test]
fn an_empty_store_and_no_store_have_nothing_to_list_and_none_is_made() {
    let env = TestEnv::new();
    env.idem(["list"]).answer().exits(1).prints("");
    env.idem(["show", "1"]).answer().exits(1).prints("").says("idem: ");
    env.idem(["clear", "1"]).answer().exits(1).prints("");
    env.idem(["resolve", "1", "landed"]).answer().exits(1).prints("");
    assert!(!env.store().exists(), "to look is not to make");
}

#[test]
fn a_claim_that_is_not_there_is_1_and_changes_nothing() {
    let env = TestEnv::new();
    three_claims(&env);
    for id in ["4", "999999", "key:0000000000"] {
        let named = id.trim_start_matches("key:");
        env.idem(["show", id]).answer().exits(1).prints("").says(named);
        env.idem(["clear", id]).answer().exits(1).says(named);
        env.idem(["resolve", id, "landed"]).answer().exits(1).says(named);
    }
    assert_eq!(env.states(), ["completed", "held", "released"]);
}

#[test]
fn show_tells_everything_about_a_claim() {
    let env = TestEnv::new();
    three_claims(&env);
    let answer = env.idem(["show", "2"]).answer();
    let text = answer.exits(0).text();
    for word in ["pay", "held", "unknown", "agent", "c1", "half"] {
        assert!(text.contains(word), "it tells {word:?}\n{answer}");
    }
}

/// What an arrival meets is the newest attempt's matter.
#[test]
fn show_of_an_earlier_attempt_names_the_later_one() {
    let env = TestEnv::new();
    let call =
        |code: &str| env.run("t").external().args(["--allow-command-change"]).script(&format!("exit {code}")).answer();
    call("7").exits(7);
    env.idem(["resolve", "1", "not-landed"]).answer().exits(0);
    let newest = env.idem(["show", "1"]).answer().text();
    assert!(newest.contains("claim 1 is released: the next arrival runs the command"), "{newest}");
    call("8").exits(8);
    let earlier = env.idem(["show", "1"]).answer().text();
    assert!(earlier.contains("it is history; a later attempt of its call, claim 2, is held"), "{earlier}");
    assert!(earlier.contains("`idem show 2`") && !earlier.contains("the next arrival runs"), "{earlier}");
}

#[test]
fn a_list_without_a_match_says_where_there_is_one() {
    let env = TestEnv::new();
    env.run("t").script("exit 1").answer().exits(1);
    env.idem(["list"]).answer().exits(1).says("no claim matches").says("--all shows it");
    env.idem(["list", "--tool", "other"]).answer().exits(1).does_not_say("--all");
    env.idem(["list", "--all", "--tool", "other"]).answer().exits(1).does_not_say("--all");
}

#[test]
fn clearing_what_is_held_says_that_it_may_have_landed() {
    let env = TestEnv::new();
    three_claims(&env);
    env.run("held").external().script("exit 7").answer().exits(7);
    let text = env.idem(["clear", "1", "4"]).answer().exits(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        !lines[0].contains("though") && lines[1].ends_with("runs the command, though it may have landed"),
        "{text}"
    );
}

#[test]
fn show_gives_back_the_raw_output() {
    let env = TestEnv::new();
    env.run("t").command(["printf", r"\377\000\033[31m"]).answer().exits(0);
    env.idem(["show", "1", "--stdout"]).answer().exits(0).prints(b"\xff\x00\x1b[31m").says_exactly("");
    env.run("e").script("echo warning >&2").answer().exits(0);
    env.idem(["show", "2", "--stderr"]).answer().exits(0).prints("warning\n").says_exactly("");
    env.idem(["show", "2", "--stdout"]).answer().exits(0).prints("").says_exactly("");
}

#[test]
fn a_claim_is_found_by_a_prefix_of_its_key() {
    let env = TestEnv::new();
    three_claims(&env);
    let key = &env.rows("SELECT key FROM claim WHERE id = 2")[0];
    for length in [64, 12] {
        let id = format!("key:{}", &key[..length]);
        assert_eq!(env.shown(&id)["id"], 2);
    }
    env.idem(["resolve", &format!("key:{}", &key[..12]), "landed"]).answer().exits(0);
    assert_eq!(env.states()[1], "completed");
}

#[test]
fn a_prefix_that_fits_two_claims_chooses_none() {
    let env = TestEnv::new();
    for n in 0..17 {
        env.run("t").params(&n.to_string()).script("true").answer().exits(0);
    }
    // Seventeen keys have sixteen first digits at most.
    let digit = &env.rows("SELECT substr(key, 1, 1) FROM claim GROUP BY 1 HAVING count(*) > 1 LIMIT 1")[0];
    let answer = env.idem(["clear", &format!("key:{digit}")]).answer();
    assert!(matches!(answer.code(), Some(1 | 2)), "it is refused\n{answer}");
    answer.says("idem: ");
    assert!(env.states().iter().all(|state| state == "completed"), "nothing was cleared");
}

#[test]
fn clear_takes_several_claims_at_once() {
    let env = TestEnv::new();
    three_claims(&env);
    env.idem(["clear", "1", "2"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared", "cleared", "released"]);
}

#[test]
fn clear_by_filter_needs_a_yes() {
    let env = TestEnv::new();
    three_claims(&env);
    env.idem(["clear", "--tool", "mail"]).answer().exits(2).says("--yes");
    assert_eq!(env.states(), ["completed", "held", "released"], "without it nothing is changed");
    env.idem(["clear", "--tool", "mail", "--yes"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared", "held", "released"]);
    env.idem(["clear", "--state", "held", "--who", "agent", "--conv", "c1", "--yes"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared", "cleared", "released"]);
    env.idem(["clear", "--tool", "mail", "--yes"]).answer().exits(1);
}

#[test]
fn clear_with_nothing_named_clears_nothing() {
    let env = TestEnv::new();
    three_claims(&env);
    env.idem(["clear"]).answer().exits(2);
    env.idem(["clear", "--yes"]).answer().exits(2);
    assert_eq!(env.states(), ["completed", "held", "released"]);
}

#[test]
fn clear_by_filter_leaves_a_living_owner_alone() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").script("echo $$ > pid; read _ < gate").start();
    env.pid_in("pid");
    let answer = env.idem(["clear", "--tool", "t", "--yes"]).answer();
    assert_ne!(answer.code(), Some(0), "it was not cleared\n{answer}");
    assert_eq!(env.states(), ["running"]);
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn wrong_usage_of_the_commands_for_people_is_2() {
    let env = TestEnv::new();
    three_claims(&env);
    let lines: [&[&str]; 10] = [
        &["list", "--no-such-option"],
        &["list", "--state", "no-such-state"],
        &["list", "--since", "yesterday-ish"],
        &["show"],
        &["show", "not-an-id"],
        &["clear", "0x1"],
        &["resolve", "2"],
        &["resolve", "2", "perhaps"],
        &["resolve", "2", "not-landed", "--exit", "1"],
        &["no-such-command"],
    ];
    for line in lines {
        env.idem(line.iter().copied()).answer().exits(2).prints("").says("idem: ");
    }
    assert_eq!(env.states(), ["completed", "held", "released"]);
}

#[test]
fn key_prints_the_key_and_makes_no_store() {
    let env = TestEnv::new();
    let identity = ["key", "--who", "u1", "--conv", "c1", "--tool", "t"];
    let params = ["--params", r#"{"c":"x","b":[true,false,null],"a":1.0}"#];
    let key = "a9809a1bcb0f07fe2e513eb168289c13b2f6ea914cd490dc5efe31584c9a5699";
    env.idem(identity).args(params).answer().exits(0).prints(format!("{key}\n")).says_exactly("");
    let explained = env.idem(identity).args(params).args(["--explain"]).answer();
    let canonical = r#"["idem/1","u1","c1","t",{"a":1,"b":[true,false,null],"c":"x"}]"#;
    let text = explained.exits(0).text();
    assert!(text.contains(canonical) && text.contains(key), "the canonical text and the key\n{explained}");
    assert!(!env.store().exists(), "a key needs no store");
}

#[test]
fn control_characters_of_a_call_do_not_reach_a_table() {
    let env = TestEnv::new();
    env.run("t\u{1b}]0;owned\u{7}").script("true").answer().exits(0);
    let answer = env.idem(["list"]).answer();
    assert!(!answer.exits(0).stdout().contains(&0x1b), "an escape is shown, not sent\n{answer}");
    let answer = env.idem(["show", "1"]).answer();
    assert!(!answer.exits(0).stdout().contains(&0x1b), "an escape is shown, not sent\n{answer}");
}

#[test]
fn help_is_a_word_as_well_as_an_option() {
    let env = TestEnv::new();
    for (word, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "run"], &["run", "--help"]),
        (&["help", "policy", "show"], &["policy", "show", "--help"]),
    ] {
        let page = env.idem(option).answer().exits(0).text();
        assert!(page.contains("Usage: idem"), "{page}");
        env.idem(word).answer().exits(0).prints(&page);
    }
    env.idem(["help", "nonsense"]).answer().exits(2).prints("").says("nonsense");
    env.idem(["help", "--store", "x"]).answer().exits(2).prints("").says("help");
    // It is a word like any other where a command begins.
    env.run("t").command(["echo", "help"]).answer().exits(0).prints("help\n");
}
