//! The statements that change a claim: its end, a change of state, marks, events and output.
//!
//! Invariant: each may be sent again when its answer was lost. A second one finds what the first one did, and says so.

use tokio_postgres::types::{ToSql, Type};

use super::group::{self, OPEN};
use super::rows::{self, NOW, SYNCED};
use super::{Connection, Trouble};
use crate::domain::claim::{Chunk, Claim, ClaimId, Mark, Outcome, State, Stream};
use crate::domain::end::{End, Ended, Open, judge_end};
use crate::domain::event::{EventKind, NewEvent};
use crate::domain::group::Enclosing;
use crate::domain::store::{Finish, Finished, Marked, NewOutput, NewResult, Transition};

/// From where on a stated result stands, in place of what was printed.
const STATED: i64 = 1 << 62;

/// How large a row of output is, in bytes, where one piece is stated whole.
const ROW: usize = 256 * 1024;

/// How much output goes along with an end, in bytes; more is sent ahead.
const ALONG: usize = 1 << 20;

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// Whether the claim was still what it was changed from.
    pub(super) changed: bool,
    /// Whether somebody waits for it.
    pub(super) waited: bool,
}

/// Reads a claim by its number.
pub(super) fn get(conn: &mut Connection, id: ClaimId) -> Result<Option<Claim>, Trouble> {
    let sql = format!("SELECT {} FROM idem.claim c WHERE id = $1", rows::claim_columns("c"));
    conn.query(&sql, &[(&id, Type::INT8)])?.first().map(|row| rows::claim(row, 0)).transpose()
}

/// Changes a claim's state if it is still what it is changed from, with its events, in one statement.
///
/// The comparison is what makes a verdict on a dead or lost owner safe: A reads the row as running; the owner records its end;
/// A's change finds no running row. Two who change the same row wait for each other, and the second one compares what the
/// first one has left.
pub(super) fn change(conn: &mut Connection, id: ClaimId, change: &Transition) -> Result<Changed, Trouble> {
    let sql = format!(
        "WITH {SYNCED}, changed AS (
           UPDATE idem.claim SET state = $4, reason = $5, outcome = $6,
                  finished_at = CASE WHEN $4 = 'completed' THEN {NOW} ELSE coalesce(finished_at, {NOW}) END
           FROM synced WHERE id = $1 AND state = $2 AND mark IS NOT DISTINCT FROM $3
           RETURNING id, waited
         ), told AS (
           INSERT INTO idem.event (claim, at, kind, actor, detail)
           SELECT id, {NOW}, kind, $7, detail FROM changed, unnest($8, $9) WITH ORDINALITY AS event (kind, detail, n)
           ORDER BY n
         )
         SELECT waited FROM changed"
    );
    let kinds: Vec<&str> = change.events.iter().map(|event| event.kind.as_str()).collect();
    let details: Vec<Option<&str>> = change.events.iter().map(|event| event.detail.as_deref()).collect();
    let params: [(&(dyn ToSql + Sync), Type); 9] = [
        (&id, Type::INT8),
        (&change.from.as_str(), Type::TEXT),
        (&change.mark.map(Mark::as_str), Type::TEXT),
        (&change.to.state.as_str(), Type::TEXT),
        (&change.to.reason.as_str(), Type::TEXT),
        (&change.to.outcome.as_str(), Type::TEXT),
        (&change.actor, Type::TEXT),
        (&kinds, Type::TEXT_ARRAY),
        (&details, Type::TEXT_ARRAY),
    ];
    let rows = conn.query(&sql, &params)?;
    let waited = rows.first().map(|row| rows::column(row, 0)).transpose()?;
    Ok(Changed { changed: waited.is_some(), waited: waited.unwrap_or(false) })
}

/// The same, with the result that it states.
pub(super) fn transition(conn: &mut Connection, id: ClaimId, transition: &Transition) -> Result<Changed, Trouble> {
    let Some(result) = &transition.result else { return change(conn, id, transition) };
    conn.begin()?;
    let changed = change(conn, id, transition)?;
    if changed.changed {
        state_result(conn, id, result)?;
    }
    conn.commit()?;
    Ok(changed)
}

