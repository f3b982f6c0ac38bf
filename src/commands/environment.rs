//! What a command and its probe are told by their environment (design §9), and how those inside read it back.

use std::ffi::OsString;
use std::path::PathBuf;

use super::pending;
use crate::cli::Global;
use crate::domain::claim::{Claim, ClaimId};
use crate::domain::group::Enclosing;
use crate::domain::key::Key;
use crate::domain::store::Store;
use crate::exit::{Failure, Kind};
use crate::settings::{self, TOKEN};
use crate::store::Location;
use crate::ui::Ui;

/// The attempt that a command or a probe is told of.
pub(super) struct Attempt<'a> {
    pub(super) key: &'a Key,
    pub(super) id: ClaimId,
    pub(super) number: i64,
    pub(super) who: &'a str,
    pub(super) conv: &'a str,
    pub(super) tool: &'a str,
    pub(super) token: String,
}

impl<'a> Attempt<'a> {
    /// Returns the attempt of a claim.
    pub(super) fn of(claim: &'a Claim) -> Attempt<'a> {
        Attempt {
            key: &claim.key,
            id: claim.id,
            number: claim.attempt,
            who: &claim.who,
            conv: &claim.conv,
            tool: &claim.tool,
            token: claim.lock.token(),
        }
    }

    /// Returns the variables that are added to a command's environment.
    pub(super) fn environment(&self, location: &Location) -> Vec<(&'static str, OsString)> {
        let mut environment = self.told(location);
        environment.push((TOKEN, self.token.clone().into()));
        environment
    }

    /// Returns those of a probe: the same, but it asks, and doesn't speak for the attempt.
    pub(super) fn environment_of_probe(&self, location: &Location) -> Vec<(&'static str, OsString)> {
        let mut environment = self.told(location);
        environment.push((TOKEN, OsString::new()));
        environment
    }

    fn told(&self, location: &Location) -> Vec<(&'static str, OsString)> {
        let text = |text: &str| OsString::from(text);
        vec![
            ("IDEM_KEY", text(&self.key.to_string())),
            ("IDEM_KEY_UUID", text(&self.key.uuid())),
            ("IDEM_KEY_SHORT", text(&self.key.short())),
            ("IDEM_CLAIM", text(&self.id.to_string())),
            ("IDEM_ATTEMPT", text(&self.number.to_string())),
            ("IDEM_WHO", text(self.who)),
            ("IDEM_CONV", text(self.conv)),
            ("IDEM_TOOL", text(self.tool)),
            ("IDEM_STORE", location.for_environment()),
        ]
    }
}

/// Reads from the environment which attempt this process belongs to, for commands that work inside a command only, and
/// opens the store that it was told of, whatever `--store` says: a claim's number means nothing in another one.
pub(super) fn inside(verb: &str, global: &Global) -> anyhow::Result<(Enclosing, Box<dyn Store>)> {
    let outside = |problem: &str| {
        let hint = "call it from the command of an `idem run`, with the environment that the command was given";
        Failure::new(Kind::Usage, format!("`idem {verb}` works inside a command of idem only: {problem}")).hint(hint)
    };
    let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let id = read("IDEM_CLAIM").ok_or_else(|| outside("IDEM_CLAIM is not set"))?;
    let id = id.parse().ok().filter(|&id| id > 0).ok_or_else(|| outside("IDEM_CLAIM is no claim's number"))?;
    let token = read(TOKEN).ok_or_else(|| outside("IDEM_TOKEN is not set"))?;
    if token.len() != 16 || !token.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
        return Err(outside("IDEM_TOKEN is no attempt's").into());
    }
    let store = std::env::var_os("IDEM_STORE").filter(|store| !store.is_empty());
    let store = store.ok_or_else(|| outside("IDEM_STORE is not set"))?;
    let told = Global { store: Some(PathBuf::from(store)), ..global.clone() };
    let location = settings::store(&told)?;
    let store = location.open_existing()?;
    let gone = || Failure::new(Kind::Refused, format!("the store of claim {id} is gone; nothing was recorded"));
    let mut store = store.ok_or_else(gone)?;
    // Without a note, which would stand in the command's own output.
    pending::deliver_or_say(&location, store.as_mut(), &Ui::new(true));
    Ok((Enclosing { id, token }, store))
}
