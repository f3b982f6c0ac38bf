//! The statements about groups: members, steps, and which attempts share a group (design §8).
//!
//! Invariant: whoever adds to a group has its open attempt's row locked, in the same transaction. The end of that attempt waits
//! for the lock or goes before: it never overlooks a step whose outcome is unknown.

use sha2::{Digest, Sha256};
use tokio_postgres::types::{ToSql, Type};

use super::rows::{self, NOW};
use super::{Connection, Trouble};
use crate::domain::claim::{Claim, ClaimId, State};
use crate::domain::group::{Emitted, Enclosing, Made, Member, same};
use crate::domain::key::Key;
use crate::domain::timestamp::Timestamp;

/// What is true of an attempt that is open: it runs, or it is held without an end of its own; its idem was killed or thought
/// lost, and what its command does still belongs to it.
pub(super) const OPEN: &str = "(state = 'running' OR (state = 'held' AND reason IN ('interrupted', 'owner-lost')))";

/// The group of attempt $1: its attempts are those since the key was last cleared or last expired.
const GROUP: &str = "(SELECT coalesce(grp, id) FROM idem.claim WHERE id = $1)";

/// Reads and locks an attempt that a command says that it belongs to. `Err`: the state of one that is over; `None`: not its
/// token.
pub(super) fn open_attempt(conn: &mut Connection, from: &Enclosing) -> Result<Option<Result<Claim, State>>, Trouble> {
    let sql = format!("SELECT {} FROM idem.claim c WHERE id = $1 FOR UPDATE", rows::claim_columns("c"));
    let rows = conn.query(&sql, &[(&from.id, Type::INT8)])?;
    let claim = rows.first().map(|row| rows::claim(row, 0)).transpose()?;
    let claim = claim.filter(|claim| claim.lock.token() == from.token);
    Ok(claim.map(|claim| {
        let open = claim.state == State::Running || claim.is_held_without_end();
        if open { Ok(claim) } else { Err(claim.state) }
    }))
}

/// Adds a member, unless its name is taken.
pub(super) fn emit(
    conn: &mut Connection,
    from: &Enclosing,
    name: &str,
    data: Option<&str>,
) -> Result<Emitted, Trouble> {
    conn.begin()?;
    let emitted = match open_attempt(conn, from)? {
        None => Emitted::NotThisAttempt,
        Some(Err(state)) => Emitted::Over(state),
        Some(Ok(claim)) if insert(conn, &claim, "member", name, data)? => Emitted::Recorded,
        Some(Ok(claim)) => {
            let sql = format!("SELECT data FROM idem.member WHERE grp = {GROUP} AND kind = 'member' AND digest = $2");
            let rows = conn.query(&sql, &[(&claim.id, Type::INT8), (&digest(name), Type::TEXT)])?;
            let old: Option<String> = rows.first().map_or(Ok(None), |row| rows::column(row, 0))?;
            if same(old.as_deref(), data) { Emitted::Recorded } else { Emitted::Other(old) }
        }
    };
    conn.commit()?;
    Ok(emitted)
}

/// Tells whether a call would be a new step of an open attempt's group; never of its own.
pub(super) fn would_join(conn: &mut Connection, enclosing: &Enclosing, step: &Key) -> Result<bool, Trouble> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM idem.claim WHERE id = $1 AND lpad(to_hex(lock_offset), 16, '0') = $3
                        AND key <> $2 AND {OPEN})
            AND NOT EXISTS (SELECT 1 FROM idem.member WHERE grp = {GROUP} AND kind = 'step' AND name = $2)"
    );
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&enclosing.id, Type::INT8), (&step.to_string(), Type::TEXT), (&enclosing.token, Type::TEXT)];
    conn.query(&sql, &params)?.first().map_or(Ok(false), |row| rows::column(row, 0))
}

/// Adds a step within a transaction, if the attempt is open. Returns the attempt where it is.
pub(super) fn join(conn: &mut Connection, enclosing: &Enclosing, step: &Key) -> Result<Option<ClaimId>, Trouble> {
    let Some(Ok(claim)) = open_attempt(conn, enclosing)? else { return Ok(None) };
    if claim.key != *step {
        let sql = "UPDATE idem.claim SET stepped = true WHERE id = $1 AND NOT stepped";
        conn.query(sql, &[(&claim.id, Type::INT8)])?;
        insert(conn, &claim, "step", &step.to_string(), None)?;
    }
    Ok(Some(claim.id))
}

