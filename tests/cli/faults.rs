//! A target that fails in every way a network has: what nobody knows is held, what is known is replayed, and no call
//! has two effects.
//!
//! The faults are drawn by a seed, which a failing test prints. They follow from the seed, the key and the number of
//! the request, so that `FAULT_SEED=… cargo test --test cli faults` meets the same ones whatever the machine does.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::env::{Answer, Call, Fault, Random, Running, Target, TestEnv, wait_for};

/// How many faults a test goes through.
const FAULTS: usize = 500;

/// How many calls a test kills in the middle.
const KILLED: usize = 60;

/// How many calls a test makes that needs no more of them.
const SOME: usize = 30;

/// After this many arrivals everything is known: the target has let everybody through by then.
const ARRIVALS: usize = 30;

/// `idem run` for the payment of an order. Where the machine is slow, patience may end before anything was sent.
fn pay<'a>(env: &'a TestEnv, target: &Target, order: &str) -> Call<'a> {
    // The caller's patience ends in curl for half of the orders and in idem for the others.
    let idem_has_the_clock = order.ends_with(['1', '3', '5', '7', '9']);
    let (options, patience) = if idem_has_the_clock { (&["--timeout", "200ms"][..], "30") } else { (&[][..], "0.2") };
    pay_with_patience(env, target, order, patience).args(options.iter().copied())
}

fn pay_with_patience<'a>(env: &'a TestEnv, target: &Target, order: &str, patience: &str) -> Call<'a> {
    let url = target.pay();
    let header = "Idempotency-Key: {idem.key}";
    let curl = ["curl", "-sS", "--fail", "--max-time", patience, "-H", header, "-d", order, &url];
    env.run("pay").params(&format!("{{\"order\":\"{order}\"}}")).external().args(["--subst"]).command(curl)
}

/// The payment of order 1 by a caller whose patience doesn't end.
fn patient<'a>(env: &'a TestEnv, target: &Target) -> Call<'a> {
    pay_with_patience(env, target, "1", "50")
}

/// Asks the target for the effect, and answers in its own words: its receipt, or that there is none, or that it can't say.
fn probe(target: &Target) -> String {
    let url = target.effects();
    format!(
        "out=$(curl -sS --max-time 2 -w '%{{http_code}}' {url}$IDEM_KEY) || exit 2
         case $out in
           *200) printf %s \"${{out%200}}\"; exit 0;;
           *404) exit 1;;
           *) exit 2;;
         esac"
    )
}

/// Lets four threads work at orders with new numbers while there is more to do.
fn in_four_threads(more: impl Fn(usize) -> bool + Sync, work: impl Fn(&str) + Sync) {
    struct Failed<'a>(&'a AtomicBool);
    impl Drop for Failed<'_> {
        fn drop(&mut self) {
            self.0.fetch_or(thread::panicking(), Ordering::SeqCst);
        }
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _failed = Failed(&failed);
                loop {
                    let order = next.fetch_add(1, Ordering::SeqCst);
                    if failed.load(Ordering::SeqCst) || !more(order) {
                        return;
                    }
                    work(&order.to_string());
                }
            });
        }
    });
}

/// What the target knows of an order, for the words of a failure.
fn seen(target: &Target, order: &str) -> String {
    let payments: Vec<String> = target.payments(order).iter().map(ToString::to_string).collect();
    format!(
        "order {order}: {} requests, {} effects\n{}",
        payments.len(),
        target.receipts(order).len(),
        payments.join("\n")
    )
}

/// Fails when an order had more than one effect.
#[track_caller]
fn had_at_most_one_effect(target: &Target, order: &str) {
    assert!(target.receipts(order).len() <= 1, "two effects\n{}", seen(target, order));
}

/// Fails unless an order had exactly one effect, and returns its receipt.
#[track_caller]
fn one_receipt(target: &Target, order: &str) -> String {
    let receipts = target.receipts(order);
    assert_eq!(receipts.len(), 1, "exactly one effect\n{}", seen(target, order));
    receipts.concat()
}

/// Fails unless an answer agrees with the ones before it where the first of them ran the command and nothing else can be
/// known: a success is replayed, and anything else is held.
#[track_caller]
fn follows(first: &Answer, answer: &Answer, target: &Target, order: &str) {
    match first.code() {
        Some(0) => answer.exits(0).is_a_replay().prints(one_receipt(target, order)),
        _ => answer.exits(121).prints("").is_a_first_run().says("may have reached the target"),
    };
}

/// Fails unless an answer has the receipt. Where the connection broke in the middle of it, what had come stands before the
/// whole receipt that the probe gave.
#[track_caller]
fn has_receipt(answer: &Answer, receipt: &str) {
    let text = answer.text();
    let before = text.strip_suffix(receipt).unwrap_or_else(|| panic!("the receipt should be there\n{answer}"));
    assert!(receipt.starts_with(before), "nothing but the receipt should be there\n{answer}");
}

