//! A call whose step nobody knows the outcome of: it is held as well, and goes on once the step is known.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::env::{
    Answer, Call, Gate, Running, TestEnv, become_free, is_alive, outline, set_mode, sleeping_waiters, wait_for,
};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// A step whose first attempt ends unclear, with further options; later ones succeed. It counts itself in `sent`.
fn unclear(options: &str) -> String {
    format!(
        "{IDEM} run --tool pay --external {options} -- sh -c 'echo sent >> sent; [ $IDEM_ATTEMPT != 1 ] || exit 7; echo paid'"
    )
}

/// A step that succeeds, and counts itself in `made`.
fn made() -> String {
    format!("{IDEM} run --tool make -- sh -c 'echo made >> made; echo made'")
}

/// A parent that makes, pays, and fails with 3 where one of them fails. Its claim is 1, those of its steps 2 and 3.
fn parent<'a>(env: &'a TestEnv, options: &[&str], pay: &str) -> Call<'a> {
    env.run("t").args(options.iter().copied()).counting(&format!("{} && {pay} || exit 3", made()))
}

fn resolve(env: &TestEnv, id: &str, verdict: &str) -> Answer {
    let answer = env.idem(["resolve", id, verdict]).answer();
    answer.exits(0);
    answer
}

/// The state and the reason of a claim.
fn standing(env: &TestEnv, id: u32) -> String {
    env.rows(&format!("SELECT state, reason FROM claim WHERE id = {id}")).remove(0)
}

#[test]
fn a_parent_that_fails_beside_a_held_step_is_held_whatever_its_effect_and_options() {
    for (options, reason) in [
        (&[][..], "steps"),
        (&["--keep-failure"], "steps"),
        (&["--not-landed-exit", "3"], "steps"),
        (&["--marks"], "steps"),
        (&["--rerun-if-interrupted"], "steps"),
        (&["--external"], "exit"),
        (&["--external", "--not-landed-exit", "3"], "steps"),
        (&["--external", "--marks"], "steps"),
    ] {
        let env = TestEnv::new();
        let call = || parent(&env, options, &unclear(""));
        let first = call().answer();
        first.exits(3).prints("made\n").is_a_first_run().says("laim 1 is held");
        assert_eq!(standing(&env, 1), format!("held|{reason}"), "{options:?}\n{first}");
        let again = call().answer();
        again.exits(121).prints("").says("nothing was run");
        if reason == "steps" {
            for answer in [first, again] {
                answer.says("claim 3").says("idem resolve 3 landed").does_not_say("idem resolve 1 ");
            }
        }
        assert_eq!((env.runs(), env.lines_in("sent")), (1, 1), "{options:?}");
    }
}

#[test]
fn a_signal_and_a_time_limit_that_end_the_parent_leave_it_held_too() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    for (tool, end, options, code) in
        [("killed", "kill -9 $$", &[][..], 137), ("late", "read _ < gate", &["--timeout", "3s"], 124)]
    {
        let pay = format!("{IDEM} run --tool pay-{tool} --external -- sh -c 'exit 7'");
        let call = || env.run(tool).args(options.iter().copied()).counting(&format!("{pay}; {end}"));
        call().answer().exits(code).says("is held");
        call().answer().exits(121);
    }
    assert_eq!(env.rows("SELECT state, reason FROM claim WHERE parent IS NULL"), ["held|steps", "held|steps"]);
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_parent_that_succeeds_or_has_landed_is_completed_with_its_held_step() {
    let env = TestEnv::new();
    for (tool, end, options, code) in [
        ("exit", "exit 0", &[][..], 0),
        ("code", "exit 6", &["--landed-exit", "6"], 6),
        ("mark", "$IDEM_BIN mark landed; exit 3", &[], 3),
    ] {
        let pay = format!("{IDEM} run --tool pay-{tool} --external -- sh -c 'exit 7'");
        let script = format!("IDEM_BIN={IDEM}; {pay}; {end}");
        let call = || env.run(tool).args(["--json"]).args(options.iter().copied()).counting(&script);
        for idempotent in [false, true] {
            let envelope = call().answer().exits(code).envelope();
            assert_eq!((&envelope["state"], &envelope["idempotent"]), (&json!("completed"), &json!(idempotent)));
            assert_eq!(outline(&envelope), format!("pay-{tool} held"));
        }
    }
    assert_eq!(env.runs(), 3);
}

