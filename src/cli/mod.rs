//! The command line as clap sees it: definitions only, and the way to a parsed call that costs least.
//!
//! These definitions are the one source of `--help`, the man pages and the completions.

mod hands;
mod run;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use hands::{ClearArgs, ListArgs, ResolveArgs, ShowArgs, Verdict, Which};
pub use run::{Identity, KeyArgs, RunArgs};

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

/// Parses a command line.
///
/// Building all of clap's definition costs more than all the rest of a replay. So the command that nearly every call
/// is, `idem run …`, is parsed with its own part alone; whatever that can't parse (help, an error, options before the
/// command) is given to the whole definition, which says it properly.
pub fn parse(args: &[OsString]) -> Result<Parsed, clap::Error> {
    if let Some(parsed) = parse_alone(args) {
        return Ok(parsed);
    }
    let cli = Cli::try_parse_from(args)?;
    Ok(Parsed { global: cli.global, verb: cli.verb })
}

fn parse_alone(args: &[OsString]) -> Option<Parsed> {
    let (verb, rest) = args.split_first()?.1.split_first()?;
    let parse = |define: fn(Command) -> Command| -> Option<ArgMatches> {
        let command = Global::augment_args(define(Command::new("idem").no_binary_name(true).disable_help_flag(true)));
        command.try_get_matches_from(rest).ok()
    };
    let (matches, verb) = match verb.to_str()? {
        "run" => {
            let matches = parse(RunArgs::augment_args)?;
            let verb = Verb::Run(Box::new(RunArgs::from_arg_matches(&matches).ok()?));
            (matches, verb)
        }
        "key" => {
            let matches = parse(KeyArgs::augment_args)?;
            let verb = Verb::Key(KeyArgs::from_arg_matches(&matches).ok()?);
            (matches, verb)
        }
        _ => return None,
    };
    Some(Parsed { global: Global::from_arg_matches(&matches).ok()?, verb })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_short_way_and_the_whole_definition_agree() {
        for line in [
            "idem run --who a --conv b --tool c -- true",
            "idem run --who a --conv b --tool c --params {} --external --not-landed-exit 6,7 --wait 5s --json -- curl -x --store y",
            "idem run --tool c --store /s --color never --no-wait --quiet -- sh -c x",
            "idem key --who a --conv b --tool c --explain --store /s",
        ] {
            let short = parse_alone(&words(line)).expect(line);
            let whole = Cli::try_parse_from(words(line)).expect(line);
            assert_eq!(format!("{:?}{:?}", short.verb, short.global), format!("{:?}{:?}", whole.verb, whole.global));
        }
    }

    #[test]
    fn what_the_short_way_cannot_parse_is_left_to_the_whole() {
        for line in
            ["idem", "idem run", "idem run --help", "idem run --nonsense -- x", "idem --store /s run -- x", "idem list"]
        {
            assert!(parse_alone(&words(line)).is_none(), "{line}");
        }
    }
}
