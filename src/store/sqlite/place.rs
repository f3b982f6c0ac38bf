//! Where a store in a file is, and which files belong to it.

use std::path::{Path, PathBuf};

/// Where an SQLite store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlitePlace {
    /// The store's file, absolute.
    pub path: PathBuf,
    /// Whether the folder may be created: only that of the default store (design §12, paths).
    pub create_folder: bool,
}

impl SqlitePlace {
    /// A link is followed here, once: SQLite puts its files beside what the link names, and the lock file must be the
    /// same one for every name of a store.
    pub fn at(path: PathBuf, create_folder: bool) -> SqlitePlace {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let path = if is_link { path.canonicalize().unwrap_or(path) } else { path };
        SqlitePlace { path, create_folder }
    }

    /// Returns the paths of the store's files, whether they are there or not.
    pub fn files(&self) -> Vec<PathBuf> {
        ["", "-wal", "-shm", "-lock", "-arrivals"].iter().map(|ending| beside(&self.path, ending)).collect()
    }

    /// Returns the lock file that belongs to the store.
    pub fn lock_path(&self) -> PathBuf {
        beside(&self.path, "-lock")
    }
}

/// Returns the path of a file beside the store: its name with this ending.
pub(in crate::store) fn beside(store: &Path, ending: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
