//! `idem emit`: what a command says that it made is on disk when it returns, and every replay gives it back.

use serde_json::{Value, json};

use crate::env::{Gate, KILL_IDEM, TestEnv, become_free, outline};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// The members that a replay of tool `t`, run by this script, gives back.
fn replayed(env: &TestEnv, script: &str) -> Value {
    env.run("t").args(["--json"]).script(script).answer().exits(0).envelope()
}

/// Runs a script under tool `t` and returns the envelope of that first run.
fn made(env: &TestEnv, script: &str) -> Value {
    let envelope = replayed(env, script);
    assert_eq!(envelope["idempotent"], false, "{envelope}");
    envelope
}

#[test]
fn a_value_is_given_inline_by_a_file_or_on_stdin_or_not_at_all() {
    let env = TestEnv::new();
    env.write("value", "[1,\n 2]\n");
    let script = format!(
        "{IDEM} emit a '{{\"n\": 1}}' && {IDEM} emit b @value && echo '\"text\"' | {IDEM} emit c - && {IDEM} emit d && \
         {IDEM} emit e -5 && {IDEM} emit f null"
    );
    let answer = env.run("t").script(&script).answer();
    answer.exits(0).prints("").says_exactly("");
    assert_eq!(outline(&replayed(&env, &script)), r#"a={"n":1}, b=[1,2], c="text", d=null, e=-5, f=null"#);
}

#[test]
fn the_first_run_each_replay_and_show_give_the_same_members() {
    let env = TestEnv::new();
    let script =
        format!("{IDEM} emit order '{{\"id\":7}}'; {IDEM} emit line-1; {IDEM} emit line-2 \"two\" || true; echo done");
    let first = made(&env, &script);
    assert_eq!(first["members"][0], json!({"kind": "member", "name": "order", "data": {"id": 7}}));
    assert_eq!(first["members"][1], json!({"kind": "member", "name": "line-1", "data": null}));
    for _ in 0..2 {
        let again = replayed(&env, &script);
        assert_eq!((&again["idempotent"], &again["members"]), (&json!(true), &first["members"]));
    }
    assert_eq!(env.shown("1")["members"], first["members"]);
    let listed = env.idem(["list", "--json"]).answer().exits(0).envelope();
    assert_eq!(listed["members"], first["members"]);
    env.run("t").script(&script).answer().exits(0).prints("done\n").is_a_replay();
}

#[test]
fn a_call_that_emits_nothing_has_an_empty_group() {
    let env = TestEnv::new();
    assert_eq!(made(&env, "true")["members"], json!([]));
    assert_eq!(replayed(&env, "true")["members"], json!([]));
}

#[test]
fn the_same_value_again_is_no_change_however_it_is_spelled() {
    let env = TestEnv::new();
    let script = format!(
        "{IDEM} emit a '{{\"x\":1,\"y\":[2.0]}}' && {IDEM} emit a ' {{\"y\": [2], \"x\": 1e0}} ' && {IDEM} emit b && \
         {IDEM} emit b && {IDEM} emit c '\"\\u0061\"' && {IDEM} emit c '\"a\"' || exit 9"
    );
    assert_eq!(outline(&made(&env, &script)), r#"a={"x":1,"y":[2.0]}, b=null, c="a""#);
}

#[test]
fn another_value_under_the_same_name_is_refused_and_both_are_said() {
    let env = TestEnv::new();
    let pairs = [
        ("'{\"n\":1}'", "'{\"n\":2}'", &["{\"n\":1}", "{\"n\":2}"][..]),
        ("9007199254740993", "9007199254740992", &["9007199254740993", "9007199254740992"]),
        ("1", "'\"1\"'", &["with 1,", "\"1\""]),
        ("null", "", &["null", "no value"]),
        ("", "null", &["null", "no value"]),
    ];
    for (n, (first, second, both)) in pairs.into_iter().enumerate() {
        let tool = format!("t{n}");
        let script =
            format!("{IDEM} emit order {first}; {IDEM} emit order {second}; echo $?; {IDEM} emit order {first}");
        let answer = env.run(&tool).script(&script).answer();
        answer.exits(0).prints("1\n").says("idem: ").says("order");
        for value in both {
            answer.says(value);
        }
        let kept = env.rows(&format!("SELECT quote(data) FROM member WHERE grp = {}", n + 1));
        let expected = if first.is_empty() { "NULL".to_owned() } else { first.replace('\'', "") };
        assert_eq!(
            kept,
            [expected.as_str()].map(|value| if value == "NULL" { value.to_owned() } else { format!("'{value}'") })
        );
    }
}

#[test]
fn outside_of_a_command_it_is_wrong_usage() {
    let env = TestEnv::new();
    env.idem(["emit", "a", "1"]).answer().exits(2).prints("").says("idem: ");
    env.run("t").script("exit 3").answer().exits(3);
    for (claim, token) in
        [("one", "0123456789abcdef"), ("", "0123456789abcdef"), ("1", "short"), ("-1", "0123456789abcdef")]
    {
        let call = env.idem(["emit", "a", "1"]).var("IDEM_STORE", env.store()).var("IDEM_CLAIM", claim);
        call.var("IDEM_TOKEN", token).answer().exits(2).prints("").says("idem: ");
    }
    for missing in ["IDEM_CLAIM", "IDEM_TOKEN", "IDEM_STORE"] {
        let script = format!("unset {missing}; {IDEM} emit a 1; echo $?");
        env.run(missing).script(&script).answer().exits(0).prints("2\n").says("idem: ");
    }
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}

#[test]
fn a_forged_claim_or_token_adds_nothing_to_anybodys_group() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("one").script("echo $IDEM_TOKEN > token; echo $$ > pid; read _ < gate").start();
    owner.command();
    let script = format!(
        "IDEM_CLAIM=1 {IDEM} emit a; echo $?; IDEM_CLAIM=99 {IDEM} emit a; echo $?; \
         IDEM_TOKEN=$(cat token) {IDEM} emit a; echo $?; IDEM_TOKEN=0000000000000000 {IDEM} emit a; echo $?"
    );
    env.run("two").script(&script).answer().exits(0).prints("1\n1\n1\n1\n").says("idem: ");
    gate.open();
    owner.answer().exits(0);
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}

#[test]
fn a_daemon_left_behind_by_a_finished_attempt_adds_nothing() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = format!(
        "setsid sh -c 'echo $$ > daemon; read _ < gate; {IDEM} emit late; echo $? > late' \
         < /dev/null > /dev/null 2> complaint & until [ -s daemon ]; do :; done; {IDEM} emit early"
    );
    assert_eq!(outline(&made(&env, &script)), "early=null");
    let daemon = env.pid_in("daemon");
    gate.open();
    become_free(daemon);
    assert_eq!(env.text_of("late"), "1\n");
    assert!(env.text_of("complaint").starts_with("idem: "), "{}", env.text_of("complaint"));
    assert_eq!(outline(&replayed(&env, &script)), "early=null");
}

