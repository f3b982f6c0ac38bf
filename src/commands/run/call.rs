//! The call that the command line describes, checked whole, with its key (design §3).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;

use super::spool;
use crate::cli::{Identity, Stdin};
use crate::commands::policed::Policed;
use crate::domain::canonical::Json;
use crate::domain::key::{self, Bound, Key};
use crate::domain::pointer::Pointer;
use crate::exit::{Failure, Kind};

/// How long params may be, in bytes.
const MAX_PARAMS: u64 = 16 << 20;

/// A call: who × conv × tool × params, and what follows from them.
#[derive(Debug)]
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
    /// Standard input as it was bound, at its beginning.
    pub(in crate::commands) stdin: Option<File>,
    /// Whether idem's standard input was read for the params, so that the command gets none.
    pub(in crate::commands) took_stdin: bool,
}

impl Call {
    /// Reads and checks everything that identifies the call. Reads standard input and files where the arguments say so.
    pub(in crate::commands) fn read(
        identity: &Identity,
        redact: &[Pointer],
        stdin: Stdin,
        policed: Option<&Policed>,
    ) -> anyhow::Result<Call> {
        let [who, conv, tool] = names(identity)?;
        let took_stdin = identity.params == "-";
        check_stdin(identity, took_stdin, stdin)?;
        let raw = raw_json("params", &identity.params)?;
        // Parsed and checked in full before anything is left out of it.
        let mut json = Json::parse(&raw)?;
        policed.map_or(Ok(()), |policed| policed.check_params(&json))?;
        let params = recorded(&json, redact)?;
        for pointer in &identity.ignore_param {
            pointer.remove(&mut json).map_err(|error| Failure::new(Kind::Usage, format!("--ignore-param {error}")))?;
        }
        let (bound, stdin) = bind(identity)?;
        let call = key::Call { who: &who, conv: &conv, tool: &tool, params: &json, bound: &bound };
        let canonical = call.canonical();
        let key = Key::of(&canonical);
        // Variables often hold secrets: the key has their values, the record only their names.
        let env = bound.env.keys().map(|name| (name.clone(), Some("[not recorded]".to_owned()))).collect();
        let bound = Bound { env, ..bound }.text();
        Ok(Call { params, bound, canonical, key, took_stdin, stdin, who, conv, tool })
    }
}

/// Fails where standard input is wanted for two things at once.
fn check_stdin(identity: &Identity, took_stdin: bool, stdin: Stdin) -> anyhow::Result<()> {
    let other = if took_stdin { "--params -" } else { "--stdin null" };
    if identity.bind_stdin && (took_stdin || stdin == Stdin::Null) {
        let message = format!("--bind-stdin gives standard input to the command, and {other} leaves it none");
        return Err(Failure::new(Kind::Usage, message).hint("use one of them").into());
    }
    Ok(())
}

/// Returns the params as they are recorded: as given, on one line, redacted members replaced.
fn recorded(json: &Json<'_>, redact: &[Pointer]) -> anyhow::Result<String> {
    let mut params = String::new();
    if redact.is_empty() {
        json.write_compact(&mut params);
        return Ok(params);
    }
    let mut json = json.clone();
    for pointer in redact {
        let replaced = pointer.replace(&mut json, "[redacted]");
        replaced.map_err(|error| Failure::new(Kind::Usage, format!("--redact {error}")))?;
    }
    json.write_compact(&mut params);
    Ok(params)
}

/// Reads the bound inputs, each once. Returns them, and the spooled standard input for the command.
fn bind(identity: &Identity) -> anyhow::Result<(Bound, Option<File>)> {
    let mut bound = Bound { occurrence: identity.occurrence, ..Bound::default() };
    for path in &identity.bind_file {
        let name = utf8(path, "--bind-file")?;
        if bound.files.contains_key(&name) {
            continue;
        }
        let digest = File::open(path).and_then(|mut file| spool::digest(&mut file));
        let digest = digest.with_context(|| format!("the bound file {name} can't be read"))?;
        bound.files.insert(name, digest);
    }
    for name in &identity.bind_env {
        let name = utf8(name, "--bind-env")?;
        if name.is_empty() || name.contains('=') {
            return Err(Failure::new(Kind::Usage, format!("--bind-env '{name}' is no variable's name")).into());
        }
        let value = std::env::var_os(&name).map(|value| utf8(&value, &format!("the variable {name}"))).transpose()?;
        bound.env.insert(name, value);
    }
    if identity.bind_cwd {
        let cwd = std::env::current_dir().context("the current folder can't be told, and --bind-cwd binds it")?;
        bound.cwd = Some(utf8(cwd.as_os_str(), "the current folder's path")?);
    }
    let mut spooled = None;
    if identity.bind_stdin {
        let (file, digest) = spool::spool(std::io::stdin().lock())?;
        bound.stdin = Some(digest);
        spooled = Some(file);
    }
    Ok((bound, spooled))
}