#[test]
fn the_envelope_names_the_reason_the_step_and_its_state() {
    let env = TestEnv::new();
    let first = parent(&env, &["--json"], &unclear("")).answer().exits(3).envelope();
    let again = parent(&env, &["--json"], &unclear("")).answer().exits(121).envelope();
    for envelope in [&first, &again] {
        let told = |name: &str| envelope[name].clone();
        assert_eq!((told("state"), told("reason"), told("outcome")), (json!("held"), json!("steps"), json!("unknown")));
        assert_eq!((told("exit_code"), outline(envelope).as_str()), (json!(3), "make completed, pay held"));
        assert!(envelope["message"].as_str().is_some_and(|message| message.contains("claim 3")), "{envelope}");
    }
    assert_eq!((&again["error"]["kind"], &first["error"]), (&json!("held"), &Value::Null));
}

#[test]
fn show_says_what_to_do_about_a_parent_and_about_its_step() {
    let env = TestEnv::new();
    parent(&env, &[], &unclear("")).answer().exits(3);
    let now = |id: &str| {
        let text = env.idem(["show", id]).answer().exits(0).text();
        text.split_once("what to do now\n").unwrap_or_else(|| panic!("what to do now:\n{text}")).1.to_owned()
    };
    for id in ["1", "3"] {
        let now = now(id);
        assert!(now.contains("idem resolve 3 landed") && now.contains("idem resolve 3 not-landed"), "{id}: {now}");
    }
    resolve(&env, "3", "landed");
    let now = now("1");
    assert!(!now.contains("resolve") && now.contains("next"), "{now}");
}

#[test]
fn a_step_that_is_resolved_as_landed_lets_the_next_arrival_run_the_parent_and_replays() {
    for options in [&[][..], &["--keep-failure"], &["--not-landed-exit", "3"]] {
        let env = TestEnv::new();
        let call = || parent(&env, options, &unclear(""));
        call().answer().exits(3);
        let said = resolve(&env, "3", "landed");
        assert!(said.text().contains("claim 1 "), "that the parent goes on is said\n{said}");
        assert_eq!(env.runs(), 1, "nothing is run by a person's word");
        call().answer().exits(0).prints("made\n");
        assert_eq!((env.runs(), env.lines_in("sent"), env.lines_in("made")), (2, 1, 1));
        assert_eq!(
            env.rows("SELECT state, reason FROM claim WHERE tool = 't' ORDER BY id"),
            ["released|steps", "completed|exit"]
        );
        let replay = parent(&env, options, &unclear("")).args(["--json"]).answer().exits(0).envelope();
        assert_eq!((&replay["idempotent"], outline(&replay).as_str()), (&json!(true), "make completed, pay completed"));
        assert_eq!(env.runs(), 2);
    }
}

#[test]
fn a_step_that_is_resolved_as_not_landed_runs_again_inside_the_parents_next_attempt() {
    let env = TestEnv::new();
    let call = || parent(&env, &[], &unclear(""));
    call().answer().exits(3);
    resolve(&env, "3", "not-landed");
    call().answer().exits(0).prints("made\npaid\n");
    assert_eq!((env.runs(), env.lines_in("sent"), env.lines_in("made")), (2, 2, 1));
    let replay = call().args(["--json"]).answer().exits(0).envelope();
    assert_eq!(outline(&replay), "make completed, pay completed");
    assert_eq!(replay["members"][1]["attempt"], 2);
}

#[test]
fn a_step_that_a_person_clears_lets_the_parent_go_on_too() {
    let env = TestEnv::new();
    let call = || parent(&env, &[], &unclear(""));
    call().answer().exits(3);
    env.idem(["clear", "3"]).answer().exits(0);
    call().answer().exits(0).prints("made\npaid\n");
    assert_eq!((env.runs(), env.lines_in("sent")), (2, 2));
}

#[test]
fn a_persons_word_on_the_parent_itself_counts() {
    for (verdict, code, runs) in [("landed", 0, 1), ("not-landed", 3, 2)] {
        let env = TestEnv::new();
        let call = || parent(&env, &[], &unclear(""));
        call().answer().exits(3);
        resolve(&env, "1", verdict);
        let again = call().answer();
        again.exits(code).prints("made\n");
        assert_eq!((env.runs(), env.lines_in("sent")), (runs, 1), "the step is held as it was\n{again}");
    }
}