#[test]
fn a_daemon_of_the_first_attempt_adds_nothing_while_the_second_one_runs() {
    let env = TestEnv::new();
    let (gate, second) = (Gate::new(&env, "gate"), Gate::new(&env, "second"));
    let daemon = format!(
        "setsid sh -c 'echo $$ > daemon; read _ < gate; {IDEM} emit late; echo $? > late' \
         < /dev/null > /dev/null 2>&1 & until [ -s daemon ]; do :; done; exit 3"
    );
    let script = format!("[ $IDEM_ATTEMPT = 2 ] || {{ {daemon}; }}; echo $$ > pid; read _ < second");
    env.run("t").script(&script).answer().exits(3);
    let daemon = env.pid_in("daemon");
    let running = env.run("t").args(["--json"]).script(&script).start();
    running.command();
    gate.open();
    become_free(daemon);
    second.open();
    assert_eq!(env.text_of("late"), "1\n");
    assert_eq!(outline(&running.answer().exits(0).envelope()), "");
}

#[test]
fn it_comes_too_late_once_a_person_has_decided() {
    let env = TestEnv::new();
    for (n, decide) in [&["resolve", "1", "landed", "--force"][..], &["clear", "2", "--force"]].into_iter().enumerate()
    {
        let gate = Gate::new(&env, &format!("gate{n}"));
        let _ = std::fs::remove_file(env.file("pid"));
        let script = format!("echo $$ > pid; read _ < gate{n}; {IDEM} emit a; echo $?");
        let owner = env.run(&format!("t{n}")).script(&script).start();
        owner.command();
        env.idem(decide.iter().copied()).answer().exits(0);
        gate.open();
        owner.answer().exits(0).prints("1\n").says("over");
    }
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}

