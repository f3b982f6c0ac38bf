//! An outcome that the store can't take when the command ends: kept on this host, recorded by the next who comes, and never
//! the reason for a second run.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::{Pid, Uid};
use rusqlite::Connection;

use crate::env::{Answer, Call, Gate, TestEnv, is_stopped, mode_of, seq, set_mode, wait_for};
use crate::unrecorded::{on_a_small_disk, step};

/// From here on the store takes claims, and no change of one.
fn refuse_changes(env: &TestEnv) {
    env.tamper("CREATE TRIGGER refuse BEFORE UPDATE ON claim BEGIN SELECT raise(ABORT, 'the store refuses'); END");
}

/// From here on it takes everything again.
fn take_changes(env: &TestEnv) {
    env.tamper("DROP TRIGGER refuse");
}

/// A store that takes no changes.
fn refusing() -> TestEnv {
    let env = TestEnv::new();
    env.run("before").script("true").answer().exits(0);
    refuse_changes(&env);
    env
}

/// Another program's open transaction: nobody else can write until it is dropped.
fn locked(env: &TestEnv) -> Connection {
    let conn = Connection::open(env.store()).expect("the store, as another program opens it");
    conn.execute_batch("BEGIN IMMEDIATE").expect("its transaction");
    conn
}

/// The folder beside the store.
fn folder(env: &TestEnv) -> PathBuf {
    env.beside_store("-pending")
}

/// The files in the folder beside the store, without those that are just being written.
fn kept(env: &TestEnv) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = match fs::read_dir(folder(env)) {
        Ok(entries) => entries.map(|entry| entry.expect("an entry").path()).collect(),
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_none_or(|ending| ending != "new"));
    files.sort();
    files
}

fn kept_file(env: &TestEnv) -> PathBuf {
    let files = kept(env);
    assert_eq!(files.len(), 1, "one outcome is kept: {files:?}");
    files.into_iter().next().expect("one file")
}

/// A call that doesn't wait for its store.
fn impatient<'a>(env: &'a TestEnv, options: &[&str], script: &str) -> Call<'a> {
    env.run("t").args(["--record-wait", "0s"]).args(options.iter().copied()).counting(script)
}

/// Runs a call whose outcome is then kept, in a store that takes everything again.
fn with_a_kept_outcome(options: &[&str], script: &str, code: i32) -> TestEnv {
    let env = refusing();
    impatient(&env, options, script).answer().exits(code).says("kept in");
    take_changes(&env);
    env
}

/// The events by which this attempt ended, oldest first.
fn ends(env: &TestEnv, id: &str) -> Vec<String> {
    let ends = "(kind LIKE 'became-%' OR kind = 'late-outcome')";
    env.rows(&format!("SELECT kind FROM event WHERE claim = {id} AND {ends} ORDER BY seq"))
}

#[test]
fn an_outcome_that_the_store_refuses_is_kept_and_the_next_arrival_records_it() {
    let killed = "echo out; echo err >&2; kill -9 $$";
    let exits = |code| format!("echo out; echo err >&2; exit {code}");
    for (options, script, code, became, then) in [
        (&[][..], exits(0), 0, "became-completed", 0),
        (&[][..], exits(3), 3, "became-released", 3),
        (&[][..], killed.to_owned(), 137, "became-released", 137),
        (&["--external"][..], exits(0), 0, "became-completed", 0),
        (&["--external"][..], exits(3), 3, "became-held", 121),
        (&["--external"][..], killed.to_owned(), 137, "became-held", 121),
        (&["--keep-failure", "--landed-exit", "5-7"][..], exits(3), 3, "became-completed", 3),
    ] {
        let env = refusing();
        let ran = impatient(&env, options, &script).answer();
        ran.exits(code)
            .prints("out\n")
            .says("err\n")
            .says("the command ran and")
            .says("could not be recorded in the store");
        ran.says("the store refuses").says("the next idem on this host").does_not_say("nothing was run;");
        let file = kept_file(&env);
        ran.says(&format!("kept in {}", file.display()));
        assert_eq!((mode_of(&folder(&env)), mode_of(&file)), (0o700, 0o600));
        assert_eq!(env.states(), ["completed", "running"], "{options:?}");

        let doctor = env.idem(["doctor"]).answer();
        assert!(doctor.exits(1).text().contains("1 outcome is known and not in the store yet: claim 2"), "{doctor}");
        assert_eq!(kept_file(&env), file, "to look is not to record");

        take_changes(&env);
        let again = impatient(&env, options, &script).answer();
        again.exits(then).says("the outcome of claim 2").says("is recorded now");
        assert_eq!(ends(&env, "2"), [became], "{options:?} {script}");
        let runs = if became == "became-released" { 2 } else { 1 };
        assert_eq!(env.runs(), runs, "{options:?} {script}\n{again}");
        if became == "became-completed" {
            again.is_a_replay().prints("out\n").says("err\n");
        }
        assert!(!folder(&env).exists(), "nothing is left, and nothing is looked through on each call");
        assert_eq!(env.idem(["doctor"]).answer().text().matches("pending").count(), 0);
    }
}

