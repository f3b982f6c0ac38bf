//! idem's own stdout and stderr, as far as they pass the command's output on.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::write;

use super::pump::LARGE_PIPE;

/// Where one stream of the command goes. What can't be passed on is dropped: the command and the record go on.
#[derive(Debug)]
pub struct Outlet {
    sink: Sink,
    /// What a slow reader has not taken yet.
    waiting: Vec<u8>,
    /// How much of that it has taken since: nothing is moved up until it has all.
    taken: usize,
    failed: Option<io::Error>,
    open_line: bool,
}

/// How bytes are written without ever blocking where a reader can be slow.
#[derive(Debug)]
enum Sink {
    /// Nowhere.
    Closed,
    /// A file, or a descriptor that can't be had in another way: a write may block.
    Plain(BorrowedFd<'static>),
    /// An open file of idem's own for the caller's pipe or terminal. The caller's is left as it is: making *that*
    /// non-blocking would do so for everybody who shares it.
    Own(OwnedFd),
    /// A pipe that another user made, so that it can't be opened anew: written in pieces for which there is room.
    Careful(BorrowedFd<'static>),
    /// A socket, which has a flag for each write.
    Socket(BorrowedFd<'static>),
}

impl Outlet {
    /// Passes on to this descriptor, and keeps what a slow reader doesn't take: for a running command, whose end, signals
    /// and time limit must be noticed meanwhile.
    pub fn live(fd: BorrowedFd<'static>) -> Outlet {
        Outlet::new(Sink::live(fd))
    }

    /// Passes on to this descriptor and waits for its reader.
    pub fn patient(fd: BorrowedFd<'static>) -> Outlet {
        Outlet::new(Sink::Plain(fd))
    }

    /// Passes nothing on.
    pub fn closed() -> Outlet {
        Outlet::new(Sink::Closed)
    }

    fn new(sink: Sink) -> Outlet {
        Outlet { sink, waiting: Vec::new(), taken: 0, failed: None, open_line: false }
    }

    /// Passes bytes on at once, behind those that still wait. After the first failure it does nothing.
    pub fn pass(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last().filter(|_| !matches!(self.sink, Sink::Closed)) else { return };
        self.open_line = *last != b'\n';
        if !self.waiting.is_empty() {
            self.waiting.extend_from_slice(bytes);
            return;
        }
        let written = self.write_some(bytes);
        if !matches!(self.sink, Sink::Closed) {
            self.waiting.extend_from_slice(&bytes[written..]);
        }
    }

    /// Makes a pipe of the caller's hold more: fewer and larger steps for a command that writes much.
    pub fn widen(&mut self) {
        if let Sink::Own(fd) = &self.sink {
            // Past the user's limit on such pipes it stays as it is; of a terminal there is nothing to widen.
            let _ = fcntl(fd, FcntlArg::F_SETPIPE_SZ(LARGE_PIPE));
        }
    }

    /// Tries again to pass on what waits.
    pub fn push(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.taken += self.write_some(&waiting[self.taken..]);
        if self.taken < waiting.len() && !matches!(self.sink, Sink::Closed) {
            self.waiting = waiting;
        } else {
            self.taken = 0;
        }
    }

    /// Returns the descriptor to watch for room, while something waits.
    pub fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        if self.waiting.is_empty() { None } else { self.sink.fd() }
    }

    /// Waits for the reader until nothing waits any more.
    pub fn drain(&mut self) {
        while let Some(fd) = self.waits_for() {
            wait_for_room(fd);
            self.push();
        }
    }

    /// Tells whether what was passed on ended within a line.
    pub fn open_line(&self) -> bool {
        self.open_line
    }

    /// Returns the error that ended the passing on, except that of a reader that went away.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Writes as much as is taken now. Returns how much that was.
    fn write_some(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.sink.write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => match &self.sink {
                    // A caller may have left its pipe non-blocking (Node does): wait as a blocking one would.
                    Sink::Plain(fd) => wait_for_room(fd.as_fd()),
                    _ => break,
                },
                Err(errno) => {
                    self.sink = Sink::Closed;
                    // A reader that went away (`| head -1`) is no failure: it has what it wanted.
                    self.failed = (errno != Errno::EPIPE).then(|| errno.into());
                    break;
                }
            }
        }
        written
    }
}

