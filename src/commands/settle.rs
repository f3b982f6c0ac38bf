//! What the commands share: finding the claim that a person names, whether its owner lives, what it printed, and the changes
//! of state that they make.

use std::collections::HashSet;

use serde_json::json;

use super::pending;
use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, ClaimId, Mark, Outcome, Reason, State};
use crate::domain::end::Ended;
use crate::domain::event::EventKind;
use crate::domain::store::{ClaimRef, Filter, Found, NewOutput, NewResult, Store, StoreError, Transition, Which};
use crate::exit::{Failure, Kind};
use crate::liveness::LockFile;
use crate::settings;
use crate::store::Location;
use crate::ui::Ui;
use crate::view::envelope::Output;

/// Opens the store for a command that doesn't make one: no store has no claims (exit code 1). What waits for it is recorded
/// first.
pub(super) fn open(location: &Location) -> anyhow::Result<Box<dyn Store>> {
    Ok(open_telling(location)?.0)
}

/// The same, and tells the claims whose outcome was recorded so.
pub(super) fn open_telling(location: &Location) -> anyhow::Result<(Box<dyn Store>, Vec<ClaimId>)> {
    let store = location.open_existing()?;
    let none = || Failure::new(Kind::Nothing, format!("there is no store {} yet, so no claim", location.shown()));
    let mut store = store.ok_or_else(none)?;
    let delivered = pending::deliver_or_say(location, store.as_mut(), &Ui::new(false));
    Ok((store, delivered.recorded))
}

/// Finds the claim that a person names, or fails with exit code 1.
pub(super) fn find(store: &mut dyn Store, named: &ClaimRef) -> anyhow::Result<Claim> {
    let what = match named {
        ClaimRef::Id(id) => format!("claim {id}"),
        ClaimRef::KeyPrefix(prefix) => format!("a key that begins with {prefix}"),
    };
    match store.find(named)? {
        Found::Claim(claim) => Ok(*claim),
        Found::Nothing => Err(Failure::new(Kind::Nothing, format!("there is no {}", what.trim_start_matches("a ")))
            .hint("`idem list --all` shows every claim of this store")
            .into()),
        Found::Ambiguous => {
            Err(Failure::new(Kind::Nothing, format!("there is more than one {}", what.trim_start_matches("a ")))
                .hint("give more of the key's digits")
                .into())
        }
    }
}

/// Finds every claim that a person names, each once.
pub(super) fn find_all(store: &mut dyn Store, named: &[ClaimRef]) -> anyhow::Result<Vec<Claim>> {
    let found: anyhow::Result<Vec<Claim>> = named.iter().map(|named| find(store, named)).collect();
    let mut seen = HashSet::new();
    Ok(found?.into_iter().filter(|claim| seen.insert(claim.id)).collect())
}

/// Returns the claims that fit and whose outcome is unknown, newest first: those that are held, and those that run no more
/// though nobody has noticed. One that runs is nobody's question.
pub(super) fn unknown(store: &mut dyn Store, location: &Location, filter: Filter) -> anyhow::Result<Vec<Claim>> {
    let filter = Filter { states: vec![State::Held, State::Running], ..filter };
    let mut unknown = Vec::new();
    for claim in store.claims(&filter)? {
        if owner(location, &claim)? != Some(Liveness::Alive) {
            unknown.push(claim);
        }
    }
    Ok(unknown)
}

/// Reads what an attempt printed, or what stands in its place, into memory.
pub(super) fn output(store: &mut dyn Store, id: ClaimId, which: Which) -> Result<Output, StoreError> {
    let mut output = Output::default();
    let visited = store.output(id, which, &mut |stream, bytes| {
        output.push(stream, bytes);
        Ok(())
    })?;
    debug_assert!(visited.is_ok(), "to push to memory never fails");
    Ok(output)
}

/// Tells whether the owner of a running claim lives; `None` for a claim that isn't running.
pub(super) fn owner(location: &Location, claim: &Claim) -> anyhow::Result<Option<Liveness>> {
    if claim.state == State::Running { liveness(location, claim).map(Some) } else { Ok(None) }
}

