//! Files and their permission bits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sets a file's permission bits.
#[track_caller]
pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .unwrap_or_else(|error| panic!("mode {mode:o} for {}: {error}", path.display()));
}

/// A file's permission bits.
#[track_caller]
pub(crate) fn mode_of(path: &Path) -> u32 {
    let meta = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    meta.permissions().mode() & 0o7777
}

/// Puts a copy of idem that everybody may run into a folder.
///
/// `cp` makes it: were this process to write the file, a child that another test starts at the same moment could
/// hold it open for writing, and the system would refuse to run it.
pub(crate) fn copy_of_idem(folder: &Path) -> PathBuf {
    let copy = folder.join("idem");
    let status = Command::new("cp").arg(env!("CARGO_BIN_EXE_idem")).arg(&copy).status().expect("cp starts");
    assert!(status.success(), "cp: {status}");
    set_mode(&copy, 0o755);
    copy
}
