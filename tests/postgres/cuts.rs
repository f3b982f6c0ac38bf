//! The network is cut at each step of a call, heals soon or only when idem is gone: never two runs, no outcome lost, and
//! what is said is true.

use std::thread;

use serde_json::Value;

use crate::env::{Answer, Call, Gate, Running, TestEnv, fits_schema};
use crate::proxy::{Act, Acted, Proxy, Then};
use crate::steps::{claims, finishes};
use crate::world::{World, pending};

/// Where the network is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The claim doesn't reach the server.
    BeforeClaim,
    /// The claim is committed, and its answer is lost.
    AfterClaim,
    /// The claim is committed; from its answer on nothing passes, and nobody is told.
    HoleFromClaim,
    /// The command runs.
    DuringRun,
    /// The command runs; from then on nothing passes, and nobody is told.
    HoleDuringRun,
    /// The end doesn't reach the server.
    BeforeFinish,
    /// The end is committed, and its answer is lost.
    AfterFinish,
    /// The end is committed; from its answer on nothing passes, and nobody is told.
    HoleFromFinish,
}

/// When it heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heals {
    Soon,
    WhenIdemIsGone,
}

/// Who knows the outcome when idem is gone and the network is back, before it's delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is recorded: only the answer was lost.
    ToEverybody,
    /// It waits in the state folder, and nowhere else.
    ToItsHost,
    /// It waits there, and the statement that records it may still come out of the hole.
    Perhaps,
}

/// One case on its own database, with an owner behind a proxy of its own.
struct Case {
    step: Step,
    heals: Heals,
    external: bool,
    world: World,
    proxy: Proxy,
    owner: TestEnv,
    gate: Gate,
}

/// The command's own exit code: it landed, whatever the effect.
const CODE: i32 = 3;
const OUT: &str = "out 1\nnot text: \u{fffd}\n";

impl Case {
    fn new(step: Step, heals: Heals, external: bool) -> Option<Case> {
        let world = World::new()?;
        world.make_store();
        let proxy = world.proxy();
        let owner = world.behind(&proxy);
        let gate = Gate::new(&owner, "gate");
        Some(Case { step, heals, external, world, proxy, owner, gate })
    }

