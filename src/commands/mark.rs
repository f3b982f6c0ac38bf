//! `idem mark`: a command says what is known of its write, while it runs (design §8).

use super::environment::inside;
use crate::cli::{Global, MarkArgs, MarkWord};
use crate::domain::claim::Mark;
use crate::domain::store::Marked;
use crate::exit::{self, Failure, Kind};
use crate::settings;

/// Records a mark. When it returns 0, the mark is on disk.
pub(super) fn mark(global: &Global, args: &MarkArgs) -> anyhow::Result<u8> {
    let mark = match args.mark {
        MarkWord::Sending => Mark::Sending,
        MarkWord::Landed => Mark::Landed,
        MarkWord::NotLanded => Mark::NotLanded,
    };
    let (from, mut store) = inside("mark", global)?;
    let id = from.id;
    let why = match store.mark(&from, mark, &settings::actor())? {
        Marked::Recorded => return Ok(exit::DONE),
        Marked::NotThisAttempt => format!("this is not the command of claim {id}"),
        Marked::Over(state) => format!("the attempt is over: claim {id} is {state} by now"),
        Marked::HasLanded => format!("claim {id} is marked landed, and nothing undoes that"),
    };
    // A refusal tells a careful command what not to do.
    let hint = match mark {
        Mark::Sending => "do not send: nothing would know of it",
        Mark::Landed | Mark::NotLanded => "nothing was recorded",
    };
    Err(Failure::new(Kind::Refused, format!("{mark} could not be marked: {why}")).hint(hint).into())
}
