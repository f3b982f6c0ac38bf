//! A gate that commands wait at until the test opens it.

use std::fs::{File, OpenOptions};
use std::io::Write;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::TestEnv;

/// A FIFO in the work folder; a script waits at it with `read _ < NAME`.
///
/// The test holds its writing end, so whoever comes sleeps until the gate is opened, and walks through an open one.
/// When the test ends, however it ends, the writing end closes and nobody is left waiting.
pub(crate) struct Gate {
    fifo: File,
}

impl Gate {
    /// A closed gate.
    pub(crate) fn new(env: &TestEnv, name: &str) -> Self {
        let path = env.file(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
        let fifo = OpenOptions::new().read(true).write(true).open(path).expect("both ends of a FIFO");
        Gate { fifo }
    }

    /// Puts bytes into it, for the one who waits: what somebody types, say.
    pub(crate) fn send(&self, bytes: &[u8]) {
        (&self.fifo).write_all(bytes).expect("room in a FIFO");
    }

    /// Opens it, for all who wait and all who come.
    pub(crate) fn open(&self) {
        (&self.fifo).write_all(&[b'\n'; 1024]).expect("room in a FIFO");
    }
}
