//! The envelope: one line of JSON whatever happened, on stdout or in a file; and `--quiet`.

use serde_json::{Value, json};

use crate::env::{Gate, KILL_IDEM, TestEnv, become_free};

const NAMES: [&str; 23] = [
    "id",
    "key",
    "idempotent",
    "state",
    "reason",
    "outcome",
    "message",
    "who",
    "conv",
    "tool",
    "params",
    "effect",
    "attempt",
    "command",
    "exit_code",
    "signal",
    "stdout",
    "stderr",
    "truncated",
    "members",
    "created_at",
    "finished_at",
    "error",
];

/// Fails unless the envelope has these values.
#[track_caller]
fn has(envelope: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("an object of expectations") {
        assert_eq!(&envelope[name], value, "{name} in {envelope}");
    }
}

/// Fails unless every name is there, if only as null.
#[track_caller]
fn is_whole(envelope: &Value) {
    for name in NAMES {
        assert!(envelope.get(name).is_some(), "{name} is missing in {envelope}");
    }
}

#[test]
fn a_first_run_and_its_replay_differ_in_little_more_than_idempotent() {
    let env = TestEnv::new();
    let script = "echo out; echo err >&2";
    let call = || env.run("t").params(r#"{"b":1,"a":1.0}"#).args(["--json"]).counting(script);
    let first = call().answer().exits(0).envelope();
    is_whole(&first);
    let expected = json!({
        "id": 1, "idempotent": false, "state": "completed", "outcome": "landed", "who": "agent", "conv": "c1",
        "tool": "t", "effect": "local", "attempt": 1, "exit_code": 0, "signal": null, "stdout": "out\n",
        "stderr": "err\n", "truncated": false, "members": [], "error": null,
        "command": ["sh", "-c", format!("echo run >> runs; {script}")],
    });
    has(&first, &expected);
    let replay = call().answer().exits(0).is_a_replay().envelope();
    is_whole(&replay);
    assert_eq!(replay["idempotent"], true);
    for name in NAMES.into_iter().filter(|name| !["idempotent", "message"].contains(name)) {
        assert_eq!(first[name], replay[name], "{name}");
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn params_are_the_value_as_it_was_given() {
    let env = TestEnv::new();
    let given = r#"{"b":1.50,"a":[9007199254740993,"\u0061"]}"#;
    let answer = env.run("t").params(given).args(["--json"]).script("true").answer();
    let text = answer.exits(0).text();
    assert!(text.contains("9007199254740993"), "no digit is lost\n{answer}");
    assert_eq!(answer.envelope()["params"], serde_json::from_str::<Value>(given).expect("JSON"));
}

#[test]
fn times_are_rfc_3339_in_utc_with_milliseconds() {
    let env = TestEnv::new();
    let envelope = env.run("t").args(["--json"]).script("true").answer().exits(0).envelope();
    for name in ["created_at", "finished_at"] {
        let time = envelope[name].as_str().unwrap_or_else(|| panic!("{name} in {envelope}"));
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{name}: {time}");
    }
    assert!(envelope["created_at"].as_str() <= envelope["finished_at"].as_str());
}

#[test]
fn bytes_that_are_not_utf_8_come_in_base64() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--json"]).script(r"printf '\377\000'; echo fine >&2");
    for _ in 0..2 {
        let envelope = call().answer().exits(0).envelope();
        has(&envelope, &json!({"stdout": null, "stdout_base64": "/wA=", "stderr": "fine\n"}));
        assert!(envelope.get("stderr_base64").is_none(), "only where it is needed: {envelope}");
    }
}

#[test]
fn the_streams_of_the_command_are_not_passed_on_beside_the_envelope() {
    let env = TestEnv::new();
    let answer = env.run("t").args(["--json"]).script("echo out; echo err >&2").answer();
    answer.exits(0).says_exactly("");
    let answer = env.run("t").args(["--json"]).script("echo out; echo err >&2").answer();
    answer.exits(0).is_a_replay();
    assert!(!answer.messages().lines().any(|line| line == "err"), "only the note is on stderr\n{answer}");
}

#[test]
fn a_failure_a_held_claim_and_a_signal_have_their_envelopes() {
    let env = TestEnv::new();
    let local = env.run("t").args(["--json"]).script("exit 3").answer().exits(3).envelope();
    is_whole(&local);
    has(&local, &json!({"state": "released", "outcome": "not-landed", "exit_code": 3, "idempotent": false}));
    let call = || env.run("pay").external().args(["--json"]).script("echo half; kill -TERM $$");
    let ended = call().answer().exits(143).envelope();
    let unclear = json!({"id": 2, "state": "held", "outcome": "unknown", "signal": "SIGTERM", "effect": "external"});
    has(&ended, &unclear);
    let held = call().answer().exits(121).envelope();
    is_whole(&held);
    has(&held, &unclear);
    let message = held["message"].as_str().expect("a message");
    assert!(message.contains("not retried"), "{held}");
}

#[test]
fn busy_and_mismatch_have_their_envelopes() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").args(["--json"]).script("echo $$ > pid; read _ < gate");
    let owner = call().start();
    owner.command();
    let busy = call().args(["--no-wait"]).answer().exits(120).envelope();
    is_whole(&busy);
    has(&busy, &json!({"id": 1, "state": "running", "exit_code": null, "finished_at": null}));
    let mismatch = env.run("t").args(["--json"]).script("echo other").answer().exits(122).envelope();
    is_whole(&mismatch);
    has(&mismatch, &json!({"id": 1, "state": "running"}));
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn an_interrupted_claim_says_why_it_is_held() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--json"]).script(&format!("{KILL_IDEM}; echo $$ > pid"));
    assert_eq!(call().answer().code(), None);
    become_free(env.pid_in("pid"));
    let held = call().answer().exits(121).envelope();
    has(&held, &json!({"state": "held", "reason": "interrupted", "outcome": "unknown", "exit_code": null}));
}

#[test]
fn errors_have_an_envelope_with_a_kind_and_a_message() {
    let env = TestEnv::new();
    let wrong: [&[&str]; 3] = [
        &["--who", "a", "--conv", "c", "--tool", "t", "--params", "{\"a\":1,\"a\":2}"],
        &["--conv", "c", "--tool", "t"],
        &["--no-such-option"],
    ];
    for options in wrong {
        let answer = env.idem(["run", "--json"]).args(options).counting("true").answer();
        let envelope = answer.exits(125).says("nothing was run").envelope();
        let error = &envelope["error"];
        assert!(error["kind"].is_string() && error["message"].is_string(), "{envelope}");
        assert!(error.get("hint").is_some(), "{envelope}");
    }
    let lost = env.run("t").args(["--json"]).command(["no-such-command"]).answer().exits(127).envelope();
    has(&lost, &json!({"state": "released", "outcome": "not-landed", "stdout": "", "signal": null}));
    assert_eq!(env.runs(), 0);
}

#[test]
fn a_status_file_has_the_envelope_while_stdout_stays_the_commands() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--status-file", "status"]).script("echo out");
    for idempotent in [false, true] {
        call().answer().exits(0).prints("out\n");
        let envelope = env.status_file("status");
        is_whole(&envelope);
        has(&envelope, &json!({"id": 1, "idempotent": idempotent, "state": "completed", "stdout": "out\n"}));
    }
}

