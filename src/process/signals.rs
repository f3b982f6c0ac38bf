//! Signals to idem: forwarded to the command, or kept until it is known that nothing runs.
//!
//! The one place with `unsafe` in the project: installing handlers. The handlers themselves touch atomics and make system
//! calls that are safe in a handler (`kill`, `write`, `raise`, `sigaction`, `sigprocmask`, `getsid`). Forwarding happens
//! in the handler and not in some loop, so that a signal reaches the command also while idem is blocked: on a full pipe,
//! on a sync, on a busy store.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise};
use nix::unistd::{Pid, write};

/// What is forwarded to the command.
const FORWARDED: [Signal; 13] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// The command's process id, or the negative of a probe's process group; 0 while there is none.
static COMMAND: AtomicI32 = AtomicI32::new(0);
/// The first signal that came while there was no command, or while a probe ran, and that would have ended idem; 0: none.
static PENDING: AtomicI32 = AtomicI32::new(0);
/// Where a child's end and a kept signal are told; -1: nowhere.
static WAKE: AtomicI32 = AtomicI32::new(-1);
/// Whether something could not be told there.
static UNTOLD: AtomicBool = AtomicBool::new(false);

/// Handlers that are in place. While they are, a signal doesn't end idem.
#[derive(Debug)]
pub struct Signals {
    installed: Vec<Signal>,
    wake: PipeReader,
    deaf: bool,
    _wake_end: PipeWriter,
}

impl Signals {
    /// Installs the handlers. What the caller ignores (`nohup`) stays ignored, for the command too.
    pub fn install() -> io::Result<Signals> {
        let (wake, wake_end) = io::pipe()?;
        WAKE.store(wake_end.as_raw_fd(), Ordering::SeqCst);
        let mut installed = Vec::with_capacity(FORWARDED.len() + 1);
        for signal in FORWARDED {
            let old = set(signal, SigHandler::SigAction(on_signal))?;
            if matches!(old.handler(), SigHandler::SigIgn) {
                set(signal, SigHandler::SigIgn)?;
            } else {
                installed.push(signal);
            }
        }
        set(Signal::SIGCHLD, SigHandler::Handler(on_child))?;
        installed.push(Signal::SIGCHLD);
        // A file-size limit is told as an error, and not by the end of idem. (Ignoring it would be inherited.)
        set(Signal::SIGXFSZ, SigHandler::Handler(on_nothing))?;
        installed.push(Signal::SIGXFSZ);
        // A handler never waits: a wake-up too many changes nothing.
        fcntl(&wake_end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let deaf = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Signal::SIGCHLD));
        Ok(Signals { installed, wake, deaf, _wake_end: wake_end })
    }

    /// Returns the descriptor that becomes readable when a child has changed its state.
    pub fn wake(&self) -> &PipeReader {
        &self.wake
    }

    /// Tells whether one must look for a child's end now and then: the caller has blocked its signal, or a handler could
    /// not tell of one. The mask stays as it is: the command inherits it.
    pub fn deaf(&self) -> bool {
        self.deaf || UNTOLD.load(Ordering::SeqCst)
    }

    /// Takes the first signal that came while there was no command and that would have ended idem.
    pub fn take_pending(&self) -> Option<i32> {
        Some(PENDING.swap(0, Ordering::SeqCst)).filter(|&signal| signal != 0)
    }

    /// Forwards from now on to this process, what came in since the last look at [`Signals::take_pending`] included.
    pub fn forward_to(&self, pid: u32) {
        COMMAND.store(pid.cast_signed(), Ordering::SeqCst);
        // A signal between that last look and the line above found no command and was kept; one after it was forwarded
        // by its handler. Swapping makes sure that none is forwarded twice.
        if let Some(Ok(signal)) = self.take_pending().map(Signal::try_from) {
            let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        }
    }

    /// Forwards from now on to this process group, a probe's, and keeps what would have ended idem: whatever the probe
    /// makes of it, idem was told to end, and must start nothing afterwards.
    pub fn forward_to_group(&self, group: u32) {
        COMMAND.store(-group.cast_signed(), Ordering::SeqCst);
        // One between the last look and the line above was only kept. It is sent on and stays kept.
        if let Some(Ok(signal)) = Some(PENDING.load(Ordering::SeqCst)).filter(|&kept| kept != 0).map(Signal::try_from) {
            let _ = kill(Pid::from_raw(-group.cast_signed()), signal);
        }
    }

    /// Sleeps. Tells whether it was for so long: a signal that is kept ends it.
    pub fn sleep(&self, duration: Duration) -> bool {
        let until = Instant::now().checked_add(duration);
        while PENDING.load(Ordering::SeqCst) == 0 {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return true;
            }
            let timeout = PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, timeout).is_ok_and(|ready| ready > 0) {
                // A child that ended, or a signal that the condition above sees.
                let _ = (&self.wake).read(&mut [0; 64]);
            }
        }
        false
    }

    /// Stops forwarding. Called while the command is a zombie, before it is reaped: a process id that the system gives
    /// to somebody else is never sent anything.
    pub fn stop_forwarding(&self) {
        COMMAND.store(0, Ordering::SeqCst);
    }
}

