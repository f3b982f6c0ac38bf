//! SQLite's errors, as the store's own.

use std::path::Path;

use rusqlite::ffi;

use crate::domain::store::StoreError;

/// Maps an error of SQLite at this store.
pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let Some(code) = error.sqlite_error().map(|error| error.extended_code) else {
        return match error {
            // A word or a type that the schema doesn't allow: somebody wrote to the file by hand, or it is damaged.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => StoreError::Damaged(path, error.to_string()),
            _ => StoreError::Other(path, error.to_string()),
        };
    };
    match code & 0xff {
        ffi::SQLITE_NOTADB => StoreError::NotAStore(path),
        ffi::SQLITE_ERROR if error.to_string().contains("no such table") => StoreError::NotAStore(path),
        ffi::SQLITE_CORRUPT => StoreError::Damaged(path, error.to_string()),
        ffi::SQLITE_FULL => StoreError::Full(path),
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => StoreError::Busy(path),
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM | ffi::SQLITE_AUTH => StoreError::ReadOnly(path),
        ffi::SQLITE_CANTOPEN if !writable(&path) => StoreError::ReadOnly(path),
        _ => StoreError::Other(path, format!("{error} (SQLite code {code})")),
    }
}

fn writable(path: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    let allowed = |path: &Path| access(path, AccessFlags::W_OK).is_ok();
    path.parent().is_none_or(allowed) && (!path.exists() || allowed(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error with this extended code, as SQLite gives it.
    fn failure(code: i32, said: &str) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(said.to_owned()))
    }

    #[test]
    fn each_code_is_its_own_trouble() {
        let path = Path::new("/no/such/idem.db");
        let told = |code, said| from_sqlite(path, &failure(code, said));
        assert!(matches!(told(ffi::SQLITE_NOTADB, ""), StoreError::NotAStore(_)));
        assert!(matches!(told(ffi::SQLITE_ERROR, "no such table: claim"), StoreError::NotAStore(_)));
        assert!(matches!(told(ffi::SQLITE_ERROR, "no such column: claim"), StoreError::Other(..)));
        assert!(matches!(told(ffi::SQLITE_CORRUPT, ""), StoreError::Damaged(..)));
        assert!(matches!(told(ffi::SQLITE_FULL, ""), StoreError::Full(_)));
        for busy in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED] {
            assert!(matches!(told(busy, ""), StoreError::Busy(_)), "{busy}");
        }
        for denied in [ffi::SQLITE_READONLY, ffi::SQLITE_READONLY_DBMOVED, ffi::SQLITE_PERM, ffi::SQLITE_AUTH] {
            assert!(matches!(told(denied, ""), StoreError::ReadOnly(_)), "{denied}");
        }
        assert!(matches!(told(ffi::SQLITE_IOERR_READ, ""), StoreError::Other(..)));
    }

    #[test]
    fn a_store_that_can_not_be_opened_is_read_only_where_nothing_may_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("idem.db");
        let told = |path: &Path| from_sqlite(path, &failure(ffi::SQLITE_CANTOPEN, ""));
        assert!(matches!(told(&path), StoreError::Other(..)), "a store could be made here");
        std::fs::write(&path, "").expect("a file");
        assert!(matches!(told(&path), StoreError::Other(..)), "and written here");
        assert!(matches!(told(Path::new("/no/such/idem.db")), StoreError::ReadOnly(_)));
    }

    #[test]
    fn what_the_schema_does_not_allow_is_damage() {
        let path = Path::new("idem.db");
        let wrong = "no number".parse::<i64>().expect_err("an error");
        let conversion = rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, wrong.into());
        let kind = rusqlite::Error::InvalidColumnType(2, "state".to_owned(), rusqlite::types::Type::Blob);
        for error in [conversion, kind, rusqlite::Error::IntegralValueOutOfRange(2, -1)] {
            assert!(matches!(from_sqlite(path, &error), StoreError::Damaged(..)), "{error}");
        }
        assert!(matches!(from_sqlite(path, &rusqlite::Error::InvalidQuery), StoreError::Other(..)));
    }
}