/// Tells whether a change took effect whose answer was lost: whether its claim became so and this actor has left its event.
pub(super) fn took_effect(conn: &mut Connection, id: ClaimId, change: &Transition) -> Result<bool, Trouble> {
    let kind = change.events.last().map(|event| event.kind.as_str());
    let sql = "SELECT EXISTS (SELECT 1 FROM idem.claim WHERE id = $1 AND state = $2 AND reason = $3)
                  AND EXISTS (SELECT 1 FROM idem.event WHERE claim = $1 AND actor = $4 AND kind = $5)";
    let params: [(&(dyn ToSql + Sync), Type); 5] = [
        (&id, Type::INT8),
        (&change.to.state.as_str(), Type::TEXT),
        (&change.to.reason.as_str(), Type::TEXT),
        (&change.actor, Type::TEXT),
        (&kind, Type::TEXT),
    ];
    conn.query(sql, &params)?.first().map_or(Ok(false), |row| rows::column(row, 0))
}

/// Gives a claim a result that its command didn't leave. What was recorded stays in the store, out of sight.
fn state_result(conn: &mut Connection, id: ClaimId, result: &NewResult) -> Result<(), Trouble> {
    let (hidden, stdout, missing) = match &result.output {
        NewOutput::Recorded => (None, None, None),
        NewOutput::Stdout(stdout) => (Some("stream = 1"), Some(stdout), None),
        NewOutput::Only { stdout, missing } => (Some("stream > 0"), Some(stdout), Some(*missing)),
    };
    let sql = "UPDATE idem.claim SET exit_code = $2, signal = NULL, missing = coalesce($3, missing) WHERE id = $1";
    conn.query(sql, &[(&id, Type::INT8), (&result.exit_code, Type::INT4), (&missing, Type::INT8)])?;
    if let Some(hidden) = hidden {
        let sql = format!("UPDATE idem.output SET stream = -stream WHERE claim = $1 AND {hidden}");
        conn.query(&sql, &[(&id, Type::INT8)])?;
    }
    let Some(stdout) = stdout else { return Ok(()) };
    // An empty result is one too: it stands in place of what was printed.
    let pieces: Vec<&[u8]> = if stdout.is_empty() { vec![&[]] } else { stdout.chunks(ROW).collect() };
    for (at, piece) in (STATED..).step_by(ROW).zip(pieces) {
        let sql = "INSERT INTO idem.output (claim, at, stream, data) VALUES ($1, $2, 3, $3)";
        conn.query(sql, &[(&id, Type::INT8), (&at, Type::INT8), (&piece, Type::BYTEA)])?;
    }
    Ok(())
}

/// Output on its way into the store, each piece with the number of bytes that stand before it.
///
/// That place is the same however often a piece is sent: one that is there already is passed over.
#[derive(Debug, Default)]
pub(super) struct Pieces<'a> {
    at: Vec<i64>,
    stream: Vec<i16>,
    data: Vec<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    /// Places chunks, the first of which stands behind `first` bytes.
    pub(super) fn of(chunks: impl IntoIterator<Item = &'a Chunk>, first: i64) -> Pieces<'a> {
        let mut pieces = Pieces::default();
        let mut at = first;
        for chunk in chunks {
            for data in chunk.data.chunks(ROW) {
                pieces.at.push(at);
                pieces.stream.push(if chunk.stream == Stream::Stdout { 1 } else { 2 });
                pieces.data.push(data);
                at += i64::try_from(data.len()).unwrap_or(0);
            }
        }
        pieces
    }

    /// Appends them. What comes after a result was stated for its attempt is kept out of sight: a replay stays as it was.
    pub(super) fn append(&self, conn: &mut Connection, id: ClaimId) -> Result<(), Trouble> {
        let sql = "INSERT INTO idem.output (claim, at, stream, data)
                   SELECT $1, at, CASE WHEN state = 'completed' THEN -stream ELSE stream END, data
                   FROM idem.claim, unnest($2, $3, $4) AS piece (at, stream, data) WHERE id = $1
                   ON CONFLICT DO NOTHING";
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&id, Type::INT8),
            (&self.at, Type::INT8_ARRAY),
            (&self.stream, Type::INT2_ARRAY),
            (&self.data, Type::BYTEA_ARRAY),
        ];
        if self.at.is_empty() { Ok(()) } else { conn.query(sql, &params).map(|_| ()) }
    }
}

/// Returns how many of these chunks have to be sent ahead, so that what goes along with the end is little.
pub(super) fn ahead(rest: &[Chunk]) -> usize {
    let mut bytes = 0;
    let along = rest.iter().rev().take_while(|chunk| {
        bytes += chunk.data.len();
        bytes <= ALONG
    });
    rest.len() - along.count()
}

