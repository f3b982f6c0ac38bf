//! Liveness: whether an attempt's owner lives, by an operating-system lock (design §5).
//!
//! Invariant: the lock is taken before the claim is inserted and let go after the outcome is recorded, and the command
//! inherits it. So whoever sees a running row can test the lock that the row names: held means that idem or its command
//! lives, free means that both are gone. No process id, age or heartbeat decides anything.
//!
//! Knows `lock`, `host` and `domain`, no store and no terminal.

mod trial;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use sha2::{Digest, Sha256};

use crate::domain::arrival::Liveness;
use crate::domain::claim::LockPlace;
use crate::host;
use crate::lock::{self, Mode};

pub use trial::{Trial, try_locks};

/// The lock file beside a store, opened by one idem process.
///
/// It has an open file of its own, apart from the writers' queue: the command inherits this one, and what the command
/// inherits it keeps when idem is killed. A queue lock in it would then stop every writer until the command ends.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    inode: i64,
    /// What tells this lock file from others, in the rows that name it.
    identity: i64,
}

/// The right to ask the target about one attempt: nobody else asks meanwhile.
///
/// A byte of its own, in an open file of its own that no command inherits: it goes with this process, and a daemon that
/// the attempt's command left behind can't keep it.
#[derive(Debug)]
pub struct ProbeLock {
    _file: File,
}

/// Who asks about an attempt. Those who wait for the answer want to know: at the attempt's end it is that attempt that they
/// wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Its owner, at its end.
    Owner,
    /// Anybody else, later.
    Other,
}

impl ProbeLock {
    /// Takes the right, unless somebody else has it.
    pub fn take(path: &Path, place: LockPlace, asker: Asker) -> io::Result<Option<ProbeLock>> {
        let file = lock::open(path)?;
        if !lock::try_lock(&file, probe_offset(place), Mode::Exclusive)? {
            return Ok(None);
        }
        if asker == Asker::Owner {
            lock::try_lock(&file, owner_probe_offset(place), Mode::Exclusive)?;
        }
        Ok(Some(ProbeLock { _file: file }))
    }
}

/// Where the right to ask about an attempt is locked: above all offsets of attempts.
fn probe_offset(place: LockPlace) -> i64 {
    place.offset | 1 << 62
}

/// What its owner locks as well: the same, mirrored. That another attempt's byte is this one has a chance of one in 2^62.
fn owner_probe_offset(place: LockPlace) -> i64 {
    probe_offset(LockPlace { offset: !place.offset & ((1 << 62) - 1), ..place })
}

/// A byte that this process holds for its attempt.
#[derive(Debug)]
pub struct AttemptLock {
    file: File,
    place: LockPlace,
}

impl LockFile {
    /// Opens the lock file beside a store, creating it where it isn't there. Whoever sees the store sees this file: its inode
    /// tells it from another one.
    pub fn open(path: &Path) -> io::Result<LockFile> {
        let file = lock::open(path)?;
        let inode = file.metadata()?.ino().cast_signed();
        Ok(LockFile { file, inode, identity: inode })
    }

    /// Opens this host's lock file for stores that many hosts share, creating it where it isn't there.
    ///
    /// Its identity is made of the boot, the device and the inode. Equal ones are one file of one running kernel: a file
    /// that somebody holds open keeps its inode, and its file system keeps its device number, as long as he does. So a
    /// free byte in a file of equal identity means a dead owner, in containers too; in any other file it means nothing.
    /// Where the boot can't be told, no two are equal.
    pub fn open_of_host(path: &Path) -> io::Result<LockFile> {
        let file = lock::open(path)?;
        let metadata = file.metadata()?;
        let boot = match host::boot() {
            Some(boot) => boot,
            None => getrandom::u64().map_err(io::Error::from)?.to_string(),
        };
        let digest = Sha256::digest(format!("{boot} {} {}", metadata.dev(), metadata.ino()));
        let head = digest.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        Ok(LockFile { file, inode: metadata.ino().cast_signed(), identity: (head >> 1).cast_signed() })
    }

    /// Takes a random free byte for an attempt that is about to be claimed.
    pub fn take(&self) -> io::Result<AttemptLock> {
        let file = self.file.try_clone()?;
        loop {
            let offset = random_offset()?;
            // A byte that somebody else has (one chance in 2^62 for each living attempt) or waits for is passed over.
            if lock::try_lock(&file, offset, Mode::Exclusive)? {
                return Ok(AttemptLock { file, place: LockPlace { offset, inode: self.identity } });
            }
        }
    }

    /// Tells whether the owner of an attempt lives.
    pub fn test(&self, place: LockPlace) -> io::Result<Liveness> {
        if place.inode != self.identity {
            return Ok(Liveness::Unprovable);
        }
        Ok(if lock::is_locked_exclusively(&self.file, place.offset)? { Liveness::Alive } else { Liveness::Dead })
    }

