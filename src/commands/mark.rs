//! `idem mark`: a command says what is known of its write, while it runs (design §8).

use std::path::PathBuf;

use super::environment::TOKEN;
use crate::cli::{Global, MarkArgs, MarkWord};
use crate::domain::claim::{ClaimId, Mark};
use crate::domain::store::{Marked, Store};
use crate::exit::{self, Failure, Kind};
use crate::settings;
use crate::store::sqlite::SqliteStore;

/// Records a mark. When it returns 0, the mark is on disk.
pub(super) fn mark(global: &Global, args: &MarkArgs) -> anyhow::Result<u8> {
    let mark = match args.mark {
        MarkWord::Sending => Mark::Sending,
        MarkWord::Landed => Mark::Landed,
        MarkWord::NotLanded => Mark::NotLanded,
    };
    let (id, token) = enclosing()?;
    // The store that the command was told of, whatever --store says: a claim's number means nothing in another one.
    let told = Global { store: std::env::var_os("IDEM_STORE").map(PathBuf::from), ..global.clone() };
    let store = SqliteStore::open_existing(&settings::store(&told)?)?;
    let Some(mut store) = store else {
        return Err(refused(mark, &format!("the store of claim {id} is gone")));
    };
    match store.mark(id, &token, mark, &settings::actor())? {
        Marked::Recorded => Ok(exit::DONE),
        Marked::NotThisAttempt => Err(refused(mark, &format!("this is not the command of claim {id}"))),
        Marked::Over(state) => Err(refused(mark, &format!("the attempt is over: claim {id} is {state} by now"))),
        Marked::HasLanded => Err(refused(mark, &format!("claim {id} is marked landed, and nothing undoes that"))),
    }
}

/// Reads from the environment which attempt this is.
fn enclosing() -> anyhow::Result<(ClaimId, String)> {
    let outside = |problem: &str| {
        let hint = "call it from the command of an `idem run`, with the environment that the command was given";
        Failure::new(Kind::Usage, format!("`idem mark` works inside a command of idem only: {problem}")).hint(hint)
    };
    let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let id = read("IDEM_CLAIM").ok_or_else(|| outside("IDEM_CLAIM is not set"))?;
    let id = id.parse().ok().filter(|&id| id > 0).ok_or_else(|| outside("IDEM_CLAIM is no claim's number"))?;
    let token = read(TOKEN).ok_or_else(|| outside("IDEM_TOKEN is not set"))?;
    if token.len() != 16 || !token.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
        return Err(outside("IDEM_TOKEN is no attempt's").into());
    }
    if read("IDEM_STORE").is_none() {
        return Err(outside("IDEM_STORE is not set").into());
    }
    Ok((id, token))
}

/// A refusal tells a careful command what not to do.
fn refused(mark: Mark, why: &str) -> anyhow::Error {
    let hint = match mark {
        Mark::Sending => "do not send: nothing would know of it",
        Mark::Landed | Mark::NotLanded => "nothing was recorded",
    };
    Failure::new(Kind::Refused, format!("{mark} could not be marked: {why}")).hint(hint).into()
}