/// Sends some of the chunks ahead, the first of which stands behind `first` bytes. Returns how many, and how many bytes that is.
///
/// What the server has is passed over without being sent again: a slow network gets through in the end, however often it breaks.
pub(super) fn send_ahead(
    conn: &mut Connection,
    id: ClaimId,
    chunks: &[Chunk],
    first: i64,
) -> Result<(usize, i64), Trouble> {
    let sql = format!("SELECT coalesce(max(at), -1) FROM idem.output WHERE claim = $1 AND at < {STATED}");
    let rows = conn.query(&sql, &[(&id, Type::INT8)])?;
    let last: i64 = rows.first().map_or(Ok(-1), |row| rows::column(row, 0))?;
    let (mut count, mut end, mut sent) = (0, first, 0);
    let mut new = 0..0;
    for chunk in chunks {
        let length = i64::try_from(chunk.data.len()).unwrap_or(0);
        // One that the server has the beginning of may lack its end.
        if end + length > last {
            if sent > 0 && sent + chunk.data.len() > ALONG {
                break;
            }
            new = if sent == 0 { count..count + 1 } else { new.start..count + 1 };
            sent += chunk.data.len();
        }
        (count, end) = (count + 1, end + length);
    }
    let before: usize = chunks[..new.start].iter().map(|chunk| chunk.data.len()).sum();
    Pieces::of(&chunks[new], first + i64::try_from(before).unwrap_or(0)).append(conn, id)?;
    Ok((count, end - first))
}

/// Tells of a running attempt that its owner lives, and how many bytes of its output are missing so far.
pub(super) fn show(conn: &mut Connection, id: ClaimId, missing: i64) -> Result<(), Trouble> {
    let sql = format!(
        "UPDATE idem.claim SET seen_at = {NOW}, missing = CASE WHEN $2 > 0 THEN $2 ELSE missing END
         WHERE id = $1 AND {OPEN}"
    );
    conn.query(&sql, &[(&id, Type::INT8), (&missing, Type::INT8)]).map(|_| ())
}

/// Records an attempt's end.
///
/// Its owner writes where nobody has decided meanwhile: while it runs, or while it is held only because the owner was
/// thought dead or lost. What a person decided stands; the outcome then goes to the row's history.
pub(super) fn finish(
    conn: &mut Connection,
    id: ClaimId,
    finish: &Finish,
    rest: &[Chunk],
) -> Result<(Finished, bool), Trouble> {
    let bytes: usize = rest.iter().map(|chunk| chunk.data.len()).sum();
    let pieces = Pieces::of(rest, finish.recorded - i64::try_from(bytes).unwrap_or(0));
    // Most commands leave no mark, have no steps and are no resends, and the rows say so themselves: all is one statement.
    let ended = judge_end(&finish.terms, finish.end, None, Open::default());
    let usual = Usual { finish, ended, pieces: &pieces }.record(conn, id)?;
    if usual.changed {
        return Ok((Finished::Recorded(ended), usual.waited));
    }
    conn.begin()?;
    let finished = finish_by_row(conn, id, finish, &pieces)?;
    conn.commit()?;
    Ok(finished)
}