/// Tells whether whoever took this claim's lock lives.
pub(super) fn liveness(location: &Location, claim: &Claim) -> anyhow::Result<Liveness> {
    let proven = locks(location)?.test(claim.lock).map_err(|error| lock_failed(location, &error))?;
    Ok(proven.or_seen(claim.seen_lately))
}

/// Opens the lock file of the attempts that this host owns.
pub(super) fn locks(location: &Location) -> Result<LockFile, StoreError> {
    let path = location.lock_path();
    let opened = if location.is_shared() { LockFile::open_of_host(&path) } else { LockFile::open(&path) };
    opened.map_err(|error| lock_failed(location, &error))
}

/// Names the lock file in an error of the system.
pub(super) fn lock_failed(location: &Location, error: &std::io::Error) -> StoreError {
    StoreError::Other(location.lock_path(), format!("the lock can't be used: {error}"))
}

/// Fails where the owner of a running claim may still live, unless forced.
pub(super) fn refuse_living(claim: &Claim, owner: Option<Liveness>, force: bool, verb: &str) -> anyhow::Result<()> {
    let lives = match owner {
        Some(Liveness::Alive) => "lives",
        Some(Liveness::Unprovable) => "can be proven neither alive nor dead",
        Some(Liveness::Dead) | None => return Ok(()),
    };
    if force {
        return Ok(());
    }
    let message =
        format!("claim {} is running and its owner ({}) {lives}; nothing was changed", claim.id, claim.owner.actor);
    let hint = format!(
        "wait for it, or end it; `idem {verb} {} --force` frees the key although its command goes on and may still act",
        claim.id
    );
    Err(Failure::new(Kind::Refused, message).hint(hint).into())
}

/// Makes the change of state that a person decided on.
pub(super) fn decision(claim: &Claim, to: State, outcome: Outcome, note: Option<&str>, forced: bool) -> Transition {
    let (reason, kind) = match to {
        State::Cleared => (Reason::Cleared, EventKind::Cleared),
        _ => (Reason::Resolved, EventKind::Resolved),
    };
    let detail = json!({
        "from": claim.state.as_str(),
        "to": to.as_str(),
        "outcome": outcome.as_str(),
        "forced": forced,
        "note": note,
    });
    let to = Ended { state: to, outcome, reason };
    Transition::of(claim, to, settings::actor()).event(kind, Some(detail.to_string()))
}

/// Makes the change to held of a claim whose owner is gone and has left no outcome.
pub(super) fn held(claim: &Claim, reason: Reason, actor: &str) -> Transition {
    let detail = json!({ "reason": reason.as_str() }).to_string();
    Transition::of(claim, Ended::held(reason), actor.to_owned()).event(EventKind::BecameHeld, Some(detail))
}

/// Makes the change of a claim that was left without an end, to what is known of it. What has landed replays exit 0 and what
/// was recorded of its output, as a claim that a person resolves.
pub(super) fn concluded(claim: &Claim, ended: Ended, actor: &str) -> Transition {
    if ended.state == State::Held {
        return held(claim, ended.reason, actor);
    }
    let completed = ended.state == State::Completed;
    let detail = json!({ "reason": ended.reason.as_str(), "mark": claim.mark.map(Mark::as_str) }).to_string();
    let result = completed.then_some(NewResult { exit_code: 0, output: NewOutput::Recorded });
    Transition {
        result,
        ..Transition::of(claim, ended, actor.to_owned()).event(EventKind::became(ended.state), Some(detail))
    }
}

/// Fails because the claim changed between looking and deciding.
pub(super) fn changed_meanwhile(claim: &Claim) -> anyhow::Error {
    Failure::new(
        Kind::Refused,
        format!("claim {} changed in this moment; nothing was changed by this command", claim.id),
    )
    .hint(format!("look again with `idem show {}`", claim.id))
    .into()
}
