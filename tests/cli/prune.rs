//! `idem prune`: old claims and history go, and what stays behaves as if nothing had gone.

use crate::env::{Gate, KILL_IDEM, TestEnv, wait_for};

/// Makes everything that is there old, as if it had ended this many days ago.
fn age(env: &TestEnv, days: u32) {
    env.tamper(&format!(
        "UPDATE claim SET finished_at = finished_at - {days} * 86400000, created_at = created_at - {days} * 86400000"
    ));
}

/// Fills the store with completed claims that ended forty days ago, each with two events and output.
fn many(env: &TestEnv, count: u32) {
    env.tamper(&format!(
        "BEGIN;
         INSERT INTO claim (key, state, reason, outcome, effect, attempt, who, conv, tool, params, command, exit_code,
                            created_at, finished_at, lock_offset, lock_inode, owner, process)
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         SELECT lower(hex(randomblob(32))), 'completed', 'exit', 'landed', 'local', 1, 'agent', 'c1', 'old', '{{}}',
                x'747275650000', 0, t - 10, t, i, 1, 'a@h[1]', 'start 1'
         FROM n, (SELECT unixepoch() * 1000 - 40 * 86400000 AS t);
         INSERT INTO event SELECT id, 1, created_at, 'run', 'a@h[1]', NULL FROM claim WHERE tool = 'old';
         INSERT INTO event SELECT id, 2, finished_at, 'became-completed', 'a@h[1]', '{{}}' FROM claim WHERE tool = 'old';
         INSERT INTO output (claim, stream, data) SELECT id, 1, randomblob(100) FROM claim WHERE tool = 'old';
         COMMIT"
    ));
}

fn ids(env: &TestEnv) -> Vec<String> {
    env.rows("SELECT id FROM claim ORDER BY id")
}

const PRUNE: [&str; 4] = ["prune", "--older-than", "30d", "--yes"];

#[test]
fn old_completed_claims_and_history_go_with_all_that_belongs_to_them() {
    let env = TestEnv::new();
    env.run("done").script("echo out; \"$IDEM\" emit line 1").var("IDEM", env!("CARGO_BIN_EXE_idem")).answer().exits(0);
    env.run("failed").script("exit 3").answer().exits(3);
    env.run("freed").script("true").answer().exits(0);
    env.idem(["clear", "3"]).answer().exits(0);
    age(&env, 40);
    env.run("new").script("\"$IDEM\" emit line 2").var("IDEM", env!("CARGO_BIN_EXE_idem")).answer().exits(0);
    let answer = env.idem(PRUNE).answer();
    assert!(answer.exits(0).text().starts_with("pruned 3 claims"), "{answer}");
    assert_eq!(ids(&env), ["4"]);
    assert_eq!(env.rows("SELECT DISTINCT claim FROM event"), ["4"]);
    assert_eq!(env.rows("SELECT count(*) FROM output"), ["0"]);
    assert_eq!(env.rows("SELECT grp FROM member"), ["4"]);
    env.run("done").counting("true").answer().exits(0).is_a_first_run();
    assert_eq!(env.runs(), 1, "what is forgotten runs again");
}

#[test]
fn what_is_younger_held_or_running_stays() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    env.run("held").external().script("exit 1").answer().exits(1);
    let owner = env.run("running").script("echo $$ > pid; read _ < gate").start();
    owner.command();
    age(&env, 400);
    env.run("young").script("true").answer().exits(0);
    env.run("youngest").script("true").answer().exits(0);
    env.idem(PRUNE).answer().exits(1).says("nothing");
    assert_eq!(env.states(), ["held", "running", "completed", "completed"]);
    env.idem(["prune", "--older-than", "0s", "--yes"]).answer().exits(0);
    assert_eq!(ids(&env), ["1", "2", "4"]);
    gate.open();
    owner.answer().exits(0);
}

#[test]
fn every_attempt_of_a_held_key_stays() {
    let env = TestEnv::new();
    env.run("t").script("exit 1").answer().exits(1);
    env.run("t").external().script("exit 1").answer().exits(1);
    env.run("other").script("true").answer().exits(0);
    env.tamper("UPDATE claim SET finished_at = 1, created_at = 1");
    env.idem(PRUNE).answer().exits(1);
    assert_eq!(ids(&env), ["1", "2", "3"]);
}

