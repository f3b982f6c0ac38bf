//! The claim: one insert, which is the arbiter (design §5).
//!
//! Invariant: who inserts has seen every attempt of the key. A row's `turn` is one more than that of the newest row that the
//! statement saw, and turns are unique in a key.

use std::os::unix::ffi::OsStrExt;

use tokio_postgres::types::{ToSql, Type};

use super::rows::{self, NOW, SYNCED, millis};
use super::{Connection, Trouble};
use super::{group, writing};
use crate::domain::claim::{Claim, ClaimId, InPlaceOf, LockPlace, NewClaim, Outcome, State};
use crate::domain::end::Ended;
use crate::domain::event::{EventKind, NewEvent};
use crate::domain::key::Key;
use crate::domain::moment::{Moment, is_within};
use crate::domain::store::{Claimed, Transition};
use crate::domain::timestamp::Timestamp;

/// The longest interval in which an owner shows itself: a year.
const LONGEST: i64 = 365 * 86_400_000;

/// Inserts the row and its event in one statement, unless the key is held, or an attempt began since the arrival looked
/// (`$3`: the newest one that it knows).
///
/// The statement may have an older view of the table than the moment it inserts. *B's statement begins; A claims, runs, fails
/// and releases; B inserts: nobody holds the key.* But A's row has the turn that B computed, so B's insert does nothing, and B
/// looks again and is told of A's attempt. Attempts count the key's spawns: one that never started gives its number back.
fn insert() -> String {
    format!(
        "WITH newest AS (
           SELECT id, turn, state, stepped, grp FROM idem.claim WHERE key = $1 ORDER BY turn DESC LIMIT 1
         ), {SYNCED}, inserted AS (
           INSERT INTO idem.claim (key, turn, attempt, stepped, grp, parent, state, outcome, effect, who, conv, tool, params, bound,
                                   command, created_at, lock_offset, lock_file, owner, process, marks, resend_within, ttl, probe,
                                   probe_folder, probe_delay, probe_timeout, probe_max, seen_at, seen_every)
           SELECT $1, 1 + coalesce((SELECT turn FROM newest), 0),
                  (SELECT 1 + coalesce(max(attempt), 0) FROM idem.claim WHERE key = $1 AND started),
                  coalesce((SELECT stepped FROM newest), false),
                  (SELECT coalesce(grp, id) FROM newest WHERE state NOT IN ('cleared', 'expired')), $2, 'running', 'unknown', $4, $5, $6, $7, $8, $9,
                  $10, {NOW}, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, {NOW}, $23
           FROM synced
           WHERE NOT EXISTS (SELECT 1 FROM newest WHERE id > $3 OR state IN ('running', 'completed', 'held'))
           ON CONFLICT DO NOTHING
           RETURNING id, attempt, created_at
         ), told AS (
           INSERT INTO idem.event (claim, at, kind, actor) SELECT id, created_at, 'run', $13 FROM inserted
         )
         SELECT id, attempt, created_at FROM inserted"
    )
}

/// Tries once to claim. `None`: another attempt came and went in this moment; try again. `again`: an answer was lost before, so
/// that the row which is there may be this arrival's own.
pub(super) fn claim(conn: &mut Connection, new: &NewClaim, again: bool) -> Result<Option<Claimed>, Trouble> {
    let inserted = if new.in_place_of.is_none() && new.enclosing.is_none() {
        insert_claim(conn, new, None)?
    } else {
        claim_in_steps(conn, new)?
    };
    if inserted.is_some() {
        return Ok(inserted);
    }
    let Some(newest) = newest(conn, &new.key)? else { return Ok(None) };
    Ok(told(newest, new, again))
}

/// What is told of the newest row of the key to an arrival that inserted none.
fn told(newest: Claim, new: &NewClaim, again: bool) -> Option<Claimed> {
    if again && newest.lock == new.lock && newest.state == State::Running {
        // Its own row: the statement that made it was answered to nobody.
        return Some(own(&newest));
    }
    if newest.state.holds_key() {
        return Some(Claimed::Taken(Box::new(newest)));
    }
    // Another attempt has come and gone, or the claim in whose place it was to come has changed since it was judged.
    (newest.id > new.seen || new.in_place_of.is_some()).then(|| Claimed::Missed(Box::new(newest)))
}

/// What an arrival is told that finds the row that it has made.
pub(super) fn own(made: &Claim) -> Claimed {
    Claimed::Inserted { id: made.id, attempt: made.attempt, created_at: made.created_at }
}

/// Claims as a step of a group, or in place of another claim: in a transaction of several statements.
///
/// The group's attempt is locked first: its end must see the step, or the step must see that it has ended. A release without
/// the insert that it is for is taken back: the key must not be free for anybody who hasn't said that he bears a second run.
fn claim_in_steps(conn: &mut Connection, new: &NewClaim) -> Result<Option<Claimed>, Trouble> {
    conn.begin()?;
    let parent = match &new.enclosing {
        Some(enclosing) => group::join(conn, enclosing, &new.key)?,
        None => None,
    };
    let missed = newest(conn, &new.key)?.is_some_and(|newest| newest.id > new.seen);
    let has_place = match &new.in_place_of {
        Some(old) if !missed => take_place(conn, new, old)?,
        _ => !missed,
    };
    let inserted = if has_place { insert_claim(conn, new, parent)? } else { None };
    if inserted.is_some() {
        conn.commit()?;
    } else {
        conn.rollback()?;
    }
    Ok(inserted)
}

