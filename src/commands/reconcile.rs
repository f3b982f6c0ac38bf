//! `idem reconcile`: asks the targets of claims whose outcome is unknown, by their probes, and never runs a command
//! (design §7).

use anyhow::Context;

use super::asking::{self, Asked, Question};
use super::run::MAX_OUTPUT;
use super::settle;
use crate::cli::{Global, ReconcileArgs, Which};
use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, Outcome, Probe, Reason, State};
use crate::domain::end::by_marks;
use crate::domain::store::Store;
use crate::exit::{self, Failure, Kind};
use crate::liveness::{Asker, ProbeLock};
use crate::process::signals::Signals;
use crate::settings;
use crate::store::Location;
use crate::store::sqlite::SqliteStore;
use crate::ui::{self, Ui};
use crate::view::envelope::Envelope;
use crate::view::words;

/// Asks about each claim in turn, oldest first. Exit code 0: each is known now; 1: some are not, or nothing matched.
pub(super) fn reconcile(global: &Global, args: &ReconcileArgs) -> anyhow::Result<u8> {
    let by_filter = args.all || args.who.is_some() || args.conv.is_some() || args.tool.is_some();
    if args.ids.is_empty() && !by_filter {
        let failure =
            Failure::new(Kind::Usage, "name the claims to ask about: by their ids, by --who --conv --tool, or --all");
        return Err(failure.hint("`idem list --state held` shows them").into());
    }
    if args.probe.as_ref().is_some_and(|probe| probe.is_empty()) {
        return Err(
            Failure::new(Kind::Usage, "the probe is empty, and an empty command would always say landed").into()
        );
    }
    if args.probe_timeout.is_some_and(|timeout| timeout.as_millis() == 0) {
        return Err(Failure::new(Kind::Usage, "--probe-timeout 0 leaves the probe no time").into());
    }
    let location = settings::store(global)?;
    let store = settle::open(&location)?;
    let mut round = Round { args, location, store, actor: settings::actor(), told_to_end: None };
    let claims = round.claims()?;
    if claims.is_empty() {
        return Err(Failure::new(Kind::Nothing, "no claim with an unknown outcome matches; nothing was asked").into());
    }
    let progress = ui::Progress::new(claims.len(), "asked");
    let mut counts = [0; 3];
    for claim in &claims {
        progress.at(&format!("claim {}", claim.id));
        let (known, line) = round.one(claim)?;
        if let Some(known) = known {
            counts[match known {
                Outcome::Landed => 0,
                Outcome::NotLanded => 1,
                Outcome::Unknown => 2,
            }] += 1;
        }
        progress.print(&line)?;
        if round.told_to_end.is_some() {
            break;
        }
    }
    progress.end();
    let [landed, not_landed, unknown] = counts;
    if !args.json {
        ui::print(&format!("{landed} landed, {not_landed} not landed, {unknown} still unknown\n"))?;
    }
    if let Some(signal) = round.told_to_end {
        Ui::new(false).error("told to end: the claims that were not asked about are as they were", None);
        return Ok(u8::try_from(128 + signal).unwrap_or(exit::OWN));
    }
    Ok(if unknown == 0 { exit::DONE } else { exit::NOTHING })
}

struct Round<'a> {
    args: &'a ReconcileArgs,
    location: Location,
    store: SqliteStore,
    actor: String,
    /// The signal that ends the round.
    told_to_end: Option<i32>,
}