/// Bound names and values stand in the canonical text, which is UTF-8.
fn utf8(text: &OsStr, what: &str) -> anyhow::Result<String> {
    let text = text.to_str().map(str::to_owned);
    Ok(text.ok_or_else(|| Failure::new(Kind::Usage, format!("{what} is not UTF-8 and can't be part of the key")))?)
}

/// Returns who, conv and tool: each there, not empty, UTF-8; used as it is. Those that are missing are told together.
fn names(identity: &Identity) -> anyhow::Result<[String; 3]> {
    let given = [
        ("who", &identity.who, "--who or IDEM_WHO"),
        ("conv", &identity.conv, "--conv or IDEM_CONV"),
        ("tool", &identity.tool, "--tool"),
    ];
    let refuse = |problem: String, ways: &str| Failure::new(Kind::Usage, problem).hint(format!("name it with {ways}"));
    let missing: Vec<_> = given.iter().filter(|(_, name, _)| name.is_none()).collect();
    match missing.as_slice() {
        [] => {}
        [(what, _, ways)] => return Err(refuse(format!("the call has no {what}"), ways).into()),
        [others @ .., (what, _, way)] => {
            let whats: Vec<_> = others.iter().map(|(what, ..)| *what).collect();
            let ways: Vec<_> = others.iter().map(|(_, _, ways)| *ways).collect();
            let failure = Failure::new(Kind::Usage, format!("the call has no {} and no {what}", whats.join(", no ")));
            return Err(failure.hint(format!("name them with {}, and {way}", ways.join(", "))).into());
        }
    }
    let mut names = [const { String::new() }; 3];
    for (name, (what, given, ways)) in names.iter_mut().zip(given) {
        *name = match given.as_deref().unwrap_or_default().to_str() {
            None => return Err(refuse(format!("{what} is not UTF-8"), ways).into()),
            Some("") => return Err(refuse(format!("{what} is empty"), ways).into()),
            Some(given) => given.to_owned(),
        };
    }
    Ok(names)
}

/// Returns the bytes of a JSON text: those given, a file's (`@FILE`) or standard input's (`-`).
pub(in crate::commands) fn raw_json(what: &str, given: &OsStr) -> anyhow::Result<Vec<u8>> {
    let bytes = given.as_bytes();
    if bytes == b"-" {
        let mut raw = Vec::new();
        let read = std::io::stdin().lock().take(MAX_PARAMS + 1).read_to_end(&mut raw);
        read.with_context(|| format!("the {what} can't be read from standard input"))?;
        return bounded(what, raw);
    }
    match bytes.strip_prefix(b"@") {
        Some(path) => {
            let path = Path::new(OsStr::from_bytes(path));
            let mut raw = Vec::new();
            let read = File::open(path).and_then(|file| file.take(MAX_PARAMS + 1).read_to_end(&mut raw));
            read.map_err(|error| {
                let message = format!("the file {} for the {what} can't be read: {error}", path.display());
                Failure::new(Kind::Usage, message)
            })?;
            bounded(what, raw)
        }
        None => Ok(bytes.to_vec()),
    }
}

/// Refuses what no params are: an endless device, a film.
fn bounded(what: &str, raw: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    if raw.len() as u64 > MAX_PARAMS {
        return Err(Failure::new(Kind::Usage, format!("the {what} can't be over {} MiB", MAX_PARAMS >> 20))
            .hint("give large inputs by --bind-file or --bind-stdin")
            .into());
    }
    Ok(raw)
}
