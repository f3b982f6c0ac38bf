//! `idem resolve`: a person says what became of a call whose outcome is unknown (design §7).

use anyhow::Context;

use super::agreeing::Plan;
use super::{say_failed, settle};
use crate::cli::{Global, ResolveArgs, Told, Verdict};
use crate::domain::claim::{Claim, Mark, Outcome, State};
use crate::domain::store::{ClaimRef, Filter, NewOutput, NewResult, Store};
use crate::exit::{self, Failure, Kind, Of};
use crate::settings;
use crate::ui;
use crate::view::words;

/// What a person says of some claims.
struct Decision<'a> {
    args: &'a ResolveArgs,
    named: Vec<ClaimRef>,
    verdict: Verdict,
    to: State,
    outcome: Outcome,
    /// What follows, as part of a sentence.
    then: &'static str,
    stdout: Option<Vec<u8>>,
}

/// Resolves claims and says what was changed. Where one of them can't be resolved, none is.
pub(super) fn resolve(global: &Global, args: &ResolveArgs) -> anyhow::Result<u8> {
    let decision = Decision::read(args)?;
    let location = settings::store(global)?;
    let mut store = settle::open(&location)?;
    let by_filter = decision.named.is_empty();
    let claims = if by_filter {
        let filter =
            Filter { who: args.who.clone(), conv: args.conv.clone(), tool: args.tool.clone(), ..Filter::default() };
        settle::unknown(store.as_mut(), &location, filter)?
    } else {
        settle::find_all(store.as_mut(), &decision.named)?
    };
    if claims.is_empty() {
        let message = "no claim with an unknown outcome matches; nothing was changed";
        return Err(Failure::new(Kind::Nothing, message).into());
    }
    if claims.len() > 1 && decision.stdout.is_some() {
        return Err(Failure::new(Kind::Usage, "--stdout states the result of one claim; nothing was changed")
            .hint("name one, or leave it out: then each gives what was recorded of its output")
            .into());
    }
    for claim in &claims {
        refuse_settled(claim)?;
        settle::refuse_living(claim, settle::owner(&location, claim)?, args.force, "resolve")?;
        refuse_marked(claim, args, decision.verdict)?;
    }
    let changes: Vec<String> = claims.iter().map(|claim| decision.change(claim)).collect();
    let plan = Plan { changes: &changes, question: "is that so?", by_filter, yes: args.yes, dry_run: args.dry_run };
    if let Some(code) = plan.agreed()? {
        return Ok(code);
    }
    let mut code = exit::DONE;
    for claim in &claims {
        if let Err(error) = decision.make(store.as_mut(), claim) {
            // What could change in this moment keeps the others from nothing: each claim is said on its own.
            code = code.max(say_failed(&Failure::from_error(error), Of::Other));
        }
    }
    Ok(code)
}

impl Decision<'_> {
    /// Reads what was said, and whether it can be meant.
    fn read(args: &ResolveArgs) -> anyhow::Result<Decision<'_>> {
        let usage = |message: &str, hint: &str| Failure::new(Kind::Usage, message).hint(hint);
        let (mut named, mut verdicts) = (Vec::new(), Vec::new());
        for told in &args.told {
            match told {
                Told::Claim(claim) => named.push(claim.clone()),
                Told::Verdict(verdict) => verdicts.push(*verdict),
            }
        }
        let [verdict] = verdicts[..] else {
            let hint = "say landed or not-landed once, after the ids: idem resolve 4 7 landed";
            return Err(usage("resolve needs to know what became of the claims; nothing was changed", hint).into());
        };
        let filtered = args.who.is_some() || args.conv.is_some() || args.tool.is_some();
        if named.is_empty() != filtered {
            let message = if filtered { "ids and a filter don't go together" } else { "resolve needs claims" };
            let hint = "name ids, or at least one of --who --conv --tool; `idem list --state held` shows the claims";
            return Err(usage(message, hint).into());
        }
        if verdict == Verdict::NotLanded && (args.stdout.is_some() || args.exit.is_some()) {
            let message = "--stdout and --exit state a result, and what did not land has none";
            return Err(usage(message, "leave them out, or say landed").into());
        }
        let stdout = args.stdout.as_ref().map(|path| {
            std::fs::read(path).with_context(|| format!("{} can't be read; nothing was changed", path.display()))
        });
        let (to, outcome, then) = match verdict {
            Verdict::Landed => (State::Completed, Outcome::Landed, "later arrivals get its result"),
            Verdict::NotLanded => (State::Released, Outcome::NotLanded, "the next arrival runs the command"),
        };
        Ok(Decision { args, named, verdict, to, outcome, then, stdout: stdout.transpose()? })
    }

    /// What would be changed, for the person who is asked.
    fn change(&self, claim: &Claim) -> String {
        format!("resolve {}, from {} to {}: {}", words::call(claim), claim.state, self.to, self.then)
    }

    fn make(&self, store: &mut dyn Store, claim: &Claim) -> anyhow::Result<()> {
        let args = self.args;
        let mut transition = settle::decision(claim, self.to, self.outcome, args.note.as_deref(), args.force);
        if self.verdict == Verdict::Landed {
            let output = self.stdout.clone().map_or(NewOutput::Recorded, NewOutput::Stdout);
            transition.result = Some(NewResult { exit_code: i32::from(args.exit.unwrap_or(0)), output });
        }
        if !store.transition(claim.id, &transition)? {
            return Err(settle::changed_meanwhile(claim));
        }
        ui::print(&format!("claim {} went from {} to {}: {}\n", claim.id, claim.state, self.to, self.then))?;
        say_of_steps(store, claim)?;
        say_of_parents(store, claim)
    }
}

/// Fails where a person says that it did not land, and its command had said that it did.
fn refuse_marked(claim: &Claim, args: &ResolveArgs, verdict: Verdict) -> anyhow::Result<()> {
    if claim.mark != Some(Mark::Landed) || verdict != Verdict::NotLanded || args.force {
        return Ok(());
    }
    let message = format!("claim {} was marked landed by its own command; nothing was changed", claim.id);
    let hint = format!(
        "`idem resolve {} landed` gives repeats its result; --force, if you know better than the command",
        claim.id
    );
    Err(Failure::new(Kind::Refused, message).hint(hint).into())
}

/// Says which steps of a claim nobody knows of still: a word on the whole leaves them as they are.
fn say_of_steps(store: &mut dyn Store, claim: &Claim) -> anyhow::Result<()> {
    let open = store.open_steps(claim.id)?;
    if open.is_empty() {
        return Ok(());
    }
    let (its, them) = if open.len() == 1 { ("step", "it") } else { ("steps", "them") };
    let ids = words::ids(&open);
    Ok(ui::print(&format!("its {its}, {ids}, stay as they are: what became of {them} is still unknown\n"))?)
}

/// Says what becomes of the calls that are held for this step.
fn say_of_parents(store: &mut dyn Store, step: &Claim) -> anyhow::Result<()> {
    for parent in store.held_for(&step.key)? {
        let open = store.open_steps(parent.id)?;
        let then = if open.is_empty() {
            "was held for it: its next arrival runs it again, and steps that have landed replay".to_owned()
        } else {
            format!("stays held for {}", words::ids(&open))
        };
        ui::print(&format!("claim {} {then}\n", parent.id))?;
    }
    Ok(())
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
