//! Probes: the target is asked what became of a call, at the end of an unclear attempt and by whoever finds it held.

use serde_json::Value;

use crate::env::{Call, Gate, TestEnv, become_free};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// A probe that counts itself and doesn't know, until the test writes what it is to exit with into `answer`.
const ORACLE: &str = "echo probe >> probes; [ -e answer ] || exit 2; echo receipt; exit $(cat answer)";

/// An external call that ends with 7 on its first attempt, and with 0 from the second on.
fn pay<'a>(env: &'a TestEnv, options: &[&str]) -> Call<'a> {
    let script = "echo sent $IDEM_ATTEMPT; echo warned >&2; [ $IDEM_ATTEMPT = 1 ] || exit 0; exit 7";
    env.run("pay").external().args(options.iter().copied()).counting(script)
}

/// A call of [`pay`] whose outcome nobody knows.
fn held(env: &TestEnv, options: &[&str]) {
    pay(env, options).answer().exits(7);
    assert_eq!(env.states(), ["held"]);
}

#[test]
fn a_publish_that_answers_an_error_and_yet_published_is_completed_by_its_probe() {
    let env = TestEnv::new();
    let publish = "echo widget 1.2.0 >> registry; echo 403 Forbidden >&2; exit 1";
    let call = |probe: &[&str]| env.run("publish").external().args(probe.iter().copied()).counting(publish);
    call(&[]).answer().exits(1).says("403");
    call(&[]).answer().exits(121).prints("");
    let ask = ["--probe", "grep 'widget 1.2.0' registry"];
    call(&ask).answer().exits(0).prints("widget 1.2.0\n").is_a_replay();
    call(&[]).answer().exits(0).prints("widget 1.2.0\n").is_a_replay();
    assert_eq!((env.runs(), env.lines_in("registry")), (1, 1));
}

#[test]
fn landed_at_the_end_of_the_attempt_completes_it_with_the_probes_answer() {
    let env = TestEnv::new();
    let probe = ["--probe", "echo probe >> probes; echo receipt; echo looked >&2; exit 0"];
    pay(&env, &probe).answer().exits(0).prints("sent 1\nreceipt\n").says("warned\n").is_a_first_run();
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["completed|probe|landed"]);
    for options in [&probe[..], &[]] {
        let replay = pay(&env, options).answer();
        replay.exits(0).prints("receipt\n").does_not_say("warned").does_not_say("looked").is_a_replay();
    }
    assert_eq!((env.runs(), env.lines_in("probes")), (1, 1), "what is known is not asked again");
}

#[test]
fn not_landed_at_the_end_of_the_attempt_releases_it() {
    let env = TestEnv::new();
    pay(&env, &["--probe", "echo none; exit 1"]).answer().exits(7).prints("sent 1\n").is_a_first_run();
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["released|probe|not-landed"]);
    pay(&env, &[]).answer().exits(0).prints("sent 2\n").is_a_first_run();
    assert_eq!(env.states(), ["released", "completed"]);
}

/// Answers that are none.
const UNCLEAR: [&str; 5] = ["exit 2", "exit 255", "./no-such-program", "kill -KILL $$", "read _ < shut"];

#[test]
fn any_other_answer_leaves_the_attempt_held_a_probe_that_hangs_included() {
    let env = TestEnv::new();
    let _shut = Gate::new(&env, "shut");
    for (n, probe) in UNCLEAR.into_iter().enumerate() {
        let call = || {
            let call = env.run(&format!("t{n}")).external().args(["--probe-timeout", "300ms", "--probe", probe]);
            call.counting("echo sent; exit 7")
        };
        call().answer().exits(7).prints("sent\n").says("held").is_a_first_run();
        call().answer().exits(121).prints("").says("not retried");
        assert_eq!(env.runs(), n + 1, "{probe}");
    }
    assert_eq!(
        env.rows("SELECT state, outcome, exit_code, count(*) FROM claim GROUP BY 1, 2, 3"),
        ["held|unknown|7|5"]
    );
}

