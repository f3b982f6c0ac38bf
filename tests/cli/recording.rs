//! What is recorded: as much as was asked for, while the command runs, in little memory, and honest about what is missing.

use crate::env::{Gate, TestEnv, become_free, peak_memory, seq, wait_for};

/// The peak of resident memory that idem may have, in KiB, however much passes through it: what it keeps for a store that can't
/// take it now, and as much again.
const MEMORY: u64 = 8 * 1024;

#[test]
fn output_up_to_the_limit_is_whole_and_beyond_it_the_record_ends_and_says_so() {
    let env = TestEnv::new();
    let call = |bytes: u32| {
        let call = env.run(&format!("t{bytes}")).args(["--max-output", "1000"]);
        call.script(&format!("head -c {bytes} /dev/zero | tr '\\0' x"))
    };
    call(1000).answer().exits(0).prints("x".repeat(1000)).says_exactly("");
    call(1000).answer().exits(0).prints("x".repeat(1000)).is_a_replay().does_not_say("missing");
    call(1001).answer().exits(0).prints("x".repeat(1001)).says("1 bytes of its output were not recorded");
    call(1001).answer().exits(0).prints("x".repeat(1000)).is_a_replay().says("1 bytes").says("missing");
    call(5000).answer().exits(0).prints("x".repeat(5000));
    call(5000).answer().exits(0).prints("x".repeat(1000)).is_a_replay().says("4000 bytes").says("missing");
}

#[test]
fn both_streams_together_have_the_limit() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--max-output", "10"]).script("printf 1234567; sleep 0.1; printf abcdef >&2");
    call().answer().exits(0).prints("1234567").says("abcdef\nidem: ");
    let replay = call().answer();
    replay.exits(0).prints("1234567").says("3 bytes").says("abc").does_not_say("abcd");
}

#[test]
fn once_something_is_missing_nothing_that_came_later_is_recorded() {
    let env = TestEnv::new();
    // Each part waits until the one before has gone all the way through, so that there is one true order.
    let script = "printf 12345678; until [ \"$(cat out)\" = 12345678 ]; do :; done; \
                  printf abcdef >&2; until grep -q abcdef err; do :; done; printf 9";
    let to_files = ["sh", "-c", "exec \"$0\" \"$@\" > out 2> err"];
    env.run("t").args(["--max-output", "10"]).script(script).under(to_files).answer().exits(0);
    assert_eq!(env.text_of("out"), "123456789");
    let replay = env.run("t").args(["--max-output", "10"]).script(script).answer();
    replay.exits(0).prints("12345678").says("5 bytes").does_not_say("abc9");
}

#[test]
fn a_truncated_record_says_so_in_each_envelope() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--max-output", "3B", "--json"]).script("echo 12345");
    let first = call().answer().exits(0).envelope();
    assert_eq!((&first["truncated"], &first["stdout"]), (&true.into(), &"12345\n".into()), "{first}");
    let replay = call().answer().exits(0).envelope();
    assert_eq!((&replay["truncated"], &replay["stdout"]), (&true.into(), &"123".into()), "{replay}");
    assert!(replay["message"].as_str().is_some_and(|message| message.contains("3 bytes")), "{replay}");
    assert_eq!(env.shown("1")["truncated"], true);
    let whole = env.run("whole").args(["--json"]).script("echo 12345").answer().exits(0).envelope();
    assert_eq!(whole["truncated"], false);
}

#[test]
fn sizes_are_read_as_they_are_written_and_wrong_ones_run_nothing() {
    let env = TestEnv::new();
    for (size, bytes) in [("2KiB", 2048), ("2kB", 2000), ("0", 0)] {
        let call = || env.run(size).args(["--max-output", size, "--quiet"]).script("head -c 3000 /dev/zero");
        call().answer().exits(0).prints([0; 3000]);
        call().answer().exits(0).prints(vec![0; bytes]);
    }
    for wrong in ["", "much", "-1", "1.5MiB", "99999999999999999999"] {
        env.run("t").args(["--max-output", wrong]).counting("true").answer().refuses();
    }
    assert_eq!(env.runs(), 0);
}