    /// Tells whether this process runs under that very attempt: it then has the attempt's open file, inherited through
    /// all that the command started. The environment may have been cleared on the way (`env -i`, `sudo`).
    ///
    /// Read from `/proc/self/fdinfo`, which lists the locks of each open file; no answer there means no.
    pub fn runs_under(&self, place: LockPlace) -> bool {
        let infos = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
        let mut texts = infos.filter_map(|info| std::fs::read_to_string(info.path()).ok());
        place.inode == self.identity
            && texts.any(|text| text.lines().any(|line| is_lock_at(line, self.inode, place.offset)))
    }

    /// Sleeps until an attempt's owner has let go or is gone. Tells whether that came before `limit` ran out.
    ///
    /// The lock is shared, so that all who wait wake together, and it is let go at once.
    pub fn wait(&self, place: LockPlace, limit: Option<Duration>) -> io::Result<bool> {
        self.wait_at(place.offset, limit)
    }

    /// Tells whether somebody is asking the target about an attempt.
    pub fn is_probed(&self, place: LockPlace) -> io::Result<bool> {
        lock::is_locked_exclusively(&self.file, probe_offset(place))
    }

    /// Tells whether it is the attempt's owner who is asking, at its end.
    pub fn is_probed_by_owner(&self, place: LockPlace) -> io::Result<bool> {
        lock::is_locked_exclusively(&self.file, owner_probe_offset(place))
    }

    /// Sleeps until nobody asks about an attempt any more, as [`LockFile::wait`] does for its owner.
    pub fn wait_for_probe(&self, place: LockPlace, limit: Option<Duration>) -> io::Result<bool> {
        self.wait_at(probe_offset(place), limit)
    }

