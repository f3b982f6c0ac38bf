//! The writers' queue: a kernel lock round each write transaction.
//!
//! SQLite's own busy handler sleeps and retries, which is slow and unfair: of 64 processes some wait for seconds. In
//! this queue they sleep in the kernel and are woken in turn. It is a courtesy among idems: what keeps the data whole
//! is still SQLite's lock, with its busy time-out for other programs.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::lock::{self, Mode};

/// The byte of the lock file on which writers queue. Attempts have the others.
const QUEUE: i64 = 0;

/// The lock file, opened for queueing. Its descriptor is closed on exec: a command that inherited it would keep the
/// queue locked if idem were killed within a write.
#[derive(Debug)]
pub(super) struct Queue(File);

/// A writer's turn; ends when dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a File);

impl Queue {
    pub(super) fn open(path: &Path) -> io::Result<Queue> {
        lock::open(path).map(Queue)
    }

    /// Waits for the turn.
    pub(super) fn turn(&self) -> io::Result<Turn<'_>> {
        lock::lock(&self.0, QUEUE, Mode::Exclusive)?;
        Ok(Turn(&self.0))
    }

    /// Takes the turn if nobody has it.
    pub(super) fn turn_now(&self) -> io::Result<Option<Turn<'_>>> {
        let taken = lock::try_lock(&self.0, QUEUE, Mode::Exclusive)?;
        Ok(taken.then(|| Turn(&self.0)))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // It can't fail on a descriptor that was locked, and the end of the process unlocks as well.
        let _ = lock::unlock(self.0, QUEUE);
    }
}
