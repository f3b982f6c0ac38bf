//! `idem resolve`: a person says what became of a call whose outcome is unknown (design §7).

use anyhow::Context;

use super::settle;
use crate::cli::{Global, ResolveArgs, Verdict};
use crate::domain::claim::{Claim, Mark, Outcome, Reason, State};
use crate::domain::store::{NewOutput, NewResult, Store};
use crate::exit::{self, Failure, Kind};
use crate::store::sqlite::SqliteStore;
use crate::ui::{self, Ui};
use crate::{settings, view};

/// Resolves one claim and says what was changed.
pub(super) fn resolve(global: &Global, args: &ResolveArgs) -> anyhow::Result<u8> {
    if args.verdict == Verdict::NotLanded && (args.stdout.is_some() || args.exit.is_some()) {
        let failure = Failure::new(Kind::Usage, "--stdout and --exit state a result, and what did not land has none");
        return Err(failure.hint("leave them out, or say landed").into());
    }
    let stdout = args.stdout.as_ref().map(|path| {
        std::fs::read(path).with_context(|| format!("{} can't be read; nothing was changed", path.display()))
    });
    let stdout = stdout.transpose()?;
    let location = settings::store(global)?;
    let mut store = settle::open(&location)?;
    let claim = settle::find(&mut store, &args.id)?;
    refuse_settled(&claim)?;
    let owner = settle::owner(&location, &claim)?;
    settle::refuse_living(&claim, owner, args.force, "resolve")?;
    refuse_marked(&claim, args)?;
    refuse_held_for_steps(&mut store, &claim, args)?;
    let (to, outcome, then) = match args.verdict {
        Verdict::Landed => (State::Completed, Outcome::Landed, "later arrivals get its result"),
        Verdict::NotLanded => (State::Released, Outcome::NotLanded, "the next arrival runs the command"),
    };
    let change = format!("claim {} ({}) goes from {} to {to}: {then}", claim.id, what(&claim), claim.state);
    if !args.yes && ui::can_ask() && !ui::ask(&format!("{change}. Is that so?"))? {
        Ui::new(false).error("nothing was changed", None);
        return Ok(exit::NOTHING);
    }
    let mut transition = settle::decision(&claim, to, outcome, args.note.as_deref(), args.force);
    if args.verdict == Verdict::Landed {
        let output = stdout.map_or(NewOutput::Recorded, NewOutput::Stdout);
        transition.result = Some(NewResult { exit_code: i32::from(args.exit.unwrap_or(0)), output });
    }
    if !store.transition(claim.id, &transition)? {
        return Err(settle::changed_meanwhile(&claim));
    }
    ui::print(&format!("claim {} went from {} to {to}: {then}\n", claim.id, claim.state))?;
    say_of_parents(&mut store, &claim)?;
    Ok(exit::DONE)
}

/// Fails where a person says that it did not land, and its command had said that it did.
fn refuse_marked(claim: &Claim, args: &ResolveArgs) -> anyhow::Result<()> {
    if claim.mark != Some(Mark::Landed) || args.verdict != Verdict::NotLanded || args.force {
        return Ok(());
    }
    let message = format!("claim {} was marked landed by its own command; nothing was changed", claim.id);
    let hint = format!(
        "`idem resolve {} landed` gives repeats its result; --force, if you know better than the command",
        claim.id
    );
    Err(Failure::new(Kind::Refused, message).hint(hint).into())
}

/// Says what becomes of the calls that are held for this step.
fn say_of_parents(store: &mut dyn Store, step: &Claim) -> anyhow::Result<()> {
    for parent in store.held_for(&step.key)? {
        let open = store.open_steps(parent.id)?;
        let then = if open.is_empty() {
            "was held for it: its next arrival runs it again, and steps that have landed replay".to_owned()
        } else {
            format!("stays held for {}", view::words::ids(&open))
        };
        ui::print(&format!("claim {} {then}\n", parent.id))?;
    }
    Ok(())
}

/// Fails for a claim that waits for its steps: their word is wanted, and its own would pass over them.
fn refuse_held_for_steps(store: &mut SqliteStore, claim: &Claim, args: &ResolveArgs) -> anyhow::Result<()> {
    if claim.reason != Some(Reason::Steps) || args.force {
        return Ok(());
    }
    let open = store.open_steps(claim.id)?;
    if open.is_empty() {
        return Ok(());
    }
    let message = format!("claim {} is held for its steps, {}; nothing was changed", claim.id, view::words::ids(&open));
    let hint = "resolve these: it then goes on by itself; --force, if you know what became of the whole";
    Err(Failure::new(Kind::Refused, message).hint(hint).into())
}

/// Fails for a claim whose outcome is known or that is history.
fn refuse_settled(claim: &Claim) -> anyhow::Result<()> {
    if matches!(claim.state, State::Held | State::Running) {
        return Ok(());
    }
    let failure = Failure::new(
        Kind::Refused,
        format!("claim {} is {} already, with outcome {}; nothing was changed", claim.id, claim.state, claim.outcome),
    );
    Err(match claim.state {
        State::Completed => {
            failure.hint(format!("`idem clear {}` frees its key, if the call is to run again", claim.id))
        }
        _ => failure,
    }
    .into())
}

fn what(claim: &Claim) -> String {
    use view::escape::escape;
    format!("{} / {} / {}", escape(&claim.who), escape(&claim.conv), escape(&claim.tool))
}
