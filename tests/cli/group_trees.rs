//! Random trees of steps with random deaths: no step's effect counts twice, and what completes gives back every member.
//!
//! Trees and deaths are drawn by a seed, which a failing test prints: `FAULT_SEED=… cargo test --test cli group_trees`
//! draws the same ones.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use crate::env::{Answer, Call, Random, TestEnv, become_free, new_seed};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// How many trees a test draws.
const TREES: usize = 40;

/// How many calls a tree has at most, its root included, and how many levels below the root.
const NODES: usize = 8;
const LEVELS: usize = 3;

/// After this many arrivals each tree is through; a bound for broken programs.
const ARRIVALS: usize = 60;

/// What happens once, and to whom: an exit with 1, or a kill of these.
const DEATHS: [&str; 9] = [
    "exit 1",
    "exit 1",
    "kill -9 $PPID",
    "kill -9 $$",
    "kill -9 $PPID $$",
    "kill -9 $ROOT",
    "kill -9 $ROOT_IDEM",
    "kill -9 $ROOT_IDEM $ROOT",
    "kill -9 $ROOT_IDEM $ROOT $PPID $$",
];

/// A call of the tree: a step of its parents, or the root.
struct Node {
    /// A leaf reaches the target; an inner call runs its steps.
    steps: Vec<usize>,
    level: usize,
    /// Whether its steps run at once.
    at_once: bool,
    /// Whether a local call says itself that it may be run again; else a person does.
    says_itself: bool,
    /// Before or after its work.
    death: Option<(bool, &'static str)>,
}

impl Node {
    fn new(level: usize) -> Self {
        Node { steps: Vec::new(), level, at_once: false, says_itself: false, death: None }
    }