#[test]
fn a_death_by_a_signal_and_a_time_limit_are_asked_about_too() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    for (end, code) in [("kill -KILL $$", 137), ("read _ < gate", 124)] {
        for (answer, state) in [(0, "completed"), (1, "released"), (2, "held")] {
            let tool = format!("t{code}-{answer}");
            let options = ["--timeout", "1s", "--probe", &format!("exit {answer}")];
            let call = env.run(&tool).external().args(options).script(&format!("echo out; {end}"));
            call.answer().exits(if answer == 0 { 0 } else { code }).prints("out\n");
            assert_eq!(env.rows(&format!("SELECT state FROM claim WHERE tool = '{tool}'")), [state], "{tool}");
        }
    }
}

#[test]
fn a_known_end_is_not_asked_about() {
    let env = TestEnv::new();
    let probe = ["--probe", "touch probed; exit 0"];
    env.run("local").args(probe).script("exit 3").answer().exits(3);
    env.run("kept").args(probe).args(["--keep-failure"]).script("exit 3").answer().exits(3);
    env.run("landed").external().args(probe).script("true").answer().exits(0);
    let codes = ["--landed-exit", "6", "--not-landed-exit", "5"];
    env.run("by-code").external().args(probe).args(codes).script("exit 6").answer().exits(6);
    env.run("not-by-code").external().args(probe).args(codes).script("exit 5").answer().exits(5);
    env.run("not-there").external().args(probe).command(["./not/there"]).answer().exits(127);
    let marks = format!("{IDEM} mark landed; exit 7");
    env.run("marked").external().args(probe).script(&marks).answer().exits(7);
    env.run("never-sent").external().args(probe).args(["--marks"]).script("exit 7").answer().exits(7);
    env.run("local").args(probe).script("exit 3").answer().exits(3);
    env.run("landed").external().args(probe).script("true").answer().exits(0).is_a_replay();
    assert!(!env.has("probed"));
}

#[test]
fn a_later_arrival_asks_by_the_stored_probe() {
    let env = TestEnv::new();
    held(&env, &["--probe", ORACLE]);
    pay(&env, &[]).answer().exits(121).prints("");
    assert_eq!(env.lines_in("probes"), 2);
    env.write("answer", "0");
    pay(&env, &[]).answer().exits(0).prints("receipt\n").is_a_replay();
    pay(&env, &[]).answer().exits(0).prints("receipt\n").is_a_replay();
    assert_eq!((env.runs(), env.lines_in("probes")), (1, 3));
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["completed|probe|landed"]);
}

#[test]
fn the_arrivals_own_probe_wins_over_the_stored_one() {
    let env = TestEnv::new();
    held(&env, &["--probe", ORACLE]);
    env.write("answer", "1");
    pay(&env, &["--probe", "echo mine"]).answer().exits(0).prints("mine\n").is_a_replay();
    assert_eq!((env.runs(), env.lines_in("probes")), (1, 1));
}

#[test]
fn the_arrival_whose_probe_says_not_landed_runs_the_command_as_a_new_attempt() {
    for options in [&[][..], &["--probe", "exit 1"]] {
        let env = TestEnv::new();
        held(&env, &["--probe", ORACLE]);
        env.write("answer", "1");
        pay(&env, options).answer().exits(0).prints("sent 2\n").is_a_first_run();
        assert_eq!(
            env.rows("SELECT state, reason, attempt FROM claim ORDER BY id"),
            ["released|probe|1", "completed|exit|2"]
        );
        assert_eq!(env.runs(), 2);
    }
}

#[test]
fn an_interrupted_local_call_is_asked_about_as_well() {
    for (answer, prints, runs) in [(0, "receipt\n", 1), (1, "again\n", 2)] {
        let env = TestEnv::new();
        let _gate = Gate::new(&env, "gate");
        let script = "[ $IDEM_ATTEMPT = 1 ] || { echo again; exit 0; }; echo $$ > pid; read _ < gate";
        let call = || env.run("t").args(["--probe", ORACLE]).counting(script);
        call().start().kill_9_with_command();
        env.write("answer", answer.to_string());
        call().answer().exits(0).prints(prints);
        assert_eq!((env.runs(), env.lines_in("probes")), (runs, 1));
    }
}

