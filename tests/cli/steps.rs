//! Steps: calls inside a call are claims of their own, and every replay of the call around them gives them back.

use serde_json::{Value, json};

use crate::env::{Call, Gate, Running, TestEnv, become_free, outline};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// A step that counts itself in a file of its tool's name and prints, as a script writes it.
fn step(tool: &str) -> String {
    format!("{IDEM} run --tool {tool} -- sh -c 'echo run >> {tool}.runs; echo {tool} printed'")
}

/// A call of a tool that is to be told in JSON.
fn call<'a>(env: &'a TestEnv, tool: &str, script: &str) -> Call<'a> {
    env.run(tool).args(["--json"]).script(script)
}

/// Runs it and returns its envelope.
#[track_caller]
fn done(env: &TestEnv, tool: &str, script: &str) -> Value {
    call(env, tool, script).answer().exits(0).envelope()
}

/// An envelope's member by its place.
#[track_caller]
fn member(envelope: &Value, place: usize) -> &Value {
    envelope["members"].get(place).unwrap_or_else(|| panic!("no member {place} in {envelope}"))
}

#[test]
fn a_step_is_a_member_with_its_own_number_state_outcome_and_result() {
    let env = TestEnv::new();
    let external = format!(
        "{IDEM} run --tool pay --params '{{\"n\": 1}}' --external --landed-exit 4 -- sh -c 'echo out; echo err >&2; exit 4'"
    );
    let envelope = done(&env, "t", &format!("{IDEM} emit first; {external}; {}; {IDEM} emit last", step("s")));
    assert_eq!(outline(&envelope), "first=null, pay completed, s completed, last=null");
    let pay = member(&envelope, 1);
    let expected = json!({
        "kind": "step", "id": 2, "state": "completed", "outcome": "landed", "exit_code": 4, "stdout": "out\n",
        "stderr": "err\n", "who": "agent", "conv": "c1", "tool": "pay", "params": {"n": 1}, "effect": "external",
        "attempt": 1, "members": [], "reason": "landed-exit", "idempotent": false, "signal": null, "error": null,
        "truncated": false,
    });
    for (name, value) in expected.as_object().expect("fields") {
        assert_eq!(&pay[name], value, "{name} in {pay}");
    }
    for name in ["key", "message", "command", "created_at", "finished_at"] {
        assert!(!pay[name].is_null(), "{name} in {pay}");
    }
}

#[test]
fn the_first_run_each_replay_the_status_file_and_show_tell_of_the_same_steps() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit a 1; {}; {}", step("s1"), step("s2"));
    let first = done(&env, "t", &script);
    assert_eq!((&first["idempotent"], outline(&first).as_str()), (&json!(false), "a=1, s1 completed, s2 completed"));
    let again = done(&env, "t", &script);
    assert_eq!((&again["idempotent"], &again["members"]), (&json!(true), &first["members"]));
    let with_file = env.run("t").args(["--status-file", "status"]).script(&script).answer();
    with_file.exits(0).prints("s1 printed\ns2 printed\n").is_a_replay();
    let status: Value = serde_json::from_str(&env.text_of("status")).expect("an envelope");
    assert_eq!(status["members"], first["members"]);
    assert_eq!(env.shown("1")["members"], first["members"]);
    let listed = env.idem(["list", "--json"]).answer().exits(0).envelope();
    assert_eq!(outline(&listed), outline(&first));
    assert_eq!(member(&listed, 1)["stdout"], Value::Null, "lists have no output");
    assert_eq!((env.lines_in("s1.runs"), env.lines_in("s2.runs")), (1, 1));
}

#[test]
fn the_status_file_of_a_first_run_tells_of_its_steps_too() {
    let env = TestEnv::new();
    let script = format!("{}; {IDEM} emit a", step("s"));
    env.run("t").args(["--status-file", "status"]).script(&script).answer().exits(0).prints("s printed\n");
    let status: Value = serde_json::from_str(&env.text_of("status")).expect("an envelope");
    assert_eq!(outline(&status), "s completed, a=null");
}

