//! `idem list`.

use super::{group, settle};
use crate::cli::{Global, ListArgs, Which, Whose};
use crate::domain::claim::State;
use crate::domain::store::{Filter, Listed, Store};
use crate::domain::timestamp::Timestamp;
use crate::exit::{self, Failure, Kind};
use crate::settings;
use crate::ui::{self, Ui};
use crate::view::envelope::Envelope;
use crate::view::table::table;

/// Prints the claims that fit, newest first. Exit code 1 where none does (design §10).
pub(super) fn list(global: &Global, args: &ListArgs) -> anyhow::Result<u8> {
    let mut store = settle::open(&settings::store(global)?)?;
    let now = store.now()?.at;
    let mut filter = filter(&args.which);
    if filter.states.is_empty() && !args.all {
        filter.states = State::ALL.iter().copied().filter(|state| state.holds_key()).collect();
    }
    filter.since = args.since.as_deref().map(|since| point_in_time(since, now)).transpose()?;
    filter.before = args.older_than.map(|age| now.minus(age));
    filter.limit = Some(args.limit).filter(|&limit| limit > 0);
    filter.without_steps = !args.steps;
    let claims = store.list(&filter)?;
    if claims.is_empty() {
        let none = Failure::new(Kind::Nothing, "no claim matches");
        filter.without_steps = false;
        if !args.steps && store.count(&filter, 1)? > 0 {
            return Err(none.hint("steps of other calls do: --steps shows them").into());
        }
        filter.states.clear();
        let history = args.which.state.is_empty() && !args.all && store.count(&filter, 1)? > 0;
        return Err(if history { none.hint("history does: --all shows it") } else { none }.into());
    }
    if args.json {
        for listed in &claims {
            let message = format!("claim {} is {}", listed.claim.id, listed.claim.state);
            let mut envelope = Envelope::of_claim(&listed.claim, message, None);
            envelope.members = group::fields(group::members(store.as_mut(), listed.claim.id, false)?);
            ui::print(&envelope.line())?;
        }
    } else {
        ui::print(&table(&claims, now, ui::look(global.color)))?;
    }
    if filter.limit.is_some() {
        say_how_many_more(store.as_mut(), filter, &claims)?;
    }
    Ok(exit::DONE)
}

/// How far the claims beyond those that were shown are counted: a page of a large store must not cost all of it.
const COUNTED: u64 = 1000;

/// Says how many claims match beyond those that were shown, and how many of them wait for a person.
fn say_how_many_more(store: &mut dyn Store, filter: Filter, shown: &[Listed]) -> anyhow::Result<()> {
    let shown_of = |held: bool| shown.iter().filter(|listed| !held || listed.claim.state == State::Held).count() as u64;
    let more = store.count(&filter, shown_of(false) + COUNTED)?.saturating_sub(shown_of(false));
    if more == 0 {
        return Ok(());
    }
    let with_held = filter.states.is_empty() || filter.states.contains(&State::Held);
    let held = Filter { states: vec![State::Held], ..filter };
    let held = if with_held { store.count(&held, shown_of(true) + COUNTED)?.saturating_sub(shown_of(true)) } else { 0 };
    let held = if held > 0 { format!(", {held} of them held") } else { String::new() };
    let claims = if more == 1 { "claim matches" } else { "claims match" };
    let at_least = if more == COUNTED { "at least " } else { "" };
    Ui::new(false).error(&format!("{at_least}{more} more {claims}{held}; --limit 0 shows all"), None);
    Ok(())
}

/// Returns the filter of the conditions that `list` and `clear` share.
pub(super) fn filter(which: &Which) -> Filter {
    Filter { states: which.state.clone(), ..whose(&which.whose) }
}

/// Returns the filter of whose claims are meant.
pub(super) fn whose(whose: &Whose) -> Filter {
    Filter { who: whose.who.clone(), conv: whose.conv.clone(), tool: whose.tool.clone(), ..Filter::default() }
}

/// Reads a duration back from now, or an RFC 3339 time.
pub(super) fn point_in_time(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    if let Ok(time) = humantime::parse_rfc3339_weak(text) {
        return Ok(Timestamp::from(time));
    }
    match humantime::parse_duration(text) {
        Ok(duration) => Ok(now.minus(duration)),
        Err(_) => Err(Failure::new(Kind::Usage, format!("--since {text} is neither a duration nor a time"))
            .hint("write 90s, 5m, 24h or 7d, or 2026-01-31T12:00:00Z")
            .into()),
    }
}
