//! What holds with a file holds with PostgreSQL: every verb, from one home and from others.

use serde_json::{Value, json};

use crate::env::{Gate, Running, TestEnv, outline, wait_for};
use crate::server::{PASSWORD, url};
use crate::world::World;

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

#[test]
fn a_first_run_is_replayed_with_the_same_bytes_and_exit_here_and_elsewhere() {
    let Some(world) = World::new() else { return };
    let script = world.counted(r"printf 'out \377\000 end'; echo err >&2; exit 3");
    let first = world.env.run("t").args(["--landed-exit", "3"]).script(&script).answer();
    first.exits(3).prints(b"out \xff\x00 end").says_exactly("err\n").is_a_first_run();
    for env in [&world.env, &world.elsewhere()] {
        let again = env.run("t").args(["--landed-exit", "3"]).script(&script).answer();
        again.exits(3).prints(first.stdout()).is_a_replay();
        assert!(again.stderr().ends_with(b"err\n"), "{again}");
    }
    assert_eq!((world.runs(), world.states("t")), (1, vec!["completed".to_owned()]));
}

#[test]
fn what_is_known_not_to_have_landed_runs_again_and_keeps_its_history() {
    let Some(world) = World::new() else { return };
    let script = world.counted("echo attempt $IDEM_ATTEMPT; [ $IDEM_ATTEMPT = 2 ]");
    world.env.run("t").script(&script).answer().exits(1).prints("attempt 1\n").says("it did not land");
    world.elsewhere().run("t").script(&script).answer().exits(0).prints("attempt 2\n").is_a_first_run();
    world.env.run("t").script(&script).answer().exits(0).prints("attempt 2\n").is_a_replay();
    assert_eq!((world.runs(), world.states("t").join(" ")), (2, "released completed".to_owned()));
    let not_found = world.env.run("none").command(["/no/such/command"]).answer();
    not_found.exits(127);
    assert_eq!(world.states("none"), ["released"]);
}

#[test]
fn what_nobody_knows_is_held_for_everybody_until_a_person_decides() {
    let Some(world) = World::new() else { return };
    let elsewhere = world.elsewhere();
    let script = world.counted("echo sent; exit 7");
    for (tool, word, code) in [("yes", "landed", 0), ("no", "not-landed", 7)] {
        world.env.run(tool).external().script(&script).answer().exits(7).prints("sent\n");
        for env in [&world.env, &elsewhere] {
            let held = env.run(tool).external().args(["--json"]).script(&script).answer();
            let envelope = held.exits(121).envelope();
            assert_eq!((&envelope["error"]["kind"], &envelope["state"]), (&json!("held"), &json!("held")), "{held}");
        }
        elsewhere.idem(["resolve", &world.newest(tool), word, "--note", "asked"]).answer().exits(0);
        world.env.run(tool).external().script(&script).answer().exits(code).prints("sent\n");
    }
    assert_eq!(world.runs(), 3, "not landed: it ran once more");
}

#[test]
fn another_command_is_a_mismatch_wherever_it_comes_from() {
    let Some(world) = World::new() else { return };
    world.env.run("t").script("echo one").answer().exits(0);
    for env in [&world.env, &world.elsewhere()] {
        env.run("t").script("echo two").answer().exits(122).prints("").says("another command");
        let allowed = env.run("t").args(["--allow-command-change"]).script("echo two").answer();
        allowed.exits(0).prints("one\n").is_a_replay();
    }
}

#[test]
fn who_does_not_wait_is_told_that_it_is_busy_and_who_waits_gets_the_owners_result() {
    let Some(world) = World::new() else { return };
    let gate = Gate::new(&world.env, "gate");
    let (proxy, elsewhere) = (world.proxy(), world.elsewhere());
    let behind = world.behind(&proxy);
    let script = world.counted("echo $$ > pid; read _ < gate; echo done; exit 4");
    let owner = world.env.run("t").script(&script).start();
    owner.command();
    for env in [&world.env, &elsewhere] {
        let busy = env.run("t").args(["--no-wait", "--json"]).script(&script).answer();
        assert_eq!(busy.exits(120).envelope()["error"]["kind"], "busy", "{busy}");
        env.run("t").args(["--wait", "300ms"]).script(&script).answer().exits(120).says("running");
    }
    let waiters: Vec<Running> =
        [&world.env, &elsewhere, &behind].iter().map(|env| env.run("t").script(&script).start()).collect();
    let mut asked = 0;
    wait_for("a waiter that has looked several times", || {
        asked += proxy.round_trips();
        (asked >= 4).then_some(())
    });
    gate.open();
    owner.answer().exits(4).prints("done\n").is_a_first_run();
    for waiter in waiters {
        waiter.answer().exits(4).prints("done\n").is_a_replay();
    }
    assert_eq!((world.runs(), world.states("t")), (1, vec!["released".to_owned()]), "the failure was one attempt");
}

