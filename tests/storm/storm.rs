//! A storm: its size, its course, and what is asked of it afterwards.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::env::{Random, TestEnv};
use crate::facts::Fact;
use crate::harness::tell;
use crate::journal::Journal;
use crate::oracle;
use crate::standing::Standing;
use crate::worker::Worker;

/// How many calls there are; those with steps have two more each.
pub(crate) const KEYS: usize = 50;

/// A storm, its journal, and the homes that its idems live in.
pub(crate) struct Storm {
    pub(crate) journal: Journal,
    pub(crate) homes: Vec<TestEnv>,
    /// What is added to the environment of each idem.
    pub(crate) vars: Vec<(&'static str, &'static str)>,
    /// A part that is played in idem's place.
    pub(crate) in_its_place: Option<&'static str>,
    /// Whether idem may find no store.
    pub(crate) store_goes_away: bool,
    /// This program, whose parts are the commands.
    pub(crate) exe: String,
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    start: Instant,
    lasts: Duration,
    numbers: AtomicU64,
}

impl Storm {
    /// A storm of the asked-for size in these homes.
    pub(crate) fn new(homes: Vec<TestEnv>) -> Storm {
        let exe = std::env::current_exe().expect("this program").to_str().expect("a path in UTF-8").to_owned();
        Storm {
            journal: Journal::at(&homes[0].file("storm")),
            homes,
            vars: Vec::new(),
            in_its_place: None,
            store_goes_away: false,
            exe,
            seed: setting("IDEM_TEST_SEED").unwrap_or_else(new_seed),
            workers: usize::try_from(setting("IDEM_TEST_STORM_WORKERS").unwrap_or(16)).expect("a number of workers"),
            start: Instant::now(),
            lasts: Duration::from_secs(setting("IDEM_TEST_STORM_SECONDS").unwrap_or(10)),
            numbers: AtomicU64::new(1),
        }
    }

    /// The same storm for so long, with so many.
    pub(crate) fn of(self, lasts: Duration, workers: usize) -> Storm {
        Storm { lasts, workers, ..self }
    }

    pub(crate) fn key(&self, number: usize) -> String {
        format!("k{number}")
    }

    pub(crate) fn is_over(&self) -> bool {
        self.start.elapsed() >= self.lasts
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn complain(&self, key: &str, text: String) {
        self.journal.write(&Fact::Complaint { key: key.to_owned(), text });
    }

    /// Lets it rage, with something else going on meanwhile.
    pub(crate) fn rage(&mut self, meanwhile: impl FnOnce(&Storm)) {
        self.start = Instant::now();
        let storm = &*self;
        tell(format_args!(
            "a storm of {} s with {} workers; again with IDEM_TEST_SEED={}\n",
            storm.lasts.as_secs(),
            storm.workers,
            storm.seed
        ));
        thread::scope(|threads| {
            for n in 0..storm.workers {
                let home = &storm.homes[n % storm.homes.len()];
                let worker = Worker { storm, home, random: Random::new(storm.seed, "worker", n) };
                threads.spawn(move || worker.work());
            }
            meanwhile(storm);
        });
    }

    /// What stands against idem after the storm. Tells the figures.
    pub(crate) fn verdict(&self, standing: &Standing) -> Vec<oracle::Violation> {
        let facts = self.journal.read();
        let (violations, figures) = oracle::judge(&facts, standing);
        tell(format_args!("{figures}, {} violations\n", violations.len()));
        violations
    }

    /// Fails where a promise was broken, with all that is known of the first key that it was broken for.
    #[track_caller]
    pub(crate) fn kept_every_promise(&self, standing: &Standing) {
        let violations = self.verdict(standing);
        let Some(first) = violations.first() else { return };
        let kept = self.keep_journal();
        for violation in &violations[..violations.len().min(30)] {
            tell(format_args!("{violation}\n"));
        }
        for (n, fact) in self.journal.read().iter().enumerate().filter(|(_, fact)| fact.key() == first.key) {
            tell(format_args!("{n:6} {fact:?}\n"));
        }
        for row in standing.rows.iter().filter(|row| row.key == first.key) {
            tell(format_args!("{row:?}\n"));
        }
        panic!("{} violations, IDEM_TEST_SEED={}; the journal: {}", violations.len(), self.seed, kept.display());
    }

    /// Keeps the journal beyond the storm's folders.
    fn keep_journal(&self) -> PathBuf {
        let kept = std::env::temp_dir().join(format!("idem-storm-{}.journal", self.seed));
        fs::copy(self.journal.folder().join("journal"), &kept).expect("a copy of the journal");
        kept
    }
}

pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}

/// The storm on a store in a file.
pub(crate) fn in_a_file() {
    let mut storm = Storm::new(vec![TestEnv::new()]);
    storm.rage(|_| {});
    let standing = storm.last_look();
    storm.kept_every_promise(&standing);
}