/// Inserts a member; tells whether its name was free. The unique index is the arbiter.
fn insert(conn: &mut Connection, claim: &Claim, kind: &str, name: &str, data: Option<&str>) -> Result<bool, Trouble> {
    let sql = format!(
        "INSERT INTO idem.member (grp, claim, at, kind, name, digest, data) VALUES ({GROUP}, $1, {NOW}, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING RETURNING id"
    );
    let params: [(&(dyn ToSql + Sync), Type); 5] = [
        (&claim.id, Type::INT8),
        (&kind, Type::TEXT),
        (&name, Type::TEXT),
        (&digest(name), Type::TEXT),
        (&data, Type::TEXT),
    ];
    Ok(!conn.query(&sql, &params)?.is_empty())
}

fn digest(name: &str) -> String {
    Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the members of an attempt's group, each step as its newest attempt. `None`: the attempt was pruned meanwhile.
pub(super) fn members(conn: &mut Connection, id: ClaimId) -> Result<Option<Vec<Member>>, Trouble> {
    // One statement is one look at the store: a parent and its steps may be pruned between two.
    let sql = format!(
        "SELECT m.claim, m.at, m.kind, m.name, m.data, s.id IS NOT NULL, {}
         FROM (SELECT {GROUP} AS grp) AS g LEFT JOIN idem.member m ON m.grp = g.grp
              LEFT JOIN LATERAL (SELECT * FROM idem.claim WHERE m.kind = 'step' AND key = m.name
                                 ORDER BY turn DESC LIMIT 1) AS s ON true
         WHERE g.grp IS NOT NULL ORDER BY m.id",
        rows::claim_columns("s")
    );
    let rows = conn.query(&sql, &[(&id, Type::INT8)])?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut members = Vec::new();
    for row in &rows {
        // A group without members is one row of nothing.
        let Some(claim) = rows::column(row, 0)? else { break };
        let made = match rows::column::<&str>(row, 2)? {
            "step" if rows::column(row, 5)? => Made::Step(Box::new(rows::claim(row, 6)?)),
            // Pruned in this moment.
            "step" => continue,
            _ => Made::Emitted { name: rows::column(row, 3)?, data: rows::column(row, 4)? },
        };
        members.push(Member { claim, at: Timestamp(rows::column(row, 1)?), made });
    }
    Ok(Some(members))
}

/// Reads the steps of an attempt's group that run or are held, but for those that have this very call below them.
///
/// *P runs S and fails, held for S; S's command comes to P, gets 121 and fails; now S is held for P and P for S, and neither is
/// ever known.* What S waits for there is itself.
pub(super) fn open_steps(conn: &mut Connection, id: ClaimId) -> Result<Vec<ClaimId>, Trouble> {
    let sql = format!(
        "SELECT step.id FROM idem.member JOIN idem.claim AS step ON step.key = member.name AND step.state IN ('running', 'held')
         WHERE member.grp = {GROUP} AND member.kind = 'step' AND NOT EXISTS (
           WITH RECURSIVE below (key) AS (
             SELECT step.key
             UNION SELECT lower.name FROM below JOIN idem.claim USING (key)
                   JOIN idem.member AS lower ON lower.grp = coalesce(claim.grp, claim.id) AND lower.kind = 'step')
           SELECT 1 FROM below WHERE key = (SELECT key FROM idem.claim WHERE id = $1))
         ORDER BY member.id"
    );
    conn.query(&sql, &[(&id, Type::INT8)])?.iter().map(|row| rows::column(row, 0)).collect()
}

/// Reads the claims that are held for a step.
pub(super) fn held_for(conn: &mut Connection, step: &Key) -> Result<Vec<Claim>, Trouble> {
    let sql = format!(
        "SELECT {} FROM idem.claim c WHERE c.state = 'held' AND c.reason = 'steps' AND EXISTS (
           SELECT 1 FROM idem.member
           WHERE member.kind = 'step' AND member.name = $1 AND member.grp = coalesce(c.grp, c.id))
         ORDER BY c.id",
        rows::claim_columns("c")
    );
    conn.query(&sql, &[(&step.to_string(), Type::TEXT)])?.iter().map(|row| rows::claim(row, 0)).collect()
}