#[test]
fn without_a_record_of_the_output_a_replay_gives_the_exit_status_alone_and_says_so() {
    let env = TestEnv::new();
    let options = ["--no-record-output", "--keep-failure"];
    let call = || env.run("t").args(options).counting("printf 'a sec''ret'; echo warning >&2; exit 6");
    call().answer().exits(6).prints("a secret").says("warning\n");
    call().answer().exits(6).prints("").is_a_replay().says("16 bytes").says("not recorded").does_not_say("warning");
    assert_eq!(env.runs(), 1);
    let folder = env.store().parent().expect("a folder").to_owned();
    for file in std::fs::read_dir(folder).expect("the store's folder").flatten() {
        let bytes = std::fs::read(file.path()).expect("a file of the store");
        assert!(!bytes.windows(8).any(|window| window == b"a secret"), "{} has it", file.path().display());
    }
}

#[test]
fn a_redacted_member_is_in_no_file_of_the_store_and_changes_no_key() {
    let env = TestEnv::new();
    let params = r#"{"card":{"number":"4242-4242"},"to":"bob","list":[{"pin":12345678}]}"#;
    let call = |options: &[&str]| env.run("pay").params(params).args(["--json"]).args(options.iter().copied());
    let redact = ["--redact", "/card/number", "--redact", "/list/0/pin", "--redact", "/not/there"];
    let first = call(&redact).counting("true").answer().exits(0).envelope();
    let hidden = serde_json::json!(
        {"card": {"number": "[redacted]"}, "to": "bob", "list": [{"pin": "[redacted]"}]}
    );
    assert_eq!(first["params"], hidden, "{first}");
    assert_eq!(env.shown("1")["params"], hidden);
    let plain = env.idem(["key", "--who", "agent", "--conv", "c1", "--tool", "pay", "--params", params]).answer();
    assert_eq!(plain.exits(0).text().trim_end(), first["key"].as_str().expect("a key"));
    let again = call(&[]).counting("true").answer().exits(0).envelope();
    assert_eq!((&again["idempotent"], &again["params"]), (&true.into(), &hidden), "{again}");
    let folder = env.store().parent().expect("a folder").to_owned();
    for file in std::fs::read_dir(folder).expect("the store's folder").flatten() {
        let bytes = std::fs::read(file.path()).expect("a file of the store");
        for secret in [&b"4242-4242"[..], b"12345678"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", file.path().display());
        }
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn what_a_killed_idem_had_passed_on_is_shown_whichever_the_stream_and_whatever_the_amount() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner =
        env.run("pay").external().script("seq 100000; printf warning >&2; echo $$ > pid; read _ < gate").start();
    let command = owner.command();
    let expected = seq(100_000);
    wait_for("the recorded output", || {
        let shown = |stream| env.idem(["show", "1", stream]).answer().stdout().to_vec();
        (shown("--stdout") == expected.as_bytes() && shown("--stderr") == b"warning").then_some(())
    });
    owner.kill_9();
    gate.open();
    become_free(command);
    env.run("pay").external().args(["--allow-command-change"]).script("true").answer().exits(121);
    let shown = env.shown("1");
    assert_eq!((&shown["state"], &shown["stderr"]), (&"held".into(), &"warning".into()));
    env.idem(["show", "1", "--stdout"]).answer().exits(0).prints(&expected);
}

#[test]
fn recording_while_the_command_runs_costs_no_sync_for_each_chunk() {
    let env = TestEnv::new();
    let strace = ["strace", "-qq", "-o", "trace", "-e", "trace=fsync,fdatasync"];
    env.run("t").command(["head", "-c", "20000000", "/dev/zero"]).under(strace).answer().exits(0);
    let chunks: usize = env.rows("SELECT count(*) FROM output")[0].parse().expect("a number");
    let syncs = env.text_of("trace").lines().count();
    assert!(chunks >= 70, "chunks of at most 256 KiB, which are {chunks}");
    assert!(syncs > 0 && syncs * 2 < chunks, "{syncs} syncs for {chunks} chunks");
}

#[test]
fn a_gigabyte_passes_through_in_little_memory_and_64_mib_of_it_are_recorded() {
    const GIB: u64 = 1 << 30;
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let command = "echo $PPID > idem; head -c 1073741824 /dev/zero; echo $$ > pid; read _ < gate";
    let call = || env.run("t").script(command);
    let count = ["sh", "-c", "\"$0\" \"$@\" | wc -c > count"];
    let running = call().under(count).start();
    let (idem, _) = (env.pid_in("idem"), env.pid_in("pid"));
    let peak = peak_memory(idem);
    gate.open();
    running.answer().exits(0).says(&format!("{} bytes of its output were not recorded", GIB - (64 << 20)));
    assert_eq!(env.text_of("count").trim(), GIB.to_string());
    assert!(peak <= MEMORY, "a peak of {peak} KiB");
    let replay = call().under(count).answer();
    replay.exits(0).is_a_replay().says(&format!("{} bytes", GIB - (64 << 20)));
    assert_eq!(env.text_of("count").trim(), (64 << 20).to_string());
}

#[test]
fn a_replay_of_much_output_takes_little_memory() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").command(["head", "-c", "30000000", "/dev/zero"]);
    call().under(["sh", "-c", "\"$0\" \"$@\" > /dev/null"]).answer().exits(0);
    // Its reader takes all but the last bytes, so that the replay is nearly over and still there to be looked at.
    let reader = "\"$0\" \"$@\" | { head -c 29000000 > most; echo > nearly; read _ < gate; cat > rest; } & \
                  echo $! > pid; wait";
    let running = call().under(["sh", "-c", reader]).start();
    wait_for("most of the replay", || env.has("nearly").then_some(()));
    let idem = wait_for("the replaying idem", || {
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/environ"))
                .is_ok_and(|vars| vars.contains(&format!("HOME={}\0", env.home().display())))
                && std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "idem\n")
        })
    });
    let peak = peak_memory(idem);
    gate.open();
    running.answer().exits(0);
    assert!(peak <= MEMORY, "a peak of {peak} KiB");
}