#[test]
fn the_probe_has_the_commands_environment_with_the_attempt_that_it_is_about() {
    let env = TestEnv::new();
    let names = "KEY KEY_UUID KEY_SHORT CLAIM ATTEMPT WHO CONV TOOL STORE";
    let tell = |file: &str| format!("for name in {names}; do eval \"echo \\$IDEM_$name\"; done >> {file}");
    let script = format!("{}; [ $IDEM_ATTEMPT = 2 ] || exit 7", tell("command-$IDEM_ATTEMPT"));
    let call = |options: &[&str]| env.run("pay").external().args(options.iter().copied()).counting(&script);
    let probe = format!("{}; [ -e answer ] || exit 2; exit 1", tell("probe"));
    call(&["--probe", &probe]).var("GREETING", "hello").answer().exits(7);
    let first = env.text_of("command-1");
    assert_eq!(first.lines().count(), 9, "{first}");
    assert_eq!(env.text_of("probe"), first, "at the end of the attempt");
    call(&[]).answer().exits(121);
    assert_eq!(env.text_of("probe"), first.repeat(2), "asked by a later arrival");
    env.idem(["reconcile", "1"]).answer().exits(1);
    assert_eq!(env.text_of("probe"), first.repeat(3), "asked by a person");
    env.write("answer", "");
    call(&[]).answer().exits(0);
    assert_eq!(env.text_of("probe"), first.repeat(4), "asked before the second attempt");
    assert!(env.text_of("command-2").contains("\n2\n"), "{}", env.text_of("command-2"));
}

#[test]
fn a_probe_gets_nothing_on_stdin() {
    let env = TestEnv::new();
    let probe = ["--probe", "cat; echo end"];
    pay(&env, &probe).stdin("some input").answer().exits(0).prints("sent 1\nend\n");
    env.run("later").external().script("exit 7").answer().exits(7);
    env.run("later").external().args(probe).script("exit 7").stdin("some input").answer().exits(0).prints("end\n");
}

#[test]
fn a_stored_probe_runs_in_the_folder_of_the_run_and_does_not_know_when_that_is_gone() {
    let env = TestEnv::new();
    for folder in ["here", "there"] {
        std::fs::create_dir(env.file(folder)).expect("a folder");
    }
    let within = |folder: &str, options: &[&str]| {
        let shell = ["sh".to_owned(), "-c".to_owned(), format!("cd {folder} && exec \"$0\" \"$@\"")];
        env.run("t").external().args(options.iter().copied()).script("exit 7").under(shell).answer()
    };
    within("here", &["--probe", "pwd >> \"$HOME/where\"; touch probed; exit 2"]).exits(7);
    within("there", &[]).exits(121);
    env.idem(["reconcile", "1"]).answer().exits(1);
    let here = env.file("here").display().to_string();
    let places = std::fs::read_to_string(env.home().join("where")).expect("what the probe wrote");
    assert_eq!(places.lines().collect::<Vec<_>>(), [&here; 3]);
    std::fs::remove_dir_all(env.file("here")).expect("a folder that goes");
    within("there", &[]).exits(121);
    assert!(!env.file("there/probed").exists());
}

#[test]
fn each_probe_leaves_an_event_with_what_it_answered() {
    let env = TestEnv::new();
    let _shut = Gate::new(&env, "shut");
    held(&env, &["--probe", "echo out; echo err >&2; exit 3"]);
    pay(&env, &["--probe", "kill -KILL $$"]).answer().exits(121);
    pay(&env, &["--probe", "read _ < shut", "--probe-timeout", "300ms"]).answer().exits(121);
    pay(&env, &["--probe", "head -c 100000 /dev/zero | tr '\\0' x; exit 1"]).answer().exits(0);
    let probes = env.event_details("1", "probe");
    assert_eq!(probes.len(), 4, "{probes:?}");
    let is = |n: usize, outcome: &str, exit_code: Value, timed_out: bool| {
        assert_eq!(probes[n]["outcome"], outcome, "{}", probes[n]);
        assert_eq!(probes[n]["exit_code"], exit_code, "{}", probes[n]);
        assert_eq!(probes[n]["timed_out"], timed_out, "{}", probes[n]);
    };
    is(0, "unknown", 3.into(), false);
    assert_eq!((&probes[0]["stdout"], &probes[0]["stderr"]), (&"out\n".into(), &"err\n".into()));
    is(1, "unknown", Value::Null, false);
    assert_eq!(probes[1]["signal"], "SIGKILL");
    is(2, "unknown", Value::Null, true);
    is(3, "not-landed", 1.into(), false);
    let kept = probes[3]["stdout"].as_str().map_or(0, str::len);
    assert!((1..=4200).contains(&kept), "{kept} bytes are kept");
    assert_eq!(env.event_details("1", "became-released").len(), 1);
}

