//! `idem reconcile`: the targets of held claims are asked, and nothing is ever run.

use crate::env::{Answer, Call, Gate, TestEnv};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// Knows nothing until it is calm; then each tool's write has become what the tool is called.
const BY_TOOL: &str = "echo $IDEM_TOOL >> probes; [ -e calm ] || exit 2; echo receipt of $IDEM_TOOL; \
                       case $IDEM_TOOL in landed*) exit 0;; not-landed*) exit 1;; *) exit 2;; esac";

/// An external call that ends unclear.
fn unclear<'a>(env: &'a TestEnv, tool: &str) -> Call<'a> {
    env.run(tool).external().args(["--probe", BY_TOOL]).counting("echo sent; exit 7")
}

/// Claims of these tools, held, numbered from 1; from now on the probes know.
fn held(env: &TestEnv, tools: &[&str]) {
    for tool in tools {
        unclear(env, tool).answer().exits(7);
    }
    env.write("calm", "");
    env.write("probes", "");
}

fn reconcile(env: &TestEnv, args: &[&str]) -> Answer {
    env.idem(["reconcile"]).args(args.iter().copied()).answer()
}

/// Fails unless stdout has this many lines, the last of them the summary.
#[track_caller]
fn sums_up(answer: &Answer, claims: usize, summary: &str) {
    let text = answer.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), claims + 1, "a line for each claim and the summary\n{answer}");
    assert_eq!(lines.last(), Some(&summary), "{answer}");
}

#[test]
fn a_claim_that_has_landed_is_completed_and_replays_the_probes_answer() {
    let env = TestEnv::new();
    held(&env, &["landed", "unclear"]);
    let answer = reconcile(&env, &["1"]);
    sums_up(answer.exits(0), 1, "1 landed, 0 not landed, 0 still unknown");
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim ORDER BY id")[0], "completed|probe|landed");
    assert_eq!(env.text_of("probes"), "landed\n", "nobody asked about the other one");
    unclear(&env, "landed").answer().exits(0).prints("receipt of landed\n").is_a_replay();
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_claim_that_has_not_landed_is_released_and_its_command_is_not_run() {
    let env = TestEnv::new();
    held(&env, &["not-landed"]);
    sums_up(reconcile(&env, &["1"]).exits(0), 1, "0 landed, 1 not landed, 0 still unknown");
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["released|probe|not-landed"]);
    assert_eq!(env.runs(), 1);
    unclear(&env, "not-landed").answer().exits(7).prints("sent\n").is_a_first_run();
    assert_eq!(env.runs(), 2);
}

#[test]
fn all_asks_about_each_held_claim_and_counts_the_answers() {
    let env = TestEnv::new();
    env.run("done").script("true").answer().exits(0);
    held(&env, &["landed", "not-landed", "unclear", "landed-too"]);
    let answer = reconcile(&env, &["--all"]);
    sums_up(answer.exits(1), 4, "2 landed, 1 not landed, 1 still unknown");
    for id in ["2", "3", "4", "5"] {
        assert!(answer.text().contains(id), "claim {id} has its line\n{answer}");
    }
    assert_eq!(env.states(), ["completed", "completed", "released", "held", "completed"]);
    assert_eq!((env.runs(), env.lines_in("probes")), (4, 4));
    sums_up(reconcile(&env, &["--all"]).exits(1), 1, "0 landed, 0 not landed, 1 still unknown");
}

#[test]
fn several_claims_can_be_named_one_by_its_key() {
    let env = TestEnv::new();
    held(&env, &["landed", "unclear", "not-landed"]);
    let key = env.rows("SELECT key FROM claim WHERE id = 3").remove(0);
    let answer = reconcile(&env, &["1", &format!("key:{}", &key[..12])]);
    sums_up(answer.exits(0), 2, "1 landed, 1 not landed, 0 still unknown");
    assert_eq!(env.states(), ["completed", "held", "released"]);
}

#[test]
fn filters_choose_by_who_conv_and_tool() {
    let env = TestEnv::new();
    let call = |who: &str, conv: &str, tool: &str| {
        let identity = ["run", "--who", who, "--conv", conv, "--tool", tool, "--external", "--probe", BY_TOOL];
        env.idem(identity).script("exit 7").answer().exits(7);
    };
    call("ada", "c1", "landed");
    call("ada", "c2", "landed");
    call("bob", "c2", "landed");
    call("bob", "c3", "landed-too");
    env.write("calm", "");
    sums_up(reconcile(&env, &["--tool", "landed-too"]).exits(0), 1, "1 landed, 0 not landed, 0 still unknown");
    assert_eq!(env.states(), ["held", "held", "held", "completed"]);
    sums_up(reconcile(&env, &["--who", "ada", "--conv", "c2"]).exits(0), 1, "1 landed, 0 not landed, 0 still unknown");
    assert_eq!(env.states(), ["held", "completed", "held", "completed"]);
    sums_up(reconcile(&env, &["--who", "ada"]).exits(0), 1, "1 landed, 0 not landed, 0 still unknown");
    sums_up(reconcile(&env, &["--conv", "c2"]).exits(0), 1, "1 landed, 0 not landed, 0 still unknown");
    assert_eq!(env.states(), ["completed"; 4]);
}