#[test]
fn a_command_whose_idem_was_killed_still_adds_to_its_group() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = format!("echo $$ > pid; read _ < gate; {IDEM} emit made 1; echo $? > code");
    let owner = env.run("t").script(&script).start();
    let command = owner.command();
    owner.kill_9();
    gate.open();
    become_free(command);
    assert_eq!(env.text_of("code"), "0\n");
    let held = env.run("t").args(["--json"]).script(&script).answer().exits(121).envelope();
    assert_eq!(outline(&held), "made=1", "who has to decide sees what was made");
    env.idem(["resolve", "1", "landed"]).answer().exits(0);
    assert_eq!(outline(&replayed(&env, &script)), "made=1");
}

#[test]
fn a_value_that_is_no_json_is_refused_with_its_class_and_place() {
    let env = TestEnv::new();
    let deep = "[".repeat(101) + &"]".repeat(101);
    let bad: [(&[u8], &str, usize); 7] = [
        (b"\"a\xff\"", "utf8", 2),
        (b"{\"a\":01}", "syntax", 6),
        (b"  ", "syntax", 2),
        (b"\"\\ud800\"", "surrogate", 1),
        (b"{\"a\":1,\"\\u0061\":2}", "duplicate", 7),
        (deep.as_bytes(), "depth", 100),
        (b"[1e1000000000]", "exponent", 1),
    ];
    for (n, (text, class, offset)) in bad.into_iter().enumerate() {
        env.write(&format!("value{n}"), text);
        let script = format!("{IDEM} emit a @value{n}; echo $?; {IDEM} emit a - < value{n}; echo $?");
        let answer = env.run(&format!("t{n}")).script(&script).answer();
        answer.exits(0).prints("2\n2\n").says("idem: ").says(class).says(&format!("byte {offset}"));
    }
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}

#[test]
fn a_bad_value_is_not_taken_for_bad_params() {
    let env = TestEnv::new();
    let answer = env.run("t").script(&format!("{IDEM} emit a '{{'; echo $?")).answer();
    answer.exits(0).prints("2\n").says("value").does_not_say("params");
}

#[test]
fn a_name_is_needed_and_is_text() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit ''; echo $?; {IDEM} emit; echo $?; {IDEM} emit \"$(printf '\\377')\"; echo $?");
    env.run("t").script(&script).answer().exits(0).prints("2\n2\n2\n").says("idem: ");
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}

#[test]
fn a_file_that_is_not_there_adds_nothing() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit a @nowhere; echo $?");
    let answer = env.run("t").script(&script).answer();
    answer.exits(0).says("idem: ").says("nowhere");
    assert_ne!(answer.text(), "0\n", "{answer}");
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}

#[test]
fn a_store_that_can_not_be_used_is_125() {
    let env = TestEnv::new();
    env.write("garbage", "this is no store".repeat(1000));
    let script = format!("IDEM_STORE=$PWD/garbage {IDEM} emit a; echo $?");
    env.run("t").script(&script).answer().exits(0).prints("125\n").says("idem: ");
}

#[test]
fn hostile_names_and_values_come_back_as_they_were_and_are_shown_escaped() {
    let env = TestEnv::new();
    let names =
        ["\u{1b}[2J\u{7}", "two\nlines\r\t", "-", " ", "@file", "ä\u{202e}ö", "'; DROP TABLE member; --", "\u{9b}31m"];
    let value = json!("\u{1b}]0;owned\u{7}\n\u{0}\u{9b}31m");
    let mut script = String::new();
    for (n, name) in names.iter().enumerate() {
        env.write(&format!("name{n}"), name);
        script += &format!("{IDEM} emit -- \"$(cat name{n}; printf x | tr -d x)\" @value || exit 9\n");
    }
    env.write("value", value.to_string());
    // A shell's substitution cuts line ends, and none of these names has one at its end.
    let envelope = made(&env, &script);
    for (n, name) in names.iter().enumerate() {
        assert_eq!(envelope["members"][n], json!({"kind": "member", "name": name, "data": value}), "{name:?}");
    }
    let conflict = env
        .run("conflict")
        .script(&format!("{IDEM} emit \"$(cat name0)\" @value; {IDEM} emit \"$(cat name0)\" 1"))
        .answer();
    let shown = env.idem(["show", "1"]).answer();
    for text in [shown.exits(0).text(), conflict.exits(1).messages()] {
        let raw = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(raw, None, "a terminal would obey it: {text:?}");
    }
    assert!(shown.text().contains("DROP TABLE"), "{shown}");
}