#[test]
fn the_exit_status_is_the_commands_on_the_first_run_and_on_each_replay() {
    let env = TestEnv::new();
    for code in [1, 2, 119, 120, 121, 122, 124, 125, 126, 127, 128, 130, 143, 254, 255] {
        let call = || env.run(&format!("t{code}")).args(["--keep-failure"]).counting(&format!("exit {code}")).answer();
        call().exits(code).is_a_first_run();
        call().exits(code).is_a_replay();
    }
    assert_eq!(env.runs(), 15);
    for signal in [1, 2, 6, 9, 11, 15, 34, 64] {
        let tool = format!("s{signal}");
        let call = || env.run(&tool).args(["--keep-failure"]).script(&format!("kill -{signal} $$")).answer();
        call().exits(128 + signal).is_a_first_run();
        call().exits(128 + signal).is_a_replay();
    }
    let rows = env.rows("SELECT exit_code, signal FROM claim WHERE tool IN ('t143', 's15') ORDER BY id");
    assert_eq!(rows, ["143|", "|15"], "an exit code of 143 is no signal");
}

#[test]
fn quiet_silences_what_is_missing_and_the_envelope_still_says_it() {
    let env = TestEnv::new();
    let options = ["--quiet", "--max-output", "2", "--status-file", "status"];
    for (prints, idempotent) in [("12345", false), ("12", true)] {
        let answer = env.run("t").args(options).script("printf 12345").answer();
        answer.exits(0).prints(prints).says_exactly("");
        let envelope = env.status_file("status");
        assert_eq!((&envelope["truncated"], &envelope["idempotent"]), (&true.into(), &idempotent.into()), "{envelope}");
    }
}
