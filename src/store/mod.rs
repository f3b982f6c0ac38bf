//! Stores of claims, opened by their location.
//!
//! Invariant: a store knows `domain`, `host` and `lock`, neither `process` nor the terminal.

mod guard;
pub mod pending;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[cfg(feature = "postgres")]
use self::postgres::{PostgresPlace, PostgresStore};
use self::sqlite::SqliteStore;
pub use self::sqlite::place::SqlitePlace;
pub(in crate::store) use self::sqlite::place::beside;
use crate::domain::health::Finding;
use crate::domain::store::{Store, StoreError};

/// Where a store is, and where this host keeps what belongs to it and can't be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The store.
    pub place: Place,
    /// The folder of idem's own state (`$XDG_STATE_HOME/idem`); `None` where there is no home.
    pub state: Option<PathBuf>,
}

/// A store's place, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file on this machine.
    Sqlite(SqlitePlace),
    /// A PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresPlace>),
}

impl Location {
    /// Reads what was given with `--store` or `IDEM_STORE`; relative paths count from `here`.
    pub fn parse(given: &Path, here: &Path, state: Option<PathBuf>) -> Result<Location, StoreError> {
        let scheme = given.to_str().and_then(|text| text.split_once("://"));
        if let Some((scheme, _)) = scheme.filter(|(scheme, _)| !scheme.is_empty() && !scheme.contains('/')) {
            #[cfg(feature = "postgres")]
            if matches!(scheme, "postgres" | "postgresql") {
                let place = Place::Postgres(Box::new(postgres_place(given)?));
                // Its owners' locks are there, and what could not be recorded in it.
                return Ok(Location { place, state: Some(state.ok_or(StoreError::NoHome)?) });
            }
            // The rest of a URL can hold a password.
            return Err(StoreError::UnknownUrl(format!("{scheme}:// URLs")));
        }
        Ok(Location { place: Place::Sqlite(SqlitePlace::at(here.join(given), false)), state })
    }

    /// Returns the location of the default store, whose folder may be created.
    pub fn default_in(state: PathBuf) -> Location {
        Location { place: Place::Sqlite(SqlitePlace::at(state.join("idem.db"), true)), state: Some(state) }
    }

    /// Returns what people are shown of it.
    pub fn shown(&self) -> String {
        match &self.place {
            Place::Sqlite(place) => place.path.display().to_string(),
            #[cfg(feature = "postgres")]
            Place::Postgres(place) => place.shown().to_owned(),
        }
    }

    /// Returns what tells the store from others, however its place was spelled.
    pub fn identity(&self) -> String {
        match &self.place {
            Place::Sqlite(_) => self.shown(),
            #[cfg(feature = "postgres")]
            Place::Postgres(place) => place.identity(),
        }
    }

    /// Returns what leads another idem to it.
    pub fn for_environment(&self) -> OsString {
        match &self.place {
            Place::Sqlite(place) => place.path.clone().into_os_string(),
            // With the password: a step of the command has to get there too.
            #[cfg(feature = "postgres")]
            Place::Postgres(place) => OsString::from(place.given()),
        }
    }

    /// Tells whether a location that was told to a command (`IDEM_STORE`) is this one.
    pub fn is_told(&self, told: &Path) -> bool {
        match &self.place {
            Place::Sqlite(place) => told == place.path || is_same_file(told, &place.path),
            #[cfg(feature = "postgres")]
            Place::Postgres(place) => postgres_place(told).is_ok_and(|told| told.identity() == place.identity()),
        }
    }

    /// Returns the paths of the store's files, whether they are there or not.
    pub fn files(&self) -> Vec<PathBuf> {
        match &self.place {
            Place::Sqlite(place) => place.files(),
            #[cfg(feature = "postgres")]
            Place::Postgres(_) => vec![self.lock_path()],
        }
    }

