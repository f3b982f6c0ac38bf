//! Byte-range locks of the operating system, the one primitive under both the liveness lock and the writers' queue.
//!
//! They are *open file description* locks: a lock belongs to the open file and not to the process. So a child inherits
//! it, it ends with the last process that has the file open, it can't be lost by closing another descriptor of the
//! same file, and `kill -9` needs no clean-up. Imports nothing of the project.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// How a byte is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Together with other shared locks.
    Shared,
    /// Alone.
    Exclusive,
}

/// Opens a lock file, creating it (mode 0600) where it isn't there. The descriptor is closed on exec.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Locks a byte if nobody has it; tells whether it did.
pub fn try_lock(file: &File, offset: i64, mode: Mode) -> io::Result<bool> {
    match fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&range(offset, kind(mode)))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Locks a byte, sleeping in the kernel until it can be had.
pub fn lock(file: &File, offset: i64, mode: Mode) -> io::Result<()> {
    loop {
        match fcntl(file.as_fd(), FcntlArg::F_OFD_SETLKW(&range(offset, kind(mode)))) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Unlocks a byte, for every process that has this open file.
pub fn unlock(file: &File, offset: i64) -> io::Result<()> {
    fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&range(offset, libc::F_UNLCK)))?;
    Ok(())
}

/// Tells whether another open file has this byte locked exclusively. Shared locks don't count.
pub fn is_locked_exclusively(file: &File, offset: i64) -> io::Result<bool> {
    // Asking whether a *shared* lock could be had: only an exclusive one stands in its way.
    let mut answer = range(offset, libc::F_RDLCK);
    fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut answer))?;
    Ok(i32::from(answer.l_type) != libc::F_UNLCK)
}

fn kind(mode: Mode) -> i32 {
    match mode {
        Mode::Shared => libc::F_RDLCK,
        Mode::Exclusive => libc::F_WRLCK,
    }
}

fn range(offset: i64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: offset,
        l_len: 1,
        // Must be zero for locks of open file descriptions.
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_is_seen_and_shared_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let (a, b, c) = (open(&path).expect("a"), open(&path).expect("b"), open(&path).expect("c"));
        assert!(try_lock(&a, 7, Mode::Exclusive).expect("lock"));
        assert!(is_locked_exclusively(&b, 7).expect("test"));
        assert!(!is_locked_exclusively(&b, 8).expect("test"));
        assert!(!try_lock(&b, 7, Mode::Shared).expect("try"));
        unlock(&a, 7).expect("unlock");
        assert!(try_lock(&b, 7, Mode::Shared).expect("try"));
        assert!(!is_locked_exclusively(&c, 7).expect("test"), "waiters that woke up don't look like owners");
        assert!(try_lock(&c, 7, Mode::Shared).expect("try"));
    }

    #[test]
    fn an_inherited_copy_keeps_the_lock_until_it_is_unlocked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let (owner, other) = (open(&path).expect("owner"), open(&path).expect("other"));
        assert!(try_lock(&owner, 7, Mode::Exclusive).expect("lock"));
        let inherited = owner.try_clone().expect("dup");
        drop(owner);
        assert!(is_locked_exclusively(&other, 7).expect("test"));
        unlock(&inherited, 7).expect("unlock");
        assert!(!is_locked_exclusively(&other, 7).expect("test"));
    }
}
