//! idem is killed at every one of its system calls; then another arrival comes.
//!
//! What a command really did is known by the file that it appends a line to: a kill loses nothing that was written, so
//! that file needs no sync. The power cut, which does lose writes, has a room of its own.

use crate::after::{OUT, at_most, call, follow_success, goes_on, is_whole, replays};
use crate::env::{Answer, Call, Gate, TestEnv, is_alive, wait_for};
use crate::old_store;
use crate::points::{DOUBLE_RUN, LOST_RESULT, at, full, try_points};
use crate::strace::{Syscall, syscalls, watch};

/// How many points `cargo test` tries.
const QUICK: usize = 110;

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// One story: makes what was there before, lets idem be started by these words and killed, and judges what follows.
type Play = fn(&TestEnv, Words<'_>);
type Words<'a> = &'a [String];

const STORIES: [(&str, Play); 22] = [
    ("a first run that makes the store", local_first),
    ("a first run, again if interrupted", local_rerun),
    ("a first run, external", external_first),
    ("a first run with a log to take in", with_upkeep),
    ("a first run with much output", much_output),
    ("a first run that fails", local_failure),
    ("a first run that fails, external", external_failure),
    ("a replay", replay),
    ("a waiter", waiter),
    ("mark landed", mark),
    ("emit", emit),
    ("a step", step),
    ("resolve landed", resolve_landed),
    ("resolve not-landed", resolve_not_landed),
    ("clear", clear),
    ("prune", prune),
    ("reconcile", reconcile),
    ("a probe at the end", probe_at_the_end),
    ("a send again", resend),
    ("a migration from schema 1", |env, words| migration(env, words, 1)),
    ("a migration from schema 2", |env, words| migration(env, words, 2)),
    ("a migration from schema 3", |env, words| migration(env, words, 3)),
];

fn knows(answer: &Answer, code: i32) -> bool {
    answer.code() == Some(code)
}

fn local_first(env: &TestEnv, words: Words<'_>) {
    let killed = call(env).under(words).answer();
    follow_success(env, knows(&killed, 0), call);
}

fn local_rerun(env: &TestEnv, words: Words<'_>) {
    env.run("before").script("true").answer().exits(0);
    let killed = call(env).under(words).answer();
    let arrive = || call(env).args(["--rerun-if-interrupted"]).answer();
    let next = arrive();
    at_most(env, 2, &next);
    if knows(&killed, 0) {
        replays(&next, 0, OUT);
        at_most(env, 1, &next);
    }
    next.exits(0).prints(OUT);
    if env.runs() == 2 {
        let first = env.rows("SELECT state, reason FROM claim WHERE tool = 't' ORDER BY id LIMIT 1");
        assert_eq!(first, ["released|interrupted"], "{DOUBLE_RUN}: the first one's end was known\n{next}");
    }
    let (runs, again) = (env.runs(), arrive());
    replays(&again, 0, OUT);
    at_most(env, runs, &again);
}

fn external_first(env: &TestEnv, words: Words<'_>) {
    env.run("before").script("true").answer().exits(0);
    let arrive = |env| call(env).external();
    let killed = arrive(env).under(words).answer();
    follow_success(env, knows(&killed, 0), arrive);
}

/// Enough has happened for the run to take in the log of arrivals and the write-ahead log, and to make holes.
fn with_upkeep(env: &TestEnv, words: Words<'_>) {
    for n in 0..5 {
        env.run("before").params(&n.to_string()).script("true").answer().exits(0);
    }
    env.run("before").params("1").script("true").answer().exits(0);
    let killed = call(env).under(words).answer();
    follow_success(env, knows(&killed, 0), call);
    replays(&env.run("before").params("1").script("true").answer(), 0, "");
}

fn much_output(env: &TestEnv, words: Words<'_>) {
    env.run("before").script("true").answer().exits(0);
    let arrive = || env.run("t").counting("seq 60000");
    let expected = crate::env::seq(60_000);
    let killed = arrive().under(words).answer();
    let next = arrive().answer();
    at_most(env, 1, &next);
    match next.code() {
        Some(0) => assert!(next.text() == expected, "{LOST_RESULT}: another output\n{next}"),
        _ => assert!(next.code() == Some(121) && !knows(&killed, 0), "{LOST_RESULT}: {killed}\n{next}"),
    }
    let again = arrive().answer();
    at_most(env, 1, &again);
    if knows(&next, 0) {
        replays(&again, 0, &expected);
    }
}

fn local_failure(env: &TestEnv, words: Words<'_>) {
    env.run("before").script("true").answer().exits(0);
    let arrive = || env.run("t").counting("echo out; exit 3");
    let killed = arrive().under(words).answer();
    let next = arrive().answer();
    at_most(env, 2, &next);
    assert!(next.code() == Some(121) || next.code() == Some(3), "{next}");
    if env.runs() == 2 {
        let first = env.rows("SELECT state, reason FROM claim WHERE tool = 't' ORDER BY id LIMIT 1");
        assert_eq!(first, ["released|exit"], "{DOUBLE_RUN}: the first one's end was not known\n{next}");
    }
    assert!(!knows(&killed, 3) || env.runs() == 2, "what did not land runs anew\n{next}");
}

fn external_failure(env: &TestEnv, words: Words<'_>) {
    env.run("before").script("true").answer().exits(0);
    let arrive = || env.run("t").external().counting("echo out; exit 3");
    let killed = arrive().under(words).answer();
    for turn in 0..2 {
        let next = arrive().answer();
        at_most(env, 1, &next);
        let ran_now = turn == 0 && next.code() == Some(3) && !knows(&killed, 3);
        assert!(next.code() == Some(121) || ran_now, "{LOST_RESULT}: it has to be held\n{next}");
    }
}

fn replay(env: &TestEnv, words: Words<'_>) {
    call(env).answer().exits(0);
    call(env).under(words).answer();
    let next = call(env).answer();
    replays(&next, 0, OUT);
    at_most(env, 1, &next);
}

fn waiter(env: &TestEnv, words: Words<'_>) {
    let gate = Gate::new(env, "gate");
    let arrive = || env.run("t").counting("echo $$ > pid; read _ < gate; echo out");
    let owner = arrive().start();
    env.pid_in("pid");
    let killed = arrive().under(words).start();
    let lock = env.beside_store("-lock");
    wait_for("a waiter that sleeps or is gone", || {
        (crate::env::sleeping_waiters(&lock) > 0 || !is_alive(killed.pid())).then_some(())
    });
    gate.open();
    owner.answer().exits(0).prints(OUT).is_a_first_run();
    let killed = killed.answer();
    if killed.code().is_some() {
        replays(&killed, 0, OUT);
    }
    let next = arrive().answer();
    replays(&next, 0, OUT);
    at_most(env, 1, &next);
}

/// A shell's way to start idem by these words.
fn inside(words: Words<'_>, line: &str) -> String {
    format!("{} {IDEM} {line}", words.join(" "))
}

fn mark(env: &TestEnv, words: Words<'_>) {
    let script = format!("echo out; {}; echo $? > told; exit 7", inside(words, "mark landed"));
    let arrive = || env.run("t").external().counting(&script);
    let first = arrive().answer();
    first.exits(7);
    let next = arrive().answer();
    at_most(env, 1, &next);
    let marked = env.rows("SELECT mark FROM claim") == ["landed"];
    assert!(marked || env.text_of("told") != "0\n", "{LOST_RESULT}: the mark\n{first}{next}");
    if marked {
        replays(&next, 7, OUT);
    } else {
        next.exits(121);
    }
}

fn emit(env: &TestEnv, words: Words<'_>) {
    let script = format!("{}; echo $? > told; echo out", inside(words, "emit made 1"));
    let arrive = || env.run("t").counting(&script);
    arrive().answer().exits(0);
    let next = arrive().answer();
    replays(&next, 0, OUT);
    at_most(env, 1, &next);
    let members = env.shown("1")["members"].as_array().map_or(0, Vec::len);
    let told = env.text_of("told") == "0\n";
    assert!(members == 1 || (members == 0 && !told), "{LOST_RESULT}: {members} members, told: {told}\n{next}");
}

fn step(env: &TestEnv, words: Words<'_>) {
    let step = "run --tool step -- sh -c 'echo run >> steps; echo one'";
    let script = format!("{} && echo out", inside(words, step));
    let again = format!("{} && echo out", inside(&[], step));
    let first = env.run("t").external().counting(&script).answer();
    // The step went well or was killed; the parent's end is then unknown, and a person has it run again.
    let known = knows(&first, 0);
    let arrive = || env.run("t").external().args(["--allow-command-change"]).counting(&again);
    if !known {
        arrive().answer().exits(121);
        env.idem(["resolve", "1", "not-landed", "--force"]).answer();
    }
    let next = arrive().answer();
    assert!(env.lines_in("steps") <= 1, "{DOUBLE_RUN}: of the step\n{first}{next}");
    at_most(env, 2, &next);
    if known {
        replays(&next, 0, "one\nout\n");
    }
    let step = env.rows("SELECT state FROM claim WHERE tool = 'step' ORDER BY id DESC LIMIT 1").concat();
    match step.as_str() {
        "completed" => next.exits(0).prints("one\nout\n"),
        // A step is local here: it was interrupted.
        "held" => next.exits(121),
        other => panic!("the step is {other:?}\n{first}{next}"),
    };
}

/// A call that is held, to be settled.
fn held(env: &TestEnv) -> Call<'_> {
    env.run("t").external().counting("echo out; exit 7")
}

