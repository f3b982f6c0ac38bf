//! The command line as clap sees it: definitions only, and the way to a parsed call that costs least.
//!
//! These definitions are the one source of `--help`, the man pages and the completions.

mod care;
mod hands;
mod quick;
mod run;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory, Parser, Subcommand, ValueEnum};

pub use care::{DoctorArgs, Integrity, PruneArgs, StatsArgs};
pub use hands::{
    ClearArgs, EmitArgs, ListArgs, MarkArgs, MarkWord, ReconcileArgs, ResolveArgs, ShowArgs, Verdict, Which,
};
pub use run::{Identity, KeyArgs, RunArgs, Stdin};

/// Runs a command at most once per call: claims before acting, replays on repeat, holds what nobody knows.
#[derive(Parser, Debug)]
#[command(name = "idem", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// What applies to every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every command.
#[derive(Args, Debug, Clone)]
pub struct Global {
    /// The store of claims: a file on a local file system [default: $XDG_STATE_HOME/idem/idem.db]
    #[arg(
        long,
        global = true,
        env = "IDEM_STORE",
        hide_env_values = true,
        value_name = "PATH",
        help_heading = "Global"
    )]
    pub store: Option<PathBuf>,
    /// When to colour idem's own output
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", help_heading = "Global")]
    pub color: Color,
}

/// When to colour.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// idem's commands.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Run a command at most once per call; replay its result to every later arrival
    #[command(after_help = run::AFTER_HELP)]
    Run(Box<RunArgs>),
    /// Print the key of a call
    Key(KeyArgs),
    /// List claims, newest first
    List(ListArgs),
    /// Show everything about one claim
    Show(ShowArgs),
    /// Free a key: the next arrival runs the command
    Clear(ClearArgs),
    /// Say what became of a held claim
    Resolve(ResolveArgs),
    /// Ask the targets of held claims, by their probes, what became of them
    Reconcile(ReconcileArgs),
    /// Forget old claims and history: completed ones run again when they come
    Prune(PruneArgs),
    /// Count runs, and the arrivals that were kept from running
    Stats(StatsArgs),
    /// See whether the store is well, and say what to do where it isn't
    Doctor(DoctorArgs),
    /// Inside a command: say what is known of its write
    Mark(MarkArgs),
    /// Inside a command: name something that it made, for the group that a replay gives back
    Emit(EmitArgs),
}

/// A parsed command line.
#[derive(Debug)]
pub struct Parsed {
    /// What applies to every command.
    pub global: Global,
    /// What to do.
    pub verb: Verb,
}

/// Returns the whole command line's definition.
pub fn command() -> Command {
    Cli::command()
}

/// Parses a command line: `run` and `key` in their plain spelling by the short way, all else by clap.
pub fn parse(args: &[OsString]) -> Result<Parsed, clap::Error> {
    if let Some(parsed) = quick::parse(args) {
        return Ok(parsed);
    }
    let cli = Cli::try_parse_from(args)?;
    Ok(Parsed { global: cli.global, verb: cli.verb })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_sound() {
        super::command().debug_assert();
    }
}
