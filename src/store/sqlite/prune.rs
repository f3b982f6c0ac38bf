//! Pruning, in pieces small enough that a run which comes meanwhile waits for none of them for long (design §12).
//!
//! What may go is judged in the transaction that removes it. What is only known from the whole store, which calls are steps
//! of which groups, is read once and kept up to date from what others add.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::listing::of_call;
use super::write;
use crate::domain::claim::{ClaimId, State};
use crate::domain::prune::{Attempt, Bounds, Pruned, Pruning, Reached, groups, may_go};
use crate::domain::timestamp::Timestamp;

/// For how long one transaction works: a run that comes meanwhile waits for it.
const PIECE: Duration = Duration::from_millis(8);

/// How many attempts of one key go in one transaction.
const MOST_ATTEMPTS: usize = 50;

/// How much output goes with its claim; more goes afterwards, in pieces of its own.
const MOST_OUTPUT: i64 = 1 << 20;

/// How many chunks of output go at once.
const CHUNKS: i64 = 8;

/// How many candidates are read at once.
const CANDIDATES: i64 = 1024;

/// The states that can be pruned, spelled as the partial indexes don't have them: the scan goes by the row's number.
const FINAL: &str = "state IN ('completed', 'released', 'cleared', 'expired')";

/// The work that is left.
#[derive(Debug)]
pub(super) struct Course {
    now: Timestamp,
    /// The last claim to look at: what is claimed meanwhile isn't old.
    last: ClaimId,
    /// The last one that was looked at.
    at: ClaimId,
    /// The next candidates, with their keys.
    next: VecDeque<(ClaimId, String)>,
    /// The groups that name a key as a step.
    named_by: HashMap<String, HashSet<ClaimId>>,
    /// The newest member that is known in `named_by`. The newest one of the store is never removed, so later ones have
    /// higher numbers.
    newest_member: ClaimId,
    /// Claims whose output is still there.
    output_left: Vec<ClaimId>,
    /// Attempts of steps that were counted, where nothing is removed: a step may be looked at twice.
    counted: HashSet<ClaimId>,
    pruned: Pruned,
}

impl Course {
    /// Begins. Output that a killed prune has left behind goes first.
    pub(super) fn begin(conn: &Connection, pruning: &Pruning) -> rusqlite::Result<Course> {
        let last = conn.query_row("SELECT coalesce(max(id), 0) FROM claim", [], |row| row.get(0))?;
        let output_left = if pruning.apply { orphans(conn)? } else { Vec::new() };
        Ok(Course {
            now: write::now(),
            last,
            at: 0,
            next: VecDeque::new(),
            named_by: HashMap::new(),
            newest_member: 0,
            output_left,
            counted: HashSet::new(),
            pruned: Pruned::default(),
        })
    }

    pub(super) fn reached(&self) -> Reached {
        Reached { claim: self.at, last: self.last, pruned: self.pruned }
    }

