//! Creating the schema and bringing an older one up to date.
//!
//! Invariant: a version is there whole or not at all: all of it is one transaction. Two clients that create it at once wait for
//! each other where the server has such locks, and where not, one of them fails and looks again.

use super::rows;
use super::{Connection, Trouble};

/// Every step from nothing to the newest schema; `idem.store` counts the steps done.
const STEPS: &[&str] = &[include_str!("schema/001.sql")];

/// The newest schema version that this program knows.
pub(super) const VERSION: i64 = STEPS.len() as i64;

/// What a look at the schema's version found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// There is no schema yet.
    None,
    /// This one.
    Is(i64),
}

/// Reads the schema's version.
pub(super) fn version(conn: &mut Connection) -> Result<Version, Trouble> {
    match conn.query("SELECT version FROM idem.store", &[]) {
        Ok(found) => match found.first() {
            Some(row) => Ok(Version::Is(rows::column(row, 0)?)),
            None => Err(Trouble::Other("idem.store is empty: this schema is none of idem's, or damaged".to_owned())),
        },
        Err(Trouble::Missing(_)) => Ok(Version::None),
        Err(trouble) => Err(trouble),
    }
}

/// Creates the schema, or brings it up to date. Returns its version then: another one's where that one is newer.
pub(super) fn bring_up_to_date(conn: &mut Connection) -> Result<i64, Trouble> {
    match version(conn)? {
        Version::Is(version) if version >= VERSION => return Ok(version),
        _ => {}
    }
    match step_up(conn) {
        Ok(()) => Ok(VERSION),
        // Somebody else was faster. What is there now is looked at next.
        Err(Trouble::Unique(text) | Trouble::Missing(text)) => Err(Trouble::Retry(text)),
        Err(trouble) => Err(trouble),
    }
}

fn step_up(conn: &mut Connection) -> Result<(), Trouble> {
    conn.begin()?;
    let is_there = |conn: &mut Connection, what: &str| {
        let rows = conn.query(&format!("SELECT {what} IS NOT NULL"), &[])?;
        rows.first().map_or(Ok(false), |row| rows::column::<bool>(row, 0))
    };
    // Asked first: creating what is there already would need the right to create schemas in the database.
    if !is_there(conn, "to_regnamespace('idem')")? {
        check_encoding(conn)?;
        conn.batch("CREATE SCHEMA idem")?;
    }
    let done = if is_there(conn, "to_regclass('idem.store')")? {
        let found = conn.query("SELECT version FROM idem.store FOR UPDATE", &[])?;
        found.first().map_or(Ok(0), |row| rows::column(row, 0))?
    } else {
        check_encoding(conn)?;
        0
    };
    for step in STEPS.iter().skip(usize::try_from(done).unwrap_or(STEPS.len())) {
        conn.batch(step)?;
    }
    if done < VERSION {
        conn.batch(&format!("UPDATE idem.store SET version = {VERSION}"))?;
    }
    conn.commit()
}

/// Another encoding can't take every call's text, and would refuse some in the middle of the work.
fn check_encoding(conn: &mut Connection) -> Result<(), Trouble> {
    let rows = conn.query("SELECT current_setting('server_encoding')", &[])?;
    let encoding: String = rows.first().map_or(Ok(String::new()), |row| rows::column(row, 0))?;
    if matches!(encoding.to_ascii_uppercase().as_str(), "UTF8" | "UTF-8") {
        return Ok(());
    }
    Err(Trouble::Other(format!("the database's encoding is {encoding}, and idem needs UTF8")))
}
