//! Stores of claims, opened by their location.
//!
//! Invariant: a store knows `domain` and `lock`, neither `process` nor the terminal.

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;
pub mod uptime;

use std::path::{Path, PathBuf};

use crate::domain::store::StoreError;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The store's file, absolute.
    pub path: PathBuf,
    /// Whether the folder may be created: only that of the default store (design §12, paths).
    pub create_folder: bool,
}

impl Location {
    /// Reads what was given with `--store` or `IDEM_STORE`; relative paths count from `here`.
    pub fn parse(given: &Path, here: &Path) -> Result<Location, StoreError> {
        let scheme = given.to_str().and_then(|text| text.split_once("://"));
        if let Some((scheme, _)) = scheme.filter(|(scheme, _)| !scheme.is_empty() && !scheme.contains('/')) {
            // The rest of a URL can hold a password.
            return Err(StoreError::UnknownUrl(format!("{scheme}:// URLs")));
        }
        Ok(Location::at(here.join(given), false))
    }

    /// Returns the location of the default store, whose folder may be created.
    pub fn default_at(path: PathBuf) -> Location {
        Location::at(path, true)
    }

    /// A link is followed here, once: SQLite puts its files beside what the link names, and the lock file must be the
    /// same one for every name of a store.
    fn at(path: PathBuf, create_folder: bool) -> Location {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let path = if is_link { path.canonicalize().unwrap_or(path) } else { path };
        Location { path, create_folder }
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
pub(crate) fn beside(store: &Path, ending: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        let here = Path::new("/here");
        let parse = |text: &str| Location::parse(Path::new(text), here);
        assert_eq!(parse("a/idem.db").expect("relative").path, Path::new("/here/a/idem.db"));
        assert_eq!(parse("/b/idem.db").expect("absolute").lock_path(), Path::new("/b/idem.db-lock"));
        let error = parse("postgres://u:secret@h/db").expect_err("no such store");
        assert!(!error.to_string().contains("secret"));
    }
}
