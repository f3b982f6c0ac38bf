//! Outcomes that become known late, by a probe, a mark or a person, and several of these at once.

use nix::sys::signal::Signal;

use crate::env::{Call, Gate, Running, TestEnv, become_free, is_stopped, wait_for};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

fn pay<'a>(env: &'a TestEnv, options: &[&str]) -> Call<'a> {
    env.run("pay").external().args(options.iter().copied()).counting("echo half; exit 7")
}

#[test]
fn a_result_that_becomes_known_late_lasts_from_then_on() {
    let long_ago = "UPDATE claim SET created_at = 1, finished_at = 2, boot = 'another'";
    let env = TestEnv::new();
    pay(&env, &["--ttl", "1h"]).answer().exits(7);
    env.tamper(long_ago);
    pay(&env, &["--ttl", "1h", "--probe", "echo there"]).answer().exits(0).prints("there\n").is_a_replay();
    assert_eq!((env.runs(), env.states()), (1, vec!["completed".to_owned()]));

    let env = TestEnv::new();
    pay(&env, &["--ttl", "1h"]).answer().exits(7);
    env.tamper(long_ago);
    env.idem(["resolve", "1", "landed"]).answer().exits(0);
    pay(&env, &["--ttl", "1h"]).answer().exits(0).prints("half\n").is_a_replay();
    assert_eq!(env.runs(), 1);
}

#[test]
fn what_a_person_says_while_the_end_is_asked_about_stands_and_is_told() {
    for (said, state) in [(&["clear", "1"][..], "cleared"), (&["resolve", "1", "landed"][..], "completed")] {
        for answer in [0, 1, 2] {
            let env = TestEnv::new();
            let gate = Gate::new(&env, "gate");
            let owner = pay(&env, &["--probe", &format!("echo $$ > pid; read _ < gate; exit {answer}")]).start();
            env.pid_in("pid");
            env.idem(said.iter().copied()).answer().exits(0);
            gate.open();
            owner.answer().exits(7).says(&format!("had become {state} meanwhile by a person's word"));
            assert_eq!(env.states(), [state]);
        }
    }
}

#[test]
fn who_waits_for_somebody_who_only_asks_runs_the_command_once_it_has_not_landed() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    pay(&env, &[]).answer().exits(7);
    let asker = env.idem(["reconcile", "1", "--probe", "echo $$ > pid; read _ < gate; exit 1"]).start();
    env.pid_in("pid");
    let arrivals: Vec<Running> = (0..5).map(|_| pay(&env, &[]).start()).collect();
    env.wait_for_waiters(5);
    gate.open();
    asker.answer().exits(0);
    let answers: Vec<_> = arrivals.into_iter().map(Running::answer).collect();
    let mut codes: Vec<_> = answers.iter().map(crate::env::Answer::code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(7), Some(121), Some(121), Some(121), Some(121)], "one runs, and its end is held");
    assert_eq!((env.runs(), env.states()), (2, vec!["released".to_owned(), "held".to_owned()]));
}

#[test]
fn what_may_not_be_recorded_of_a_command_is_not_recorded_of_its_probe() {
    let env = TestEnv::new();
    let probe = "echo secret; echo hidden >&2";
    let call = || pay(&env, &["--no-record-output", "--probe", probe]);
    call().answer().exits(0).prints("half\nsecret\n");
    call().answer().exits(0).prints("").is_a_replay().says("bytes of its output were not recorded");
    let recorded = env.shown("1").to_string();
    assert!(!recorded.contains("secret\\n") && !recorded.contains("hidden\\n"), "{recorded}");

    let env = TestEnv::new();
    let call = || pay(&env, &["--max-output", "4", "--probe", "echo receipt"]);
    call().answer().exits(0).prints("half\nreceipt\n");
    call().answer().exits(0).prints("rece").is_a_replay();
    assert_eq!(env.shown("1")["truncated"], true);
}