    /// Returns the lock file of the attempts that this host owns.
    pub fn lock_path(&self) -> PathBuf {
        match &self.place {
            Place::Sqlite(place) => place.lock_path(),
            // One for all databases: the bytes are drawn by lot.
            #[cfg(feature = "postgres")]
            Place::Postgres(_) => self.state.as_deref().unwrap_or(Path::new("/")).join("postgres-lock"),
        }
    }

    /// Tells whether hosts that share nothing else share the store: then a lock file says nothing of the others' owners.
    pub fn is_shared(&self) -> bool {
        match &self.place {
            Place::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Place::Postgres(_) => true,
        }
    }

    /// Opens the store, creating it where it isn't there.
    pub fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        match &self.place {
            Place::Sqlite(place) => Ok(Box::new(SqliteStore::open(place)?)),
            #[cfg(feature = "postgres")]
            Place::Postgres(place) => {
                self.prepare_state()?;
                Ok(Box::new(PostgresStore::open(place)?))
            }
        }
    }

    /// Opens the store if it is there. To look is not to make.
    pub fn open_existing(&self) -> Result<Option<Box<dyn Store>>, StoreError> {
        match &self.place {
            Place::Sqlite(place) => {
                Ok(SqliteStore::open_existing(place)?.map(|store| Box::new(store) as Box<dyn Store>))
            }
            #[cfg(feature = "postgres")]
            Place::Postgres(place) => {
                self.prepare_state()?;
                Ok(PostgresStore::open_existing(place)?.map(|store| Box::new(store) as Box<dyn Store>))
            }
        }
    }
}

#[cfg(feature = "postgres")]
impl Location {
    /// Makes the folder of idem's own state where it isn't there, and checks it as a store's is: locks must hold in it.
    fn prepare_state(&self) -> Result<(), StoreError> {
        let state = self.state.as_deref().ok_or(StoreError::NoHome)?;
        match guard::check_folder(state) {
            Err(StoreError::FolderMissing(_)) => {
                guard::create_folder(state)?;
                guard::check_folder(state)
            }
            checked => checked,
        }
    }
}

#[cfg(feature = "postgres")]
fn postgres_place(url: &Path) -> Result<PostgresPlace, StoreError> {
    let url = url.to_str().ok_or_else(|| StoreError::BadUrl("it is not UTF-8".to_owned()))?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    PostgresPlace::parse(url, &|name| std::env::var(name).ok(), home.as_deref())
}

impl Location {
    /// Looks at the store's place and at its files, whether it can be opened or not.
    pub fn look_at(&self) -> Vec<Finding> {
        match &self.place {
            Place::Sqlite(place) => sqlite::health::look_at_place(place),
            #[cfg(feature = "postgres")]
            Place::Postgres(_) => match self.prepare_state() {
                Ok(()) => {
                    let folder = self.state.as_deref().unwrap_or(Path::new("/")).display().to_string();
                    vec![Finding::fine("folder", format!("{folder}, for the locks of this host's owners"))]
                }
                Err(error) => vec![Finding::unusable(&error)],
            },
        }
    }

    /// Returns the size of the store's file in bytes; `None` where it is none of this machine's.
    pub fn size(&self) -> Option<u64> {
        match &self.place {
            Place::Sqlite(place) => place.path.metadata().ok().map(|metadata| metadata.len()),
            #[cfg(feature = "postgres")]
            Place::Postgres(_) => None,
        }
    }
}

/// Tells whether two paths lead to one file, through a link to a folder above it, say.
fn is_same_file(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        let here = Path::new("/here");
        let parse = |text: &str| Location::parse(Path::new(text), here, None);
        assert_eq!(parse("a/idem.db").expect("relative").shown(), "/here/a/idem.db");
        assert_eq!(parse("/b/idem.db").expect("absolute").lock_path(), Path::new("/b/idem.db-lock"));
        let error = parse("mysql://u:secret@h/db").expect_err("no such store");
        assert!(!error.to_string().contains("secret"));
    }
}