#[test]
fn every_command_that_opens_the_store_records_what_was_kept() {
    for line in [
        &["list"][..],
        &["show", "2"],
        &["stats"],
        &["reconcile", "--all"],
        &["reconcile", "2"],
        &["prune", "--older-than", "9d", "--dry-run"],
        &["clear", "1"],
    ] {
        let env = with_a_kept_outcome(&["--external"], "echo out", 0);
        let answer = env.idem(line.iter().copied()).answer();
        answer.says("the outcome of claim 2").says("is recorded now: it is completed");
        assert!(kept(&env).is_empty(), "{answer}");
        assert_eq!(env.rows("SELECT state FROM claim WHERE id = 2"), ["completed"], "{answer}");
    }
}

#[test]
fn a_command_inside_records_what_was_kept_and_says_nothing_of_it() {
    let env = refusing();
    impatient(&env, &[], "exit 0").answer().exits(0);
    let idem = env!("CARGO_BIN_EXE_idem");
    let gate = Gate::new(&env, "gate");
    take_changes(&env);
    let file = kept_file(&env);
    fs::rename(folder(&env), env.file("away")).expect("moved away, until the run has begun");
    let inside = env.run("u").script(&format!("echo $$ > pid; read _ < gate; '{idem}' mark sending")).start();
    inside.command();
    fs::rename(env.file("away"), folder(&env)).expect("moved back");
    gate.open();
    inside.answer().exits(0).says_exactly("");
    assert!(!file.exists(), "{:?}", kept(&env));
    assert_eq!(ends(&env, "2"), ["became-completed"]);
}

#[test]
fn reconcile_that_finds_nothing_but_a_kept_outcome_is_done() {
    let env = with_a_kept_outcome(&["--external"], "echo out", 0);
    let answer = env.idem(["reconcile", "--all"]).answer();
    assert!(answer.exits(0).text().contains("claim 2 is completed"), "{answer}");
    env.idem(["reconcile", "--all"]).answer().exits(1);
    let env = with_a_kept_outcome(&["--external"], "echo out", 0);
    let envelope = env.idem(["reconcile", "--all", "--json"]).answer().exits(0).envelope();
    assert_eq!((&envelope["id"], &envelope["state"]), (&2.into(), &"completed".into()));
}

#[test]
fn the_envelope_and_quiet_say_that_an_outcome_waits() {
    let env = refusing();
    let answer = impatient(&env, &["--json", "--quiet"], "echo out; exit 3").answer();
    answer.exits(3).says("kept in");
    let envelope = answer.envelope();
    assert_eq!((&envelope["error"]["kind"], &envelope["stdout"]), (&"pending".into(), &"out\n".into()));
    assert_eq!((&envelope["id"], &envelope["state"]), (&2.into(), &"running".into()));
}

