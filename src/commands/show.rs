//! `idem show`.

use super::finding::open_leaves;
use super::{group, settle};
use crate::cli::{Global, ShowArgs};
use crate::domain::claim::{Claim, Stream};
use crate::domain::store::Which;
use crate::view::envelope::{Envelope, Story};
use crate::view::story::{Facts, story};
use crate::{exit, settings, ui};

/// Prints everything about one claim, or one of its output streams as it was.
pub(super) fn show(global: &Global, args: &ShowArgs) -> anyhow::Result<u8> {
    let location = settings::store(global)?;
    let mut store = settle::open(&location)?;
    let claim = settle::find(store.as_mut(), &args.id)?;
    if args.stdout || args.stderr {
        let wanted = if args.stdout { Stream::Stdout } else { Stream::Stderr };
        store.output(claim.id, Which::Result, &mut |stream, bytes| {
            if stream == wanted { ui::print_bytes(bytes) } else { Ok(()) }
        })??;
        return Ok(exit::DONE);
    }
    let attempts = store.attempts(&claim.key)?;
    let events = store.events(&claim.key)?;
    if args.json {
        let envelope =
            |claim: &Claim, output| Envelope::of_claim(claim, format!("claim {} is {}", claim.id, claim.state), output);
        let mut shown = envelope(&claim, Some(settle::output(store.as_mut(), claim.id, Which::Result)?));
        shown.members = group::fields(group::members(store.as_mut(), claim.id, true)?);
        let told = Story {
            claim: shown,
            owner: claim.owner.actor.clone(),
            parent: claim.parent,
            terms: (&claim).into(),
            events: events.iter().map(Into::into).collect(),
            attempts: attempts.iter().map(|attempt| envelope(attempt, None)).collect(),
        };
        ui::print(&told.line())?;
        return Ok(exit::DONE);
    }
    let stated = settle::output(store.as_mut(), claim.id, Which::Stated)?;
    let facts = Facts {
        claim: &claim,
        attempts: &attempts,
        events: &events,
        printed: &settle::output(store.as_mut(), claim.id, Which::Printed)?,
        stated: Some(&stated).filter(|stated| !stated.stdout.is_empty()),
        members: &group::members(store.as_mut(), claim.id, false)?,
        open_steps: if claim.is_held_for_steps() {
            open_leaves(store.as_mut(), &location, claim.id)?
        } else {
            Vec::new()
        },
        owner: settle::owner(&location, &claim)?,
        first_start: store.first_start(&claim.key)?,
        now: store.now()?,
    };
    ui::print(&story(&facts))?;
    Ok(exit::DONE)
}
