//! `idem run` and `idem key`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::domain::codes::ExitCodes;
use crate::domain::pointer::Pointer;
use crate::domain::size::Size;

/// What makes two calls the same write (contract §3).
#[derive(Args, Debug, Clone, Default)]
pub struct Identity {
    /// Who calls
    #[arg(long, env = "IDEM_WHO", hide_env_values = true, value_name = "W", help_heading = "Identity")]
    pub who: Option<OsString>,
    /// The conversation, run or pipeline that the call belongs to (never the number of a re-run)
    #[arg(long, env = "IDEM_CONV", hide_env_values = true, value_name = "C", help_heading = "Identity")]
    pub conv: Option<OsString>,
    /// The tool's name
    #[arg(long, value_name = "T", help_heading = "Identity")]
    pub tool: Option<OsString>,
    /// The call's parameters: JSON, @FILE, or - for idem's standard input (the command then gets none)
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true, help_heading = "Identity")]
    pub params: OsString,
    /// The same call, meant N times: 2 for the second time it is wanted [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Identity")]
    pub occurrence: Option<u64>,
    /// Make all of standard input part of the key, and give it to the command (at most 1 GiB)
    #[arg(long, help_heading = "Identity")]
    pub bind_stdin: bool,
    /// Make a file's content part of the key (may be given again)
    #[arg(long, value_name = "PATH", help_heading = "Identity")]
    pub bind_file: Vec<OsString>,
    /// Make an environment variable part of the key (may be given again)
    #[arg(long, value_name = "NAME", help_heading = "Identity")]
    pub bind_env: Vec<OsString>,
    /// Make the current folder part of the key
    #[arg(long, help_heading = "Identity")]
    pub bind_cwd: bool,
    /// Leave a volatile member of the params out of the key, such as /request_id (may be given again)
    #[arg(long, value_name = "POINTER", help_heading = "Identity")]
    pub ignore_param: Vec<Pointer>,
}

/// Where the command's standard input comes from.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// idem's own.
    #[default]
    Inherit,
    /// Nothing.
    Null,
}

/// Arguments of `idem key`.
#[derive(Args, Debug, Default)]
pub struct KeyArgs {
    /// What makes two calls the same write.
    #[command(flatten)]
    pub identity: Identity,
    /// Print the canonical text that is hashed, too
    #[arg(long)]
    pub explain: bool,
}

/// Arguments of `idem run`.
#[derive(Args, Debug, Clone, Default)]
pub struct RunArgs {
    /// What makes two calls the same write.
    #[command(flatten)]
    pub identity: Identity,

    /// The write goes to a target of its own: a failure may come after it landed, and is held
    #[arg(long, help_heading = "Effect")]
    pub external: bool,
    /// A failure means that nothing was written [default, unless the policy says external]
    #[arg(long, conflicts_with = "external", help_heading = "Effect")]
    pub local: bool,
    /// Exit codes that mean: it landed, such as 3 or 6,7,10-19
    #[arg(long, value_name = "CODES", help_heading = "Effect")]
    pub landed_exit: Option<ExitCodes>,
    /// Exit codes that mean: it did not land, and may be run again
    #[arg(long, value_name = "CODES", help_heading = "Effect")]
    pub not_landed_exit: Option<ExitCodes>,
    /// A failure of a local command is final too, and is replayed
    #[arg(long, conflicts_with = "external", help_heading = "Effect")]
    pub keep_failure: bool,
    /// Run again, instead of holding, what a dead owner left without an outcome; for local commands that bear it
    #[arg(long, conflicts_with = "external", help_heading = "Effect")]
    pub rerun_if_interrupted: bool,

    /// Ask the target whether an unknown outcome landed: a shell command that exits 0 for yes (its output is then the
    /// result), 1 for no, and anything else for "can't tell"
    #[arg(long, value_name = "COMMAND", help_heading = "Unknown outcomes")]
    pub probe: Option<OsString>,
    /// Ask this long after the attempt's end, for targets that read behind their writes [default: at once]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Unknown outcomes")]
    pub probe_delay: Option<Duration>,
    /// How long the probe may take; then the outcome stays unknown [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Unknown outcomes")]
    pub probe_timeout: Option<Duration>,
    /// The target dedupes on the key for this long: until then an unknown outcome may be sent again
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Unknown outcomes")]
    pub resend_within: Option<Duration>,
    /// The command says `idem mark sending` before it sends: without it nothing has landed
    #[arg(long, help_heading = "Unknown outcomes")]
    pub marks: bool,
    /// Let the result expire this long after its end: the next arrival then runs the command [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Waiting")]
    pub ttl: Option<Duration>,

    /// How long the command may run, such as 30s: then SIGTERM to all that it started, and exit 124
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Command")]
    pub timeout: Option<Duration>,
    /// How long after SIGTERM comes SIGKILL [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Command")]
    pub kill_after: Option<Duration>,
    /// The command's standard input
    #[arg(long, value_name = "FROM", value_enum, default_value_t = Stdin::Inherit, help_heading = "Command")]
    pub stdin: Stdin,
    /// Replace {idem.key}, {idem.uuid}, {idem.short}, {idem.id} and {idem.attempt} in the command's arguments
    #[arg(long, help_heading = "Command")]
    pub subst: bool,

    /// How long to wait for a running owner, such as 90s, 5m or 2h [default: until it ends]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "no_wait", help_heading = "Waiting")]
    pub wait: Option<Duration>,
    /// Don't wait for a running owner: exit 120 at once
    #[arg(long, help_heading = "Waiting")]
    pub no_wait: bool,
    /// Answer for this key whatever its command line; for commands that carry a temporary file's name, say
    #[arg(long, help_heading = "Waiting")]
    pub allow_command_change: bool,

    /// How long to try again where the outcome can't be recorded; then it is kept on this host, and the next idem here
    /// records it [default: 30s]
    #[arg(
        long,
        env = "IDEM_RECORD_WAIT",
        hide_env_values = true,
        value_name = "DURATION",
        value_parser = duration,
        help_heading = "Store"
    )]
    pub record_wait: Option<Duration>,
    /// How often the owner shows itself to a store that many hosts share; unseen for three times as long it is lost, and
    /// its claim is held [default: 5s]
    #[arg(
        long,
        env = "IDEM_SEEN_EVERY",
        hide_env_values = true,
        value_name = "DURATION",
        value_parser = duration,
        help_heading = "Store"
    )]
    pub seen_every: Option<Duration>,

    /// How much output is recorded, both streams together; more passes through unrecorded [default: 64MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    pub max_output: Option<Size>,
    /// Record no output: a replay then gives the exit status alone
    #[arg(long, conflicts_with = "max_output", help_heading = "Output")]
    pub no_record_output: bool,
    /// Hide a member of the params in the record, such as /card/number (may be given again)
    #[arg(long, value_name = "POINTER", help_heading = "Output")]
    pub redact: Vec<Pointer>,
    /// Print one line of JSON instead of the command's output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write the same JSON to a file; standard output stays the command's
    #[arg(long, value_name = "PATH", help_heading = "Output")]
    pub status_file: Option<PathBuf>,
    /// No notes on standard error, replay marks included; errors are still said
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Reads a duration such as `90s`, `5m`, `24h` or `7d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write durations as 90s, 5m, 24h or 7d"))
}
