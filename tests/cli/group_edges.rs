//! Groups where calls meet themselves, each other, and somebody else's answer.

use crate::env::{Answer, Gate, Running, TestEnv};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// A step in a script.
fn step(tool: &str, options: &str, command: &str) -> String {
    format!("{IDEM} run --tool {tool} {options} -- {command}")
}

#[test]
fn a_call_is_no_step_of_itself_even_where_its_owner_cannot_be_tested() {
    let env = TestEnv::new();
    let script = "[ -e two ] || { touch two; rm \"$IDEM_STORE-lock\"; $IDEM run --tool t -- sh t.sh; }; exit 1";
    env.write("t.sh", script);
    let call = || env.run("t").command(["sh", "t.sh"]).var("IDEM", IDEM).answer();
    call().exits(1);
    assert_eq!(env.rows("SELECT count(*) FROM member"), ["0"]);
    assert_eq!(env.states(), ["released"], "its own local failure is known");
    call().exits(1).is_a_first_run();
}

#[test]
fn two_calls_are_not_held_for_each_other() {
    let env = TestEnv::new();
    // P starts S in the background and fails; S comes to P, which is held for it, and fails.
    let gate = Gate::new(&env, "gate");
    let s = step("s", "", "sh -c \"echo $$ > pid; read _ < gate; $IDEM run --tool p -- sh p.sh; exit 1\"");
    env.write(
        "p.sh",
        format!("echo run >> runs; [ -e calm ] && exit 0; {s} > s.out 2>&1 & until [ -s pid ]; do :; done; exit 1"),
    );
    let call = || env.run("p").command(["sh", "p.sh"]).var("IDEM", IDEM).answer();
    call().exits(1).says("its step, claim 2, is still running").says("call again when it has ended");
    call().exits(121);
    gate.open();
    // Whatever each of them did meanwhile: their failures are known, and nobody is held.
    crate::env::wait_for("the end of both", || env.states().iter().all(|state| state == "released").then_some(()));
    env.write("calm", "");
    // It runs, unless an arrival that S had begun ran it just before.
    call().exits(0);
}

#[test]
fn the_words_name_the_step_that_somebody_has_to_find_out_about() {
    let env = TestEnv::new();
    let inner = step("p", "", &format!("sh -c '{}; exit 1'", step("s", "--external", "false")));
    let call = || env.run("g").counting(&format!("{inner} || exit 1")).answer();
    call().exits(1).says("its step, claim 3, is unknown").says("idem resolve 3 landed").does_not_say("resolve 2");
    call().exits(121).says("idem resolve 3 landed").does_not_say("resolve 2");
    assert!(env.idem(["show", "1"]).answer().text().contains("idem resolve 3 landed"));
    env.idem(["resolve", "3", "landed"]).answer().exits(0);
    call().exits(1);
    assert_eq!(env.runs(), 2, "it goes on");
}

#[test]
fn arrivals_at_a_parent_wait_for_the_answer_about_its_step() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let probe = "--external --probe 'echo probe >> probes; [ -e ask ] || exit 2; echo $$ > pid; read _ < gate; exit 1'";
    let script = format!("{}; [ -e calm ] || exit 1", step("s", probe, "sh -c '[ -e calm ]'"));
    let call = || env.run("p").counting(&script);
    call().answer().exits(1);
    env.write("ask", "");
    let arrivals: Vec<Running> = (0..10).map(|_| call().start()).collect();
    env.pid_in("pid");
    env.wait_for_waiters(9);
    env.write("calm", "");
    gate.open();
    let answers: Vec<Answer> = arrivals.into_iter().map(Running::answer).collect();
    assert!(answers.iter().all(|answer| answer.code() == Some(0)), "{}", answers[0]);
    assert_eq!(answers.iter().filter(|answer| !answer.is_marked_as_replay()).count(), 1);
    assert_eq!((env.runs(), env.text_of("probes").lines().count()), (2, 2));
}

