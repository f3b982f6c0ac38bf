//! Flag > environment > default, and the paths that follow from them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::Global;
use crate::domain::claim::Owner;
use crate::domain::group::Enclosing;
use crate::domain::store::StoreError;
use crate::exit::{Failure, Kind};
use crate::policy::PolicyPlace;
use crate::store::Location;

/// What proves to a store that a process belongs to an attempt.
pub const TOKEN: &str = "IDEM_TOKEN";

/// Returns where the store is: `--store`, else `IDEM_STORE`, else the default.
pub fn store(global: &Global) -> anyhow::Result<Location> {
    let Some(given) = &global.store else {
        return default_store();
    };
    if given.as_os_str().is_empty() {
        return Err(Failure::new(Kind::Usage, "the store's path is empty")
            .hint("give --store or IDEM_STORE a file's path, or neither of them")
            .into());
    }
    let here = if given.is_absolute() {
        Path::new("/").to_owned()
    } else {
        std::env::current_dir().context("the current folder can't be told, and the store's path is relative to it")?
    };
    Ok(Location::parse(given, &here, state_folder())?)
}

/// Returns how it was decided where the store is.
pub fn store_decided_by(global: &Global) -> &'static str {
    let by_flag = std::env::args_os().skip(1).any(|arg| {
        let arg = arg.to_string_lossy();
        arg == "--store" || arg.starts_with("--store=")
    });
    match (&global.store, by_flag) {
        (None, _) => "default",
        (Some(_), true) => "--store",
        (Some(_), false) => "IDEM_STORE",
    }
}

/// `$XDG_STATE_HOME/idem/idem.db`, or below `~/.local/state`.
fn default_store() -> anyhow::Result<Location> {
    Ok(Location::default_in(state_folder().ok_or(StoreError::NoHome)?))
}

/// Returns the folder of idem's own state. `None`: there is no home.
fn state_folder() -> Option<PathBuf> {
    // Without HOME the account's folder would have to be looked up by name services: a claim must not depend on them.
    match (absolute("HOME"), absolute("XDG_STATE_HOME")) {
        (Some(_), _) => directories::ProjectDirs::from("", "", "idem")?.state_dir().map(Path::to_owned),
        (None, state) => Some(state?.join("idem")),
    }
}

/// Returns where the policy is: `--policy`, else `IDEM_POLICY`, else the default; `None` where there is no place for one.
pub fn policy(global: &Global) -> anyhow::Result<Option<PolicyPlace>> {
    match &global.policy {
        Some(given) => named_policy(given).map(Some),
        None => Ok(default_policy().map(|path| PolicyPlace { path, named: false })),
    }
}

/// Returns the place of a policy that somebody has named, which must be there.
pub fn named_policy(given: &Path) -> anyhow::Result<PolicyPlace> {
    if given.as_os_str().is_empty() {
        return Err(Failure::new(Kind::Usage, "the policy's path is empty")
            .hint("give --policy or IDEM_POLICY a file's path, or neither of them")
            .into());
    }
    let path = std::path::absolute(given)
        .context("the current folder can't be told, and the policy's path is relative to it")?;
    Ok(PolicyPlace { path, named: true })
}

/// `$XDG_CONFIG_HOME/idem/policy.toml`, or below `~/.config`.
fn default_policy() -> Option<PathBuf> {
    let config = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(config.join("idem/policy.toml"))
}

/// Returns a variable's value where it is an absolute path; others mean nothing, as the XDG specification has it.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the attempt whose command started this process, where it is one of this store (design §8, §9).
pub fn enclosing(location: &Location) -> Option<Enclosing> {
    let store = std::env::var_os("IDEM_STORE")?;
    if !location.is_told(Path::new(&store)) {
        return None;
    }
    let id = std::env::var("IDEM_CLAIM").ok()?.parse().ok()?;
    // Without the token it still says what this process waits for; it then joins nobody's group.
    Some(Enclosing { id, token: std::env::var(TOKEN).unwrap_or_default() })
}

/// Returns who this process is: for people to read, never for deciding.
pub fn owner() -> Owner {
    let process = format!("start {}", process_start().unwrap_or(0));
    Owner { actor: actor(), process }
}

/// Returns `user@host[pid]` of this process.
pub fn actor() -> String {
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{}@{}[{}]", user(), host, std::process::id())
}

fn user() -> String {
    let named = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    named("LOGNAME").or_else(|| named("USER")).unwrap_or_else(|| format!("uid-{}", nix::unistd::getuid()))
}

/// Field 22 of `/proc/self/stat`, in clock ticks since the boot. The name before it may contain anything.
fn process_start() -> Option<i64> {
    let stat = read_small("/proc/self/stat")?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Reads a small file of the kernel's by one call: these have no size that a reader could know before.
fn read_small(path: &str) -> Option<String> {
    let mut bytes = [0; 1024];
    let count = File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}
