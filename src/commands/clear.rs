//! `idem clear`: a person frees a key (design §7). The row stays as history.

use std::collections::HashSet;

use super::agreeing::Plan;
use super::{group, list, settle};
use crate::cli::{ClearArgs, Global, Which};
use crate::domain::claim::{Claim, ClaimId, State};
use crate::domain::store::Store;
use crate::exit::{self, Failure, Kind};
use crate::settings;
use crate::store::Location;
use crate::store::sqlite::SqliteStore;
use crate::ui::{self, Ui};
use crate::view::words;

/// Clears claims by id or by filter, and says of each what was changed.
pub(super) fn clear(global: &Global, args: &ClearArgs) -> anyhow::Result<u8> {
    let by_filter = args.ids.is_empty();
    if by_filter && is_empty(&args.which) {
        return Err(Failure::new(
            Kind::Usage,
            "clear needs claims: ids, or at least one of --state --who --conv --tool",
        )
        .hint("`idem list` shows the claims")
        .into());
    }
    let location = settings::store(global)?;
    let mut store = settle::open(&location)?;
    let mut claims =
        if by_filter { matching(&mut store, &args.which)? } else { settle::find_all(&mut store, &args.ids)? };
    if claims.is_empty() {
        return Err(Failure::new(Kind::Nothing, "no claim that holds a key matches; nothing was changed").into());
    }
    if let Some(claim) = claims.iter().find(|claim| !claim.state.holds_key()) {
        let message = format!("claim {} is {} and holds no key; nothing was changed", claim.id, claim.state);
        return Err(Failure::new(Kind::Refused, message).into());
    }
    let below = below(&mut store, &claims)?;
    if args.group {
        claims.extend(below.iter().cloned());
        // Nothing of a group is cleared where a part of it lives.
        for claim in &claims {
            settle::refuse_living(claim, settle::owner(&location, claim)?, args.force, "clear")?;
        }
    }
    let changes: Vec<String> = claims.iter().map(|claim| change(claim, args)).collect();
    let plan = Plan {
        changes: &changes,
        question: "free these keys, so that their next arrivals run again?",
        by_filter,
        yes: args.yes,
        dry_run: args.dry_run,
    };
    if let Some(code) = plan.agreed()? {
        return Ok(code);
    }
    let mut code = exit::DONE;
    for claim in &claims {
        if let Err(error) = clear_one(&mut store, &location, claim, args) {
            // One refusal doesn't keep the others: each claim is said on its own.
            let failure = Failure::from_error(error);
            Ui::new(false).error(&failure.message, failure.hint.as_deref());
            code = code.max(failure.kind.code(exit::Of::Other));
        }
    }
    if !args.group && !below.is_empty() {
        let ids: Vec<ClaimId> = below.iter().map(|step| step.id).collect();
        let (steps, they) = if ids.len() == 1 { ("step", "it replays") } else { ("steps", "they replay") };
        ui::print(&format!(
            "{steps} {} stay claimed: {they} when the command comes to them again (--group clears them too)\n",
            words::ids(&ids)
        ))?;
    }
    Ok(code)
}

/// Returns the steps below these claims that hold a key, and that aren't among them.
fn below(store: &mut SqliteStore, claims: &[Claim]) -> anyhow::Result<Vec<Claim>> {
    let mut found: Vec<Claim> = Vec::new();
    let mut seen: HashSet<ClaimId> = claims.iter().map(|claim| claim.id).collect();
    for claim in claims {
        let members = group::members(store, claim.id, false)?;
        let claimed = |step: &&Claim| step.state.holds_key();
        found.extend(group::steps(&members).into_iter().filter(claimed).filter(|step| seen.insert(step.id)).cloned());
    }
    Ok(found)
}

fn clear_one(store: &mut SqliteStore, location: &Location, claim: &Claim, args: &ClearArgs) -> anyhow::Result<()> {
    let owner = settle::owner(location, claim)?;
    settle::refuse_living(claim, owner, args.force, "clear")?;
    let change = settle::decision(claim, State::Cleared, claim.outcome, args.note.as_deref(), args.force);
    if !store.transition(claim.id, &change)? {
        return Err(settle::changed_meanwhile(claim));
    }
    ui::print(&format!(
        "claim {} went from {} to cleared: the next arrival runs the command\n",
        claim.id, claim.state
    ))?;
    Ok(())
}

/// What would be changed, for the person who is asked.
fn change(claim: &Claim, args: &ClearArgs) -> String {
    let what = format!("clear {}, which is {}", words::call(claim), claim.state);
    match (claim.state, args.force) {
        (State::Running, true) => format!("{what}: its command goes on"),
        (State::Running, false) => format!("{what}, unless its owner lives"),
        (State::Held, _) => format!("{what}: its next arrival runs the command, though it may have landed"),
        _ => format!("{what}: its next arrival runs the command"),
    }
}

fn matching(store: &mut SqliteStore, which: &Which) -> anyhow::Result<Vec<Claim>> {
    let mut filter = list::filter(which);
    if filter.states.is_empty() {
        filter.states = State::ALL.iter().copied().filter(|state| state.holds_key()).collect();
    }
    Ok(store.claims(&filter)?.into_iter().filter(|claim| claim.state.holds_key()).collect())
}

fn is_empty(which: &Which) -> bool {
    which.state.is_empty() && which.who.is_none() && which.conv.is_none() && which.tool.is_none()
}
