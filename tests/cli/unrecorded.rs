//! A full disk: before the claim nothing is run; after the run, the end that can be recorded nowhere is unknown.
//!
//! The disk is a small tmpfs in a mount namespace of the test's own, and the command itself fills it. The state folder is on
//! it too, so that the end can't be kept there either, and nobody waits for room (what is kept has its tests in `pending`).

use std::fs;

use nix::unistd::Uid;

use crate::env::{Answer, TestEnv, seq};

/// Runs a shell script in a mount namespace where `disk` in the work folder is a file system of two megabytes.
///
/// In the script `"$0"` is idem. Gives nothing when `IDEM_TEST_NO_NAMESPACES` says that there are no namespaces here.
#[expect(clippy::print_stderr, reason = "who runs the tests has to know what was left out")]
pub(crate) fn on_a_small_disk(env: &TestEnv, script: &str) -> Option<Answer> {
    if std::env::var_os("IDEM_TEST_NO_NAMESPACES").is_some() {
        eprintln!("not tested: IDEM_TEST_NO_NAMESPACES is set");
        return None;
    }
    fs::create_dir(env.file("disk")).expect("a folder to mount on");
    let script = format!(
        "mount -t tmpfs -o size=2m,mode=700 none disk || exit 99\n\
         idem() {{ \"$IDEM_UNDER_TEST\" \"$@\"; }}\n\
         fill() {{ cat /dev/zero > disk/fill 2> /dev/null; }}\n{script}"
    );
    let unshare: &[&str] = if Uid::effective().is_root() { &["unshare", "-m"] } else { &["unshare", "-rm"] };
    let shell = unshare.iter().copied().chain(["sh", "-c", &script]);
    let call = env.idem([] as [&str; 0]).under(shell).var("IDEM_STORE", env.file("disk/idem.db"));
    let call = call.var("XDG_STATE_HOME", env.file("disk/state")).var("IDEM_RECORD_WAIT", "0s");
    let answer = call.var("IDEM_UNDER_TEST", env!("CARGO_BIN_EXE_idem")).answer();
    assert_ne!(answer.code(), Some(99), "namespaces are needed, or IDEM_TEST_NO_NAMESPACES=1\n{answer}");
    Some(answer)
}

/// What a step of a script left in `NAME.out`, `NAME.err` and `NAME.code`.
pub(crate) struct Step {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: String,
}

pub(crate) fn step(env: &TestEnv, name: &str) -> Step {
    let text = |suffix: &str| env.text_of(&format!("{name}.{suffix}"));
    Step { out: text("out"), err: text("err"), code: text("code").trim().to_owned() }
}

/// The command prints, fills the disk and ends with this code.
fn filling(options: &str, code: i32) -> String {
    format!(
        "arrive() {{ idem run --who agent --conv c1 --tool t {options} -- \
           sh -c 'echo run >> runs; echo out; echo err >&2; [ -e calm ] || cat /dev/zero > disk/fill 2> full; exit {code}' \
           > $1.out 2> $1.err; echo $? > $1.code; }}\n\
         idem run --who agent --conv c1 --tool before -- true\n\
         arrive first; arrive second\n\
         rm disk/fill\n\
         arrive third\n\
         idem list --json --tool t > list.out\n\
         touch calm; idem resolve 2 not-landed; arrive fourth\n"
    )
}

