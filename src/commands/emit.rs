//! `idem emit`: a command names what it made, one member at a time (design §8).

use std::ffi::OsStr;

use super::environment::inside;
use super::run::call::raw_json;
use crate::cli::{EmitArgs, Global};
use crate::domain::canonical::Json;
use crate::domain::group::Emitted;
use crate::exit::{self, Failure, Kind};
use crate::view::escape::escape;
use crate::view::words::shorten;

/// Adds a member to the group of the call around it. When it returns 0, the member is on disk.
pub(super) fn emit(global: &Global, args: &EmitArgs) -> anyhow::Result<u8> {
    if args.name.is_empty() {
        return Err(Failure::new(Kind::Usage, "a member needs a name; nothing was added").into());
    }
    let data = args.value.as_deref().map(value).transpose()?;
    let (from, mut store) = inside("emit", global)?;
    let (name, id) = (escape(&args.name), from.id);
    let (why, hint) = match store.emit(&from, &args.name, data.as_deref())? {
        Emitted::Recorded => return Ok(exit::DONE),
        Emitted::NotThisAttempt => (format!("this is not the command of claim {id}"), "call it from that command"),
        Emitted::Over(state) => {
            (format!("the attempt is over: claim {id} is {state} by now"), "a group is closed with its attempt")
        }
        Emitted::Other(old) => {
            let text = |data: Option<&str>| data.map_or("no value".to_owned(), |data| shorten(&escape(data), 200));
            let why = format!(
                "it is there already with {}, and {} is another value",
                text(old.as_deref()),
                text(data.as_deref())
            );
            (
                why,
                "give it another name, or emit what was emitted before: a name is there once in a group, over all attempts",
            )
        }
    };
    Err(Failure::new(Kind::Refused, format!("member {name} was not added: {why}")).hint(hint).into())
}

/// Reads a member's value, checked as params are, on one line.
fn value(given: &OsStr) -> anyhow::Result<String> {
    let raw = raw_json("value", given)?;
    let mut text = String::new();
    let json = Json::parse(&raw).map_err(|error| {
        let message = format!("the value is no JSON that could be kept {}; nothing was added", error.place());
        Failure::new(Kind::Params(error.class.as_str()), message)
            .hint("give one JSON text (RFC 8259) with a single meaning")
    })?;
    json.write_compact(&mut text);
    Ok(text)
}
