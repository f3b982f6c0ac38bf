//! Marks: what a command tells idem while it runs decides what its end means, even when nobody is left to record it.

use crate::env::{Call, Gate, KILL_IDEM, Running, TestEnv, become_free};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// `idem mark`, as a script says it; `none` says nothing.
fn mark(word: &str) -> String {
    if word == "none" { "true".to_owned() } else { format!("{IDEM} mark {word} || exit 99") }
}

/// The last mark of an external attempt that ends unclear, with what `--marks` changes: the state, the reason where it
/// is the marks, and what the end is called without them.
const EXTERNAL: [(&str, bool, &str); 8] = [
    ("none", false, "held|0|unknown"),
    ("none", true, "released|1|not-landed"),
    ("sending", false, "held|0|unknown"),
    ("sending", true, "held|0|unknown"),
    ("landed", false, "completed|1|landed"),
    ("landed", true, "completed|1|landed"),
    ("not-landed", false, "released|1|not-landed"),
    ("not-landed", true, "released|1|not-landed"),
];

/// Runs an external command with each mark, ends it in one way, and sees what is recorded and what a repeat gets.
fn every_mark_before(env: &TestEnv, options: &[&str], end: &str, code: i32) {
    let call = |word: &str, marks: bool| {
        let call = env.run(&format!("{word}-{marks}")).external().args(options.iter().copied());
        let call = if marks { call.args(["--marks"]) } else { call };
        call.counting(&format!("{}; echo out; echo err >&2; {end}", mark(word)))
    };
    let owners: Vec<Running> = EXTERNAL.iter().map(|(word, marks, _)| call(word, *marks).start()).collect();
    for owner in owners {
        owner.answer().exits(code).prints("out\n").says("err\n").is_a_first_run();
    }
    for (word, marks, expected) in EXTERNAL {
        let row = format!("SELECT state, reason = 'marks', outcome FROM claim WHERE tool = '{word}-{marks}'");
        assert_eq!(env.rows(&row), [expected], "{word}, --marks: {marks}");
        let runs = env.runs();
        let again = call(word, marks).answer();
        match expected.split('|').next() {
            Some("completed") => again.exits(code).prints("out\n").says("err\n").is_a_replay(),
            Some("held") => again.exits(121).prints(""),
            _ => again.exits(code).prints("out\n").is_a_first_run(),
        };
        let more = usize::from(expected.starts_with("released"));
        assert_eq!(env.runs() - runs, more, "{word}, --marks: {marks}\n{again}");
    }
}

#[test]
fn the_last_mark_decides_what_an_unclear_exit_means() {
    every_mark_before(&TestEnv::new(), &[], "exit 7", 7);
}

#[test]
fn the_last_mark_decides_what_a_death_by_a_signal_means() {
    every_mark_before(&TestEnv::new(), &[], "kill -KILL $$", 137);
}

#[test]
fn the_last_mark_decides_what_a_time_limit_means() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    every_mark_before(&env, &["--timeout", "3s"], "read _ < gate", 124);
}

