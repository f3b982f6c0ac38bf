//! Many points of one kind, tried on all processors, and the figures of what came of them.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use crate::env::new_seed;

/// The seed of a quick run that is told none: whether a change passes is not to be drawn by lot.
const QUICK: u64 = 1;

/// After how many points a full run tells how far it is: it may be ended before its end.
const TELL_EVERY: usize = 500;

/// Whether every point is tried, and not only some of them.
pub(crate) fn full() -> bool {
    std::env::var_os("IDEM_TEST_FULL").is_some()
}

/// The seed of this run, of all its rooms alike: `FAULT_SEED`; else of a quick run always the same, of a full one another
/// each time.
pub(crate) fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let told = std::env::var_os("FAULT_SEED").is_some();
        if told || full() { new_seed() } else { QUICK }
    });
    *SEED
}

/// What a point can show. Its word begins the message of the panic that reports it.
pub(crate) const DOUBLE_RUN: &str = "double run";
pub(crate) const LOST_RESULT: &str = "lost result";
pub(crate) const DAMAGED: &str = "damaged store";
const HANG: &str = "hang";
const OTHER: &str = "other";

/// What came of the points of one room.
pub(crate) struct Figures {
    room: String,
    seed: u64,
    tried: usize,
    of: usize,
    wrong: BTreeMap<&'static str, Vec<String>>,
}

/// Tries points: all of them in a full run, else about `quick` of them.
pub(crate) fn try_points<P: Sync>(
    room: impl Into<String>,
    points: &[P],
    quick: usize,
    try_one: impl Fn(&P) + Sync,
) -> Figures {
    try_some(room, points, if full() { points.len() } else { quick }, try_one)
}

/// Tries about so many points, evenly spread from a start that the seed gives.
///
/// A point fails by a panic. It doesn't keep the others from being tried.
pub(crate) fn try_some<P: Sync>(
    room: impl Into<String>,
    points: &[P],
    count: usize,
    try_one: impl Fn(&P) + Sync,
) -> Figures {
    let (room, seed) = (room.into(), seed());
    let step = points.len().div_ceil(count.max(1)).max(1);
    let start = usize::try_from(seed % step as u64).expect("a step");
    let chosen: Vec<&P> = points.iter().skip(start).step_by(step).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<_, Vec<String>>::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from).max(2) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some(point) = chosen.get(number) else { break };
                    if full() && number > 0 && number % TELL_EVERY == 0 {
                        let _ = writeln!(io::stderr(), "{room}: {number} of {} points so far", chosen.len());
                    }
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| try_one(point))) {
                        let text = text_of(panic.as_ref());
                        if full() {
                            // At once: a full run takes its time.
                            let _ = writeln!(io::stderr(), "{room}: {}: {text}", kind_of(&text));
                        }
                        wrong.lock().expect("no holder panics").entry(kind_of(&text)).or_default().push(text);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no holder panics");
    Figures { room, seed, tried: chosen.len(), of: points.len(), wrong }
}

impl Figures {
    /// How many points showed anything.
    pub(crate) fn found(&self) -> usize {
        self.wrong.values().map(Vec::len).sum()
    }

    /// How many points showed this.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.wrong.get(kind).map_or(0, Vec::len)
    }

    /// Prints the figures, and fails unless nothing is wrong.
    #[track_caller]
    pub(crate) fn are_clean(&self) {
        self.have_only(&[]);
    }

    /// Prints the figures, and fails unless nothing is wrong but what is known to be possible.
    #[track_caller]
    pub(crate) fn have_only(&self, possible: &[&str]) {
        // Past the test's own capture: a full run is there for its figures.
        let _ = writeln!(io::stderr(), "{}", self.line());
        if let Some((kind, texts)) = self.wrong.iter().find(|(kind, _)| !possible.contains(kind)) {
            let some: Vec<&str> = texts.iter().take(5).map(String::as_str).collect();
            panic!("{}\n{kind}:\n{}\nrepeat with FAULT_SEED={}", self.line(), some.join("\n---\n"), self.seed);
        }
    }

    fn line(&self) -> String {
        let counts: Vec<String> = [DOUBLE_RUN, LOST_RESULT, HANG, DAMAGED, OTHER]
            .map(|kind| format!("{kind} {}", self.count(kind)))
            .into_iter()
            .collect();
        format!("{}: {} of {} points, {}", self.room, self.tried, self.of, counts.join(", "))
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

fn kind_of(text: &str) -> &'static str {
    // `wait_for` says this after its bound.
    if text.contains("waited in vain") {
        return HANG;
    }
    [DOUBLE_RUN, LOST_RESULT, DAMAGED].into_iter().find(|kind| text.contains(&format!("{kind}: "))).unwrap_or(OTHER)
}

/// Adds to the message of a panic at which point it came.
pub(crate) fn at<T>(point: &str, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| panic!("{point}: {}", text_of(panic.as_ref())))
}
