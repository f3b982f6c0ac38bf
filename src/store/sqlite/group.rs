//! The statements about groups: members, steps, and which attempts share a group (design §8).

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{rows, write};
use crate::domain::claim::{Claim, ClaimId, State};
use crate::domain::group::{Emitted, Enclosing, Made, Member, same};
use crate::domain::key::Key;
use crate::domain::timestamp::Timestamp;

/// The first of the attempts that share a group with attempt ?1: those since the key was last cleared or last expired.
const GROUP: &str =
    "SELECT min(id) FROM claim WHERE key = (SELECT key FROM claim WHERE id = ?1) AND id <= ?1 AND id > (
    SELECT coalesce(max(id), 0) FROM claim
    WHERE key = (SELECT key FROM claim WHERE id = ?1) AND id < ?1 AND state IN ('cleared', 'expired'))";

const INSERT_MEMBER: &str = "INSERT INTO member (grp, claim, at, kind, name, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (grp, kind, name) DO NOTHING";

fn group_of(conn: &Connection, id: ClaimId) -> rusqlite::Result<ClaimId> {
    conn.prepare_cached(GROUP)?.query_row([id], |row| row.get(0))
}

/// Reads an attempt that a command says that it belongs to. `Err`: the state of one that is over; `None`: not its token.
///
/// It is open while it runs, and while it is held without an end of its own: its idem was killed or thought lost, and what
/// its command does still belongs to it.
pub(super) fn open_attempt(conn: &Connection, from: &Enclosing) -> rusqlite::Result<Option<Result<Claim, State>>> {
    let claim = write::get(conn, from.id)?.filter(|claim| claim.lock.token() == from.token);
    Ok(claim.map(|claim| {
        let open = claim.state == State::Running || claim.is_held_without_end();
        if open { Ok(claim) } else { Err(claim.state) }
    }))
}

/// Adds a member, unless its name is taken.
pub(super) fn emit(
    tx: &Transaction<'_>,
    from: &Enclosing,
    name: &str,
    data: Option<&str>,
) -> rusqlite::Result<Emitted> {
    let claim = match open_attempt(tx, from)? {
        None => return Ok(Emitted::NotThisAttempt),
        Some(Err(state)) => return Ok(Emitted::Over(state)),
        Some(Ok(claim)) => claim,
    };
    let grp = group_of(tx, claim.id)?;
    if insert(tx, grp, claim.id, "member", name, data)? {
        return Ok(Emitted::Recorded);
    }
    let sql = "SELECT data FROM member WHERE grp = ?1 AND kind = 'member' AND name = ?2";
    let old: Option<String> = tx.query_row(sql, params![grp, name], |row| row.get(0))?;
    Ok(if same(old.as_deref(), data) { Emitted::Recorded } else { Emitted::Other(old) })
}

/// Tells whether a call would be a new step of an open attempt's group; never of its own.
pub(super) fn would_join(conn: &Connection, enclosing: &Enclosing, step: &Key) -> rusqlite::Result<bool> {
    let Some(Ok(claim)) = open_attempt(conn, enclosing)? else { return Ok(false) };
    if claim.key == *step {
        return Ok(false);
    }
    let is_there = conn
        .query_row(
            "SELECT 1 FROM member WHERE grp = ?1 AND kind = 'step' AND name = ?2",
            params![group_of(conn, claim.id)?, step.to_string()],
            |_| Ok(()),
        )
        .optional()?;
    Ok(is_there.is_none())
}

/// Adds a step, if the attempt is open.
pub(super) fn join(tx: &Transaction<'_>, enclosing: &Enclosing, step: &Key) -> rusqlite::Result<()> {
    if would_join(tx, enclosing, step)?
        && let Some(Ok(claim)) = open_attempt(tx, enclosing)?
    {
        insert(tx, group_of(tx, claim.id)?, claim.id, "step", &step.to_string(), None)?;
    }
    Ok(())
}

/// Tells whether a call has another one among its steps or theirs.
fn has_below(conn: &Connection, call: &str, other: &str) -> rusqlite::Result<bool> {
    // A group is named by one of its key's attempts, so joining by all of them finds it.
    let sql = "WITH RECURSIVE below (key) AS (
                   VALUES (?1)
                   UNION SELECT member.name FROM below JOIN claim USING (key) JOIN member ON member.grp = claim.id
                         WHERE member.kind = 'step')
               SELECT EXISTS (SELECT 1 FROM below WHERE key = ?2)";
    conn.prepare_cached(sql)?.query_row([call, other], |row| row.get(0))
}

