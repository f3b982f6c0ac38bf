//! The statements that look things up for people: finding, listing, history, output.

use std::io;

use rusqlite::{Connection, params};

use super::{listing, rows};
use crate::domain::claim::{Claim, ClaimId, LockPlace, Stream};
use crate::domain::event::Event;
use crate::domain::key::Key;
use crate::domain::store::{ClaimRef, Filter, Found, Listed, Which};

/// Finds the claim that somebody named: by number, or the newest of the one key that a prefix fits.
pub(super) fn find(conn: &Connection, named: &ClaimRef) -> rusqlite::Result<Found> {
    let prefix = match named {
        ClaimRef::Id(id) => {
            return Ok(super::write::get(conn, *id)?.map_or(Found::Nothing, |claim| Found::Claim(Box::new(claim))));
        }
        ClaimRef::KeyPrefix(prefix) => prefix,
    };
    // 'g' sorts behind every hex digit, so this range is exactly the keys with the prefix.
    let mut keys = conn.prepare("SELECT DISTINCT key FROM claim WHERE key >= ?1 AND key < ?1 || 'g' LIMIT 2")?;
    let keys: Vec<String> = keys.query_map([prefix], |row| row.get(0))?.collect::<Result<_, _>>()?;
    match keys.as_slice() {
        [] => Ok(Found::Nothing),
        [key] => {
            let sql = format!("SELECT {} FROM claim WHERE key = ?1 ORDER BY id DESC LIMIT 1", rows::CLAIM);
            Ok(Found::Claim(Box::new(conn.query_row(&sql, [key], rows::claim)?)))
        }
        _ => Ok(Found::Ambiguous),
    }
}

/// Lists claims, newest first, with their arrivals.
pub(super) fn list(conn: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Listed>> {
    let columns = format!(
        "{}, (SELECT count(*) FROM event WHERE event.claim = claim.id
              AND kind IN ('run', 'replay', 'busy', 'held', 'mismatch', 'inside-itself'))",
        rows::CLAIM
    );
    listing::select(conn, &columns, filter, |row| {
        Ok(Listed { claim: rows::claim(row)?, arrivals: row.get(rows::CLAIM_WIDTH)? })
    })
}

/// Reads claims, newest first.
pub(super) fn claims(conn: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Claim>> {
    listing::select(conn, rows::CLAIM, filter, rows::claim)
}

/// Reads every attempt of a key, oldest first.
pub(super) fn attempts(conn: &Connection, key: &Key) -> rusqlite::Result<Vec<Claim>> {
    let sql = format!("SELECT {} FROM claim WHERE key = ?1 ORDER BY id", rows::CLAIM);
    let mut statement = conn.prepare(&sql)?;
    let rows = statement.query_map([key.to_string()], rows::claim)?;
    rows.collect()
}

/// Reads the claim that was made with this very lock.
pub(super) fn made_with(conn: &Connection, key: &Key, lock: LockPlace) -> rusqlite::Result<Option<Claim>> {
    let made = attempts(conn, key)?.into_iter().find(|claim| claim.lock == lock);
    Ok(made)
}

/// Reads the events of all attempts of a key, oldest first. Logged arrivals are taken in late: time comes first.
pub(super) fn events(conn: &Connection, key: &Key) -> rusqlite::Result<Vec<Event>> {
    let mut statement = conn.prepare(
        "SELECT event.claim, event.at, event.kind, event.actor, event.detail
         FROM claim JOIN event ON event.claim = claim.id WHERE claim.key = ?1 ORDER BY event.at, event.claim, event.seq",
    )?;
    let rows = statement.query_map([key.to_string()], rows::event)?;
    rows.collect()
}

/// How many chunks are read at once.
const PIECE: i64 = 4;

/// Hands an attempt's output to `visit`, chunk by chunk. `None`: the claim was pruned meanwhile, and what was handed over
/// isn't all.
///
/// Each piece is read together with the claim's row, since pruning removes that first: A reads the claim; it is pruned; A
/// finds no output and would replay nothing as the result.
///
/// Read in pieces, and none of them is open while `visit` works: its reader may be slow, and as long as a statement is
/// open the write-ahead log can't start anew.
pub(super) fn output(
    conn: &Connection,
    id: ClaimId,
    which: Which,
    visit: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
) -> rusqlite::Result<Option<io::Result<()>>> {
    let wanted = match which {
        Which::Result => "stream > 0",
        Which::Printed => "abs(stream) < 3",
        Which::Stated => "stream = 3",
    };
    let sql = format!(
        "SELECT 0, 0, NULL FROM claim WHERE id = ?1 UNION ALL SELECT * FROM (
           SELECT id, stream, data FROM output WHERE claim = ?1 AND id > ?2 AND {wanted} ORDER BY id LIMIT ?3)"
    );
    let mut statement = conn.prepare(&sql)?;
    let mut last: i64 = 0;
    loop {
        let chunk = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let rows = statement.query_map(params![id, last, PIECE], chunk)?;
        let piece: Vec<(i64, i64, Option<Vec<u8>>)> = rows.collect::<rusqlite::Result<_>>()?;
        let Some((&(0, _, None), piece)) = piece.split_first() else { return Ok(None) };
        for (chunk, stream, data) in piece {
            last = *chunk;
            let stream = if stream.abs() == 2 { Stream::Stderr } else { Stream::Stdout };
            if let Err(error) = visit(stream, data.as_deref().unwrap_or_default()) {
                return Ok(Some(Err(error)));
            }
        }
        if i64::try_from(piece.len()) != Ok(PIECE) {
            return Ok(Some(Ok(())));
        }
    }
}

/// Tells whether `ancestor` is `claim` or one of those that started it, or another attempt of one of these.
pub(super) fn encloses(conn: &Connection, ancestor: ClaimId, claim: ClaimId) -> rusqlite::Result<bool> {
    conn.query_row(
        "WITH RECURSIVE up (id) AS (VALUES (?2) UNION SELECT parent FROM claim JOIN up USING (id) WHERE parent IS NOT NULL)
         SELECT EXISTS (SELECT 1 FROM up JOIN claim USING (id) WHERE key = (SELECT key FROM claim WHERE id = ?1))",
        params![ancestor, claim],
        |row| row.get(0),
    )
}