fn resolve_landed(env: &TestEnv, words: Words<'_>) {
    held(env).answer().exits(7);
    let killed = env.idem(["resolve", "1", "landed"]).under(words).answer();
    let next = held(env).answer();
    at_most(env, 1, &next);
    if next.code() == Some(121) {
        assert!(!knows(&killed, 0), "{LOST_RESULT}: a person's word\n{killed}{next}");
        env.idem(["resolve", "1", "landed"]).answer().exits(0);
    }
    replays(&held(env).answer(), 0, OUT);
    at_most(env, 1, &next);
}

fn resolve_not_landed(env: &TestEnv, words: Words<'_>) {
    held(env).answer().exits(7);
    let killed = env.idem(["resolve", "1", "not-landed"]).under(words).answer();
    let next = held(env).answer();
    let released = env.states()[0] == "released";
    assert!(released || !knows(&killed, 0), "{LOST_RESULT}: a person's word\n{killed}{next}");
    next.exits(if released { 7 } else { 121 });
    at_most(env, 1 + usize::from(released), &next);
}

fn clear(env: &TestEnv, words: Words<'_>) {
    call(env).answer().exits(0);
    let killed = env.idem(["clear", "1"]).under(words).answer();
    let next = call(env).answer();
    let cleared = env.states()[0] == "cleared";
    assert!(cleared || !knows(&killed, 0), "{LOST_RESULT}: a person's word\n{killed}{next}");
    at_most(env, 1 + usize::from(cleared), &next);
    if cleared { next.exits(0).is_a_first_run() } else { next.exits(0).is_a_replay() }.prints(OUT);
}

