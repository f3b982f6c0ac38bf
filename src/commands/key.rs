//! `idem key`: the key of a call, without claiming anything.

use std::borrow::Cow;

use crate::cli::{Global, KeyArgs, Stdin};
use crate::commands::policed::Policed;
use crate::commands::run::call;
use crate::exit;
use crate::ui;

/// Prints the key; with `--explain` the canonical text that is hashed, on a line before it. The policy has a word in it, as
/// in a run: what it leaves out of the params isn't part of the key.
pub(super) fn key(global: &Global, args: &KeyArgs) -> anyhow::Result<u8> {
    let policed = Policed::of(global, args.identity.tool.as_deref())?;
    let identity = match &policed {
        Some(policed) => Cow::Owned(policed.identity(&args.identity)?),
        None => Cow::Borrowed(&args.identity),
    };
    let call = call::Call::read(&identity, &[], Stdin::Inherit, policed.as_ref())?;
    let explained = if args.explain { format!("{}\n", call.canonical) } else { String::new() };
    ui::print(&format!("{explained}{}\n", call.key))?;
    Ok(exit::DONE)
}