    fn is_leaf(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Draws a tree. Calls are named by their place, and steps come after those that call them.
fn draw(random: &mut Random) -> Vec<Node> {
    let mut nodes = vec![Node::new(0)];
    while nodes.len() < 3 + random.below(NODES - 2) {
        let above = random.below(nodes.len());
        let level = nodes[above].level + 1;
        if level <= LEVELS {
            let new = nodes.len();
            nodes[above].steps.push(new);
            nodes.push(Node::new(level));
        }
    }
    // Some leaves are steps of a second call as well.
    for step in 1..nodes.len() {
        let also = random.below(nodes.len());
        let fits = nodes[step].is_leaf() && !nodes[also].is_leaf() && !nodes[also].steps.contains(&step);
        if fits && random.below(3) == 0 {
            nodes[also].steps.push(step);
        }
    }
    for node in &mut nodes {
        node.at_once = random.below(3) == 0;
        node.says_itself = random.below(2) == 0;
        if random.below(2) == 0 {
            node.death = Some((random.below(2) == 0, DEATHS[random.below(DEATHS.len())]));
        }
    }
    nodes
}

/// A tree's scripts in a world of their own.
struct Tree {
    env: TestEnv,
    nodes: Vec<Node>,
    what: String,
}

impl Tree {
    fn new(seed: u64, number: usize) -> Self {
        let mut random = Random::new(seed, "tree", number);
        let nodes = draw(&mut random);
        let env = TestEnv::new();
        env.write("effects", "");
        let mut what = format!("tree {number} of FAULT_SEED={seed}\n");
        for (n, node) in nodes.iter().enumerate() {
            env.write(&format!("n{n}.sh"), script(n, node, &nodes));
            let kind = if node.is_leaf() { "leaf".to_owned() } else { format!("{:?}", node.steps) };
            let death = node
                .death
                .map(|(before, death)| format!("{} its work: {death}", if before { "before" } else { "after" }));
            let _ = writeln!(what, "n{n}: {kind}, at once: {}, {}", node.at_once, death.unwrap_or_default());
        }
        Tree { env, nodes, what }
    }

    fn root(&self) -> Call<'_> {
        self.env.run("n0").args(["--rerun-if-interrupted"]).command(["sh", "n0.sh"])
    }

    /// Waits until none of the processes that the tree started is left.
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

    /// A person says of local calls that were killed that they may run again. What is external has a probe to ask.
    fn say_of_local_calls(&self) {
        let held = "SELECT id FROM claim WHERE state = 'held' AND reason = 'interrupted' AND effect = 'local' AND probe IS NULL";
        for id in self.env.rows(held) {
            self.env.idem(["resolve", &id, "not-landed"]).answer().exits(0);
        }
    }

    /// Runs the root until it is through. Returns how many arrivals that took.
    fn run(&self, random: &mut Random) -> usize {
        let mut answers: Vec<Answer> = Vec::new();
        while answers.len() < ARRIVALS {
            let answer = self.root().answer();
            let through = answer.code() == Some(0);
            answers.push(answer);
            if through {
                self.settle();
                return answers.len();
            }
            // Now and then the next arrival comes while some of it still lives.
            if random.below(3) != 0 {
                self.settle();
            }
            if random.below(4) == 0 {
                self.env.idem(["reconcile", "--all"]).answer();
            }
            self.say_of_local_calls();
        }
        let told: String = answers.iter().map(ToString::to_string).collect();
        panic!("not through after {ARRIVALS} arrivals: {}\n{told}", self.what);
    }

    /// Fails unless each leaf has had one effect, and a replay tells of every call with all that it made.
    fn is_whole(&self) {
        let text = self.env.text_of("effects");
        let mut effects: Vec<&str> = text.lines().collect();
        effects.sort_unstable();
        let leaves = (0..self.nodes.len()).filter(|n| self.nodes[*n].is_leaf());
        let mut expected: Vec<String> = leaves.map(|n| format!("n{n}")).collect();
        expected.sort_unstable();
        assert_eq!(effects, expected, "each leaf has one effect: {}", self.what);
        let replay = self.root().args(["--json"]).answer().exits(0).envelope();
        assert_eq!(replay["idempotent"], true, "{}", self.what);
        assert_eq!(self.env.text_of("effects"), text, "a replay has no effect: {}", self.what);
        let mut told = BTreeSet::from([0]);
        self.is_told(0, &replay, &mut told);
        assert_eq!(told.len(), self.nodes.len(), "every call is told of: {}\n{replay}", self.what);
        assert_eq!(self.env.shown(&replay["id"].to_string())["members"], replay["members"], "{}", self.what);
        let states = self.env.rows("SELECT count(*) FROM claim WHERE state IN ('running', 'held')");
        assert_eq!(states, ["0"], "nothing is left open: {}", self.what);
    }

    /// Fails unless a call's members are exactly what it made: its own, and each of its steps once.
    fn is_told(&self, n: usize, envelope: &Value, told: &mut BTreeSet<usize>) {
        let node = &self.nodes[n];
        let members = envelope["members"].as_array().expect("members");
        let mut names: Vec<String> = Vec::new();
        for member in members {
            if member["kind"] == "member" {
                assert_eq!(member["data"], n, "{}\n{envelope}", self.what);
                names.push(format!("made by {}", member["name"].as_str().expect("a name")));
                continue;
            }
            let tool = member["tool"].as_str().expect("a tool");
            names.push(tool.to_owned());
            assert_eq!(member["state"], "completed", "{}\n{envelope}", self.what);
            let step: usize = tool[1..].parse().expect("a call of the tree");
            if told.insert(step) {
                self.is_told(step, member, told);
            } else {
                assert_eq!(
                    member["members"],
                    Value::Array(Vec::new()),
                    "it is told elsewhere: {}\n{envelope}",
                    self.what
                );
            }
        }
        names.sort_unstable();
        let mut expected: Vec<String> = node.steps.iter().map(|step| format!("n{step}")).collect();
        expected.extend([format!("made by n{n}"), format!("made by first-n{n}")]);
        expected.sort_unstable();
        assert_eq!(names, expected, "the group of n{n}: {}\n{envelope}", self.what);
    }
}

/// The script of a call.
fn script(n: usize, node: &Node, nodes: &[Node]) -> String {
    let mut text = "echo $$ $PPID >> pids\n".to_owned();
    if n == 0 {
        text += "export ROOT=$$ ROOT_IDEM=$PPID\n";
    }
    let die = |before: bool| match node.death {
        Some((when, death)) if when == before => format!("if mkdir died-{n} 2> /dev/null; then {death}; fi\n"),
        _ => String::new(),
    };
    // Only the first attempt makes this one: the group has to keep it.
    let _ = writeln!(text, "[ $IDEM_ATTEMPT != 1 ] || {IDEM} emit first-n{n} {n} || exit 1");
    text += &die(true);
    let emit = format!("{IDEM} emit n{n} {n} || exit 1\n");
    if node.is_leaf() {
        let _ = writeln!(text, "{emit}echo n{n} >> effects");
    } else {
        for (place, step) in node.steps.iter().enumerate() {
            let run = run(*step, &nodes[*step]);
            match node.at_once {
                true => _ = writeln!(text, "{run} & p{place}=$!"),
                false => _ = writeln!(text, "{run} || exit 1"),
            }
        }
        if node.at_once {
            let waits: Vec<String> = (0..node.steps.len()).map(|place| format!("wait $p{place} || bad=1")).collect();
            let _ = writeln!(text, "{}; [ -z \"$bad\" ] || exit 1", waits.join("; "));
        }
        text += &emit;
    }
    text + &die(false)
}

/// A call as a step, as the scripts write it: always by the same words, whoever calls it.
fn run(n: usize, node: &Node) -> String {
    let options = match (node.is_leaf(), node.says_itself) {
        // The file is there from the start, and whoever asks does so when the command is dead: no line is no effect.
        (true, _) => format!("--external --probe 'grep -qx n{n} effects'"),
        (false, true) => "--rerun-if-interrupted --probe 'exit 1'".to_owned(),
        (false, false) => "--rerun-if-interrupted".to_owned(),
    };
    format!("{IDEM} run --tool n{n} {options} -- sh n{n}.sh")
}

#[test]
fn whatever_dies_in_a_tree_of_steps_each_effect_counts_once_and_the_root_tells_of_all() {
    let seed = new_seed();
    let numbers: Vec<usize> = (0..TREES).collect();
    let arrivals: usize = std::thread::scope(|scope| {
        let work = |numbers: &[usize]| {
            let numbers = numbers.to_vec();
            scope.spawn(move || {
                let one = |number: usize| {
                    let tree = Tree::new(seed, number);
                    let arrivals = tree.run(&mut Random::new(seed, "arrivals", number));
                    tree.is_whole();
                    arrivals
                };
                numbers.into_iter().map(one).sum::<usize>()
            })
        };
        let workers: Vec<_> = numbers.chunks(TREES / 2).map(work).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure)))
            .sum()
    });
    assert!(arrivals > TREES, "some of them died: {arrivals} arrivals with FAULT_SEED={seed}");
}
