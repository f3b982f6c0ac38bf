//! The server is killed with -9 and comes back, again and again, while many run: the same promises.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::env::{Answer, Call, Random, TestEnv, new_seed};
use crate::server::Disk;
use crate::world::{World, pending};

const PROCESSES: usize = 16;
const KEYS: usize = 10;

/// The calls come in rounds of ten keys; a round is over when its time is, so that there is always something to run.
struct Load {
    world: World,
    ran: PathBuf,
    start: Instant,
    lasts: Duration,
}

/// What the answers came to.
#[derive(Default)]
struct Tally {
    ran: AtomicUsize,
    replayed: AtomicUsize,
    refused: AtomicUsize,
    held: AtomicUsize,
}

impl Load {
    /// One call, which leaves one line with its claim's number in a file of its key's before it exits.
    fn call<'a>(&self, home: &'a TestEnv, key: &str) -> Call<'a> {
        let script = format!("echo \"$IDEM_CLAIM\" >> {}/{key}; echo {key} done", self.ran.display());
        home.run("t").params(&format!("\"{key}\"")).args(["--seen-every", "500ms"]).script(&script)
    }

    /// The lines that a key's commands have left.
    fn lines(&self, key: &str) -> Vec<String> {
        fs::read_to_string(self.ran.join(key)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn round(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 / 700
    }

    /// One process after the other, on keys that others have, too.
    fn work(&self, home: &TestEnv, mut random: Random, tally: &Tally) {
        while self.start.elapsed() < self.lasts {
            let key = format!("r{}k{}", self.round(), random.below(KEYS));
            let answer = self.call(home, &key).answer();
            self.is_true(&key, &answer, tally);
        }
    }

    /// An answer to an arrival, held against what has happened.
    fn is_true(&self, key: &str, answer: &Answer, tally: &Tally) {
        let count = match answer.code() {
            Some(0) => {
                answer.prints(format!("{key} done\n"));
                assert_eq!(self.lines(key).len(), 1, "it ran once\n{answer}");
                if answer.is_marked_as_replay() { &tally.replayed } else { &tally.ran }
            }
            Some(125) => {
                answer.refuses();
                &tally.refused
            }
            Some(121) => {
                answer.prints("").is_a_first_run();
                &tally.held
            }
            code => panic!("{code:?} of {key}\n{answer}"),
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_server_that_dies_at_random_under_load_loses_nothing_and_runs_nothing_twice() {
    let Some(world) = World::of_its_own(Disk::Real) else { return };
    world.make_store();
    let seconds =
        std::env::var("IDEM_TEST_STORM_SECONDS").map_or(8, |seconds| seconds.parse().expect("a number of seconds"));
    let ran = world.shared_file("ran");
    fs::create_dir(&ran).expect("a folder");
    let load = Load { world, ran, start: Instant::now(), lasts: Duration::from_secs(seconds) };
    let (seed, tally) = (new_seed(), Tally::default());
    let homes: Vec<TestEnv> = (0..PROCESSES).map(|_| load.world.elsewhere()).collect();
    let mut deaths = 0;
    thread::scope(|threads| {
        for (n, home) in homes.iter().enumerate() {
            let (load, tally) = (&load, &tally);
            threads.spawn(move || load.work(home, Random::new(seed, "work", n), tally));
        }
        let mut random = Random::new(seed, "deaths", 0);
        while load.start.elapsed() < load.lasts {
            // No moment is the right one: the point is to hit as many different ones as there are.
            thread::sleep(random.up_to(Duration::from_millis(1200)));
            load.world.server().kill_9();
            deaths += 1;
            thread::sleep(random.up_to(Duration::from_millis(400)));
            load.world.server().start_again();
        }
    });
    assert!(deaths > 0 && tally.ran.load(Ordering::Relaxed) > 0, "FAULT_SEED={seed}");

    // Whatever waits on a host is delivered by the next idem there.
    for home in &homes {
        home.idem(["list", "--limit", "1"]).answer().exits(0);
        assert_eq!(pending(home), Vec::<PathBuf>::new(), "nothing is left to deliver, FAULT_SEED={seed}");
    }
    all_is_known(&load, &homes, seed, &tally);
}

/// Per key: at most one completed run, one line for a completed claim, and whoever comes last is told what became of it.
fn all_is_known(load: &Load, homes: &[TestEnv], seed: u64, tally: &Tally) {
    let world = &load.world;
    let twice = "SELECT key FROM idem.claim WHERE state = 'completed' GROUP BY key HAVING count(*) > 1";
    assert_eq!(world.rows(twice), Vec::<String>::new(), "completed twice, FAULT_SEED={seed}");
    let rounds = load.round() + 1;
    let keys = (0..rounds).flat_map(|round| (0..KEYS).map(move |k| format!("r{round}k{k}")));
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for (n, key) in keys.enumerate() {
        let before = load.lines(&key);
        assert!(before.len() <= 1, "{key} ran for claims {before:?}, FAULT_SEED={seed}");
        let last = load.call(&homes[n % homes.len()], &key).answer();
        match (last.code(), before.len()) {
            // What ran is known and replayed; what never ran may run now.
            (Some(0), 1) => drop(last.is_a_replay()),
            (Some(0), 0) => drop(last.is_a_first_run()),
            // A claim whose command never started, and nobody can know that.
            (Some(121), 0) => {}
            (code, _) => panic!("{code:?}: the outcome of {key} is lost, FAULT_SEED={seed}\n{last}"),
        }
        let after = load.lines(&key);
        assert!(
            after.len() <= 1 && after.len() >= before.len(),
            "{key}: {before:?} {after:?}, FAULT_SEED={seed}\n{last}"
        );
        if let [claim] = &after[..] {
            let row = world.rows(&format!("SELECT state, exit_code FROM idem.claim WHERE id = {claim}"));
            assert_eq!(row, ["completed|0"], "{key}, FAULT_SEED={seed}");
        }
        *ends.entry(format!("{:?} after {} runs", last.code(), before.len())).or_default() += 1;
    }
    let running = world.rows("SELECT count(*) FROM idem.claim WHERE state = 'running'");
    assert_eq!(running, ["0"], "every outcome is known, FAULT_SEED={seed}");
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let _ = std::io::Write::write_fmt(
        &mut std::io::stderr(),
        format_args!(
            "{} runs, {} replays, {} refusals, {} held; at the end {ends:?}\n",
            count(&tally.ran),
            count(&tally.replayed),
            count(&tally.refused),
            count(&tally.held)
        ),
    );
}
