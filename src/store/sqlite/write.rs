//! The statements that change a store, each within its caller's transaction.

use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::group::{join, open_attempt, open_steps};
use super::rows::{self, millis};
use crate::domain::claim::{Chunk, Claim, ClaimId, InPlaceOf, Mark, NewClaim, Outcome, State, Stream};
use crate::domain::end::{End, Ended, Open, judge_end};
use crate::domain::event::{EventKind, NewEvent};
use crate::domain::group::Enclosing;
use crate::domain::key::Key;
use crate::domain::moment::{Moment, Uptime, is_within};
use crate::domain::store::{Claimed, Finish, Finished, Marked, NewOutput, NewResult, Transition};
use crate::domain::timestamp::Timestamp;
use crate::host::uptime;

/// The store's clock.
pub(super) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// The same with the host's uptime.
pub(super) fn moment() -> Moment {
    Moment { at: now(), uptime: uptime() }
}

/// Reads the claim that holds a key.
pub(super) fn holder(conn: &Connection, key: &Key) -> rusqlite::Result<Option<Claim>> {
    let sql = format!("SELECT {} FROM claim WHERE key = ?1 AND state IN ('running', 'completed', 'held')", rows::CLAIM);
    conn.query_row(&sql, [key.to_string()], rows::claim).optional()
}

/// Reads a claim by its number.
pub(super) fn get(conn: &Connection, id: ClaimId) -> rusqlite::Result<Option<Claim>> {
    let sql = format!("SELECT {} FROM claim WHERE id = ?1", rows::CLAIM);
    conn.query_row(&sql, [id], rows::claim).optional()
}

/// Attempts count the key's spawns: one that never started gives its number back.
const INSERT_CLAIM: &str =
    "INSERT INTO claim (key, state, outcome, effect, attempt, who, conv, tool, params, bound, command, parent,
                   created_at, lock_offset, lock_inode, owner, process, boot, uptime, marks, resend_within, ttl,
                   probe, probe_folder, probe_delay, probe_timeout, probe_max)
VALUES (?1, 'running', 'unknown', ?2,
        (SELECT 1 + coalesce(max(attempt), 0) FROM claim WHERE key = ?1 AND started = 1),
        ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)
ON CONFLICT (key) WHERE state IN ('running', 'completed', 'held') DO NOTHING
RETURNING id, attempt";

const MISSED: &str = "SELECT id FROM claim WHERE key = ?1 AND id > ?2 ORDER BY id DESC LIMIT 1";

const INSERT_EVENT: &str = "INSERT INTO event (claim, seq, at, kind, actor, detail)
VALUES (?1, (SELECT 1 + coalesce(max(seq), 0) FROM event WHERE claim = ?1), ?2, ?3, ?4, ?5)";

/// What comes after a result was stated for its attempt is kept out of sight: a replay stays as it was.
const INSERT_OUTPUT: &str = "INSERT INTO output (claim, stream, data)
SELECT ?1, iif(state = 'completed', -?2, ?2), ?3 FROM claim WHERE id = ?1";

const FINISH: &str =
    "UPDATE claim SET state = ?2, reason = ?3, outcome = ?4, exit_code = ?5, signal = ?6, missing = ?7, started = ?8,
                 finished_at = ?9
WHERE id = ?1 AND mark IS ?10 AND (state = 'running' OR (state = 'held' AND reason IN ('interrupted', 'owner-lost')))";

/// Prepares what a claim needs, before the turn in the queue: nobody should wait for somebody else's parser.
pub(super) fn prepare_claim(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached(MISSED)?;
    conn.prepare_cached(INSERT_CLAIM)?;
    conn.prepare_cached(INSERT_EVENT).map(|_| ())
}

/// The same for an end.
pub(super) fn prepare_finish(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached(INSERT_EVENT)?;
    conn.prepare_cached(FINISH).map(|_| ())
}

/// The same for output, of which many a command has none.
pub(super) fn prepare_output(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached(INSERT_OUTPUT).map(|_| ())
}