#[test]
fn a_large_value_comes_back_whole() {
    let env = TestEnv::new();
    let value = json!({ "text": "ö\u{1}".repeat(250_000), "list": vec![1; 100_000] });
    env.write("value", value.to_string());
    let script = format!("{IDEM} emit big @value && {IDEM} emit again - < value");
    let envelope = made(&env, &script);
    assert!(envelope["members"][0]["data"] == value && envelope["members"][1]["data"] == value);
    assert!(replayed(&env, &script)["members"] == envelope["members"]);
    let shown = env.idem(["show", "1"]).answer();
    assert!(shown.exits(0).stdout().len() < 10_000, "a person is shown a part of it: {} bytes", shown.stdout().len());
}

#[test]
fn a_member_is_on_disk_when_it_returns() {
    let env = TestEnv::new();
    let script = format!("strace -f -qq -o trace -e trace=fsync,fdatasync {IDEM} emit a 1 || exit 99");
    env.run("t").script(&script).answer().exits(0);
    let trace = env.text_of("trace");
    assert!(trace.lines().any(|line| line.ends_with("= 0")), "no sync has returned: {trace}");
}

#[test]
fn a_member_outlives_the_death_of_all_at_the_moment_it_returns() {
    let env = TestEnv::new();
    let script = format!(
        "[ $IDEM_ATTEMPT = 1 ] || exit 0; echo $$ > pid; {IDEM} emit made '{{\"id\":7}}'; {KILL_IDEM}; kill -9 $$"
    );
    let owner = env.run("t").script(&script).start();
    let command = owner.command();
    become_free(command);
    become_free(owner.pid());
    drop(owner);
    let again = env.run("t").args(["--rerun-if-interrupted", "--json"]).script(&script).answer().exits(0).envelope();
    assert_eq!((&again["attempt"], outline(&again).as_str()), (&json!(2), r#"made={"id":7}"#));
}

#[test]
fn the_second_attempt_keeps_what_the_first_one_made() {
    let env = TestEnv::new();
    let script = format!(
        "{IDEM} emit both 1 || exit 9; {IDEM} emit only-$IDEM_ATTEMPT $IDEM_ATTEMPT; {IDEM} emit both 2; echo $?; \
         [ $IDEM_ATTEMPT = 2 ]"
    );
    let failed = env.run("t").args(["--json"]).script(&script).answer().exits(1).envelope();
    assert_eq!((&failed["state"], outline(&failed).as_str()), (&json!("released"), "both=1, only-1=1"));
    let envelope = made(&env, &script);
    assert_eq!((&envelope["stdout"], outline(&envelope).as_str()), (&json!("1\n"), "both=1, only-1=1, only-2=2"));
    assert_eq!(outline(&replayed(&env, &script)), "both=1, only-1=1, only-2=2");
}

#[test]
fn after_a_clear_the_group_begins_anew() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit a $IDEM_ATTEMPT || exit 9; {IDEM} emit only-$IDEM_ATTEMPT");
    assert_eq!(outline(&made(&env, &script)), "a=1, only-1=null");
    env.idem(["clear", "1"]).answer().exits(0);
    assert_eq!(outline(&made(&env, &script)), "a=2, only-2=null");
    assert_eq!(outline(&replayed(&env, &script)), "a=2, only-2=null");
    assert_eq!(outline(&env.shown("1")), "a=1, only-1=null", "nothing is forgotten");
}

#[test]
fn after_a_result_has_expired_the_group_begins_anew() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit a $IDEM_ATTEMPT || exit 9");
    let call = || env.run("t").args(["--ttl", "1h", "--json"]).script(&script);
    assert_eq!(outline(&call().answer().exits(0).envelope()), "a=1");
    env.tamper(
        "UPDATE claim SET ttl = 1, uptime = 0, created_at = created_at - 100000, finished_at = finished_at - 100000",
    );
    assert_eq!(outline(&call().answer().exits(0).envelope()), "a=2");
    assert_eq!(env.states(), ["expired", "completed"]);
}

#[test]
fn members_that_are_emitted_at_once_are_all_there() {
    let env = TestEnv::new();
    let at_once: String = (0..16).map(|n| format!("{IDEM} emit m{n:02} {n} & ")).collect();
    let envelope = made(&env, &format!("{at_once} wait"));
    let mut names: Vec<&str> =
        envelope["members"].as_array().expect("members").iter().map(|m| m["name"].as_str().expect("a name")).collect();
    names.sort_unstable();
    let expected: Vec<String> = (0..16).map(|n| format!("m{n:02}")).collect();
    assert_eq!(names, expected);
}

