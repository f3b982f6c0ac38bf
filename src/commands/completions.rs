//! `idem completions`, and the values that they ask for.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::cli::{CompleteValuesArgs, CompletionsArgs, Global, Shell, Values};
use crate::domain::claim::{Claim, State};
use crate::domain::store::Filter;
use crate::view::escape::escape;
use crate::{exit, settings, ui};

/// How many of the newest claims are looked at: whoever presses a key doesn't wait for a million.
const NEWEST: u64 = 1000;

/// Prints the completions of a shell: the committed files, which are generated from the command line's definition.
pub(super) fn completions(args: &CompletionsArgs) -> anyhow::Result<u8> {
    ui::print(match args.shell {
        Shell::Bash => include_str!("../../completions/idem.bash"),
        Shell::Zsh => include_str!("../../completions/_idem"),
        Shell::Fish => include_str!("../../completions/idem.fish"),
        Shell::PowerShell => include_str!("../../completions/_idem.ps1"),
        Shell::Elvish => include_str!("../../completions/idem.elv"),
    })?;
    Ok(exit::DONE)
}

/// Prints values, one a line, each with a tab and what it is. A shell has no place for errors here: there are none.
pub(super) fn values(global: &Global, args: &CompleteValuesArgs) -> anyhow::Result<u8> {
    let store = args.line.iter().zip(args.line.iter().skip(1).map(Some).chain([None]));
    let store = store.filter_map(|(word, next)| store_in(word, next)).last();
    let global = Global { store: store.or_else(|| global.store.clone()), ..global.clone() };
    let found = settings::store(&global).ok().and_then(|location| location.open_existing().ok().flatten());
    let claims = found.and_then(|mut store| store.claims(&filter(args.values)).ok()).unwrap_or_default();
    let mut lines: Vec<(String, String)> = claims.iter().map(|claim| line(args.values, claim)).collect();
    if args.values == Values::Resolve {
        lines.push(("landed".to_owned(), "they reached their targets: later arrivals get the result".to_owned()));
        lines.push(("not-landed".to_owned(), "they did not: the next arrivals run the command".to_owned()));
    }
    let mut seen = HashSet::new();
    let mut text = String::new();
    for (value, about) in &lines {
        // What would have to be escaped to be shown can't be inserted as it is either.
        if escape(value) == value.as_str() && seen.insert(value) {
            text += &format!("{value}\t{}\n", escape(about));
        }
    }
    ui::print(&text)?;
    Ok(exit::DONE)
}

/// Returns the store that a command line names at this word.
fn store_in(word: &OsStr, next: Option<&OsString>) -> Option<PathBuf> {
    let path = match word.to_str()?.strip_prefix("--store")? {
        "" => next?.to_str()?,
        rest => rest.strip_prefix('=')?,
    };
    // bash gives the words as they were typed, the others what they mean.
    Some(PathBuf::from(if Path::new(path).exists() { path.to_owned() } else { meant(path) }))
}

/// What a word means to a shell, as far as paths are commonly typed: quotes, backslashes and a tilde at the beginning.
fn meant(typed: &str) -> String {
    let mut text = String::new();
    let mut quote = None;
    let mut chars = typed.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('\\', None | Some('"')) => text.extend(chars.next()),
            ('\'' | '"', None) => quote = Some(char),
            (end, Some(begun)) if end == begun => quote = None,
            ('~', None) if text.is_empty() => text += &std::env::var("HOME").unwrap_or_default(),
            _ => text.push(char),
        }
    }
    text
}

fn filter(values: Values) -> Filter {
    let states: &[State] = match values {
        Values::Show | Values::Clear => &[State::Held, State::Running, State::Completed],
        Values::Resolve | Values::Reconcile => &[State::Held, State::Running],
        Values::Who | Values::Conv | Values::Tool => &[],
    };
    Filter { states: states.to_vec(), limit: Some(NEWEST), ..Filter::default() }
}

fn line(values: Values, claim: &Claim) -> (String, String) {
    match values {
        Values::Who => (claim.who.clone(), "who".to_owned()),
        Values::Conv => (claim.conv.clone(), "conversation".to_owned()),
        Values::Tool => (claim.tool.clone(), "tool".to_owned()),
        _ => {
            let about = format!("{}: {} / {} / {}", claim.state, claim.who, claim.conv, claim.tool);
            (claim.id.to_string(), about)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_a_shell_reads_them() {
        for (typed, means) in [
            ("/a/b", "/a/b"),
            ("/a\\ b", "/a b"),
            ("'/a \\b'", "/a \\b"),
            ("\"/a 'b'\"", "/a 'b'"),
            ("/a/'b c'\"d\"", "/a/b cd"),
            ("a~", "a~"),
            ("'/open", "/open"),
        ] {
            assert_eq!(meant(typed), means);
        }
    }
}
