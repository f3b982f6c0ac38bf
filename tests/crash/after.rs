//! What has to hold after a crash, whatever it was.

use crate::env::{Answer, Call, TestEnv};
use crate::points::{DAMAGED, DOUBLE_RUN, LOST_RESULT};

/// What the command of most tests prints.
pub(crate) const OUT: &str = "out\n";

/// The call that most tests are about: counted, and printing to both streams.
pub(crate) fn call(env: &TestEnv) -> Call<'_> {
    env.run("t").counting("echo out; echo err >&2")
}

/// Fails when the command was run more often than this.
#[track_caller]
pub(crate) fn at_most(env: &TestEnv, runs: usize, answer: &Answer) {
    assert!(env.runs() <= runs, "{DOUBLE_RUN}: {} runs\n{answer}", env.runs());
}

/// Fails unless an answer is a replay with this on stdout.
#[track_caller]
pub(crate) fn replays(answer: &Answer, code: i32, stdout: &str) {
    let whole = answer.code() == Some(code) && answer.is_marked_as_replay() && answer.text() == stdout;
    assert!(whole, "{LOST_RESULT}: this should be a replay of {code} with {stdout:?}\n{answer}");
}

/// The arrivals that come after a success that may have been cut short: a replay, the first run, or held; never a second run.
///
/// `known`: the caller of the first one was told of the success. Calls are made by `arrive`.
#[track_caller]
pub(crate) fn follow_success<'a>(env: &'a TestEnv, known: bool, arrive: impl Fn(&'a TestEnv) -> Call<'a>) {
    let next = arrive(env).answer();
    // Only now: it has waited for the end of whatever idem left behind.
    at_most(env, 1, &next);
    if known {
        replays(&next, 0, OUT);
    }
    match next.code() {
        Some(0) => {
            assert_eq!((env.runs(), next.text().as_str()), (1, OUT), "{LOST_RESULT}: exit 0 without a run\n{next}");
            next.says("err\n");
        }
        Some(121) => assert_eq!(next.text(), "", "nothing is replayed of an unknown outcome\n{next}"),
        _ => panic!("neither run, replayed nor held\n{next}"),
    }
    let (before, again) = (env.runs(), arrive(env).answer());
    at_most(env, before, &again);
    match next.code() {
        Some(0) => replays(&again, 0, OUT),
        _ => assert_eq!(again.code(), Some(121), "held stays held\n{again}"),
    }
}

/// The store is whole, and another call is claimed under the next number.
#[track_caller]
pub(crate) fn goes_on(env: &TestEnv) {
    let other = env.run("other").script("echo more").answer();
    other.exits(0).prints("more\n").is_a_first_run();
    let newest = env.rows("SELECT tool FROM claim ORDER BY id DESC LIMIT 1");
    assert_eq!(newest, ["other"], "the numbers go on\n{other}");
    is_whole(env);
}

/// The store is whole.
#[track_caller]
pub(crate) fn is_whole(env: &TestEnv) {
    let integrity = env.rows("PRAGMA integrity_check");
    assert_eq!(integrity, ["ok"], "{DAMAGED}: {integrity:?}");
    let doctor = env.idem(["doctor"]).answer();
    let said = doctor.text() + &doctor.messages();
    assert!(said.contains("whole") && !said.contains("damaged"), "{DAMAGED}: says idem doctor\n{doctor}");
}