impl Round<'_> {
    /// Returns the claims that are named, or those whose outcome is unknown and that fit; oldest first.
    fn claims(&mut self) -> anyhow::Result<Vec<Claim>> {
        if !self.args.ids.is_empty() {
            let ids = &self.args.ids;
            return ids.iter().map(|id| settle::find(&mut self.store, id)).collect();
        }
        let which = Which {
            state: vec![State::Held, State::Running],
            who: self.args.who.clone(),
            conv: self.args.conv.clone(),
            tool: self.args.tool.clone(),
        };
        let listed = self.store.list(&super::list::filter(&which))?;
        let mut unknown = Vec::new();
        for claim in listed.into_iter().map(|listed| listed.claim).rev() {
            // One that runs is nobody's question; `reconcile` named for it says so.
            if settle::owner(&self.location, &claim)? != Some(Liveness::Alive) {
                unknown.push(claim);
            }
        }
        Ok(unknown)
    }

    /// Finds out about one claim. Returns what is known of it now (nothing that is asked, of history) and the line that says so.
    fn one(&mut self, claim: &Claim) -> anyhow::Result<(Option<Outcome>, String)> {
        let claim = self.without_owner(claim)?;
        let (claim, what) = match claim.state {
            State::Held => self.ask(claim)?,
            State::Running => (claim, "its owner lives; not asked".to_owned()),
            State::Completed | State::Released => (claim, "known already; not asked".to_owned()),
            State::Cleared | State::Expired => (claim, "history; not asked".to_owned()),
        };
        let known = match claim.state {
            State::Held | State::Running => Some(Outcome::Unknown),
            _ => Some(claim.outcome).filter(|outcome| *outcome != Outcome::Unknown),
        };
        let message = format!("claim {} is {}: {what}", claim.id, claim.state);
        let line = if self.args.json {
            Envelope::of_claim(&claim, message, None).line()
        } else {
            let held = claim.state == State::Held;
            let hint = if held { format!("; {}", words::what_then(&claim, None)) } else { String::new() };
            format!("{message}{hint}\n")
        };
        Ok((known, line))
    }

    /// Concludes or holds a claim whose owner is gone. Returns the claim as it is then.
    fn without_owner(&mut self, claim: &Claim) -> anyhow::Result<Claim> {
        let gone = settle::owner(&self.location, claim)?;
        let marked = by_marks(claim.means.marks, claim.mark);
        let change = match (claim.state, gone, marked) {
            (State::Running, Some(Liveness::Dead), Some(ended)) => settle::concluded(claim, ended, &self.actor),
            (State::Running, Some(Liveness::Dead), None) => settle::held(claim, Reason::Interrupted, &self.actor),
            (State::Running, Some(Liveness::Unprovable), _) => settle::held(claim, Reason::OwnerLost, &self.actor),
            (State::Held, _, Some(ended))
                if ended.state == State::Completed && claim.reason == Some(Reason::Interrupted) =>
            {
                settle::concluded(claim, ended, &self.actor)
            }
            _ => return Ok(claim.clone()),
        };
        self.store.transition(claim.id, &change)?;
        self.read(claim)
    }

    fn read(&mut self, claim: &Claim) -> anyhow::Result<Claim> {
        self.store.get(claim.id)?.with_context(|| format!("claim {} is gone", claim.id))
    }

    /// Asks the target about a held claim. Returns the claim as it is then, and what came of asking.
    fn ask(&mut self, claim: Claim) -> anyhow::Result<(Claim, String)> {
        let Some(probe) = self.probe(&claim)? else {
            return Ok((claim, "no probe is stored with it".to_owned()));
        };
        let right = ProbeLock::take(&self.location.lock_path(), claim.lock, Asker::Other);
        let Some(_right) = right.map_err(|error| settle::lock_failed(&self.location, &error))? else {
            return Ok((claim, "somebody else is asking just now".to_owned()));
        };
        let claim = self.read(&claim)?;
        if claim.state != State::Held {
            return Ok((claim, "known meanwhile; not asked".to_owned()));
        }
        let lost = claim.reason == Some(Reason::OwnerLost);
        let owner = if lost { settle::liveness(&self.location, &claim)? } else { Liveness::Dead };
        let signals = Signals::install().context("the signal handlers can't be installed")?;
        let question = Question { claim: &claim, probe: &probe, owner, location: &self.location, actor: &self.actor };
        let asked = question.ask(&mut self.store, &signals)?;
        self.told_to_end = signals.take_pending();
        let claim = self.read(&claim)?;
        let what = said(&asked);
        Ok((claim, what))
    }

    fn probe(&self, claim: &Claim) -> anyhow::Result<Option<Probe>> {
        let stored = claim.means.probe.clone();
        let given = self.args.probe_timeout;
        let Some(command) = &self.args.probe else {
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
}

fn said(asked: &Asked) -> String {
    match (asked.answer, asked.became) {
        (Outcome::Landed, Some(_)) => "its probe says that it landed; repeats get the probe's answer".to_owned(),
        (Outcome::NotLanded, Some(_)) => {
            "its probe says that it did not land; the next arrival runs the command".to_owned()
        }
        _ => format!("its probe {}", asked.how),
    }
}