#[test]
fn a_replay_without_json_prints_what_the_command_printed_and_nothing_of_its_group() {
    let env = TestEnv::new();
    let script = format!("{IDEM} emit secret-name 1; {} > /dev/null; echo own", step("s"));
    let call = || env.run("t").script(&script);
    call().answer().exits(0).prints("own\n").says_exactly("");
    let again = call().answer();
    again.exits(0).prints("own\n").is_a_replay().does_not_say("secret-name");
}

#[test]
fn who_and_conv_come_from_the_call_around_it_unless_the_step_says_otherwise() {
    let env = TestEnv::new();
    let script = format!("{}; {IDEM} run --tool s --who other --conv c2 -- true", step("s"));
    let envelope = done(&env, "t", &script);
    let names = |n: usize| (member(&envelope, n)["who"].clone(), member(&envelope, n)["conv"].clone());
    assert_eq!(names(0), (json!("agent"), json!("c1")));
    assert_eq!(names(1), (json!("other"), json!("c2")));
}

#[test]
fn steps_of_steps_are_told_below_them() {
    let env = TestEnv::new();
    let leaf = |tool: &str| format!("{IDEM} run --tool {tool} -- {IDEM} emit made-by-{tool}");
    env.write("mid.sh", format!("{}; {}; {IDEM} emit mid 2\n", leaf("a"), leaf("b")));
    let script = format!("{IDEM} emit top 1; {IDEM} run --tool mid -- sh mid.sh; {}", leaf("c"));
    let expected = "top=1, mid completed [a completed [made-by-a=null], b completed [made-by-b=null], mid=2], \
                    c completed [made-by-c=null]";
    for _ in 0..2 {
        assert_eq!(outline(&done(&env, "t", &script)), expected);
    }
    assert_eq!(outline(&env.shown("2")), "a completed [made-by-a=null], b completed [made-by-b=null], mid=2");
    assert_eq!(env.shown("3")["parent"], 2);
}

/// A script that calls itself as a step, to this depth, each level with a member of its own.
fn nest(env: &TestEnv, depth: usize) -> String {
    env.write(
        "nest.sh",
        format!(
            "n=$1; {IDEM} emit at $n || exit 9; [ $n -ge {depth} ] && exit 0
             exec {IDEM} run --tool l$((n + 1)) -- sh nest.sh $((n + 1))\n"
        ),
    );
    "exec sh nest.sh 1".to_owned()
}

#[test]
fn a_nest_of_twenty_steps_is_told_whole() {
    let env = TestEnv::new();
    let script = nest(&env, 20);
    let expected = (2..=20).rev().fold(String::new(), |below, n| {
        let below = if below.is_empty() { below } else { format!(", {below}") };
        format!("l{n} completed [at={n}{below}]")
    });
    for _ in 0..2 {
        assert_eq!(outline(&done(&env, "l1", &script)), format!("at=1, {expected}"));
    }
    let shown = env.idem(["show", "1"]).answer();
    assert!(shown.exits(0).text().contains("claim 20, completed"), "{shown}");
}

#[test]
fn a_nest_too_deep_to_be_told_whole_works_and_goes_on_under_its_own_number() {
    let env = TestEnv::new();
    let script = nest(&env, 60);
    done(&env, "l1", &script);
    let told = outline(&done(&env, "l1", &script));
    let levels = told.matches("completed").count();
    assert!((50..60).contains(&levels), "{levels} levels");
    assert_eq!(outline(&env.shown("59")), "at=59, l60 completed [at=60]");
    assert_eq!(env.rows("SELECT DISTINCT state, count(*) FROM claim"), ["completed|60"]);
}

#[test]
fn a_step_of_two_calls_runs_once_and_is_in_both_groups() {
    let env = TestEnv::new();
    let shared = format!("{IDEM} run --tool s -- sh -c 'echo run >> s.runs; {IDEM} emit made 7'");
    for tool in ["one", "two", "two"] {
        assert_eq!(outline(&done(&env, tool, &shared)), "s completed [made=7]", "{tool}");
    }
    assert_eq!(env.lines_in("s.runs"), 1);
    assert_eq!(env.shown("2")["parent"], 1);
}