#[test]
fn a_command_that_never_started_is_kept_as_such() {
    let env = refusing();
    let call = || env.run("t").args(["--record-wait", "0s"]).command(["./not-there"]);
    call().answer().exits(127).says("nothing was run").says("could not be released yet").says("kept in");
    take_changes(&env);
    fs::write(env.file("not-there"), "#!/bin/sh\necho run >> runs\n").expect("a script");
    set_mode(&env.file("not-there"), 0o755);
    call().answer().exits(0).says("it is released").is_a_first_run();
    assert_eq!((env.runs(), env.shown("3")["attempt"].as_i64()), (1, Some(1)), "what never started is no attempt");
}

#[test]
fn where_there_is_no_place_beside_the_store_the_state_folder_keeps_it() {
    let env = refusing();
    fs::write(folder(&env), "").expect("a file in the folder's place, which stops root too");
    let answer = impatient(&env, &[], "echo out").answer();
    let state = env.state_home().join("idem/pending");
    answer.exits(0).says(&format!("kept in {}", state.display()));
    // Another store in the same state folder has nothing to do with it.
    let other = env.run("t").var("IDEM_STORE", env.file("other.db")).script("true").answer();
    other.exits(0).says("a new one was made").does_not_say("recorded now");
    assert!(state.exists());
    take_changes(&env);
    impatient(&env, &[], "echo out").answer().exits(0).is_a_replay().prints("out\n");
    assert!(!state.exists());
}

#[test]
fn where_there_is_no_place_at_all_it_is_lost_and_held() {
    let env = refusing();
    fs::write(folder(&env), "").expect("a file in the folder's place");
    fs::write(env.state_home().join("idem/pending"), "").expect("another one");
    let answer = impatient(&env, &[], "echo out").answer();
    answer.exits(0).prints("out\n").says("could not be recorded").does_not_say("kept in");
    take_changes(&env);
    impatient(&env, &[], "echo out").answer().exits(121);
    assert_eq!(env.runs(), 1);
}

/// The owner is waited for, and the one who waits is stopped until the owner has kept its outcome and is gone: it has looked
/// for kept outcomes before there was one, and finds the claim running and its lock free.
fn a_waiter_gets_what_was_kept(options: &[&str], script: &str, code: i32) {
    let env = TestEnv::new();
    env.run("before").script("true").answer().exits(0);
    let gate = Gate::new(&env, "gate");
    let call = || impatient(&env, options, &format!("echo $$ > pid; read _ < gate; {script}"));
    let owner = call().start();
    owner.command();
    let waiter = call().start();
    env.wait_for_waiters(1);
    waiter.signal(Signal::SIGSTOP);
    wait_for("the waiter to stop", || is_stopped(waiter.pid()).then_some(()));
    refuse_changes(&env);
    gate.open();
    owner.answer().exits(code).says("kept in");
    assert_eq!((env.states()[1].as_str(), kept(&env).len()), ("running", 1));
    take_changes(&env);
    waiter.signal(Signal::SIGCONT);
    waiter.answer().exits(code).prints("out\n").is_a_replay();
    assert_eq!(env.runs(), 1, "one run");
    assert_eq!(ends(&env, "2").len(), 1);
}

#[test]
fn who_would_run_again_what_was_interrupted_gets_the_kept_failure_that_it_waited_for() {
    a_waiter_gets_what_was_kept(&["--rerun-if-interrupted"], "echo out; exit 3", 3);
}

#[test]
fn who_would_run_again_what_was_interrupted_gets_the_kept_success() {
    a_waiter_gets_what_was_kept(&["--rerun-if-interrupted"], "echo out", 0);
}

/// *A runs. B reads its claim as running and stops. A fails, its store refuses that, it is kept, and A goes. B finds the lock free
/// and what is kept, and records it, which releases the key.* B was there for that failure.
#[test]
fn who_found_it_running_gets_the_kept_failure_and_runs_nothing() {
    let env = refusing();
    let gate = Gate::new(&env, "gate");
    let call = || impatient(&env, &[], "echo $$ > pid; read _ < gate; echo out; exit 3");
    let owner = call().start();
    owner.command();
    // It has read the row, and opens the lock file to look whether the owner lives.
    let lock = env.beside_store("-lock").display().to_string();
    let opens = "inject=openat:signal=SIGSTOP:when=1";
    let late = call().under(["strace", "-D", "-qq", "-o", "trace", "-P", &lock, "-e", opens]).start();
    wait_for("the late one stops", || env.text_of("trace").contains("SIGSTOP").then_some(()));
    gate.open();
    owner.answer().exits(3).says("kept in");
    take_changes(&env);
    late.signal(Signal::SIGCONT);
    late.answer().exits(3).prints("out\n").says("which this arrival waited for");
    assert_eq!((env.runs(), env.states()), (1, vec!["completed".to_owned(), "released".to_owned()]));
}