/// Tells whether this very end is recorded: by the event that [`finish`] leaves, the only one whose detail has an exit code.
pub(super) fn has_recorded(conn: &mut Connection, id: ClaimId, finish: &Finish) -> Result<bool, Trouble> {
    let sql = "SELECT detail FROM idem.event WHERE claim = $1 AND actor = $2 AND detail IS NOT NULL
                  AND kind IN ('became-completed', 'became-held', 'became-released', 'late-outcome')";
    for row in conn.query(sql, &[(&id, Type::INT8), (&finish.actor, Type::TEXT)])? {
        if finish.is_told_by(rows::column(&row, 0)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a row of `claim` was sent again in place of one whose outcome is still unknown.
///
/// The attempt before it tells: the one was released in the transaction that inserted the other, so its turn is the one before;
/// and nothing of a key is pruned while it is held or runs.
const EARLIER_IS_UNKNOWN: &str = "EXISTS (
    SELECT 1 FROM idem.claim earlier
    WHERE earlier.key = claim.key AND earlier.turn = claim.turn - 1
      AND earlier.state = 'released' AND earlier.reason = 'resent' AND earlier.outcome <> 'not-landed')";

/// The end of an attempt without marks and, where that would matter, with nothing else unknown.
struct Usual<'a> {
    finish: &'a Finish,
    ended: Ended,
    pieces: &'a Pieces<'a>,
}

impl Usual<'_> {
    fn record(&self, conn: &mut Connection, id: ClaimId) -> Result<Changed, Trouble> {
        let sql = format!(
            "WITH {SYNCED}, finished AS ({}), told AS (
               INSERT INTO idem.event (claim, at, kind, actor, detail)
               SELECT id, {NOW}, $10, $11, $12 FROM finished
             ), printed AS (
               INSERT INTO idem.output (claim, at, stream, data)
               SELECT id, at, stream, data FROM finished, unnest($13, $14, $15) AS piece (at, stream, data)
               ON CONFLICT DO NOTHING
             )
             SELECT waited FROM finished",
            end_row(
                "FROM synced",
                &format!("mark IS NULL AND ($4 = 'landed' OR NOT stepped AND NOT {EARLIER_IS_UNKNOWN})")
            )
        );
        let detail = self.finish.detail(self.ended);
        let kind = EventKind::became(self.ended.state).as_str();
        let started = self.finish.end != End::NotStarted;
        let params: [(&(dyn ToSql + Sync), Type); 15] = [
            (&id, Type::INT8),
            (&self.ended.state.as_str(), Type::TEXT),
            (&self.ended.reason.as_str(), Type::TEXT),
            (&self.ended.outcome.as_str(), Type::TEXT),
            (&self.finish.exit_code, Type::INT4),
            (&self.finish.signal, Type::INT4),
            (&self.finish.missing, Type::INT8),
            (&started, Type::BOOL),
            (&"recorded", Type::TEXT),
            (&kind, Type::TEXT),
            (&self.finish.actor, Type::TEXT),
            (&detail, Type::TEXT),
            (&self.pieces.at, Type::INT8_ARRAY),
            (&self.pieces.stream, Type::INT2_ARRAY),
            (&self.pieces.data, Type::BYTEA_ARRAY),
        ];
        let rows = conn.query(&sql, &params)?;
        let waited = rows.first().map(|row| rows::column(row, 0)).transpose()?;
        Ok(Changed { changed: waited.is_some(), waited: waited.unwrap_or(false) })
    }
}

/// The update that ends a row which its owner may still end, and where this holds too.
fn end_row(from: &str, condition: &str) -> String {
    format!(
        "UPDATE idem.claim SET state = $2, reason = $3, outcome = $4, exit_code = $5, signal = $6, missing = $7,
                started = $8, ended = $9, finished_at = {NOW}
         {from} WHERE id = $1 AND ended IS NULL AND {OPEN} AND {condition}
         RETURNING id, waited"
    )
}

/// Records an end by what its row says, with the row locked.
///
/// A step that comes to its group meanwhile waits for this lock, and finds that the attempt has ended; one that came before it
/// is seen here, since this transaction's later statements see what was committed before they began.
fn finish_by_row(
    conn: &mut Connection,
    id: ClaimId,
    finish: &Finish,
    pieces: &Pieces<'_>,
) -> Result<(Finished, bool), Trouble> {
    let sql =
        format!("SELECT {}, c.ended, c.waited FROM idem.claim c WHERE id = $1 FOR UPDATE", rows::claim_columns("c"));
    let rows = conn.query(&sql, &[(&id, Type::INT8)])?;
    let row = rows.first().ok_or_else(|| Trouble::Other(format!("claim {id} is gone")))?;
    let claim = rows::claim(row, 0)?;
    let ended: Option<String> = rows::column(row, rows::CLAIM_WIDTH)?;
    let waited = rows::column(row, rows::CLAIM_WIDTH + 1)?;
    if let Some(ended) = ended {
        // It was recorded before, and the answer to that was lost.
        let reason = claim.reason.filter(|_| ended == "recorded");
        return Ok(match reason {
            Some(reason) => {
                let ended = Ended { state: claim.state, outcome: claim.outcome, reason };
                (Finished::Recorded(ended), waited)
            }
            None => (Finished::Late(claim.state), waited),
        });
    }
    pieces.append(conn, id)?;
    if claim.state == State::Running || claim.is_held_without_end() {
        let ended = judge(conn, &claim, finish)?;
        record_end(conn, &claim, finish, ended)?;
        return Ok((Finished::Recorded(ended), waited));
    }
    late(conn, &claim, finish)?;
    Ok((Finished::Late(claim.state), waited))
}

/// Judges an end by the row's mark. What else of the call is unknown matters, and is looked at, only where it has not landed.
fn judge(conn: &mut Connection, claim: &Claim, finish: &Finish) -> Result<Ended, Trouble> {
    let ended = judge_end(&finish.terms, finish.end, claim.mark, Open::default());
    if ended.outcome == Outcome::Landed {
        return Ok(ended);
    }
    let step = !group::open_steps(conn, claim.id)?.is_empty();
    let open = Open { step, earlier: earlier_is_unknown(conn, claim.id)? };
    Ok(judge_end(&finish.terms, finish.end, claim.mark, open))
}