#[test]
fn a_call_that_was_there_before_it_was_a_step_joins_by_its_replay() {
    let env = TestEnv::new();
    env.run("s").command(["echo", "before"]).answer().exits(0);
    let envelope = done(&env, "t", &format!("{IDEM} run --tool s -- echo before"));
    assert_eq!((outline(&envelope).as_str(), &envelope["stdout"]), ("s completed", &json!("before\n")));
    assert_eq!(env.shown("1")["parent"], Value::Null, "nobody's command started it");
}

#[test]
fn of_a_step_that_occurs_twice_in_the_tree_the_members_are_told_where_it_comes_first() {
    let env = TestEnv::new();
    let shared = format!("{IDEM} run --tool s -- {IDEM} emit made 7");
    env.write("mid.sh", &shared);
    let script = format!("{IDEM} run --tool mid -- sh mid.sh; {shared}");
    assert_eq!(outline(&done(&env, "t", &script)), "mid completed [s completed [made=7]], s completed");
}

#[test]
fn two_calls_that_each_came_to_the_others_result_are_told_without_end() {
    let env = TestEnv::new();
    env.write("a.sh", format!("{IDEM} emit made-by-a; {IDEM} run --tool b -- sh b.sh\n"));
    env.write("b.sh", format!("{IDEM} emit made-by-b; if [ -e a-is-done ]; then {IDEM} run --tool a -- sh a.sh; fi\n"));
    let call =
        |tool: &str| env.run(tool).args(["--json"]).command(["sh", &format!("{tool}.sh")]).answer().exits(0).envelope();
    assert_eq!(outline(&call("a")), "made-by-a=null, b completed [made-by-b=null]");
    env.write("a-is-done", "");
    env.idem(["clear", "2"]).answer().exits(0);
    let expected = "made-by-b=null, a completed [made-by-a=null, b completed]";
    assert_eq!(outline(&call("b")), expected);
    assert_eq!(outline(&call("b")), expected);
    assert_eq!(outline(&call("a")), "made-by-a=null, b completed [made-by-b=null, a completed]");
    for id in ["1", "3"] {
        env.idem(["show", id]).answer().exits(0);
        env.shown(id);
    }
    assert_eq!(env.idem(["list", "--steps", "--json"]).answer().exits(0).envelopes().len(), 2);
    env.idem(["clear", "1", "--group"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared", "cleared", "cleared"]);
}

#[test]
fn a_step_that_the_second_attempt_comes_to_again_is_one_member_and_ran_once() {
    let env = TestEnv::new();
    let script = format!(
        "{}; {IDEM} emit at-$IDEM_ATTEMPT; [ $IDEM_ATTEMPT = 2 ] || exit 3; {}; {}",
        step("s1"),
        step("s2"),
        step("s1")
    );
    let failed = call(&env, "t", &script).answer().exits(3).envelope();
    assert_eq!((&failed["state"], outline(&failed).as_str()), (&json!("released"), "s1 completed, at-1=null"));
    for _ in 0..2 {
        let envelope = done(&env, "t", &script);
        assert_eq!(outline(&envelope), "s1 completed, at-1=null, at-2=null, s2 completed");
        assert_eq!(envelope["stdout"], "s1 printed\ns2 printed\ns1 printed\n");
    }
    assert_eq!((env.lines_in("s1.runs"), env.lines_in("s2.runs")), (1, 1));
}

#[test]
fn a_step_that_failed_and_ran_again_is_told_as_its_newest_attempt() {
    let env = TestEnv::new();
    let flaky = format!("{IDEM} run --tool s -- sh -c 'echo at $IDEM_ATTEMPT; [ $IDEM_ATTEMPT = 2 ]'");
    let script = format!("{flaky} || {{ [ $IDEM_ATTEMPT = 2 ] || exit 3; }}");
    let failed = call(&env, "t", &script).answer().exits(3).envelope();
    assert_eq!(outline(&failed), "s released");
    let envelope = done(&env, "t", &script);
    assert_eq!(outline(&envelope), "s completed");
    assert_eq!((&member(&envelope, 0)["attempt"], &member(&envelope, 0)["stdout"]), (&json!(2), &json!("at 2\n")));
}

#[test]
fn steps_that_run_at_once_are_all_members_with_what_each_made() {
    let env = TestEnv::new();
    env.write("s.sh", format!("{IDEM} emit made $1; echo $1 >> ran\n"));
    let at_once: String = (0..8).map(|n| format!("{IDEM} run --tool s{n} -- sh s.sh {n} & ")).collect();
    let script = format!("{at_once} wait");
    let envelope = done(&env, "t", &script);
    let told = outline(&envelope);
    let mut steps: Vec<&str> = told.split(", ").collect();
    steps.sort_unstable();
    let expected: Vec<String> = (0..8).map(|n| format!("s{n} completed [made={n}]")).collect();
    assert_eq!(steps, expected);
    assert_eq!(outline(&done(&env, "t", &script)), told, "a replay has the same order");
    assert_eq!(env.lines_in("ran"), 8);
}

#[test]
fn one_step_that_is_called_many_times_at_once_runs_once_and_is_one_member() {
    let env = TestEnv::new();
    let script = format!("for n in 1 2 3 4 5 6; do {} & done; wait", step("s"));
    let envelope = done(&env, "t", &script);
    assert_eq!(outline(&envelope), "s completed");
    assert_eq!(envelope["stdout"], "s printed\n".repeat(6));
    assert_eq!(env.lines_in("s.runs"), 1);
}

#[test]
fn a_call_on_another_store_or_without_the_token_is_nobodys_step() {
    let env = TestEnv::new();
    let script = format!(
        "{IDEM} run --store $PWD/other.db --tool s1 -- true && env -u IDEM_TOKEN {IDEM} run --tool s2 -- true && \
         IDEM_TOKEN=0000000000000000 {IDEM} run --tool s3 -- true && env -u IDEM_CLAIM {IDEM} run --tool s4 -- true && {}",
        step("s5")
    );
    assert_eq!(outline(&done(&env, "t", &script)), "s5 completed");
    assert_eq!(env.rows("SELECT tool FROM claim WHERE id > 1 ORDER BY id"), ["s2", "s3", "s4", "s5"]);
}

#[test]
fn nobodys_step_is_a_call_of_its_own_for_list_and_show() {
    let env = TestEnv::new();
    done(&env, "t", &format!("env -u IDEM_TOKEN {}", step("s")));
    assert_eq!(env.shown("2")["parent"], Value::Null);
    let listed = env.idem(["list", "--json"]).answer().exits(0).envelopes();
    assert_eq!(listed.len(), 2, "it would be nowhere to be seen: {listed:?}");
}

#[test]
fn the_same_store_by_another_path_is_the_same_store() {
    let env = TestEnv::new();
    std::fs::create_dir(env.file("folder")).expect("a folder");
    let script = format!(
        "ln -s store.db link.db; for store in ./store.db folder/../store.db $PWD/store.db link.db; do \
         n=$((n + 1)); {IDEM} run --store $store --tool s$n -- true || exit 9; done"
    );
    let envelope = call(&env, "t", &script).args(["--store", "store.db"]).answer().exits(0).envelope();
    assert_eq!(outline(&envelope), "s1 completed, s2 completed, s3 completed, s4 completed");
}

#[test]
fn a_call_of_a_daemon_that_a_finished_attempt_left_behind_is_nobodys_step() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let script = format!(
        "setsid sh -c 'echo $$ > daemon; read _ < gate; {IDEM} run --tool late -- true; echo $? > late' \
         < /dev/null > /dev/null 2>&1 & until [ -s daemon ]; do :; done; {}",
        step("s")
    );
    done(&env, "t", &script);
    let daemon = env.pid_in("daemon");
    gate.open();
    become_free(daemon);
    assert_eq!(env.text_of("late"), "0\n", "it is a call all the same");
    assert_eq!(outline(&done(&env, "t", &script)), "s completed");
    assert_eq!(env.states(), ["completed"; 3]);
}

#[test]
fn a_mismatch_joins_nothing() {
    let env = TestEnv::new();
    env.run("s").command(["echo", "one"]).answer().exits(0);
    let envelope = done(&env, "t", &format!("{IDEM} run --tool s -- echo two; echo $?"));
    assert_eq!((&envelope["stdout"], outline(&envelope).as_str()), (&json!("122\n"), ""));
}

#[test]
fn a_mismatch_gives_nothing_back_of_the_group_either() {
    let env = TestEnv::new();
    done(&env, "t", &format!("{IDEM} emit secret 1; {}", step("s")));
    let envelope = call(&env, "t", "another command").answer().exits(122).envelope();
    assert_eq!(outline(&envelope), "", "nothing is replayed");
}

#[test]
fn output_of_a_step_that_is_no_text_is_given_as_base64() {
    let env = TestEnv::new();
    let envelope = done(&env, "t", &format!("{IDEM} run --tool s -- printf '\\377\\000'"));
    let step = member(&envelope, 0);
    assert_eq!((&step["stdout"], &step["stdout_base64"], &step["stderr"]), (&Value::Null, &json!("/wA="), &json!("")));
}

#[test]
fn a_step_that_is_held_busy_or_could_not_start_is_a_member_too() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    env.run("held").external().command(["sh", "-c", "exit 7"]).answer().exits(7);
    let busy = env.run("busy").command(["sh", "-c", "echo $$ > pid; read _ < gate"]).start();
    busy.command();
    let script = format!(
        "{IDEM} run --tool held --external -- sh -c 'exit 7'; echo $?
         {IDEM} run --tool busy --no-wait -- sh -c 'echo $$ > pid; read _ < gate'; echo $?
         {IDEM} run --tool missing -- ./no-such-program; echo $?"
    );
    let envelope = done(&env, "t", &script);
    assert_eq!(envelope["stdout"], "121\n120\n127\n");
    assert_eq!(outline(&envelope), "held held, busy running, missing released");
    gate.open();
    busy.answer().exits(0);
    assert_eq!(outline(&done(&env, "t", &script)), "held held, busy completed, missing released", "as it stands now");
}

