//! Creating a store and bringing an older one up to date.
//!
//! Invariant: a store appears under its name whole. It is written under another name, synced, moved into place, and the
//! folder is synced. So 64 first arrivals at once find either nothing or everything, and a file that is empty or half
//! there is damage, never a store in the making.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use rusqlite::{Connection, TransactionBehavior};

use super::checkpoint;
use super::error::from_sqlite;
use super::open;
use super::queue::Queue;
use super::space::INCREMENTAL;
use crate::domain::store::StoreError;
use crate::store::guard::{self, sync_folder};
use crate::store::{SqlitePlace, beside};

/// Every step from an empty file to the newest schema; the store's `user_version` counts the steps done.
const STEPS: &[&str] = &[
    include_str!("schema/001.sql"),
    include_str!("schema/002.sql"),
    include_str!("schema/003.sql"),
    include_str!("schema/004.sql"),
];

/// The newest schema version that this program knows.
pub(super) const VERSION: i64 = STEPS.len() as i64;

/// "idem" in ASCII: SQLite's `application_id` of a store.
pub(super) const APPLICATION_ID: i64 = 0x6964_656d;

/// Creates the store where it isn't there.
pub(super) fn create(place: &SqlitePlace, folder: &Path) -> Result<(), StoreError> {
    let path = &place.path;
    let failed = |doing: &'static str| move |error: std::io::Error| StoreError::from_io(path, doing, &error);
    let queue = Queue::open(&place.lock_path()).map_err(failed("opening the lock file"))?;
    let _turn = queue.turn().map_err(failed("waiting for the turn to create it"))?;
    // Two first arrivals: the other one may have created the store while this one queued.
    if guard::check_file(path)? {
        return Ok(());
    }
    let log = beside(path, "-wal");
    if log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        return Err(StoreError::LogWithoutStore(path.clone()));
    }
    let unfinished = beside(path, "-new");
    for leftover in
        [&unfinished, &beside(&unfinished, "-wal"), &beside(&unfinished, "-shm"), &log, &beside(path, "-shm")]
    {
        remove_leftover(leftover).map_err(failed("removing what a killed first run left"))?;
    }
    write_new(&unfinished).map_err(|error| rename_error(error, path))?;
    move_into_place(&unfinished, path).map_err(failed("moving the new store into place"))?;
    sync_folder(folder)
}

/// Gives the store its name, unless something else has it by now.
fn move_into_place(unfinished: &Path, path: &Path) -> std::io::Result<()> {
    match renameat2(AT_FDCWD, unfinished, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE) {
        // A file system that can't promise not to replace: a link never replaces.
        Err(Errno::EINVAL | Errno::ENOSYS) => {
            std::fs::hard_link(unfinished, path)?;
            std::fs::remove_file(unfinished)
        }
        other => Ok(other?),
    }
}

/// Opens a store whose write-ahead log is missing, which makes the log, and syncs its name.
///
/// In the queue, since the name must be there before any claim is: A makes the log; B finds it, commits a claim into it
/// and starts its command; A has not synced the name yet, the power fails, and the claim is gone. B queues for its
/// commit, and so comes after A's sync.
pub(super) fn with_new_log<T>(
    place: &SqlitePlace,
    folder: &Path,
    open: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let path = &place.path;
    let queue =
        Queue::open(&place.lock_path()).map_err(|error| StoreError::from_io(path, "opening the lock file", &error))?;
    let _turn = queue.turn().map_err(|error| StoreError::from_io(path, "waiting for the turn to write", &error))?;
    let opened = open()?;
    sync_folder(folder)?;
    Ok(opened)
}

/// Brings an older store up to date; rows are kept. Several may try: the queue and the version decide.
pub(super) fn migrate(conn: &mut Connection, place: &SqlitePlace) -> Result<(), StoreError> {
    let path = &place.path;
    let queue =
        Queue::open(&place.lock_path()).map_err(|error| StoreError::from_io(path, "opening the lock file", &error))?;
    let _turn = queue.turn().map_err(|error| StoreError::from_io(path, "waiting for the turn to write", &error))?;
    apply_steps(conn).map_err(|error| from_sqlite(path, &error))
}

fn write_new(path: &Path) -> Result<(), StoreError> {
    let create = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    create.map_err(|error| StoreError::from_io(path, "creating the file", &error))?;
    let fill = || {
        let mut conn = open::connect(path)?;
        // Before the first page is written, and never again: pruned space can be given back without a long lock.
        conn.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        apply_steps(&mut conn)?;
        // Closing would do it too, and keep to itself that it failed: half a store would be moved into place.
        checkpoint::cut(&conn)?;
        conn.close().map_err(|(_, error)| error)
    };
    fill().map_err(|error| from_sqlite(path, &error))?;
    let sync = File::open(path).and_then(|file| file.sync_all());
    sync.map_err(|error| StoreError::from_io(path, "syncing the new store", &error))
}

