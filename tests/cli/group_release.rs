//! A release of five packages that dies at each of its steps in turn, and is run again until it is through (case 17): each
//! package is published exactly once, and the last replay lists all five.

use serde_json::{Value, json};

use crate::env::{Call, Fault, Target, TestEnv, become_free, outline};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

const PACKAGES: [&str; 5] = ["core", "cli", "web", "docs", "tools"];

/// After this many arrivals each release is through; a bound for broken programs.
const ARRIVALS: usize = 40;

/// Who is killed, by the names that the scripts give them.
const DEATHS: [(&str, &str); 7] = [
    ("the script", "$RELEASE"),
    ("the release's idem", "$RELEASE_IDEM"),
    ("the script and its idem", "$RELEASE_IDEM $RELEASE"),
    ("the step's idem", "$STEP_IDEM"),
    ("the step's command", "$STEP"),
    ("the step's idem and its command", "$STEP_IDEM $STEP"),
    ("all of them", "$RELEASE_IDEM $RELEASE $STEP_IDEM $STEP"),
];

/// Asks the target for the package; a target that can't tell is no answer.
const PROBE: &str = "out=$(curl -sS --max-time 10 -w '%{http_code}' $EFFECTS$IDEM_KEY) || exit 2
case $out in *200) echo published;; *404) exit 1;; *) exit 2;; esac
";

/// A release with its target.
struct Release {
    env: TestEnv,
    target: Target,
    /// The options of the release itself.
    options: &'static [&'static str],
}

impl Release {
    /// Writes the scripts. `probe`: whether the steps can ask; `patience`: how many seconds curl waits for an answer.
    fn new(target: Target, probe: bool, patience: &str) -> Self {
        let env = TestEnv::new();
        env.write("probe.sh", PROBE);
        let probe = if probe { "--probe 'sh probe.sh'" } else { "" };
        env.write(
            "release.sh",
            format!(
                "export RELEASE=$$ RELEASE_IDEM=$PPID; echo $$ $PPID >> pids
                 for package in {}; do
                   {IDEM} run --tool publish --params \"{{\\\"package\\\":\\\"$package\\\"}}\" --external {probe} \\
                     -- sh publish.sh $package || exit 1
                   . ./between.sh
                   {IDEM} emit $package \"{{\\\"of\\\":\\\"$package\\\"}}\" || exit 1
                 done\n",
                PACKAGES.join(" ")
            ),
        );
        env.write(
            "publish.sh",
            format!(
                "STEP=$$ STEP_IDEM=$PPID; echo $$ $PPID >> pids; . ./before.sh
                 curl -sS --fail --max-time {patience} -H \"Idempotency-Key: $IDEM_KEY\" -d $1 $PAY || exit
                 . ./after.sh\n"
            ),
        );
        for moment in ["before", "between", "after"] {
            env.write(&format!("{moment}.sh"), "");
        }
        Release { env, target, options: &["--rerun-if-interrupted"] }
    }

    /// Lets it die once, at a package and a moment.
    fn dies(self, package: &str, moment: &str, victims: &str) -> Self {
        let which = if moment == "between" { "$package" } else { "$1" };
        let script = format!("if [ {which} = {package} ] && mkdir died 2> /dev/null; then kill -9 {victims}; fi\n");
        self.env.write(&format!("{moment}.sh"), script);
        self
    }

    fn call(&self) -> Call<'_> {
        let call = self.env.run("release").args(self.options.iter().copied());
        call.var("PAY", self.target.pay()).var("EFFECTS", self.target.effects()).command(["sh", "release.sh"])
    }

    /// Waits until none of the processes that a release started is left.
    fn settle(&self) {
        let mut seen = 0;
        loop {
            let pids: Vec<i32> = self.env.text_of("pids").split_whitespace().flat_map(str::parse).collect();
            if pids.len() == seen {
                return;
            }
            pids[seen..].iter().copied().for_each(become_free);
            seen = pids.len();
        }
    }

    /// Runs it again and again, until it is through. Between its arrivals somebody may decide.
    fn until_it_is_through(&self, what: &str, between: impl Fn()) {
        let mut answers = String::new();
        for _ in 0..ARRIVALS {
            let answer = self.call().answer();
            if answer.code() == Some(0) {
                return;
            }
            answers += &answer.to_string();
            self.settle();
            between();
        }
        panic!("{what}: not through after {ARRIVALS} arrivals\n{answers}");
    }

    /// Fails unless each package is there exactly once and a replay tells of all of them.
    fn is_published_once(&self, what: &str) {
        self.settle();
        let requests = |package: &str| self.target.payments(package).len();
        let before = PACKAGES.map(requests);
        let replay = self.call().args(["--json"]).answer().exits(0).envelope();
        assert_eq!(replay["idempotent"], true, "{what}");
        assert_eq!(PACKAGES.map(requests), before, "{what}: a replay sends nothing");
        for package in PACKAGES {
            let receipts = self.target.receipts(package);
            assert_eq!(receipts.len(), 1, "{what}: {package} is published once: {:?}", self.target.payments(package));
        }
        let expected = PACKAGES.map(|package| format!("publish completed, {package}={{\"of\":\"{package}\"}}"));
        assert_eq!(outline(&replay), expected.join(", "), "{what}");
        let steps = replay["members"].as_array().expect("members").iter().filter(|member| member["kind"] == "step");
        let told: Vec<Value> = steps.map(|step| json!([step["params"]["package"], step["outcome"]])).collect();
        assert_eq!(told, PACKAGES.map(|package| json!([package, "landed"])), "{what}");
    }

    /// What somebody does who looks at the target itself: says of each step that is held what came of it, and that the
    /// release may go on.
    fn resolve_by_the_truth(&self) {
        // The next arrival finds out who is dead.
        self.call().args(["--no-wait"]).answer();
        self.settle();
        let held = self
            .env
            .rows("SELECT id, tool, coalesce(reason, ''), params FROM claim WHERE state = 'held' ORDER BY id DESC");
        for row in held {
            let mut fields = row.splitn(4, '|');
            let [id, tool, reason, params] = [(); 4].map(|()| fields.next().expect("four columns"));
            if tool == "release" && reason == "steps" {
                continue;
            }
            let params: Value = serde_json::from_str(params).expect("params");
            let landed = params["package"].as_str().is_some_and(|package| !self.target.receipts(package).is_empty());
            let verdict = if landed { "landed" } else { "not-landed" };
            self.env.idem(["resolve", id, verdict]).answer().exits(0);
        }
    }
}