#[test]
fn a_probe_that_is_given_wins_over_the_stored_one() {
    let env = TestEnv::new();
    held(&env, &["not-landed"]);
    sums_up(reconcile(&env, &["1", "--probe", "echo mine"]).exits(0), 1, "1 landed, 0 not landed, 0 still unknown");
    assert_eq!(env.text_of("probes"), "");
    unclear(&env, "not-landed").answer().exits(0).prints("mine\n").is_a_replay();
}

#[test]
fn a_claim_without_a_probe_is_named_and_stays_unknown() {
    let env = TestEnv::new();
    env.run("pay").external().script("exit 7").answer().exits(7);
    let answer = reconcile(&env, &["--all"]);
    sums_up(answer.exits(1), 1, "0 landed, 0 not landed, 1 still unknown");
    assert!(answer.text().contains("probe"), "it says that there is no probe\n{answer}");
    assert_eq!(env.states(), ["held"]);
    assert!(env.event_details("1", "probe").is_empty());
}

#[test]
fn a_probe_that_hangs_is_ended_and_the_rest_is_asked_all_the_same() {
    let env = TestEnv::new();
    let _shut = Gate::new(&env, "shut");
    held(&env, &["landed", "unclear"]);
    let probe = "[ $IDEM_TOOL = landed ] && read _ < shut; exit 1";
    let answer = reconcile(&env, &["--all", "--probe", probe, "--probe-timeout", "300ms"]);
    sums_up(answer.exits(1), 2, "0 landed, 1 not landed, 1 still unknown");
    assert_eq!(env.states(), ["held", "released"]);
    assert_eq!(env.event_details("1", "probe").last().map(|detail| detail["timed_out"].clone()), Some(true.into()));
}

#[test]
fn json_is_one_envelope_a_line_and_no_summary() {
    let env = TestEnv::new();
    held(&env, &["landed", "not-landed", "unclear"]);
    let answer = reconcile(&env, &["--all", "--json"]);
    let mut envelopes = answer.exits(1).envelopes();
    envelopes.sort_by_key(|envelope| envelope["id"].as_i64());
    let states: Vec<&str> = envelopes.iter().filter_map(|envelope| envelope["state"].as_str()).collect();
    assert_eq!(states, ["completed", "released", "held"], "{answer}");
    let outcomes: Vec<&str> = envelopes.iter().filter_map(|envelope| envelope["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["landed", "not-landed", "unknown"], "{answer}");
}

#[test]
fn nothing_but_the_answer_is_said_where_nobody_watches() {
    let env = TestEnv::new();
    held(&env, &["landed", "not-landed"]);
    reconcile(&env, &["--all"]).exits(0).says_exactly("");
}

#[test]
fn each_answer_is_an_event_with_who_asked() {
    let env = TestEnv::new();
    held(&env, &["landed"]);
    reconcile(&env, &["1"]).exits(0);
    let shown = env.shown("1");
    let probes = env.event_details("1", "probe");
    assert_eq!(probes.last().map(|probe| probe["outcome"].clone()), Some("landed".into()), "{shown}");
    assert_eq!(env.event_details("1", "became-completed").len(), 1, "{shown}");
    assert_eq!(shown["stdout"], "receipt of landed\n");
}

#[test]
fn a_running_claim_whose_owner_is_dead_is_concluded_and_asked_about() {
    for (answer, row, code) in
        [(0, "completed|probe|landed", 0), (1, "released|probe|not-landed", 0), (2, "held|interrupted|unknown", 1)]
    {
        let env = TestEnv::new();
        let _gate = Gate::new(&env, "gate");
        env.run("t").counting("echo $$ > pid; read _ < gate").start().kill_9_with_command();
        assert_eq!(env.states(), ["running"], "nobody has noticed yet");
        reconcile(&env, &["--all", "--probe", &format!("exit {answer}")]).exits(code);
        assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), [row]);
        assert_eq!(env.runs(), 1);
    }
}

