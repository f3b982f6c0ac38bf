//! Bytes of the store are damaged at random places. Nothing crashes and nothing hangs; what is refused, right and
//! wrong is counted (docs/testing.md says what can't be noticed, and why).

mod log;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::after::OUT;
use crate::env::{Answer, Call, Random, TestEnv, set_mode};
use crate::points::{DOUBLE_RUN, Figures, LOST_RESULT, at, seed, try_points};

/// How many damages `cargo test` tries, and a full run.
const QUICK: usize = 120;
const FULL: usize = 6000;

/// What happens to the bytes of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Bit,
    Byte,
    Sector,
    Page,
    Noise,
    Cut,
}

const DAMAGES: [Damage; 6] = [Damage::Bit, Damage::Byte, Damage::Sector, Damage::Page, Damage::Noise, Damage::Cut];

impl Damage {
    fn act(self, bytes: &mut Vec<u8>, random: &mut Random) {
        let place = random.below(bytes.len());
        let mut fill = |from: usize, length: usize, what: &mut dyn FnMut() -> u8| {
            bytes.iter_mut().skip(from).take(length).for_each(|byte| *byte = what());
        };
        match self {
            Damage::Bit => {
                let bit = random.below(8);
                bytes[place] ^= 1 << bit;
            }
            Damage::Byte => {
                bytes[place] = bytes[place].wrapping_add(u8::try_from(1 + random.below(255)).expect("a byte"));
            }
            Damage::Sector => fill(place / 512 * 512, 512, &mut || 0),
            Damage::Page => fill(place / 4096 * 4096, 4096, &mut || 0),
            Damage::Noise => fill(place, 64, &mut || u8::try_from(random.below(256)).expect("a byte")),
            Damage::Cut => bytes.truncate(place),
        }
    }
}

/// A call of the story, and what its command does.
struct Asked {
    tool: &'static str,
    external: bool,
    script: &'static str,
    code: i32,
}

const BEFORE: Asked = Asked { tool: "before", external: false, script: "seq 100", code: 0 };

/// Those whose answers are looked at, in the order in which they came.
const ASKED: [Asked; 6] = [
    BEFORE,
    Asked { tool: "released", external: false, script: "echo no; exit 3", code: 3 },
    Asked { tool: "large", external: false, script: "seq 5000", code: 0 },
    Asked { tool: "external", external: true, script: "echo sent", code: 0 },
    Asked { tool: "held", external: true, script: "echo half; exit 7", code: 7 },
    Asked { tool: "t", external: false, script: "echo out; echo err >&2", code: 0 },
];

impl Asked {
    fn arrive<'a>(&self, env: &'a TestEnv) -> Call<'a> {
        let call = env.run(self.tool).counting(self.script);
        if self.external { call.external() } else { call }
    }

    fn stdout(&self) -> String {
        match self.tool {
            "before" => crate::env::seq(100),
            "large" => crate::env::seq(5000),
            "external" => "sent\n".to_owned(),
            "held" => "half\n".to_owned(),
            "released" => "no\n".to_owned(),
            _ => OUT.to_owned(),
        }
    }

    /// Fails unless this is the one right answer for a store that has the call's newest attempt in this state.
    ///
    /// Of an attempt that is running there the owner is dead: the end that it recorded came later than this store.
    #[track_caller]
    fn is_right(&self, state: &str, answer: &Answer, ran: usize) {
        let (runs, code, stdout) = match state {
            "completed" => (0, self.code, self.stdout()),
            "running" | "held" => (0, 121, String::new()),
            "released" | "" => (1, self.code, self.stdout()),
            other => panic!("the story has no call that is {other}"),
        };
        assert_eq!(ran, runs, "{DOUBLE_RUN}: of a call that is {state:?}\n{answer}");
        let right = answer.code() == Some(code) && answer.text() == stdout;
        let marked = answer.is_marked_as_replay() == (state == "completed");
        assert!(right && marked, "{LOST_RESULT}: another answer of a call that is {state:?}\n{answer}");
    }
}

/// The states of the calls that are asked for, in their order; of one that isn't there none.
type States = Vec<String>;

/// The files of a store in use, as a kill leaves them: with a log that is not taken in, and the shared memory.
struct Store {
    env: TestEnv,
    files: Vec<(&'static str, Vec<u8>)>,
    /// By where the log ends: what the store then has.
    earlier: BTreeMap<usize, States>,
}

impl Store {
    /// `in_log`: that the log has all of the calls that are asked for, from before the first one on.
    fn make(in_log: bool) -> Store {
        let env = TestEnv::new();
        for n in 0..12 {
            env.run("other").params(&n.to_string()).script("seq 100").answer().exits(0);
        }
        // It keeps the log from being taken in and begun anew.
        let reader = in_log.then(|| Reader::begin(&env));
        for asked in &ASKED {
            asked.arrive(&env).answer().exits(asked.code);
        }
        ASKED[5].arrive(&env).answer().exits(0).is_a_replay();
        let read = |suffix| (suffix, fs::read(env.beside_store(suffix)).expect("a file of the store"));
        let files = ["", "-wal", "-shm", "-arrivals"].map(read).to_vec();
        drop(reader);
        let mut store = Store { env, files, earlier: BTreeMap::new() };
        // Else an earlier log would be older than the store that it belongs to.
        assert_eq!(log::taken_in(store.file("-shm")), 0, "nothing of the log is in the store yet");
        let log = store.file("-wal").to_vec();
        for end in [0].into_iter().chain(log::commits(&log)) {
            let env = store.with("-wal", |bytes| bytes.truncate(end));
            store.earlier.insert(end, states(&env));
        }
        let all: Vec<&str> = store.earlier.values().flatten().map(String::as_str).collect();
        for state in ["", "running", "completed", "held", "released"] {
            assert!(!in_log || all.contains(&state), "the story has no call that was {state:?}: {all:?}");
        }
        store
    }

