//! Bytes of the store are damaged at random places. Nothing crashes and nothing hangs; what is refused, right and
//! wrong is counted (docs/testing.md says what can't be noticed, and why).

use std::fs;
use std::path::Path;

use crate::after::{OUT, call};
use crate::env::{Answer, Call, Random, TestEnv, new_seed, set_mode};
use crate::points::{DOUBLE_RUN, Figures, LOST_RESULT, at, try_points};

/// How many damages `cargo test` tries, and a full run.
const QUICK: usize = 200;
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

/// The files of a store in use, as a kill leaves them: with a log that is not taken in, and the shared memory.
struct Store {
    env: TestEnv,
    files: Vec<(&'static str, Vec<u8>)>,
}

fn held(env: &TestEnv) -> Call<'_> {
    env.run("held").external().counting("echo half; exit 7")
}

fn large(env: &TestEnv) -> Call<'_> {
    env.run("large").counting("seq 5000")
}

impl Store {
    fn make() -> Store {
        let env = TestEnv::new();
        for n in 0..12 {
            env.run("before").params(&n.to_string()).script("seq 100").answer().exits(0);
        }
        large(&env).answer().exits(0);
        held(&env).answer().exits(7);
        call(&env).answer().exits(0);
        call(&env).answer().exits(0);
        let read = |suffix| (suffix, fs::read(env.beside_store(suffix)).expect("a file of the store"));
        let files = ["", "-wal", "-shm", "-arrivals"].map(read).to_vec();
        Store { env, files }
    }

    /// A world with this store, one of its files damaged.
    fn damaged(&self, file: &str, damage: Damage, random: &mut Random) -> TestEnv {
        let env = TestEnv::new();
        let folder = env.state_home().join("idem");
        fs::create_dir(&folder).expect("the store's folder");
        set_mode(&folder, 0o700);
        for (suffix, bytes) in &self.files {
            let mut bytes = bytes.clone();
            if *suffix == file {
                damage.act(&mut bytes, random);
            }
            write(&env.beside_store(suffix), &bytes);
        }
        fs::hard_link(self.env.beside_store("-lock"), env.beside_store("-lock")).expect("one file system");
        env
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file of the store");
    set_mode(path, 0o600);
}

/// Fails unless an answer is refused or right: a replay, or held, with exactly this on stdout.
#[track_caller]
fn is_refused_or_right(env: &TestEnv, answer: &Answer, code: i32, stdout: &str) {
    let text = answer.text() + &answer.messages();
    assert!(answer.code().is_some() && !text.contains("panicked"), "a crash\n{answer}");
    assert_eq!(env.runs(), 0, "{DOUBLE_RUN}: after a damage\n{answer}");
    if answer.code() == Some(125) {
        answer.says("nothing was run");
    } else {
        assert_eq!(answer.code(), Some(code), "another code\n{answer}");
        assert!(answer.text() == stdout, "{LOST_RESULT}: other bytes\n{answer}");
    }
}

fn try_damages(room: &str, file: &'static str) -> Figures {
    let (store, seed) = (Store::make(), new_seed());
    // As many in a quick run as in a full one are there to be drawn from.
    let points: Vec<usize> = (0..FULL).collect();
    try_points(room, &points, QUICK, |&turn| {
        let mut random = Random::new(seed, file, turn);
        let damage = DAMAGES[random.below(DAMAGES.len())];
        at(&format!("idem.db{file}, {damage:?}, turn {turn}"), || {
            let env = store.damaged(file, damage, &mut random);
            is_refused_or_right(&env, &call(&env).answer(), 0, OUT);
            is_refused_or_right(&env, &held(&env).answer(), 121, "");
            is_refused_or_right(&env, &large(&env).answer(), 0, &crate::env::seq(5000));
        });
    })
}

#[test]
fn damaged_shared_memory_changes_no_answer() {
    try_damages("damage of the shared memory", "-shm").are_clean();
}

#[test]
fn a_damaged_log_of_arrivals_changes_no_answer() {
    try_damages("damage of the log of arrivals", "-arrivals").are_clean();
}

/// What SQLite doesn't notice, idem doesn't either: a page has no checksum, so text may have changed within it.
#[test]
fn a_damaged_store_crashes_nobody_and_is_mostly_refused_or_right() {
    try_damages("damage of the store", "").have_only(&[LOST_RESULT, DOUBLE_RUN]);
}

/// A log that is damaged at a frame looks like one that a power cut ended there: what came later is gone.
#[test]
fn a_damaged_log_crashes_nobody_and_leaves_an_earlier_store_at_worst() {
    try_damages("damage of the write-ahead log", "-wal").have_only(&[DOUBLE_RUN]);
}
