//! `idem clear`: a person frees a key (design §7). The row stays as history.

use super::agreeing::Plan;
use super::{group, list, say_failed, settle};
use crate::cli::{ClearArgs, Global, Which};
use crate::domain::claim::{Claim, ClaimId, State};
use crate::domain::store::Store;
use crate::exit::{self, Failure, Kind, Of};
use crate::settings;
use crate::store::Location;
use crate::ui;
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
        if by_filter { matching(store.as_mut(), &args.which)? } else { settle::find_all(store.as_mut(), &args.ids)? };
    if claims.is_empty() {
        return Err(Failure::new(Kind::Nothing, "no claim that holds a key matches; nothing was changed").into());
    }
    let below = group::all_below(store.as_mut(), &claims)?;
    let below: Vec<Claim> = below.into_iter().filter(|step| step.state.holds_key()).collect();
    if args.group {
        // A call that failed and was released, say, holds nothing itself, and its steps do.
        claims.retain(|claim| claim.state.holds_key());
        claims.extend(below.iter().cloned());
        if claims.is_empty() {
            return Err(Failure::new(Kind::Nothing, "nothing of this group holds a key; nothing was changed").into());
        }
        // Nothing of a group is cleared where a part of it lives.
        for claim in &claims {
            settle::refuse_living(claim, settle::owner(&location, claim)?, args.force, "clear")?;
        }
    } else if let Some(claim) = claims.iter().find(|claim| !claim.state.holds_key()) {
        let message = format!("claim {} is {} and holds no key; nothing was changed", claim.id, claim.state);
        let failure = Failure::new(Kind::Refused, message);
        let steps = words::ids(&below.iter().map(|step| step.id).collect::<Vec<_>>());
        let hint = format!("--group clears what is below it: {steps}");
        return Err(if below.is_empty() { failure } else { failure.hint(hint) }.into());
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
    let code = clear_all(store.as_mut(), &location, &claims, args)?;
    if !args.group {
        say_of_steps(&below)?;
    }
    Ok(code)
}

/// Clears what may be cleared, in one transaction: a group that is cut in half would run half of it again. Says of each what
/// was changed; one refusal doesn't keep the others.
fn clear_all(store: &mut dyn Store, location: &Location, claims: &[Claim], args: &ClearArgs) -> anyhow::Result<u8> {
    let mut code = exit::DONE;
    let mut refuse = |error: anyhow::Error| code = code.max(say_failed(&Failure::from_error(error), Of::Other));
    let mut changes = Vec::new();
    for claim in claims {
        let owner = settle::owner(location, claim)?;
        match settle::refuse_living(claim, owner, args.force, "clear") {
            Ok(()) => {
                let note = args.note.as_deref();
                changes.push((claim.id, settle::decision(claim, State::Cleared, claim.outcome, note, args.force)));
            }
            Err(error) => refuse(error),
        }
    }
    let changed_meanwhile = store.transitions(&changes)?;
    for (id, change) in &changes {
        if changed_meanwhile.contains(id) {
            claims.iter().filter(|claim| claim.id == *id).for_each(|claim| refuse(settle::changed_meanwhile(claim)));
            continue;
        }
        let from = change.from;
        ui::print(&format!("claim {id} went from {from} to cleared: the next arrival {}\n", runs(from)))?;
    }
    Ok(code)
}

/// Says which steps stay claimed below what was cleared.
fn say_of_steps(below: &[Claim]) -> anyhow::Result<()> {
    let (known, open): (Vec<&Claim>, Vec<&Claim>) = below.iter().partition(|step| step.state == State::Completed);
    for (steps, one, many) in [
        (
            known,
            "stays claimed: it replays when the command comes to it again",
            "stay claimed: they replay when the command comes to them again",
        ),
        (
            open,
            "stays as it is: a command that comes to it doesn't run it",
            "stay as they are: a command that comes to them doesn't run them",
        ),
    ] {
        let ids: Vec<ClaimId> = steps.iter().map(|step| step.id).collect();
        match ids.len() {
            0 => {}
            1 => ui::print(&format!("step {} {one} (--group clears it too)\n", words::ids(&ids)))?,
            _ => ui::print(&format!("steps {} {many} (--group clears them too)\n", words::ids(&ids)))?,
        }
    }
    Ok(())
}

/// What would be changed, for the person who is asked.
fn change(claim: &Claim, args: &ClearArgs) -> String {
    let what = format!("clear {}, which is {}", words::call(claim), claim.state);
    match (claim.state, args.force) {
        (State::Running, true) => format!("{what}: its command goes on"),
        (State::Running, false) => format!("{what}, unless its owner lives"),
        _ => format!("{what}: its next arrival {}", runs(claim.state)),
    }
}

/// What the next arrival does once a claim of this state is cleared.
fn runs(from: State) -> &'static str {
    if from == State::Held { "runs the command, though it may have landed" } else { "runs the command" }
}

fn matching(store: &mut dyn Store, which: &Which) -> anyhow::Result<Vec<Claim>> {
    let mut filter = list::filter(which);
    if filter.states.is_empty() {
        filter.states = State::ALL.iter().copied().filter(|state| state.holds_key()).collect();
    }
    Ok(store.claims(&filter)?.into_iter().filter(|claim| claim.state.holds_key()).collect())
}

fn is_empty(which: &Which) -> bool {
    which.state.is_empty() && which.whose.is_empty()
}
