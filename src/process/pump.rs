//! The loop between the command's start and its end: passes its output on as it comes, hands it to the recorder, and
//! notices the end.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, read};

use super::outlet::Outlet;
use super::signals::Signals;
use crate::domain::claim::Stream;
use crate::domain::end::End;

/// How long a process that the command left behind may keep the pipe before idem stops reading from it.
pub const GRACE: Duration = Duration::from_millis(300);

/// How much is read at once, in bytes.
const READ_SIZE: usize = 64 * 1024;

/// What keeps the output.
pub trait Recorder {
    /// Takes bytes that have just been passed on.
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
}

/// Runs the loop until the command has ended and its output has been taken.
///
/// `outlets` are those of stdout and stderr, in this order.
pub fn pump(
    child: &mut Child,
    signals: &Signals,
    outlets: &mut [Outlet; 2],
    recorder: &mut dyn Recorder,
) -> io::Result<Ran> {
    let mut pipes = [
        Pipe { stream: Stream::Stdout, file: child.stdout.take().map(OwnedFd::from), owed: 0 },
        Pipe { stream: Stream::Stderr, file: child.stderr.take().map(OwnedFd::from), owed: 0 },
    ];
    let mut buffer = vec![0; READ_SIZE];
    let mut ended: Option<Instant> = None;
    loop {
        if let Some(ended) = ended
            && pipes.iter().all(|pipe| pipe.done(ended))
        {
            break;
        }
        let Some(ready) = wait(&pipes, signals, timeout(ended, recorder.due()))? else {
            continue;
        };
        if recorder.due().is_some_and(|due| due <= Instant::now()) {
            recorder.flush();
        }
        for ((pipe, outlet), ready) in pipes.iter_mut().zip(outlets.iter_mut()).zip(ready.pipes) {
            if ready {
                pipe.take(&mut buffer, outlet, recorder)?;
            } else {
                // Nothing there now: all that the command wrote before its end has been read.
                pipe.owed = 0;
            }
        }
        if ready.wake {
            drain(signals)?;
            if ended.is_none() && has_ended(child)? {
                ended = Some(Instant::now());
                pipes.iter_mut().for_each(Pipe::owe_what_it_holds);
            }
        }
    }
    let left_open = pipes.iter().any(|pipe| pipe.file.is_some());
    signals.stop_forwarding();
    Ok(Ran { end: end(child.wait()?), left_open })
}

impl Pipe {
    /// Reads what is there, passes it on and records it.
    fn take(&mut self, buffer: &mut [u8], outlet: &mut Outlet, recorder: &mut dyn Recorder) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        match read(file.as_fd(), buffer) {
            Ok(0) => self.file = None,
            Ok(count) => {
                self.owed = self.owed.saturating_sub(count);
                outlet.pass(&buffer[..count]);
                recorder.record(self.stream, &buffer[..count]);
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// The command has ended: what it wrote is in the pipe. A process that it left behind may write on and on, so only
    /// as much as a pipe can hold is owed past the grace.
    fn owe_what_it_holds(&mut self) {
        let Some(file) = &self.file else { return };
        let size = nix::fcntl::fcntl(file.as_fd(), nix::fcntl::FcntlArg::F_GETPIPE_SZ);
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
fn wait(pipes: &[Pipe; 2], signals: &Signals, timeout: PollTimeout) -> io::Result<Option<Ready>> {
    let mut fds = Vec::with_capacity(3);
    fds.push(PollFd::new(signals.wake().as_fd(), PollFlags::POLLIN));
    fds.extend(pipes.iter().filter_map(|pipe| Some(PollFd::new(pipe.file.as_ref()?.as_fd(), PollFlags::POLLIN))));
    match poll(&mut fds, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    let mut answers = fds.iter().map(|fd| fd.any().unwrap_or(false));
    let wake = answers.next().unwrap_or(false);
    let mut ready = [false; 2];
    for (slot, pipe) in ready.iter_mut().zip(pipes) {
        *slot = pipe.file.is_some() && answers.next().unwrap_or(false);
    }
    Ok(Some(Ready { pipes: ready, wake }))
}

fn timeout(ended: Option<Instant>, due: Option<Instant>) -> PollTimeout {
    let now = Instant::now();
    let grace = ended.map(|ended| ended + GRACE);
    let next = [grace, due].into_iter().flatten().min();
    match next {
        None => PollTimeout::NONE,
        Some(next) => {
            // Rounded up: waking a moment early would mean a busy loop until the time has come.
            let millis = next.saturating_duration_since(now).as_micros().div_ceil(1000);
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
    Ok(waitid(Id::Pid(pid), flags)? != WaitStatus::StillAlive)
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Signaled(signal.unwrap_or(9)),
    }
}
