//! Which commands of a key are alive: a fact of the kernel's, since each one holds a record lock that goes with its process
//! and that no child inherits.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Between two keys' bytes. No storm makes so many claims.
const PER_KEY: i64 = 1 << 32;

/// A command's own lock, for as long as its process lives.
pub(crate) struct Alive {
    file: File,
    key: i64,
    claim: i64,
}

impl Alive {
    /// Takes the lock of this claim's command.
    pub(crate) fn new(folder: &Path, key: i64, claim: i64) -> Alive {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join("alive"));
        let file = file.expect("the file of locks");
        let own = lock(key * PER_KEY + claim, 1);
        fcntl(&file, FcntlArg::F_SETLK(&own)).expect("a byte of one's own");
        Alive { file, key, claim }
    }

    /// The claims of this key whose commands live besides. Of two that begin at once at least one sees the other, since
    /// each takes its lock before it looks.
    pub(crate) fn others(&self) -> Vec<i64> {
        let (start, end) = (self.key * PER_KEY, (self.key + 1) * PER_KEY);
        let mut others = Vec::new();
        let mut from = start;
        while from < end {
            let mut found = lock(from, end - from);
            fcntl(&self.file, FcntlArg::F_GETLK(&mut found)).expect("a look at the locks");
            if i32::from(found.l_type) == libc::F_UNLCK {
                break;
            }
            if !is_ending(found.l_pid) {
                others.push(found.l_start - start);
            }
            from = found.l_start + 1;
        }
        others.retain(|other| *other != self.claim);
        others
    }
}

fn lock(start: i64, len: i64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    }
}

/// Whether a process runs none of its own code any more. Its files are closed one after the other, idem's lock before this
/// one: *the old command is stopped by the scheduler in between, and the next one begins.* That is no overlap.
fn is_ending(pid: i32) -> bool {
    const PF_EXITING: u64 = 4;
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let Some((_, rest)) = stat.rsplit_once(") ") else { return true };
    rest.split(' ').nth(6).and_then(|flags| flags.parse::<u64>().ok()).is_none_or(|flags| flags & PF_EXITING != 0)
}
