//! `idem stats`: what did idem save us?

use crate::env::{Gate, TestEnv};

#[test]
fn runs_and_what_was_kept_from_running_are_counted_by_tool_and_day() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    env.run("mail").script("true").answer().exits(0);
    for _ in 0..3 {
        env.run("mail").script("true").answer().exits(0).is_a_replay();
    }
    env.run("mail").script("false").answer().exits(122);
    env.run("pay").external().script("exit 7").answer().exits(7);
    env.run("pay").external().script("exit 7").answer().exits(121);
    env.run("build").script("exit 1").answer().exits(1);
    let owner = env.run("slow").script("echo $$ > pid; read _ < gate").start();
    owner.command();
    env.run("slow").args(["--no-wait"]).script("echo $$ > pid; read _ < gate").answer().exits(120);

    let stats = env.idem(["stats", "--json"]).answer().exits(0).json_line();
    for (name, number) in [
        ("runs", 4),
        ("replays", 3),
        ("mismatches", 1),
        ("held", 1),
        ("busy", 1),
        ("kept_from_running", 6),
        ("failures", 2),
        ("held_now", 1),
        ("running_now", 1),
    ] {
        assert_eq!(stats[name], number, "{name} in {stats}");
    }
    let tools: Vec<_> = stats["by_tool"].as_array().expect("tools").iter().map(|tool| &tool["tool"]).collect();
    assert_eq!(tools, ["build", "mail", "pay", "slow"]);
    assert_eq!(stats["by_tool"][1]["kept_from_running"], 4);
    let days = stats["by_day"].as_array().expect("days");
    let runs: u64 = days.iter().filter_map(|day| day["runs"].as_u64()).sum();
    assert_eq!(runs, 4, "{stats}");
    let text = env.idem(["stats"]).answer();
    for words in ["4 runs", "6 duplicates kept from running", "3 replays", "mail", "TOOL", "DAY"] {
        assert!(text.exits(0).text().contains(words), "{words:?}\n{text}");
    }
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn filters_and_time_choose_what_is_counted() {
    let env = TestEnv::new();
    env.run("old").script("true").answer().exits(0);
    env.idem(["stats"]).answer().exits(0);
    env.tamper("UPDATE event SET at = at - 10 * 86400000; UPDATE claim SET finished_at = finished_at - 10 * 86400000");
    env.run("old").script("true").answer().exits(0).is_a_replay();
    env.idem(["run", "--who", "w", "--conv", "c2", "--tool", "new"]).script("true").answer().exits(0);
    let counted = |args: &[&str]| {
        let stats = env.idem(["stats", "--json"]).args(args.iter().copied()).answer().json_line();
        (stats["runs"].as_u64(), stats["replays"].as_u64())
    };
    assert_eq!(counted(&[]), (Some(2), Some(1)));
    assert_eq!(counted(&["--since", "2d"]), (Some(1), Some(1)));
    assert_eq!(counted(&["--since", "2020-01-01T00:00:00Z"]), (Some(2), Some(1)));
    assert_eq!(counted(&["--tool", "old"]), (Some(1), Some(1)));
    assert_eq!(counted(&["--who", "w"]), (Some(1), Some(0)));
    assert_eq!(counted(&["--conv", "c2", "--tool", "old"]), (Some(0), Some(0)));
    env.idem(["stats", "--tool", "none"]).answer().exits(1).prints("");
    env.idem(["stats", "--since", "soon"]).answer().exits(2);
}

#[test]
fn no_store_has_seen_nothing_and_none_is_made() {
    let env = TestEnv::new();
    env.idem(["stats"]).answer().exits(1).prints("");
    assert!(!env.store().exists());
}

#[test]
fn a_tools_name_can_not_steer_the_terminal() {
    let env = TestEnv::new();
    env.run("t\u{1b}]0;owned\u{7}").script("true").answer().exits(0);
    let answer = env.idem(["stats"]).answer();
    assert!(!answer.exits(0).stdout().contains(&0x1b), "{answer}");
}
