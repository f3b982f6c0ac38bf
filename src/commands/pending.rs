//! Recording the outcomes that a store could not take when they became known: whoever comes to the store does it first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::domain::claim::{Claim, ClaimId, State};
use crate::domain::health::Finding;
use crate::domain::key::Key;
use crate::domain::pending::Pending;
use crate::domain::store::{Finished, Store, StoreError};
use crate::exit::{Failure, Kind};
use crate::store::Location;
use crate::store::pending::{Entry, Kept, Taken, look, set_aside, take};
use crate::ui::Ui;
use crate::view::words;

/// How long somebody who came for something else waits for a store that can't take an outcome yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to do about an outcome that the store still can't take.
const LEFT: &str =
    "see `idem doctor`; once the store can be written, any idem command that opens it records the outcome";

/// What came of the outcomes that waited for a store.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    /// The claims whose outcome was recorded here and now.
    pub(super) recorded: Vec<ClaimId>,
    left: Vec<Left>,
}

/// An outcome that could not be recorded yet.
#[derive(Debug)]
struct Left {
    /// Of which call; `None` where that can't be read.
    key: Option<Key>,
    path: PathBuf,
    kind: &'static str,
    why: String,
}

/// What is known of an attempt by what was kept of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtLast {
    /// Nothing was kept.
    Nothing,
    /// Its end has just been recorded: the claim isn't what it was read as.
    Recorded,
    /// Something was kept that nobody can use: it had an end, and which one is unknown.
    Unusable,
}

/// What became of one file.
enum Came {
    Recorded(ClaimId),
    /// Nothing has to be done about it any more.
    Gone,
    InUse,
    Bad,
    Left(Left),
}

/// Records the outcomes that wait for this store, as far as it takes them. Where there are none it costs next to nothing.
pub(super) fn deliver(location: &Location, store: &mut dyn Store, ui: &Ui) -> Result<Delivered, StoreError> {
    let seen = look(location)?;
    let mut delivered = Delivered::default();
    for entry in &seen.waiting {
        match deliver_one(location, store, entry, false, ui)? {
            Came::Recorded(id) => delivered.recorded.push(id),
            Came::Left(left) => delivered.left.push(left),
            Came::Gone | Came::InUse | Came::Bad => {}
        }
    }
    Ok(delivered)
}

/// The same for a command that does its own work whatever comes of it: what can't be recorded is said.
pub(super) fn deliver_or_say(location: &Location, store: &mut dyn Store, ui: &Ui) -> Delivered {
    let delivered = deliver(location, store, ui).unwrap_or_else(|error| {
        ui.note(&format!("what is kept of outcomes can't be looked at: {error}"));
        Delivered::default()
    });
    for left in &delivered.left {
        ui.note(&words::still_pending(&left.path.display().to_string(), &left.why));
    }
    delivered
}

/// The same for an arrival at this call. Fails where what is known of the call can't be recorded: nobody may judge it by a
/// row that doesn't say so.
pub(super) fn deliver_before(key: &Key, location: &Location, store: &mut dyn Store, ui: &Ui) -> anyhow::Result<()> {
    let delivered = deliver(location, store, ui)?;
    for left in delivered.left {
        if left.key == Some(*key) {
            return Err(left.failure().into());
        }
        ui.note(&words::still_pending(&left.path.display().to_string(), &left.why));
    }
    Ok(())
}

/// Looks once more whether the end of an attempt was kept, now that its owner is known to be gone, and records it.
///
/// *An arrival looks and finds nothing kept; the owner, whose store is full, keeps its outcome and lets go of its lock; the
/// arrival reads the row: running, and the lock is free.* It would hold a claim whose outcome is known, conclude it by marks
/// that its end had outdone, or run its command again. The owner keeps the outcome before it lets go, so a look after the
/// lock was found free sees it. Whoever is at it is waited for: it has the outcome in its hands.
///
/// Fails where the outcome can't be recorded yet.
pub(super) fn deliver_of(claim: &Claim, location: &Location, store: &mut dyn Store, ui: &Ui) -> anyhow::Result<AtLast> {
    let seen = look(location)?.of(claim.lock);
    let mut at_last = if seen.bad.is_empty() { AtLast::Nothing } else { AtLast::Unusable };
    for entry in &seen.waiting {
        match deliver_one(location, store, entry, true, ui)? {
            Came::Recorded(_) | Came::Gone | Came::InUse => return Ok(AtLast::Recorded),
            Came::Bad => at_last = AtLast::Unusable,
            Came::Left(left) => return Err(left.failure().into()),
        }
    }
    Ok(at_last)
}