#[test]
fn an_external_parent_with_an_unknown_end_of_its_own_needs_a_word_of_its_own() {
    let env = TestEnv::new();
    let call = || parent(&env, &["--external"], &unclear(""));
    call().answer().exits(3);
    resolve(&env, "3", "landed");
    call().answer().exits(121).says("idem resolve 1 landed");
    assert_eq!(env.runs(), 1);
    resolve(&env, "1", "not-landed");
    call().answer().exits(0).prints("made\n");
    assert_eq!((env.runs(), env.lines_in("sent")), (2, 1));
}

#[test]
fn a_step_that_still_runs_when_its_parent_fails_holds_the_parent() {
    for external in [&[][..], &["--external", "--not-landed-exit", "3"]] {
        let env = TestEnv::new();
        let gate = Gate::new(&env, "gate");
        let background = format!(
            "{{ {IDEM} run --tool bg -- sh -c 'echo run >> bg.runs; echo $$ > pid; read _ < gate; echo late'; }}"
        );
        let script = format!(
            "if [ $IDEM_ATTEMPT = 1 ]; then {background} < /dev/null > /dev/null 2>&1 & until [ -s pid ]; do :; done; exit 3; fi; \
             {background}"
        );
        let call = || env.run("t").args(external.iter().copied()).counting(&script);
        call().answer().exits(3).says("claim 2").says("laim 1 is held");
        assert_eq!(standing(&env, 1), "held|steps");
        call().answer().exits(121).prints("").says("claim 2");
        gate.open();
        become_free(env.pid_in("pid"));
        wait_for("the record of the step", || (standing(&env, 2) == "completed|exit").then_some(()));
        call().answer().exits(0).prints("late\n");
        assert_eq!((env.runs(), env.lines_in("bg.runs")), (2, 1));
    }
}

#[test]
fn an_arrival_at_the_parent_asks_the_steps_target_and_goes_on_by_itself() {
    for (answer, code, sent, runs) in [(0, 0, 1, 2), (1, 0, 2, 2), (2, 121, 1, 1)] {
        let env = TestEnv::new();
        let probe = "--probe 'echo probe >> probes; [ -e calm ] || exit 2; echo receipt; exit $(cat calm)'";
        let call = || parent(&env, &[], &unclear(probe));
        call().answer().exits(3);
        call().answer().exits(121).says("claim 3");
        env.write("calm", answer.to_string());
        env.write("probes", "");
        let again = call().answer();
        again.exits(code);
        if code == 0 {
            again.prints(if answer == 0 { "made\nreceipt\n" } else { "made\npaid\n" });
            let replay = call().args(["--json"]).answer().exits(0).envelope();
            assert_eq!(outline(&replay), "make completed, pay completed");
        } else {
            again.prints("").says("claim 3");
        }
        let counts = (env.runs(), env.lines_in("sent"), env.lines_in("made"), env.lines_in("probes"));
        assert_eq!(counts, (runs, sent, 1, 1), "the probe answers {answer}\n{again}");
    }
}

#[test]
fn steps_of_steps_are_asked_about_as_well_and_each_parent_goes_on() {
    let env = TestEnv::new();
    let probe = "--probe 'echo probe >> probes; [ -e calm ] || exit 2; exit $(cat calm)'";
    env.write("mid.sh", format!("echo mid >> mid.runs; {} && {} || exit 4\n", made(), unclear(probe)));
    env.write("high.sh", format!("{IDEM} run --tool mid -- sh mid.sh || exit 5\n"));
    let call = || env.run("t").args(["--json"]).counting(&format!("{IDEM} run --tool high -- sh high.sh || exit 6"));
    let failed = call().answer().exits(6).envelope();
    assert_eq!(outline(&failed), "high held [mid held [make completed, pay held]]");
    let unknown = call().answer().exits(121).envelope();
    assert_eq!((&unknown["reason"], env.runs()), (&json!("steps"), 1));
    env.write("calm", "0");
    let envelope = call().answer().exits(0).envelope();
    assert_eq!(outline(&envelope), "high completed [mid completed [make completed, pay completed]]");
    assert_eq!((env.runs(), env.lines_in("mid.runs"), env.lines_in("sent"), env.lines_in("made")), (2, 2, 1, 1));
}

