//! Pruning, in small transactions: nobody's row is locked for long (design §12).

use std::collections::{HashSet, VecDeque};

use tokio_postgres::types::Type;

use super::claiming;
use super::read::Conditions;
use super::rows;
use super::{Connection, Trouble};
use crate::domain::claim::{ClaimId, State};
use crate::domain::prune::{Attempt, Bounds, Pruned, Pruning, Reached, Space, may_go};
use crate::domain::timestamp::Timestamp;

/// How many keys go in one transaction.
const KEYS: usize = 32;

/// How many candidates are read at once.
const CANDIDATES: usize = 512;

/// The states that can be pruned.
const FINAL: &str = "state IN ('completed', 'released', 'cleared', 'expired')";

/// The work that is left.
#[derive(Clone, Debug)]
pub(super) struct Course {
    now: Timestamp,
    newest: ClaimId,
    /// The last one that was looked at.
    at: ClaimId,
    /// The next candidates, with their keys.
    next: VecDeque<(ClaimId, String)>,
    /// The groups that would be gone, where nothing is removed: what they name is free.
    gone: Vec<ClaimId>,
    /// Attempts that were counted, where nothing is removed: a step may be looked at twice.
    counted: HashSet<ClaimId>,
    pruned: Pruned,
}

/// An attempt, and the group that it belongs to.
struct Row {
    attempt: Attempt,
    group: ClaimId,
}

impl Course {
    pub(super) fn begin(conn: &mut Connection) -> Result<Course, Trouble> {
        let newest = conn.query("SELECT coalesce(max(id), 0) FROM idem.claim", &[])?;
        Ok(Course {
            now: claiming::now(conn)?.at,
            newest: newest.first().map_or(Ok(0), |row| rows::column(row, 0))?,
            at: 0,
            next: VecDeque::new(),
            gone: Vec::new(),
            counted: HashSet::new(),
            pruned: Pruned::default(),
        })
    }

    pub(super) fn reached(&self) -> Reached {
        Reached { claim: self.at, last: self.newest, pruned: self.pruned }
    }

    /// Looks for what may go next. Tells whether there is anything left to do.
    pub(super) fn look(&mut self, conn: &mut Connection, pruning: &Pruning) -> Result<bool, Trouble> {
        if !self.next.is_empty() {
            return Ok(true);
        }
        let mut conditions = Conditions::default();
        for value in [self.at, self.newest, pruning.ended_before.0] {
            conditions.take(value, Type::INT8);
        }
        conditions.add_call([&pruning.who, &pruning.conv, &pruning.tool]);
        let sql = format!(
            "SELECT c.id, c.key FROM idem.claim c WHERE c.id > $1 AND c.id <= $2 AND c.finished_at < $3 AND c.{FINAL}{}
             ORDER BY c.id LIMIT {CANDIDATES}",
            conditions.and()
        );
        for row in conn.query(&sql, &conditions.params())? {
            self.next.push_back((rows::column(&row, 0)?, rows::column(&row, 1)?));
        }
        Ok(!self.next.is_empty())
    }

    /// Does one piece of the work, in one transaction. One that has to be done again begins from what this one began from.
    pub(super) fn piece(&self, conn: &mut Connection, pruning: &Pruning) -> Result<Course, Trouble> {
        let mut course = self.clone();
        conn.begin()?;
        for _ in 0..KEYS {
            let Some((id, key)) = course.next.pop_front() else { break };
            course.at = course.at.max(id);
            course.prune_key(conn, pruning, id, &key)?;
        }
        conn.commit()?;
        Ok(course)
    }

    /// Prunes what may go of one key. Only its oldest attempt leads to it.
    fn prune_key(&mut self, conn: &mut Connection, pruning: &Pruning, by: ClaimId, key: &str) -> Result<(), Trouble> {
        let all = attempts(conn, key)?;
        if all.first().is_none_or(|oldest| oldest.attempt.id != by) {
            return Ok(());
        }
        let attempts: Vec<Attempt> = all.iter().map(|row| row.attempt).collect();
        let is_step = self.is_step(conn, key)?;
        let bounds = Bounds { ended_before: pruning.ended_before, now: self.now, newest: self.newest, is_step };
        let count = may_go(&attempts, &bounds);
        let (going, staying) = all.split_at(count);
        let mut groups: Vec<ClaimId> = going.iter().map(|row| row.group).collect();
        groups.dedup();
        groups.retain(|group| !staying.iter().any(|row| row.group == *group));
        if count == 0 || needed(conn, &groups)? {
            return Ok(());
        }
        let going: Vec<ClaimId> =
            going.iter().map(|row| row.attempt.id).filter(|id| pruning.apply || self.counted.insert(*id)).collect();
        self.count(conn, &going)?;
        self.pruned.members += number(conn, "SELECT count(*) FROM idem.member WHERE grp = ANY ($1)", &groups)?;
        let steps = conn.query(
            "SELECT DISTINCT name FROM idem.member WHERE grp = ANY ($1) AND kind = 'step'",
            &[(&groups, Type::INT8_ARRAY)],
        )?;
        if pruning.apply {
            remove(conn, &going, &groups)?;
        } else {
            self.gone.extend(&groups);
        }
        for step in &steps {
            self.look_again(conn, rows::column(step, 0)?)?;
        }
        Ok(())
    }