fn prune(env: &TestEnv, words: Words<'_>) {
    call(env).answer().exits(0);
    let one = || env.run("one").script("echo one >> ones; echo one");
    one().answer().exits(0);
    env.run("gone").script("exit 1").answer().exits(1);
    let unclear = || env.run("unclear").external().script("echo run >> unclear; exit 7");
    unclear().answer().exits(7);
    env.run("last").script("true").answer().exits(0);
    // What comes later is told by its time.
    env.tamper("UPDATE claim SET created_at = created_at - 3600000, finished_at = finished_at - 3600000");
    let killed = env.idem(["prune", "--older-than", "0s", "--yes"]).under(words).answer();
    unclear().answer().exits(121);
    assert_eq!(env.lines_in("unclear"), 1, "{DOUBLE_RUN}: what is held is never pruned\n{killed}");
    let left = env.rows("SELECT tool FROM claim WHERE state = 'completed'");
    let next = one().answer();
    let there = left.contains(&"one".to_owned());
    assert!(!there || !knows(&killed, 0), "{LOST_RESULT}: a prune that had said it was done\n{killed}{next}");
    if there {
        replays(&next, 0, "one\n");
    }
    next.exits(0).prints("one\n");
    assert_eq!(env.lines_in("ones"), 1 + usize::from(!there), "{DOUBLE_RUN}: {next}");
    let next = call(env).answer();
    next.exits(0).prints(OUT);
    at_most(env, 1 + usize::from(!left.contains(&"t".to_owned())), &next);
    let reused = "SELECT count(*) FROM claim WHERE id <= 5 AND created_at > 1800000 +
                  (SELECT created_at FROM claim WHERE tool = 'unclear')";
    assert_eq!(env.rows(reused), ["0"], "a number came twice");
}