#[test]
fn a_person_resolves_the_lowest_step_and_all_parents_go_on() {
    let env = TestEnv::new();
    env.write("mid.sh", format!("{} || exit 4\n", unclear("")));
    let call = || env.run("t").counting(&format!("{IDEM} run --tool mid -- sh mid.sh || exit 6"));
    // 2 is only held for 3: it is 3 that somebody has to find out about.
    call().answer().exits(6).says("claim 3");
    call().answer().exits(121).says("claim 3");
    resolve(&env, "3", "landed");
    call().answer().exits(0);
    assert_eq!((env.runs(), env.lines_in("sent")), (2, 1));
}

/// A parent whose step is killed together with its idem while it runs, and which then fails.
fn with_killed_step<'a>(env: &'a TestEnv, options: &str, mark: &str) -> Call<'a> {
    env.write(
        "step.sh",
        format!(
            "echo run >> step.runs; [ $IDEM_ATTEMPT = 1 ] || exit 0; {mark}; echo so far; kill -9 $PPID; kill -9 $$\n"
        ),
    );
    env.run("t").counting(&format!("{IDEM} run --tool s {options} -- sh step.sh || exit 3"))
}

#[test]
fn the_next_arrival_finds_out_that_a_step_was_killed() {
    for (options, mark, code, state) in [
        ("", "true", 121, "held|interrupted"),
        ("--external", "true", 121, "held|interrupted"),
        ("--marks", "true", 0, "released|marks"),
        ("--external --marks", "idem mark sending", 121, "held|interrupted"),
        ("--external", "idem mark landed", 0, "completed|marks"),
        ("--external", "idem mark not-landed", 0, "released|marks"),
        ("--external --probe 'exit 0'", "true", 0, "completed|probe"),
        ("--external --probe 'exit 1'", "true", 0, "released|probe"),
        ("--external --probe 'exit 2'", "true", 121, "held|interrupted"),
    ] {
        let env = TestEnv::new();
        let mark = mark.replace("idem mark", &format!("{IDEM} mark"));
        let call = || with_killed_step(&env, options, &mark);
        call().answer().exits(3).says("claim 2").says("laim 1 is held");
        assert_eq!(env.states(), ["held", "running"], "{options} {mark}");
        let again = call().answer();
        again.exits(code);
        assert_eq!(standing(&env, 2), state, "{options} {mark}\n{again}");
        let runs = if code == 0 { 2 } else { 1 };
        let step_runs = if state.starts_with("released") { 2 } else { 1 };
        assert_eq!((env.runs(), env.lines_in("step.runs")), (runs, step_runs), "{options} {mark}\n{again}");
    }
}

#[test]
fn a_step_whose_idem_alone_was_killed_still_lives_and_its_parent_waits_for_it() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    env.write(
        "step.sh",
        format!("echo run >> step.runs; echo $$ > pid; kill -9 $PPID; read _ < gate; {IDEM} mark landed\n"),
    );
    let call = || env.run("t").counting(&format!("{IDEM} run --tool s -- sh step.sh > /dev/null 2>&1 || exit 3"));
    call().answer().exits(3);
    assert_eq!(env.states(), ["held", "running"]);
    call().answer().exits(121).says("claim 2");
    assert_eq!(env.states(), ["held", "running"], "its command lives");
    gate.open();
    become_free(env.pid_in("pid"));
    call().answer().exits(0);
    assert_eq!((env.runs(), env.lines_in("step.runs"), standing(&env, 2).as_str()), (2, 1, "completed|marks"));
}

#[test]
fn reconcile_all_asks_about_steps_and_then_knows_of_their_parents() {
    let env = TestEnv::new();
    let probe = "--probe 'echo probe >> probes; [ -e calm ] || exit 2; exit $(cat calm)'";
    env.write("mid.sh", format!("{} || exit 4\n", unclear(probe)));
    let call = || env.run("t").counting(&format!("{IDEM} run --tool mid -- sh mid.sh || exit 6"));
    call().answer().exits(6);
    let unknown = env.idem(["reconcile", "--all"]).answer();
    assert_eq!(unknown.exits(1).text().lines().last(), Some("0 landed, 0 not landed, 3 still unknown"), "{unknown}");
    env.write("calm", "0");
    env.write("probes", "");
    let known = env.idem(["reconcile", "--all"]).answer();
    assert_eq!(known.exits(0).text().lines().last(), Some("1 landed, 2 not landed, 0 still unknown"), "{known}");
    assert_eq!((env.lines_in("probes"), env.runs()), (1, 1), "it asks once and runs nothing");
    assert_eq!(
        env.rows("SELECT state, reason FROM claim ORDER BY id"),
        ["released|steps", "released|steps", "completed|probe"]
    );
    call().answer().exits(0);
    assert_eq!((env.runs(), env.lines_in("sent")), (2, 1));
}