impl Drop for Signals {
    /// Puts the default actions back and, if a signal was kept, lets it have its effect.
    fn drop(&mut self) {
        for &signal in &self.installed {
            let _ = set(signal, SigHandler::SigDfl);
        }
        WAKE.store(-1, Ordering::SeqCst);
        if let Some(Ok(signal)) = self.take_pending().map(Signal::try_from) {
            let _ = raise(signal);
        }
    }
}

#[expect(unsafe_code, reason = "installing a signal handler is unsafe by nature; see the module's comment")]
fn set(signal: Signal, handler: SigHandler) -> io::Result<SigAction> {
    // Restarted system calls: everything but poll goes on as if nothing had happened. Of a child only the end is told.
    let action = SigAction::new(handler, SaFlags::SA_RESTART | SaFlags::SA_NOCLDSTOP, SigSet::empty());
    // SAFETY: both handlers only load and store atomics and make the system calls named above, all async-signal-safe; they
    // allocate nothing, take no lock and keep errno as they found it.
    Ok(unsafe { nix::sys::signal::sigaction(signal, &action) }?)
}

extern "C" fn on_signal(number: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let errno = nix::errno::Errno::last_raw();
    forward(number, from_terminal(info));
    nix::errno::Errno::set_raw(errno);
}

fn forward(number: i32, from_terminal: bool) {
    let Ok(signal) = Signal::try_from(number) else { return };
    let command = COMMAND.load(Ordering::SeqCst);
    if command != 0 {
        // A terminal sends to the whole foreground group, so the command has it already: once is enough. But that it hung up
        // it tells the leader of the session alone, and a probe's group is another one.
        let has_it = command > 0 && from_terminal && !(signal == Signal::SIGHUP && leads_session());
        if !has_it && kill(Pid::from_raw(command), signal).is_err() && command < 0 {
            // A probe that has left its own group.
            let _ = kill(Pid::from_raw(-command), signal);
        }
    }
    if command <= 0 && !matches!(signal, Signal::SIGWINCH | Signal::SIGCONT | Signal::SIGTSTP) {
        let _ = PENDING.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst);
        tell();
    }
    if signal == Signal::SIGTSTP {
        stop();
    }
}

/// Does what SIGTSTP does by default, in whose place the handler stands: stops, unless nobody could bring this process
/// back (the kernel knows: an orphaned group isn't stopped).
fn stop() {
    let mut this = SigSet::empty();
    this.add(Signal::SIGTSTP);
    if set(Signal::SIGTSTP, SigHandler::SigDfl).is_ok() {
        let _ = raise(Signal::SIGTSTP);
        // It is blocked while its handler runs. Here it takes effect, and here the process goes on after SIGCONT.
        let _ = this.thread_unblock();
        let _ = this.thread_block();
        let _ = set(Signal::SIGTSTP, SigHandler::SigAction(on_signal));
    }
}

fn leads_session() -> bool {
    nix::unistd::getsid(None) == Ok(nix::unistd::getpid())
}

/// The kernel itself is the sender of what is typed at a terminal; what a process sends has its process id.
#[expect(unsafe_code, reason = "the kernel hands the handler a raw pointer")]
fn from_terminal(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t; only the field that is always set is read.
    unsafe { info.as_ref() }.is_some_and(|info| info.si_code == libc::SI_KERNEL)
}

extern "C" fn on_nothing(_number: libc::c_int) {}

extern "C" fn on_child(_number: libc::c_int) {
    let errno = nix::errno::Errno::last_raw();
    tell();
    nix::errno::Errno::set_raw(errno);
}

fn tell() {
    let wake = WAKE.load(Ordering::SeqCst);
    if wake >= 0 {
        wake_up(wake);
    }
}

#[expect(unsafe_code, reason = "a handler can get at a descriptor only by its number")]
fn wake_up(wake: i32) {
    // SAFETY: WAKE is set to -1 before the descriptor is closed, and one thread installs, handles and drops.
    let wake = unsafe { BorrowedFd::borrow_raw(wake) };
    if write(wake, &[1]).is_err() {
        // The handler has ended the sleep that this was meant to end, and the next one looks for itself.
        UNTOLD.store(true, Ordering::SeqCst);
    }
}
