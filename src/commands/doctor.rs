//! `idem doctor`: where the store is, whether it is well, and what to do where it isn't. To look makes no store.

use std::ffi::OsString;

use super::{pending, settle};
use crate::cli::{DoctorArgs, Global, Integrity as Asked};
use crate::domain::arrival::Liveness;
use crate::domain::claim::{Claim, ClaimId, State};
use crate::domain::health::{Finding, Integrity, Level};
use crate::domain::store::{Filter, Store, StoreError};
use crate::exit::{self, Failure};
use crate::liveness::try_locks;
use crate::settings;
use crate::store::Location;
use crate::ui::{self, Progress};
use crate::view::findings::{Health, findings_text, worst};
use crate::view::words;

/// Up to this size a store is read whole without being asked to.
const READ_WHOLE: u64 = 64 << 20;

/// Looks, and prints what was found. Exit code 0: all is well; 1: something needs attention; 125: the store can't be used.
pub(super) fn doctor(global: &Global, args: &DoctorArgs) -> anyhow::Result<u8> {
    let location = settings::store(global);
    let decided_by = settings::store_decided_by(global);
    let sqlite = crate::store::sqlite::sqlite_version();
    let mut findings = vec![Finding::fine("version", format!("idem {}, SQLite {sqlite}", env!("CARGO_PKG_VERSION")))];
    let mut path = None;
    match location {
        Ok(location) => {
            let shown = location.shown();
            findings.push(Finding::fine("place", format!("{shown} (by {decided_by})")));
            findings.extend(look(&location, args));
            path = Some(shown);
        }
        Err(error) => {
            let failure = Failure::from_error(error);
            findings.push(Finding { hint: failure.hint, ..Finding::new("place", Level::Unusable, failure.message) });
        }
    }
    let level = worst(&findings);
    if args.json {
        let health = Health {
            store: path,
            decided_by,
            idem: env!("CARGO_PKG_VERSION"),
            sqlite,
            level: level.as_str(),
            findings: findings.iter().map(Into::into).collect(),
        };
        ui::print(&health.line())?;
    } else {
        ui::print(&findings_text(&findings, ui::colored(global.color)))?;
    }
    Ok(match level {
        Level::Fine | Level::Note => exit::DONE,
        Level::Attention => exit::NOTHING,
        Level::Unusable => exit::OWN,
    })
}

/// Looks at the store from outside in.
fn look(location: &Location, args: &DoctorArgs) -> Vec<Finding> {
    let mut findings = location.look_at();
    findings.extend(pending::findings(location));
    if worst(&findings) == Level::Unusable {
        return findings;
    }
    match location.open_existing() {
        Ok(Some(mut store)) => {
            let looked = inside(store.as_mut(), location, args, &mut findings);
            if let Err(error) = looked {
                findings.push(Finding::unusable(&error));
            }
        }
        Ok(None) => findings.push(Finding::new("store", Level::Note, "there is none yet: the first run makes it")),
        Err(error) => findings.push(Finding::unusable(&error)),
    }
    findings
}

fn inside(
    store: &mut dyn Store,
    location: &Location,
    args: &DoctorArgs,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let size = location.size().unwrap_or(0);
    let integrity = match args.integrity {
        Some(Asked::Full) => Integrity::Full,
        None if size <= READ_WHOLE => Integrity::Full,
        Some(Asked::Quick) | None => Integrity::Quick,
        Some(Asked::None) => Integrity::None,
    };
    let progress = Progress::new(1, "stores read");
    progress.at("reading the store");
    let examined = store.examine(integrity);
    progress.end();
    findings.extend(examined?);
    findings.push(locks(location));
    findings.extend(open_claims(store, location)?);
    Ok(())
}

/// Tries whether locks hold here: without them two owners could run one call.
fn locks(location: &Location) -> Finding {
    let hint = "name a store on a local file system with --store or IDEM_STORE: without locks a call can run twice";
    let tried = std::env::current_exe().and_then(|idem| {
        // It waits for its params, until it is killed.
        let words = ["key", "--who", "doctor", "--conv", "doctor", "--tool", "doctor", "--params", "-"];
        let line: Vec<OsString> = std::iter::once(idem.into()).chain(words.map(Into::into)).collect();
        try_locks(&location.lock_path(), &line)
    });
    match tried {
        Ok(trial) if trial.holds() => {
            Finding::fine("locks", "they exclude others, are inherited by a child, and are freed by its death")
        }
        Ok(trial) => {
            let kept = [
                (trial.exclusive, "they don't exclude others"),
                (trial.inherited, "a child doesn't inherit them"),
                (trial.freed, "a dead child keeps them"),
            ];
            let broken: Vec<&str> = kept.iter().filter(|(holds, _)| !holds).map(|(_, told)| *told).collect();
            Finding::attention("locks", broken.join(", "), hint)
        }
        Err(error) => Finding::attention("locks", format!("they could not be tried: {error}"), hint),
    }
}

/// Looks for claims that wait for somebody.
fn open_claims(store: &mut dyn Store, location: &Location) -> Result<Vec<Finding>, StoreError> {
    let failed = |error: std::io::Error| settle::lock_failed(location, &error);
    let open = Filter { states: vec![State::Running, State::Held], ..Filter::default() };
    let claims: Vec<Claim> = store.list(&open)?.into_iter().map(|listed| listed.claim).collect();
    let locks = settle::locks(location)?;
    let (mut alive, mut dead, mut unprovable, mut held) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for claim in claims.iter().rev() {
        let group = match claim.state {
            State::Held => &mut held,
            _ => match locks.test(claim.lock).map_err(failed)?.or_seen(claim.seen_lately) {
                Liveness::Alive => &mut alive,
                Liveness::Dead => &mut dead,
                Liveness::Unprovable => &mut unprovable,
            },
        };
        group.push(claim.id);
    }
    let mut findings = vec![Finding::fine("running", format!("{} with an owner that lives", count(&alive)))];
    let mut tell = |check, ids: &[ClaimId], what: &str, hint: &str| {
        if !ids.is_empty() {
            findings.push(Finding::attention(check, format!("{}{what}: {}", count(ids), some(ids)), hint));
        }
    };
    tell(
        "owner-dead",
        &dead,
        " whose owner is dead, and whose outcome nobody has looked for",
        "`idem reconcile ID` finds out what can be found out; so does the next arrival of the call",
    );
    tell(
        "owner-unprovable",
        &unprovable,
        " whose owner can be proven neither alive nor dead, since the lock file was replaced",
        "see that its command has ended, then `idem resolve ID landed --force` or `… not-landed --force`",
    );
    tell(
        "held",
        &held,
        " held, whose outcome nobody knows",
        "`idem show ID` tells of one; `idem reconcile ID` asks its target where a probe is stored with it, else ask it yourself and say \
         `idem resolve ID landed` or `idem resolve ID not-landed`",
    );
    Ok(findings)
}

fn count(ids: &[ClaimId]) -> String {
    if ids.len() == 1 { "1 claim".to_owned() } else { format!("{} claims", ids.len()) }
}

/// Returns the first of them in words: there may be thousands.
fn some(ids: &[ClaimId]) -> String {
    match ids.get(..10) {
        Some(first) if ids.len() > 10 => format!("{} and {} more", words::ids(first), ids.len() - 10),
        _ => words::ids(ids),
    }
}