#[test]
fn reconcile_of_the_parent_alone_asks_about_its_steps() {
    let env = TestEnv::new();
    let probe = "--probe 'echo probe >> probes; [ -e calm ] || exit 2; exit $(cat calm)'";
    parent(&env, &[], &unclear(probe)).answer().exits(3);
    env.idem(["reconcile", "1"]).answer().exits(1);
    assert_eq!(standing(&env, 1), "held|steps");
    env.write("calm", "1");
    let answer = env.idem(["reconcile", "1", "--json"]).answer();
    assert_eq!(answer.exits(0).envelope()["state"], "released");
    assert_eq!((standing(&env, 1).as_str(), standing(&env, 3).as_str()), ("released|steps", "released|probe"));
    assert_eq!(env.runs(), 1);
}

#[test]
fn who_waited_for_the_parent_is_told_that_it_is_held() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = format!("{}; echo $$ > pid; read _ < gate; exit 3", unclear(""));
    let call = || env.run("t").counting(&script);
    let owner = call().start();
    owner.command();
    let waiters: Vec<Running> = (0..5).map(|_| call().start()).collect();
    env.wait_for_waiters(5);
    gate.open();
    owner.answer().exits(3).is_a_first_run();
    for waiter in waiters {
        waiter.answer().exits(121).prints("").says("claim 2");
    }
    assert_eq!(env.runs(), 1);
}

#[test]
fn twenty_arrivals_after_the_step_is_known_run_the_parent_once() {
    let env = TestEnv::new();
    let call = || parent(&env, &[], &unclear(""));
    call().answer().exits(3);
    resolve(&env, "3", "not-landed");
    let arrivals: Vec<Running> = (0..20).map(|_| call().start()).collect();
    for arrival in arrivals {
        arrival.answer().exits(0).prints("made\npaid\n");
    }
    assert_eq!((env.runs(), env.lines_in("sent"), env.lines_in("made")), (2, 2, 1));
}

#[test]
fn twenty_arrivals_that_ask_the_steps_target_run_the_parent_at_most_once() {
    let env = TestEnv::new();
    let probe = "--probe 'echo probe >> probes; [ -e calm ] || exit 2; exit 1'";
    let call = || parent(&env, &[], &unclear(probe));
    call().answer().exits(3);
    env.write("calm", "");
    let arrivals: Vec<Running> = (0..20).map(|_| call().start()).collect();
    // One asks; who comes while it does may be told that the parent is held.
    let codes: Vec<_> = arrivals.into_iter().map(|arrival| arrival.answer().code()).collect();
    assert!(codes.contains(&Some(0)) && codes.iter().all(|code| matches!(code, Some(0 | 121))), "{codes:?}");
    assert_eq!((env.runs(), env.lines_in("sent"), env.lines_in("made")), (2, 2, 1));
}

#[test]
fn neither_a_probe_nor_a_resend_of_the_parents_own_frees_it_while_a_step_is_unknown() {
    let env = TestEnv::new();
    let own = ["--external", "--not-landed-exit", "3", "--probe", "echo own >> own; exit 1", "--resend-within", "1h"];
    let call = || parent(&env, &own, &unclear(""));
    call().answer().exits(3);
    assert_eq!(standing(&env, 1), "held|steps");
    call().answer().exits(121).says("claim 3");
    env.idem(["reconcile", "1"]).answer().exits(1);
    assert_eq!((env.runs(), env.lines_in("own"), standing(&env, 1).as_str()), (1, 0, "held|steps"));
    resolve(&env, "3", "landed");
    call().answer().exits(0);
    assert_eq!((env.runs(), env.lines_in("sent")), (2, 1));
}

#[test]
fn who_is_told_to_end_while_a_step_is_asked_about_starts_nothing() {
    for answer in [0, 1] {
        let env = TestEnv::new();
        let _asked = Gate::new(&env, "asked");
        let probe =
            format!("--probe 'trap \"exit {answer}\" TERM; [ -e calm ] || exit 2; echo $$ > pid; read _ < asked'");
        let call = || parent(&env, &[], &unclear(&probe));
        call().answer().exits(3);
        env.write("calm", "");
        let arrival = call().start();
        arrival.command();
        arrival.signal(Signal::SIGTERM);
        let told = arrival.answer();
        assert!(matches!(told.code(), Some(121 | 143)), "{told}");
        assert_eq!((env.runs(), env.lines_in("sent")), (1, 1), "{told}");
    }
}