#[test]
fn a_local_command_that_has_landed_is_completed_with_its_own_exit_whatever_failed_later() {
    let env = TestEnv::new();
    let call = || env.run("t").counting(&format!("echo made; {}; exit 3", mark("landed")));
    call().answer().exits(3).prints("made\n").is_a_first_run();
    assert_eq!(env.rows("SELECT state, reason, outcome, exit_code FROM claim"), ["completed|marks|landed|3"]);
    for _ in 0..2 {
        call().answer().exits(3).prints("made\n").is_a_replay();
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_local_failure_is_released_as_ever_with_each_other_mark() {
    let env = TestEnv::new();
    for (word, options) in
        [("sending", &[][..]), ("not-landed", &[]), ("sending", &["--marks"]), ("none", &["--marks"])]
    {
        let tool = format!("{word}{}", options.len());
        env.run(&tool).args(options.iter().copied()).script(&format!("{}; exit 3", mark(word))).answer().exits(3);
    }
    assert_eq!(env.rows("SELECT DISTINCT state, outcome FROM claim"), ["released|not-landed"]);
}

#[test]
fn exit_0_and_a_landed_exit_complete_whatever_the_marks() {
    let env = TestEnv::new();
    for word in ["none", "sending", "not-landed", "landed"] {
        for code in [0, 6] {
            let options = ["--marks", "--landed-exit", "6"];
            let call = env.run(&format!("{word}{code}")).external().args(options);
            call.script(&format!("{}; exit {code}", mark(word))).answer().exits(code);
        }
    }
    assert_eq!(env.rows("SELECT state, outcome, count(*) FROM claim GROUP BY 1, 2"), ["completed|landed|8"]);
}

#[test]
fn an_exit_that_means_not_landed_is_overruled_by_the_mark_landed_alone() {
    let env = TestEnv::new();
    for (word, expected) in [("landed", "completed|landed"), ("sending", "released|not-landed")] {
        let call = || {
            let call = env.run(word).external().args(["--not-landed-exit", "5"]);
            call.script(&format!("{}; exit 5", mark(word)))
        };
        call().answer().exits(5);
        assert_eq!(env.rows(&format!("SELECT state, outcome FROM claim WHERE tool = '{word}'")), [expected]);
    }
}

#[test]
fn a_command_that_can_not_start_never_sent_anything() {
    let env = TestEnv::new();
    env.run("t").external().args(["--marks"]).command(["./not/there"]).answer().exits(127);
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["released|not-started"]);
}

#[test]
fn sending_and_not_landed_follow_each_other_and_the_last_one_counts() {
    let env = TestEnv::new();
    for (first, last, state) in [("sending", "not-landed", "released"), ("not-landed", "sending", "held")] {
        let script = format!("{}; {}; exit 7", mark(first), mark(last));
        env.run(last).external().script(&script).answer().exits(7);
        assert_eq!(env.rows(&format!("SELECT state FROM claim WHERE tool = '{last}'")), [state]);
    }
    let details: Vec<String> = env.event_details("1", "mark").iter().map(ToString::to_string).collect();
    assert_eq!(details, [r#"{"mark":"sending"}"#, r#"{"mark":"not-landed"}"#]);
}

#[test]
fn the_same_mark_again_is_no_change_and_one_event() {
    let env = TestEnv::new();
    for (n, word) in ["sending", "not-landed", "landed"].into_iter().enumerate() {
        let script = format!("{0} && {0} && {0}", mark(word));
        env.run(word).script(&script).answer().exits(0).says_exactly("").prints("");
        assert_eq!(env.event_details(&(n + 1).to_string(), "mark").len(), 1, "{word}");
    }
}

#[test]
fn what_has_landed_does_not_unland() {
    let env = TestEnv::new();
    let try_all = format!("for word in sending not-landed landed; do {IDEM} mark $word; echo $?; done");
    let answer = env.run("t").external().script(&format!("{}; {try_all}; exit 7", mark("landed"))).answer();
    answer.exits(7).prints("1\n1\n0\n").says("idem: ").says("landed");
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["completed|marks"]);
    assert_eq!(env.event_details("1", "mark").len(), 1);
}

/// A call that marks, prints, and is then killed together with its idem; nobody has noticed yet.
fn killed(env: &TestEnv, call: Call<'_>, word: &str) {
    let _ = std::fs::remove_file(env.file("pid"));
    let owner = call.start();
    owner.command();
    env.wait_for_record(&env.rows("SELECT max(id) FROM claim")[0], &format!("{word} so far\n"));
    owner.kill_9_with_command();
}

#[test]
fn when_idem_and_its_command_are_killed_the_next_arrival_goes_by_the_last_mark() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    for effect in [&[][..], &["--external"]] {
        for (word, marks, _) in EXTERNAL {
            let tool = format!("{word}-{marks}-{}", effect.len());
            let script = format!(
                "[ $IDEM_ATTEMPT = 1 ] || exit 0; {}; echo {word} so far; echo $$ > pid; read _ < gate",
                mark(word)
            );
            let call = || env.run(&tool).args(effect.iter().copied()).counting(&script);
            killed(&env, if marks { call().args(["--marks"]) } else { call() }, word);
            let again = call().answer();
            let (ran, expected) = match (word, marks) {
                ("landed", _) => {
                    again.exits(0).prints("landed so far\n").is_a_replay();
                    (false, &["completed|marks|landed"][..])
                }
                ("not-landed", _) | ("none", true) => {
                    again.exits(0).prints("").is_a_first_run();
                    (true, &["released|marks|not-landed", "completed|exit|landed"][..])
                }
                _ => {
                    again.exits(121).prints("").says("interrupted");
                    (false, &["held|interrupted|unknown"][..])
                }
            };
            let rows = format!("SELECT state, reason, outcome FROM claim WHERE tool = '{tool}' ORDER BY id");
            assert_eq!(env.rows(&rows), expected, "{tool}\n{again}");
            assert_eq!(env.lines_in("runs"), 1 + usize::from(ran), "{tool}\n{again}");
            env.write("runs", "");
        }
    }
}

#[test]
fn twenty_arrivals_after_a_killed_attempt_that_never_sent_run_the_command_once() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let script = "[ $IDEM_ATTEMPT = 1 ] || { echo done; exit 0; }; echo $$ > pid; read _ < gate";
    let call = || env.run("pay").external().args(["--marks"]).counting(script);
    call().start().kill_9_with_command();
    let arrivals: Vec<Running> = (0..20).map(|_| call().start()).collect();
    for arrival in arrivals {
        arrival.answer().exits(0).prints("done\n");
    }
    assert_eq!(env.runs(), 2);
}

