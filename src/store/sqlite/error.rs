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