#[test]
fn an_arrival_that_comes_while_the_step_is_asked_about_takes_that_answer() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    let probe = "--probe 'echo probe >> probes; [ -e calm ] || exit 2; echo $$ > pid; read _ < asked; exit 0'";
    let call = || parent(&env, &[], &unclear(probe));
    call().answer().exits(3);
    env.write("calm", "");
    env.write("probes", "");
    let first = call().start();
    first.command();
    let second = call().start();
    let lock = env.beside_store("-lock");
    wait_for("the second one to wait or to end", || {
        (sleeping_waiters(&lock) == 1 || !is_alive(second.pid())).then_some(())
    });
    asked.open();
    for arrival in [first, second] {
        arrival.answer().exits(0).prints("made\n");
    }
    assert_eq!((env.runs(), env.lines_in("sent"), env.lines_in("probes")), (2, 1, 1));
}

#[test]
fn another_command_is_a_mismatch_before_anything_is_asked() {
    let env = TestEnv::new();
    let probe = "--probe 'echo probe >> probes; exit 2'";
    parent(&env, &[], &unclear(probe)).answer().exits(3);
    env.write("probes", "");
    env.run("t").command(["true"]).answer().exits(122);
    assert_eq!(env.lines_in("probes"), 0);
}

#[test]
fn a_parent_that_could_not_be_started_is_released_beside_a_held_step() {
    let env = TestEnv::new();
    env.write("parent", format!("#!/bin/sh\n{}\necho $$ > pid\nkill -9 $PPID\nkill -9 $$\n", unclear("")));
    set_mode(&env.file("parent"), 0o700);
    let call = || env.run("t").args(["--rerun-if-interrupted"]).command(["./parent"]);
    let owner = call().start();
    become_free(owner.command());
    become_free(owner.pid());
    std::fs::remove_file(env.file("parent")).expect("the program is there");
    call().answer().exits(127);
    assert_eq!(
        env.rows("SELECT state, reason FROM claim WHERE tool = 't' ORDER BY id DESC LIMIT 1"),
        ["released|not-started"]
    );
}

#[test]
fn a_killed_parent_is_held_and_with_rerun_if_interrupted_its_steps_replay_and_the_unclear_one_is_held() {
    let env = TestEnv::new();
    let pay = unclear("");
    let script = format!(
        "{} && {{ {pay} || [ $IDEM_ATTEMPT = 1 ]; }} || exit 3; \
         [ $IDEM_ATTEMPT != 1 ] || {{ echo $$ > pid; kill -9 $PPID; kill -9 $$; }}; echo whole",
        made()
    );
    let call = |options: &[&str]| env.run("t").args(options.iter().copied()).counting(&script);
    let owner = call(&[]).start();
    become_free(owner.command());
    become_free(owner.pid());
    assert_eq!(env.states(), ["running", "completed", "held"]);
    let again = call(&["--rerun-if-interrupted"]).answer();
    again.exits(3).prints("made\n").says("claim 3");
    assert_eq!(
        env.rows("SELECT state, reason FROM claim WHERE tool = 't' ORDER BY id"),
        ["released|interrupted", "held|steps"]
    );
    resolve(&env, "3", "landed");
    call(&[]).answer().exits(0).prints("made\nwhole\n");
    assert_eq!((env.runs(), env.lines_in("sent"), env.lines_in("made")), (3, 1, 1));
}

#[test]
fn a_killed_parent_is_held_as_interrupted_whatever_its_steps() {
    let env = TestEnv::new();
    let script = format!("{}; {}; echo $$ > pid; kill -9 $PPID; kill -9 $$", made(), unclear(""));
    let call = || env.run("t").args(["--json"]).counting(&script);
    let owner = call().start();
    become_free(owner.command());
    become_free(owner.pid());
    let envelope = call().answer().exits(121).envelope();
    assert_eq!((&envelope["reason"], outline(&envelope).as_str()), (&json!("interrupted"), "make completed, pay held"));
    assert_eq!(env.runs(), 1);
}

