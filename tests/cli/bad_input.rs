//! Bad input: each with a message of its own, exit 125, and nothing run or written.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::env::{Answer, TestEnv};

/// `idem run` with these options and a command that is counted; it must refuse and leave no trace.
#[track_caller]
fn refused<A: Into<OsString>>(options: impl IntoIterator<Item = A>) -> Answer {
    let env = TestEnv::new();
    let answer = env.idem(["run"]).args(options).counting("true").answer();
    answer.refuses();
    assert_eq!(env.runs(), 0, "nothing is run\n{answer}");
    assert!(!env.store().exists(), "and no store is made\n{answer}");
    answer
}

#[track_caller]
fn refused_params(params: &[u8]) -> Answer {
    let identity = ["--who", "a", "--conv", "c", "--tool", "t", "--params"].map(OsString::from);
    refused(identity.into_iter().chain([OsString::from_vec(params.to_vec())]))
}

#[test]
fn a_command_without_its_dashes_is_told_where_they_belong() {
    let env = TestEnv::new();
    let forgotten = env.idem(["run", "--who", "a", "--conv", "c", "--tool", "t", "echo", "hi"]).answer();
    forgotten.exits(125).says("nothing was run").says("put `--` before the command").does_not_say("tip");
    let unknown = env.idem(["run", "--who", "a", "--conv", "c", "--name", "t", "--", "echo"]).answer();
    // What the parser would advise makes the option the command.
    unknown.exits(125).says("--name").does_not_say("to pass").does_not_say("put `--`");
    env.idem(["run", "--who", "a", "--parms", "{}", "--", "echo"]).answer().exits(125).says("--params");
}

#[test]
fn each_missing_part_of_the_identity_is_named() {
    refused(["--conv", "c", "--tool", "t"]).says("--who");
    refused(["--who", "a", "--tool", "t"]).says("--conv");
    refused(["--who", "a", "--conv", "c"]).says("--tool");
}

#[test]
fn all_parts_of_the_identity_that_are_missing_are_named_at_once() {
    refused::<&str>([])
        .says("no who, no conv and no tool")
        .says("with --who or IDEM_WHO, --conv or IDEM_CONV, and --tool\n");
    refused(["--conv", "c"]).says("no who and no tool").says("with --who or IDEM_WHO, and --tool\n");
    refused(["--conv", "c", "--tool", "t"]).says("no who;").says("name it with --who or IDEM_WHO\n");
    // What is missing is told before what is wrong with the others.
    refused(["--who", "", "--tool", "t"]).says("no conv;");
}

#[test]
fn each_empty_part_of_the_identity_is_named() {
    refused(["--who", "", "--conv", "c", "--tool", "t"]).says("who").says("empty");
    refused(["--who", "a", "--conv", "", "--tool", "t"]).says("conv").says("empty");
    refused(["--who", "a", "--conv", "c", "--tool", ""]).says("tool").says("empty");
}

#[test]
fn an_empty_variable_is_no_identity() {
    for (name, word) in [("IDEM_WHO", "who"), ("IDEM_CONV", "conv")] {
        let env = TestEnv::new();
        let call = env.idem(["run", "--tool", "t"]).var("IDEM_WHO", "a").var("IDEM_CONV", "c").var(name, "");
        call.counting("true").answer().refuses().says(word);
        assert_eq!(env.runs(), 0);
    }
}

#[test]
fn key_refuses_an_empty_or_missing_identity_too() {
    let env = TestEnv::new();
    env.idem(["key", "--who", "", "--conv", "c", "--tool", "t"]).answer().exits(2).prints("").says("empty");
    env.idem(["key", "--who", "a", "--conv", "c"]).answer().exits(2).prints("").says("--tool");
    env.idem(["key", "--who", "a", "--conv", "c", "--tool", "t", "--params", "{"]).answer().exits(2).prints("");
}

#[test]
fn an_identity_that_is_not_utf_8_is_refused() {
    for name in ["--who", "--conv", "--tool"] {
        let mut options: Vec<OsString> = Vec::new();
        for part in ["--who", "--conv", "--tool"] {
            let value = if part == name { vec![b'x', 0xff] } else { b"x".to_vec() };
            options.extend([OsString::from(part), OsString::from_vec(value)]);
        }
        refused(options).says("UTF-8");
    }
}

