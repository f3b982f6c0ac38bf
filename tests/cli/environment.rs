//! What the command is told: the key in the shapes that targets take, and whose call it is.

use std::collections::HashMap;

use crate::env::{Answer, TestEnv};

/// The `IDEM_…` variables that a command printed with `env`.
fn told(answer: &Answer) -> HashMap<String, String> {
    let text = answer.text();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.filter(|(name, _)| name.starts_with("IDEM_")).map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn the_command_is_told_its_key_claim_attempt_identity_and_store() {
    let env = TestEnv::new();
    let answer = env.run("t").params(r#"{"a":1}"#).command(["env"]).answer();
    let told = told(answer.exits(0));
    let identity = ["key", "--who", "agent", "--conv", "c1", "--tool", "t", "--params", r#"{ "a": 1.0 }"#];
    let key = env.idem(identity).answer().exits(0).text();
    let key = key.trim_end();
    assert_eq!((key.len(), key.to_lowercase().as_str()), (64, key), "64 lower-case hex digits");
    let expected = [("KEY", key), ("CLAIM", "1"), ("ATTEMPT", "1"), ("WHO", "agent"), ("CONV", "c1"), ("TOOL", "t")];
    for (name, value) in expected {
        assert_eq!(told[&format!("IDEM_{name}")], value, "IDEM_{name}\n{answer}");
    }
    assert_eq!(told["IDEM_STORE"], env.store().display().to_string());
}

#[test]
fn the_short_keys_are_short_enough_for_the_targets_and_belong_to_the_key() {
    let env = TestEnv::new();
    let ask = |tool: &str| told(env.run(tool).script("env; exit 1").answer().exits(1));
    let (first, retry, other) = (ask("t"), ask("t"), ask("other"));
    for (name, length) in [("IDEM_KEY_UUID", 36), ("IDEM_KEY_SHORT", 32)] {
        assert_eq!(first[name].len(), length, "{name}");
        assert_eq!(first[name], retry[name], "{name} is the same on a retry");
        assert_ne!(first[name], other[name], "{name} is another one for another call");
    }
    let hex = |text: &str| text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    assert!(hex(&first["IDEM_KEY_SHORT"]));
    let parts: Vec<&str> = first["IDEM_KEY_UUID"].split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(parts.iter().all(|part| hex(part)) && parts[2].starts_with(['5', '8']), "a name-based UUID: {parts:?}");
    assert_eq!((first["IDEM_ATTEMPT"].as_str(), retry["IDEM_ATTEMPT"].as_str()), ("1", "2"));
}

#[test]
fn the_rest_of_the_environment_the_folder_and_stdin_are_the_callers() {
    let env = TestEnv::new();
    let call = env.run("t").var("OWN", "a value").stdin("some input");
    let expected = format!("a value\n{}\nsome input", env.work().display());
    call.script("echo \"$OWN\"; pwd; cat").answer().exits(0).prints(expected);
}

#[test]
fn an_explicit_store_is_told_so_that_it_can_be_found_from_anywhere() {
    let env = TestEnv::new();
    let script = "cd /; sqlite3 \"$IDEM_STORE\" 'SELECT state FROM claim'";
    env.run("t").args(["--store", "ledger.db"]).script(script).answer().exits(0).prints("running\n");
}

#[test]
fn params_from_stdin_leave_none_for_the_command() {
    let env = TestEnv::new();
    let call = || env.run("t").args(["--params", "-"]).stdin(r#"{"a":1}"#).script("cat; echo end");
    call().answer().exits(0).prints("end\n");
    call().answer().exits(0).prints("end\n").is_a_replay();
    env.run("t").params(r#"{"a":1}"#).script("cat; echo end").answer().exits(0).is_a_replay();
}

#[test]
fn the_command_gets_the_callers_signals_as_they_were() {
    let env = TestEnv::new();
    let ask = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    // The C library keeps signals of its own from 32 on.
    let usual = |answer: &Answer| -> Vec<u64> {
        let masks = answer.exits(0).text();
        let masks = masks.split_whitespace().skip(1).step_by(2);
        masks.map(|mask| u64::from_str_radix(mask, 16).expect("a mask") & 0x7fff_ffff).collect()
    };
    let direct = env.idem([] as [&str; 0]).under(["sh", "-c", ask]).answer();
    assert_eq!(usual(&env.run("t").script(ask).answer()), usual(&direct));
    env.run("pipe").script("yes | head -n 1").answer().exits(0).prints("y\n").says_exactly("");
    // Who calls idem in the background of an old shell ignores interrupts, and so does the command then.
    let ignoring = ["sh", "-c", "trap '' INT; exec \"$0\" \"$@\""];
    let ignored = env.run("ignoring").script("kill -INT $$; echo alive").under(ignoring).answer();
    ignored.exits(0).prints("alive\n");
}

#[test]
fn of_the_store_the_command_inherits_the_lock_and_nothing_else() {
    let env = TestEnv::new();
    let answer = env.run("t").script("for file in /proc/$$/fd/*; do readlink $file; done; true").answer();
    let text = answer.exits(0).text();
    let inherited: Vec<&str> = text.lines().filter(|file| file.contains("idem.db")).collect();
    assert_eq!(inherited, [env.beside_store("-lock").to_string_lossy()], "{answer}");
}