#[test]
fn silence_of_the_marks_says_nothing_where_an_end_was_kept() {
    a_waiter_gets_what_was_kept(&["--external", "--marks"], "echo out", 0);
}

#[test]
fn while_the_store_refuses_a_known_outcome_its_call_runs_nothing_and_others_do() {
    let env = refusing();
    let call = || impatient(&env, &["--rerun-if-interrupted"], "echo out; exit 3");
    call().answer().exits(3);
    for _ in 0..2 {
        call().answer().refuses().says("kept in").says("the store refuses");
    }
    env.idem(["list"]).answer().exits(0).says("can't be recorded yet");
    env.run("before").script("true").answer().exits(0).is_a_replay();
    assert_eq!((env.runs(), kept(&env).len()), (1, 1));
    take_changes(&env);
    call().answer().exits(3).is_a_first_run();
    assert_eq!((env.runs(), ends(&env, "2")), (2, vec!["became-released".to_owned()]));
}

#[test]
fn one_whose_key_a_person_has_freed_meanwhile_goes_to_the_history_loudly() {
    let env = with_a_kept_outcome(&["--external"], "echo out", 0);
    fs::rename(folder(&env), env.file("away")).expect("out of sight");
    env.idem(["clear", "2"]).answer().exits(0);
    fs::rename(env.file("away"), folder(&env)).expect("back");
    let again = impatient(&env, &["--external", "--quiet"], "echo again").answer();
    again.exits(0).prints("again\n").says("claim 2").says("history only");
    assert_eq!((ends(&env, "2"), env.runs()), (vec!["late-outcome".to_owned()], 2));
    assert!(kept(&env).is_empty());
    assert_eq!(env.shown("2")["outcome"], "landed");
}

#[test]
fn of_many_who_come_at_once_one_records_it() {
    let env = with_a_kept_outcome(&["--external"], "echo out", 0);
    let calls: Vec<_> = (0..12)
        .map(|number| {
            if number % 2 == 0 {
                impatient(&env, &["--external"], "echo out").start()
            } else {
                env.idem(["show", "2"]).start()
            }
        })
        .collect();
    let answers: Vec<Answer> = calls.into_iter().map(crate::env::Running::answer).collect();
    let told = answers.iter().filter(|answer| answer.exits(0).messages().contains("is recorded now")).count();
    assert_eq!((told, env.runs()), (1, 1));
    assert_eq!(ends(&env, "2"), ["became-completed"]);
    assert!(kept(&env).is_empty());
}

#[test]
fn one_that_was_recorded_before_is_only_removed() {
    for (options, code, end) in [(&["--external"][..], 0, "became-completed"), (&["--external"][..], 3, "became-held")]
    {
        let env = with_a_kept_outcome(options, &format!("exit {code}"), code);
        // As if whoever recorded it had been killed before the file was removed.
        let (file, text) = (kept_file(&env), fs::read(kept_file(&env)).expect("readable"));
        env.idem(["show", "2"]).answer().exits(0);
        fs::create_dir(folder(&env)).expect("the folder");
        fs::write(&file, text).expect("the file");
        for path in [&folder(&env), &file] {
            set_mode(path, if path.is_dir() { 0o700 } else { 0o600 });
        }
        env.idem(["show", "2"]).answer().exits(0).does_not_say("recorded now").does_not_say("history only");
        assert_eq!(ends(&env, "2"), [end], "no late outcome");
        assert!(!folder(&env).exists());
    }
}

