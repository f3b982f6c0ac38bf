//! The commands that look after a store: prune, stats, doctor.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::hands::Whose;
use super::run::duration;

/// Arguments of `idem prune`.
#[derive(Args, Debug)]
pub struct PruneArgs {
    /// Only claims that ended longer ago than this, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Duration,
    /// Whose.
    #[command(flatten)]
    pub whose: Whose,
    /// Say what would go, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Don't ask
    #[arg(long)]
    pub yes: bool,
    /// One line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `idem stats`.
#[derive(Args, Debug)]
pub struct StatsArgs {
    /// Only what happened since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Whose.
    #[command(flatten)]
    pub whose: Whose,
    /// One line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `idem doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// How much of the store's file is read to see whether it is whole [default: all of it up to 64 MiB, else quick]
    #[arg(long, value_enum, value_name = "HOW")]
    pub integrity: Option<Integrity>,
    /// One line of JSON
    #[arg(long)]
    pub json: bool,
}

/// How thoroughly the store's file is checked.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// Every page and every index entry against its row.
    Full,
    /// Every page, but not the indexes against their rows.
    Quick,
    /// Not at all.
    None,
}
