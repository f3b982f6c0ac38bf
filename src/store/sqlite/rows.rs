//! Rows to claims and events, in one place with the column lists that they are read from.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Error, Result, Row};

use crate::domain::claim::{Claim, CommandLine, Effect, LockPlace, Mark, Means, Outcome, Owner, Probe, Reason, State};
use crate::domain::event::{Event, EventKind};
use crate::domain::key::Key;
use crate::domain::moment::{Moment, Uptime};
use crate::domain::timestamp::Timestamp;

/// The columns of [`claim`], in its order.
pub(super) const CLAIM: &str = "id, key, state, reason, outcome, effect, attempt, who, conv, tool, params, command, parent, \
     exit_code, signal, missing, created_at, finished_at, lock_offset, lock_inode, owner, process, boot, uptime, mark, marks, \
     resend_within, ttl, probe, probe_folder, probe_delay, probe_timeout, probe_max";

/// How many columns that is.
pub(super) const CLAIM_WIDTH: usize = 33;

/// Reads a claim from a row that begins with [`CLAIM`].
pub(super) fn claim(row: &Row<'_>) -> Result<Claim> {
    Ok(Claim {
        id: row.get(0)?,
        key: key(row, 1)?,
        state: word(row, 2, State::from_word)?,
        reason: row.get::<_, Option<String>>(3)?.map(|word| parse(3, &word, Reason::from_word)).transpose()?,
        outcome: word(row, 4, Outcome::from_word)?,
        effect: word(row, 5, Effect::from_word)?,
        attempt: row.get(6)?,
        who: row.get(7)?,
        conv: row.get(8)?,
        tool: row.get(9)?,
        params: row.get(10)?,
        command: CommandLine::from_bytes(row.get(11)?),
        parent: row.get(12)?,
        exit_code: row.get(13)?,
        signal: row.get(14)?,
        missing: row.get(15)?,
        created_at: Timestamp(row.get(16)?),
        finished_at: row.get::<_, Option<i64>>(17)?.map(Timestamp),
        lock: LockPlace { offset: row.get(18)?, inode: row.get(19)? },
        owner: Owner { actor: row.get(20)?, process: row.get(21)? },
        uptime: Uptime { boot: row.get(22)?, millis: row.get(23)? },
        mark: row.get::<_, Option<String>>(24)?.map(|word| parse(24, &word, Mark::from_word)).transpose()?,
        means: Means {
            marks: row.get(25)?,
            resend_within: duration(row, 26)?,
            ttl: duration(row, 27)?,
            probe: probe(row, 28)?,
        },
        seen_lately: false,
    })
}

/// Reads a probe from `probe, probe_folder, probe_delay, probe_timeout, probe_max`, beginning at this column.
fn probe(row: &Row<'_>, first: usize) -> Result<Option<Probe>> {
    let Some(command) = row.get::<_, Option<Vec<u8>>>(first)? else { return Ok(None) };
    Ok(Some(Probe {
        command: OsString::from_vec(command),
        folder: OsString::from_vec(row.get(first + 1)?),
        delay: duration(row, first + 2)?.unwrap_or_default(),
        timeout: duration(row, first + 3)?.unwrap_or_default(),
        max_output: row.get::<_, Option<i64>>(first + 4)?.unwrap_or(0).cast_unsigned(),
    }))
}

fn duration(row: &Row<'_>, column: usize) -> Result<Option<Duration>> {
    let millis: Option<i64> = row.get(column)?;
    Ok(millis.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0))))
}

/// Returns a duration as it is stored.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Reads a moment from `created_at, boot, uptime`.
pub(super) fn moment(row: &Row<'_>) -> Result<Moment> {
    Ok(Moment { at: Timestamp(row.get(0)?), uptime: Uptime { boot: row.get(1)?, millis: row.get(2)? } })
}

/// Reads an event from `claim, at, kind, actor, detail`.
pub(super) fn event(row: &Row<'_>) -> Result<Event> {
    Ok(Event {
        claim: row.get(0)?,
        at: Timestamp(row.get(1)?),
        kind: word(row, 2, EventKind::from_word)?,
        actor: row.get(3)?,
        detail: row.get(4)?,
    })
}

fn key(row: &Row<'_>, column: usize) -> Result<Key> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|_| unknown(column, text))
}

fn word<T>(row: &Row<'_>, column: usize, from_word: fn(&str) -> Option<T>) -> Result<T> {
    parse(column, row.get_ref(column)?.as_str()?, from_word)
}

fn parse<T>(column: usize, word: &str, from_word: fn(&str) -> Option<T>) -> Result<T> {
    from_word(word).ok_or_else(|| unknown(column, word))
}

fn unknown(column: usize, found: &str) -> Error {
    Error::FromSqlConversionFailure(
        column,
        Type::Text,
        format!("column {column} has the unknown word '{found}'").into(),
    )
}