#[test]
fn a_call_with_the_wrong_usage_joins_nothing() {
    let env = TestEnv::new();
    let script = format!("{IDEM} run --tool s --params '{{' -- true; echo $?; {IDEM} run --tool '' -- true; echo $?");
    let envelope = done(&env, "t", &script);
    assert_eq!((&envelope["stdout"], outline(&envelope).as_str()), (&json!("125\n125\n"), ""));
}

#[test]
fn a_call_that_is_its_own_ancestor_is_an_error_at_once_and_joins_nothing() {
    let env = TestEnv::new();
    for (n, option) in ["", "--no-wait", "--rerun-if-interrupted"].into_iter().enumerate() {
        env.write("a.sh", format!("{IDEM} run --tool b{n} -- sh b.sh\n"));
        env.write("b.sh", format!("{IDEM} run --tool c{n} -- sh c.sh\n"));
        env.write("c.sh", format!("{IDEM} run --tool a{n} {option} -- sh a.sh; echo inner exit $?\n"));
        let answer = env.run(&format!("a{n}")).args(["--json"]).command(["sh", "a.sh"]).answer();
        let envelope = answer.exits(0).envelope();
        assert_eq!(outline(&envelope), format!("b{n} completed [c{n} completed]"));
        assert_eq!(envelope["stdout"], "inner exit 125\n");
        assert!(envelope["stderr"].as_str().is_some_and(|text| text.contains("inside itself")), "{envelope}");
    }
}

