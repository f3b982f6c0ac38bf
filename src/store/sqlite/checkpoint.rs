//! The write-ahead log, and when it is taken into the store's file.
//!
//! Never with a commit (`wal_autocheckpoint=0`, see `.cargo/config.toml`): that is made in the writers' queue, and to take the log
//! in syncs the store's file, for as long as the disk needs for everything that has been written there. Beside the queue instead,
//! by a run whose command is at work, and by whoever writes much.

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

/// How many frames of the log may wait to be taken in: the first process to open a store reads them all.
pub(super) const DUE: i32 = 40;

/// How many frames may wait while output is appended, or where somebody else is going to take them in: 16 MiB.
pub(super) const UNDER_WAY: i32 = 4096;

/// After how many frames a prune takes them in. The more there are, the longer the store's file is synced in the writers' queue.
pub(super) const OF_PRUNING: i32 = 400;

/// How many frames of the log wait to be taken in.
pub(super) fn waiting(conn: &Connection) -> rusqlite::Result<i32> {
    conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::NOOP).map(|(all, done)| all - done)
}

/// Takes the log in, unless somebody else is just at it. Tells whether it did.
pub(super) fn take_in(conn: &Connection) -> rusqlite::Result<bool> {
    match conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        taken => taken.map(|_| true),
    }
}

/// Takes all of the log in and cuts it to nothing, when nobody else is at work in the store.
pub(super) fn cut(conn: &Connection) -> rusqlite::Result<()> {
    conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE).map(|_| ())
}