/// Lets an order arrive until idem says that it is paid, and once more; `arrive` is told which arrival it is.
#[track_caller]
fn until_paid(target: &Target, order: &str, mut arrive: impl FnMut(usize) -> Option<Answer>) {
    for arrival in 0..ARRIVALS {
        let Some(answer) = arrive(arrival) else { continue };
        had_at_most_one_effect(target, order);
        if answer.code() == Some(0) {
            let receipt = one_receipt(target, order);
            has_receipt(&answer, &receipt);
            let again = arrive(ARRIVALS).expect("the last arrival isn't killed");
            again.exits(0).is_a_replay().prints(&receipt);
            one_receipt(target, order);
            return;
        }
    }
    panic!("not paid after {ARRIVALS} arrivals\n{}", seen(target, order));
}

/// Fails unless nothing in the store waits for somebody who knows.
#[track_caller]
fn nothing_is_left_unknown(env: &TestEnv) {
    let left = env.rows("SELECT id, state, reason FROM claim WHERE state IN ('held', 'running')");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn through_500_faults_no_external_call_has_two_effects_and_the_unknown_ones_are_held() {
    let (env, target) = (TestEnv::new(), Target::faulty());
    let more = |_| target.faults() < FAULTS;
    in_four_threads(more, |order| {
        let call = || pay(&env, &target, order);
        let first = call().answer();
        first.is_a_first_run();
        had_at_most_one_effect(&target, order);
        if first.code() == Some(0) {
            first.prints(one_receipt(&target, order));
        }
        let others = [call().answer(), call().answer()];
        had_at_most_one_effect(&target, order);
        assert!(target.payments(order).len() <= 1, "one request\n{}", seen(&target, order));
        others.iter().for_each(|answer| follows(&first, answer, &target, order));
    });
    assert_eq!(target.faults_not_met(), []);
    let states = env.rows("SELECT DISTINCT state FROM claim ORDER BY state");
    assert_eq!(states, ["completed", "held"]);
}

#[test]
fn through_500_faults_a_probe_settles_every_call_with_exactly_one_effect() {
    let (env, target) = (TestEnv::new(), Target::faulty());
    let probe = probe(&target);
    let more = |_| target.faults() < FAULTS;
    in_four_threads(more, |order| {
        let call = || pay(&env, &target, order).args(["--probe", &probe, "--probe-timeout", "400ms"]);
        until_paid(&target, order, |_| Some(call().answer()));
    });
    assert_eq!(target.faults_not_met(), []);
    nothing_is_left_unknown(&env);
}

#[test]
fn through_500_faults_resending_to_a_target_that_dedupes_completes_every_call_with_one_effect() {
    let (env, target) = (TestEnv::new(), Target::faulty_and_deduping());
    let resent = AtomicUsize::new(0);
    let more = |_| target.faults() < FAULTS;
    in_four_threads(more, |order| {
        let call = || pay(&env, &target, order).args(["--resend-within", "1h"]);
        until_paid(&target, order, |_| Some(call().answer()));
        let payments = target.payments(order);
        let key = env.idem(["key", "--who", "agent", "--conv", "c1", "--tool", "pay", "--params"]);
        let key = key.args([format!("{{\"order\":\"{order}\"}}")]).answer().exits(0).text();
        assert!(payments.iter().all(|payment| payment.key == key.trim()), "one key\n{}", seen(&target, order));
        resent.fetch_add(payments.len() - 1, Ordering::SeqCst);
    });
    assert_eq!(target.faults_not_met(), []);
    assert!(resent.into_inner() > 0, "some were sent again");
    nothing_is_left_unknown(&env);
}

#[test]
fn arrivals_that_come_together_at_calls_that_fail_and_are_probed_have_one_effect() {
    let (env, target) = (TestEnv::new(), Target::faulty());
    let probe = probe(&target);
    let more = |order| order < SOME;
    in_four_threads(more, |order| {
        let call = || pay(&env, &target, order).args(["--probe", &probe, "--probe-timeout", "400ms"]);
        until_paid(&target, order, |_| {
            let running: Vec<Running> = (0..4).map(|_| call().start()).collect();
            let answers: Vec<Answer> = running.into_iter().map(Running::answer).collect();
            for answer in answers.iter().filter(|answer| answer.code() == Some(0)) {
                let receipt = one_receipt(&target, order);
                has_receipt(answer, &receipt);
            }
            answers.into_iter().next()
        });
    });
    nothing_is_left_unknown(&env);
}

#[test]
fn what_the_faults_left_unknown_is_settled_by_reconcile() {
    let (env, target) = (TestEnv::new(), Target::faulty());
    let probe = probe(&target);
    let more = |order| order < SOME;
    in_four_threads(more, |order| {
        pay(&env, &target, order).answer();
    });
    let left =
        || env.rows("SELECT count(*) FROM claim WHERE state = 'held'").concat().parse::<usize>().expect("a count");
    let mut before = left();
    assert!(before > 0, "something was left unknown");
    for _ in 0..ARRIVALS {
        let answer = env.idem(["reconcile", "--all", "--probe", &probe, "--probe-timeout", "400ms"]).answer();
        let after = left();
        answer.exits(i32::from(after > 0));
        assert!(answer.text().ends_with(&format!(", {after} still unknown\n")), "{answer}");
        assert!(after <= before, "{answer}");
        before = after;
        if after == 0 {
            break;
        }
    }
    nothing_is_left_unknown(&env);
    for order in 0..SOME {
        let order = order.to_string();
        let (sent, receipts) = (target.payments(&order).len(), target.receipts(&order).concat());
        let states = env.rows(&format!("SELECT state FROM claim WHERE params = '{{\"order\":\"{order}\"}}'"));
        assert!(sent <= 1, "asking sends nothing\n{}", seen(&target, &order));
        if receipts.is_empty() {
            assert_eq!(states, ["released"], "{}", seen(&target, &order));
        } else {
            assert_eq!(states, ["completed"], "{}", seen(&target, &order));
            pay(&env, &target, &order).answer().exits(0).is_a_replay().prints(&receipts);
        }
    }
}

/// How long the run of a payment takes that nothing disturbs: kills are spread over a little more than that.
fn reach(latency: Duration) -> Duration {
    let (env, target) = (TestEnv::new(), Target::with(Fault::None));
    let start = Instant::now();
    pay_with_patience(&env, &target, "0", "10").answer().exits(0);
    start.elapsed() * 3 / 2 + latency
}

/// Lets an order arrive until idem says that it is paid; its first four arrivals are killed in the middle.
#[track_caller]
fn until_paid_though_killed<'a>(target: &Target, order: &str, reach: Duration, call: impl Fn() -> Call<'a>) {
    until_paid(target, order, |arrival| {
        let mut random = Random::new(target.seed(), &format!("kill {order}"), arrival);
        match arrival {
            0..4 => kill_in_the_middle(call().start(), &mut random, reach),
            _ => Some(call().answer()),
        }
    });
}