#[test]
fn the_newest_number_is_never_given_again() {
    let env = TestEnv::new();
    for tool in ["a", "b", "c"] {
        env.run(tool).script("true").answer().exits(0);
    }
    age(&env, 40);
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(ids(&env), ["3"]);
    env.run("d").script("true").answer().exits(0);
    assert_eq!(ids(&env), ["3", "4"]);
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(ids(&env), ["4"]);
}

#[test]
fn attempts_keep_their_numbers_when_older_ones_go() {
    let env = TestEnv::new();
    env.run("t").script("exit 1").answer().exits(1);
    env.run("t").script("exit 1").answer().exits(1);
    age(&env, 40);
    env.run("t").script("exit 1").answer().exits(1);
    env.run("last").script("true").answer().exits(0);
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(env.rows("SELECT id, attempt FROM claim WHERE tool = 't'"), ["3|3"]);
    env.run("t").script("true").answer().exits(0);
    assert_eq!(env.rows("SELECT id, attempt FROM claim WHERE tool = 't'"), ["3|3", "5|4"]);
}

#[test]
fn a_group_outlives_the_attempt_that_began_it() {
    let env = TestEnv::new();
    let idem = env!("CARGO_BIN_EXE_idem");
    let script = "\"$IDEM\" emit made 17; \"$IDEM\" run --tool step -- echo stepped; exit $(cat code)";
    env.write("code", "1");
    env.run("parent").script(script).var("IDEM", idem).answer().exits(1);
    age(&env, 40);
    env.write("code", "0");
    env.run("parent").script(script).var("IDEM", idem).answer().exits(0);
    env.run("last").script("\"$IDEM\" emit m").var("IDEM", idem).answer().exits(0);
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(env.rows("SELECT tool, attempt FROM claim ORDER BY id"), ["step|1", "parent|2", "last|1"]);
    let replay = env.run("parent").script(script).args(["--json"]).answer();
    let members = replay.exits(0).envelope()["members"].clone();
    assert_eq!((&members[0]["data"], &members[1]["stdout"]), (&17.into(), &"stepped\n".into()), "{replay}");
}

#[test]
fn a_parent_that_stays_keeps_its_steps_and_goes_with_them_later() {
    let env = TestEnv::new();
    let idem = env!("CARGO_BIN_EXE_idem");
    // The step was there before its parent came to it.
    env.run("step").script("echo stepped").answer().exits(0);
    let script = "\"$IDEM\" run --tool step -- sh -c 'echo stepped'; \"$IDEM\" run --tool own -- true";
    env.run("parent").script(script).var("IDEM", idem).answer().exits(0);
    env.tamper("UPDATE claim SET finished_at = 1 WHERE tool <> 'parent'");
    env.run("other").script("\"$IDEM\" emit m").var("IDEM", idem).answer().exits(0);
    env.idem(PRUNE).answer().exits(1);
    let replay = env.run("parent").script(script).args(["--json"]).answer();
    assert_eq!(replay.exits(0).envelope()["members"][0]["stdout"], "stepped\n");
    env.tamper("UPDATE claim SET finished_at = 1");
    let dry = env.idem(["prune", "--older-than", "30d", "--dry-run", "--json"]).answer().json_line();
    assert_eq!((&dry["claims"], &dry["members"]), (&3.into(), &2.into()), "{dry}");
    let done = env.idem(PRUNE).args(["--json"]).answer().json_line();
    assert_eq!((&done["claims"], &done["members"]), (&3.into(), &2.into()), "{done}");
    assert_eq!(env.rows("SELECT tool FROM claim"), ["other"]);
}

#[test]
fn a_group_with_a_held_step_stays_whole() {
    let env = TestEnv::new();
    let idem = env!("CARGO_BIN_EXE_idem");
    let script = "\"$IDEM\" run --tool good -- true; \"$IDEM\" run --external --tool bad -- false; true";
    env.run("parent").script(script).var("IDEM", idem).answer().exits(0);
    env.run("last").script("\"$IDEM\" emit m").var("IDEM", idem).answer().exits(0);
    env.tamper("UPDATE claim SET finished_at = 1");
    env.idem(PRUNE).answer().exits(1);
    env.idem(["resolve", "3", "not-landed"]).answer().exits(0);
    env.tamper("UPDATE claim SET finished_at = 1");
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(env.rows("SELECT tool FROM claim"), ["last"]);
}

