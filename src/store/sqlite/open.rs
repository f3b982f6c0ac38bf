//! Opening a store: the part of a replay that isn't reading, so every call here is paid on each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::create;
use super::error::from_sqlite;
use crate::domain::store::StoreError;
use crate::store::{SqlitePlace, beside, guard};

/// How long to wait for another program that has the store locked; idem's own writers queue for as long as it takes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// An open store's parts.
pub(super) struct Opened {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    /// Whether this opening made it, at a place that somebody named.
    pub(super) made_where_told: bool,
}

/// Opens the store, creating it where it isn't there.
pub(super) fn open(place: &SqlitePlace) -> Result<Opened, StoreError> {
    let path = place.path.clone();
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    match guard::check_folder(&folder) {
        Err(StoreError::FolderMissing(_)) if place.create_folder => {
            guard::create_folder(&folder)?;
            guard::check_folder(&folder)?;
        }
        other => other?,
    }
    let is_there = guard::check_file(&path)?;
    if !is_there {
        create::create(place, &folder)?;
    }
    let connected = || {
        let conn = connect(&path).map_err(|error| from_sqlite(&path, &error))?;
        let version = check_identity(&conn, &path)?;
        Ok((conn, version))
    };
    // Another program may have removed the write-ahead log on closing.
    let log_missing = !beside(&path, "-wal").exists();
    let (mut conn, version) = if log_missing { create::with_new_log(place, &folder, connected)? } else { connected()? };
    if version < create::VERSION {
        create::migrate(&mut conn, place)?;
    }
    Ok(Opened { conn, path, made_where_told: !is_there && !place.create_folder })
}

/// Tells whether there is no store yet: nothing of it, in a folder that may be made, or in one that is there.
pub(super) fn is_missing(place: &SqlitePlace) -> bool {
    let gone = |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let folder = place.path.parent().unwrap_or(Path::new("/"));
    let folder_fine = place.create_folder || folder.is_dir();
    folder_fine && gone(&place.path) && gone(&beside(&place.path, "-wal"))
}

/// Opens a connection as idem uses it.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    Ok(conn)
}

/// Checks that this is a store of idem, and no newer than this program. Returns its schema version.
fn check_identity(conn: &Connection, path: &Path) -> Result<i64, StoreError> {
    let read = |name| {
        let value = conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        value.map_err(|error| from_sqlite(path, &error))
    };
    // A checkpoint belongs where nobody waits for it, not at the end of whichever process is the last one out.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(|error| from_sqlite(path, &error))?;
    let found = read("user_version")?;
    // Another program's database may have the same version by chance: then it lacks the tables, which is told as well.
    // So the second question is asked only where the first answer isn't the usual one.
    if found != create::VERSION && read("application_id")? != create::APPLICATION_ID {
        return Err(StoreError::NotAStore(path.to_owned()));
    }
    if found > create::VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: create::VERSION });
    }
    Ok(found)
}