#[test]
fn of_different_values_that_are_emitted_at_once_exactly_one_is_taken() {
    let env = TestEnv::new();
    let at_once: String = (0..12).map(|n| format!("{{ {IDEM} emit a {n} && echo {n} >> taken; }} & ")).collect();
    let envelope = env.run("t").args(["--json"]).script(&format!("{at_once} wait")).answer().exits(0).envelope();
    assert_eq!(format!("a={}", env.text_of("taken").trim_end()), outline(&envelope));
}

#[test]
fn the_order_is_that_of_emission() {
    let env = TestEnv::new();
    let script = format!("for name in z 10 9 a B _ ä z; do {IDEM} emit $name || exit 9; done");
    assert_eq!(outline(&made(&env, &script)), "z=null, 10=null, 9=null, a=null, B=null, _=null, ä=null");
}

#[test]
fn three_hundred_members_come_back_in_order() {
    let env = TestEnv::new();
    let script = format!("n=1; while [ $n -le 300 ]; do {IDEM} emit m$n $n || exit 9; n=$((n + 1)); done");
    let envelope = made(&env, &script);
    let expected: Vec<Value> =
        (1..=300).map(|n| json!({"kind": "member", "name": format!("m{n}"), "data": n})).collect();
    assert!(envelope["members"] == json!(expected), "{}", outline(&envelope));
    assert!(replayed(&env, &script)["members"] == json!(expected));
}

#[test]
fn ten_thousand_members_and_a_thousand_steps_come_back() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit m1 1");
    env.run("t").script(&script).answer().exits(0);
    env.tamper(
        "WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO member (grp, claim, at, kind, name, data) SELECT 1, 1, 0, 'member', 'm' || i, i FROM n",
    );
    let columns =
        env.rows("SELECT group_concat(name) FROM pragma_table_info('claim') WHERE name NOT IN ('id', 'key')").remove(0);
    env.tamper(&format!(
        "WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 1001)
         INSERT INTO claim (id, key, {columns}) SELECT i, printf('%064x', i), {columns} FROM n, claim WHERE id = 1;
         INSERT INTO member (grp, claim, at, kind, name) SELECT 1, 1, 0, 'step', key FROM claim WHERE id > 1 ORDER BY id"
    ));
    let envelope = replayed(&env, &script);
    let members = envelope["members"].as_array().expect("members");
    assert_eq!(members.len(), 11_000);
    assert!((1..=10_000).all(|n| members[n - 1] == json!({"kind": "member", "name": format!("m{n}"), "data": n})));
    assert!(members[10_000..].iter().zip(2..).all(|(step, id)| step["id"] == id));
    let shown = env.idem(["show", "1"]).answer();
    assert!(shown.exits(0).text().contains("m10000"), "the tree has the last one");
    assert_eq!(env.shown("1")["members"], envelope["members"]);
}

#[test]
fn a_step_adds_to_its_own_group() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit outer; {IDEM} run --tool step -- {IDEM} emit inner 1; {IDEM} emit last");
    assert_eq!(outline(&made(&env, &script)), "outer=null, step completed [inner=1], last=null");
}

#[test]
fn a_probe_asks_and_adds_nothing() {
    let env = TestEnv::new();
    let probe = format!("{IDEM} emit a; echo $? >> codes; exit 2");
    env.run("t").external().args(["--probe", &probe]).script("exit 7").answer().exits(7);
    assert_eq!(env.text_of("codes"), "2\n");
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}

#[test]
fn the_redacted_params_of_a_call_and_what_it_emits_are_different_things() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit a '{{\"token\":\"kept\"}}'");
    let call = env.run("t").params("{\"token\":\"secret\"}").args(["--redact", "/token", "--json"]);
    let envelope = call.script(&script).answer().exits(0).envelope();
    assert_eq!(outline(&envelope), r#"a={"token":"kept"}"#);
}

#[test]
fn a_value_that_is_too_large_adds_nothing() {
    let env = TestEnv::new();
    let script = format!("head -c 40000000 /dev/zero | tr '\\0' 1 | {IDEM} emit a -; echo $?");
    let answer = env.run("t").script(&script).answer();
    answer.exits(0).prints("2\n").says("idem: ");
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
}
