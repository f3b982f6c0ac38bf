//! On a terminal, which the `script` program makes: idem asks before it changes something, and shows no raw text.

use crate::env::TestEnv;

/// Runs idem on a terminal where somebody types `typed`, and gives what is to be seen there.
fn on_a_terminal(env: &TestEnv, args: &[&str], typed: &str) -> String {
    let terminal = "export IDEM=\"$0\" ARGS=\"$*\"; script -qec '\"$IDEM\" $ARGS' /dev/null";
    let call = env.idem(args.iter().copied()).stdin(typed).under(["sh", "-c", terminal]);
    call.var("TERM", "dumb").answer().text()
}

#[test]
fn clear_shows_what_it_will_change_and_asks() {
    let env = TestEnv::new();
    env.run("mail").script("true").answer().exits(0);
    for no in ["n\n", "\n", "perhaps\n", ""] {
        let seen = on_a_terminal(&env, &["clear", "1"], no);
        assert!(seen.contains("claim 1") && seen.contains("mail") && seen.contains("[y/N]"), "{no:?}: {seen}");
        assert_eq!(env.states(), ["completed"], "{no:?} is no yes");
    }
    on_a_terminal(&env, &["clear", "1"], "y\n");
    assert_eq!(env.states(), ["cleared"]);
}

#[test]
fn resolve_asks_as_well_and_a_yes_on_the_command_line_answers_for_clear() {
    let env = TestEnv::new();
    env.run("pay").external().script("exit 1").answer().exits(1);
    let seen = on_a_terminal(&env, &["resolve", "1", "landed"], "n\n");
    assert!(seen.contains("claim 1") && seen.contains("[y/N]"), "{seen}");
    assert_eq!(env.states(), ["held"]);
    on_a_terminal(&env, &["resolve", "1", "landed"], "y\n");
    assert_eq!(env.states(), ["completed"]);
    on_a_terminal(&env, &["clear", "1", "--yes"], "");
    assert_eq!(env.states(), ["cleared"]);
}

#[test]
fn clear_by_filter_asks_on_a_terminal() {
    let env = TestEnv::new();
    env.run("mail").script("true").answer().exits(0);
    env.run("mail").params("1").script("true").answer().exits(0);
    on_a_terminal(&env, &["clear", "--tool", "mail"], "n\n");
    assert_eq!(env.states(), ["completed", "completed"]);
    let seen = on_a_terminal(&env, &["clear", "--tool", "mail"], "y\n");
    assert!(seen.contains("claim 1") && seen.contains("claim 2"), "{seen}");
    assert_eq!(env.states(), ["cleared", "cleared"]);
}

#[test]
fn text_of_a_call_can_not_steer_the_terminal() {
    let env = TestEnv::new();
    let evil = "\u{1b}]0;owned\u{7}";
    env.run(evil).params("\"\\u001b]0;owned\\u0007\"").script("printf '\\033]0;owned\\007'").answer().exits(0);
    for args in [&["list"][..], &["show", "1"], &["clear", "1"]] {
        let seen = on_a_terminal(&env, args, "n\n");
        assert!(!seen.contains("\u{1b}]0;"), "{args:?}: {seen:?}");
    }
}