#[test]
fn a_person_who_contradicts_the_commands_mark_has_to_insist() {
    let env = TestEnv::new();
    // Its idem is killed after the mark, and the command with it: nobody has noticed yet.
    let script = format!("{IDEM} mark landed; kill -9 $PPID");
    env.run("t").external().script(&script).answer();
    wait_for("the mark", || (env.rows("SELECT mark FROM claim") == ["landed"]).then_some(()));
    env.idem(["resolve", "1", "not-landed"]).answer().exits(1).says("marked landed by its own command");
    assert_eq!(env.states(), ["running"]);
    env.idem(["resolve", "1", "not-landed", "--force"]).answer().exits(0);
    assert_eq!(env.states(), ["released"]);
}

#[test]
fn a_late_end_that_knows_nothing_does_not_take_back_what_a_person_said() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").external().script("echo $$ > pid; read _ < gate; exit 7").start();
    env.pid_in("pid");
    env.idem(["resolve", "1", "not-landed", "--force"]).answer().exits(0);
    gate.open();
    owner.answer().exits(7);
    assert_eq!(env.rows("SELECT state, outcome, exit_code FROM claim"), ["released|not-landed|7"]);
}

#[test]
fn reconcile_counts_no_history() {
    let env = TestEnv::new();
    pay(&env, &[]).answer().exits(7);
    env.idem(["clear", "1"]).answer().exits(0);
    let answer = env.idem(["reconcile", "1", "--probe", "exit 2"]).answer();
    answer.exits(0);
    assert!(answer.text().ends_with("0 landed, 0 not landed, 0 still unknown\n"), "{answer}");
}

#[test]
fn an_arrivals_own_probe_keeps_the_delay_that_its_target_needs() {
    let env = TestEnv::new();
    // The target reads an hour behind; a signal ends the wait, and nothing has been asked.
    pay(&env, &["--probe", "exit 2", "--probe-delay", "1ms"]).answer().exits(7);
    env.tamper("UPDATE claim SET probe_delay = 3600000");
    let arrival = pay(&env, &["--probe", "echo asked >> asked"]).start();
    // Its handlers stand from before the delay on.
    wait_for("the arrival in its delay", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", arrival.pid())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught & (1 << 14) != 0).then_some(())
    });
    arrival.signal(Signal::SIGTERM);
    arrival.answer().exits(121);
    assert!(!env.has("asked"));
    pay(&env, &["--probe", "echo asked >> asked", "--probe-delay", "0s"]).answer().exits(0);
    assert!(env.has("asked"), "its own delay wins");
}

#[test]
fn who_waits_for_an_answer_that_never_comes_asks_for_itself() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let env = TestEnv::new();
        let _gate = Gate::new(&env, "gate");
        pay(&env, &[]).answer().exits(7);
        let asker = pay(&env, &["--probe", "echo $$ > pid; read _ < gate"]).start();
        env.pid_in("pid");
        let waiter = pay(&env, &["--probe", "echo there", "--resend-within", "1h"]).start();
        env.wait_for_waiters(1);
        asker.signal(signal);
        if signal == Signal::SIGTERM {
            asker.answer().exits(121);
        }
        waiter.answer().exits(0).prints("there\n").is_a_replay();
        assert_eq!(env.runs(), 1, "its own probe knows, before anything is sent again");
    }
}

#[test]
fn whoever_is_told_to_end_while_it_asks_starts_nothing_whatever_others_decide_meanwhile() {
    for said in [&["clear", "1"][..], &["resolve", "1", "not-landed"][..]] {
        for answer in [0, 1, 2] {
            let env = TestEnv::new();
            let gate = Gate::new(&env, "gate");
            pay(&env, &[]).answer().exits(7);
            let probe = format!("trap '' TERM; echo $$ > pid; read _ < gate; exit {answer}");
            let asker = pay(&env, &["--probe", &probe]).start();
            env.pid_in("pid");
            env.idem(said.iter().copied()).answer().exits(0);
            asker.signal(Signal::SIGTERM);
            gate.open();
            asker.answer().exits(143).says("nothing was run now");
            assert_eq!(env.runs(), 1, "{said:?} {answer}");
        }
    }
}

