//! What a command and its probe are told by their environment (design §9).

use std::ffi::OsString;

use crate::domain::claim::{Claim, ClaimId};
use crate::domain::key::Key;
use crate::store::Location;

/// Proves to `idem mark` that somebody belongs to the attempt.
pub(super) const TOKEN: &str = "IDEM_TOKEN";

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
            ("IDEM_STORE", location.path.clone().into_os_string()),
        ]
    }
}
