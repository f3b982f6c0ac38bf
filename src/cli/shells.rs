//! `idem completions`, and what the completions call.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

/// Arguments of `idem completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// A shell that there are completions for.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// Z shell.
    Zsh,
    /// fish.
    Fish,
    /// PowerShell.
    #[value(name = "powershell")]
    PowerShell,
    /// Elvish.
    Elvish,
}

/// Arguments of `idem complete-values`: not for people, and no part of what idem promises.
#[derive(Args, Debug)]
pub struct CompleteValuesArgs {
    /// Which values
    #[arg(value_enum, value_name = "VALUES")]
    pub values: Values,
    /// The command line so far: it may name a store
    #[arg(last = true, value_name = "WORD")]
    pub line: Vec<OsString>,
}

/// What is to be completed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Claims that `show` can show.
    Show,
    /// Claims that `clear` can free.
    Clear,
    /// Claims that `resolve` can resolve, and what it can be told.
    Resolve,
    /// Claims that `reconcile` can ask about.
    Reconcile,
    /// Whos.
    Who,
    /// Conversations.
    Conv,
    /// Tools.
    Tool,
}
