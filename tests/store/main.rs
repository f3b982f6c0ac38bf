//! The contract of `Store`, one generic test run against every implementation.

mod contract;
mod groups;
mod prune;
mod unknown;

use idem::store::SqlitePlace;
use idem::store::sqlite::SqliteStore;

/// A store in a folder of its own; opening again gives another handle to the same claims.
struct SqliteFolder(tempfile::TempDir);

impl contract::Stores for SqliteFolder {
    type Store = SqliteStore;

    fn new() -> Self {
        SqliteFolder(tempfile::tempdir().expect("a folder"))
    }

    fn open(&self) -> SqliteStore {
        let path = self.0.path().join("idem.db");
        SqliteStore::open(&SqlitePlace::at(path, false)).expect("the store opens")
    }
}

contract::tests!(super::SqliteFolder);

fn claimed(store: &mut SqliteStore) -> i64 {
    contract::inserted(store, &contract::call("t")).0
}

/// Housekeeping runs while a command does: it must not make that command's output wait for somebody else's transaction.
#[test]
fn upkeep_waits_for_no_writer() {
    use idem::domain::event::EventKind;
    use idem::domain::store::{Filter, Store};
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    store.arrived(id, EventKind::Replay, "a@b[1]").expect("logging works");
    let other = rusqlite::Connection::open(stores.0.path().join("idem.db")).expect("another program");
    other.execute_batch("BEGIN IMMEDIATE").expect("its transaction");
    store.upkeep().expect("what can't be done now is done later");
    let taken = |conn: &rusqlite::Connection| conn.query_row("SELECT taken FROM arrivals_log", [], |row| row.get(0));
    assert_eq!(taken(&other), Ok(0));
    other.execute_batch("ROLLBACK").expect("its end");
    store.upkeep().expect("upkeep works");
    assert!(taken(&other).is_ok_and(|taken: i64| taken > 0));
    assert_eq!(store.list(&Filter::default()).expect("listing works")[0].arrivals, 2);
}

/// An owner's patience with its store is its caller's: it is bounded, against other idems and against other programs.
#[test]
fn a_write_waits_no_longer_than_it_may() {
    use std::time::{Duration, Instant};

    use idem::domain::store::{Store, StoreError};
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    let mut other = rusqlite::Connection::open(stores.0.path().join("idem.db")).expect("another program");
    let lock = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("its transaction");
    for patience in [Duration::ZERO, Duration::from_millis(50)] {
        let began = Instant::now();
        store.set_patience(Some(patience));
        assert!(matches!(store.finish(id, &contract::landed(), &[]), Err(StoreError::Busy(_))));
        assert!(began.elapsed() >= patience && began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
    drop(lock);
    store.finish(id, &contract::landed(), &[]).expect("finishing works");
}

/// A file's store counts time by the host's uptime too: its clock is the host's, and somebody may set it.
#[test]
fn a_claim_has_the_uptime_of_its_host() {
    use idem::domain::store::Store;
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    let claim = store.get(id).expect("reading works").expect("the claim is there");
    assert!(!claim.uptime.boot.is_empty() && claim.uptime.millis > 0);
}

/// Much output goes in pieces of its own after its claim's row: all of it, in the end.
#[test]
fn much_output_goes_with_its_claim() {
    use idem::domain::claim::{Chunk, Stream};
    use idem::domain::prune::Pruning;
    use idem::domain::store::Store;
    use idem::domain::timestamp::Timestamp;
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    let chunk = Chunk { stream: Stream::Stdout, data: vec![b'x'; 128 * 1024] };
    contract::finish_with(&mut store, id, &contract::landed(), 0, &vec![chunk; 20]);
    let (newest, _) = contract::inserted(&mut store, &contract::call("newest"));
    let all = Pruning { ended_before: Timestamp(i64::MAX), who: None, conv: None, tool: None, apply: true };
    let pruned = store.prune(&all, &mut |_| {}).expect("pruning works");
    assert!(pruned.completed == 1 && pruned.bytes > 20 * 128 * 1024 && newest == id + 1);
    let conn = rusqlite::Connection::open(stores.0.path().join("idem.db")).expect("another program");
    assert_eq!(conn.query_row("SELECT count(*) FROM output", [], |row| row.get(0)), Ok(0));
}
