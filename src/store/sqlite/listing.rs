//! Finding the claims that fit a filter, newest first, without reading those that don't (design §10, `list`).
//!
//! Invariant: the claims up to `listing.last` are in the indexes of listed claims, whatever becomes of them later, and no
//! later one is. So a look for claims reads the later ones, of which there are few, and asks the indexes for the others.
//!
//! A run would have to write a page more for each index, in the transactions that its caller waits for. Hence they lag behind,
//! and who brings them up to date has nobody waiting: a run whose command is at work.

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params_from_iter};

use crate::domain::claim::{ClaimId, State};
use crate::domain::store::Filter;

/// How many claims are listed at once, and how many later ones there are at most, but for those of a few runs. A thousand take
/// some milliseconds, in which nobody else can write.
const BATCH: i64 = 1000;

/// How many of the listed claims are looked at one by one, before an index is asked.
const NEWEST: i64 = 1500;

/// A condition that fewer claims fulfil than this is rare: to read those by its index takes less than to read the newest.
const RARE: u64 = 100;

/// Up to how many claims are counted of what a condition finds, before another one is tried: first to find a rare one
/// quickly, then to find one at all.
const FEW: [u64; 2] = [500, 30_000];

/// Tells whether a batch of claims can be listed.
pub(super) fn is_due(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT (SELECT max(id) FROM claim) - last >= ?1 FROM listing")?
        .query_row([BATCH], |row| row.get::<_, Option<bool>>(0))
        .map(|due| due == Some(true))
}

/// Lists the next claims.
pub(super) fn extend(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    let last = last(tx)?;
    // Numbers have gaps where claims were pruned: a thousand claims, and not a thousand numbers.
    let sql = "SELECT max(id) FROM (SELECT id FROM claim WHERE id > ?1 ORDER BY id LIMIT ?2)";
    let Some(until) = tx.query_row(sql, [last, BATCH], |row| row.get::<_, Option<ClaimId>>(0))? else { return Ok(()) };
    tx.execute("UPDATE claim SET listed = 1 WHERE id > ?1 AND id <= ?2", [last, until])?;
    tx.execute("UPDATE listing SET last = ?1", [until]).map(|_| ())
}

/// The newest claim that is listed.
fn last(conn: &Connection) -> rusqlite::Result<ClaimId> {
    conn.query_row("SELECT last FROM listing", [], |row| row.get(0))
}

/// Reads what `columns` says of the claims that fit, newest first, with `read`.
pub(super) fn select<T>(
    conn: &Connection,
    columns: &str,
    filter: &Filter,
    mut read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut found = Vec::new();
    in_parts(conn, filter, filter.limit, |part, left| {
        let (from, mut values) = part.of(filter);
        let mut sql = format!("SELECT {columns} {from} ORDER BY id DESC");
        if let Some(left) = left {
            values.push(i64::try_from(left).unwrap_or(i64::MAX).into());
            sql += &format!(" LIMIT ?{}", values.len());
        }
        let before = found.len();
        for row in conn.prepare(&sql)?.query_map(params_from_iter(values), &mut read)? {
            found.push(row?);
        }
        Ok((found.len() - before) as u64)
    })?;
    Ok(found)
}

/// Counts the claims that fit, up to `most`.
pub(super) fn count(conn: &Connection, filter: &Filter, most: u64) -> rusqlite::Result<u64> {
    in_parts(conn, filter, Some(most), |part, left| part.count(conn, filter, left.unwrap_or(u64::MAX)))
}

/// A part of the claims.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Those after this one, or up to it.
    after: bool,
    border: ClaimId,
    /// The index to find them by; none: each is read.
    index: Option<&'static str>,
}

