//! Rows to claims and events, in one place with the column lists that they are read from.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::Trouble;
use crate::domain::claim::{Claim, CommandLine, Effect, LockPlace, Mark, Means, Outcome, Owner, Probe, Reason, State};
use crate::domain::event::{Event, EventKind};
use crate::domain::moment::{Moment, Uptime};
use crate::domain::timestamp::Timestamp;

/// The store's clock: the server's, in milliseconds. It goes on within a transaction.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// What makes a statement's commit wait for the disk where the server or the role has that switched off: a claim could be lost
/// after its command has started (G1). Stronger settings than `on` stay. A part of a `WITH`, to be named in its `FROM`.
pub(super) const SYNCED: &str = "synced AS (
  SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END AS set)";

/// Returns the columns of [`claim`], in its order, of a table that the query knows as `of`.
pub(super) fn claim_columns(of: &str) -> String {
    let plain = [
        "id",
        "key",
        "state",
        "reason",
        "outcome",
        "effect",
        "attempt",
        "who",
        "conv",
        "tool",
        "params",
        "command",
        "parent",
        "exit_code",
        "signal",
        "missing",
        "created_at",
        "finished_at",
        "lock_offset",
        "lock_file",
        "owner",
        "process",
        "mark",
        "marks",
        "resend_within",
        "ttl",
        "probe",
        "probe_folder",
        "probe_delay",
        "probe_timeout",
        "probe_max",
    ];
    let columns: Vec<String> = plain.iter().map(|column| format!("{of}.{column}")).collect();
    // Three of its own intervals, of which it may miss two.
    format!("{}, coalesce({of}.seen_at + 3 * {of}.seen_every >= {NOW}, false)", columns.join(", "))
}

/// How many columns that is.
pub(super) const CLAIM_WIDTH: usize = 32;

/// Reads a claim from a row that has [`claim_columns`] from this column on.
pub(super) fn claim(row: &Row, first: usize) -> Result<Claim, Trouble> {
    let row = Columns { row, first };
    Ok(Claim {
        id: row.get(0)?,
        key: row.get::<&str>(1)?.parse().map_err(|_| row.unknown(1))?,
        state: row.word(2, State::from_word)?,
        reason: row.word_or_none(3, Reason::from_word)?,
        outcome: row.word(4, Outcome::from_word)?,
        effect: row.word(5, Effect::from_word)?,
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
        // Other hosts have other uptimes: the server's clock is the only one.
        uptime: Uptime::default(),
        finished_at: row.get::<Option<i64>>(17)?.map(Timestamp),
        lock: LockPlace { offset: row.get(18)?, inode: row.get(19)? },
        owner: Owner { actor: row.get(20)?, process: row.get(21)? },
        mark: row.word_or_none(22, Mark::from_word)?,
        means: Means {
            marks: row.get(23)?,
            resend_within: row.duration(24)?,
            ttl: row.duration(25)?,
            probe: row.probe(26)?,
        },
        seen_lately: row.get(31)?,
    })
}

/// Reads an event from `claim, at, kind, actor, detail`.
pub(super) fn event(row: &Row) -> Result<Event, Trouble> {
    let row = Columns { row, first: 0 };
    Ok(Event {
        claim: row.get(0)?,
        at: Timestamp(row.get(1)?),
        kind: row.word(2, EventKind::from_word)?,
        actor: row.get(3)?,
        detail: row.get(4)?,
    })
}

/// Reads one column.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Trouble> {
    Columns { row, first: 0 }.get(column)
}

/// Reads a moment from a time of the server's.
pub(super) fn moment(at: i64) -> Moment {
    Moment { at: Timestamp(at), uptime: Uptime::default() }
}

/// Returns a duration as it is stored.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A row's columns from one of them on.
struct Columns<'a> {
    row: &'a Row,
    first: usize,
}

impl<'a> Columns<'a> {
    fn get<T: FromSql<'a>>(&self, column: usize) -> Result<T, Trouble> {
        // A type that the schema doesn't have: somebody has changed it by hand.
        self.row.try_get(self.first + column).map_err(|error| Trouble::Other(error.to_string()))
    }

    fn word<T>(&self, column: usize, from_word: fn(&str) -> Option<T>) -> Result<T, Trouble> {
        from_word(self.get(column)?).ok_or_else(|| self.unknown(column))
    }

    fn word_or_none<T>(&self, column: usize, from_word: fn(&str) -> Option<T>) -> Result<Option<T>, Trouble> {
        let word: Option<&str> = self.get(column)?;
        word.map(|word| from_word(word).ok_or_else(|| self.unknown(column))).transpose()
    }

    fn unknown(&self, column: usize) -> Trouble {
        let name = self.row.columns().get(self.first + column).map_or("?", |column| column.name());
        Trouble::Other(format!("the column {name} has a word that this idem doesn't know"))
    }

    fn duration(&self, column: usize) -> Result<Option<Duration>, Trouble> {
        let millis: Option<i64> = self.get(column)?;
        Ok(millis.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0))))
    }

    /// Reads a probe from `probe, probe_folder, probe_delay, probe_timeout, probe_max`.
    fn probe(&self, first: usize) -> Result<Option<Probe>, Trouble> {
        let Some(command) = self.get::<Option<Vec<u8>>>(first)? else { return Ok(None) };
        Ok(Some(Probe {
            command: OsString::from_vec(command),
            folder: OsString::from_vec(self.get::<Option<Vec<u8>>>(first + 1)?.unwrap_or_default()),
            delay: self.duration(first + 2)?.unwrap_or_default(),
            timeout: self.duration(first + 3)?.unwrap_or_default(),
            max_output: self.get::<Option<i64>>(first + 4)?.unwrap_or(0).cast_unsigned(),
        }))
    }
}
