//! The statements that look things up: the holder of a key, finding, listing, history, output.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::rows::{self, NOW};
use super::writing;
use super::{Connection, Trouble};
use crate::domain::claim::{Claim, ClaimId, State, Stream};
use crate::domain::event::Event;
use crate::domain::key::Key;
use crate::domain::store::{ClaimRef, Filter, Found, Listed, Which};

/// What one look at a key tells.
pub(super) struct Look {
    /// The claim that holds it.
    pub(super) holder: Option<Claim>,
    /// The schema's version.
    pub(super) version: i64,
    /// The server's time.
    pub(super) at: i64,
}

/// Looks at a key: an arrival's first question, and a replay's only one before the output.
pub(super) fn look(conn: &mut Connection, key: &Key) -> Result<Look, Trouble> {
    let sql = format!(
        "SELECT s.version, {NOW}, c.id IS NOT NULL, {} FROM idem.store s
         LEFT JOIN idem.claim c ON c.key = $1 AND c.state IN ('running', 'completed', 'held')",
        rows::claim_columns("c")
    );
    let found = conn.query(&sql, &[(&key.to_string(), Type::TEXT)])?;
    let row = found.first().ok_or_else(|| Trouble::Other("idem.store is empty".to_owned()))?;
    let holder = if rows::column(row, 2)? { Some(rows::claim(row, 3)?) } else { None };
    Ok(Look { holder, version: rows::column(row, 0)?, at: rows::column(row, 1)? })
}

/// Finds the claim that somebody named: by number, or the newest of the one key that a prefix fits.
pub(super) fn find(conn: &mut Connection, named: &ClaimRef) -> Result<Found, Trouble> {
    let prefix = match named {
        ClaimRef::Id(id) => {
            return Ok(writing::get(conn, *id)?.map_or(Found::Nothing, |claim| Found::Claim(Box::new(claim))));
        }
        ClaimRef::KeyPrefix(prefix) => prefix,
    };
    // 'g' sorts behind every hex digit, so this range is exactly the keys with the prefix.
    let sql = "SELECT DISTINCT key FROM idem.claim WHERE key >= $1 AND key < $1 || 'g' LIMIT 2";
    let keys = conn.query(sql, &[(prefix, Type::TEXT)])?;
    match keys.as_slice() {
        [] => Ok(Found::Nothing),
        [key] => {
            let key: Key = rows::column::<&str>(key, 0)?.parse().map_err(|_| Trouble::Other("not a key".to_owned()))?;
            let newest = super::claiming::newest(conn, &key)?;
            Ok(newest.map_or(Found::Nothing, |claim| Found::Claim(Box::new(claim))))
        }
        _ => Ok(Found::Ambiguous),
    }
}

/// Lists claims, newest first, with their arrivals.
pub(super) fn list(conn: &mut Connection, filter: &Filter) -> Result<Vec<Listed>, Trouble> {
    let columns = format!(
        "{}, (SELECT count(*) FROM idem.event WHERE event.claim = c.id
              AND event.kind IN ('run', 'replay', 'busy', 'held', 'mismatch', 'inside-itself'))",
        rows::claim_columns("c")
    );
    select(conn, &columns, filter, |row| {
        Ok(Listed { claim: rows::claim(row, 0)?, arrivals: rows::column(row, rows::CLAIM_WIDTH)? })
    })
}

/// Reads claims, newest first.
pub(super) fn claims(conn: &mut Connection, filter: &Filter) -> Result<Vec<Claim>, Trouble> {
    select(conn, &rows::claim_columns("c"), filter, |row| rows::claim(row, 0))
}

/// Counts the claims that fit.
pub(super) fn count(conn: &mut Connection, filter: &Filter, most: u64) -> Result<u64, Trouble> {
    let mut conditions = Conditions::of(filter);
    let limit = conditions.take(i64::try_from(most).unwrap_or(i64::MAX), Type::INT8);
    let sql =
        format!("SELECT count(*) FROM (SELECT 1 FROM idem.claim c{} LIMIT ${limit}) AS counted", conditions.sql());
    let counted: i64 = conn.query(&sql, &conditions.params())?.first().map_or(Ok(0), |row| rows::column(row, 0))?;
    Ok(counted.cast_unsigned())
}

