//! The contract of `Store`, one generic test run against every implementation.

mod contract;
mod groups;
mod log;
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

pub(crate) fn claimed(store: &mut SqliteStore) -> i64 {
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
    use idem::domain::store::Store;
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    let chunk = Chunk { stream: Stream::Stdout, data: vec![b'x'; 128 * 1024] };
    contract::finish_with(&mut store, id, &contract::landed(), 0, &vec![chunk; 20]);
    let (newest, _) = contract::inserted(&mut store, &contract::call("newest"));
    let all = prune::all();
    let pruned = store.prune(&all, &mut |_| {}).expect("pruning works");
    assert!(pruned.completed == 1 && pruned.bytes > 20 * 128 * 1024 && newest == id + 1);
    let conn = rusqlite::Connection::open(stores.0.path().join("idem.db")).expect("another program");
    assert_eq!(conn.query_row("SELECT count(*) FROM output", [], |row| row.get(0)), Ok(0));
}

/// A prune that was killed between a claim's row and its output: what nobody can read any more goes with the next one, and a
/// little output goes with its claim.
#[test]
fn output_whose_claim_is_gone_goes_with_the_next_prune() {
    use idem::domain::claim::{Chunk, Stream};
    use idem::domain::prune::Pruning;
    use idem::domain::store::Store;
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    for name in ["killed", "little", "newest"] {
        let (id, _) = contract::inserted(&mut store, &contract::call(name));
        let chunk = Chunk { stream: Stream::Stdout, data: name.into() };
        contract::finish_with(&mut store, id, &contract::landed(), 0, &[chunk]);
    }
    let conn = rusqlite::Connection::open(stores.0.path().join("idem.db")).expect("another program");
    conn.execute("DELETE FROM claim WHERE id = 1", []).expect("as far as the killed prune came");
    let left = || -> Vec<i64> {
        let mut statement = conn.prepare("SELECT DISTINCT claim FROM output ORDER BY 1").expect("a statement");
        statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("ids")
    };
    let count = Pruning { apply: false, ..prune::all() };
    store.prune(&count, &mut |_| {}).expect("counting works");
    assert_eq!(left(), [1, 2, 3], "counting changes nothing");
    store.prune(&Pruning { apply: true, ..count }, &mut |_| {}).expect("pruning works");
    assert_eq!(left(), [3]);
}

/// Space is given back piece by piece, though somebody reads meanwhile: then the file gets shorter later.
#[test]
fn the_file_gets_shorter_by_what_was_pruned() {
    use idem::domain::claim::{Chunk, Stream};
    use idem::domain::store::Store;
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let all = prune::all();
    let chunk = Chunk { stream: Stream::Stdout, data: vec![b'x'; 256 * 1024] };
    let fill_and_prune = |store: &mut SqliteStore, name: &str| {
        let (id, _) = contract::inserted(store, &contract::call(name));
        contract::finish_with(store, id, &contract::landed(), 0, &vec![chunk.clone(); 8]);
        contract::inserted(store, &contract::call(&format!("newest-{name}")));
        store.prune(&all, &mut |_| {}).expect("pruning works");
    };
    let length = || stores.0.path().join("idem.db").metadata().expect("the file").len();
    fill_and_prune(&mut store, "a");
    let mut told = Vec::new();
    let space = store.give_back(&mut |left| told.push(left)).expect("giving back works");
    assert!(space.before > 2 << 20 && space.after < 1 << 20 && space.free_inside == 0, "{space:?}");
    assert_eq!(length(), space.after, "the log is taken in");
    assert!(told.is_sorted_by(|a, b| a > b) && told.last() == Some(&0), "{told:?}");
    fill_and_prune(&mut store, "b");
    let other = rusqlite::Connection::open(stores.0.path().join("idem.db")).expect("another program");
    other.execute_batch("BEGIN; SELECT count(*) FROM claim").expect("its reading");
    store.give_back(&mut |_| {}).expect("nobody's reading is in the way");
}