#[test]
fn a_dead_owners_marks_say_enough_without_a_probe() {
    for (mark, row, code) in [
        ("landed", "completed|marks|landed", 0),
        ("not-landed", "released|marks|not-landed", 0),
        ("sending", "held|interrupted|unknown", 1),
    ] {
        let env = TestEnv::new();
        let _gate = Gate::new(&env, "gate");
        let script = format!("{IDEM} mark {mark}; echo $$ > pid; read _ < gate");
        env.run("t").counting(&script).start().kill_9_with_command();
        reconcile(&env, &["1"]).exits(code);
        assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), [row]);
        assert_eq!(env.runs(), 1);
    }
}

#[test]
fn a_dead_owner_that_never_sent_is_released_without_a_probe() {
    let env = TestEnv::new();
    let _gate = Gate::new(&env, "gate");
    let call = env.run("t").external().args(["--marks"]).counting("echo $$ > pid; read _ < gate");
    call.start().kill_9_with_command();
    sums_up(reconcile(&env, &["--all"]).exits(0), 1, "0 landed, 1 not landed, 0 still unknown");
    assert_eq!(env.rows("SELECT state, reason FROM claim"), ["released|marks"]);
}

#[test]
fn a_living_owner_is_left_alone() {
    let env = TestEnv::new();
    let gate = Gate::new(&env, "gate");
    let owner = env.run("t").external().script("echo $$ > pid; read _ < gate; echo done").start();
    owner.command();
    let probe = ["--probe", "touch probed; exit 1"];
    for which in ["1", "--all"] {
        reconcile(&env, &[which]).exits(1);
        env.idem(["reconcile", which]).args(probe).answer().exits(1);
        assert_eq!(env.states(), ["running"]);
    }
    assert!(!env.has("probed"));
    gate.open();
    owner.answer().exits(0).prints("done\n");
}

#[test]
fn what_is_known_already_is_not_asked_about() {
    let env = TestEnv::new();
    env.run("done").script("echo done").answer().exits(0);
    env.run("failed").script("exit 3").answer().exits(3);
    for id in ["1", "2"] {
        env.idem(["reconcile", id, "--probe", "touch probed; exit 1"]).answer().exits(0);
    }
    assert!(!env.has("probed"));
    assert_eq!(env.states(), ["completed", "released"]);
}

#[test]
fn nothing_that_matches_is_1() {
    let env = TestEnv::new();
    reconcile(&env, &["--all"]).exits(1);
    reconcile(&env, &["1"]).exits(1);
    assert!(!env.store().exists(), "to look is not to make");
    env.run("done").script("true").answer().exits(0);
    reconcile(&env, &["--all"]).exits(1);
    held(&env, &["landed"]);
    for args in [&["--tool", "nobody's"][..], &["--who", "nobody"], &["99"], &["key:0000000000"]] {
        reconcile(&env, args).exits(1);
    }
    assert_eq!(env.states(), ["completed", "held"]);
    assert_eq!(env.text_of("probes"), "");
}

#[test]
fn wrong_usage_is_2_and_asks_nobody() {
    let env = TestEnv::new();
    held(&env, &["landed"]);
    let lines: [&[&str]; 8] = [
        &[],
        &["--json"],
        &["--probe", "true"],
        &["not-an-id"],
        &["1", "--all"],
        &["1", "--probe", ""],
        &["1", "--probe-timeout", "0s"],
        &["1", "--probe-timeout", "soon"],
    ];
    for line in lines {
        reconcile(&env, line).exits(2).prints("").says("idem: ");
    }
    assert_eq!(env.states(), ["held"]);
    assert_eq!(env.text_of("probes"), "");
}

#[test]
fn who_arrives_while_a_person_asks_waits_for_the_answer() {
    let env = TestEnv::new();
    let asked = Gate::new(&env, "asked");
    held(&env, &["landed"]);
    let probe = "echo $$ > pid; read _ < asked; echo mine";
    let person = env.idem(["reconcile", "1", "--probe", probe]).start();
    person.command();
    unclear(&env, "landed").args(["--no-wait"]).answer().exits(121).prints("");
    let arrival = unclear(&env, "landed").start();
    env.wait_for_waiters(1);
    asked.open();
    person.answer().exits(0);
    arrival.answer().exits(0).prints("mine\n").is_a_replay();
    assert_eq!(env.text_of("probes"), "");
}

#[test]
fn control_characters_of_a_call_and_of_its_probe_are_shown_and_not_sent() {
    let env = TestEnv::new();
    let probe = "printf '\\033]0;owned\\007'; printf '\\033[2J' >&2; exit 2";
    env.run("t\u{1b}]0;owned\u{7}").external().args(["--probe", probe]).script("exit 7").answer().exits(7);
    for line in [&["reconcile", "--all"][..], &["show", "1"]] {
        let answer = env.idem(line.iter().copied()).answer();
        assert!(!answer.stdout().contains(&0x1b) && !answer.stderr().contains(&0x1b), "{answer}");
    }
}