fn select<T>(
    conn: &mut Connection,
    columns: &str,
    filter: &Filter,
    read: impl FnMut(&Row) -> Result<T, Trouble>,
) -> Result<Vec<T>, Trouble> {
    let conditions = Conditions::of(filter);
    let limit = filter.limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
    let sql = format!("SELECT {columns} FROM idem.claim c{} ORDER BY c.id DESC{limit}", conditions.sql());
    conn.query(&sql, &conditions.params())?.iter().map(read).collect()
}

/// A filter's conditions, and the values that belong into them. The limit is none of them.
#[derive(Default)]
pub(super) struct Conditions {
    wanted: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync>>,
    kinds: Vec<Type>,
}

impl Conditions {
    fn of(filter: &Filter) -> Conditions {
        let mut conditions = Conditions::default();
        if !filter.states.is_empty() {
            let words: Vec<&str> = filter.states.iter().copied().map(State::as_str).collect();
            // The words are the program's own, and spelled out so that the partial indexes can be used.
            conditions.wanted.push(format!("c.state IN ('{}')", words.join("', '")));
        }
        conditions.add_call([&filter.who, &filter.conv, &filter.tool]);
        for (comparison, time) in [(">=", filter.since), ("<", filter.before)] {
            if let Some(time) = time {
                conditions.add(&format!("c.created_at {comparison}"), time.0, Type::INT8);
            }
        }
        if filter.without_steps {
            conditions.wanted.push("(c.parent IS NULL OR c.state = 'held')".to_owned());
        }
        conditions
    }

    /// Adds that a claim is of this who, conv and tool, as far as they are given.
    pub(super) fn add_call(&mut self, call: [&Option<String>; 3]) {
        for (column, value) in ["who", "conv", "tool"].into_iter().zip(call) {
            if let Some(value) = value {
                self.add(&format!("c.{column} ="), value.clone(), Type::TEXT);
            }
        }
    }

    /// Adds a comparison with a value.
    fn add(&mut self, comparison: &str, value: impl ToSql + Sync + 'static, kind: Type) {
        let number = self.take(value, kind);
        self.wanted.push(format!("{comparison} ${number}"));
    }

    /// Takes a value that the statement has elsewhere. Returns its number.
    pub(super) fn take(&mut self, value: impl ToSql + Sync + 'static, kind: Type) -> usize {
        self.values.push(Box::new(value));
        self.kinds.push(kind);
        self.values.len()
    }

    /// Returns them as the end of a statement on the claims `c`.
    fn sql(&self) -> String {
        if self.wanted.is_empty() { String::new() } else { format!(" WHERE {}", self.wanted.join(" AND ")) }
    }

    /// The same for a statement that has conditions of its own.
    pub(super) fn and(&self) -> String {
        self.wanted.iter().map(|condition| format!(" AND {condition}")).collect()
    }

    pub(super) fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.values.iter().map(AsRef::as_ref).zip(self.kinds.iter().cloned()).collect()
    }
}

/// Reads every attempt of a key, oldest first.
pub(super) fn attempts(conn: &mut Connection, key: &Key) -> Result<Vec<Claim>, Trouble> {
    let sql = format!("SELECT {} FROM idem.claim c WHERE key = $1 ORDER BY turn", rows::claim_columns("c"));
    conn.query(&sql, &[(&key.to_string(), Type::TEXT)])?.iter().map(|row| rows::claim(row, 0)).collect()
}

/// Reads the events of all attempts of a key, oldest first.
pub(super) fn events(conn: &mut Connection, key: &Key) -> Result<Vec<Event>, Trouble> {
    let sql = "SELECT event.claim, event.at, event.kind, event.actor, event.detail
               FROM idem.claim JOIN idem.event ON event.claim = claim.id WHERE claim.key = $1
               ORDER BY event.at, event.claim, event.id";
    conn.query(sql, &[(&key.to_string(), Type::TEXT)])?.iter().map(rows::event).collect()
}

/// Counts how often the target was asked about an attempt.
pub(super) fn times_asked(conn: &mut Connection, id: ClaimId) -> Result<i64, Trouble> {
    let sql = "SELECT count(*) FROM idem.event WHERE claim = $1 AND kind = 'probe'";
    conn.query(sql, &[(&id, Type::INT8)])?.first().map_or(Ok(0), |row| rows::column(row, 0))
}