/// Kills idem, its command, or both, at a moment of no meaning. Returns what idem answered where it was left alive.
fn kill_in_the_middle(running: Running, random: &mut Random, reach: Duration) -> Option<Answer> {
    // No moment is the right one: the point is to hit as many different ones as a run has.
    thread::sleep(random.up_to(reach));
    match random.below(3) {
        0 => running.kill_9(),
        1 => {
            running.signal_group(Signal::SIGKILL);
            running.answer();
        }
        _ => {
            kill_children(running.pid());
            return Some(running.answer());
        }
    }
    None
}

/// `kill -9` of whatever a process has started and not yet collected.
fn kill_children(pid: i32) {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for task in tasks.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            // One that has ended by itself is as good as killed.
            let _ = signal::kill(Pid::from_raw(child.parse().expect("a process id")), Signal::SIGKILL);
        }
    }
}

#[test]
fn external_calls_that_are_killed_in_the_middle_have_no_second_effect() {
    let latency = Duration::from_millis(10);
    let (env, target) = (TestEnv::new(), Target::faulty_and_slow(latency));
    let reach = reach(latency);
    let more = |order| order < KILLED;
    in_four_threads(more, |order| {
        let call = || pay_with_patience(&env, &target, order, "0.2");
        let mut random = Random::new(target.seed(), &format!("kill {order}"), 0);
        kill_in_the_middle(call().start(), &mut random, reach);
        // What was killed before its claim runs now; everything else is over.
        let second = call().answer();
        had_at_most_one_effect(&target, order);
        let others = [call().answer(), call().answer()];
        had_at_most_one_effect(&target, order);
        assert!(target.payments(order).len() <= 1, "one request\n{}", seen(&target, order));
        others.iter().for_each(|answer| follows(&second, answer, &target, order));
    });
}

#[test]
fn a_probe_settles_external_calls_that_are_killed_in_the_middle_again_and_again() {
    let latency = Duration::from_millis(10);
    let (env, target) = (TestEnv::new(), Target::faulty_and_slow(latency));
    let (probe, reach) = (probe(&target), reach(latency));
    let more = |order| order < KILLED;
    in_four_threads(more, |order| {
        let call =
            || pay_with_patience(&env, &target, order, "0.2").args(["--probe", &probe, "--probe-timeout", "400ms"]);
        until_paid_though_killed(&target, order, reach, call);
    });
    nothing_is_left_unknown(&env);
}

