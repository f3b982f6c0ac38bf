//! The contract of `Store`, one generic test run against every implementation.

mod contract;

use idem::store::Location;
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
        let location = Location::parse(&path, self.0.path()).expect("a location");
        SqliteStore::open(&location).expect("the store opens")
    }
}

contract::tests!(super::SqliteFolder);
