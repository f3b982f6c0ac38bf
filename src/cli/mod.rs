//! The command line as clap sees it: definitions only, and the way to a parsed call that costs least.
//!
//! These definitions are the one source of `--help`, the man pages and the completions.

mod care;
mod hands;
pub mod manual;
mod policy;
mod quick;
mod run;
mod shells;

use std::ffi::OsString;
use std::path::PathBuf;
use std::slice;

use clap::{Args, Command, CommandFactory, Parser, Subcommand, ValueEnum};

pub use care::{DoctorArgs, Integrity, PruneArgs, StatsArgs};
pub use hands::{
    ClearArgs, EmitArgs, ListArgs, MarkArgs, MarkWord, ReconcileArgs, ResolveArgs, ShowArgs, Told, Verdict, Which,
    Whose,
};
pub use policy::{PolicyArgs, PolicyCheckArgs, PolicyShowArgs, PolicyVerb};
pub use run::{Identity, KeyArgs, RunArgs, Stdin};
pub use shells::{CompleteValuesArgs, CompletionsArgs, Shell, Values};

/// Runs a command at most once per call: claims before acting, replays on repeat, holds what nobody knows.
#[derive(Parser, Debug)]
#[command(
    name = "idem",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = manual::after_help("idem")
)]
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
    /// The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines
    /// [default: $XDG_STATE_HOME/idem/idem.db]
    #[arg(
        long,
        global = true,
        env = "IDEM_STORE",
        hide_env_values = true,
        value_name = "PATH|URL",
        help_heading = "Global"
    )]
    pub store: Option<PathBuf>,
    /// What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]
    #[arg(
        long,
        global = true,
        env = "IDEM_POLICY",
        hide_env_values = true,
        value_name = "PATH",
        help_heading = "Global"
    )]
    pub policy: Option<PathBuf>,
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
    #[command(after_help = manual::after_help("run"))]
    Run(Box<RunArgs>),
    /// Print the key of a call
    #[command(after_help = manual::after_help("key"))]
    Key(KeyArgs),
    /// List claims, newest first
    #[command(after_help = manual::after_help("list"))]
    List(ListArgs),
    /// Show everything about one claim
    #[command(after_help = manual::after_help("show"))]
    Show(ShowArgs),
    /// Free a key: the next arrival runs the command
    #[command(after_help = manual::after_help("clear"))]
    Clear(ClearArgs),
    /// Say what became of held claims
    #[command(
        after_help = manual::after_help("resolve"),
        override_usage = "idem resolve [OPTIONS] <ID>... <landed|not-landed>\n       \
                          idem resolve [OPTIONS] <landed|not-landed> [--who <W>] [--conv <C>] [--tool <T>]"
    )]
    Resolve(ResolveArgs),
    /// Ask the targets of held claims, by their probes, what became of them
    #[command(after_help = manual::after_help("reconcile"))]
    Reconcile(ReconcileArgs),
    /// Forget old claims and history: completed ones run again when they come
    #[command(after_help = manual::after_help("prune"))]
    Prune(PruneArgs),
    /// Count runs, and the arrivals that were kept from running
    #[command(after_help = manual::after_help("stats"))]
    Stats(StatsArgs),
    /// See whether the store is well, and say what to do where it isn't
    #[command(after_help = manual::after_help("doctor"))]
    Doctor(DoctorArgs),
    /// Inside a command: say what is known of its write
    #[command(after_help = manual::after_help("mark"))]
    Mark(MarkArgs),
    /// Inside a command: name something that it made, for the group that a replay gives back
    #[command(after_help = manual::after_help("emit"))]
    Emit(EmitArgs),
    /// Print the completions of a shell
    #[command(after_help = manual::after_help("completions"))]
    Completions(CompletionsArgs),
    /// What the completions ask for at each press of the key: values that the store has
    #[command(hide = true)]
    CompleteValues(CompleteValuesArgs),
    /// Look at the operator's policy: what is wrong with it, what applies to a tool
    #[command(after_help = manual::after_help("policy"))]
    Policy(PolicyArgs),
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
    let cli = Cli::try_parse_from(asked_for_help(args).as_deref().unwrap_or(args))?;
    Ok(Parsed { global: cli.global, verb: cli.verb })
}

/// `idem help run` as `idem run --help`. Not by clap, which would make a command of it, with a completion and a page for each other one.
fn asked_for_help(args: &[OsString]) -> Option<Vec<OsString>> {
    let [program, help, verbs @ ..] = args else { return None };
    let asked = help == "help" && verbs.iter().all(|verb| !verb.as_encoded_bytes().starts_with(b"-"));
    asked.then(|| [slice::from_ref(program), verbs, &["--help".into()]].concat())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_sound() {
        super::command().debug_assert();
    }
}
