//! idem's own stdout and stderr, as far as they pass the command's output on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

/// Where one stream of the command goes. What can't be passed on is dropped: the command and the record go on.
#[derive(Debug)]
pub struct Outlet {
    fd: Option<BorrowedFd<'static>>,
    failed: Option<io::Error>,
    open_line: bool,
}

impl Outlet {
    /// Passes on to this descriptor.
    pub fn to(fd: BorrowedFd<'static>) -> Outlet {
        Outlet { fd: Some(fd), failed: None, open_line: false }
    }

    /// Passes nothing on.
    pub fn closed() -> Outlet {
        Outlet { fd: None, failed: None, open_line: false }
    }

    /// Passes bytes on at once, without buffering. After the first failure it does nothing.
    pub fn pass(&mut self, bytes: &[u8]) {
        let Some(fd) = self.fd else { return };
        match write_all(fd, bytes) {
            Ok(()) => {
                if let Some(last) = bytes.last() {
                    self.open_line = *last != b'\n';
                }
            }
            Err(errno) => {
                self.fd = None;
                // A reader that went away (`| head -1`) is no failure: it has what it wanted.
                self.failed = (errno != Errno::EPIPE).then(|| errno.into());
            }
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
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            // A caller may have left its pipe non-blocking (Node does): wait as a blocking one would.
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