#[test]
fn a_replay_stays_as_it_was_when_the_old_owner_prints_on() {
    for stated in [true, false] {
        let env = TestEnv::new();
        let (early, late) = (Gate::new(&env, "early"), Gate::new(&env, "late"));
        let script = "echo one; echo $$ > pid; read _ < early; echo two; read _ < late; echo three; echo four >&2";
        let call = || env.run("t").external().script(script);
        let owner = call().start();
        env.pid_in("pid");
        env.write("result", "stated\n");
        early.open();
        wait_for("the recorded output", || (env.rows("SELECT count(*) FROM output") != ["0"]).then_some(()));
        let with = if stated { &["--stdout", "result"][..] } else { &[] };
        env.idem(["resolve", "1", "landed", "--force"]).args(with.iter().copied()).answer().exits(0);
        let before = call().answer();
        before.exits(0).is_a_replay();
        late.open();
        owner.answer().exits(0).prints("one\ntwo\nthree\n");
        call().answer().exits(0).prints(before.stdout()).does_not_say("four");
        let told = env.idem(["show", "1"]).answer().text();
        assert!(told.contains("three") && told.contains("four"), "what was printed is kept for people: {told}");
    }
}

#[test]
fn a_probe_that_leaves_its_process_group_has_no_more_time_for_it() {
    let env = TestEnv::new();
    // As the leader of its group it can't start one of its own; it can join idem's.
    let probe = "echo $$ > pid; exec perl -e 'setpgrp 0, getpgrp getppid; sleep 1000'";
    let answer = pay(&env, &["--probe", probe, "--probe-timeout", "300ms"]).answer();
    answer.exits(7).says("gave no answer within 300ms");
    become_free(env.pid_in("pid"));
}

#[test]
fn who_waited_for_what_was_cleared_since_is_not_told_that_it_did_not_land() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").counting("echo $$ > pid; read _ < gate; echo done");
    let owner = call().start();
    env.pid_in("pid");
    let waiter = call().start();
    env.wait_for_waiters(1);
    waiter.signal(Signal::SIGSTOP);
    wait_for("a stopped waiter", || is_stopped(waiter.pid()).then_some(()));
    gate.open();
    owner.answer().exits(0);
    env.idem(["clear", "1"]).answer().exits(0);
    waiter.signal(Signal::SIGCONT);
    waiter.answer().exits(0).prints("done\n").is_a_replay().does_not_say("did not land");
}

#[test]
fn nobody_says_how_a_command_ended_that_nobody_saw_end() {
    let env = TestEnv::new();
    let call = || env.run("t").external().script(&format!("echo sent; {IDEM} mark landed; kill -9 $PPID; kill -9 $$"));
    call().answer();
    let replay = call().answer();
    replay.exits(0).is_a_replay().says("which marked that it landed").does_not_say("exited with");
    env.idem(["show", "1"]).answer().exits(0).does_not_say("it exited with");
}

#[test]
fn a_result_that_has_expired_stands_in_no_other_commands_way() {
    let env = TestEnv::new();
    env.run("t").args(["--ttl", "1ms"]).script("echo one").answer().exits(0);
    env.run("t").script("echo two").answer().exits(0).prints("two\n").is_a_first_run();
    assert_eq!(env.states(), ["expired", "completed"]);
}

#[test]
fn a_lost_owner_is_promised_no_second_send() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let call = || env.run("t").external().args(["--resend-within", "1h"]).counting("echo $$ > pid; read _ < gate");
    let owner = call().start();
    env.pid_in("pid");
    std::fs::remove_file(env.beside_store("-lock")).expect("the lock file");
    call().answer().exits(121).does_not_say("sends it again");
    assert!(!env.idem(["show", "1"]).answer().text().contains("sends it again"));
    gate.open();
    owner.answer().exits(0);
    call().answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
}
