//! The loop between the command's start and its end: passes its output on as it comes, hands it to the recorder, keeps
//! the time limit, and notices the end.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, read};

use super::limit::{Deadline, Limit};
use super::outlet::Outlet;
use super::signals::Signals;
use super::tree::{self, Scope};
use crate::domain::claim::Stream;
use crate::domain::end::End;

/// How long a process that the command left behind may keep the pipe before idem stops reading from it.
pub const GRACE: Duration = Duration::from_millis(300);

/// How much is read at once, in bytes, at first: what a pipe holds.
const READ_SIZE: usize = 64 * 1024;

/// How much is read at once from a command that fills its pipe, in bytes, and how large its pipe is made.
const LARGE_READ: usize = 256 * 1024;
pub(super) const LARGE_PIPE: i32 = 1024 * 1024;

/// How often the command's end is looked for where no signal tells it.
const LOOK: Duration = Duration::from_millis(20);

/// What keeps the output.
pub trait Recorder {
    /// Takes bytes that are just being passed on.
    fn record(&mut self, stream: Stream, bytes: &[u8]);

    /// Returns when the next [`Recorder::flush`] is due; `None`: nothing waits for one.
    fn due(&self) -> Option<Instant>;

    /// Brings what was taken so far to where others can see it.
    fn flush(&mut self);
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    /// Its end.
    pub end: End,
    /// Whether a process that it left behind still had a pipe open when the grace was over.
    pub left_open: bool,
}

/// One of the command's output pipes.
struct Pipe {
    stream: Stream,
    /// `None` once everybody has closed it.
    file: Option<OwnedFd>,
    /// How much must still be read after the command's end, whatever the time: at most what the pipe can hold.
    owed: usize,
    /// Whether it was made larger.
    wide: bool,
}

/// Runs the loop until the command has ended and its output has been taken. What a slow reader has not taken of it
/// then waits in the outlets.
///
/// `outlets` are those of stdout and stderr, in this order.
pub fn pump(
    child: &mut Child,
    signals: &Signals,
    limit: Option<Limit>,
    outlets: &mut [Outlet; 2],
    recorder: &mut dyn Recorder,
) -> io::Result<Ran> {
    run_loop(child, signals, limit.map(|limit| Deadline::new(limit, Scope::Below)), outlets, recorder)
}

/// The same, for a command whose limit ends what this scope has.
pub(super) fn run_loop(
    child: &mut Child,
    signals: &Signals,
    mut deadline: Option<Deadline>,
    outlets: &mut [Outlet; 2],
    recorder: &mut dyn Recorder,
) -> io::Result<Ran> {
    let mut pipes = [
        Pipe { stream: Stream::Stdout, file: child.stdout.take().map(OwnedFd::from), owed: 0, wide: false },
        Pipe { stream: Stream::Stderr, file: child.stderr.take().map(OwnedFd::from), owed: 0, wide: false },
    ];
    let mut buffer = vec![0; READ_SIZE];
    let mut ended: Option<Instant> = None;
    loop {
        if let Some(ended) = ended
            && pipes.iter().all(|pipe| pipe.done(ended))
            && deadline.as_ref().is_none_or(Deadline::is_settled)
        {
            break;
        }
        let grace = ended.map(|ended| ended + GRACE).filter(|until| *until > Instant::now());
        let look = (signals.deaf() && ended.is_none()).then(|| Instant::now() + LOOK);
        let next = [grace, look, recorder.due(), deadline.as_ref().and_then(Deadline::next)];
        let Some(ready) = wait(&pipes, signals, outlets, timeout(next))? else { continue };
        if recorder.due().is_some_and(|due| due <= Instant::now()) {
            recorder.flush();
        }
        for ((pipe, outlet), ready) in pipes.iter_mut().zip(outlets.iter_mut()).zip(ready.pipes) {
            outlet.push();
            if ready {
                pipe.take(&mut buffer, outlet, recorder)?;
            } else if ended.is_some() {
                // Nothing there now: all that the command wrote before its end has been read.
                pipe.owed = 0;
            }
        }
        if ready.wake {
            drain(signals)?;
            if deadline.is_some() {
                tree::reap_orphans(child.id());
            }
        }
        let look = ready.wake || signals.deaf() || deadline.as_ref().is_some_and(Deadline::is_due);
        if ended.is_none() && look && has_ended(child)? {
            ended = Some(Instant::now());
            pipes.iter_mut().for_each(Pipe::owe_what_it_holds);
        }
        if let Some(deadline) = &mut deadline {
            deadline.act(ended.is_some());
        }
    }
    let left_open = pipes.iter().any(|pipe| pipe.file.is_some());
    signals.stop_forwarding();
    let status = child.wait()?;
    let timed_out = deadline.as_ref().is_some_and(Deadline::has_passed);
    Ok(Ran { end: if timed_out { End::TimedOut { signal: status.signal() } } else { end(status) }, left_open })
}

