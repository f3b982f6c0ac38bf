//! The policy file: found, opened, trusted or not, and read into `domain::policy`.
//!
//! Invariant: a file that isn't whole and trusted gives no policy at all but an error, since a policy that is left out in
//! silence is one that is weakened. It knows `domain` only.

mod parse;

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::domain::policy::{Policy, Problem};

/// How long a policy may be, in bytes: more is another file.
const MAX_BYTES: u64 = 1 << 20;

/// Where the policy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyPlace {
    /// The file, absolute.
    pub path: PathBuf,
    /// Whether it was named: then it must be there.
    pub named: bool,
}

/// Why there is no policy where there should be one.
#[derive(Debug)]
pub enum PolicyError {
    /// A file that was named isn't there.
    Missing(PathBuf),
    /// It can't be read.
    Unreadable(PathBuf, io::Error),
    /// It is a folder, a pipe or a device.
    NotAFile(PathBuf),
    /// Another user owns it.
    ForeignOwner(PathBuf),
    /// Other users can write it.
    WritableByOthers(PathBuf),
    /// It is too long to be a policy.
    TooLong(PathBuf),
    /// What it says is wrong; at least one problem, in the order of the lines.
    Wrong(PathBuf, Vec<Problem>),
}

impl PolicyError {
    /// Returns what to do about it.
    pub fn hint(&self) -> String {
        match self {
            PolicyError::Missing(_) => {
                "name the file that is meant with --policy or IDEM_POLICY, or neither".to_owned()
            }
            PolicyError::ForeignOwner(_) => "it must be owned by the user who runs idem, or by root".to_owned(),
            PolicyError::WritableByOthers(path) => format!("take the right away: chmod go-w {}", path.display()),
            PolicyError::Wrong(path, _) => format!("`idem policy check {}` shows all that is wrong", path.display()),
            _ => "name the file that is meant with --policy or IDEM_POLICY".to_owned(),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Missing(path) => write!(f, "the policy {} is not there", path.display()),
            PolicyError::Unreadable(path, error) => write!(f, "the policy {} can't be read: {error}", path.display()),
            PolicyError::NotAFile(path) => write!(f, "the policy {} is not a file", path.display()),
            PolicyError::ForeignOwner(path) => write!(f, "the policy {} belongs to another user", path.display()),
            PolicyError::WritableByOthers(path) => write!(f, "other users can write the policy {}", path.display()),
            PolicyError::TooLong(path) => write!(f, "the policy {} is over 1 MiB", path.display()),
            PolicyError::Wrong(path, problems) => {
                let Some(first) = problems.first() else { return write!(f, "the policy {} is wrong", path.display()) };
                write!(f, "the policy {}:{}: {}", path.display(), first.line, first.text)?;
                match problems.len() - 1 {
                    0 => Ok(()),
                    1 => f.write_str(" (and 1 more problem)"),
                    more => write!(f, " (and {more} more problems)"),
                }
            }
        }
    }
}

impl std::error::Error for PolicyError {}

/// Reads the policy. `Ok(None)`: there is none, and nobody named one. That costs one failed open.
pub fn load(place: &PolicyPlace) -> Result<Option<Policy>, PolicyError> {
    let path = &place.path;
    let mut file = match open(path) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => {
            return if place.named { Err(PolicyError::Missing(path.clone())) } else { Ok(None) };
        }
        Err(error) if !place.named && is_behind_a_closed_folder(&error, path) => return Ok(None),
        Err(error) => return Err(PolicyError::Unreadable(path.clone(), error)),
    };
    let unreadable = |error| PolicyError::Unreadable(path.clone(), error);
    // Of the file that is open, whatever the name means by now.
    check(path, &file.metadata().map_err(unreadable)?)?;
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(PolicyError::TooLong(path.clone()));
    }
    parse::policy(&bytes).map(Some).map_err(|problems| PolicyError::Wrong(path.clone(), problems))
}

/// Opens without waiting, in case it is a pipe.
fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Tells whether a folder on the way can't even be entered, as with `sudo -u nobody` and a HOME that is still root's: what is
/// in there is somebody else's default. A file that is seen and can't be read is an error.
fn is_behind_a_closed_folder(error: &io::Error, path: &Path) -> bool {
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    denied(error) && path.symlink_metadata().is_err_and(|error| denied(&error))
}

/// Whoever can write the policy decides what runs twice.
fn check(path: &Path, metadata: &Metadata) -> Result<(), PolicyError> {
    if !metadata.is_file() {
        return Err(PolicyError::NotAFile(path.to_owned()));
    }
    if metadata.uid() != 0 && metadata.uid() != geteuid().as_raw() {
        return Err(PolicyError::ForeignOwner(path.to_owned()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(PolicyError::WritableByOthers(path.to_owned()));
    }
    Ok(())
}
