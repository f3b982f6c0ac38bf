//! Running a probe: a short command in a process group of its own, whose output is kept and not passed on.

use std::io;
use std::time::{Duration, Instant};

use super::limit::{Deadline, Limit};
use super::outlet::Outlet;
use super::pump::{self, run_loop};
use super::signals::Signals;
use super::spawn::{Program, SpawnError, spawn};
use super::tree::Scope;
use crate::domain::claim::Stream;
use crate::domain::end::End;

/// How long after SIGTERM a probe that ran out of time gets SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// How much of a probe's output is kept, in bytes, for each stream.
const MAX_OUTPUT: usize = 16 * 1024 * 1024;

/// What a probe came to.
#[derive(Debug)]
pub struct Probed {
    /// Its end.
    pub end: End,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
    /// How many bytes of its standard output were too many to be kept.
    pub missing: u64,
}

/// Runs a probe until it ends or its time has run out. The program should have a group of its own.
///
/// A group, since the time limit must end the probe's processes and none of those that the command left behind. idem's
/// signals go to it as well (a terminal's don't reach it by themselves).
pub fn probe(program: &Program, timeout: Duration, signals: &Signals) -> Result<Probed, SpawnError> {
    let mut child = spawn(program)?;
    signals.forward_to_group(child.id());
    let limit = Limit { timeout, kill_after: KILL_AFTER };
    let deadline = Deadline::new(limit, Scope::Group(child.id().cast_signed()));
    let mut kept = Kept::default();
    let mut outlets = [Outlet::closed(), Outlet::closed()];
    let ran = run_loop(&mut child, signals, Some(deadline), &mut outlets, &mut kept);
    signals.stop_forwarding();
    let end = ran.map_err(|error: io::Error| SpawnError::System(error))?.end;
    Ok(Probed { end, stdout: kept.stdout, stderr: kept.stderr, missing: kept.missing })
}

#[derive(Default)]
struct Kept {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    missing: u64,
}

impl pump::Recorder for Kept {
    fn record(&mut self, stream: Stream, bytes: &[u8]) {
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = MAX_OUTPUT.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
        if stream == Stream::Stdout {
            self.missing += (bytes.len() - room) as u64;
        }
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    fn flush(&mut self) {}
}