#[test]
fn what_a_probe_prints_is_replayed_whole_though_its_event_is_short() {
    let env = TestEnv::new();
    let probe = ["--probe", "head -c 100000 /dev/zero | tr '\\0' x"];
    held(&env, &[]);
    for options in [&probe[..], &[]] {
        pay(&env, options).answer().exits(0).prints("x".repeat(100_000)).is_a_replay();
    }
}

#[test]
fn the_envelope_tells_of_the_probe() {
    let env = TestEnv::new();
    let options = ["--json", "--probe", "echo receipt"];
    let first = pay(&env, &options).answer().exits(0).envelope();
    let again = pay(&env, &options).answer().exits(0).envelope();
    for (envelope, idempotent) in [(&first, false), (&again, true)] {
        for (name, value) in [("state", "completed"), ("reason", "probe"), ("outcome", "landed")] {
            assert_eq!(envelope[name], value, "{name} in {envelope}");
        }
        assert_eq!((&envelope["exit_code"], &envelope["idempotent"]), (&0.into(), &idempotent.into()), "{envelope}");
    }
    assert_eq!(again["stdout"], "receipt\n");
    let terms = &env.shown("1")["terms"];
    assert_eq!(terms["probe"], "echo receipt", "{terms}");
}

#[test]
fn an_owner_that_may_live_is_not_freed_by_a_probe() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    owner.command();
    std::fs::remove_file(env.beside_store("-lock")).expect("a lock file that somebody tidies away");
    for _ in 0..2 {
        call().args(["--probe", "echo probe >> probes; exit 1"]).answer().exits(121).prints("");
        assert_eq!(env.rows("SELECT state, reason FROM claim"), ["held|owner-lost"]);
    }
    env.idem(["reconcile", "1", "--probe", "exit 1"]).answer().exits(1);
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["held|owner-lost"]);
    gate.open();
    owner.answer().exits(0).prints("done\n");
    call().answer().exits(0).prints("done\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn another_command_is_a_mismatch_before_anything_is_asked() {
    let env = TestEnv::new();
    held(&env, &[]);
    let probe = ["--probe", "touch probed; exit 1"];
    env.run("pay").external().args(probe).counting("something else").answer().exits(122).prints("");
    assert!(!env.has("probed"));
    assert_eq!((env.runs(), env.states()), (1, vec!["held".to_owned()]));
}

#[test]
fn a_probe_that_hangs_is_ended_with_all_that_it_started() {
    let env = TestEnv::new();
    let _shut = Gate::new(&env, "shut");
    let probe = "sh -c 'echo $$ > child; trap \"\" TERM; read _ < shut' & echo $$ > probe; wait";
    held(&env, &["--probe", probe, "--probe-timeout", "500ms"]);
    for name in ["child", "probe"] {
        become_free(env.pid_in(name));
    }
}

#[test]
fn a_probe_that_leaves_something_behind_has_answered_all_the_same() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let left = "sh -c 'echo $$ > left; read _ < gate' & until [ -s left ]; do :; done; echo receipt";
    pay(&env, &["--probe", left, "--probe-timeout", "10m"]).answer().exits(0).prints("sent 1\nreceipt\n");
    pay(&env, &[]).answer().exits(0).prints("receipt\n").is_a_replay();
}

#[test]
fn the_delay_of_a_later_arrival_counts_from_the_attempts_end() {
    let env = TestEnv::new();
    held(&env, &[]);
    env.tamper("UPDATE claim SET created_at = created_at - 7200000, finished_at = finished_at - 7200000");
    pay(&env, &["--probe", "echo receipt", "--probe-delay", "1h"]).answer().exits(0).prints("receipt\n");
}

#[test]
fn options_of_a_probe_that_make_no_sense_run_nothing() {
    let env = TestEnv::new();
    let wrong: [&[&str]; 8] = [
        &["--probe", ""],
        &["--probe-delay", "1s"],
        &["--probe-timeout", "1s"],
        &["--probe", "true", "--probe-timeout", "0s"],
        &["--probe", "true", "--probe-timeout", "soon"],
        &["--probe", "true", "--probe-delay", "-1s"],
        &["--resend-within", "0s"],
        &["--ttl", "0s"],
    ];
    for options in wrong {
        env.run("t").external().args(options.iter().copied()).counting("true").answer().refuses();
    }
    assert_eq!(env.runs(), 0);
}