#[test]
fn params_that_are_no_json_are_refused_with_the_offset() {
    // The second number is where the error can be said to end: the whole of a word that is none, for example.
    let cases: [(&[u8], usize, usize); 12] = [
        (b"", 0, 0),
        (b"  ", 2, 2),
        (b"\xef\xbb\xbf{}", 0, 0),
        (b"NaN", 0, 0),
        (b"{\"a\":01}", 5, 6),
        (b"{\"a\":1 // one\n}", 7, 7),
        (b"{} {}", 3, 3),
        (b"[1,]", 3, 3),
        (b"{\"a\":+1}", 5, 5),
        (b"{'a':1}", 1, 1),
        (b"[\"a\nb\"]", 3, 3),
        (b"[true, fals]", 7, 11),
    ];
    for (params, from, to) in cases {
        let answer = refused_params(params);
        let messages = answer.messages();
        let named = (from..=to).any(|offset| messages.contains(&format!("byte {offset}:")));
        assert!(named && messages.contains("syntax"), "a syntax error at byte {from} to {to}\n{answer}");
    }
}

#[test]
fn each_class_of_error_has_a_message_of_its_own() {
    let deep = "[".repeat(101) + &"]".repeat(101);
    let cases: [(&[u8], &str, usize); 8] = [
        (b"[\"\xff\"]", "UTF-8", 2),
        (b"{\"a\":1]", "byte", 6),
        (br#"["\ud800"]"#, "surrogate", 2),
        (br#"["\udc00\ud800"]"#, "surrogate", 2),
        (br#"{"a":1,"a":2}"#, "twice", 7),
        (br#"{"b":{"a":1,"\u0061":2}}"#, "twice", 12),
        (deep.as_bytes(), "100", 100),
        (b"[1e1000000000]", "exponent", 1),
    ];
    for (params, word, offset) in cases {
        refused_params(params).says(word).says(&format!("byte {offset}"));
    }
}

#[test]
fn a_member_name_that_is_there_twice_is_named() {
    refused_params(br#"{"amount":1,"amount":2}"#).says("amount");
}

#[test]
fn params_that_can_not_be_read_are_refused() {
    refused(["--who", "a", "--conv", "c", "--tool", "t", "--params", "@no/such/file"]).says("no/such/file");
    refused(["--who", "a", "--conv", "c", "--tool", "t", "--params", "@/"]).says("nothing was run");
    refused(["--who", "a", "--conv", "c", "--tool", "t", "--params", "-"]).says("byte 0");
}

#[test]
fn no_command_is_refused() {
    let env = TestEnv::new();
    env.run("t").answer().refuses();
    env.run("t").args(["--"]).answer().refuses();
    env.run("t").command([""]).answer();
    assert!(!env.has("runs"));
}

#[test]
fn unknown_and_malformed_options_are_refused() {
    const IDENTITY: [&str; 6] = ["--who", "a", "--conv", "c", "--tool", "t"];
    let cases: [&[&str]; 16] = [
        &["--no-such-option"],
        &["--wait", "soon"],
        &["--wait", "-1s"],
        &["--wait", "1s", "--no-wait"],
        &["--landed-exit", "x"],
        &["--landed-exit", "256"],
        &["--landed-exit", "9-5"],
        &["--landed-exit", ""],
        &["--not-landed-exit", "-1"],
        &["--landed-exit", "5", "--not-landed-exit", "4-6"],
        &["--not-landed-exit", "0"],
        &["--occurrence", "0"],
        &["--occurrence", "two"],
        &["--external", "--rerun-if-interrupted"],
        &["--who", "b"],
        &["--params", "{}", "--params", "[]"],
    ];
    for options in cases {
        refused(IDENTITY.iter().chain(options)).says("nothing was run");
    }
}

#[test]
fn a_misspelt_option_is_answered_with_the_right_one() {
    refused(["--who", "a", "--conv", "c", "--tool", "t", "--extrenal"]).says("--external");
}

#[test]
fn an_option_of_the_command_is_the_commands() {
    let env = TestEnv::new();
    let identity = ["run", "--who", "agent", "--conv", "c1", "--tool", "t"];
    env.idem(identity).command(["echo", "--external", "--", "-x"]).answer().exits(0).prints("--external -- -x\n");
}

#[test]
fn text_of_a_call_in_a_message_can_not_steer_a_terminal() {
    let messages = refused_params(b"{\"\x1b[2J\":1,\"\\u001b[2J\":2}");
    assert!(!messages.stderr().contains(&0x1b), "{messages}");
    let messages = refused_params(b"{\"\\u001b[2J\":1,\"\\u001b[2J\":2}");
    assert!(!messages.stderr().contains(&0x1b), "{messages}");
}
