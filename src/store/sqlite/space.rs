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

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with so much free within it, which can shrink or can't.
    fn with_free_pages(auto_vacuum: i64) -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = Connection::open(folder.path().join("s.db")).expect("a database");
        let sql = format!(
            "PRAGMA page_size = 4096; PRAGMA auto_vacuum = {auto_vacuum}; CREATE TABLE t (data BLOB);
             INSERT INTO t VALUES (zeroblob(400000)); DELETE FROM t"
        );
        conn.execute_batch(&sql).expect("content that is gone");
        (folder, conn)
    }

    #[test]
    fn what_is_free_is_given_back_until_nothing_is_left() {
        let (_folder, conn) = with_free_pages(INCREMENTAL);
        let (before, free_before) = (size(&conn).expect("a size"), free(&conn).expect("a size"));
        assert!(free_before > 300_000 && before > free_before);
        while can_shrink(&conn).expect("reading works") {
            shrink(&conn).expect("shrinking works");
        }
        assert_eq!(free(&conn), Ok(0));
        assert!(size(&conn).expect("a size") <= before - free_before);
    }

    #[test]
    fn a_piece_ends_by_time_and_is_more_than_nothing() {
        let (_folder, conn) = with_free_pages(INCREMENTAL);
        let before = free(&conn).expect("a size");
        shrink(&conn).expect("shrinking works");
        assert!(free(&conn).expect("a size") < before);
    }

    #[test]
    fn a_file_that_was_made_otherwise_can_not_shrink() {
        let (_folder, conn) = with_free_pages(0);
        assert!(free(&conn).expect("a size") > 300_000);
        assert_eq!(can_shrink(&conn), Ok(false));
    }
}