#[test]
fn list_shows_parents_and_with_steps_all() {
    let env = TestEnv::new();
    let script = format!("{}; {IDEM} run --tool unclear --external -- sh -c 'exit 7'; exit 0", step("quiet"));
    done(&env, "one", &script);
    done(&env, "two", &step("other"));
    let tools = |args: &[&str]| {
        let listed = env.idem(["list", "--json"]).args(args.iter().copied()).answer().exits(0).envelopes();
        let tools: Vec<String> =
            listed.iter().map(|claim| claim["tool"].as_str().expect("a tool").to_owned()).collect();
        tools.join(" ")
    };
    assert_eq!(tools(&[]), "two unclear one", "a held step is there for whoever has to decide");
    assert_eq!(tools(&["--steps"]), "other two unclear quiet one");
    assert_eq!(tools(&["--steps", "--limit", "1"]), "other");
    assert_eq!(tools(&["--limit", "2"]), "two unclear");
    assert_eq!(tools(&["--state", "held"]), "unclear");
    env.idem(["list", "--tool", "quiet"]).answer().exits(1).says("--steps");
    let table = env.idem(["list"]).answer();
    assert!(table.exits(0).text().contains("unclear") && !table.text().contains("quiet"), "{table}");
}

#[test]
fn show_draws_the_group_as_a_tree_with_states() {
    let env = TestEnv::new();
    env.write("mid.sh", format!("{}; {IDEM} run --tool unclear --external -- sh -c 'exit 7'; exit 0\n", step("leaf")));
    let script = format!(
        "{IDEM} emit order '{{\"id\":7}}'; {IDEM} run --tool mid --params '{{\"n\":1}}' -- sh mid.sh; \
         {IDEM} run --tool failed -- sh -c 'exit 3'; exit 0"
    );
    done(&env, "t", &script);
    let shown = env.idem(["show", "1"]).answer();
    let text = shown.exits(0).text();
    let tree: Vec<&str> = text.lines().skip_while(|line| *line != "group").skip(1).take(5).map(str::trim_end).collect();
    let expected = [
        "  ├─ order  {\"id\":7}",
        "  ├─ claim 2, completed: mid  {\"n\":1}",
        "  │  ├─ claim 3, completed: leaf  {}",
        "  │  └─ claim 4, held: unclear  {}",
        "  └─ claim 5, released, it exited with 3: failed  {}",
    ];
    assert_eq!(tree, expected, "{shown}");
    for (step, parent) in [("3", 2), ("2", 1)] {
        let shown = env.idem(["show", step]).answer();
        let line = shown.exits(0).text().lines().find(|line| line.starts_with("step of")).map(str::to_owned);
        assert!(line.is_some_and(|line| line.ends_with(&format!("claim {parent}"))), "{shown}");
    }
    assert!(!text.contains("step of"), "{shown}");
}

