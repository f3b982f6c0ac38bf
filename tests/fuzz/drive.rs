//! The fuzzer: takes inputs of the corpus, changes them, and keeps those that made the program do something new.
//!
//! A seed gives the same inputs in the same order everywhere. What fails is made as small as it goes, written into the
//! corpus, where it is tried first by every later run, and told with the seed.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Once;

use crate::mutate::{Language, mutate};
use crate::rng::{Rng, seed};

/// What an input made the program do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Whether it was taken; else it was refused.
    pub(crate) taken: bool,
    /// What else can be told of it: inputs that differ here are kept, to be changed further.
    pub(crate) feature: u64,
}

impl Seen {
    pub(crate) fn new(taken: bool, feature: impl Hash) -> Seen {
        let mut hasher = DefaultHasher::new();
        (taken, feature).hash(&mut hasher);
        Seen { taken, feature: hasher.finish() }
    }
}

/// A fuzzer of one target.
pub(crate) struct Fuzz<'a> {
    /// The corpus' folder below `tests/fuzz/corpus`.
    pub(crate) corpus: &'static str,
    /// Inputs that stand elsewhere in the repository.
    pub(crate) more: Vec<Vec<u8>>,
    /// What inputs are made of.
    pub(crate) language: Language<'a>,
    /// How many inputs a quick run makes; a full one (`IDEM_TEST_FULL=1`) makes a hundred times as many.
    pub(crate) inputs: usize,
}

impl Fuzz<'_> {
    /// Tries the corpus and what comes of it. `check` fails by a panic; what it needs of chance comes from its own seed.
    pub(crate) fn run(self, mut check: impl FnMut(&[u8], &mut Rng) -> Seen) {
        let seed = seed();
        let mut rng = Rng::new(seed);
        let mut pool = corpus(self.corpus);
        pool.extend(self.more);
        let (seeds, mut seen, mut taken) = (pool.len(), HashSet::new(), 0);
        assert!(seeds > 3, "the corpus of {} is gone", self.corpus);
        let inputs = if full() { self.inputs * 100 } else { self.inputs };
        for number in 0..seeds + inputs {
            let input = if number < seeds { pool[number].clone() } else { mutate(&pool, self.language, &mut rng) };
            let own = rng.next();
            let mut once = |input: &[u8]| check(input, &mut Rng::new(own));
            match quietly(|| once(&input)) {
                Ok(now) => {
                    taken += usize::from(now.taken);
                    // What is taken leads on further than what is refused.
                    if seen.insert(now.feature) && number >= seeds && (now.taken || rng.one_in(4)) {
                        pool.push(input);
                    }
                }
                Err(_) => {
                    let small = minimal(input, |smaller| quietly(|| once(smaller)).is_err());
                    let path = keep(self.corpus, &small);
                    let shown = small.escape_ascii();
                    told(&format!(
                        "{}: input {number} of IDEM_TEST_SEED={seed} fails, in short {shown}; kept as {}",
                        self.corpus,
                        path.display()
                    ));
                    once(&small);
                    panic!("it failed once only");
                }
            }
        }
        let all = seeds + inputs;
        told(&format!("{}: seed {seed}, {all} inputs, {taken} taken, {} behaviours", self.corpus, seen.len()));
        // A fuzzer whose inputs are all refused, or all taken, has stopped looking.
        assert!((all / 50..all - all / 50).contains(&taken), "{taken} of {all} inputs of {} are taken", self.corpus);
    }
}

/// Tells whether this is the long run.
pub(crate) fn full() -> bool {
    std::env::var_os("IDEM_TEST_FULL").is_some_and(|value| value == "1")
}

/// Prints what a run came to, for `--nocapture`.
#[expect(clippy::print_stderr, reason = "a test's figures are for the person who runs it")]
pub(crate) fn told(text: &str) {
    eprintln!("{text}");
}

fn folder(corpus: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(corpus)
}

/// Reads a corpus: a file is an input, or with the ending `.lines` each of its lines.
pub(crate) fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(folder(name)).expect(name).map(|entry| entry.expect(name).path()).collect();
    paths.sort();
    let mut inputs = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).expect("a file of the corpus");
        if path.extension().is_some_and(|extension| extension == "lines") {
            inputs.extend(bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec));
        } else {
            inputs.push(bytes);
        }
    }
    inputs
}

/// Writes what failed into the corpus.
fn keep(corpus: &str, input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder(corpus).join(format!("found-{:016x}", hasher.finish()));
    // Where it can't be written it is still told.
    let _ = fs::write(&path, input);
    path
}

/// Takes away from an input what it needs not to fail: halves, then smaller and smaller pieces, then single bytes.
fn minimal(mut input: Vec<u8>, fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut fails = fails;
    let mut size = input.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < input.len() {
            let smaller = [&input[..at], &input[(at + size).min(input.len())..]].concat();
            if fails(&smaller) {
                input = smaller;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    input
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs what may panic, without the panic's text.
fn quietly<T>(run: impl FnOnce() -> T) -> std::thread::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    result
}

#[test]
fn what_fails_is_made_small() {
    let small = minimal(b"a long text with an x and another y in it".to_vec(), |text| {
        quietly(|| assert!(!(text.contains(&b'x') && text.contains(&b'y')))).is_err()
    });
    assert_eq!(small, b"xy");
}
