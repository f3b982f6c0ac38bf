//! The operator's policy: what it adds to a call, what it doesn't let pass, and which file it is.

use serde_json::json;

use crate::env::{Gate, TestEnv, copy_of_idem, set_mode};

/// Fails unless the call is refused with the policy's file and line, and ran nothing.
#[track_caller]
fn is_refused(env: &TestEnv, options: &[&str], words: &str, line: usize) {
    let place = format!("{}:{line}", env.policy().display());
    let answer = env.run("mail.send").args(options).args(["--json"]).counting("true").answer();
    answer.exits(125).says("nothing was run").says(words).says(&place);
    let envelope = answer.envelope();
    assert_eq!(envelope["error"]["kind"], "policy", "{envelope}");
    assert!(envelope["error"]["message"].as_str().is_some_and(|message| message.contains(&place)), "{envelope}");
    assert_eq!(env.runs(), 0);
}

#[test]
fn a_tool_that_the_policy_calls_external_is_external_for_every_caller() {
    let env = TestEnv::new();
    env.write_policy("[tools.\"mail.*\"]\neffect = \"external\"\n");
    let call = |tool: &str| env.run(tool).counting("exit 1");
    call("mail.send").answer().exits(1).says("held");
    call("mail.send").answer().exits(121);
    assert_eq!(env.runs(), 1);
    call("other").answer().exits(1).says("released");
    assert_eq!(env.shown("1")["effect"], "external");
}

#[test]
fn an_option_that_would_weaken_the_policy_is_refused_with_file_and_line() {
    let env = TestEnv::new();
    env.write_policy(
        "[defaults]\neffect = \"external\"\nmarks = false\nallow-command-change = false\n[tools.\"mail.send\"]\n\
         landed-exit = [3]\nnot-landed-exit = [6, 7]\nprobe = \"exit 2\"\nprobe-delay = \"2s\"\ntimeout = \"30s\"\n\
         kill-after = \"5s\"\nresend-within = \"24h\"\nttl = \"7d\"\nignore-params = [\"/id\"]\nmax-output = \"1MiB\"\n",
    );
    let weaker: [(&[&str], &str, usize); 19] = [
        (&["--local"], "--local", 2),
        (&["--keep-failure"], "--keep-failure", 2),
        (&["--rerun-if-interrupted"], "--rerun-if-interrupted", 2),
        (&["--marks"], "--marks", 3),
        (&["--allow-command-change"], "--allow-command-change", 4),
        (&["--not-landed-exit", "3"], "--not-landed-exit 3", 6),
        (&["--not-landed-exit", "6,9"], "--not-landed-exit 9", 7),
        (&["--landed-exit", "7"], "--landed-exit 7", 7),
        (&["--probe", "exit 1"], "--probe", 8),
        (&["--probe-delay", "1s"], "--probe-delay", 9),
        (&["--timeout", "31s"], "--timeout", 10),
        (&["--kill-after", "4s"], "--kill-after", 11),
        (&["--kill-after", "6s"], "--kill-after", 11),
        (&["--resend-within", "25h"], "--resend-within", 12),
        (&["--ttl", "6d"], "--ttl", 13),
        (&["--ignore-param", "/to"], "--ignore-param /to", 14),
        (&["--max-output", "1kB"], "--max-output", 15),
        (&["--no-record-output"], "--no-record-output", 15),
        (&["--external", "--marks"], "--marks", 3),
    ];
    for (options, words, line) in weaker {
        is_refused(&env, options, words, line);
    }
}