impl Sink {
    fn live(fd: BorrowedFd<'static>) -> Sink {
        let kind = fstat(fd).map_or(SFlag::empty(), |stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
        match kind {
            SFlag::S_IFSOCK => Sink::Socket(fd),
            SFlag::S_IFIFO => Sink::reopen(fd).map_or(Sink::Careful(fd), Sink::Own),
            SFlag::S_IFCHR if nix::unistd::isatty(fd).unwrap_or(false) => {
                Sink::reopen(fd).map_or(Sink::Plain(fd), Sink::Own)
            }
            // A regular file takes what it is given; another open file of it would have an offset of its own.
            _ => Sink::Plain(fd),
        }
    }

    fn reopen(fd: BorrowedFd<'static>) -> Option<OwnedFd> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        OpenOptions::new().write(true).custom_flags(flags).open(path).ok().map(OwnedFd::from)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Sink::Closed => None,
            Sink::Plain(fd) | Sink::Careful(fd) | Sink::Socket(fd) => Some(fd.as_fd()),
            Sink::Own(fd) => Some(fd.as_fd()),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Sink::Closed => Ok(bytes.len()),
            Sink::Plain(fd) => write(fd, bytes),
            Sink::Careful(fd) => write_if_room(fd.as_fd(), bytes),
            Sink::Own(fd) => write(fd, bytes),
            Sink::Socket(fd) => send(fd.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL),
        }
    }
}

/// Writes at most what a pipe that says it has room can take at once, so that the write doesn't block.
fn write_if_room(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let mut asked = [PollFd::new(fd, PollFlags::POLLOUT)];
    if poll(&mut asked, PollTimeout::ZERO)? == 0 {
        return Err(Errno::EAGAIN);
    }
    write(fd, &bytes[..bytes.len().min(libc::PIPE_BUF)])
}

fn wait_for_room(fd: BorrowedFd<'_>) {
    let _ = poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], PollTimeout::NONE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (io::PipeReader, BorrowedFd<'static>) {
        let (reader, writer) = io::pipe().expect("a pipe");
        // Kept open for the rest of the test's process, as idem's own streams are.
        let writer: &'static io::PipeWriter = Box::leak(Box::new(writer));
        (reader, writer.as_fd())
    }

    #[test]
    fn a_slow_reader_blocks_nothing_and_gets_everything_in_order() {
        let (mut reader, fd) = pipe();
        let mut outlet = Outlet::live(fd);
        let bytes: Vec<u8> = (0..300_000u32).map(|n| n.to_le_bytes()[1]).collect();
        outlet.pass(&bytes[..200_000]);
        outlet.pass(&bytes[200_000..]);
        assert!(outlet.waits_for().is_some(), "no pipe holds that much");
        let reading = std::thread::spawn(move || {
            let mut got = vec![0; 300_000];
            io::Read::read_exact(&mut reader, &mut got).expect("all of it");
            got
        });
        outlet.drain();
        assert!(reading.join().expect("no panic") == bytes);
        assert!(outlet.failure().is_none());
    }

    #[test]
    fn a_pipe_that_cannot_be_opened_anew_blocks_nothing_either() {
        let (mut reader, fd) = pipe();
        let mut outlet = Outlet::new(Sink::Careful(fd));
        let bytes = vec![7; 100_000];
        outlet.pass(&bytes);
        assert!(outlet.waits_for().is_some(), "no pipe holds that much");
        let reading = std::thread::spawn(move || {
            let mut got = vec![0; 100_000];
            io::Read::read_exact(&mut reader, &mut got).expect("all of it");
            got
        });
        outlet.drain();
        assert!(reading.join().expect("no panic") == bytes);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let (reader, fd) = pipe();
        let mut outlet = Outlet::live(fd);
        drop(reader);
        outlet.pass(b"x");
        outlet.pass(b"y");
        assert!(outlet.failure().is_none() && outlet.waits_for().is_none());
    }
}