fn apply_steps(conn: &mut Connection) -> rusqlite::Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in STEPS.iter().skip(usize::try_from(done).unwrap_or(STEPS.len())) {
        tx.execute_batch(&without_comments(step))?;
    }
    if done < VERSION {
        tx.pragma_update(None, "user_version", VERSION)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    tx.commit()
}

/// Cuts the comments and what lines the columns up, which SQLite would keep in the schema and read again at every opening.
fn without_comments(sql: &str) -> String {
    // No literal in these files contains "--".
    let words = |line: &str| {
        let line = line.split("--").next().unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    sql.lines().map(words).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn remove_leftover(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Names the store in an error that names the unfinished file.
fn rename_error(error: StoreError, path: &Path) -> StoreError {
    match error {
        StoreError::Full(_) => StoreError::Full(path.to_owned()),
        StoreError::ReadOnly(_) => StoreError::ReadOnly(path.to_owned()),
        StoreError::Other(_, detail) => StoreError::Other(path.to_owned(), detail),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::SqliteStore;

    fn place() -> (tempfile::TempDir, SqlitePlace) {
        let folder = tempfile::tempdir().expect("a folder");
        let place = SqlitePlace::at(folder.path().join("idem.db"), false);
        (folder, place)
    }

    #[test]
    fn a_log_with_claims_in_it_is_no_place_for_a_new_store() {
        let (_folder, place) = place();
        let log = beside(&place.path, "-wal");
        std::fs::write(&log, "claims").expect("a log");
        assert!(matches!(SqliteStore::open(&place), Err(StoreError::LogWithoutStore(_))));
        assert!(!place.path.exists() && log.exists());
        std::fs::write(&log, "").expect("an empty log");
        assert!(SqliteStore::open(&place).is_ok(), "nothing is lost with that one");
    }

    #[test]
    fn what_a_killed_first_run_left_is_removed() {
        let (_folder, place) = place();
        let left = ["-new", "-new-wal", "-new-shm", "-shm"].map(|ending| beside(&place.path, ending));
        left.iter().for_each(|path| std::fs::write(path, "half").expect("a leftover"));
        assert!(SqliteStore::open(&place).is_ok());
        assert!(!left[..3].iter().any(|path| path.exists()), "{left:?}");
        assert!(remove_leftover(&left[0]).is_ok(), "it is gone already");
        std::fs::create_dir(&left[0]).expect("a folder in its place");
        assert!(remove_leftover(&left[0]).is_err());
    }

    #[test]
    fn a_store_of_the_first_schema_is_brought_up_to_date_with_its_rows() {
        let (_folder, place) = place();
        let conn = Connection::open(&place.path).expect("a database");
        conn.execute_batch(STEPS[0]).expect("the first schema");
        let row = "INSERT INTO claim (key, effect, attempt, who, conv, tool, params, command, created_at, lock_offset, lock_inode,
                                      owner, process, state, outcome)
                   VALUES (?1, 'local', 1, 'w', 'c', 't', '{}', x'7800', 1, 7, 7, 'a@h[1]', '', 'running', 'unknown')";
        conn.execute(row, ["0".repeat(64)]).expect("a row");
        conn.pragma_update(None, "user_version", 1).expect("its version");
        conn.pragma_update(None, "application_id", APPLICATION_ID).expect("its kind");
        drop(conn);
        for _ in 0..2 {
            let store = SqliteStore::open(&place).expect("the store opens");
            let version: i64 = store.conn.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number");
            assert_eq!(version, VERSION);
            let kept = "SELECT count(*) FROM claim WHERE who = 'w' AND mark IS NULL AND marks = 0";
            assert_eq!(store.conn.query_row(kept, [], |row| row.get(0)), Ok(1));
        }
    }

    #[test]
    fn errors_name_the_store_and_not_what_it_is_made_as() {
        let (new, path) = (Path::new("/s-new"), Path::new("/s"));
        for error in [
            StoreError::Full(new.to_owned()),
            StoreError::ReadOnly(new.to_owned()),
            StoreError::Other(new.to_owned(), "why".to_owned()),
        ] {
            let kind = error.kind();
            let renamed = rename_error(error, path);
            assert_eq!(renamed.kind(), kind);
            assert!(renamed.to_string().contains("/s") && !renamed.to_string().contains("-new"), "{renamed}");
        }
    }
}
