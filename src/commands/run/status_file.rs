//! `--status-file`: the envelope in a file, while stdout stays the command's (design §10).

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::{Failure, Kind};
use crate::store::Location;

/// Opens it before anything is claimed: an answer that can't be given back would be a lost result.
pub(super) fn open(path: &Path) -> anyhow::Result<File> {
    // Emptied only when it is written: what stands there may turn out to be the store.
    let open = File::options().write(true).create(true).truncate(false).mode(0o666).open(path);
    open.with_context(|| format!("the status file {} can't be written", path.display()))
}

/// Fails where the status file is one of the store's.
pub(super) fn check(file: Option<&File>, location: &Location) -> anyhow::Result<()> {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let Some(status) = file.and_then(|file| file.metadata().ok()).map(identity) else { return Ok(()) };
    let is_status = |path: &PathBuf| path.metadata().is_ok_and(|metadata| identity(metadata) == status);
    match location.files().into_iter().find(is_status) {
        Some(path) => {
            let message = format!("the status file is the store's own {}", path.display());
            Err(Failure::new(Kind::Usage, message).hint("name another file with --status-file").into())
        }
        None => Ok(()),
    }
}

/// Writes the envelope in place of what stood there.
pub(super) fn write(file: &mut File, line: &str) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(line.as_bytes())
}