#[test]
fn what_is_known_of_a_parents_own_write_frees_no_step() {
    // By its probe, and by its marks.
    for (options, end) in [("--probe 'exit 1'", "exit 1"), ("--marks", "kill -9 $PPID; kill -9 $$")] {
        let env = TestEnv::new();
        let options: Vec<&str> = if options == "--marks" { vec!["--marks"] } else { vec!["--probe", "exit 1"] };
        let script = format!("{}; {end}", step("s", "--external", "false"));
        let call = || env.run("p").external().args(options.iter().copied()).script(&script).answer();
        call();
        call().exits(121).says("its step, claim 2, is unknown");
        assert_eq!(env.rows("SELECT state, reason FROM claim WHERE id = 1"), ["held|steps"], "{options:?}");
        env.idem(["resolve", "2", "not-landed"]).answer().exits(0);
        call();
        assert_eq!(env.rows("SELECT attempt FROM claim WHERE tool = 'p' AND id > 2"), ["2"], "it goes on");
    }
}

#[test]
fn a_step_by_another_path_to_the_store_is_a_step() {
    let env = TestEnv::new();
    std::os::unix::fs::symlink(env.state_home().join("idem"), env.file("link")).expect("a link");
    let by_link = format!("{IDEM} --store {} run --tool s -- true", env.file("link/idem.db").display());
    let told = env.run("p").args(["--json"]).script(&by_link).answer().exits(0).envelope();
    assert_eq!(told["members"][0]["tool"], "s", "{told}");
}

#[test]
fn a_value_that_is_no_json_is_told_as_a_members_and_not_as_params() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit a '{{\"x\":1,\"x\":2}}'; echo $?; {IDEM} emit b @nowhere; echo $?");
    let answer = env.run("t").script(&script).answer();
    answer.exits(0).prints("2\n2\n").says("nothing was added").does_not_say("--params");
}

#[test]
fn a_mismatch_gives_nothing_of_the_other_commands_result() {
    let env = TestEnv::new();
    env.run("t").script(&format!("{IDEM} emit secret 1; echo printed")).answer().exits(0);
    let told = env.run("t").args(["--json"]).script("echo other").answer().exits(122).envelope();
    assert_eq!((&told["stdout"], &told["members"]), (&serde_json::Value::Null, &serde_json::json!([])), "{told}");
}

/// A replay is the whole group. Where an envelope is all that is given back, one without the members would pass for the result.
#[test]
fn a_replay_whose_group_cannot_be_read_is_none() {
    let env = TestEnv::new();
    let call = |options: &[&str]| {
        let call = env.run("t").args(options.iter().copied()).counting(&format!("{IDEM} emit order 7; echo out"));
        call.answer()
    };
    assert_eq!(call(&["--json"]).exits(0).envelope()["members"][0]["name"], "order");
    env.tamper("ALTER TABLE member RENAME TO away");
    let failed = call(&["--json"]);
    failed.exits(125).says("can't be read").says("nothing was run");
    let envelope = failed.envelope();
    assert_eq!(
        (&envelope["idempotent"], &envelope["exit_code"]),
        (&false.into(), &serde_json::Value::Null),
        "{failed}"
    );
    assert!(envelope["error"]["message"].as_str().is_some_and(|message| message.contains("whole group")), "{failed}");
    // What was passed on stays a replay; that its members are missing is told where they were to be.
    call(&[]).exits(0).prints("out\n").is_a_replay();
    let with_file = call(&["--status-file", "status"]);
    with_file.exits(0).prints("out\n").is_a_replay().says("can't be read");
    assert!(env.status_file("status")["error"]["kind"].is_string(), "{with_file}");
    env.tamper("ALTER TABLE away RENAME TO member");
    assert_eq!(call(&["--json"]).exits(0).envelope()["members"][0]["name"], "order");
    assert_eq!(env.runs(), 1);
}