#[test]
fn five_mebibytes_on_both_streams_come_back_byte_for_byte() {
    let Some(world) = World::new() else { return };
    // Bytes that are no text, on both streams in turn.
    let script = "for n in 1 2 3 4 5; do \
                  seq $n 20000000 | head -c 1048576 | tr '0123' '\\000\\377\\200\\n'; \
                  seq 1$n 20000000 | head -c 1048576 | tr '0123' '\\001\\376\\201\\n' >&2; done";
    let first = world.env.run("t").script(script).answer();
    first.exits(0);
    assert_eq!((first.stdout().len(), first.stderr().len()), (5 << 20, 5 << 20));
    let again = world.elsewhere().run("t").args(["--quiet"]).script(script).answer();
    again.exits(0);
    assert!(again.stdout() == first.stdout(), "stdout differs");
    assert!(again.stderr() == first.stderr(), "stderr differs");
    let raw = world.env.idem(["show", &world.newest("t"), "--stdout"]).answer();
    assert!(raw.exits(0).stdout() == first.stdout(), "show --stdout differs");
}

#[test]
fn every_envelope_is_as_the_schema_says() {
    let Some(world) = World::new() else { return };
    let call = |env: &TestEnv, params: &str| {
        let call = env.run("t").params(params).args(["--json", "--landed-exit", "4", "--not-landed-exit", "5"]);
        let script = format!("echo out; echo err >&2; {IDEM} emit made '{{\"n\":1}}'; exit $((IDEM_CODE))");
        call.script(&script).var("IDEM_CODE", params).answer().envelope()
    };
    let elsewhere = world.elsewhere();
    for params in ["0", "4", "5", "6"] {
        let first = call(&world.env, params);
        assert_eq!((&first["idempotent"], &first["exit_code"].to_string()), (&json!(false), &params.to_owned()));
        assert_eq!(outline(&first), "made={\"n\":1}");
        let again = call(&elsewhere, params);
        let replays = matches!(params, "0" | "4");
        assert_eq!(again["idempotent"], replays, "{again}");
        if replays {
            for name in ["id", "key", "stdout", "stderr", "exit_code", "created_at", "finished_at", "members"] {
                assert_eq!(first[name], again[name], "{name}");
            }
        }
    }
    let held = world.env.run("held").external().args(["--status-file", "status"]).script("exit 1").answer();
    held.exits(1);
    assert_eq!(world.env.status_file("status")["state"], "held");
    let listed = world.env.idem(["list", "--all", "--json"]).answer().exits(0).envelopes();
    assert_eq!(listed.len(), 7, "four calls, two of them twice, and one that is held");
    for claim in listed {
        let shown = elsewhere.shown(&claim["id"].to_string());
        assert_eq!(shown["key"], claim["key"]);
        assert!(shown["events"].as_array().is_some_and(|events| !events.is_empty()), "{shown}");
    }
}

#[test]
fn list_show_clear_and_stats_tell_the_same_everywhere() {
    let Some(world) = World::new() else { return };
    let elsewhere = world.elsewhere();
    world.env.run("mail").script("echo out; echo err >&2").answer().exits(0);
    world.env.run("build").script("exit 3").answer().exits(3);
    elsewhere.run("mail").script("echo out; echo err >&2").answer().exits(0).is_a_replay();
    for env in [&world.env, &elsewhere] {
        let listed = env.idem(["list"]).answer();
        assert!(listed.exits(0).text().contains("mail") && !listed.text().contains("build"), "{listed}");
        let all = env.idem(["list", "--all", "--state", "released"]).answer();
        assert!(all.exits(0).text().contains("build") && !all.text().contains("mail"), "{all}");
        let id = world.newest("mail");
        let shown = env.idem(["show", &id]).answer();
        for words in ["is completed", "agent / c1 / mail", "out", "err", "history"] {
            assert!(shown.exits(0).text().contains(words), "{words:?}\n{shown}");
        }
        env.idem(["show", &id, "--stderr"]).answer().exits(0).prints("err\n");
        let key = world.shown(&id)["key"].as_str().map(|key| format!("key:{}", &key[..16])).expect("a key");
        assert_eq!(env.shown(&key)["id"].to_string(), id);
        let stats = env.idem(["stats", "--json"]).answer().exits(0).json_line();
        for (name, number) in [("runs", 2), ("replays", 1), ("kept_from_running", 1), ("failures", 1)] {
            assert_eq!(stats[name], number, "{name} in {stats}");
        }
    }
    assert_eq!(world.env.event_kinds(&world.newest("mail")), ["run", "became-completed", "replay"]);
    elsewhere.idem(["clear", &world.newest("mail")]).answer().exits(0).says("");
    world.env.run("mail").script("echo out; echo err >&2").answer().exits(0).is_a_first_run();
    assert_eq!(world.states("mail"), ["cleared", "completed"]);
    elsewhere.idem(["show", "4711"]).answer().exits(1);
}

