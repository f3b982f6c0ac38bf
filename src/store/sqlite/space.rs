//! Space that is free within the store's file, and giving it back to the file system.
//!
//! A store is made so that it can shrink piece by piece (`auto_vacuum=INCREMENTAL`, see `create`): a whole `VACUUM` would
//! keep every run waiting until all that is left has been written anew.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// For how long one transaction works.
const PIECE: Duration = Duration::from_millis(8);

/// How many pages are given back at once.
const PAGES: i64 = 8;

/// `auto_vacuum`: freed pages can be given back when somebody asks for it.
pub(super) const INCREMENTAL: i64 = 2;

/// The size of the store's file in bytes, as it is once the log is taken in.
pub(super) fn size(conn: &Connection) -> rusqlite::Result<u64> {
    Ok(pragma(conn, "page_count")?.saturating_mul(pragma(conn, "page_size")?).cast_unsigned())
}

/// How much of it is free.
pub(super) fn free(conn: &Connection) -> rusqlite::Result<u64> {
    Ok(pragma(conn, "freelist_count")?.saturating_mul(pragma(conn, "page_size")?).cast_unsigned())
}

/// Tells whether there is something that can be given back.
pub(super) fn can_shrink(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(pragma(conn, "freelist_count")? > 0 && pragma(conn, "auto_vacuum")? == INCREMENTAL)
}

/// Gives one piece back.
pub(super) fn shrink(conn: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + PIECE;
    while pragma(conn, "freelist_count")? > 0 && Instant::now() < end {
        conn.execute_batch(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    }
    Ok(())
}

/// Reads a number.
pub(super) fn pragma(conn: &Connection, name: &str) -> rusqlite::Result<i64> {
    conn.pragma_query_value(None, name, |row| row.get(0))
}
