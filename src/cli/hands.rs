//! The commands for people: list, show, clear, resolve, reconcile; and `mark` and `emit`, for commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::run::duration;
use crate::domain::claim::State;
use crate::domain::store::ClaimRef;

/// Which claims, by what they are.
#[derive(Args, Debug, Clone, Default)]
pub struct Which {
    /// Only claims in this state (may be given again)
    #[arg(long, value_name = "STATE", value_parser = state_words())]
    pub state: Vec<State>,
    /// Whose.
    #[command(flatten)]
    pub whose: Whose,
}

/// Which claims, by the call that they are of.
#[derive(Args, Debug, Clone, Default)]
pub struct Whose {
    /// Only claims of this who
    #[arg(long, value_name = "W")]
    pub who: Option<String>,
    /// Only claims of this conversation
    #[arg(long, value_name = "C")]
    pub conv: Option<String>,
    /// Only claims of this tool
    #[arg(long, value_name = "T")]
    pub tool: Option<String>,
}

impl Whose {
    /// Tells whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.who.is_none() && self.conv.is_none() && self.tool.is_none()
    }
}

/// Arguments of `idem list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Which claims.
    #[command(flatten)]
    pub which: Which,
    /// Only claims made since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only claims made longer ago than this, such as 1h or 30d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// At most this many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
    /// Steps of other calls too; those that are held are always there
    #[arg(long)]
    pub steps: bool,
    /// History too: claims that were released, cleared or have expired
    #[arg(long)]
    pub all: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `idem show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The claim: its number, or key: and the beginning of its key
    #[arg(value_name = "ID", value_parser = claim_ref)]
    pub id: ClaimRef,
    /// Only the recorded standard output, as it was
    #[arg(long, conflicts_with_all = ["stderr", "json"])]
    pub stdout: bool,
    /// Only the recorded standard error, as it was
    #[arg(long, conflicts_with = "json")]
    pub stderr: bool,
    /// One line of JSON: the claim, its attempts and its events
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `idem clear`.
#[derive(Args, Debug)]
pub struct ClearArgs {
    /// The claims: numbers, or key: and the beginning of a key
    #[arg(value_name = "ID", value_parser = claim_ref, conflicts_with_all = ["state", "who", "conv", "tool"])]
    pub ids: Vec<ClaimRef>,
    /// Which claims.
    #[command(flatten)]
    pub which: Which,
    /// Clear the steps below the claims too, with their own steps
    #[arg(long)]
    pub group: bool,
    /// Clear a running claim too, though its owner lives: its command is not stopped
    #[arg(long)]
    pub force: bool,
    /// Don't ask
    #[arg(long)]
    pub yes: bool,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Say why; kept in the history
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// What a person knows of a call.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It reached its target: later arrivals are given the result.
    Landed,
    /// It did not: the next arrival runs the command.
    NotLanded,
}

/// One word after `idem resolve`. In one list, since options may stand between them, and clap gives the words of two lists
/// out by counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A claim.
    Claim(ClaimRef),
    /// What became of the claims.
    Verdict(Verdict),
}

/// Arguments of `idem resolve`.
#[derive(Args, Debug)]
pub struct ResolveArgs {
    /// The claims, as numbers or key: and the beginning of a key; then what became of them: landed or not-landed
    #[arg(value_name = "ID", required = true, num_args = 1.., value_parser = told)]
    pub told: Vec<Told>,
    /// Instead of ids: every claim of this who whose outcome is unknown
    #[arg(long, value_name = "W")]
    pub who: Option<String>,
    /// Instead of ids: every claim of this conversation whose outcome is unknown
    #[arg(long, value_name = "C")]
    pub conv: Option<String>,
    /// Instead of ids: every claim of this tool whose outcome is unknown
    #[arg(long, value_name = "T")]
    pub tool: Option<String>,
    /// What later arrivals get as standard output, instead of what was recorded (landed only)
    #[arg(long, value_name = "FILE")]
    pub stdout: Option<PathBuf>,
    /// What later arrivals get as exit code (landed only) [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub exit: Option<u8>,
    /// Resolve a running claim too, though its owner lives, or against the mark of its command; nothing is stopped
    #[arg(long)]
    pub force: bool,
    /// Don't ask
    #[arg(long)]
    pub yes: bool,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Say how you know; kept in the history
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// Arguments of `idem reconcile`.
#[derive(Args, Debug)]
pub struct ReconcileArgs {
    /// The claims: numbers, or key: and the beginning of a key
    #[arg(value_name = "ID", value_parser = claim_ref, conflicts_with_all = ["all", "who", "conv", "tool"])]
    pub ids: Vec<ClaimRef>,
    /// Every claim whose outcome is unknown
    #[arg(long)]
    pub all: bool,
    /// Whose.
    #[command(flatten)]
    pub whose: Whose,
    /// Ask with this shell command, instead of the one that was stored with the claim
    #[arg(long, value_name = "COMMAND")]
    pub probe: Option<OsString>,
    /// How long a probe may take [default: as stored with it, else 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub probe_timeout: Option<Duration>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `idem mark`.
#[derive(Args, Debug)]
pub struct MarkArgs {
    /// What is known of the write
    #[arg(value_enum, value_name = "MARK")]
    pub mark: MarkWord,
}

/// Arguments of `idem emit`.
#[derive(Args, Debug)]
pub struct EmitArgs {
    /// The member's name, one in its group
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its value: JSON, @FILE, or - for standard input [default: none]
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub value: Option<OsString>,
}

/// What a command can say of its write.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkWord {
    /// It is about to be sent: from now on it may have landed.
    Sending,
    /// The target has taken it, whatever fails later.
    Landed,
    /// The target has not taken it.
    NotLanded,
}

fn state_words() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.iter().copied().map(State::as_str))
        .try_map(|word| State::from_word(&word).ok_or("a word that the contract doesn't have"))
}

/// Reads a claim, or what became of it: a person says `4 7 landed`.
fn told(word: &str) -> Result<Told, String> {
    match Verdict::from_str(word, false) {
        Ok(verdict) => Ok(Told::Verdict(verdict)),
        Err(_) => claim_ref(word)
            .map(Told::Claim)
            .map_err(|_| "say landed or not-landed, or name a claim by its number (1, 2, 3…) or by key: and the beginning of its key".to_owned()),
    }
}

fn claim_ref(text: &str) -> Result<ClaimRef, String> {
    if let Some(prefix) = text.strip_prefix("key:") {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        return match prefix.len() {
            1..=64 if prefix.bytes().all(hex) => Ok(ClaimRef::KeyPrefix(prefix.to_owned())),
            _ => Err("key: is followed by 1 to 64 lower-case hex digits".to_owned()),
        };
    }
    match text.parse() {
        Ok(id) if id > 0 && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(ClaimRef::Id(id)),
        _ => Err("a claim is named by its number (1, 2, 3…) or by key: and the beginning of its key".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_named_by_number_or_key() {
        assert_eq!(claim_ref("12"), Ok(ClaimRef::Id(12)));
        assert_eq!(claim_ref("key:0af"), Ok(ClaimRef::KeyPrefix("0af".to_owned())));
        for bad in ["", "0", "-1", "+1", "1.0", "key:", "key:0AF", "key:xyz", "abc", "99999999999999999999"] {
            assert!(claim_ref(bad).is_err(), "{bad}");
        }
    }
}