#[test]
fn resending_completes_external_calls_that_are_killed_in_the_middle_again_and_again() {
    let latency = Duration::from_millis(10);
    let (env, target) = (TestEnv::new(), Target::faulty_slow_and_deduping(latency));
    let reach = reach(latency);
    let more = |order| order < SOME;
    in_four_threads(more, |order| {
        let call = || pay_with_patience(&env, &target, order, "0.2").args(["--resend-within", "1h"]);
        until_paid_though_killed(&target, order, reach, call);
    });
    nothing_is_left_unknown(&env);
}

#[test]
fn a_probe_that_is_delayed_finds_an_effect_that_comes_late() {
    let late = Fault::Late(Duration::from_millis(100));
    let (env, target) = (TestEnv::new(), Target::with(late));
    let call = || patient(&env, &target).args(["--probe", &probe(&target), "--probe-delay", "1s"]);
    let first = call().answer();
    let receipt = one_receipt(&target, "1");
    first.exits(0).prints(&receipt);
    call().answer().exits(0).is_a_replay().prints(&receipt);
    one_receipt(&target, "1");
}

#[test]
fn a_publish_that_answers_an_error_though_it_landed_is_held() {
    let (env, target) = (TestEnv::new(), Target::with(Fault::Error { status: 403, landed: true }));
    let call = || patient(&env, &target);
    call().answer().exits(22).says("403");
    call().answer().exits(121).says("may have reached the target");
    assert_eq!(target.payments("1").len(), 1);
    one_receipt(&target, "1");
}

#[test]
fn a_publish_that_answers_an_error_though_it_landed_is_completed_by_a_probe_at_once() {
    let (env, target) = (TestEnv::new(), Target::with(Fault::Error { status: 403, landed: true }));
    let call = || patient(&env, &target).args(["--probe", &probe(&target)]);
    let first = call().answer();
    let receipt = one_receipt(&target, "1");
    first.exits(0).prints(&receipt).says("403");
    call().answer().exits(0).is_a_replay().prints(&receipt).does_not_say("403");
    assert_eq!(env.rows("SELECT state, reason, outcome FROM claim"), ["completed|probe|landed"]);
    one_receipt(&target, "1");
}

#[test]
fn a_held_publish_is_completed_by_the_probe_of_a_later_arrival() {
    let (env, target) = (TestEnv::new(), Target::with(Fault::Error { status: 409, landed: true }));
    let call = || patient(&env, &target);
    call().answer().exits(22);
    call().answer().exits(121);
    let receipt = one_receipt(&target, "1");
    call().args(["--probe", &probe(&target)]).answer().exits(0).is_a_replay().prints(&receipt);
    call().answer().exits(0).is_a_replay().prints(&receipt);
    one_receipt(&target, "1");
}

#[test]
fn a_success_with_nothing_to_print_is_a_success_and_replays_nothing() {
    let (env, target) = (TestEnv::new(), Target::with(Fault::Empty));
    let call = || patient(&env, &target).args(["--probe", &probe(&target)]);
    call().answer().exits(0).is_a_first_run().prints("").says_exactly("");
    for _ in 0..3 {
        call().answer().exits(0).is_a_replay().prints("");
    }
    assert_eq!(target.payments("1").len(), 1);
    one_receipt(&target, "1");
}

/// Starts a payment that is never answered, and gives idem the SIGTERM of its caller's time limit once it has landed.
fn cut_off(call: Call<'_>, target: &Target) -> Answer {
    let running = call.start();
    wait_for("the effect", || (!target.receipts("1").is_empty()).then_some(()));
    running.signal(Signal::SIGTERM);
    running.answer()
}

#[test]
fn a_call_that_its_caller_cuts_off_after_it_landed_is_held() {
    let (env, target) = (TestEnv::new(), Target::with(Fault::Silence));
    let call = || patient(&env, &target);
    cut_off(call(), &target).exits(143);
    call().answer().exits(121).says("may have reached the target");
    assert_eq!(env.rows("SELECT state, outcome FROM claim"), ["held|unknown"]);
    one_receipt(&target, "1");
}

#[test]
fn a_call_that_its_caller_cuts_off_after_it_landed_is_never_sent_again_where_a_probe_can_tell() {
    let (env, target) = (TestEnv::new(), Target::with(Fault::Silence));
    let call = || patient(&env, &target).args(["--probe", &probe(&target)]);
    let first = cut_off(call(), &target);
    let receipt = one_receipt(&target, "1");
    first.exits(0).prints(&receipt).says("SIGTERM");
    call().answer().exits(0).is_a_replay().prints(&receipt);
    assert_eq!(target.payments("1").len(), 1);
    nothing_is_left_unknown(&env);
}
