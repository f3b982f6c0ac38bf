//! Inputs: what the command reads, and which of it the caller made part of the key (contract §3).

use sha2::{Digest, Sha256};

use crate::env::{TestEnv, set_mode};

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The canonical text of a call with these options, checked against its key; `stdin` is what idem reads.
fn explained(env: &TestEnv, options: &[&str], stdin: &str) -> String {
    let identity = ["key", "--explain", "--who", "agent", "--conv", "c1", "--tool", "t"];
    let answer = env.idem(identity).args(options.iter().copied()).stdin(stdin).var("SET", "a value").answer();
    let text = answer.exits(0).text();
    let (canonical, key) = text.trim_end().split_once('\n').expect("the canonical text and the key");
    assert_eq!(key, sha256(canonical), "the key is the text's SHA-256");
    // The run of the same call has the same key.
    let run = env.run("t").args(options.iter().copied()).stdin(stdin).var("SET", "a value");
    let run = run.args(["--allow-command-change"]).script("echo $IDEM_KEY").answer();
    run.exits(0).prints(format!("{key}\n"));
    canonical.to_owned()
}

/// The canonical text with this sixth element.
fn with(sixth: &str) -> String {
    format!(r#"["idem/1","agent","c1","t",{{}},{sixth}]"#)
}

#[test]
fn the_sixth_element_has_the_bound_inputs_and_nothing_else() {
    let env = TestEnv::new();
    env.write("a.txt", "content");
    let (content, input) = (sha256("content"), sha256("input"));
    let cwd = env.work().canonicalize().expect("the work folder").display().to_string();
    let cases: [(&[&str], String); 9] = [
        (&["--occurrence", "2"], r#"{"occurrence":2}"#.into()),
        (&["--bind-stdin"], format!(r#"{{"stdin":"{input}"}}"#)),
        (&["--bind-file", "a.txt"], format!(r#"{{"files":{{"a.txt":"{content}"}}}}"#)),
        (&["--bind-file", "./a.txt"], format!(r#"{{"files":{{"./a.txt":"{content}"}}}}"#)),
        (&["--bind-env", "SET"], r#"{"env":{"SET":"a value"}}"#.into()),
        (&["--bind-env", "UNSET"], r#"{"env":{"UNSET":null}}"#.into()),
        (&["--bind-env", "UNSET", "--bind-env", "SET"], r#"{"env":{"SET":"a value","UNSET":null}}"#.into()),
        (&["--bind-cwd"], format!(r#"{{"cwd":"{cwd}"}}"#)),
        (
            &["--bind-cwd", "--bind-env", "SET", "--bind-file", "a.txt", "--bind-stdin", "--occurrence", "3"],
            format!(
                r#"{{"cwd":"{cwd}","env":{{"SET":"a value"}},"files":{{"a.txt":"{content}"}},"occurrence":3,"stdin":"{input}"}}"#
            ),
        ),
    ];
    for (options, sixth) in cases {
        assert_eq!(explained(&env, options, "input"), with(&sixth), "{options:?}");
    }
    for nothing in [&[][..], &["--occurrence", "1"]] {
        assert_eq!(explained(&env, nothing, "input"), r#"["idem/1","agent","c1","t",{}]"#);
    }
}

#[test]
fn bound_standard_input_is_part_of_the_key_and_reaches_the_command_whole() {
    let env = TestEnv::new();
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let call = |input: &[u8]| env.run("t").args(["--bind-stdin", "--quiet"]).stdin(input).counting("cat").answer();
    call(&all).exits(0).prints(&all);
    call(&all).exits(0).prints(&all);
    assert_eq!(env.runs(), 1, "the same input is the same call");
    call(b"other").exits(0).prints("other");
    call(b"").exits(0).prints("");
    assert_eq!(env.runs(), 3);
}

#[test]
fn bound_standard_input_takes_no_memory_of_its_size() {
    let env = TestEnv::new();
    let call = env.run("t").args(["--bind-stdin"]).script("wc -c; grep VmHWM /proc/$PPID/status");
    let answer = call.under(["sh", "-c", "head -c 50000000 /dev/zero | \"$0\" \"$@\""]).answer();
    let text = answer.exits(0).text();
    let (count, peak) = text.split_once('\n').expect("two lines");
    assert_eq!(count.trim(), "50000000");
    let peak: u64 = peak.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("KiB");
    assert!(peak <= 12 * 1024, "a peak of {peak} KiB");
}

#[test]
fn standard_input_can_not_go_two_ways() {
    let env = TestEnv::new();
    for other in [["--params", "-"], ["--stdin", "null"]] {
        let call = env.run("t").args(["--bind-stdin"]).args(other).stdin("{}").counting("true");
        call.answer().refuses().says("--bind-stdin").says(other[0]);
    }
    assert_eq!(env.runs(), 0);
}

#[test]
fn a_bound_file_with_another_content_is_another_call() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--bind-file", "body.json"]).counting("cat body.json").answer();
    for content in ["one", "two", "one"] {
        env.write("body.json", content);
        call().exits(0).prints(content);
    }
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_bound_file_that_can_not_be_read_is_named() {
    let env = TestEnv::new();
    std::fs::create_dir(env.file("folder")).expect("a folder");
    for name in ["missing.txt", "folder", "missing/too"] {
        env.run("t").args(["--bind-file", name]).counting("true").answer().refuses().says(name);
        let identity = ["key", "--who", "agent", "--conv", "c1", "--tool", "t", "--bind-file", name];
        let key = env.idem(identity).answer();
        assert_ne!(key.prints("").says(name).code(), Some(0), "{key}");
    }
    assert_eq!(env.runs(), 0);
}

#[test]
fn a_bound_file_is_read_once() {
    let env = TestEnv::new();
    // Somebody puts the content into a FIFO once: a second reader would wait for ever.
    let once = ["sh", "-c", "mkfifo fifo; { echo content > fifo; } & exec \"$0\" \"$@\""];
    let call = env.run("t").args(["--bind-file", "fifo"]).script("echo $IDEM_KEY").under(once).answer();
    let canonical = with(&format!(r#"{{"files":{{"fifo":"{}"}}}}"#, sha256("content\n")));
    call.exits(0).prints(format!("{}\n", sha256(canonical)));
}

#[test]
fn an_unset_an_empty_and_a_set_variable_are_three_calls() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--bind-env", "REGION"]).counting("true");
    call().answer().exits(0).is_a_first_run();
    for value in ["", "eu", "null"] {
        call().var("REGION", value).answer().exits(0).is_a_first_run();
        call().var("REGION", value).answer().exits(0).is_a_replay();
    }
    call().answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 4);
}

#[test]
fn what_can_not_stand_in_the_canonical_text_can_not_be_bound() {
    let env = TestEnv::new();
    let raw: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(b"\xff".to_vec());
    let call = env.run("t").args(["--bind-env", "RAW"]).var("RAW", raw.clone()).counting("true");
    call.answer().refuses().says("RAW").says("UTF-8");
    env.run("t").args(["--bind-file".into(), raw]).counting("true").answer().refuses().says("UTF-8");
    for name in ["", "A=B"] {
        env.run("t").args(["--bind-env", name]).counting("true").answer().refuses();
    }
    assert_eq!(env.runs(), 0);
}

#[test]
fn a_bound_folder_is_part_of_the_key() {
    let env = TestEnv::new();
    for (folder, runs) in [("one", 1), ("two", 2), ("one", 2)] {
        let there = format!("mkdir -p {folder}; cd {folder}; exec \"$0\" \"$@\"");
        let call = env.run("t").args(["--bind-cwd"]).script("echo run >> ../runs; pwd").under(["sh", "-c", &there]);
        let answer = call.answer();
        assert!(answer.exits(0).text().ends_with(&format!("/{folder}\n")), "{answer}");
        assert_eq!(env.runs(), runs);
    }
}

#[test]
fn a_volatile_member_is_left_out_of_the_key_and_stays_in_the_record() {
    let env = TestEnv::new();
    let call = |params: &str, pointer: &str| {
        env.run("t").params(params).args(["--ignore-param", pointer, "--json"]).counting("true").answer()
    };
    let first = call(r#"{"to":"bob","request_id":"a1"}"#, "/request_id").exits(0).envelope();
    let again = call(r#"{"request_id":"b2","to":"bob"}"#, "/request_id").exits(0).envelope();
    assert_eq!((&first["idempotent"], &again["idempotent"]), (&false.into(), &true.into()));
    assert_eq!(first["params"]["request_id"], "a1", "the record has it: {first}");
    assert_eq!(
        call(r#"{"to":"bob"}"#, "/request_id").exits(0).envelope()["idempotent"],
        true,
        "one without it as well"
    );
    let nested =
        |id: &str| call(&format!(r#"{{"items":[{{"a/b":{id},"n":1}}]}}"#), "/items/0/a~1b").exits(0).envelope();
    assert_eq!((&nested("1")["idempotent"], &nested("2")["idempotent"]), (&false.into(), &true.into()));
    assert_eq!(call(r#"{"to":"eve","request_id":"a1"}"#, "/request_id").exits(0).envelope()["idempotent"], false);
    assert_eq!(env.runs(), 3);
}

#[test]
fn a_pointer_that_names_no_member_of_an_object_is_refused() {
    let env = TestEnv::new();
    for option in ["--ignore-param", "--redact"] {
        for (params, pointer) in [("[1,2]", "/0"), (r#"{"a":[1]}"#, "/a/0"), ("{}", "id"), ("{}", ""), ("{}", "/a~2")] {
            let call = env.run("t").params(params).args([option, pointer]).counting("true");
            call.answer().refuses().says(option);
        }
    }
    assert_eq!(env.runs(), 0);
}

#[test]
fn an_ignored_member_hides_no_error_of_the_params() {
    let env = TestEnv::new();
    let twice = r#"{"id":1,"id":2}"#;
    env.run("t").params(twice).args(["--ignore-param", "/id"]).counting("true").answer().refuses().says("id");
    assert_eq!(env.runs(), 0);
}

#[test]
fn standard_input_is_the_callers_unless_it_is_to_be_empty() {
    let env = TestEnv::new();
    let call = |options: &[&str]| env.run("t").args(options.iter().copied()).stdin("some input");
    call(&["--occurrence", "1"]).script("cat").answer().exits(0).prints("some input");
    call(&["--stdin", "inherit", "--occurrence", "2"]).script("cat").answer().exits(0).prints("some input");
    call(&["--stdin", "null", "--occurrence", "3"]).script("cat").answer().exits(0).prints("");
    call(&["--stdin", "closed"]).counting("true").answer().refuses();
}

#[test]
fn what_the_command_does_not_read_is_left_for_who_comes_next() {
    let env = TestEnv::new();
    let next = ["sh", "-c", "\"$0\" \"$@\"; cat"];
    for _ in 0..2 {
        let call = env.run("t").stdin("for the next").script("echo done").under(next);
        call.answer().exits(0).prints("done\nfor the next");
    }
}

#[test]
fn a_file_that_its_owner_may_not_read_is_named_too() {
    let env = TestEnv::new();
    if nix::unistd::Uid::effective().is_root() {
        // Nothing is closed to root; a test as another user would have to give up the folder's 0700.
        return;
    }
    let path = env.write("closed", "x");
    set_mode(&path, 0o000);
    env.run("t").args(["--bind-file", "closed"]).counting("true").answer().refuses().says("closed");
}