#[test]
fn ten_who_waited_for_a_command_without_its_idem_run_it_once_when_it_says_not_landed() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let waits = "[ $IDEM_ATTEMPT = 2 ] || { echo $$ > pid; read _ < gate; }";
    let call = || env.run("pay").external().counting(&format!("{waits}; {}; exit 7", mark("not-landed")));
    let owner = call().start();
    let command = owner.command();
    owner.kill_9();
    let waiters: Vec<Running> = (0..10).map(|_| call().start()).collect();
    env.wait_for_waiters(10);
    gate.open();
    become_free(command);
    let answers = waiters.into_iter().map(Running::answer);
    let ran = answers.filter(|answer| !answer.exits(7).is_marked_as_replay()).count();
    assert_eq!((ran, env.runs()), (1, 2), "fifty waiters never turn into fifty runs");
}

#[test]
fn a_mark_is_on_disk_when_it_returns() {
    let env = TestEnv::new();
    let script = format!("strace -f -qq -o trace -e trace=fsync,fdatasync {IDEM} mark sending || exit 99");
    env.run("t").script(&script).answer().exits(0);
    let trace = env.text_of("trace");
    assert!(trace.lines().any(|line| line.ends_with("= 0")), "no sync has returned: {trace}");
}

#[test]
fn a_mark_outlives_the_death_of_all_at_the_moment_it_returns() {
    let env = TestEnv::new();
    let script = format!("echo $$ > pid; {}; {KILL_IDEM}; kill -9 $$", mark("landed"));
    let call = || env.run("pay").external().counting(&script);
    let answer = call().answer();
    assert_eq!(answer.code(), None, "idem was killed\n{answer}");
    become_free(env.pid_in("pid"));
    call().answer().exits(0).is_a_replay();
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["completed|marks"]);
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_command_that_outlives_its_killed_idem_can_still_say_that_it_landed() {
    let env = TestEnv::new();
    let script = format!("echo $$ > pid; {KILL_IDEM}; {IDEM} mark landed; echo $? > marked");
    let call = || env.run("pay").external().counting(&script);
    call().answer();
    become_free(env.pid_in("pid"));
    assert_eq!(env.text_of("marked"), "0\n");
    call().answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_mark_needs_neither_the_inherited_lock_nor_more_than_three_variables() {
    let env = TestEnv::new();
    let closed = "for fd in 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done";
    let told = "IDEM_STORE=\"$IDEM_STORE\" IDEM_CLAIM=$IDEM_CLAIM IDEM_TOKEN=$IDEM_TOKEN";
    env.run("closed").external().script(&format!("{closed}; {}; exit 7", mark("landed"))).answer().exits(7);
    env.run("bare").external().script(&format!("env -i {told} {}; exit 7", mark("landed"))).answer().exits(7);
    let folder = format!("cd / && {}; exit 7", mark("landed"));
    env.run("folder").external().script(&folder).answer().exits(7);
    assert_eq!(env.rows("SELECT DISTINCT state, reason FROM claim"), ["completed|marks"]);
}

#[test]
fn each_attempt_has_a_token_of_its_own() {
    let env = TestEnv::new();
    let call = || env.run("t").script("echo $IDEM_TOKEN >> tokens; exit 3");
    call().answer().exits(3);
    call().answer().exits(3);
    let text = env.text_of("tokens");
    let tokens: Vec<&str> = text.lines().collect();
    let is_token = |token: &&str| token.len() == 16 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(tokens.len() == 2 && tokens.iter().all(is_token) && tokens[0] != tokens[1], "{tokens:?}");
}

#[test]
fn an_owner_that_was_thought_lost_can_still_say_that_it_landed() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = format!("echo $$ > pid; read _ < gate; {}; echo made; exit 7", mark("landed"));
    let call = || env.run("pay").external().counting(&script);
    let owner = call().start();
    owner.command();
    std::fs::remove_file(env.beside_store("-lock")).expect("a lock file that somebody tidies away");
    call().args(["--no-wait"]).answer().exits(121);
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["held|owner-lost"]);
    gate.open();
    owner.answer().exits(7).prints("made\n");
    call().answer().exits(7).prints("made\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn the_mark_of_a_step_is_the_steps_own() {
    let env = TestEnv::new();
    let step = format!("{IDEM} run --external --tool step -- sh -c '{}; exit 3'", mark("landed"));
    env.run("outer").external().script(&format!("{step}; exit 7")).answer().exits(7);
    let rows = env.rows("SELECT tool, state, reason = 'marks' FROM claim ORDER BY id");
    assert_eq!(rows, ["outer|held|0", "step|completed|1"]);
}