    /// An arrival of the one call that this is about. Only the owner's home has a gate.
    fn call<'a>(&self, env: &'a TestEnv) -> Call<'a> {
        let script = "echo $$ > pid; if [ -p gate ]; then read _ < gate; fi; echo out 1; \
                      printf 'not text: \\377\\n'; echo err >&2; exit 3";
        let call =
            env.run("t").args(["--landed-exit", "3", "--seen-every", "200ms"]).script(&self.world.counted(script));
        let call = if self.external { call.external() } else { call };
        // Long enough where it has to get through, and soon over where it can't.
        call.args(["--record-wait", if self.heals == Heals::Soon { "60s" } else { "2s" }])
    }

    /// What the proxy does by itself, at a statement.
    fn lay(&self) -> Option<Acted> {
        let then = if self.heals == Heals::Soon { Then::HealsAtOnce } else { Then::StaysAway };
        let at = |is_it: fn(&str) -> bool, act| Some(self.proxy.at_statement(1, is_it, act, then));
        match self.step {
            Step::BeforeClaim => at(claims, Act::CutBefore),
            Step::AfterClaim => at(claims, Act::CutAfter),
            Step::HoleFromClaim => at(claims, Act::HoleAfter),
            Step::BeforeFinish => at(finishes, Act::CutBefore),
            Step::AfterFinish => at(finishes, Act::CutAfter),
            Step::HoleFromFinish => at(finishes, Act::HoleAfter),
            Step::DuringRun | Step::HoleDuringRun => None,
        }
    }

    /// Runs the owner through the cut, to its end, and heals the network.
    fn owner(&self) -> Answer {
        let acted = self.lay();
        let running = self.call(&self.owner).start();
        let comes_to_run = !matches!(self.step, Step::BeforeClaim | Step::AfterClaim | Step::HoleFromClaim);
        if comes_to_run {
            running.command();
            match (self.step, self.heals) {
                (Step::DuringRun, Heals::Soon) => self.proxy.cut_for_a_moment(),
                (Step::DuringRun, Heals::WhenIdemIsGone) => self.proxy.cut(),
                (Step::HoleDuringRun, _) => self.proxy.swallow_everything(),
                _ => {}
            }
        }
        self.gate.open();
        if let Some(acted) = acted {
            acted.wait();
        }
        if self.heals == Heals::Soon {
            self.proxy.heal();
        }
        let answer = running.answer();
        self.proxy.heal();
        answer
    }

    /// The owner's own words, held against what has really happened.
    fn is_true(&self, answer: &Answer) {
        match answer.code() {
            Some(CODE) => {
                assert_eq!(self.world.runs(), 1, "{self}\n{answer}");
                assert_eq!(answer.text(), OUT, "what the command printed passes through: {self}\n{answer}");
                answer.is_a_first_run().does_not_say("nothing was run").says("err\n");
            }
            Some(125) => {
                answer.refuses();
                assert_eq!(self.world.runs(), 0, "it says that nothing was run: {self}\n{answer}");
            }
            code => panic!("{code:?}: {self}\n{answer}"),
        }
    }

    /// The outcome is known to everybody, once, and replayed with the same bytes; nothing has run again.
    fn is_recorded_once(&self, runs: usize) {
        for env in [&self.owner, &self.world.env, &self.world.elsewhere()] {
            let again = self.call(env).answer();
            again.exits(CODE).prints(b"out 1\nnot text: \xff\n").is_a_replay().says("err\n");
        }
        assert_eq!(self.world.runs(), runs, "{self}");
        assert_eq!(self.world.states("t").iter().filter(|state| *state == "completed").count(), 1, "{self}");
        let shown: Value = self.world.shown(&self.world.newest("t"));
        fits_schema(&shown);
        let count = |kind: &str| {
            let events = shown["events"].as_array().expect("events");
            events.iter().filter(|event| event["kind"] == kind).count()
        };
        assert_eq!((count("became-completed"), count("late-outcome")), (1, 0), "recorded once: {self}\n{shown:#}");
        assert_eq!((&shown["exit_code"], &shown["outcome"]), (&Value::from(CODE), &Value::from("landed")), "{self}");
        assert_eq!(pending(&self.owner), Vec::<std::path::PathBuf>::new(), "nothing is left to deliver: {self}");
    }

    /// The owner never came to run, and said so. What it may have left behind is not run on a guess.
    fn nothing_was_run(&self, answer: &Answer) {
        let envelope = self.call(&self.owner).args(["--json"]).answer();
        match envelope.code() {
            // It left nothing, or took it back.
            Some(CODE) => {}
            // Its claim is there, and nobody says what became of it: a person does.
            Some(121) if self.step != Step::BeforeClaim => {
                assert_eq!(envelope.envelope()["error"]["kind"], "held", "{self}\n{envelope}");
                assert_eq!(self.world.runs(), 0, "{self}\n{answer}");
                let id = self.world.newest("t");
                self.world.env.idem(["resolve", &id, "not-landed"]).answer().exits(0);
                self.call(&self.owner).answer().exits(CODE).is_a_first_run();
            }
            _ => panic!("{self}\n{envelope}"),
        }
        self.is_recorded_once(1);
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cut {:?}, heals {:?}, external: {}", self.step, self.heals, self.external)
    }
}

/// Both effects, at the same time.
fn each_effect(step: Step, heals: Heals, check: impl Fn(&Case) + Sync) {
    thread::scope(|threads| {
        for external in [false, true] {
            let check = &check;
            threads.spawn(move || {
                if let Some(case) = Case::new(step, heals, external) {
                    check(&case);
                }
            });
        }
    });
}

/// It heals soon: the owner gets through, and nobody notices more than a delay.
fn gets_through(step: Step) {
    each_effect(step, Heals::Soon, |case| {
        let answer = case.owner();
        assert_eq!(answer.code(), Some(CODE), "it heals, so it gets through: {case}\n{answer}");
        case.is_true(&answer);
        case.is_recorded_once(1);
    });
}

/// It heals only when idem is gone, which has not come to run.
fn runs_nothing(step: Step) {
    each_effect(step, Heals::WhenIdemIsGone, |case| {
        let answer = case.owner();
        assert_eq!(answer.code(), Some(125), "what can't be known to be claimed doesn't run: {case}\n{answer}");
        case.is_true(&answer);
        case.nothing_was_run(&answer);
    });
}