/// Tells whether an attempt was sent again in place of one whose outcome is still unknown.
pub(super) fn earlier_is_unknown(conn: &mut Connection, id: ClaimId) -> Result<bool, Trouble> {
    let sql = format!("SELECT {EARLIER_IS_UNKNOWN} FROM idem.claim WHERE id = $1");
    let rows = conn.query(&sql, &[(&id, Type::INT8)])?;
    Ok(rows.first().map(|row| rows::column(row, 0)).transpose()?.unwrap_or(false))
}

fn record_end(conn: &mut Connection, claim: &Claim, finish: &Finish, ended: Ended) -> Result<(), Trouble> {
    let started = finish.end != End::NotStarted;
    let params: [(&(dyn ToSql + Sync), Type); 9] = [
        (&claim.id, Type::INT8),
        (&ended.state.as_str(), Type::TEXT),
        (&ended.reason.as_str(), Type::TEXT),
        (&ended.outcome.as_str(), Type::TEXT),
        (&finish.exit_code, Type::INT4),
        (&finish.signal, Type::INT4),
        (&finish.missing, Type::INT8),
        (&started, Type::BOOL),
        (&"recorded", Type::TEXT),
    ];
    conn.query(&end_row("", "true"), &params)?;
    let detail = finish.detail(ended);
    leave(conn, claim.id, &NewEvent { kind: EventKind::became(ended.state), detail: Some(detail) }, &finish.actor)
}

/// A row that was freed has no result of its own: what is known now is told there, and those who waited for this very
/// attempt get it. A stated result stays, and so does an outcome where the late end leaves it unknown.
fn late(conn: &mut Connection, claim: &Claim, finish: &Finish) -> Result<(), Trouble> {
    let ended = judge(conn, claim, finish)?;
    let freed = matches!(claim.state, State::Cleared | State::Released) && claim.exit_status().is_none();
    let sql = "UPDATE idem.claim SET ended = 'late',
                      exit_code = CASE WHEN $5 THEN $2 ELSE exit_code END,
                      signal = CASE WHEN $5 THEN $3 ELSE signal END,
                      outcome = CASE WHEN $5 AND $4 <> 'unknown' THEN $4 ELSE outcome END
               WHERE id = $1";
    let params: [(&(dyn ToSql + Sync), Type); 5] = [
        (&claim.id, Type::INT8),
        (&finish.exit_code, Type::INT4),
        (&finish.signal, Type::INT4),
        (&ended.outcome.as_str(), Type::TEXT),
        (&freed, Type::BOOL),
    ];
    conn.query(sql, &params)?;
    let detail = finish.detail(ended);
    leave(conn, claim.id, &NewEvent { kind: EventKind::LateOutcome, detail: Some(detail) }, &finish.actor)
}

/// Records what a command says of its write, while its attempt is open, with the row locked.
pub(super) fn mark(conn: &mut Connection, from: &Enclosing, mark: Mark, actor: &str) -> Result<Marked, Trouble> {
    conn.begin()?;
    let marked = match group::open_attempt(conn, from)? {
        None => Marked::NotThisAttempt,
        Some(Err(state)) => Marked::Over(state),
        Some(Ok(claim)) if claim.mark == Some(mark) => Marked::Recorded,
        Some(Ok(claim)) if claim.mark == Some(Mark::Landed) => Marked::HasLanded,
        Some(Ok(claim)) => {
            let sql = "UPDATE idem.claim SET mark = $2 WHERE id = $1";
            conn.query(sql, &[(&claim.id, Type::INT8), (&mark.as_str(), Type::TEXT)])?;
            let detail = serde_json::json!({ "mark": mark.as_str() }).to_string();
            leave(conn, claim.id, &NewEvent { kind: EventKind::Mark, detail: Some(detail) }, actor)?;
            Marked::Recorded
        }
    };
    conn.commit()?;
    Ok(marked)
}

/// Adds an event to a claim's history.
pub(super) fn leave(conn: &mut Connection, id: ClaimId, event: &NewEvent, actor: &str) -> Result<(), Trouble> {
    let sql = format!("INSERT INTO idem.event (claim, at, kind, actor, detail) VALUES ($1, {NOW}, $2, $3, $4)");
    let params: [(&(dyn ToSql + Sync), Type); 4] =
        [(&id, Type::INT8), (&event.kind.as_str(), Type::TEXT), (&actor, Type::TEXT), (&event.detail, Type::TEXT)];
    conn.query(&sql, &params).map(|_| ())
}
