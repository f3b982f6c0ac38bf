//! What `show`, `clear` and `resolve` share: finding the claim that a person names, and whether its owner lives.

use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, Outcome, Reason, State};
use crate::domain::event::EventKind;
use crate::domain::store::{ClaimRef, Found, Store, StoreError, Transition};
use crate::exit::{Failure, Kind};
use crate::liveness::LockFile;
use crate::settings;
use crate::store::Location;
use crate::store::sqlite::SqliteStore;

/// Opens the store for a command that doesn't make one: no store has no claims (exit code 1).
pub(super) fn open(location: &Location) -> anyhow::Result<SqliteStore> {
    let store = SqliteStore::open_existing(location)?;
    let none =
        || Failure::new(Kind::Nothing, format!("there is no store {} yet, so no claim", location.path.display()));
    Ok(store.ok_or_else(none)?)
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

/// Tells whether the owner of a running claim lives; `None` for a claim that isn't running.
pub(super) fn owner(location: &Location, claim: &Claim) -> anyhow::Result<Option<Liveness>> {
    if claim.state != State::Running {
        return Ok(None);
    }
    let locks = LockFile::open(&location.lock_path()).map_err(|error| lock_failed(location, &error))?;
    Ok(Some(locks.test(claim.lock).map_err(|error| lock_failed(location, &error))?))
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
    let detail = serde_json::json!({
        "from": claim.state.as_str(),
        "to": to.as_str(),
        "outcome": outcome.as_str(),
        "forced": forced,
        "note": note,
    });
    Transition {
        from: claim.state,
        to,
        reason,
        outcome,
        kind,
        actor: settings::actor(),
        detail: Some(detail.to_string()),
        result: None,
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
