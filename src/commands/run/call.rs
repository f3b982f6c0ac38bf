//! The call that the command line describes, checked whole, with its key (design §3).

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;

use crate::cli::Identity;
use crate::domain::canonical::Json;
use crate::domain::key::{self, Bound, Key};
use crate::exit::{Failure, Kind};

/// A call: who × conv × tool × params, and what follows from them.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Call {
    /// Who calls.
    pub(in crate::commands) who: String,
    /// The conversation.
    pub(in crate::commands) conv: String,
    /// The tool.
    pub(in crate::commands) tool: String,
    /// The params as given, on one line.
    pub(in crate::commands) params: String,
    /// The bound inputs, canonical; none where nothing is bound.
    pub(in crate::commands) bound: Option<String>,
    /// The text that the key is the hash of.
    pub(in crate::commands) canonical: String,
    /// The key.
    pub(in crate::commands) key: Key,
    /// Whether idem's standard input was read for the params, so that the command gets none.
    pub(in crate::commands) took_stdin: bool,
}

impl Call {
    /// Reads and checks everything that identifies the call. Reads standard input or a file where the params say so.
    pub(in crate::commands) fn read(identity: &Identity) -> anyhow::Result<Call> {
        let who = name("who", identity.who.as_ref(), Some("IDEM_WHO"))?;
        let conv = name("conv", identity.conv.as_ref(), Some("IDEM_CONV"))?;
        let tool = name("tool", identity.tool.as_ref(), None)?;
        let raw = raw_params(&identity.params)?;
        let json = Json::parse(&raw)?;
        let mut params = String::new();
        json.write_compact(&mut params);
        let bound = Bound { occurrence: identity.occurrence, ..Bound::default() };
        let call = key::Call { who: &who, conv: &conv, tool: &tool, params: &json, bound: &bound };
        let canonical = call.canonical();
        let key = Key::of(&canonical);
        let took_stdin = identity.params == "-";
        let bound = bound.text();
        Ok(Call { params, bound, canonical, key, took_stdin, who, conv, tool })
    }
}

/// Checks one of the three names: there, not empty, UTF-8; used as it is.
fn name(what: &str, given: Option<&OsString>, variable: Option<&str>) -> anyhow::Result<String> {
    let ways = variable.map_or(format!("--{what}"), |variable| format!("--{what} or {variable}"));
    let refuse = |problem: String| Failure::new(Kind::Usage, problem).hint(format!("name it with {ways}"));
    let Some(given) = given else {
        return Err(refuse(format!("the call has no {what}")).into());
    };
    match given.to_str() {
        None => Err(refuse(format!("{what} is not UTF-8")).into()),
        Some("") => Err(refuse(format!("{what} is empty")).into()),
        Some(given) => Ok(given.to_owned()),
    }
}

/// Returns the bytes of the params: those given, a file's (`@FILE`) or standard input's (`-`).
fn raw_params(given: &OsStr) -> anyhow::Result<Vec<u8>> {
    let bytes = given.as_bytes();
    if bytes == b"-" {
        let mut raw = Vec::new();
        std::io::stdin().lock().read_to_end(&mut raw).context("the params can't be read from standard input")?;
        return Ok(raw);
    }
    match bytes.strip_prefix(b"@") {
        Some(path) => {
            let path = Path::new(OsStr::from_bytes(path));
            std::fs::read(path).with_context(|| format!("the params' file {} can't be read", path.display()))
        }
        None => Ok(bytes.to_vec()),
    }
}