#[test]
fn options_that_say_what_the_policy_says_or_more_are_fine() {
    let env = TestEnv::new();
    env.write_policy(
        "[tools.t]\neffect = \"external\"\nnot-landed-exit = [6, 7]\ntimeout = \"30s\"\nresend-within = \"24h\"\n\
         ttl = \"7d\"\nredact = [\"/card\"]\n",
    );
    let equal = ["--external", "--not-landed-exit", "6-7", "--timeout", "30s", "--resend-within", "24h", "--ttl", "7d"];
    let call = env.run("t").params(r#"{"card":1,"pin":2}"#).args(equal).args(["--redact", "/pin", "--json"]);
    let ran = call.script("exit 7").answer().exits(7).envelope();
    assert_eq!(ran["state"], "released", "a code of the policy's own");
    assert_eq!(ran["params"], json!({"card": "[redacted]", "pin": "[redacted]"}));
    let terms = &env.shown("1")["terms"];
    assert_eq!((&terms["resend_within_ms"], &terms["ttl_ms"]), (&json!(86_400_000), &json!(604_800_000)));
    env.run("t").args(["--timeout", "1s"]).script("exec sleep 60").answer().exits(124);
}

#[test]
fn what_the_policy_knows_no_caller_has_to_remember() {
    let env = TestEnv::new();
    env.write_policy(
        "[tools.mail]\neffect = \"external\"\nprobe = \"test -e sent && echo receipt\"\nlanded-exit = [3]\n\
         [tools.slow]\ntimeout = \"1s\"\nkill-after = \"100ms\"\n[tools.loud]\nmax-output = 3\n\
         [tools.final]\nkeep-failure = true\n[tools.busy]\nwait = \"0s\"\n",
    );
    env.run("mail").script("touch sent; exit 1").answer().exits(0).prints("receipt\n");
    env.run("mail").args(["--occurrence", "2"]).script("exit 3").answer().exits(3);
    assert_eq!(env.shown("2")["state"], "completed");
    env.run("slow").script("trap '' TERM; while :; do sleep 1; done").answer().exits(124);
    env.run("loud").script("printf 12345").answer().exits(0).prints("12345");
    assert_eq!(env.shown("4")["truncated"], true);
    for _ in 0..2 {
        env.run("final").counting("exit 9").answer().exits(9);
    }
    assert_eq!(env.runs(), 1);
    let gate = Gate::new(&env, "gate");
    let call = || env.run("busy").script("echo $$ > pid; read _ < gate");
    let owner = call().start();
    owner.command();
    call().answer().exits(120);
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn members_that_the_policy_ignores_are_no_part_of_the_key_in_run_and_key_alike() {
    let env = TestEnv::new();
    env.write_policy("[tools.t]\nignore-params = [\"/request_id\"]\n");
    let call = |id: u32| env.run("t").params(&format!(r#"{{"to":"bob","request_id":{id}}}"#)).counting("true");
    let key = |params: &str, more: &[&str]| {
        let identity = ["key", "--who", "agent", "--conv", "c1", "--tool", "t", "--params", params];
        env.idem(identity).args(more).answer()
    };
    call(1).answer().exits(0).is_a_first_run();
    call(2).answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
    let of_run = env.shown("1")["key"].as_str().expect("a key").to_owned();
    let by_key = key(r#"{"request_id":3,"to":"bob"}"#, &[]).exits(0).text();
    assert_eq!(by_key.trim_end(), of_run);
    key("{}", &["--ignore-param", "/to"]).exits(2).prints("").says("policy.toml:2");
    key("{}", &["--ignore-param", "/request_id"]).exits(0);
}

#[test]
fn a_call_without_a_param_that_the_policy_requires_runs_nothing() {
    let env = TestEnv::new();
    env.write_policy("[tools.\"mail.*\"]\nrequire-params = [\"/to\", \"/cc/0\"]\nignore-params = [\"/to\"]\n");
    is_refused(&env, &["--params", r#"{"cc":[1]}"#], "no /to", 2);
    is_refused(&env, &["--params", r#"{"to":1,"cc":[]}"#], "no /cc/0", 2);
    let identity = ["key", "--who", "a", "--conv", "c", "--tool", "mail.x", "--params", "{}"];
    env.idem(identity).answer().exits(2).says("no /to");
    env.run("mail.send").params(r#"{"to":null,"cc":[1]}"#).counting("true").answer().exits(0);
    env.run("other").counting("true").answer().exits(0);
    assert_eq!(env.runs(), 2);
}

#[test]
fn the_most_exact_section_wins_key_by_key_and_defaults_are_below_all() {
    let env = TestEnv::new();
    env.write_policy(
        "[defaults]\neffect = \"external\"\n[tools.\"git*\"]\nnot-landed-exit = [4]\n[tools.\"git.status\"]\neffect = \"local\"\n",
    );
    let state = |tool: &str, code: i32| {
        let call = env.run(tool).params(&code.to_string()).args(["--json"]);
        call.script(&format!("exit {code}")).answer().exits(code).envelope()["state"].clone()
    };
    assert_eq!(state("mail", 4), "held");
    assert_eq!(state("git.push", 4), "released");
    assert_eq!(state("git.push", 5), "held");
    assert_eq!(state("git.status", 5), "released");
}

#[test]
fn a_policy_with_a_mistake_anywhere_runs_nothing() {
    let env = TestEnv::new();
    env.write_policy("[defaults]\ntimeout = \"30s\"\n\n[tools.other]\neffects = \"external\"\n");
    let answer = env.run("t").args(["--json"]).counting("true").answer();
    answer.exits(125).says("nothing was run").says("policy.toml:5").says("effect is meant").says("idem policy check");
    assert_eq!(answer.envelope()["error"]["kind"], "policy-file");
    assert_eq!(env.runs(), 0);
    assert!(!env.store().exists(), "not even a store was made");
}

#[test]
fn a_policy_is_named_by_option_or_environment_and_must_be_there_then() {
    let env = TestEnv::new();
    env.write_policy("[defaults]\neffect = \"external\"\n");
    let own = env.write("own.toml", "[defaults]\neffect = \"local\"\n");
    set_mode(&own, 0o600);
    env.run("a").script("exit 1").answer().exits(1).says("held");
    env.run("b").var("IDEM_POLICY", "own.toml").script("exit 1").answer().exits(1).says("released");
    let both = env.run("c").var("IDEM_POLICY", "missing").args(["--policy", "own.toml"]);
    both.script("exit 1").answer().exits(1).says("released");
    let elsewhere = env.run("d").var("XDG_CONFIG_HOME", env.work());
    elsewhere.script("exit 1").answer().exits(1).says("released");
    for options in [["--policy", "missing"], ["--policy", "own.toml/x"], ["--policy", ""], ["--policy", "."]] {
        env.run("e").args(options).counting("true").answer().refuses();
    }
    env.run("e").var("IDEM_POLICY", "missing").counting("true").answer().refuses().says("missing");
    env.run("e").var("IDEM_POLICY", "").counting("true").answer().refuses();
    assert_eq!(env.runs(), 0);
}

#[test]
fn a_policy_that_was_named_holds_for_the_steps_too() {
    let env = TestEnv::new();
    let own = env.write("own.toml", "[tools.step]\neffect = \"external\"\n");
    set_mode(&own, 0o600);
    let step = "cd /; \"$IDEM\" run --tool step -- sh -c 'exit 1'";
    let call = env.run("t").args(["--policy", "own.toml"]).var("IDEM", env!("CARGO_BIN_EXE_idem"));
    call.script(step).answer().exits(1).says("held");
    assert_eq!(env.shown("2")["effect"], "external");
}

#[test]
fn a_policy_that_others_can_write_or_that_is_no_file_is_refused() {
    let env = TestEnv::new();
    let path = env.write_policy("[defaults]\neffect = \"external\"\n");
    for mode in [0o664, 0o646, 0o666] {
        set_mode(&path, mode);
        let answer = env.run("t").counting("true").answer();
        answer.refuses().says("other users can write").says("chmod go-w");
    }
    std::fs::remove_file(&path).expect("the policy");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    env.run("t").counting("true").answer().refuses().says("not a file");
    assert_eq!(env.runs(), 0);
}

/// Needs root.
#[test]
fn a_policy_of_root_is_fine_and_one_of_another_user_is_not() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let env = TestEnv::new();
    let user = 12_345;
    let own = nix::unistd::Uid::from_raw(user);
    for folder in [env.home(), env.state_home(), env.work()] {
        nix::unistd::chown(&folder, Some(own), None).expect("chown");
    }
    set_mode(env.work().parent().expect("a folder"), 0o755);
    let path = env.write_policy("[defaults]\neffect = \"external\"\n");
    let call = || env.run("t").by_user(user, copy_of_idem(&env.work())).counting("exit 1");
    call().answer().exits(1).says("held");
    nix::unistd::chown(&path, Some(nix::unistd::Uid::from_raw(54_321)), None).expect("chown");
    call().answer().refuses().says("another user");
    nix::unistd::chown(&path, Some(own), None).expect("chown");
    call().answer().exits(121);
    nix::unistd::chown(&path, Some(nix::unistd::Uid::from_raw(0)), None).expect("chown");
    call().answer().exits(121);
    set_mode(&path, 0o600);
    call().answer().refuses().says("can't be read");
    assert_eq!(env.runs(), 1);
    // A home that isn't theirs: its policy isn't either.
    nix::unistd::chown(&env.home(), Some(nix::unistd::Uid::from_raw(0)), None).expect("chown");
    set_mode(&env.home(), 0o700);
    call().args(["--occurrence", "2"]).answer().exits(1).says("released");
}

#[test]
fn without_a_policy_a_replay_makes_one_failed_open_for_it() {
    let env = TestEnv::new();
    let call = || env.run("t").script("true");
    call().answer().exits(0);
    let strace = ["strace", "-f", "-o", "trace", "-e", "trace=%file"];
    call().under(strace).answer().exits(0).is_a_replay();
    let trace = env.text_of("trace");
    let looked: Vec<&str> = trace.lines().filter(|line| line.contains(".config") || line.contains("policy")).collect();
    // What starts idem has its path in the environment only.
    assert_eq!(looked.len(), 1, "{looked:?}");
    assert!(looked[0].contains("ENOENT") && looked[0].contains("open"), "{looked:?}");
}

#[test]
fn options_of_a_probe_and_a_limit_may_be_given_beside_those_of_the_policy() {
    let env = TestEnv::new();
    env.write_policy("[tools.t]\nprobe = \"exit 1\"\ntimeout = \"20s\"\n");
    let options = ["--probe-delay", "0s", "--probe-timeout", "3s", "--kill-after", "1s"];
    env.run("t").args(options).script("true").answer().exits(0);
    for pair in options.chunks(2) {
        env.run("u").args(pair).counting("true").answer().refuses().says(pair[0]);
    }
    assert_eq!(env.runs(), 0);
}

#[test]
fn local_is_the_default_said_aloud() {
    let env = TestEnv::new();
    env.run("t").args(["--local"]).script("exit 1").answer().exits(1).says("released");
    env.run("t").args(["--local", "--external"]).counting("true").answer().refuses();
    assert_eq!(env.runs(), 0);
}