/// Makes a kept outcome unusable. It is set aside, said, never removed, and never taken for leave to run again.
#[track_caller]
fn is_set_aside(what: &str, spoil: impl FnOnce(&TestEnv, &Path)) {
    let options = &["--rerun-if-interrupted"];
    let env = with_a_kept_outcome(options, "exit 0", 0);
    let file = kept_file(&env);
    spoil(&env, &file);
    let again = impatient(&env, options, "exit 0").answer();
    again.exits(121).says("claim 2 can't be used").says(".bad");
    assert_eq!(env.runs(), 1, "{what}\n{again}");
    let left = kept(&env);
    assert!(left.iter().any(|left| left.to_string_lossy().ends_with(".json.bad")), "{what}: {left:?}");
    let doctor = env.idem(["doctor"]).answer();
    assert!(doctor.exits(1).text().contains("1 kept outcome can't be used: claim 2"), "{what}\n{doctor}");
    env.idem(["resolve", "2", "landed"]).answer().exits(0);
    impatient(&env, options, "exit 0").answer().exits(0).is_a_replay().does_not_say(".bad");
}

#[test]
fn a_kept_outcome_that_was_cut_off_is_set_aside() {
    for part in [0, 1, 100] {
        is_set_aside("cut off", |_, file| {
            let text = fs::read(file).expect("readable");
            fs::write(file, &text[..part]).expect("cut off");
        });
    }
}