impl Pipe {
    /// Reads what is there, passes it on and records it.
    fn take(&mut self, buffer: &mut Vec<u8>, outlet: &mut Outlet, recorder: &mut dyn Recorder) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        match read(file.as_fd(), buffer) {
            Ok(0) => self.file = None,
            Ok(count) => {
                self.owed = self.owed.saturating_sub(count);
                outlet.pass(&buffer[..count]);
                recorder.record(self.stream, &buffer[..count]);
                if count == buffer.len() && !self.wide {
                    self.widen(buffer);
                    outlet.widen();
                }
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Makes room for a command that writes more than is read at once: fewer and larger steps.
    fn widen(&mut self, buffer: &mut Vec<u8>) {
        let Some(file) = &self.file else { return };
        self.wide = buffer.len() >= LARGE_READ;
        let size = fcntl(file.as_fd(), FcntlArg::F_GETPIPE_SZ).unwrap_or(LARGE_PIPE);
        if size < LARGE_PIPE {
            // A user has a limit on such pipes; past it the pipe stays as it is.
            let _ = fcntl(file.as_fd(), FcntlArg::F_SETPIPE_SZ(LARGE_PIPE));
        }
        if buffer.len() < LARGE_READ {
            buffer.resize(LARGE_READ, 0);
        }
    }

    /// The command has ended: what it wrote is in the pipe. A process that it left behind may write on and on, so only
    /// as much as a pipe can hold is owed past the grace.
    fn owe_what_it_holds(&mut self) {
        let Some(file) = &self.file else { return };
        let size = fcntl(file.as_fd(), FcntlArg::F_GETPIPE_SZ);
        self.owed = size.ok().and_then(|size| usize::try_from(size).ok()).unwrap_or(READ_SIZE);
    }

    /// Tells whether nothing more is to be expected: closed by everybody, or read empty and out of grace.
    fn done(&self, ended: Instant) -> bool {
        self.file.is_none() || (self.owed == 0 && ended.elapsed() >= GRACE)
    }
}

/// What became ready.
struct Ready {
    pipes: [bool; 2],
    wake: bool,
}

/// Waits until something is ready or the time has come. `None`: a signal came, which its handler has dealt with.
///
/// A pipe whose outlet has a slow reader isn't read: the command then waits as it would for that reader itself. What the
/// command left in it at its end is read all the same: that is bounded, and the record doesn't wait for a reader.
fn wait(
    pipes: &[Pipe; 2],
    signals: &Signals,
    outlets: &[Outlet; 2],
    timeout: PollTimeout,
) -> io::Result<Option<Ready>> {
    let mut fds = Vec::with_capacity(5);
    fds.push(PollFd::new(signals.wake().as_fd(), PollFlags::POLLIN));
    let mut asked = [None; 2];
    for ((pipe, outlet), asked) in pipes.iter().zip(outlets).zip(&mut asked) {
        if let Some(fd) = outlet.waits_for() {
            fds.push(PollFd::new(fd, PollFlags::POLLOUT));
        }
        if let Some(file) = pipe.file.as_ref().filter(|_| pipe.owed > 0 || outlet.waits_for().is_none()) {
            *asked = Some(fds.len());
            fds.push(PollFd::new(file.as_fd(), PollFlags::POLLIN));
        }
    }
    match poll(&mut fds, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    let answered = |index: usize| fds[index].any().unwrap_or(false);
    Ok(Some(Ready { pipes: asked.map(|index| index.is_some_and(answered)), wake: answered(0) }))
}

fn timeout(next: [Option<Instant>; 4]) -> PollTimeout {
    match next.into_iter().flatten().min() {
        None => PollTimeout::NONE,
        Some(next) => {
            // Rounded up: waking a moment early would mean a busy loop until the time has come.
            let millis = next.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        }
    }
}

fn drain(signals: &Signals) -> io::Result<()> {
    let mut wake = signals.wake();
    let mut bytes = [0; 64];
    wake.read(&mut bytes).map(|_| ())
}

/// Tells whether the command has ended, and leaves it a zombie, so that its process id stays its own.
fn has_ended(child: &Child) -> io::Result<bool> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(pid), flags) {
        Ok(status) => Ok(status != WaitStatus::StillAlive),
        // It has ended by a signal that the library has no name for (a real-time one). The arguments are valid.
        Err(Errno::EINVAL) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Signaled(signal.unwrap_or(9)),
    }
}