fn reconcile(env: &TestEnv, words: Words<'_>) {
    held(env).answer().exits(7);
    let killed = env.idem(["reconcile", "--all", "--probe", "echo there"]).under(words).answer();
    let next = held(env).answer();
    at_most(env, 1, &next);
    if next.code() == Some(121) {
        assert!(!knows(&killed, 0), "{LOST_RESULT}: a probe's answer\n{killed}{next}");
        env.idem(["reconcile", "--all", "--probe", "echo there"]).answer().exits(0);
    }
    replays(&held(env).answer(), 0, "there\n");
    at_most(env, 1, &next);
}

fn probe_at_the_end(env: &TestEnv, words: Words<'_>) {
    let arrive = || held(env).args(["--probe", "test -s runs || exit 1; echo there"]);
    let killed = arrive().under(words).answer();
    let next = arrive().answer();
    // Its probe knows whatever the crash left unknown.
    at_most(env, 1, &next);
    if knows(&killed, 0) {
        replays(&next, 0, "there\n");
    }
    next.exits(0);
    replays(&arrive().answer(), 0, "there\n");
    at_most(env, 1, &next);
}

/// The key is never free between the two sends: who never said that the target dedupes gets none.
fn resend(env: &TestEnv, words: Words<'_>) {
    held(env).answer().exits(7);
    let killed = held(env).args(["--resend-within", "1h"]).under(words).answer();
    let next = held(env).answer();
    assert_eq!(next.code(), Some(121), "{DOUBLE_RUN}: the caller without a window runs nothing\n{killed}{next}");
    at_most(env, 2, &next);
}

fn migration(env: &TestEnv, words: Words<'_>, schema: usize) {
    old_store::make(env, schema);
    let done = || env.run("done").script("echo result");
    done().under(words).answer();
    replays(&done().answer(), 0, "result\n");
    env.run("unclear").external().script("exit 7").answer().exits(121);
    assert_eq!(env.states(), ["completed", "held", "released"], "{LOST_RESULT}: rows of an old store");
    assert_eq!(env.shown("1")["events"][0]["kind"], "run", "{LOST_RESULT}: events of an old store");
}

/// A story, and where in it idem is killed.
struct Point {
    story: &'static str,
    play: Play,
    call: Syscall,
}

/// Plays each story once without a kill, which gives the calls to kill at.
fn points(stories: &[(&'static str, Play)]) -> Vec<Point> {
    let mut points = Vec::new();
    for &(story, play) in stories {
        let env = TestEnv::new();
        at(story, || play(&env, &watch()));
        at(story, || goes_on(&env));
        let calls = syscalls(&env.text_of("trace"));
        points.extend(calls.into_iter().map(|call| Point { story, play, call }));
    }
    points
}

fn try_one(point: &Point) {
    let env = TestEnv::new();
    let Point { story, play, call } = point;
    at(&format!("{story}, killed at {} {} ({})", call.name, call.nth, call.line), || {
        play(&env, &call.kill());
        // The quick version's time is better spent on more points.
        if full() { goes_on(&env) } else { is_whole(&env) }
    });
}

#[test]
fn killed_at_any_of_its_system_calls_idem_runs_nothing_twice_and_loses_no_result() {
    try_points("sweep", &points(&STORIES), QUICK, try_one).are_clean();
}

/// A program that runs first and writes down afterwards, as a log with a unique constraint does.
const CARELESS: &str = "while [ \"$1\" != -- ]; do shift; done; shift
    if [ -e log ]; then cat log; cat errors >&2; echo 'idem: replay' >&2; exit 0; fi
    \"$@\" > result 2> errors; code=$?; mv result log; cat log; cat errors >&2; exit $code";

#[test]
fn the_sweep_finds_the_double_run_of_a_program_that_logs_after_acting() {
    fn careless(env: &TestEnv, words: Words<'_>) {
        let own = ["sh", "-c", CARELESS].map(str::to_owned);
        let arrive = |env| call(env).under(own.clone());
        let killed = call(env).under([words, &own].concat()).answer();
        follow_success(env, knows(&killed, 0), arrive);
    }
    let env = TestEnv::new();
    careless(&env, &watch());
    let calls = syscalls(&env.text_of("trace"));
    let points: Vec<Point> = calls.into_iter().map(|call| Point { story: "careless", play: careless, call }).collect();
    let figures = try_points("sweep of a careless program", &points, points.len(), |point| {
        (point.play)(&TestEnv::new(), &point.call.kill());
    });
    assert!(figures.count(DOUBLE_RUN) > 0, "{} points", points.len());
}
