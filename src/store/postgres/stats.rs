//! Counting what a store has seen.

use tokio_postgres::types::Type;

use super::read::Conditions;
use super::rows;
use super::{Connection, Trouble};
use crate::domain::claim::State;
use crate::domain::event::EventKind;
use crate::domain::stats::{Day, Stats};
use crate::domain::store::Filter;

/// The length of a day in milliseconds.
const DAY: i64 = 86_400_000;

/// Counts arrivals, failures and what is open now.
pub(super) fn stats(conn: &mut Connection, filter: &Filter) -> Result<Stats, Trouble> {
    let mut stats = Stats::default();
    let events = format!(
        "SELECT c.tool, event.at / {DAY}, event.kind, count(*) FROM idem.event JOIN idem.claim c ON c.id = event.claim
         WHERE event.kind IN ('run', 'replay', 'busy', 'held', 'mismatch') AND event.at >= $1"
    );
    each(conn, &events, "GROUP BY 1, 2, 3", filter, |tool, day, word, number| {
        let kind = EventKind::from_word(&word);
        stats.add(tool, Some(day), |counts| kind.into_iter().for_each(|kind| counts.count(kind, number)));
    })?;
    let failures = format!(
        "SELECT c.tool, c.finished_at / {DAY}, '', count(*) FROM idem.claim c
         WHERE c.state <> 'running' AND c.outcome <> 'landed' AND c.finished_at >= $1"
    );
    each(conn, &failures, "GROUP BY 1, 2", filter, |tool, day, _, number| {
        stats.add(tool, Some(day), |counts| counts.failures += number);
    })?;
    // Whatever is open now, since when does not matter.
    let open = "SELECT c.tool, 0::bigint, c.state, count(*) FROM idem.claim c
                WHERE c.state IN ('running', 'held') AND $1 IS NOT NULL";
    each(conn, open, "GROUP BY 1, 3", filter, |tool, _, word, number| {
        let held = State::from_word(&word) == Some(State::Held);
        stats.add(tool, None, |counts| *(if held { &mut counts.held_now } else { &mut counts.running_now }) += number);
    })?;
    Ok(stats)
}

fn each(
    conn: &mut Connection,
    select: &str,
    group: &str,
    filter: &Filter,
    mut take: impl FnMut(String, Day, String, u64),
) -> Result<(), Trouble> {
    let mut conditions = Conditions::default();
    conditions.take(filter.since.map_or(i64::MIN, |since| since.0), Type::INT8);
    conditions.add_call([&filter.who, &filter.conv, &filter.tool]);
    let sql = format!("{select}{} {group}", conditions.and());
    for row in conn.query(&sql, &conditions.params())? {
        let number: i64 = rows::column(&row, 3)?;
        take(rows::column(&row, 0)?, Day(rows::column(&row, 1)?), rows::column(&row, 2)?, number.cast_unsigned());
    }
    Ok(())
}
