//! `idem stats`: what did idem save us?

use super::{list, settle};
use crate::cli::{Global, StatsArgs};
use crate::domain::store::Filter;
use crate::exit::{self, Failure, Kind};
use crate::view::care::{StatsFields, stats_text};
use crate::{settings, ui};

/// Prints the counts. Exit code 1 where nothing was counted.
pub(super) fn stats(global: &Global, args: &StatsArgs) -> anyhow::Result<u8> {
    let mut store = settle::open(&settings::store(global)?)?;
    let now = store.now()?.at;
    let filter = Filter {
        since: args.since.as_deref().map(|since| list::point_in_time(since, now)).transpose()?,
        ..list::whose(&args.whose)
    };
    let stats = store.stats(&filter)?;
    if args.json {
        ui::print(&StatsFields::new(&stats, filter.since).line())?;
    } else if !stats.total.is_empty() {
        ui::print(&stats_text(&stats, filter.since))?;
    }
    if stats.total.is_empty() {
        return Err(Failure::new(Kind::Nothing, "nothing was seen that matches").into());
    }
    Ok(exit::DONE)
}