/// It heals only when idem is gone, whose command has run: the outcome waits on its host.
fn is_delivered_later(step: Step, known: Known) {
    each_effect(step, Heals::WhenIdemIsGone, |case| {
        let answer = case.owner();
        assert_eq!(answer.code(), Some(CODE), "the command's own code: {case}\n{answer}");
        case.is_true(&answer);
        let waiting = pending(&case.owner);
        assert_eq!(waiting.len(), 1, "one outcome waits in the state folder: {case}\n{answer}");
        let folder = case.owner.state_home().join("idem/pending");
        answer.says(&folder.display().to_string());
        // From elsewhere nobody knows before it's delivered, unless it is recorded and only the answer was lost.
        let elsewhere = case.call(&case.world.env).answer();
        match known {
            Known::ToEverybody => drop(elsewhere.exits(CODE).is_a_replay()),
            Known::ToItsHost => drop(elsewhere.exits(121)),
            Known::Perhaps => match elsewhere.code() {
                Some(CODE) => drop(elsewhere.is_a_replay()),
                _ => drop(elsewhere.exits(121)),
            },
        }
        assert_eq!(case.world.runs(), 1, "{case}\n{elsewhere}");
        // Any verb delivers it.
        let listed = case.owner.idem(["list", "--json", "--tool", "t"]).answer();
        assert_eq!(listed.exits(0).envelope()["state"], "completed", "{case}\n{listed}");
        case.is_recorded_once(1);
    });
}

#[test]
fn a_claim_that_does_not_reach_the_server_is_made_when_the_network_is_back() {
    gets_through(Step::BeforeClaim);
}

#[test]
fn a_claim_that_does_not_reach_the_server_runs_nothing() {
    runs_nothing(Step::BeforeClaim);
}

#[test]
fn a_claim_whose_answer_is_lost_is_looked_up_and_run_once() {
    gets_through(Step::AfterClaim);
}

#[test]
fn a_claim_whose_answer_is_lost_and_that_can_not_be_looked_up_runs_nothing() {
    runs_nothing(Step::AfterClaim);
}

#[test]
fn a_claim_whose_answer_comes_late_is_run_once() {
    gets_through(Step::HoleFromClaim);
}

#[test]
fn a_claim_whose_answer_never_comes_runs_nothing() {
    runs_nothing(Step::HoleFromClaim);
}

#[test]
fn an_end_after_a_cut_is_recorded_by_another_connection() {
    gets_through(Step::DuringRun);
}

#[test]
fn an_end_that_nobody_can_be_told_waits_and_is_delivered() {
    is_delivered_later(Step::DuringRun, Known::ToItsHost);
}

#[test]
fn an_end_that_falls_into_a_hole_is_recorded_when_the_network_is_back() {
    gets_through(Step::HoleDuringRun);
}

#[test]
fn an_end_that_falls_into_a_hole_waits_and_is_delivered() {
    is_delivered_later(Step::HoleDuringRun, Known::Perhaps);
}

#[test]
fn an_end_that_does_not_reach_the_server_is_said_again() {
    gets_through(Step::BeforeFinish);
}

#[test]
fn an_end_that_does_not_reach_the_server_waits_and_is_delivered() {
    is_delivered_later(Step::BeforeFinish, Known::ToItsHost);
}

#[test]
fn an_end_whose_answer_is_lost_is_recorded_once() {
    gets_through(Step::AfterFinish);
}

#[test]
fn an_end_whose_answer_is_lost_and_that_is_delivered_again_is_recorded_once() {
    is_delivered_later(Step::AfterFinish, Known::ToEverybody);
}

#[test]
fn an_end_whose_answer_comes_late_is_recorded_once() {
    gets_through(Step::HoleFromFinish);
}

#[test]
fn an_end_whose_answer_never_comes_and_that_is_delivered_again_is_recorded_once() {
    is_delivered_later(Step::HoleFromFinish, Known::ToEverybody);
}

#[test]
fn a_claim_that_is_held_up_in_the_network_is_not_run_twice_when_another_comes_first() {
    for external in [false, true] {
        let Some(case) = Case::new(Step::BeforeClaim, Heals::Soon, external) else { return };
        let acted = case.proxy.at_statement(1, claims, Act::HoldBefore, Then::HealsAtOnce);
        let late = case.call(&case.owner).start();
        acted.wait();
        case.call(&case.world.env).answer().exits(CODE).is_a_first_run();
        case.gate.open();
        case.proxy.heal();
        late.answer().exits(CODE).prints(b"out 1\nnot text: \xff\n").is_a_replay();
        case.is_recorded_once(1);
    }
}

#[test]
fn who_comes_while_a_claims_answer_is_held_up_waits_for_the_owner() {
    let Some(case) = Case::new(Step::AfterClaim, Heals::Soon, false) else { return };
    let acted = case.proxy.at_statement(1, claims, Act::HoldAfter, Then::HealsAtOnce);
    let owner = case.call(&case.owner).start();
    acted.wait();
    case.call(&case.world.env).args(["--no-wait"]).answer().exits(120);
    let waiter: Running = case.call(&case.world.env).start();
    case.gate.open();
    case.proxy.heal();
    case.is_true(&owner.answer());
    waiter.answer().exits(CODE).is_a_replay();
    case.is_recorded_once(1);
}