#[test]
fn a_held_claim_is_asked_about_by_reconcile() {
    let Some(world) = World::new() else { return };
    let probe = "echo receipt; [ $IDEM_TOOL = yes ]";
    for tool in ["yes", "no"] {
        world.env.run(tool).external().args(["--probe", "exit 2"]).script("exit 7").answer().exits(7);
        let asked = world.env.idem(["reconcile", &world.newest(tool), "--probe", probe]).answer();
        asked.exits(0);
    }
    assert_eq!((world.states("yes"), world.states("no")), (vec!["completed".into()], vec!["released".into()]));
    let again = world.elsewhere().run("yes").external().args(["--probe", "exit 2"]).script("exit 7").answer();
    again.exits(0).prints("receipt\n").is_a_replay();
}

#[test]
fn marks_members_and_steps_are_kept_and_given_back() {
    let Some(world) = World::new() else { return };
    let step = format!("{IDEM} run --tool step --external -- sh -c 'echo run >> {}; echo step'", "steps");
    let script = format!("{IDEM} emit first '{{\"id\":7}}' && {step} && {IDEM} mark landed && exit 9");
    let call = |env: &TestEnv| env.run("t").external().args(["--json"]).script(&script).answer();
    let first = call(&world.env);
    let envelope = first.exits(9).envelope();
    assert_eq!(outline(&envelope), "first={\"id\":7}, step completed");
    assert_eq!((&envelope["state"], &envelope["outcome"]), (&json!("completed"), &json!("landed")), "marked: {first}");
    let again = call(&world.elsewhere()).exits(9).envelope();
    assert_eq!((&again["idempotent"], &again["stdout"]), (&json!(true), &envelope["stdout"]));
    assert_eq!(outline(&again), outline(&envelope));
    assert_eq!(world.env.lines_in("steps"), 1);
    let before = world.env.run("marked").external().args(["--marks"]).script("exit 1").answer();
    before.exits(1).says("did not land");
    assert_eq!(world.states("marked"), ["released"]);
}

#[test]
fn what_was_pruned_is_forgotten_and_the_rest_is_not() {
    let Some(world) = World::new() else { return };
    for (tool, script) in [("old", "echo out"), ("held", "exit 7"), ("newest", "true")] {
        world.env.run(tool).external().script(script).answer();
    }
    let prune = ["prune", "--older-than", "0s"];
    world.env.idem(prune).answer().exits(2);
    assert_eq!(world.states("old"), ["completed"], "without --yes it only tells");
    let pruned = world.elsewhere().idem(prune).args(["--yes"]).answer();
    assert!(pruned.exits(0).text().starts_with("pruned 1 claim"), "{pruned}");
    assert_eq!((world.states("old"), world.states("held")), (vec![], vec!["held".to_owned()]));
    world.env.run("old").external().script("echo out").answer().exits(0).is_a_first_run();
}

#[test]
fn doctor_tells_which_server_it_is_and_that_it_is_well() {
    let Some(world) = World::new() else { return };
    world.make_store();
    let answer = world.env.idem(["doctor"]).answer();
    let (address, text) = (world.server().address().to_string(), answer.exits(0).text());
    assert!(text.contains(&address) && text.contains(world.database()), "where it is\n{answer}");
    let health: Value = world.env.idem(["doctor", "--json"]).answer().exits(0).json_line();
    let store = health["store"].as_str().unwrap_or_else(|| panic!("a store in {health}"));
    assert!(store.contains(&address) && !store.contains(PASSWORD), "{store}");
    assert_eq!(health["decided_by"], "IDEM_STORE");
}

#[test]
fn a_role_whose_password_is_checked_by_scram_logs_in() {
    let Some(world) = World::new() else { return };
    world.rows("CREATE SCHEMA idem; GRANT ALL ON SCHEMA idem TO scram");
    let address = world.server().address();
    let env = TestEnv::with_store(Some(url("scram", address, world.database())));
    env.run("t").script("echo one").answer().exits(0);
    let without = format!("postgresql://scram@{address}/{}", world.database());
    let env = TestEnv::with_store(Some(without.clone()));
    env.run("t").var("PGPASSWORD", PASSWORD).script("echo one").answer().exits(0).is_a_replay();
    let line = format!("{}:{}:*:scram:{PASSWORD}\n", address.ip(), address.port());
    let file = env.write("passwords", line);
    crate::env::set_mode(&file, 0o600);
    env.run("t").var("PGPASSFILE", &file).script("echo one").answer().exits(0).is_a_replay();
    env.run("t").args(["--store", &without]).no_var("IDEM_STORE").script("echo one").answer().refuses();
}

#[test]
fn many_that_make_the_store_at_once_make_it_once() {
    let Some(world) = World::new() else { return };
    let envs: Vec<TestEnv> = (0..16).map(|_| world.elsewhere()).collect();
    let calls: Vec<Running> =
        (0..).zip(&envs).map(|(n, env)| env.run(&format!("t{n}")).script(&format!("echo {n}")).start()).collect();
    for (n, call) in calls.into_iter().enumerate() {
        call.answer().exits(0).prints(format!("{n}\n")).says_exactly("");
    }
    assert_eq!(world.rows("SELECT count(*) FROM idem.claim WHERE state = 'completed'"), ["16"]);
    assert_eq!(world.rows("SELECT count(*) FROM idem.store"), ["1"]);
}
