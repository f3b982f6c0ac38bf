//! What the command is given: its arguments with the key in them, and its environment, as bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::env::TestEnv;

/// The five names, one an argument of a `printf` that prints each on a line.
const ALL: [&str; 7] = ["printf", "%s\n", "{idem.key}", "{idem.uuid}", "{idem.short}", "{idem.id}", "{idem.attempt}"];

fn bytes(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[test]
fn the_five_names_in_the_arguments_are_replaced_by_what_the_environment_says_too() {
    let env = TestEnv::new();
    let told = "printf '%s\\n' \"$@\"; \
                printf '%s\\n' $IDEM_KEY $IDEM_KEY_UUID $IDEM_KEY_SHORT $IDEM_CLAIM $IDEM_ATTEMPT; exit 1";
    let command = ["sh", "-c", told].into_iter().chain(["sh"]).chain(ALL.into_iter().skip(2));
    let call = || env.run("t").args(["--subst"]).command(command.clone());
    for attempt in ["1", "2"] {
        let answer = call().answer();
        let text = answer.exits(1).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 10, "{answer}");
        assert_eq!(lines[..5], lines[5..], "{answer}");
        assert_eq!((lines[3], lines[4]), (attempt, attempt), "a new claim and a new attempt\n{answer}");
        assert_eq!((lines[0].len(), lines[1].len(), lines[2].len()), (64, 36, 32), "{answer}");
    }
}

#[test]
fn they_are_replaced_within_an_argument_and_as_often_as_they_are_there() {
    let env = TestEnv::new();
    let args =
        ["Key: {idem.id}/{idem.attempt}", "{idem.id}{idem.id}", "{{idem.id}}", "{idem.other} {idem} {} {idem.id"];
    let call = env.run("t").args(["--subst"]).command(["printf", "%s\n"].into_iter().chain(args));
    call.answer().exits(0).prints("Key: 1/1\n11\n{1}\n{idem.other} {idem} {} {idem.id\n");
}

#[test]
fn without_the_option_an_argument_stays_as_it_is() {
    let env = TestEnv::new();
    let call = env.run("t").command(ALL).answer();
    call.exits(0).prints("{idem.key}\n{idem.uuid}\n{idem.short}\n{idem.id}\n{idem.attempt}\n");
}

#[test]
fn nothing_but_arguments_is_replaced() {
    let env = TestEnv::new();
    let call = env.run("t").args(["--subst"]).var("OWN", "{idem.id}").stdin("{idem.id}");
    call.script("echo \"$OWN\"; cat").answer().exits(0).prints("{idem.id}\n{idem.id}");
    env.run("{idem.id}").args(["--subst"]).script("echo \"$IDEM_TOOL\"").answer().exits(0).prints("{idem.id}\n");
}

#[test]
fn commands_are_compared_before_anything_is_replaced() {
    let env = TestEnv::new();
    let call = |options: &[&str], argument: &str| {
        env.run("t").args(options.iter().copied()).command(["echo", argument]).answer()
    };
    let first = call(&["--subst"], "{idem.key}");
    let key = first.exits(0).text().trim_end().to_owned();
    call(&["--subst"], "{idem.key}").exits(0).prints(first.stdout()).is_a_replay();
    call(&["--subst"], &key).exits(122).prints("");
    call(&[], &key).exits(122).prints("");
    let retry = || env.run("retry").args(["--subst"]).counting(": {idem.attempt}; [ $IDEM_ATTEMPT = 3 ]");
    for code in [1, 1, 0, 0] {
        retry().answer().exits(code);
    }
    assert_eq!(env.runs(), 3, "another attempt's number makes no other command");
}

#[test]
fn the_envelope_has_the_command_as_it_was_given() {
    let env = TestEnv::new();
    let envelope = env.run("t").args(["--subst", "--json"]).command(["echo", "{idem.id}"]).answer().exits(0).envelope();
    assert_eq!(envelope["command"], serde_json::json!(["echo", "{idem.id}"]));
    assert_eq!(envelope["stdout"], "1\n");
}

#[test]
fn arguments_and_environment_reach_the_command_as_bytes() {
    let env = TestEnv::new();
    let raw = b"a\xff\xfe{idem.id}\x80\n";
    let command: [OsString; 3] = ["printf".into(), "%s".into(), bytes(raw)];
    env.run("plain").command(command.clone()).answer().exits(0).prints(raw);
    let call = env.run("subst").args(["--subst"]).command(command);
    call.answer().exits(0).prints(b"a\xff\xfe2\x80\n");
    let call = || env.run("env").args(["--quiet"]).var("RAW", bytes(b"\xc3\x28\xff")).script("printf %s \"$RAW\"");
    for _ in 0..2 {
        call().answer().exits(0).prints(b"\xc3\x28\xff");
    }
}

#[test]
fn a_program_whose_name_is_no_text_is_found_and_a_missing_one_is_reported() {
    let env = TestEnv::new();
    let name = bytes(b"./tool-\xff");
    std::os::unix::fs::symlink("/bin/echo", env.work().join(&name)).expect("a link");
    env.run("t").command([name, "hello".into()]).answer().exits(0).prints("hello\n");
    env.run("u").command([bytes(b"./none-\xff")]).answer().exits(127).says("nothing was run");
}

#[test]
fn the_environment_has_the_ten_names_and_the_rest_as_it_was() {
    let env = TestEnv::new();
    // What an enclosing call has told is replaced, all of it.
    let stale =
        ["KEY", "KEY_UUID", "KEY_SHORT", "CLAIM", "ATTEMPT", "TOOL", "TOKEN"].map(|name| format!("IDEM_{name}"));
    let mut call = env.run("t").command(["env"]);
    for name in &stale {
        call = call.var(name, "stale");
    }
    let answer = call.var("OWN", "kept").answer();
    let text = answer.exits(0).text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    let expected = [
        "HOME",
        "IDEM_ATTEMPT",
        "IDEM_CLAIM",
        "IDEM_CONV",
        "IDEM_KEY",
        "IDEM_KEY_SHORT",
        "IDEM_KEY_UUID",
        "IDEM_STORE",
        "IDEM_TOKEN",
        "IDEM_TOOL",
        "IDEM_WHO",
        "OWN",
        "PATH",
        "XDG_STATE_HOME",
    ];
    assert_eq!(names, expected, "{answer}");
    assert!(!text.contains("stale") && text.contains("OWN=kept\n"), "{answer}");
}