    /// Tells whether a group that stays names this key as a step.
    fn is_step(&self, conn: &mut Connection, key: &str) -> Result<bool, Trouble> {
        let sql = "SELECT EXISTS (SELECT 1 FROM idem.member WHERE kind = 'step' AND name = $1 AND grp <> ALL ($2))";
        let found = conn.query(sql, &[(&key, Type::TEXT), (&self.gone, Type::INT8_ARRAY)])?;
        found.first().map_or(Ok(false), |row| rows::column(row, 0))
    }

    /// Looks again at a step that was passed by because a group named it, once none does.
    fn look_again(&mut self, conn: &mut Connection, step: String) -> Result<(), Trouble> {
        if self.is_step(conn, &step)? {
            return Ok(());
        }
        let sql = format!("SELECT id FROM idem.claim WHERE key = $1 AND id <= $2 AND {FINAL} ORDER BY turn LIMIT 1");
        let passed = conn.query(&sql, &[(&step, Type::TEXT), (&self.at, Type::INT8)])?;
        if let Some(row) = passed.first() {
            self.next.push_back((rows::column(row, 0)?, step));
        }
        Ok(())
    }

    fn count(&mut self, conn: &mut Connection, going: &[ClaimId]) -> Result<(), Trouble> {
        self.pruned.completed +=
            number(conn, "SELECT count(*) FROM idem.claim WHERE id = ANY ($1) AND state = 'completed'", going)?;
        self.pruned.history +=
            number(conn, "SELECT count(*) FROM idem.claim WHERE id = ANY ($1) AND state <> 'completed'", going)?;
        self.pruned.events += number(conn, "SELECT count(*) FROM idem.event WHERE claim = ANY ($1)", going)?;
        for bytes in [
            "SELECT sum(octet_length(params) + octet_length(command) + 200) FROM idem.claim WHERE id = ANY ($1)",
            "SELECT sum(40 + octet_length(actor) + coalesce(octet_length(detail), 0)) FROM idem.event WHERE claim = ANY ($1)",
            "SELECT sum(octet_length(data)) FROM idem.output WHERE claim = ANY ($1)",
        ] {
            self.pruned.bytes += number(conn, bytes, going)?;
        }
        Ok(())
    }
}

/// Tells whether a group is still needed: a step of it runs or is held, at any depth.
fn needed(conn: &mut Connection, groups: &[ClaimId]) -> Result<bool, Trouble> {
    let sql = "WITH RECURSIVE below (key) AS (
                 SELECT name FROM idem.member WHERE grp = ANY ($1) AND kind = 'step'
                 UNION SELECT lower.name FROM below JOIN idem.claim USING (key)
                       JOIN idem.member AS lower ON lower.grp = coalesce(claim.grp, claim.id) AND lower.kind = 'step')
               SELECT EXISTS (SELECT 1 FROM below JOIN idem.claim AS step ON step.key = below.key
                              AND step.state IN ('running', 'held'))";
    let found = conn.query(sql, &[(&groups, Type::INT8_ARRAY)])?;
    found.first().map_or(Ok(false), |row| rows::column(row, 0))
}

/// Reads a key's attempts, oldest first (a window of "for ever" ends in 30,000 years: the sum must stay a number of the server's), and keeps others from changing them until the piece is done.
fn attempts(conn: &mut Connection, key: &str) -> Result<Vec<Row>, Trouble> {
    let sql =
        "SELECT id, state, started, finished_at,
                      created_at + CASE WHEN resend_within > 1000000000000000 THEN 1000000000000000 ELSE resend_within END,
                      coalesce(grp, id)
               FROM idem.claim WHERE key = $1 ORDER BY turn FOR UPDATE";
    let found = conn.query(sql, &[(&key, Type::TEXT)])?;
    let row = |row| {
        let attempt = Attempt {
            id: rows::column(row, 0)?,
            // A state that this idem doesn't know is none that it may remove.
            state: State::from_word(rows::column(row, 1)?).unwrap_or(State::Held),
            started: rows::column(row, 2)?,
            ended: rows::column::<Option<i64>>(row, 3)?.map(Timestamp),
            window_end: rows::column::<Option<i64>>(row, 4)?.map(Timestamp),
        };
        Ok(Row { attempt, group: rows::column(row, 5)? })
    };
    found.iter().map(row).collect()
}

fn remove(conn: &mut Connection, claims: &[ClaimId], groups: &[ClaimId]) -> Result<(), Trouble> {
    for (table, column, ids) in
        [("claim", "id", claims), ("event", "claim", claims), ("output", "claim", claims), ("member", "grp", groups)]
    {
        let sql = format!("DELETE FROM idem.{table} WHERE {column} = ANY ($1)");
        conn.query(&sql, &[(&ids, Type::INT8_ARRAY)])?;
    }
    Ok(())
}

fn number(conn: &mut Connection, sql: &str, ids: &[ClaimId]) -> Result<u64, Trouble> {
    let sql = format!("SELECT coalesce(({sql})::bigint, 0)");
    let found = conn.query(&sql, &[(&ids, Type::INT8_ARRAY)])?;
    found.first().map_or(Ok(0), |row| rows::column::<i64>(row, 0)).map(i64::cast_unsigned)
}

/// Returns the size of the tables. What is pruned is free within them once the server has vacuumed, which it does by itself.
pub(super) fn space(conn: &mut Connection) -> Result<Space, Trouble> {
    let sql = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
               JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'idem' AND c.relkind = 'r'";
    let found = conn.query(sql, &[])?;
    let size: i64 = found.first().map_or(Ok(0), |row| rows::column(row, 0))?;
    let size = size.cast_unsigned();
    Ok(Space { before: size, after: size, free_inside: 0 })
}
