//! The writers' queue: a kernel lock round each write transaction.
//!
//! SQLite's own busy handler sleeps and retries, which is slow and unfair: of 64 processes some wait for seconds. In
//! this queue they sleep in the kernel and are woken in turn. It is a courtesy among idems: what keeps the data whole
//! is still SQLite's lock, with its busy time-out for other programs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::domain::store::StoreError;
use crate::lock::{self, Mode};

/// The byte of the lock file on which writers queue. Attempts have the others.
const QUEUE: i64 = 0;

/// The byte of whoever takes the write-ahead log in for all others: between those of attempts and those of who asks about them.
const LOG: i64 = 1 << 62;

/// The lock file, opened for queueing. Its descriptor is closed on exec: a command that inherited it would keep the
/// queue locked if idem were killed within a write.
#[derive(Debug)]
pub(super) struct Queue {
    file: File,
    path: PathBuf,
}

/// A writer's turn; ends when dropped.
#[derive(Debug)]
pub(super) enum Turn<'a> {
    /// In the queue's own open file.
    Own(&'a File),
    /// In one that somebody else has waited with, and that ends with the turn.
    Lent(File),
}

impl Queue {
    pub(super) fn open(path: &Path) -> io::Result<Queue> {
        Ok(Queue { file: lock::open(path)?, path: path.to_owned() })
    }

    /// The queue, opened where it isn't yet: a replay needs none.
    pub(super) fn opened<'a>(slot: &'a mut Option<Queue>, path: &Path) -> Result<&'a Queue, StoreError> {
        match slot {
            Some(queue) => Ok(queue),
            none => {
                let opened = Queue::open(path);
                Ok(none.insert(opened.map_err(|error| StoreError::from_io(path, "opening the lock file", &error))?))
            }
        }
    }

    /// Tells whether somebody takes the write-ahead log in for all others. Where it can't be told, nobody does.
    pub(super) fn log_is_taken_over(&self) -> bool {
        lock::is_locked_exclusively(&self.file, LOG).unwrap_or(false)
    }

    /// Waits for the turn.
    pub(super) fn turn(&self) -> io::Result<Turn<'_>> {
        lock::lock(&self.file, QUEUE, Mode::Exclusive)?;
        Ok(Turn::Own(&self.file))
    }

    /// Takes the turn if it can be had within so long.
    pub(super) fn turn_within(&self, limit: Duration) -> io::Result<Option<Turn<'_>>> {
        if lock::try_lock(&self.file, QUEUE, Mode::Exclusive)? {
            return Ok(Some(Turn::Own(&self.file)));
        }
        if limit.is_zero() {
            return Ok(None);
        }
        // The kernel's lock has no time limit of its own, so a thread waits, and hands over the open file that has the
        // turn. In one of its own: where the time runs out first, the turn that comes too late ends with that file,
        // whether nobody takes it any more or it is still on its way.
        let file = lock::open(&self.path)?;
        let (hand, handed) = mpsc::channel();
        std::thread::Builder::new().spawn(move || {
            let _ = hand.send(lock::lock(&file, QUEUE, Mode::Exclusive).map(|()| file));
        })?;
        match handed.recv_timeout(limit) {
            Ok(file) => file.map(|file| Some(Turn::Lent(file))),
            Err(_) => Ok(None),
        }
    }
}

/// The duty to take the write-ahead log in for all others. A lock like any other here: it ends with its process, and then a run does it
/// again.
#[derive(Debug)]
pub(super) struct LogDuty {
    _file: File,
}

impl LogDuty {
    /// Takes it, unless somebody else has it.
    pub(super) fn take(path: &Path) -> Result<Option<LogDuty>, StoreError> {
        let failed = |doing| move |error: io::Error| StoreError::from_io(path, doing, &error);
        let file = lock::open(path).map_err(failed("opening the lock file"))?;
        let taken = lock::try_lock(&file, LOG, Mode::Exclusive).map_err(failed("locking the lock file"))?;
        Ok(taken.then_some(LogDuty { _file: file }))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // It can't fail on a descriptor that was locked, and the end of the process unlocks as well.
        let file = match self {
            Turn::Own(file) => file,
            Turn::Lent(file) => &*file,
        };
        let _ = lock::unlock(file, QUEUE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_comes_too_late_keeps_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let (a, b, c) =
            (Queue::open(&path).expect("a"), Queue::open(&path).expect("b"), Queue::open(&path).expect("c"));
        let turn = a.turn().expect("a's turn");
        assert!(b.turn_within(Duration::ZERO).expect("b asks").is_none());
        assert!(b.turn_within(Duration::from_millis(20)).expect("b waits").is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| c.turn_within(Duration::from_secs(60)).expect("c waits").is_some());
            drop(turn);
            assert!(waits.join().expect("no panic"), "once a is done, c has its turn");
        });
        drop(a.turn().expect("nobody has it any more"));
    }

    #[test]
    fn the_log_is_taken_over_by_one_until_he_is_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let other = Queue::open(&path).expect("a queue");
        assert!(!other.log_is_taken_over());
        let turn = other.turn().expect("a turn is another matter");
        assert!(!other.log_is_taken_over());
        let duty = LogDuty::take(&path).expect("taking works").expect("nobody has it");
        assert!(other.log_is_taken_over());
        assert!(LogDuty::take(&path).expect("asking works").is_none());
        drop(turn);
        assert!(other.log_is_taken_over());
        drop(duty);
        assert!(!other.log_is_taken_over());
    }
}