#[test]
fn show_tells_the_mark_and_what_was_asked_for() {
    let env = TestEnv::new();
    env.run("pay").external().args(["--marks"]).script(&format!("{}; exit 7", mark("sending"))).answer().exits(7);
    let shown = env.shown("1");
    assert_eq!((&shown["terms"]["mark"], &shown["terms"]["marks"]), (&"sending".into(), &true.into()), "{shown}");
    env.run("t").script("true").answer().exits(0);
    let plain = env.shown("2");
    assert_eq!(
        (&plain["terms"]["mark"], &plain["terms"]["marks"]),
        (&serde_json::Value::Null, &false.into()),
        "{plain}"
    );
}

#[test]
fn a_replay_of_what_marks_completed_says_so_in_its_envelope() {
    let env = TestEnv::new();
    let call = || env.run("pay").external().args(["--json"]).script(&format!("echo made; {}; exit 7", mark("landed")));
    for idempotent in [false, true] {
        let envelope = call().answer().exits(7).envelope();
        for (name, value) in [("state", "completed"), ("reason", "marks"), ("outcome", "landed"), ("stdout", "made\n")]
        {
            assert_eq!(envelope[name], value, "{name} in {envelope}");
        }
        assert_eq!((&envelope["exit_code"], &envelope["idempotent"]), (&7.into(), &idempotent.into()), "{envelope}");
    }
}
