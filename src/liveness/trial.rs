//! Whether locks really hold here: tried with a byte of its own and a child process.
//!
//! What is tried is what idem relies on: another process can't have the byte, a child has it by inheritance after its parent
//! let go of the file, and it is free once the child is dead.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::LockFile;
use crate::domain::arrival::Liveness;

/// What the trial showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// A lock that one has, another can't have.
    pub exclusive: bool,
    /// A child has it still when the parent has closed the file.
    pub inherited: bool,
    /// It is free when the child is dead.
    pub freed: bool,
}

impl Trial {
    /// Tells whether idem can rely on locks here.
    pub fn holds(self) -> bool {
        self.exclusive && self.inherited && self.freed
    }
}

/// A child that waits on its stdin, and is killed when it is dropped.
struct Waiter(Child);

impl Waiter {
    fn end(&mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(|_| ())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // It is dead already where all went well.
        let _ = self.end();
    }
}

/// Tries it in this lock file. `waiter`: a program that reads standard input to its end, with its arguments.
pub fn try_locks(path: &Path, waiter: &[std::ffi::OsString]) -> io::Result<Trial> {
    let Some((program, args)) = waiter.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let owner = LockFile::open(path)?;
    let other = LockFile::open(path)?;
    let attempt = owner.take()?;
    let place = attempt.place();
    let exclusive = other.test(place)? == Liveness::Alive;
    attempt.let_command_inherit()?;
    let mut child = Command::new(program);
    child.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Waiter(child.spawn()?);
    // Closed here, not unlocked: only the child has the open file now.
    drop(attempt);
    drop(owner);
    let inherited = other.test(place)? == Liveness::Alive;
    child.end()?;
    let freed = other.test(place)? == Liveness::Dead;
    Ok(Trial { exclusive, inherited, freed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_hold_in_a_local_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let trial = try_locks(&folder.path().join("lock"), &["cat".into()]).expect("the trial");
        assert_eq!(trial, Trial { exclusive: true, inherited: true, freed: true });
    }

    #[test]
    fn locks_can_be_relied_on_where_all_of_it_holds() {
        let all = Trial { exclusive: true, inherited: true, freed: true };
        assert!(all.holds());
        let lacking =
            [Trial { exclusive: false, ..all }, Trial { inherited: false, ..all }, Trial { freed: false, ..all }];
        for trial in lacking {
            assert!(!trial.holds(), "{trial:?}");
        }
    }

    #[test]
    fn a_child_that_has_gone_shows_nothing_inherited() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        assert!(try_locks(&path, &["/no/such/program".into()]).is_err());
        assert!(try_locks(&path, &[]).is_err());
    }
}