#[test]
fn a_kept_outcome_with_numbers_that_mean_nothing_is_set_aside() {
    for (from, to) in [
        (r#""exit_code":0"#, r#""exit_code":99999999999999999999"#),
        (r#""exit_code":0"#, r#""exit_code":300"#),
        (r#""missing":0"#, r#""missing":-1"#),
        (r#""claim":2"#, r#""claim":1"#),
    ] {
        is_set_aside(to, |_, file| {
            let text = fs::read_to_string(file).expect("readable");
            assert!(text.contains(from), "{text}");
            fs::write(file, text.replacen(from, to, 1)).expect("changed");
        });
    }
}

#[test]
fn a_kept_outcome_behind_a_link_is_set_aside() {
    is_set_aside("a link", |env, file| {
        fs::rename(file, env.file("elsewhere")).expect("moved");
        symlink(env.file("elsewhere"), file).expect("a link");
    });
}

#[test]
fn a_kept_outcome_that_others_can_write_to_is_set_aside() {
    is_set_aside("rights", |_, file| set_mode(file, 0o666));
}

#[test]
fn a_kept_outcome_of_somebody_else_is_set_aside() {
    if Uid::effective().is_root() {
        is_set_aside("owner", |_, file| chown(file, Some(65534), Some(65534)).expect("theirs"));
    }
}

#[test]
fn a_kept_outcome_of_another_store_is_set_aside_and_changes_nothing() {
    let other = with_a_kept_outcome(&[], "exit 0", 0);
    let env = with_a_kept_outcome(&[], "exit 0", 0);
    env.idem(["show", "2"]).answer().exits(0);
    fs::create_dir(folder(&env)).expect("the folder");
    set_mode(&folder(&env), 0o700);
    let foreign = kept_file(&other);
    let here = folder(&env).join(foreign.file_name().expect("a name"));
    fs::copy(&foreign, &here).expect("a copy");
    env.idem(["list"]).answer().exits(0).says("no attempt that this store has");
    assert_eq!((ends(&env, "2"), kept(&env).len()), (vec!["became-completed".to_owned()], 1));
    assert!(kept_file(&env).to_string_lossy().ends_with(".bad"));
}

#[test]
fn a_folder_of_kept_outcomes_that_is_not_the_users_own_is_not_trusted() {
    let env = with_a_kept_outcome(&["--rerun-if-interrupted"], "exit 0", 0);
    set_mode(&folder(&env), 0o777);
    impatient(&env, &["--rerun-if-interrupted"], "exit 0").answer().refuses().says("can be written by other users");
    env.idem(["list"]).answer().exits(0).says("can be written by other users");
    assert_eq!((env.runs(), kept(&env).len()), (1, 1));
}

#[test]
fn what_passes_within_the_wait_is_recorded_and_nothing_stays_kept() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").counting("echo $$ > pid; read _ < gate; echo out").start();
    owner.command();
    let lock = locked(&env);
    gate.open();
    // Kept first, and only then waited for.
    wait_for("a kept outcome", || (kept(&env).len() == 1).then_some(()));
    env.idem(["show", "1"]).answer().exits(0).does_not_say("recorded now");
    assert_eq!(kept(&env).len(), 1, "its owner is still at it");
    // It has let go of nothing: whoever comes meanwhile finds an owner that lives.
    env.run("t").args(["--no-wait", "--allow-command-change"]).script("true").answer().exits(120);
    drop(lock);
    owner.answer().exits(0).prints("out\n").says("locked by another program").says("trying for 30s");
    assert!(kept(&env).is_empty());
    assert_eq!((env.states(), ends(&env, "1")), (vec!["completed".to_owned()], vec!["became-completed".to_owned()]));
    impatient(&env, &["--allow-command-change"], "").answer().exits(0).is_a_replay().prints("out\n");
}

#[test]
fn a_signal_ends_the_wait_and_a_kill_loses_nothing() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let env = TestEnv::new();
        let gate = Gate::new(&env, "gate");
        let call = || env.run("t").args(["--record-wait", "1h"]).counting("echo $$ > pid; read _ < gate; echo out");
        let owner = call().start();
        owner.command();
        let lock = locked(&env);
        gate.open();
        wait_for("a kept outcome", || (kept(&env).len() == 1).then_some(()));
        let began = Instant::now();
        if signal == Signal::SIGKILL {
            owner.kill_9();
        } else {
            signal::kill(Pid::from_raw(owner.pid()), signal).expect("it lives");
            owner.answer().exits(0).prints("out\n").says("trying for 1h").says("kept in");
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        drop(lock);
        call().answer().exits(0).is_a_replay().prints("out\n").says("is recorded now");
        assert_eq!((env.runs(), ends(&env, "1")), (1, vec!["became-completed".to_owned()]));
    }
}

#[test]
fn an_owner_that_does_not_wait_is_done_at_once() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = impatient(&env, &[], "echo $$ > pid; read _ < gate; echo out").start();
    owner.command();
    let lock = locked(&env);
    gate.open();
    let began = Instant::now();
    owner.answer().exits(0).says("locked by another program").says("kept in").does_not_say("trying for");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(lock);
    env.idem(["list"]).answer().exits(0).says("is recorded now");
}

#[test]
fn on_a_full_disk_the_whole_output_is_kept_elsewhere_until_there_is_room() {
    let env = TestEnv::new();
    let script = "export XDG_STATE_HOME=$PWD/home-state
                  arrive() { idem run --who agent --conv c1 --tool t --external -- \
                    sh -c 'echo run >> runs; seq 20000; cat /dev/zero > disk/fill 2> /dev/null; exit 0' \
                    > $1.out 2> $1.err; echo $? > $1.code; }
                  idem run --who agent --conv c1 --tool before -- true
                  arrive first
                  arrive full
                  rm disk/fill
                  arrive room; ls home-state/idem > left";
    let Some(answer) = on_a_small_disk(&env, script) else { return };
    let (first, full, room) = (step(&env, "first"), step(&env, "full"), step(&env, "room"));
    assert_eq!((first.code.as_str(), first.out == seq(20_000)), ("0", true), "{}{answer}", first.err);
    assert!(first.err.contains("no space is left") && first.err.contains("home-state/idem/pending"), "{}", first.err);
    assert_eq!((full.code.as_str(), full.out.as_str()), ("125", ""), "{}", full.err);
    assert!(full.err.contains("no space is left") && full.err.contains("nothing was run"), "{}", full.err);
    assert_eq!((room.code.as_str(), room.out == seq(20_000)), ("0", true), "{}", room.err);
    assert!(room.err.contains("is recorded now") && room.err.contains("idem: replay"), "{}", room.err);
    assert_eq!((env.runs(), env.text_of("left").as_str()), (1, ""));
}