/// To look is not to make; and what is there and can't be used is told, not taken for nothing.
#[test]
fn looking_for_a_store_makes_none() {
    use idem::domain::store::StoreError;
    let folder = tempfile::tempdir().expect("a folder");
    let place = SqlitePlace::at(folder.path().join("idem.db"), false);
    assert!(SqliteStore::open_existing(&place).expect("nothing is there").is_none());
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    let default = SqlitePlace::at(folder.path().join("state/idem.db"), true);
    assert!(SqliteStore::open_existing(&default).expect("a first run would make the folder").is_none());
    assert!(!folder.path().join("state").exists());
    drop(SqliteStore::open(&default).expect("as it does"));
    let mistyped = SqlitePlace::at(folder.path().join("stat/idem.db"), false);
    assert!(matches!(SqliteStore::open_existing(&mistyped), Err(StoreError::FolderMissing(_))));
    let log = folder.path().join("idem.db-wal");
    std::fs::write(&log, "what was committed last").expect("a log");
    assert!(matches!(SqliteStore::open_existing(&place), Err(StoreError::LogWithoutStore(_))));
    std::fs::remove_file(&log).expect("the log");
    drop(SqliteStore::open(&place).expect("a new store"));
    assert!(SqliteStore::open_existing(&place).expect("the store opens").is_some());
}

/// A store of a newer idem, and another program's database.
#[test]
fn what_is_no_store_of_this_idem_is_refused() {
    use idem::domain::store::StoreError;
    let stores = <SqliteFolder as contract::Stores>::new();
    drop(contract::Stores::open(&stores));
    let path = stores.0.path().join("idem.db");
    let open = || SqliteStore::open(&SqlitePlace::at(path.clone(), false));
    let other = rusqlite::Connection::open(&path).expect("another program");
    let known: i64 = other.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a version");
    other.execute_batch(&format!("PRAGMA user_version = {}", known + 1)).expect("a newer version");
    match open() {
        Err(StoreError::Newer { found, known: this, .. }) => assert_eq!((found, this), (known + 1, known)),
        opened => panic!("{opened:?}"),
    }
    for version in [0, 1, known + 1] {
        let sql = format!("PRAGMA application_id = 7; PRAGMA user_version = {version}");
        other.execute_batch(&sql).expect("another program's");
        assert!(matches!(open(), Err(StoreError::NotAStore(_))), "{version}");
    }
}

/// Who waits for a change without a lock that wakes him looks now and then, and not all the time.
#[test]
fn waiting_for_a_change_is_no_circle() {
    use std::time::{Duration, Instant};

    use idem::domain::store::Store;
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    let claim = store.get(id).expect("reading works").expect("the claim is there");
    let (began, pause) = (Instant::now(), Duration::from_millis(20));
    store.wait_for_change(&claim, pause).expect("waiting works");
    assert!(began.elapsed() >= pause);
}

/// The log of arrivals is taken in piece by piece where a command runs beside it, and wholly for who wants to see them.
#[test]
fn however_many_arrivals_there_were_all_are_counted() {
    use idem::domain::event::EventKind;
    use idem::domain::store::{Filter, Store};
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    let actor = "a".repeat(200);
    for _ in 0..1000 {
        store.arrived(id, EventKind::Replay, &actor).expect("logging works");
    }
    store.upkeep().expect("upkeep works");
    let other = rusqlite::Connection::open(stores.0.path().join("idem.db")).expect("another program");
    let events = || other.query_row("SELECT count(*) FROM event WHERE kind = 'replay'", [], |row| row.get::<_, i64>(0));
    assert!(events().is_ok_and(|events| events > 0 && events < 1000), "a piece: {:?}", events());
    assert_eq!(store.list(&Filter::default()).expect("listing works")[0].arrivals, 1001);
}

/// What of a command's output is missing is told while it runs, too.
#[test]
fn what_is_missing_of_a_running_commands_output_is_told() {
    use idem::domain::store::Store;
    let stores = <SqliteFolder as contract::Stores>::new();
    let mut store = contract::Stores::open(&stores);
    let id = claimed(&mut store);
    store.append_output(id, &[], 7, true).expect("appending works");
    assert_eq!(store.get(id).expect("reading works").map(|claim| claim.missing), Some(7));
}