/// Releases the claim in whose place a new one comes, if it is still what it was judged by and its window is open now. Tells
/// whether it did: where not, nothing is inserted.
fn take_place(conn: &mut Connection, new: &NewClaim, old: &InPlaceOf) -> Result<bool, Trouble> {
    if let Some(window) = old.within {
        let (first, now) = (first_start(conn, &new.key)?, now(conn)?);
        if first.is_none_or(|first| !is_within(window, &first, &now)) {
            return Ok(false);
        }
    }
    let to = Ended { state: State::Released, outcome: Outcome::Unknown, reason: old.reason };
    let detail = serde_json::json!({ "reason": old.reason.as_str() }).to_string();
    let event = NewEvent { kind: EventKind::BecameReleased, detail: Some(detail) };
    let actor = new.owner.actor.clone();
    let change = Transition { from: old.from, mark: old.mark, to, events: vec![event], actor, result: None };
    Ok(writing::change(conn, old.claim, &change)?.changed)
}

fn insert_claim(conn: &mut Connection, new: &NewClaim, parent: Option<ClaimId>) -> Result<Option<Claimed>, Trouble> {
    let (key, effect, command) = (new.key.to_string(), new.effect.as_str(), new.command.as_bytes());
    let probe = new.means.probe.as_ref();
    let probe_command = probe.map(|probe| probe.command.as_bytes());
    let probe_folder = probe.map(|probe| probe.folder.as_bytes());
    let (delay, timeout) = (probe.map(|probe| millis(probe.delay)), probe.map(|probe| millis(probe.timeout)));
    let max = probe.map(|probe| probe.max_output.cast_signed());
    let (resend_within, ttl) = (new.means.resend_within.map(millis), new.means.ttl.map(millis));
    // Three of them are to fit into the server's numbers.
    let seen_every = millis(new.seen_every).min(LONGEST);
    let params: [(&(dyn ToSql + Sync), Type); 23] = [
        (&key, Type::TEXT),
        (&parent, Type::INT8),
        (&new.seen, Type::INT8),
        (&effect, Type::TEXT),
        (&new.who, Type::TEXT),
        (&new.conv, Type::TEXT),
        (&new.tool, Type::TEXT),
        (&new.params, Type::TEXT),
        (&new.bound, Type::TEXT),
        (&command, Type::BYTEA),
        (&new.lock.offset, Type::INT8),
        (&new.lock.inode, Type::INT8),
        (&new.owner.actor, Type::TEXT),
        (&new.owner.process, Type::TEXT),
        (&new.means.marks, Type::BOOL),
        (&resend_within, Type::INT8),
        (&ttl, Type::INT8),
        (&probe_command, Type::BYTEA),
        (&probe_folder, Type::BYTEA),
        (&delay, Type::INT8),
        (&timeout, Type::INT8),
        (&max, Type::INT8),
        (&seen_every, Type::INT8),
    ];
    let rows = conn.query(&insert(), &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Claimed::Inserted {
        id: rows::column(row, 0)?,
        attempt: rows::column(row, 1)?,
        created_at: Timestamp(rows::column(row, 2)?),
    }))
}

/// Reads the newest row of a key: the one that holds it, where one does.
pub(super) fn newest(conn: &mut Connection, key: &Key) -> Result<Option<Claim>, Trouble> {
    let sql =
        format!("SELECT {} FROM idem.claim c WHERE key = $1 ORDER BY turn DESC LIMIT 1", rows::claim_columns("c"));
    let rows = conn.query(&sql, &[(&key.to_string(), Type::TEXT)])?;
    rows.first().map(|row| rows::claim(row, 0)).transpose()
}

/// Reads the row that was made with this very lock.
pub(super) fn made_with(conn: &mut Connection, key: &Key, lock: LockPlace) -> Result<Option<Claim>, Trouble> {
    let sql = format!(
        "SELECT {} FROM idem.claim c WHERE key = $1 AND lock_offset = $2 AND lock_file = $3",
        rows::claim_columns("c")
    );
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&key.to_string(), Type::TEXT), (&lock.offset, Type::INT8), (&lock.inode, Type::INT8)];
    conn.query(&sql, &params)?.first().map(|row| rows::claim(row, 0)).transpose()
}

/// Reads when the key's command was first started, those attempts included that a clear has ended since.
pub(super) fn first_start(conn: &mut Connection, key: &Key) -> Result<Option<Moment>, Trouble> {
    let sql = "SELECT created_at FROM idem.claim WHERE key = $1 AND started ORDER BY turn LIMIT 1";
    let rows = conn.query(sql, &[(&key.to_string(), Type::TEXT)])?;
    rows.first().map(|row| Ok(rows::moment(rows::column(row, 0)?))).transpose()
}

/// Asks the server for the time.
pub(super) fn now(conn: &mut Connection) -> Result<Moment, Trouble> {
    let rows = conn.query(&format!("SELECT {NOW}"), &[])?;
    let row = rows.first().ok_or_else(|| Trouble::Other("the server told no time".to_owned()))?;
    Ok(rows::moment(rows::column(row, 0)?))
}