fn deliver_one(
    location: &Location,
    store: &mut dyn Store,
    entry: &Entry,
    wait: bool,
    ui: &Ui,
) -> Result<Came, StoreError> {
    let left = |key, error: &StoreError| {
        Came::Left(Left { key, path: entry.path.clone(), kind: error.kind(), why: error.to_string() })
    };
    let bad = |taken| match taken {
        Taken::Bad(aside, why) => {
            let (message, hint) = words::bad_pending(&aside.display().to_string(), entry.name.id, &why);
            ui.error(&message, Some(&hint));
            Came::Bad
        }
        _ => Came::Gone,
    };
    let (pending, kept) = match take(location, entry, wait) {
        Ok(Taken::Mine(pending, kept)) => (pending, kept),
        Ok(Taken::Gone) => return Ok(Came::Gone),
        Ok(Taken::InUse) => return Ok(Came::InUse),
        Ok(Taken::Newer(format)) => {
            let why = format!("it was kept by a newer idem (format {format})");
            return Ok(Came::Left(Left { key: None, path: entry.path.clone(), kind: "store-newer", why }));
        }
        Ok(taken @ Taken::Bad(..)) => return Ok(bad(taken)),
        Err(error) => return Ok(left(None, &error)),
    };
    store.set_patience(Some(PATIENCE));
    let recorded = record(store, &pending);
    store.set_patience(None);
    match recorded {
        Ok(Recorded::ThisTime(claim)) => {
            ui.note(&words::delivered(&claim));
            finished(kept, entry, ui);
            Ok(Came::Recorded(claim.id))
        }
        Ok(Recorded::Late(claim)) => {
            let words = words::delivered_late(&claim, &words::end(pending.finish.end));
            ui.error(&words.message, words.hint.as_deref());
            finished(kept, entry, ui);
            Ok(Came::Recorded(claim.id))
        }
        // Its deliverer was killed before it could remove the file; or the claim never came to be.
        Ok(Recorded::Before | Recorded::Never) => {
            finished(kept, entry, ui);
            Ok(Came::Gone)
        }
        Ok(Recorded::Foreign) => Ok(bad(set_aside(entry, "it is of no attempt that this store has")?)),
        Err(error) => Ok(left(Some(pending.key), &error)),
    }
}

/// What recording an outcome came to.
enum Recorded {
    ThisTime(Box<Claim>),
    /// Somebody had decided about the claim meanwhile.
    Late(Box<Claim>),
    Before,
    /// The claim was never made.
    Never,
    /// It is of another store.
    Foreign,
}

/// Records an outcome that nobody else works on.
fn record(store: &mut dyn Store, pending: &Pending) -> Result<Recorded, StoreError> {
    let claim = match pending.id {
        Some(id) => store.get(id)?,
        None => store.made_with(&pending.key, pending.lock)?,
    };
    let Some(claim) = claim else {
        return Ok(if pending.id.is_some() { Recorded::Foreign } else { Recorded::Never });
    };
    // The lock's place is random: no attempt of another store has it, whatever its number.
    if claim.key != pending.key || claim.lock != pending.lock {
        return Ok(Recorded::Foreign);
    }
    // *A deliverer records it and is killed before it can remove the file*: a second record would be a late outcome.
    if claim.state != State::Running && store.has_recorded(claim.id, &pending.finish)? {
        return Ok(Recorded::Before);
    }
    let finished = store.finish(claim.id, &pending.finish, &pending.rest)?;
    // What was recorded is told as it is now; that it can't be read back changes nothing about it.
    let claim = Box::new(store.get(claim.id).ok().flatten().unwrap_or(claim));
    Ok(match finished {
        Finished::Recorded(_) => Recorded::ThisTime(claim),
        Finished::Late(_) => Recorded::Late(claim),
    })
}

/// Removes the file of an outcome that is recorded. The next one who comes would find it recorded, so this isn't a failure.
fn finished(kept: Kept, entry: &Entry, ui: &Ui) {
    if let Err(error) = kept.remove() {
        ui.note(&format!("{} is recorded and could not be removed: {error}", entry.path.display()));
    }
}

impl Left {
    fn failure(&self) -> Failure {
        Failure::new(Kind::Store(self.kind), words::still_pending(&self.path.display().to_string(), &self.why))
            .hint(LEFT)
    }
}

/// Looks at what is kept, for a doctor, who doesn't give it.
pub(super) fn findings(location: &Location) -> Vec<Finding> {
    let seen = match look(location) {
        Ok(seen) => seen,
        Err(error) => return vec![Finding::attention("pending", error.to_string(), error.hint())],
    };
    let list = |entries: &[Entry]| {
        let shown: Vec<String> = entries.iter().take(10).map(shown).collect();
        let more = if entries.len() > 10 { format!(" and {} more", entries.len() - 10) } else { String::new() };
        format!("{}{more}", shown.join(", "))
    };
    let mut findings = Vec::new();
    if !seen.waiting.is_empty() {
        let count = seen.waiting.len();
        let outcomes = if count == 1 { "1 outcome is".to_owned() } else { format!("{count} outcomes are") };
        let message = format!("{outcomes} known and not in the store yet: {}", list(&seen.waiting));
        let hint = "any idem command that opens the store records them first: `idem reconcile --all`, say";
        findings.push(Finding::attention("pending", message, hint));
    }
    if !seen.bad.is_empty() {
        let count = seen.bad.len();
        let files = if count == 1 { "1 kept outcome".to_owned() } else { format!("{count} kept outcomes") };
        let hint = "read what can be read of it, say what you know by `idem resolve ID`, then remove the file";
        findings.push(Finding::attention("pending", format!("{files} can't be used: {}", list(&seen.bad)), hint));
    }
    findings
}

fn shown(entry: &Entry) -> String {
    let path = Path::display(&entry.path);
    entry.name.id.map_or_else(|| format!("a claim without a number in {path}"), |id| format!("claim {id} in {path}"))
}
