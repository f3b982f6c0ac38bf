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

/// Housekeeping runs while a command does: it must not make that command's output wait for somebody else's transaction.
#[test]
fn upkeep_waits_for_no_writer() {
    use idem::domain::event::EventKind;
    use idem::domain::store::{Filter, Store};
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = contract::claimed(&mut store);
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
    let id = contract::claimed(&mut store);
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
    let id = contract::claimed(&mut store);
    let claim = store.get(id).expect("reading works").expect("the claim is there");
    assert!(!claim.uptime.boot.is_empty() && claim.uptime.millis > 0);
}