#[test]
fn a_status_file_tells_of_errors_too_and_replaces_what_an_earlier_call_left() {
    let env = TestEnv::new();
    env.write("status", "left over from before, and longer than any envelope could be: ".repeat(100));
    let call = env.run("t").params("{").args(["--status-file", "status"]);
    call.script("true").answer().refuses();
    let envelope = env.status_file("status");
    assert!(envelope["error"]["kind"].is_string(), "{envelope}");
}

#[test]
fn a_status_file_that_can_not_be_opened_runs_nothing() {
    let env = TestEnv::new();
    env.run("t").args(["--status-file", "no/such/folder"]).counting("true").answer().refuses().says("no/such/folder");
    env.run("t").args(["--status-file", "."]).counting("true").answer().refuses();
    assert_eq!(env.runs(), 0);
    env.run("t").counting("true").answer().exits(0).is_a_first_run();
}

#[test]
fn quiet_leaves_exactly_the_recorded_bytes() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--quiet"]).script("echo out; echo err >&2");
    for _ in 0..2 {
        call().answer().exits(0).prints("out\n").says_exactly("err\n");
    }
}

#[test]
fn quiet_silences_no_error_and_the_envelope_still_says_everything() {
    let env = TestEnv::new();
    env.run("t").params("{").args(["--quiet"]).script("true").answer().refuses();
    let call = || env.run("t").args(["--quiet", "--json"]).script("true");
    call().answer().exits(0).says_exactly("");
    let replay = call().answer().exits(0).says_exactly("").envelope();
    assert_eq!(replay["idempotent"], true);
    assert!(replay["message"].as_str().is_some_and(|message| message.contains("replay")), "{replay}");
}

#[test]
fn show_and_list_use_the_same_names() {
    let env = TestEnv::new();
    env.run("t").script("exit 1").answer().exits(1);
    let ran = env.run("t").args(["--json"]).script("echo out").answer().exits(0).envelope();
    let shown = env.shown("2");
    let listed = env.idem(["list", "--json"]).answer().exits(0).envelope();
    for name in ["id", "key", "state", "outcome", "who", "conv", "tool", "params", "command", "created_at", "exit_code"]
    {
        assert_eq!(ran[name], shown[name], "show: {name}");
        assert_eq!(ran[name], listed[name], "list: {name}");
    }
    assert_eq!(shown["stdout"], "out\n");
    let attempts = shown["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 2, "the history of the key: {shown}");
    for event in shown["events"].as_array().expect("events") {
        for name in ["at", "kind", "actor", "detail"] {
            assert!(event.get(name).is_some(), "{name} in {event}");
        }
    }
}

#[test]
fn a_status_file_that_is_the_store_destroys_nothing() {
    let env = TestEnv::new();
    env.run("t").counting("true").answer().exits(0);
    for ending in ["", "-wal", "-lock", "-arrivals"] {
        let mut path = env.store().into_os_string();
        path.push(ending);
        std::fs::File::options().append(true).create(true).open(&path).expect("it is there");
        let call = env.run("u").args(["--status-file".into(), path]);
        call.counting("true").answer().refuses().says("status file");
    }
    env.run("t").counting("true").answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
}