    /// Does one piece of the work.
    pub(super) fn piece(&mut self, conn: &Connection, pruning: &Pruning) -> rusqlite::Result<()> {
        let end = Instant::now() + PIECE;
        self.learn_steps(conn)?;
        while let Some(&claim) = self.output_left.last() {
            let sql = "DELETE FROM output WHERE id IN (SELECT id FROM output WHERE claim = ?1 LIMIT ?2)";
            if conn.prepare_cached(sql)?.execute(params![claim, CHUNKS])? == 0 {
                self.output_left.pop();
            }
            if Instant::now() >= end {
                return Ok(());
            }
        }
        while let Some((id, key)) = self.next.front().cloned() {
            self.at = self.at.max(id);
            // Only a key's oldest attempt leads to it; a key with many is not read once for each of them.
            let more = oldest(conn, &key)? == Some(id) && self.prune_key(conn, pruning, &key)?;
            self.next.pop_front();
            if let Some(rest) = oldest(conn, &key)?.filter(|_| more) {
                self.next.push_front((rest, key));
            }
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }

    /// Looks for what may go next. Tells whether there is anything left to do.
    ///
    /// Not in a piece's transaction: where little is old enough, the search takes longer than anybody should wait.
    pub(super) fn look(&mut self, conn: &Connection, pruning: &Pruning) -> rusqlite::Result<bool> {
        if !self.next.is_empty() || !self.output_left.is_empty() {
            return Ok(true);
        }
        let mut sql = format!("SELECT id, key FROM claim WHERE id > ?1 AND id <= ?2 AND finished_at < ?3 AND {FINAL}");
        let mut values: Vec<Value> = vec![self.at.into(), self.last.into(), pruning.ended_before.0.into()];
        for condition in of_call([&pruning.who, &pruning.conv, &pruning.tool], &mut values) {
            sql += &format!(" AND {condition}");
        }
        sql += &format!(" ORDER BY id LIMIT {CANDIDATES}");
        let mut statement = conn.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.next = rows.collect::<rusqlite::Result<_>>()?;
        Ok(!self.next.is_empty())
    }

    /// Prunes what may go of one key. Tells whether more of it may.
    fn prune_key(&mut self, conn: &Connection, pruning: &Pruning, key: &str) -> rusqlite::Result<bool> {
        let attempts = attempts(conn, key)?;
        let newest = conn.prepare_cached("SELECT max(id) FROM claim")?.query_row([], |row| row.get(0))?;
        let is_step = self.named_by.get(key).is_some_and(|groups| !groups.is_empty());
        let bounds = Bounds { ended_before: pruning.ended_before, now: self.now, newest, is_step };
        let may_go = may_go(&attempts, &bounds);
        // Fewer at once where there are many, but not a part of the key that would forget how many there were.
        let started_later = |count: usize| attempts[count..].iter().any(|attempt| attempt.started);
        let capped = if pruning.apply { may_go.min(MOST_ATTEMPTS) } else { may_go };
        let count = if started_later(capped) { capped } else { may_go };
        if count == 0 || needed(conn, &attempts, count)? {
            return Ok(false);
        }
        for attempt in &attempts[..count] {
            if !pruning.apply && self.named_by.contains_key(key) && !self.counted.insert(attempt.id) {
                continue;
            }
            self.prune_attempt(conn, pruning, attempt)?;
        }
        self.prune_groups(conn, pruning, &attempts, count)?;
        Ok(count < may_go)
    }

    fn prune_attempt(&mut self, conn: &Connection, pruning: &Pruning, attempt: &Attempt) -> rusqlite::Result<()> {
        let id = attempt.id;
        let output = size_of(conn, "SELECT sum(octet_length(data)) FROM output WHERE claim = ?1", id)?;
        let row = "SELECT octet_length(params) + octet_length(command) + 200 FROM claim WHERE id = ?1";
        let events =
            "SELECT sum(40 + octet_length(actor) + ifnull(octet_length(detail), 0)) FROM event WHERE claim = ?1";
        let bytes = output + size_of(conn, row, id)? + size_of(conn, events, id)?;
        let events = size_of(conn, "SELECT count(*) FROM event WHERE claim = ?1", id)?;
        if pruning.apply {
            conn.prepare_cached("DELETE FROM claim WHERE id = ?1")?.execute([id])?;
            conn.prepare_cached("DELETE FROM event WHERE claim = ?1")?.execute([id])?;
            if output > MOST_OUTPUT {
                // Its row goes first: a replay that has begun then sees that what it reads is no longer whole.
                self.output_left.push(id);
            } else if output > 0 {
                conn.prepare_cached("DELETE FROM output WHERE claim = ?1")?.execute([id])?;
            }
        }
        if attempt.state == State::Completed {
            self.pruned.completed += 1;
        } else {
            self.pruned.history += 1;
        }
        self.pruned.events += events.cast_unsigned();
        self.pruned.bytes += bytes.cast_unsigned();
        Ok(())
    }

    /// Removes the groups whose attempts are all gone. One that goes on is named by the first attempt that is left.
    fn prune_groups(
        &mut self,
        conn: &Connection,
        pruning: &Pruning,
        attempts: &[Attempt],
        count: usize,
    ) -> rusqlite::Result<()> {
        let left = attempts.get(count).map(|attempt| attempt.id);
        let groups = groups(attempts);
        for (number, group) in groups.iter().enumerate() {
            if attempts[count..].iter().any(|attempt| attempt.id == *group) {
                break;
            }
            let until = groups.get(number + 1).copied().unwrap_or(ClaimId::MAX);
            let goes_on = left.filter(|left| *left < until);
            let steps = steps(conn, *group)?;
            match goes_on {
                Some(left) if pruning.apply => {
                    let sql = "UPDATE member SET grp = ?2 WHERE grp = ?1";
                    conn.prepare_cached(sql)?.execute(params![group, left])?;
                }
                Some(_) => continue,
                None => {
                    self.pruned.members +=
                        size_of(conn, "SELECT count(*) FROM member WHERE grp = ?1", *group)?.cast_unsigned();
                    if pruning.apply {
                        conn.prepare_cached("DELETE FROM member WHERE grp = ?1")?.execute([group])?;
                    }
                }
            }
            for step in steps {
                self.no_longer_named(conn, step, *group, goes_on)?;
            }
        }
        Ok(())
    }

    /// Takes a group from those that name a step. One that none names any more may go itself: where it was passed by, it is
    /// looked at again.
    fn no_longer_named(
        &mut self,
        conn: &Connection,
        step: String,
        group: ClaimId,
        renamed: Option<ClaimId>,
    ) -> rusqlite::Result<()> {
        let groups = self.named_by.entry(step.clone()).or_default();
        groups.remove(&group);
        groups.extend(renamed);
        if !groups.is_empty() {
            return Ok(());
        }
        let sql = format!("SELECT id FROM claim WHERE key = ?1 AND id <= ?2 AND {FINAL} ORDER BY attempt, id LIMIT 1");
        let passed: Option<ClaimId> =
            conn.prepare_cached(&sql)?.query_row(params![step, self.at], |row| row.get(0)).optional()?;
        if let Some(id) = passed {
            // Behind the one that is being pruned, which stands first.
            self.next.push_back((id, step));
        }
        Ok(())
    }

    /// Reads which calls have become steps since.
    fn learn_steps(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut statement =
            conn.prepare_cached("SELECT id, grp, name, kind = 'step' FROM member WHERE id > ?1 ORDER BY id")?;
        let mut rows = statement.query([self.newest_member])?;
        while let Some(row) = rows.next()? {
            self.newest_member = row.get(0)?;
            if row.get(3)? {
                self.named_by.entry(row.get(2)?).or_default().insert(row.get(1)?);
            }
        }
        Ok(())
    }
}

/// Tells whether a group of the attempts that would go is still needed: a step of it runs or is held, at any depth, or its
/// newest member is the store's, whose number would be given again.
fn needed(conn: &Connection, attempts: &[Attempt], count: usize) -> rusqlite::Result<bool> {
    let newest: Option<ClaimId> = conn
        .prepare_cached("SELECT grp FROM member ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(newest) = newest else { return Ok(false) };
    let mut open = conn.prepare_cached(
        "WITH RECURSIVE below (key) AS (
           SELECT name FROM member WHERE grp = ?1 AND kind = 'step'
           UNION SELECT member.name FROM below JOIN claim ON claim.key = below.key
                 JOIN member ON member.grp = claim.id AND member.kind = 'step')
         SELECT EXISTS (SELECT 1 FROM below JOIN claim AS step ON step.key = below.key
                        AND step.state IN ('running', 'completed', 'held') AND step.state <> 'completed')",
    )?;
    for group in groups(attempts).into_iter().filter(|group| attempts[..count].iter().any(|gone| gone.id == *group)) {
        if group == newest || open.query_row([group], |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn oldest(conn: &Connection, key: &str) -> rusqlite::Result<Option<ClaimId>> {
    let sql = "SELECT id FROM claim WHERE key = ?1 ORDER BY attempt, id LIMIT 1";
    conn.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()
}

/// Reads a key's attempts. A window of "for ever" ends in 30,000 years: the sum must stay a whole number.
fn attempts(conn: &Connection, key: &str) -> rusqlite::Result<Vec<Attempt>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, state, started, finished_at, created_at + min(resend_within, 1000000000000000)
         FROM claim WHERE key = ?1 ORDER BY attempt, id",
    )?;
    let rows = statement.query_map([key], |row| {
        Ok(Attempt {
            id: row.get(0)?,
            // A state that this idem doesn't know is none that it may remove.
            state: State::from_word(row.get_ref(1)?.as_str()?).unwrap_or(State::Held),
            started: row.get(2)?,
            ended: row.get::<_, Option<i64>>(3)?.map(Timestamp),
            window_end: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        })
    })?;
    rows.collect()
}

fn steps(conn: &Connection, group: ClaimId) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare_cached("SELECT name FROM member WHERE grp = ?1 AND kind = 'step'")?;
    let names = statement.query_map([group], |row| row.get(0))?;
    names.collect()
}

/// Output whose claim is gone.
fn orphans(conn: &Connection) -> rusqlite::Result<Vec<ClaimId>> {
    let mut statement = conn.prepare(
        "SELECT DISTINCT claim FROM output WHERE NOT EXISTS (SELECT 1 FROM claim WHERE claim.id = output.claim)",
    )?;
    let ids = statement.query_map([], |row| row.get(0))?;
    ids.collect()
}

fn size_of(conn: &Connection, sql: &str, id: ClaimId) -> rusqlite::Result<i64> {
    conn.prepare_cached(sql)?.query_row([id], |row| row.get::<_, Option<i64>>(0)).map(Option::unwrap_or_default)
}