#[test]
fn an_open_window_of_a_resend_keeps_its_attempt() {
    let env = TestEnv::new();
    env.run("t").external().args(["--resend-within", "90d"]).script("true").answer().exits(0);
    env.run("last").script("true").answer().exits(0);
    age(&env, 40);
    env.idem(PRUNE).answer().exits(1);
    age(&env, 50);
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(ids(&env), ["2"]);
}

#[test]
fn without_a_yes_nothing_is_changed_and_what_would_go_is_said() {
    let env = TestEnv::new();
    many(with_store(&env), 10);
    env.run("last").script("true").answer().exits(0);
    let plain = ["prune", "--older-than", "30d"];
    env.idem(plain).answer().exits(2).prints("").says("would prune 10 claims").says("--yes").says("run again");
    let json = env.idem(plain).args(["--json"]).answer();
    assert_eq!(json.exits(2).json_line()["error"]["kind"], "usage");
    let dry = env.idem(plain).args(["--dry-run"]).answer();
    assert!(dry.exits(0).text().contains("would prune 10 claims") && dry.text().contains("20 events"), "{dry}");
    let json = env.idem(plain).args(["--dry-run", "--json"]).answer().json_line();
    assert_eq!((&json["claims"], &json["changed"], &json["events"]), (&10.into(), &false.into(), &20.into()));
    assert!(json["bytes"].as_u64().is_some_and(|bytes| bytes > 2000), "{json}");
    assert_eq!(ids(&env).len(), 12);
    for bad in [&["prune"][..], &["prune", "--yes"], &["prune", "--older-than", "soon", "--yes"]] {
        env.idem(bad.iter().copied()).answer().exits(2);
    }
    assert_eq!(ids(&env).len(), 12);
}

fn with_store(env: &TestEnv) -> &TestEnv {
    env.run("first").script("true").answer().exits(0);
    env
}

#[test]
fn filters_choose_what_goes() {
    let env = TestEnv::new();
    env.run("a").script("true").answer().exits(0);
    env.run("b").script("true").answer().exits(0);
    env.idem(["run", "--who", "w", "--conv", "c2", "--tool", "a"]).script("true").answer().exits(0);
    env.run("last").script("true").answer().exits(0);
    age(&env, 40);
    env.idem(PRUNE).args(["--tool", "a", "--who", "nobody"]).answer().exits(1);
    env.idem(PRUNE).args(["--tool", "b"]).answer().exits(0);
    assert_eq!(ids(&env), ["1", "3", "4"]);
    env.idem(PRUNE).args(["--conv", "c2"]).answer().exits(0);
    assert_eq!(ids(&env), ["1", "4"]);
    env.idem(PRUNE).args(["--who", "agent"]).answer().exits(0);
    assert_eq!(ids(&env), ["4"]);
}

#[test]
fn no_store_is_nothing_to_prune_and_none_is_made() {
    let env = TestEnv::new();
    env.idem(PRUNE).answer().exits(1);
    assert!(!env.store().exists());
}

