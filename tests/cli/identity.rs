//! What makes two calls the same write: who, conversation, tool and params, and nothing else.

use crate::env::TestEnv;

#[test]
fn each_part_of_the_identity_makes_another_call() {
    let env = TestEnv::new();
    let calls = [
        ["agent", "c1", "t", "{}"],
        ["agent2", "c1", "t", "{}"],
        ["agent", "c2", "t", "{}"],
        ["agent", "c1", "t2", "{}"],
        ["agent", "c1", "t", r#"{"a":null}"#],
        ["agent", "c1", "t", "[]"],
        ["agentc", "1", "t", "{}"],
    ];
    let run = |[who, conv, tool, params]: [&str; 4]| {
        let identity = ["run", "--who", who, "--conv", conv, "--tool", tool, "--params", params];
        env.idem(identity).counting("echo done").answer()
    };
    for call in calls {
        run(call).exits(0).is_a_first_run();
    }
    for call in calls {
        run(call).exits(0).is_a_replay();
    }
    assert_eq!(env.runs(), calls.len());
}

#[test]
fn the_spelling_of_the_params_makes_no_difference() {
    let env = TestEnv::new();
    let call = |params: &str| env.run("t").params(params).counting("echo done").answer();
    call(r#"{"amount":1,"to":"x"}"#).exits(0).is_a_first_run();
    for spelling in [r#" { "to" : "x", "amount" : 1.0 } "#, r#"{"\u0061mount":1e0,"to":"\u0078"}"#] {
        call(spelling).exits(0).is_a_replay();
    }
    call(r#"{"amount":1,"to":"X"}"#).exits(0).is_a_first_run();
}

#[test]
fn ids_of_64_bits_are_not_merged() {
    let env = TestEnv::new();
    for id in ["9007199254740993", "9007199254740992"] {
        let call = || env.run("t").params(id).counting("true");
        call().answer().exits(0).is_a_first_run();
        call().answer().exits(0).is_a_replay();
    }
    assert_eq!(env.runs(), 2);
}

#[test]
fn params_that_are_not_given_are_an_empty_object() {
    let env = TestEnv::new();
    env.run("t").counting("true").answer().exits(0);
    env.run("t").params("{}").counting("true").answer().exits(0).is_a_replay();
    env.run("t").params(" { } ").counting("true").answer().exits(0).is_a_replay();
}

#[test]
fn params_can_come_from_a_file() {
    let env = TestEnv::new();
    env.write("params.json", "{\n  \"a\": 1\n}\n");
    env.run("t").params("@params.json").counting("true").answer().exits(0);
    env.run("t").params(r#"{"a":1}"#).counting("true").answer().exits(0).is_a_replay();
}

#[test]
fn somebody_who_wants_it_again_says_which_occurrence() {
    let env = TestEnv::new();
    let call = |options: &[&str]| env.run("release").args(options).counting("echo done").answer();
    call(&[]).exits(0).is_a_first_run();
    call(&["--occurrence", "1"]).exits(0).is_a_replay();
    call(&["--occurrence", "2"]).exits(0).is_a_first_run();
    call(&["--occurrence", "2"]).exits(0).is_a_replay();
    assert_eq!(env.runs(), 2);
}

#[test]
fn who_and_conv_can_come_from_the_environment_and_the_tool_never_does() {
    let env = TestEnv::new();
    let call = |args: &[&str]| {
        let call = env.idem(["run"]).args(args).var("IDEM_WHO", "agent").var("IDEM_CONV", "c1").var("IDEM_TOOL", "t");
        call.counting("true")
    };
    call(&["--tool", "t"]).answer().exits(0).is_a_first_run();
    env.run("t").counting("true").answer().exits(0).is_a_replay();
    call(&["--tool", "t", "--who", "other"]).answer().exits(0).is_a_first_run();
    call(&[]).answer().refuses().says("--tool");
    assert_eq!(env.runs(), 2);
}

#[test]
fn the_environment_the_folder_and_the_effect_are_no_part_of_the_call() {
    let env = TestEnv::new();
    env.run("t").counting("true").answer().exits(0);
    env.run("t").var("SOMETHING", "else").counting("true").answer().exits(0).is_a_replay();
    env.run("t").external().counting("true").answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
}
