//! `idem prune`: old claims and history are forgotten, what nothing left behind needs (design §10, §12).

use super::settle;
use crate::cli::{Global, PruneArgs};
use crate::domain::prune::{Pruned, Pruning};
use crate::domain::store::Store;
use crate::exit;
use crate::settings;
use crate::ui::{self, Progress, Ui};
use crate::view::care::{PruneSummary, would_prune};

/// Prunes, or says what would be pruned. Exit code 1 where nothing is that old, or the person says no.
pub(super) fn prune(global: &Global, args: &PruneArgs) -> anyhow::Result<u8> {
    let mut store = settle::open(&settings::store(global)?)?;
    let pruning = Pruning {
        ended_before: store.now()?.at.minus(args.older_than),
        who: args.whose.who.clone(),
        conv: args.whose.conv.clone(),
        tool: args.whose.tool.clone(),
        apply: false,
    };
    if args.yes {
        return apply(store.as_mut(), &pruning, args);
    }
    let would = go_through(store.as_mut(), &pruning)?;
    let summary = PruneSummary::would(&pruning, &would);
    if would.claims() == 0 || args.dry_run {
        return say(args, &summary, if would.claims() == 0 { exit::NOTHING } else { exit::DONE });
    }
    if ui::can_ask() {
        Ui::new(false).error(&would_prune(&pruning, &would), None);
        if ui::ask("idem: forget them?")? {
            return apply(store.as_mut(), &pruning, args);
        }
        Ui::new(false).error("nothing was changed", None);
        return Ok(exit::NOTHING);
    }
    let summary = summary.refused();
    if args.json {
        ui::print(&summary.line())?;
    }
    Ui::new(false).error(&summary.message, summary.hint());
    Ok(exit::USAGE)
}

fn apply(store: &mut dyn Store, pruning: &Pruning, args: &PruneArgs) -> anyhow::Result<u8> {
    let pruned = go_through(store, &Pruning { apply: true, ..pruning.clone() })?;
    let mut progress: Option<(Progress, u64)> = None;
    let space = store.give_back(&mut |left| {
        let (bar, all) = progress
            .get_or_insert_with(|| (Progress::new(usize::try_from(left >> 10).unwrap_or(0), "KiB given back"), left));
        bar.at("the store stays in use");
        bar.reach(all.saturating_sub(left) >> 10);
    })?;
    if let Some((bar, _)) = progress {
        bar.end();
    }
    let code = if pruned.claims() == 0 { exit::NOTHING } else { exit::DONE };
    say(args, &PruneSummary::done(pruning, &pruned, &space), code)
}

/// Goes through the claims, with a bar for somebody who looks on.
fn go_through(store: &mut dyn Store, pruning: &Pruning) -> anyhow::Result<Pruned> {
    let mut progress = None;
    let pruned = store.prune(pruning, &mut |reached| {
        let steps = usize::try_from(reached.last).unwrap_or(0);
        let bar = progress.get_or_insert_with(|| Progress::new(steps, "claims looked at"));
        bar.reach(reached.claim.unsigned_abs());
        bar.at(&format!("{} to go", reached.pruned.claims()));
    })?;
    if let Some(bar) = progress {
        bar.end();
    }
    Ok(pruned)
}

/// Says what came of it: on stdout, and where nothing matched on stderr, as the other commands do.
fn say(args: &PruneArgs, summary: &PruneSummary, code: u8) -> anyhow::Result<u8> {
    if args.json {
        ui::print(&summary.line())?;
    } else if code == exit::NOTHING {
        Ui::new(false).error(&summary.message, None);
    } else {
        ui::print(&format!("{}\n", summary.message))?;
    }
    Ok(code)
}