#[test]
fn twenty_thousand_claims_go_while_eight_arrivals_run_and_the_space_comes_back() {
    let env = TestEnv::new();
    many(with_store(&env), 20_000);
    let size = || std::fs::metadata(env.store()).expect("the store").len();
    env.tamper("PRAGMA wal_checkpoint(TRUNCATE)");
    let before = size();
    let prune = env.idem(PRUNE).start();
    let left = || env.rows("SELECT count(*) FROM claim WHERE tool = 'old'")[0].parse::<u32>().expect("a number");
    wait_for("the prune's beginning", || (left() < 20_000).then_some(()));
    let arrivals: Vec<_> =
        (0..8).map(|n| env.run("meanwhile").params(&n.to_string()).counting("echo ran").start()).collect();
    for arrival in arrivals {
        arrival.answer().exits(0).prints("ran\n").is_a_first_run();
    }
    env.run("first").script("true").answer().exits(0).is_a_replay();
    let answer = prune.answer();
    assert!(answer.exits(0).text().starts_with("pruned 20000 claims"), "{answer}");
    assert_eq!(left(), 0);
    assert_eq!(env.rows("SELECT (SELECT count(*) FROM claim), (SELECT count(*) FROM output)"), ["9|8"]);
    assert_eq!(env.rows("PRAGMA integrity_check"), ["ok"]);
    assert_eq!(env.runs(), 8);
    assert!(size() * 10 < before, "{} of {before} bytes are left", size());
    let log = std::fs::metadata(env.beside_store("-wal")).map_or(0, |log| log.len());
    assert!(log <= 512 * 1024, "the write-ahead log has {log} bytes");
}

#[test]
fn a_killed_prune_leaves_a_whole_store_and_the_next_one_goes_on() {
    let env = TestEnv::new();
    many(with_store(&env), 20_000);
    env.run("last").script("true").answer().exits(0);
    let prune = env.idem(PRUNE).start();
    let left = || env.rows("SELECT count(*) FROM claim WHERE tool = 'old'")[0].parse::<u32>().expect("a number");
    wait_for("the prune's beginning", || (left() < 20_000).then_some(()));
    prune.kill_9();
    assert!(left() > 0, "it was killed in the midst of it");
    assert_eq!(env.rows("PRAGMA integrity_check"), ["ok"]);
    let orphans = "SELECT count(*) FROM event WHERE claim NOT IN (SELECT id FROM claim)";
    assert_eq!(env.rows(orphans), ["0"]);
    env.run("first").script("true").answer().exits(0).is_a_replay();
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(left(), 0);
}

#[test]
fn two_prunes_at_once_prune_each_claim_once() {
    let env = TestEnv::new();
    many(with_store(&env), 3000);
    env.run("last").script("true").answer().exits(0);
    let both = [env.idem(PRUNE).args(["--json"]).start(), env.idem(PRUNE).args(["--json"]).start()];
    let pruned: u64 =
        both.into_iter().map(|prune| prune.answer().json_line()["claims"].as_u64().expect("a number")).sum();
    assert_eq!(pruned, 3000);
    assert_eq!(ids(&env).len(), 2);
}

#[test]
fn much_output_goes_in_pieces_and_so_does_what_a_killed_prune_left() {
    let env = TestEnv::new();
    env.run("big").script("head -c 8000000 /dev/zero").answer().exits(0);
    env.run("last").script("true").answer().exits(0);
    age(&env, 40);
    env.tamper("INSERT INTO output (claim, stream, data) VALUES (77, 1, x'00')");
    env.idem(PRUNE).answer().exits(0);
    assert_eq!(env.rows("SELECT count(*) FROM output"), ["0"]);
}

#[test]
fn a_replay_whose_claim_is_pruned_under_it_is_no_result() {
    let env = TestEnv::new();
    env.run("big").script("head -c 8000000 /dev/zero").answer().exits(0);
    env.run("last").script("true").answer().exits(0);
    age(&env, 40);
    let gate = Gate::new(&env, "gate");
    // The replay has begun: its reader has the first byte, and takes the rest only after the prune.
    let reader = "\"$0\" \"$@\" | { head -c 1 > first; read _ < gate; cat | wc -c; }";
    let replay = env.run("big").script("head -c 8000000 /dev/zero").under(["sh", "-c", reader]).start();
    wait_for("the replay's first byte", || (env.text_of("first").len() == 1).then_some(()));
    env.idem(PRUNE).answer().exits(0);
    gate.open();
    let answer = replay.answer();
    answer.says("was pruned while it was read");
}

#[test]
fn what_was_interrupted_is_not_pruned() {
    let env = TestEnv::new();
    env.run("t").script(KILL_IDEM).answer();
    env.run("last").script("true").answer().exits(0);
    env.tamper("UPDATE claim SET created_at = 1");
    env.idem(PRUNE).answer().exits(1);
    assert_eq!(env.states(), ["running", "completed"]);
}
