//! Counting what a store has seen.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::listing::of_call;
use crate::domain::claim::State;
use crate::domain::event::EventKind;
use crate::domain::stats::{Day, Stats};
use crate::domain::store::Filter;

/// The day of a time, in SQL.
const DAY: i64 = 86_400_000;

/// Counts arrivals, failures and what is open now.
pub(super) fn stats(conn: &Connection, filter: &Filter) -> rusqlite::Result<Stats> {
    // One look at the store, so that the numbers fit each other.
    let tx = conn.unchecked_transaction()?;
    let mut stats = Stats::default();
    let events = format!(
        "SELECT claim.tool, event.at / {DAY}, event.kind, count(*) FROM event JOIN claim ON claim.id = event.claim
         WHERE event.kind IN ('run', 'replay', 'busy', 'held', 'mismatch') AND event.at >= ?1"
    );
    each(&tx, &events, "GROUP BY 1, 2, 3", filter, |tool, day, word, number| {
        let kind = EventKind::from_word(&word);
        stats.add(tool, Some(day), |counts| kind.into_iter().for_each(|kind| counts.count(kind, number)));
    })?;
    let failures = format!(
        "SELECT claim.tool, finished_at / {DAY}, '', count(*) FROM claim
         WHERE state <> 'running' AND outcome <> 'landed' AND finished_at >= ?1"
    );
    each(&tx, &failures, "GROUP BY 1, 2", filter, |tool, day, _, number| {
        stats.add(tool, Some(day), |counts| counts.failures += number);
    })?;
    // Whatever is open now, since when does not matter.
    let open = "SELECT claim.tool, 0, state, count(*) FROM claim WHERE state IN ('running', 'held') AND ?1 NOTNULL";
    each(&tx, open, "GROUP BY 1, 3", filter, |tool, _, word, number| {
        let held = State::from_word(&word) == Some(State::Held);
        stats.add(tool, None, |counts| *(if held { &mut counts.held_now } else { &mut counts.running_now }) += number);
    })?;
    Ok(stats)
}

fn each(
    conn: &Connection,
    select: &str,
    group: &str,
    filter: &Filter,
    mut take: impl FnMut(String, Day, String, u64),
) -> rusqlite::Result<()> {
    let mut values: Vec<Value> = vec![filter.since.map_or(i64::MIN, |since| since.0).into()];
    let mut sql = select.to_owned();
    for condition in of_call([&filter.who, &filter.conv, &filter.tool], &mut values) {
        sql += &format!(" AND {condition}");
    }
    let mut statement = conn.prepare(&format!("{sql} {group}"))?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        take(row.get(0)?, Day(row.get(1)?), row.get(2)?, row.get::<_, i64>(3)?.cast_unsigned());
    }
    Ok(())
}