/// Inserts a claim unless its key is held, with the event of its run.
pub(super) fn claim(tx: &Transaction<'_>, new: &NewClaim, uptime: &Uptime) -> rusqlite::Result<Claimed> {
    if let Some(missed) = missed(tx, &new.key, new.seen)? {
        return Ok(missed);
    }
    if let Some(old) = &new.in_place_of
        && !take_place(tx, new, old)?
    {
        return changed(tx, new, old);
    }
    let enclosing = match &new.enclosing {
        Some(enclosing) => open_attempt(tx, enclosing)?.and_then(Result::ok),
        None => None,
    };
    let at = now();
    let probe = new.means.probe.as_ref();
    // The unique index is the arbiter.
    let inserted = tx
        .prepare_cached(INSERT_CLAIM)?
        .query_row(
            params![
                new.key.to_string(),
                new.effect.as_str(),
                new.who,
                new.conv,
                new.tool,
                new.params,
                new.bound,
                new.command.as_bytes(),
                enclosing.map(|claim| claim.id),
                at.0,
                new.lock.offset,
                new.lock.inode,
                new.owner.actor,
                new.owner.process,
                uptime.boot,
                uptime.millis,
                new.means.marks,
                new.means.resend_within.map(millis),
                new.means.ttl.map(millis),
                probe.map(|probe| probe.command.as_bytes()),
                probe.map(|probe| probe.folder.as_bytes()),
                probe.map(|probe| millis(probe.delay)),
                probe.map(|probe| millis(probe.timeout)),
                probe.map(|probe| probe.max_output.cast_signed()),
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    if let Some((id, attempt)) = inserted {
        insert_event(tx, id, at, EventKind::Run, &new.owner.actor, None)?;
        if let Some(enclosing) = &new.enclosing {
            join(tx, enclosing, &new.key)?;
        }
        return Ok(Claimed::Inserted { id, attempt, created_at: at });
    }
    // Within this transaction nobody can have taken the holder away.
    holder(tx, &new.key)?.map(|claim| Claimed::Taken(Box::new(claim))).ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// Tells who holds the key where a claim that was to make place has changed since it was judged, else what became of that.
fn changed(tx: &Transaction<'_>, new: &NewClaim, old: &InPlaceOf) -> rusqlite::Result<Claimed> {
    if let Some(holder) = holder(tx, &new.key)? {
        return Ok(Claimed::Taken(Box::new(holder)));
    }
    let claim = get(tx, old.claim)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(Claimed::Missed(Box::new(claim)))
}

/// Releases the claim in whose place a new one comes, if it is still what it was judged by and its window is open now. Tells
/// whether it did.
///
/// Where not, nothing is inserted: A finds B's claim running and its owner gone, and is to run it again; B had just recorded
/// that it failed, and has released it. A was there for that, and gets it.
///
/// In one transaction with the insert: A releases a held claim to send it again and dies, or B comes in between; the key
/// is free, and B, who never said that the target dedupes, would run what may have landed.
fn take_place(tx: &Transaction<'_>, new: &NewClaim, old: &InPlaceOf) -> rusqlite::Result<bool> {
    if let Some(window) = old.within {
        let first = first_start(tx, &new.key)?;
        if first.is_none_or(|first| !is_within(window, &first, &moment())) {
            return Ok(false);
        }
    }
    let to = Ended { state: State::Released, outcome: Outcome::Unknown, reason: old.reason };
    let detail = serde_json::json!({ "reason": old.reason.as_str() }).to_string();
    let event = NewEvent { kind: EventKind::BecameReleased, detail: Some(detail) };
    let change = Transition {
        from: old.from,
        mark: old.mark,
        to,
        events: vec![event],
        actor: new.owner.actor.clone(),
        result: None,
    };
    transition(tx, old.claim, &change)
}

/// Reads when the key's command was first started, those attempts included that a clear has ended since.
pub(super) fn first_start(conn: &Connection, key: &Key) -> rusqlite::Result<Option<Moment>> {
    let sql = "SELECT created_at, boot, uptime FROM claim WHERE key = ?1 AND started = 1 ORDER BY attempt, id LIMIT 1";
    conn.query_row(sql, [key.to_string()], rows::moment).optional()
}

/// Finds an attempt of the key that began after the arrival had looked, and the claim that it is.
///
/// A and B arrive together and find nobody. A claims, runs, fails and releases; only then does B insert. It would run the
/// command a second time although it came before the release. So it is told of A's attempt and gets that failure.
fn missed(tx: &Transaction<'_>, key: &Key, seen: ClaimId) -> rusqlite::Result<Option<Claimed>> {
    let mut newer = tx.prepare_cached(MISSED)?;
    let id = newer.query_row(params![key.to_string(), seen], |row| row.get(0)).optional()?;
    let claim = match id {
        Some(id) => get(tx, id)?,
        None => None,
    };
    Ok(claim.map(|claim| {
        let holds = claim.state.holds_key();
        if holds { Claimed::Taken(Box::new(claim)) } else { Claimed::Missed(Box::new(claim)) }
    }))
}

/// Appends output.
pub(super) fn append_output(tx: &Transaction<'_>, id: ClaimId, chunks: &[Chunk]) -> rusqlite::Result<()> {
    if chunks.is_empty() {
        return Ok(());
    }
    let mut insert = tx.prepare_cached(INSERT_OUTPUT)?;
    for chunk in chunks {
        let stream = match chunk.stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        };
        insert.execute(params![id, stream, chunk.data])?;
    }
    Ok(())
}

/// Tells of a running attempt how many bytes of its output are missing so far.
pub(super) fn tell_missing(tx: &Transaction<'_>, id: ClaimId, missing: i64) -> rusqlite::Result<()> {
    tx.execute("UPDATE claim SET missing = ?2 WHERE id = ?1 AND state <> 'completed'", params![id, missing]).map(|_| ())
}

/// Records an attempt's end.
///
/// Its owner writes where nobody has decided meanwhile: while it runs, or while it is held only because the owner was
/// thought dead or lost. What a person decided stands; the outcome then goes to the row's history.
pub(super) fn finish(tx: &Transaction<'_>, id: ClaimId, finish: &Finish) -> rusqlite::Result<Finished> {
    let at = now();
    // Most commands leave no mark, and the row says so itself: it is read only where this changes nothing.
    let mut mark = None;
    let mut ended = judge(tx, id, finish, mark)?;
    let mut changed = end_row(tx, id, finish, ended, mark, at)?;
    if changed == 0 {
        mark = get(tx, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?.mark;
        ended = judge(tx, id, finish, mark)?;
        changed = end_row(tx, id, finish, ended, mark, at)?;
    }
    let detail = finish.detail(ended);
    if changed == 1 {
        insert_event(tx, id, at, EventKind::became(ended.state), &finish.actor, Some(&detail))?;
        return Ok(Finished::Recorded(ended));
    }
    // A row that was freed has no result of its own: what is known now is told there, and those who waited for this very
    // attempt get it. A stated result stays, and so does an outcome where the late end leaves it unknown.
    tx.execute(
        "UPDATE claim SET exit_code = ?2, signal = ?3, outcome = iif(?4 = 'unknown', outcome, ?4)
         WHERE id = ?1 AND state IN ('cleared', 'released') AND exit_code IS NULL AND signal IS NULL",
        params![id, finish.exit_code, finish.signal, ended.outcome.as_str()],
    )?;
    let claim = get(tx, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    insert_event(tx, id, at, EventKind::LateOutcome, &finish.actor, Some(&detail))?;
    Ok(Finished::Late(claim.state))
}

/// Tells whether this very end is recorded: by the event that [`finish`] leaves, the only one whose detail has an exit code.
pub(super) fn has_recorded(conn: &Connection, id: ClaimId, finish: &Finish) -> rusqlite::Result<bool> {
    let sql = "SELECT detail FROM event WHERE claim = ?1 AND actor = ?2
                   AND kind IN ('became-completed', 'became-held', 'became-released', 'late-outcome')";
    let mut events = conn.prepare(sql)?;
    let details = events.query_map(params![id, finish.actor], |row| row.get::<_, Option<String>>(0))?;
    for detail in details {
        if detail?.is_some_and(|detail| finish.is_told_by(&detail)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Judges an end. What else of the call is unknown matters, and is looked at, only where it has not landed.
fn judge(tx: &Transaction<'_>, id: ClaimId, finish: &Finish, mark: Option<Mark>) -> rusqlite::Result<Ended> {
    let ended = judge_end(&finish.terms, finish.end, mark, Open::default());
    if ended.outcome == Outcome::Landed {
        return Ok(ended);
    }
    let open = Open { step: !open_steps(tx, id)?.is_empty(), earlier: earlier_is_unknown(tx, id)? };
    Ok(judge_end(&finish.terms, finish.end, mark, open))
}

/// Tells whether an attempt was sent again in place of one whose outcome is still unknown.
///
/// The attempt before it tells: the one was released in the transaction that inserted the other, so nothing stands between
/// them; and nothing of a key is pruned while it is held or runs.
pub(super) fn earlier_is_unknown(conn: &Connection, id: ClaimId) -> rusqlite::Result<bool> {
    let sql = "SELECT state = 'released' AND reason = 'resent' AND outcome <> 'not-landed' FROM claim
               WHERE key = (SELECT key FROM claim WHERE id = ?1) AND id < ?1 ORDER BY id DESC LIMIT 1";
    Ok(conn.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?.unwrap_or(false))
}

/// Ends the row if it may still be ended by its owner and has this mark. Returns how many rows that were.
fn end_row(
    tx: &Transaction<'_>,
    id: ClaimId,
    finish: &Finish,
    ended: Ended,
    mark: Option<Mark>,
    at: Timestamp,
) -> rusqlite::Result<usize> {
    tx.prepare_cached(FINISH)?.execute(params![
        id,
        ended.state.as_str(),
        ended.reason.as_str(),
        ended.outcome.as_str(),
        finish.exit_code,
        finish.signal,
        finish.missing,
        finish.end != End::NotStarted,
        at.0,
        mark.map(Mark::as_str),
    ])
}

/// Changes a claim's state if it is still what it is changed from.
///
/// The comparison is what makes a verdict on a dead owner safe: A reads the row as running; the owner records its end and
/// lets go of its lock; A finds the lock free and believes the owner dead. A's change then finds no running row. The mark
/// is compared for the same: a command that idem's death left behind, its lock closed, says `sending` after A has read
/// the row; A must not release it for having said nothing.
pub(super) fn transition(tx: &Transaction<'_>, id: ClaimId, change: &Transition) -> rusqlite::Result<bool> {
    let at = now();
    let changed = tx.execute(
        // What becomes known late lasts from now on: its time to live may be shorter than it was unknown.
        "UPDATE claim SET state = ?4, reason = ?5, outcome = ?6,
                          finished_at = iif(?4 = 'completed', ?7, coalesce(finished_at, ?7))
         WHERE id = ?1 AND state = ?2 AND mark IS ?3",
        params![
            id,
            change.from.as_str(),
            change.mark.map(Mark::as_str),
            change.to.state.as_str(),
            change.to.reason.as_str(),
            change.to.outcome.as_str(),
            at.0
        ],
    )?;
    if changed == 0 {
        return Ok(false);
    }
    if let Some(result) = &change.result {
        state_result(tx, id, result)?;
    }
    for event in &change.events {
        insert_event(tx, id, at, event.kind, &change.actor, event.detail.as_deref())?;
    }
    Ok(true)
}

/// Gives a claim a result that its command didn't leave. What was recorded stays in the store, out of sight.
fn state_result(tx: &Transaction<'_>, id: ClaimId, result: &NewResult) -> rusqlite::Result<()> {
    tx.execute("UPDATE claim SET exit_code = ?2, signal = NULL WHERE id = ?1", params![id, result.exit_code])?;
    let stdout = match &result.output {
        NewOutput::Recorded => return Ok(()),
        NewOutput::Stdout(stdout) => {
            tx.execute("UPDATE output SET stream = -1 WHERE claim = ?1 AND stream = 1", [id])?;
            stdout
        }
        NewOutput::Only { stdout, missing } => {
            tx.execute("UPDATE output SET stream = -stream WHERE claim = ?1 AND stream > 0", [id])?;
            tx.execute("UPDATE claim SET missing = ?2 WHERE id = ?1", params![id, missing])?;
            stdout
        }
    };
    tx.execute("INSERT INTO output (claim, stream, data) VALUES (?1, 3, ?2)", params![id, stdout])?;
    Ok(())
}

/// Records what a command says of its write.
///
/// While it runs, and while it is held without an end of its own (its idem was killed, or was thought lost): a truth that
/// comes late still counts. Once anybody has decided, it is refused, so that a command that asks before it sends doesn't.
pub(super) fn mark(tx: &Transaction<'_>, from: &Enclosing, mark: Mark, actor: &str) -> rusqlite::Result<Marked> {
    let claim = match open_attempt(tx, from)? {
        None => return Ok(Marked::NotThisAttempt),
        Some(Err(state)) => return Ok(Marked::Over(state)),
        Some(Ok(claim)) => claim,
    };
    if claim.mark == Some(mark) {
        return Ok(Marked::Recorded);
    }
    if claim.mark == Some(Mark::Landed) {
        return Ok(Marked::HasLanded);
    }
    tx.execute("UPDATE claim SET mark = ?2 WHERE id = ?1", params![claim.id, mark.as_str()])?;
    let detail = serde_json::json!({ "mark": mark.as_str() }).to_string();
    insert_event(tx, claim.id, now(), EventKind::Mark, actor, Some(&detail))?;
    Ok(Marked::Recorded)
}

/// Adds an event at the end of a claim's history.
pub(super) fn insert_event(
    tx: &Transaction<'_>,
    id: ClaimId,
    at: Timestamp,
    kind: EventKind,
    actor: &str,
    detail: Option<&str>,
) -> rusqlite::Result<()> {
    tx.prepare_cached(INSERT_EVENT)?.execute(params![id, at.0, kind.as_str(), actor, detail])?;
    Ok(())
}