/// Inserts a member; tells whether its name was free. The unique index is the arbiter.
fn insert(
    tx: &Transaction<'_>,
    grp: ClaimId,
    claim: ClaimId,
    kind: &str,
    name: &str,
    data: Option<&str>,
) -> rusqlite::Result<bool> {
    let inserted = tx.prepare_cached(INSERT_MEMBER)?.execute(params![grp, claim, write::now().0, kind, name, data])?;
    Ok(inserted == 1)
}

/// Reads the members of an attempt's group, each step as its newest attempt. `None`: the attempt was pruned meanwhile.
pub(super) fn members(conn: &Connection, id: ClaimId) -> rusqlite::Result<Option<Vec<Member>>> {
    // One look at the store: a parent and its steps may be pruned between two.
    let tx = conn.unchecked_transaction()?;
    let is_there = tx.prepare_cached("SELECT 1 FROM claim WHERE id = ?1")?.query_row([id], |_| Ok(())).optional()?;
    if is_there.is_none() {
        return Ok(None);
    }
    let grp = group_of(&tx, id)?;
    let mut statement =
        conn.prepare_cached("SELECT claim, at, kind, name, data FROM member WHERE grp = ?1 ORDER BY id")?;
    let mut newest =
        conn.prepare_cached(&format!("SELECT {} FROM claim WHERE key = ?1 ORDER BY id DESC LIMIT 1", rows::CLAIM))?;
    let mut members = Vec::new();
    let mut rows = statement.query([grp])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(3)?;
        let made = if row.get_ref(2)?.as_str()? == "step" {
            Made::Step(Box::new(newest.query_row([&name], rows::claim)?))
        } else {
            Made::Emitted { name, data: row.get(4)? }
        };
        members.push(Member { claim: row.get(0)?, at: Timestamp(row.get(1)?), made });
    }
    Ok(Some(members))
}

/// Reads the steps of an attempt's group that run or are held, but for those that have this very call below them.
///
/// *P runs S and fails, held for S; S's command comes to P, gets 121 and fails; now S is held for P and P for S, and neither is
/// ever known.* What S waits for there is itself.
pub(super) fn open_steps(conn: &Connection, id: ClaimId) -> rusqlite::Result<Vec<ClaimId>> {
    // The states are those of the unique index, so that it is used.
    let sql = "SELECT step.id, step.key FROM member JOIN claim AS step ON step.key = member.name
                   AND step.state IN ('running', 'completed', 'held') AND step.state <> 'completed'
               WHERE member.grp = ?1 AND member.kind = 'step' ORDER BY member.id";
    let grp = group_of(conn, id)?;
    let mut statement = conn.prepare_cached(sql)?;
    let open = statement.query_map([grp], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let open: Vec<(ClaimId, String)> = open.collect::<rusqlite::Result<_>>()?;
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let own: String = conn.query_row("SELECT key FROM claim WHERE id = ?1", [id], |row| row.get(0))?;
    let mut steps = Vec::new();
    for (step, key) in open {
        if !has_below(conn, &key, &own)? {
            steps.push(step);
        }
    }
    Ok(steps)
}

/// Reads the claims that are held for a step.
pub(super) fn held_for(conn: &Connection, step: &Key) -> rusqlite::Result<Vec<Claim>> {
    let sql = format!("SELECT {} FROM claim WHERE state = 'held' AND reason = 'steps' ORDER BY id", rows::CLAIM);
    let mut statement = conn.prepare(&sql)?;
    let held = statement.query_map([], rows::claim)?;
    let mut found = Vec::new();
    for claim in held {
        let claim = claim?;
        let is_step = conn.query_row(
            "SELECT EXISTS (SELECT 1 FROM member WHERE grp = ?1 AND kind = 'step' AND name = ?2)",
            params![group_of(conn, claim.id)?, step.to_string()],
            |row| row.get(0),
        )?;
        if is_step {
            found.push(claim);
        }
    }
    Ok(found)
}
