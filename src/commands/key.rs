//! `idem key`: the key of a call, without claiming anything.

use crate::cli::{KeyArgs, Stdin};
use crate::commands::run::call;
use crate::exit;
use crate::ui;

/// Prints the key; with `--explain` the canonical text that is hashed, on a line before it.
pub(super) fn key(args: &KeyArgs) -> anyhow::Result<u8> {
    let call = call::Call::read(&args.identity, &[], Stdin::Inherit)?;
    let explained = if args.explain { format!("{}\n", call.canonical) } else { String::new() };
    ui::print(&format!("{explained}{}\n", call.key))?;
    Ok(exit::DONE)
}