    fn file(&self, suffix: &str) -> &[u8] {
        &self.files.iter().find(|(name, _)| *name == suffix).expect("a file of the store").1
    }

    /// A world with this store, one of its files changed.
    fn with(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> TestEnv {
        let (env, mut change) = (TestEnv::new(), Some(change));
        let folder = env.state_home().join("idem");
        fs::create_dir(&folder).expect("the store's folder");
        set_mode(&folder, 0o700);
        for (suffix, bytes) in &self.files {
            let mut bytes = bytes.clone();
            if *suffix == file {
                change.take().expect("one file of this name")(&mut bytes);
            }
            write(&env.beside_store(suffix), &bytes);
        }
        fs::hard_link(self.env.beside_store("-lock"), env.beside_store("-lock")).expect("one file system");
        env
    }

    /// What the store has once SQLite has read this log: all up to the first damage, and nothing behind it.
    fn states(&self, log: &[u8]) -> &States {
        let end = log::commits(log).last().copied().unwrap_or(0);
        self.earlier.get(&end).expect("a transaction of the log as it was written")
    }
}

/// What the store has of the calls that are asked for.
fn states(env: &TestEnv) -> States {
    let tools = ASKED.map(|asked| format!("('{}')", asked.tool)).join(", ");
    let newest = "SELECT state FROM claim WHERE tool = column1 ORDER BY id DESC LIMIT 1";
    env.rows(&format!("SELECT ({newest}) FROM (VALUES {tools})"))
}

/// Somebody who reads the store itself and nothing of its log, which nobody takes in meanwhile.
struct Reader(Child);

impl Reader {
    fn begin(env: &TestEnv) -> Reader {
        let mut sqlite3 = Command::new("sqlite3");
        let piped = sqlite3.args(["-batch", "-init", "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.arg(env.store()).spawn().expect("sqlite3");
        let words = "PRAGMA wal_checkpoint(TRUNCATE); BEGIN; SELECT count(*) FROM claim; SELECT 'reads';\n";
        child.stdin.as_mut().expect("its stdin").write_all(words.as_bytes()).expect("words for sqlite3");
        let mut said = BufReader::new(child.stdout.as_mut().expect("its stdout")).lines();
        assert!(said.any(|line| line.expect("a line of sqlite3's") == "reads"), "it has begun to read");
        Reader(child)
    }
}

/// By a kill: one that ends by itself takes the log in, since it is the last one.
impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file of the store");
    set_mode(path, 0o600);
}

/// Damages one of the files again and again. `refusing`: that the store is refused is an answer too.
fn try_damages(room: &str, file: &'static str, refusing: bool) -> Figures {
    // Of the store itself more is damaged where its log has less of it.
    let (store, seed) = (Store::make(!file.is_empty()), seed());
    // As many in a quick run as in a full one are there to be drawn from.
    let points: Vec<usize> = (0..FULL).collect();
    try_points(room, &points, QUICK, |&turn| {
        let mut random = Random::new(seed, file, turn);
        let damage = DAMAGES[random.below(DAMAGES.len())];
        at(&format!("idem.db{file}, {damage:?}, turn {turn}"), || {
            let env = store.with(file, |bytes| damage.act(bytes, &mut random));
            // Read before anybody opens the store, who may begin the log anew.
            let log = fs::read(env.beside_store("-wal")).expect("the log");
            for (asked, state) in ASKED.iter().zip(store.states(&log)) {
                let before = env.runs();
                let answer = asked.arrive(&env).answer();
                let text = answer.text() + &answer.messages();
                assert!(answer.code().is_some() && !text.contains("panicked"), "a crash\n{answer}");
                let ran = env.runs() - before;
                if refusing && answer.code() == Some(125) {
                    assert_eq!(ran, 0, "{DOUBLE_RUN}: it says that it refused\n{answer}");
                    answer.says("nothing was run");
                } else {
                    asked.is_right(state, &answer, ran);
                }
            }
        });
    })
}

#[test]
fn damaged_shared_memory_changes_no_answer() {
    try_damages("damage of the shared memory", "-shm", false).are_clean();
}

#[test]
fn a_damaged_log_of_arrivals_changes_no_answer() {
    try_damages("damage of the log of arrivals", "-arrivals", false).are_clean();
}

/// What SQLite doesn't notice, idem doesn't either: a page has no checksum, so text may have changed within it.
#[test]
fn a_damaged_store_crashes_nobody_and_is_mostly_refused_or_right() {
    try_damages("damage of the store", "", true).have_only(&[LOST_RESULT, DOUBLE_RUN]);
}

/// A log that is damaged at a frame looks like one that a power cut ended there: what came later is gone, and each answer is
/// the one that the store gave at that time.
#[test]
fn a_damaged_log_leaves_an_earlier_store_and_each_answer_is_that_stores() {
    try_damages("damage of the write-ahead log", "-wal", false).are_clean();
}
