//! The write-ahead log of an SQLite store: who takes it in, and when.

use std::cell::Cell;

use idem::domain::claim::{Chunk, Stream};
use idem::domain::prune::Pruning;
use idem::domain::store::Store;
use idem::store::sqlite::SqliteStore;
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use crate::contract::{self, Stores};
use crate::prune::all;
use crate::{SqliteFolder, claimed};

/// Somebody who looks at a store's log from outside.
struct Looker {
    conn: Connection,
    /// How many claims were made for it.
    claims: Cell<i32>,
}

impl Looker {
    fn of(stores: &SqliteFolder) -> Looker {
        let conn = Connection::open(stores.0.path().join("idem.db")).expect("another program");
        Looker { conn, claims: Cell::new(0) }
    }

    /// How many frames the log has, and how many of them wait to be taken in.
    fn frames(&self) -> (i32, i32) {
        // The figures are those of what it has read last.
        self.conn.query_row("SELECT count(*) FROM claim", [], |_| Ok(())).expect("its reading");
        let (all, done) = self.conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::NOOP).expect("figures of the log");
        (all, all - done)
    }

    fn waiting(&self) -> i32 {
        self.frames().1
    }
}

/// Claims until so many frames wait.
fn claim_until(store: &mut SqliteStore, looker: &Looker, frames: i32) {
    let few = looker.claims.get();
    while looker.waiting() < frames {
        let number = looker.claims.replace(looker.claims.get() + 1);
        assert!(number < few + frames, "the log doesn't grow");
        contract::inserted(store, &contract::call(&format!("n{number}")));
    }
}

/// Housekeeping takes in a log that has become long, and leaves a short one for later.
#[test]
fn upkeep_takes_in_a_log_that_has_become_long() {
    let stores = SqliteFolder::new();
    let mut store = stores.open();
    let looker = Looker::of(&stores);
    claimed(&mut store);
    let few = looker.waiting();
    assert!(few > 0 && few < 40, "{few}");
    store.upkeep().expect("upkeep works");
    assert_eq!(looker.waiting(), few);
    claim_until(&mut store, &looker, 40);
    store.upkeep().expect("upkeep works");
    assert_eq!(looker.waiting(), 0);
}

/// Somebody else who is just taking the log in, or was stopped while he was, is in nobody's way.
#[test]
fn whoever_takes_the_log_in_is_neither_waited_for_nor_an_error() {
    use idem::lock::{self, Mode};
    // The byte that SQLite locks for it: 120 and 1 of its locks in the shared memory.
    const TAKES_IN: i64 = 121;
    let stores = SqliteFolder::new();
    let mut store = stores.open();
    let looker = Looker::of(&stores);
    claim_until(&mut store, &looker, 40);
    let shared = lock::open(&stores.0.path().join("idem.db-shm")).expect("the shared memory");
    assert!(lock::try_lock(&shared, TAKES_IN, Mode::Exclusive).expect("locking works"));
    store.upkeep().expect("what can't be done now is done later");
    assert!(looker.waiting() >= 40);
    lock::unlock(&shared, TAKES_IN).expect("unlocking works");
    store.upkeep().expect("upkeep works");
    assert_eq!(looker.waiting(), 0);
}

/// To take the log in syncs the store's file, for as long as that takes, and whoever writes next would wait for it.
#[test]
fn a_claim_and_its_end_take_no_log_in() {
    let stores = SqliteFolder::new();
    let mut store = stores.open();
    let looker = Looker::of(&stores);
    claim_until(&mut store, &looker, 1100);
    let id = claimed(&mut store);
    store.finish(id, &contract::landed(), &[]).expect("finishing works");
    assert!(looker.waiting() >= 1100);
}

/// While a command writes without end, nobody else needs to come for the log to stay short.
#[test]
fn output_takes_in_the_log_that_it_makes_long() {
    let stores = SqliteFolder::new();
    let mut store = stores.open();
    let looker = Looker::of(&stores);
    let id = claimed(&mut store);
    let chunk = Chunk { stream: Stream::Stdout, data: vec![b'x'; 1 << 20] };
    let mut longest = 0;
    for _ in 0..48 {
        store.append_output(id, std::slice::from_ref(&chunk), 0, true).expect("appending works");
        longest = looker.frames().0.max(longest);
    }
    assert!((4096..5000).contains(&longest), "16 MiB of the 48: {longest}");
}

fn prune(store: &mut SqliteStore, apply: bool, during: &mut dyn FnMut()) {
    store.prune(&Pruning { apply, ..all() }, &mut |_| during()).expect("pruning works");
}

/// A prune writes much: it takes that in itself, and lets the log begin anew. Runs that go on meanwhile are spared it, unless it
/// becomes too long for whoever opens the store next.
#[test]
fn whoever_prunes_takes_the_log_in_for_all() {
    let stores = SqliteFolder::new();
    let (mut store, mut run) = (stores.open(), stores.open());
    let looker = Looker::of(&stores);
    let chunk = Chunk { stream: Stream::Stdout, data: vec![b'x'; 12 << 10] };
    for number in 0..2500 {
        let (id, _) = contract::inserted(&mut store, &contract::call(&format!("old{number}")));
        contract::finish_with(&mut store, id, &contract::landed(), 0, std::slice::from_ref(&chunk));
    }
    store.upkeep().expect("upkeep works");
    prune(&mut store, false, &mut || {
        claim_until(&mut run, &looker, 40);
        run.upkeep().expect("upkeep works");
        assert_eq!(looker.waiting(), 0, "who only counts takes nothing in");
    });
    // How much a piece writes is a question of speed: a fast machine writes fewer and larger ones. All in one it is still 800.
    let (mut written, mut before) = (0, 0);
    prune(&mut store, true, &mut || {
        let (all, waiting) = looker.frames();
        assert!(waiting < 400, "{waiting} wait after a piece");
        written += if all > before { all - before } else { all };
        before = all;
        if written < 1000 {
            claim_until(&mut run, &looker, waiting.max(40));
            run.upkeep().expect("upkeep works");
            assert!(looker.waiting() >= 40, "left to whoever prunes");
        }
    });
    assert!(written > 400, "the prune wrote enough to tell: {written}");
    claim_until(&mut run, &looker, 40);
    run.upkeep().expect("upkeep works");
    assert_eq!(looker.waiting(), 0);
}

/// However dutiful somebody is, a log of 16 MiB is taken in by the next run.
#[test]
fn a_run_takes_in_a_log_that_is_too_long_for_any_duty() {
    let stores = SqliteFolder::new();
    let (mut store, mut run) = (stores.open(), stores.open());
    let looker = Looker::of(&stores);
    for name in ["old", "newest"] {
        let (id, _) = contract::inserted(&mut store, &contract::call(name));
        store.finish(id, &contract::landed(), &[]).expect("finishing works");
    }
    let mut pieces = 0;
    prune(&mut store, true, &mut || {
        pieces += 1;
        claim_until(&mut run, &looker, 4096);
        run.upkeep().expect("upkeep works");
        assert_eq!(looker.waiting(), 0);
    });
    assert!(pieces > 0);
}