/// Tells whether `ancestor` is `claim` or one of those that started it, or another attempt of one of these.
pub(super) fn encloses(conn: &mut Connection, ancestor: ClaimId, claim: ClaimId) -> Result<bool, Trouble> {
    let sql = "WITH RECURSIVE up (id) AS (
                 SELECT $2 UNION SELECT parent FROM idem.claim JOIN up USING (id) WHERE parent IS NOT NULL)
               SELECT EXISTS (SELECT 1 FROM up JOIN idem.claim USING (id)
                              WHERE key = (SELECT key FROM idem.claim WHERE id = $1))";
    conn.query(sql, &[(&ancestor, Type::INT8), (&claim, Type::INT8)])?
        .first()
        .map_or(Ok(false), |row| rows::column(row, 0))
}

/// How many bytes of output are read at once, about.
const PIECE: i64 = 1 << 20;

/// How many rows of it.
const ROWS: i64 = 2000;

/// A look at an attempt's output, piece by piece: its reader may be slow, and memory is not to grow with it.
pub(super) struct Output {
    pub(super) id: ClaimId,
    wanted: &'static str,
    last: i64,
}

/// A piece of output.
pub(super) struct Piece {
    pub(super) chunks: Vec<(Stream, Vec<u8>)>,
    /// Whether it is the last one.
    pub(super) last: bool,
}

impl Output {
    pub(super) fn of(id: ClaimId, which: Which) -> Output {
        let wanted = match which {
            Which::Result => "stream > 0",
            Which::Printed => "abs(stream) < 3",
            Which::Stated => "stream = 3",
        };
        Output { id, wanted, last: -1 }
    }

    /// Reads the next piece. `None`: the claim was pruned meanwhile, and what was read isn't all: each piece is read together
    /// with the claim's row, since pruning removes both at once.
    ///
    /// `replay`: the arrival that it is for leaves its event in the same round trip. Where the server takes no events, the
    /// output is given all the same.
    pub(super) fn next(&mut self, conn: &mut Connection, replay: Option<&str>) -> Result<Option<Piece>, Trouble> {
        match self.read(conn, replay) {
            Err(Trouble::ReadOnly(_)) if replay.is_some() => self.read(conn, None),
            read => read,
        }
    }

    fn read(&mut self, conn: &mut Connection, replay: Option<&str>) -> Result<Option<Piece>, Trouble> {
        let event = format!(
            "WITH replayed AS (INSERT INTO idem.event (claim, at, kind, actor)
                               SELECT id, {NOW}, 'replay', $3 FROM idem.claim WHERE id = $1)"
        );
        let sql = format!(
            "{} SELECT o.at, o.stream, o.data, o.rows
             FROM idem.claim AS c LEFT JOIN LATERAL (
               SELECT * FROM (
                 SELECT *, count(*) OVER () AS rows, sum(octet_length(data)) OVER (ORDER BY at) - octet_length(data) AS before
                 FROM (SELECT at, stream, data FROM idem.output
                       WHERE claim = $1 AND at > $2 AND {} ORDER BY at LIMIT {ROWS}) AS next) AS sized
               WHERE before < {PIECE}) AS o ON true
             WHERE c.id = $1 ORDER BY o.at",
            if replay.is_some() { &event } else { "" },
            self.wanted
        );
        let actor = replay.unwrap_or_default();
        let mut params: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&self.id, Type::INT8), (&self.last, Type::INT8)];
        if replay.is_some() {
            params.push((&actor, Type::TEXT));
        }
        let found = conn.query(&sql, &params)?;
        if found.is_empty() {
            return Ok(None);
        }
        let mut piece = Piece { chunks: Vec::new(), last: true };
        let mut rows_left = 0;
        for row in &found {
            // A claim without output is one row of nothing.
            let Some(at) = rows::column(row, 0)? else { break };
            self.last = at;
            rows_left = rows::column(row, 3)?;
            let stream: i16 = rows::column(row, 1)?;
            let stream = if stream.abs() == 2 { Stream::Stderr } else { Stream::Stdout };
            piece.chunks.push((stream, rows::column(row, 2)?));
        }
        piece.last = rows_left < ROWS && i64::try_from(piece.chunks.len()) == Ok(rows_left);
        Ok(Some(piece))
    }
}