#[test]
fn a_held_step_of_two_calls_holds_both_and_its_word_frees_both() {
    let env = TestEnv::new();
    let call = |tool: &str| env.run(tool).counting(&format!("{} || exit 3", unclear("")));
    call("one").answer().exits(3);
    call("two").answer().exits(3).says("claim 2");
    assert_eq!(
        env.rows("SELECT state, reason FROM claim WHERE tool <> 'pay' ORDER BY id"),
        ["held|steps", "held|steps"]
    );
    resolve(&env, "2", "landed");
    call("one").answer().exits(0);
    call("two").answer().exits(0);
    assert_eq!((env.runs(), env.lines_in("sent")), (4, 1));
}

#[test]
fn the_word_on_a_step_of_two_calls_says_that_both_go_on() {
    let env = TestEnv::new();
    for tool in ["one", "two"] {
        env.run(tool).script(&format!("{} || exit 3", unclear(""))).answer().exits(3);
    }
    let said = resolve(&env, "2", "landed");
    for claim in ["claim 1 ", "claim 3 "] {
        assert!(said.text().contains(claim), "{claim}goes on, and that is said\n{said}");
    }
}

#[test]
fn the_word_on_a_step_of_an_earlier_attempt_says_that_the_newest_one_goes_on() {
    let env = TestEnv::new();
    let script =
        format!("{} || [ $IDEM_ATTEMPT = 1 ] || exit 3; echo $$ > pid; kill -9 $PPID; kill -9 $$", unclear(""));
    let owner = env.run("t").script(&script).start();
    become_free(owner.command());
    become_free(owner.pid());
    env.run("t").args(["--rerun-if-interrupted"]).script(&script).answer().exits(3);
    assert_eq!(env.rows("SELECT id, state, reason FROM claim ORDER BY id DESC LIMIT 1"), ["3|held|steps"]);
    let said = resolve(&env, "2", "landed");
    assert!(said.text().contains("claim 3 "), "that the call held for it goes on is said\n{said}");
}

#[test]
fn a_parent_with_two_held_steps_names_both_and_waits_for_both() {
    let env = TestEnv::new();
    let pay = |tool: &str| format!("{IDEM} run --tool {tool} --external -- sh -c 'echo {tool} >> sent; exit 7'");
    let script = format!("{} & {} & wait; [ -e calm ] || exit 3", pay("p1"), pay("p2"));
    let call = || env.run("t").counting(&script);
    call().answer().exits(3).says("2").says("3");
    let said = resolve(&env, "2", "landed");
    assert!(said.text().contains("claim 1 stays held for 3"), "{said}");
    call().answer().exits(121).says("claim 3");
    resolve(&env, "3", "landed");
    env.write("calm", "");
    call().answer().exits(0);
    assert_eq!((env.runs(), env.lines_in("sent")), (2, 2));
}

#[test]
fn a_step_that_was_held_in_a_group_that_is_cleared_holds_nobody() {
    let env = TestEnv::new();
    let script = format!("[ $IDEM_ATTEMPT = 2 ] && exit 3; {} || exit 3", unclear(""));
    let call = || env.run("t").args(["--json"]).counting(&script);
    call().answer().exits(3);
    env.idem(["clear", "1"]).answer().exits(0);
    let failed = call().answer().exits(3).envelope();
    assert_eq!((&failed["state"], outline(&failed).as_str()), (&json!("released"), ""));
}

#[test]
fn a_parent_whose_time_runs_out_while_it_waits_for_anothers_step_is_held_for_it() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let slow = format!("{IDEM} run --tool s -- sh -c 'echo run >> step.runs; echo $$ > pid; read _ < gate'");
    let first = env.run("one").script(&slow).start();
    first.command();
    let call = || env.run("two").args(["--timeout", "3s"]).counting(&format!("{slow}; exit 0"));
    call().answer().exits(124).says("claim 2");
    call().answer().exits(121).says("claim 2");
    gate.open();
    first.answer().exits(0);
    call().answer().exits(0);
    assert_eq!((env.runs(), env.lines_in("step.runs")), (2, 1));
}

#[test]
fn a_call_that_hides_that_it_is_inside_holds_nobody() {
    let env = TestEnv::new();
    let hidden = format!("env -u IDEM_TOKEN {}", unclear(""));
    let failed = env.run("t").args(["--json"]).script(&format!("{hidden} || exit 3")).answer().exits(3).envelope();
    assert_eq!((&failed["state"], outline(&failed).as_str()), (&json!("released"), ""), "nobody's step");
    assert_eq!(env.states(), ["released", "held"]);
}