#[test]
fn clear_says_which_steps_stay_claimed_and_they_replay() {
    let env = TestEnv::new();
    env.write("mid.sh", step("leaf"));
    let script =
        format!("{IDEM} run --tool mid -- sh mid.sh; {}; {IDEM} run --tool failed -- false; exit 0", step("s"));
    done(&env, "t", &script);
    let answer = env.idem(["clear", "1"]).answer();
    let text = answer.exits(0).text();
    let stays =
        text.lines().find(|line| line.contains("stay")).unwrap_or_else(|| panic!("what stays is said\n{answer}"));
    for (id, said) in [("2", true), ("3", true), ("4", true), ("5", false)] {
        assert_eq!(stays.split(|c: char| !c.is_ascii_digit()).any(|word| word == id), said, "claim {id}\n{answer}");
    }
    assert!(stays.contains("--group"), "{answer}");
    let again = done(&env, "t", &script);
    assert_eq!(again["idempotent"], false);
    assert_eq!(outline(&again), "mid completed [leaf completed], s completed, failed released");
    assert_eq!((env.lines_in("leaf.runs"), env.lines_in("s.runs")), (1, 1), "what stayed claimed was replayed");
}

#[test]
fn clear_of_a_call_without_steps_says_nothing_of_steps() {
    let env = TestEnv::new();
    done(&env, "t", &format!("{IDEM} emit a"));
    let answer = env.idem(["clear", "1"]).answer();
    assert!(!answer.exits(0).text().contains("step"), "{answer}");
}

