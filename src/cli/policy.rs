//! `idem policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `idem policy`.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    /// What to look at.
    #[command(subcommand)]
    pub verb: PolicyVerb,
}

/// What to look at in the policy.
#[derive(Subcommand, Debug)]
pub enum PolicyVerb {
    /// Say all that is wrong with a policy, each with its line; exit 1 where something is
    Check(PolicyCheckArgs),
    /// Say what applies to a tool, and from which line
    Show(PolicyShowArgs),
}

/// Arguments of `idem policy check`.
#[derive(Args, Debug)]
pub struct PolicyCheckArgs {
    /// The file [default: the policy that a run would use]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

/// Arguments of `idem policy show`.
#[derive(Args, Debug)]
pub struct PolicyShowArgs {
    /// The tool's name
    #[arg(value_name = "TOOL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub tool: String,
    /// One line of JSON
    #[arg(long)]
    pub json: bool,
}
