//! `idem reconcile`: asks the targets of claims whose outcome is unknown, by their probes, and never runs a command
//! (design §7).

use anyhow::Context;

use super::finding::Finder;
use super::run::MAX_OUTPUT;
use super::{asking, list, settle};
use crate::cli::{Global, ReconcileArgs};
use crate::domain::claim::{Claim, ClaimId, Outcome, Probe, State};
use crate::domain::store::Store;
use crate::exit::{self, Failure, Kind};
use crate::settings;
use crate::store::Location;
use crate::ui::{self, Ui};
use crate::view::envelope::Envelope;
use crate::view::words::{self, Unknown};

/// Asks about each claim in turn, oldest first. Exit code 0: each is known now; 1: some are not, or nothing matched.
pub(super) fn reconcile(global: &Global, args: &ReconcileArgs) -> anyhow::Result<u8> {
    let by_filter = args.all || !args.whose.is_empty();
    if args.ids.is_empty() && !by_filter {
        let failure =
            Failure::new(Kind::Usage, "name the claims to ask about: by their ids, by --who --conv --tool, or --all");
        return Err(failure.hint("`idem list --state held` shows them").into());
    }
    if args.probe.as_deref().is_some_and(asking::is_blank) {
        return Err(
            Failure::new(Kind::Usage, "the probe is empty, and an empty command would always say landed").into()
        );
    }
    if args.probe_timeout.is_some_and(|timeout| timeout.as_millis() == 0) {
        return Err(Failure::new(Kind::Usage, "--probe-timeout 0 leaves the probe no time").into());
    }
    let location = settings::store(global)?;
    let (mut store, delivered) = settle::open_telling(&location)?;
    let claims = claims(store.as_mut(), &location, args)?;
    if claims.is_empty() && !delivered.is_empty() {
        return only_delivered(store.as_mut(), args, &delivered);
    }
    if claims.is_empty() {
        return Err(Failure::new(Kind::Nothing, "no claim with an unknown outcome matches; nothing was asked").into());
    }
    let actor = settings::actor();
    let mut finder = Finder::new(&location, &actor);
    let progress = ui::Progress::new(claims.len(), "asked");
    let mut counts = [0; 3];
    let mut left = claims.len();
    for claim in &claims {
        left -= 1;
        progress.at(&format!("claim {}", claim.id));
        let probe = own_probe(args, claim)?;
        let (claim, what) = finder.find_out(store.as_mut(), claim, probe.as_ref())?;
        let outcome = match (claim.state, claim.outcome) {
            (State::Held | State::Running, _) => Some(2),
            (_, Outcome::Landed) => Some(0),
            (_, Outcome::NotLanded) => Some(1),
            // History that nobody asks about any more.
            (_, Outcome::Unknown) => None,
        };
        if let Some(outcome) = outcome {
            counts[outcome] += 1;
        }
        progress.print(&line(args, &claim, &what))?;
        if finder.told_to_end.is_some() {
            break;
        }
    }
    progress.end();
    let [landed, not_landed, unknown] = counts;
    if !args.json {
        ui::print(&format!("{landed} landed, {not_landed} not landed, {unknown} still unknown\n"))?;
    }
    if let Some(signal) = finder.told_to_end {
        let as_they_were = if left > 0 { format!("; {left} more claims were not asked about") } else { String::new() };
        Ui::new(false).error(&format!("told to end{as_they_were}"), None);
        return Ok(u8::try_from(128 + signal).unwrap_or(exit::OWN));
    }
    Ok(if unknown == 0 { exit::DONE } else { exit::NOTHING })
}

/// Tells the claims whose outcome was kept on this host and is recorded now, where there was nothing else to find out.
fn only_delivered(store: &mut dyn Store, args: &ReconcileArgs, delivered: &[ClaimId]) -> anyhow::Result<u8> {
    for id in delivered {
        let claim = store.get(*id)?.with_context(|| format!("claim {id} is gone"))?;
        ui::print(&line(args, &claim, "its outcome was kept on this host, and is recorded now; not asked"))?;
    }
    Ok(exit::DONE)
}

/// Returns the claims that are named, or those whose outcome is unknown and that fit; oldest first, but those that are held
/// for their steps after the others.
fn claims(store: &mut dyn Store, location: &Location, args: &ReconcileArgs) -> anyhow::Result<Vec<Claim>> {
    if !args.ids.is_empty() {
        return settle::find_all(store, &args.ids);
    }
    let mut unknown = settle::unknown(store, location, list::whose(&args.whose))?;
    unknown.sort_by_key(|claim| (claim.is_held_for_steps(), claim.id));
    Ok(unknown)
}

/// Returns what `--probe` asks with about this claim.
fn own_probe(args: &ReconcileArgs, claim: &Claim) -> anyhow::Result<Option<Probe>> {
    let stored = claim.means.probe.clone();
    let given = args.probe_timeout;
    let Some(command) = &args.probe else {
        return Ok(stored.map(|stored| Probe { timeout: given.unwrap_or(stored.timeout), ..stored }));
    };
    let folder = std::env::current_dir().context("the current folder can't be told, and the probe runs in it")?;
    let max_output = stored.as_ref().map_or(MAX_OUTPUT, |stored| stored.max_output);
    let (delay, timeout) = stored.map_or_else(Default::default, |stored| (stored.delay, Some(stored.timeout)));
    Ok(Some(Probe {
        command: command.clone(),
        folder: folder.into_os_string(),
        delay,
        timeout: given.or(timeout).unwrap_or(asking::TIMEOUT),
        max_output,
    }))
}

fn line(args: &ReconcileArgs, claim: &Claim, what: &str) -> String {
    let message = format!("claim {} is {}: {what}", claim.id, claim.state);
    if args.json {
        return Envelope::of_claim(claim, message, None).line();
    }
    let for_a_person = claim.state == State::Held && !claim.is_held_for_steps();
    let hint = if for_a_person { format!("; {}", words::what_then(claim, &Unknown::default())) } else { String::new() };
    format!("{message}{hint}\n")
}