    fn wait_at(&self, offset: i64, limit: Option<Duration>) -> io::Result<bool> {
        let file = self.file.try_clone()?;
        let wait = move || lock::lock(&file, offset, Mode::Shared).and_then(|()| lock::unlock(&file, offset));
        let Some(limit) = limit else {
            return wait().map(|()| true);
        };
        // The kernel's lock has no time limit of its own. A thread that is still waiting when the time runs out ends
        // with the process, which has nothing left to do but answer "busy".
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new().spawn(move || {
            let _ = tell.send(wait());
        })?;
        match told.recv_timeout(limit) {
            Ok(result) => result.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

impl AttemptLock {
    /// Returns where others can test this lock.
    pub fn place(&self) -> LockPlace {
        self.place
    }

    /// Makes the lock one that the next command started inherits.
    pub fn let_command_inherit(&self) -> io::Result<()> {
        fcntl(self.file.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(())
    }

    /// Lets go, for every process that inherited the lock: a daemon left behind can't keep a finished claim busy.
    pub fn release(&self) -> io::Result<()> {
        lock::unlock(&self.file, self.place.offset)
    }
}

/// Reads a line such as `lock: 1: OFDLCK  ADVISORY  WRITE -1 fe:00:1234 77 77`.
fn is_lock_at(line: &str, lock_file: i64, offset: i64) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, "OFDLCK", _, "WRITE", _, file, start, _] = fields[..] else { return false };
    let inode = file.rsplit(':').next().unwrap_or_default();
    start.parse() == Ok(offset) && inode.parse() == Ok(lock_file)
}

fn random_offset() -> io::Result<i64> {
    let random = getrandom::u64().map_err(io::Error::from)?;
    // 62 bits, and never 0: byte 0 is the writers' queue.
    Ok((random >> 2).max(1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (tempfile::TempDir, LockFile, LockFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let (a, b) = (LockFile::open(&path).expect("a"), LockFile::open(&path).expect("b"));
        (folder, a, b)
    }

    /// Byte 0 is the writers' queue, and an attempt's own byte is somewhere below 2^62: who asks locks none of these.
    #[test]
    fn the_bytes_of_attempts_and_of_those_who_ask_are_apart() {
        // No one is the mirror of another one.
        let places = [1, 2, 3, 1 << 40, (1 << 40) + 1, (1 << 61) + 5].map(|offset| LockPlace { offset, inode: 7 });
        let asking: Vec<i64> =
            places.iter().flat_map(|&place| [probe_offset(place), owner_probe_offset(place)]).collect();
        assert!(asking.iter().all(|&byte| byte >= 1 << 62));
        let bytes: std::collections::HashSet<i64> = asking.iter().copied().collect();
        assert_eq!(bytes.len(), asking.len(), "{asking:x?}");
    }

    #[test]
    fn no_two_lock_files_of_hosts_have_one_identity() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |n: u32| LockFile::open_of_host(&folder.path().join(n.to_string())).expect("a lock file").identity;
        let identities: Vec<i64> = (0..300).map(open).collect();
        let different: std::collections::HashSet<&i64> = identities.iter().collect();
        assert_eq!(different.len(), identities.len());
        assert!(identities.iter().all(|&identity| identity >= 0));
        assert_eq!(open(7), identities[7], "the same file opened again");
    }

    #[test]
    fn alive_until_released() {
        let (_folder, a, b) = two();
        let attempt = a.take().expect("a byte");
        assert_eq!(b.test(attempt.place()).expect("test"), Liveness::Alive);
        let place = attempt.place();
        attempt.release().expect("release");
        assert_eq!(b.test(place).expect("test"), Liveness::Dead);
    }

    #[test]
    fn an_attempts_byte_is_its_own_and_never_the_queues() {
        let offsets: Vec<i64> = (0..50).map(|_| random_offset().expect("a random number")).collect();
        assert!(offsets.iter().all(|offset| (1..1 << 62).contains(offset)), "byte 0 is the queue's: {offsets:?}");
        let different: std::collections::HashSet<&i64> = offsets.iter().collect();
        assert_eq!(different.len(), offsets.len());
    }

    #[test]
    fn who_has_the_open_file_runs_under_the_attempt() {
        let (_folder, a, b) = two();
        let attempt = b.take().expect("a byte");
        assert!(a.runs_under(attempt.place()), "as if inherited: this process has that open file");
        let other = LockPlace { offset: attempt.place().offset ^ 2, ..attempt.place() };
        assert!(!a.runs_under(other));
        let place = attempt.place();
        attempt.release().expect("release");
        assert!(!a.runs_under(place));
    }

    #[test]
    fn a_replaced_lock_file_proves_nothing() {
        let (folder, a, _b) = two();
        let attempt = a.take().expect("a byte");
        let path = folder.path().join("lock");
        std::fs::remove_file(&path).expect("remove");
        let later = LockFile::open(&path).expect("a new lock file");
        assert_eq!(later.test(attempt.place()).expect("test"), Liveness::Unprovable);
    }

    #[test]
    fn a_lock_file_of_a_host_is_itself_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        let open = |path| LockFile::open_of_host(path).expect("opens");
        let (a, b, other) = (open(&here), open(&here), open(&there));
        let attempt = a.take().expect("a byte");
        let place = attempt.place();
        assert!(place.inode > 0 && b.runs_under(place));
        assert_eq!(b.test(place).expect("test"), Liveness::Alive);
        assert_eq!(other.test(place).expect("test"), Liveness::Unprovable, "another home's");
        attempt.release().expect("release");
        assert_eq!(b.test(place).expect("test"), Liveness::Dead);
        assert_eq!(other.test(place).expect("test"), Liveness::Unprovable);
    }

    #[test]
    fn one_at_a_time_asks_about_an_attempt() {
        let (folder, a, b) = two();
        let path = folder.path().join("lock");
        let attempt = a.take().expect("a byte");
        let place = attempt.place();
        assert!(!b.is_probed(place).expect("test"), "an owner isn't somebody who asks");
        let asking = ProbeLock::take(&path, place, Asker::Other).expect("take").expect("free");
        assert!(ProbeLock::take(&path, place, Asker::Owner).expect("take").is_none());
        assert!(!a.is_probed_by_owner(place).expect("test"));
        assert!(a.is_probed(place).expect("test") && b.is_probed(place).expect("test"));
        attempt.release().expect("release");
        assert_eq!(b.test(place).expect("test"), Liveness::Dead, "who asks isn't an owner");
        assert!(!b.wait_for_probe(place, Some(Duration::from_millis(10))).expect("wait"));
        drop(asking);
        assert!(b.wait_for_probe(place, None).expect("wait"));
        assert!(!b.is_probed(place).expect("test"));
        // The wait that ran out has left a thread in the kernel, which has the byte for a moment, shared, now that it is free.
        let _asking = loop {
            if let Some(right) = ProbeLock::take(&path, place, Asker::Owner).expect("take") {
                break right;
            }
        };
        assert!(a.is_probed(place).expect("test") && a.is_probed_by_owner(place).expect("test"));
    }

    #[test]
    fn a_wait_has_its_limit_and_its_end() {
        let (_folder, a, b) = two();
        let attempt = a.take().expect("a byte");
        let place = attempt.place();
        assert!(!b.wait(place, Some(Duration::from_millis(10))).expect("wait"));
        attempt.release().expect("release");
        assert!(b.wait(place, Some(Duration::from_secs(60))).expect("wait"));
        assert!(b.wait(place, None).expect("wait"));
    }
}