/// Lets a release die by one death at each package in turn, the moments taking turns.
fn dies_at_each_step(death: usize) {
    let (who, victims) = DEATHS[death];
    for (n, package) in PACKAGES.into_iter().enumerate() {
        let moment = if (n + death).is_multiple_of(2) { "before" } else { "after" };
        let what = format!("{who} dies {moment} {package}");
        let release = Release::new(Target::with(Fault::None), true, "30").dies(package, moment, victims);
        let first = release.call().answer();
        assert!(release.env.has("died"), "{what}\n{first}");
        release.settle();
        release.until_it_is_through(&what, || {});
        release.is_published_once(&what);
    }
}

#[test]
fn a_release_that_nothing_happens_to_is_published_and_replayed() {
    let release = Release::new(Target::with(Fault::None), true, "30");
    release.call().answer().exits(0);
    release.is_published_once("nothing happens");
}

#[test]
fn a_release_whose_script_is_killed_at_any_step_is_published_once() {
    dies_at_each_step(0);
}

#[test]
fn a_release_whose_idem_is_killed_at_any_step_is_published_once() {
    dies_at_each_step(1);
}

#[test]
fn a_release_that_is_killed_with_its_idem_at_any_step_is_published_once() {
    dies_at_each_step(2);
}

#[test]
fn a_release_whose_steps_idem_is_killed_at_any_step_is_published_once() {
    dies_at_each_step(3);
}

#[test]
fn a_release_whose_steps_command_is_killed_at_any_step_is_published_once() {
    dies_at_each_step(4);
}

#[test]
fn a_release_whose_step_is_killed_whole_at_any_step_is_published_once() {
    dies_at_each_step(5);
}

#[test]
fn a_release_that_is_killed_whole_at_any_step_is_published_once() {
    dies_at_each_step(6);
}

#[test]
fn a_release_that_is_killed_between_its_steps_is_published_once() {
    for (package, (who, victims)) in PACKAGES.into_iter().zip(DEATHS.into_iter().take(3).cycle()) {
        let what = format!("{who} dies after the step of {package}");
        let release = Release::new(Target::with(Fault::None), true, "30").dies(package, "between", victims);
        release.until_it_is_through(&what, || {});
        assert!(release.env.has("died"), "{what}");
        release.is_published_once(&what);
    }
}

#[test]
fn a_release_whose_every_answer_is_lost_is_published_once() {
    for landed in [true, false] {
        let release = Release::new(Target::with(Fault::Drop { landed }), true, "30");
        let what = format!("each first answer is lost, landed: {landed}");
        release.until_it_is_through(&what, || {});
        release.is_published_once(&what);
        let sent: usize = PACKAGES.iter().map(|package| release.target.payments(package).len()).sum();
        assert_eq!(sent, if landed { 5 } else { 10 }, "{what}: what has landed is not sent again");
    }
}

#[test]
fn a_release_to_a_registry_with_every_fault_is_published_once() {
    let release = Release::new(Target::faulty(), true, "0.3");
    release.until_it_is_through("the registry is faulty", || {});
    release.is_published_once("the registry is faulty");
}

#[test]
fn a_release_that_dies_and_loses_answers_is_published_once_by_the_word_of_who_looks() {
    for (n, (who, victims)) in DEATHS.into_iter().enumerate() {
        let (package, moment) = (PACKAGES[n % 5], if n % 2 == 0 { "after" } else { "before" });
        let what = format!("{who} dies {moment} {package}, each first answer is lost and nobody can ask");
        let target = Target::with(Fault::Drop { landed: n % 3 != 0 });
        let mut release = Release::new(target, false, "30").dies(package, moment, victims);
        // Nor may the release run again by itself.
        release.options = &[];
        release.until_it_is_through(&what, || release.resolve_by_the_truth());
        release.is_published_once(&what);
    }
}