fn an_end_that_can_not_be_recorded_is_unknown(options: &str, code: i32) {
    let env = TestEnv::new();
    let Some(answer) = on_a_small_disk(&env, &filling(options, code)) else {
        return;
    };
    let first = step(&env, "first");
    assert!(env.text_of("full").contains("space"), "the disk was full\n{answer}");
    assert_eq!(first.code, code.to_string(), "the command's exit code passes through: {}", first.err);
    assert_eq!(first.out, "out\n", "its output passes through");
    assert!(first.err.starts_with("err\n"), "its messages too: {}", first.err);
    assert!(first.err.contains("idem: ") && first.err.contains("ran"), "it ran: {}", first.err);
    assert!(first.err.contains("could not be recorded"), "and was not recorded: {}", first.err);
    assert!(!first.err.contains("nothing was run"), "{}", first.err);
    for name in ["second", "third"] {
        let next = step(&env, name);
        assert_eq!(next.code, "121", "the {name} arrival is held: {}", next.err);
        assert_eq!(next.out, "", "the {name} arrival");
    }
    let list = env.text_of("list.out");
    assert!(list.contains(r#""state":"held""#) && list.contains(r#""reason":"interrupted""#), "{list}");
    let fourth = step(&env, "fourth");
    assert_eq!(fourth.code, code.to_string(), "resolved, it may run again: {}", fourth.err);
    assert_eq!(env.runs(), 2);
}

#[test]
fn a_local_success_that_can_not_be_recorded_is_held() {
    an_end_that_can_not_be_recorded_is_unknown("", 0);
}

#[test]
fn a_local_failure_that_can_not_be_recorded_is_held() {
    an_end_that_can_not_be_recorded_is_unknown("", 3);
}

#[test]
fn an_external_success_that_can_not_be_recorded_is_held() {
    an_end_that_can_not_be_recorded_is_unknown("--external", 0);
}

#[test]
fn quiet_does_not_silence_that_an_end_was_not_recorded() {
    let env = TestEnv::new();
    if on_a_small_disk(&env, &filling("--quiet", 0)).is_some() {
        let first = step(&env, "first");
        assert!(first.err.contains("could not be recorded"), "{}", first.err);
    }
}

#[test]
fn much_output_on_a_disk_that_fills_up_meanwhile_passes_through_whole() {
    let env = TestEnv::new();
    let script = "idem run --who agent --conv c1 --tool t -- sh -c 'seq 500000; echo end > end' \
                  > first.out 2> first.err; echo $? > first.code; \
                  idem run --who agent --conv c1 --tool t -- sh -c 'seq 500000; echo end > end' \
                  > second.out 2> second.err; echo $? > second.code";
    if let Some(answer) = on_a_small_disk(&env, script) {
        let first = step(&env, "first");
        assert!(first.out == seq(500_000), "all of it passes through\n{answer}{}", first.err);
        assert_eq!(first.code, "0", "{}", first.err);
        assert!(env.has("end"), "the command went on to its end");
        assert!(first.err.contains("could not be recorded"), "{}", first.err);
        // Nothing that is less than the whole is ever replayed as if it were the whole.
        let second = step(&env, "second");
        let honest = second.code != "0" || second.err.contains("not recorded");
        assert!(honest, "exit {} and {} bytes: {}", second.code, second.out.len(), second.err);
    }
}

#[test]
fn a_full_disk_before_the_claim_runs_nothing() {
    let env = TestEnv::new();
    let script = "arrive() { idem run --who agent --conv c1 --tool $1 -- sh -c 'echo run >> runs' \
                  > $2.out 2> $2.err; echo $? > $2.code; }\n\
                  fill; arrive t no-store; rm disk/fill; arrive before before\n\
                  fill; arrive t full; arrive before replayed; rm disk/fill; arrive t room";
    if let Some(answer) = on_a_small_disk(&env, script) {
        for name in ["no-store", "full"] {
            let refused = step(&env, name);
            assert_eq!(refused.code, "125", "{name}: {}\n{answer}", refused.err);
            assert!(refused.err.starts_with("idem: ") && refused.err.contains("nothing was run"), "{}", refused.err);
        }
        for name in ["before", "room"] {
            let ran = step(&env, name);
            let said = if name == "before" { "a new one was made" } else { "" };
            assert!(ran.code == "0" && ran.err.contains(said), "{name}, with room for it: {}", ran.err);
            assert_eq!(ran.err.lines().count(), usize::from(name == "before"), "{name}: {}", ran.err);
        }
        let replayed = step(&env, "replayed");
        assert_eq!(replayed.code, "0", "a replay needs no room: {}", replayed.err);
        assert!(replayed.err.contains("replay"), "{}", replayed.err);
        assert_eq!(env.runs(), 2);
    }
}

#[test]
fn an_answer_that_has_no_room_in_the_store_is_told_and_nothing_follows_from_it() {
    let env = TestEnv::new();
    let script = "arrive() { name=$1; shift; idem run --who agent --conv c1 --tool t --external \"$@\" -- \
                    sh -c 'echo run >> runs; exit 7' > $name.out 2> $name.err; echo $? > $name.code; }
                  idem run --who agent --conv c1 --tool before -- true
                  arrive first
                  arrive no --resend-within 1h --probe 'cat /dev/zero > disk/fill 2> /dev/null; exit 1'
                  rm disk/fill
                  arrive yes --resend-within 1h --probe 'cat /dev/zero > disk/fill 2> /dev/null; echo there'
                  rm disk/fill
                  arrive room --probe 'echo there'";
    if on_a_small_disk(&env, script).is_none() {
        return;
    }
    for (name, said) in [("no", "says that it did not land"), ("yes", "says that it landed")] {
        let told = step(&env, name);
        assert_eq!((told.code.as_str(), told.out.as_str()), ("121", ""), "{name}: {}", told.err);
        assert!(told.err.contains(said) && told.err.contains("could not be recorded: no space"), "{}", told.err);
        assert!(told.err.contains("nothing was run now"), "{}", told.err);
    }
    let room = step(&env, "room");
    assert_eq!((room.code.as_str(), room.out.as_str()), ("0", "there\n"), "{}", room.err);
    assert_eq!(env.runs(), 1);
}