#[test]
fn clear_group_clears_the_whole_tree_and_everything_runs_again() {
    let env = TestEnv::new();
    env.write(
        "mid.sh",
        format!(
            "{}; {IDEM} run --tool unclear --external -- sh -c 'echo run >> unclear.runs; exit 7'; exit 0\n",
            step("leaf")
        ),
    );
    let script = format!("{IDEM} run --tool mid -- sh mid.sh; {}", step("s"));
    done(&env, "t", &script);
    env.run("bystander").command(["true"]).answer().exits(0);
    env.idem(["clear", "1", "--group"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared", "cleared", "cleared", "cleared", "cleared", "completed"]);
    let again = done(&env, "t", &script);
    assert_eq!(outline(&again), "mid completed [leaf completed, unclear held], s completed");
    for tool in ["leaf", "unclear", "s"] {
        assert_eq!(env.lines_in(&format!("{tool}.runs")), 2, "{tool}");
    }
}

#[test]
fn clear_group_refuses_the_whole_tree_where_a_part_of_it_lives() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    env.write("mid.sh", "true");
    let script = format!(
        "{IDEM} run --tool mid -- sh mid.sh
         {IDEM} run --tool bg -- sh -c 'echo $$ > pid; read _ < gate' \
         < /dev/null > /dev/null 2>&1 & until [ -s pid ]; do :; done"
    );
    done(&env, "t", &script);
    let before = env.states();
    let answer = env.idem(["clear", "1", "--group"]).answer();
    answer.exits(1).says("idem: ").says("--force");
    let bg = env.rows("SELECT id FROM claim WHERE tool = 'bg'").remove(0);
    answer.says(&format!("claim {bg}"));
    assert_eq!(env.states(), before, "nothing was changed\n{answer}");
    env.idem(["clear", "1", "--group", "--force"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared"; 3]);
    gate.open();
    become_free(env.pid_in("pid"));
    assert_eq!(env.states(), ["cleared"; 3]);
}

#[test]
fn clear_group_clears_what_is_too_deep_to_be_told_as_well() {
    let env = TestEnv::new();
    done(&env, "l1", &nest(&env, 60));
    env.idem(["clear", "1", "--group"]).answer().exits(0);
    assert_eq!(env.rows("SELECT DISTINCT state, count(*) FROM claim GROUP BY 1"), ["cleared|60"]);
}

#[test]
fn clear_does_not_say_of_a_held_step_that_it_replays() {
    let env = TestEnv::new();
    done(&env, "t", &format!("{IDEM} run --tool unclear --external -- sh -c 'exit 7'; exit 0"));
    let answer = env.idem(["clear", "1"]).answer();
    assert!(answer.exits(0).text().contains("step 2"), "{answer}");
    assert!(!answer.text().contains("replays"), "it is held, and a call that comes to it gets 121\n{answer}");
}

#[test]
fn clear_group_by_filter_needs_yes_and_names_each_part() {
    let env = TestEnv::new();
    done(&env, "t", &step("s"));
    let answer = env.idem(["clear", "--tool", "t", "--group"]).answer();
    answer.exits(2).says("claim 1 ").says("claim 2 ");
    assert_eq!(env.states(), ["completed", "completed"]);
    env.idem(["clear", "--tool", "t", "--group", "--yes"]).answer().exits(0);
    assert_eq!(env.states(), ["cleared", "cleared"]);
}

#[test]
fn a_parent_that_waits_for_nothing_of_a_shared_step_gets_its_result_once_it_is_there() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let shared =
        format!("{IDEM} run --tool s -- sh -c 'echo run >> s.runs; echo $$ > pid; read _ < gate; {IDEM} emit made'");
    let first = call(&env, "one", &shared).start();
    first.command();
    let others: Vec<Running> = (0..4).map(|n| call(&env, &format!("other{n}"), &shared).start()).collect();
    env.wait_for_waiters(4);
    gate.open();
    for parent in others.into_iter().chain([first]) {
        assert_eq!(outline(&parent.answer().exits(0).envelope()), "s completed [made=null]");
    }
    assert_eq!(env.lines_in("s.runs"), 1);
}