/// Looks at the newest claims, those that aren't listed among them, and then, where that was not enough, at the others by an index.
/// `look` takes how many are wanted still, and tells how many it has found.
///
/// What many claims fulfil is found among the newest: then no index is asked how many that are. What is rare isn't looked for there:
/// only those that no index has are read. The border is drawn once, so that a
/// claim which is listed between the two looks is looked at once all the same.
fn in_parts(
    conn: &Connection,
    filter: &Filter,
    wanted: Option<u64>,
    mut look: impl FnMut(Part, Option<u64>) -> rusqlite::Result<u64>,
) -> rusqlite::Result<u64> {
    let last = last(conn)?;
    let rare = best_index(conn, filter, last, &[RARE])?;
    let border = if rare.is_some() { last } else { last - NEWEST };
    let found = look(Part { after: true, border, index: None }, wanted)?;
    let left = wanted.map(|wanted| wanted.saturating_sub(found));
    if left == Some(0) {
        return Ok(found);
    }
    let index = if rare.is_some() { rare } else { best_index(conn, filter, border, &FEW)? };
    Ok(found + look(Part { after: false, border, index }, left)?)
}

/// Finds the condition that the fewest listed claims fulfil: fewer than the first of `few`, else fewer than the next. `None`: each is
/// fulfilled by many, so that what fits is soon found by reading one after the other.
fn best_index(
    conn: &Connection,
    filter: &Filter,
    border: ClaimId,
    few: &[u64],
) -> rusqlite::Result<Option<&'static str>> {
    for &few in few {
        let mut best = None;
        for (index, alone) in alone(filter) {
            let part = Part { after: false, border, index: Some(index) };
            let count = part.count(conn, &alone, few)?;
            if count < best.map_or(few, |(least, _)| least) {
                best = Some((count, index));
            }
        }
        if let Some((_, index)) = best {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The conditions of a filter that have an index, each by itself.
fn alone(filter: &Filter) -> Vec<(&'static str, Filter)> {
    let no = Filter::default;
    let mut conditions = Vec::new();
    if filter.who.is_some() {
        conditions.push(("listed_who", Filter { who: filter.who.clone(), ..no() }));
    }
    if filter.conv.is_some() {
        conditions.push(("listed_conv", Filter { conv: filter.conv.clone(), ..no() }));
    }
    if filter.tool.is_some() {
        conditions.push(("listed_tool", Filter { tool: filter.tool.clone(), ..no() }));
    }
    if !filter.states.is_empty() {
        conditions.push(("listed_state", Filter { states: filter.states.clone(), ..no() }));
    }
    if filter.since.is_some() || filter.before.is_some() {
        conditions.push(("listed_time", Filter { since: filter.since, before: filter.before, ..no() }));
    }
    conditions
}

impl Part {
    fn count(self, conn: &Connection, filter: &Filter, most: u64) -> rusqlite::Result<u64> {
        let (from, mut values) = self.of(filter);
        values.push(i64::try_from(most).unwrap_or(i64::MAX).into());
        let sql = format!("SELECT count(*) FROM (SELECT 1 {from} LIMIT ?{})", values.len());
        Ok(conn.query_row(&sql, params_from_iter(values), |row| row.get::<_, i64>(0))?.cast_unsigned())
    }

    /// Where to look for the claims of this part that fit: all of a statement from `FROM` to its conditions, and the values that
    /// belong into them.
    fn of(self, filter: &Filter) -> (String, Vec<Value>) {
        let mut values = vec![self.border.into()];
        let mut wanted = vec![if self.after { "id > ?1" } else { "id <= ?1" }.to_owned()];
        let how = match self.index {
            Some(index) => {
                wanted.push("listed = 1".to_owned());
                format!("INDEXED BY {index}")
            }
            // Those of one state that has an index of its own are found by that.
            None if self.after => String::new(),
            None => "NOT INDEXED".to_owned(),
        };
        wanted.extend(conditions(filter, &mut values));
        (format!("FROM claim {how} WHERE {}", wanted.join(" AND ")), values)
    }
}

/// Returns the filter's conditions, and adds the values that belong into them. The limit is none of them.
fn conditions(filter: &Filter, values: &mut Vec<Value>) -> Vec<String> {
    let mut wanted = Vec::new();
    if !filter.states.is_empty() {
        let words: Vec<&str> = filter.states.iter().copied().map(State::as_str).collect();
        // The words are the program's own, and spelled out so that the partial indexes can be used.
        wanted.push(match words.as_slice() {
            // As the index of held claims has it: for a list of one it would not be used.
            [one] => format!("state = '{one}'"),
            _ => format!("state IN ('{}')", words.join("', '")),
        });
    }
    wanted.extend(of_call([&filter.who, &filter.conv, &filter.tool], values));
    for (comparison, time) in [(">=", filter.since), ("<", filter.before)] {
        if let Some(time) = time {
            values.push(time.0.into());
            wanted.push(format!("created_at {comparison} ?{}", values.len()));
        }
    }
    if filter.without_steps {
        wanted.push("(parent IS NULL OR state = 'held')".to_owned());
    }
    wanted
}

/// Returns the conditions that a claim is of this who, conv and tool, as far as they are given, and adds their values.
pub(super) fn of_call(call: [&Option<String>; 3], values: &mut Vec<Value>) -> Vec<String> {
    let mut wanted = Vec::new();
    for (column, value) in ["who", "conv", "tool"].into_iter().zip(call) {
        if let Some(value) = value {
            values.push(value.clone().into());
            wanted.push(format!("claim.{column} = ?{}", values.len()));
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::Timestamp;
    use crate::store::SqlitePlace;
    use crate::store::sqlite::SqliteStore;

    /// A store with so many claims, of states, names and times by number.
    fn store_of(count: i64) -> (tempfile::TempDir, SqliteStore) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = SqliteStore::open(&SqlitePlace::at(folder.path().join("s.db"), false)).expect("a new store");
        fill(&store, 1, count);
        (folder, store)
    }

    fn fill(store: &SqliteStore, first: i64, last: i64) {
        let sql = "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
                   INSERT INTO claim (key, effect, attempt, who, conv, tool, params, command, created_at, lock_offset, lock_inode,
                                      owner, process, state, outcome, parent)
                   SELECT 'k' || i, 'local', 1, 'w' || (i % 2), 'c' || (i / 700), 't' || (i % 900), '{}', x'7800', i * 10, 7, 7,
                          'a@h[1]', '', CASE WHEN i % 1100 = 5 THEN 'held' WHEN i % 1300 = 6 THEN 'running'
                                             WHEN i % 3 = 0 THEN 'released' ELSE 'completed' END, 'unknown',
                          iif(i % 50 = 0, 1, NULL) FROM n WHERE i <= ?2";
        store.conn.execute(sql, [first, last]).expect("claims");
    }

    fn list_all(store: &mut SqliteStore) {
        while is_due(&store.conn).expect("reading works") {
            store.write(extend).expect("listing works");
        }
    }

    /// What fits, by reading every claim.
    fn plainly(store: &SqliteStore, filter: &Filter) -> Vec<ClaimId> {
        let mut values = Vec::new();
        let wanted = conditions(filter, &mut values);
        let wanted = if wanted.is_empty() { "true".to_owned() } else { wanted.join(" AND ") };
        let sql = format!("SELECT id FROM claim NOT INDEXED WHERE {wanted} ORDER BY id DESC");
        let mut statement = store.conn.prepare(&sql).expect("a statement");
        let rows = statement.query_map(params_from_iter(values), |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("ids")
    }

    fn filters() -> Vec<Filter> {
        let mut filters = vec![Filter::default()];
        let some = |value: &str| Some(value.to_owned());
        let add = |filters: &mut Vec<Filter>, with: &dyn Fn(&Filter) -> Vec<Filter>| {
            let more: Vec<Filter> = filters.iter().flat_map(with).collect();
            filters.extend(more);
        };
        add(&mut filters, &|one| ["w1", "nobody"].map(|who| Filter { who: some(who), ..one.clone() }).to_vec());
        add(&mut filters, &|one| ["c2", "none"].map(|conv| Filter { conv: some(conv), ..one.clone() }).to_vec());
        add(&mut filters, &|one| vec![Filter { tool: some("t7"), ..one.clone() }]);
        add(&mut filters, &|one| {
            let states = [vec![State::Held], vec![State::Running, State::Held], vec![State::Cleared]];
            states.map(|states| Filter { states, ..one.clone() }).to_vec()
        });
        add(&mut filters, &|one| {
            let times =
                [(Some(9_000), None), (None, Some(3_000)), (Some(15_000), Some(15_100)), (Some(99_999_999), None)];
            let times = times.map(|(since, before)| (since.map(Timestamp), before.map(Timestamp)));
            times.map(|(since, before)| Filter { since, before, ..one.clone() }).to_vec()
        });
        add(&mut filters, &|one| vec![Filter { without_steps: true, ..one.clone() }]);
        filters
    }

    #[test]
    fn listed_or_not_the_same_claims_fit() {
        for count in [999, 4_600] {
            let (_folder, mut store) = store_of(count);
            list_all(&mut store);
            assert_eq!(last(&store.conn), Ok(count / BATCH * BATCH), "whole batches");
            // What becomes of a listed claim later is found too, and what is gone isn't.
            store.conn.execute("UPDATE claim SET state = 'cleared' WHERE id % 1000 = 40", []).expect("clearing");
            store.conn.execute("DELETE FROM claim WHERE id % 700 = 8", []).expect("pruning");
            for filter in filters() {
                let all = plainly(&store, &filter);
                for limit in [None, Some(3)] {
                    let limited = Filter { limit, ..filter.clone() };
                    let found = select(&store.conn, "id", &limited, |row| row.get::<_, ClaimId>(0));
                    assert_eq!(
                        found.as_ref(),
                        Ok(&all[..all.len().min(limit.map_or(all.len(), |_| 3))].to_vec()),
                        "{filter:?}"
                    );
                }
                for most in [0, 40, 5_000] {
                    assert_eq!(super::count(&store.conn, &filter, most), Ok(most.min(all.len() as u64)), "{filter:?}");
                }
            }
        }
    }

    #[test]
    fn what_nobody_has_is_found_missing_without_reading_what_others_have() {
        let (_folder, mut store) = store_of(40_000);
        list_all(&mut store);
        let steps = |filter: &Filter| {
            let mut steps = 0;
            let count = in_parts(&store.conn, filter, None, |part, _| {
                let (from, values) = part.of(filter);
                let mut statement = store.conn.prepare(&format!("SELECT id {from} ORDER BY id DESC"))?;
                let found = statement.query_map(params_from_iter(values), |_| Ok(()))?.count();
                steps += statement.get_status(rusqlite::StatementStatus::VmStep);
                Ok(found as u64)
            });
            assert!(count.is_ok());
            steps
        };
        let some = |value: &str| Some(value.to_owned());
        for rare in [
            Filter { who: some("nobody"), ..Filter::default() },
            Filter { who: some("w1"), conv: some("c999"), ..Filter::default() },
            Filter { who: some("w1"), tool: some("t77"), conv: some("c3"), ..Filter::default() },
            Filter { states: vec![State::Expired], who: some("w0"), ..Filter::default() },
            Filter { states: vec![State::Held, State::Running], ..Filter::default() },
            Filter { since: Some(Timestamp(99_999_999)), ..Filter::default() },
        ] {
            let (few, all) = (steps(&rare), steps(&Filter::default()));
            assert!(few * 50 < all, "{few} steps of {all} for {rare:?}");
        }
    }

    #[test]
    fn every_thousand_claims_a_run_lists_them() {
        use crate::domain::store::Store;
        let (_folder, mut store) = store_of(999);
        store.upkeep().expect("upkeep works");
        assert_eq!(last(&store.conn), Ok(0));
        fill(&store, 1000, 1000);
        let other = Connection::open(&store.path).expect("another program");
        other.execute_batch("BEGIN IMMEDIATE").expect("its transaction");
        store.upkeep().expect("what can't be done now is done later");
        assert_eq!(last(&store.conn), Ok(0));
        other.execute_batch("ROLLBACK").expect("its end");
        store.upkeep().expect("upkeep works");
        assert_eq!(last(&store.conn), Ok(1000));
        store.upkeep().expect("upkeep works");
        assert_eq!(last(&store.conn), Ok(1000));
    }
}
