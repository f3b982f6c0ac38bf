//! The time limit of a command: SIGTERM to everything it started, and SIGKILL to what is left after a while.
//!
//! Time is monotonic: setting the clock changes nothing.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::tree::{self, Scope};

/// How often SIGKILL is repeated for processes that were started meanwhile.
const AGAIN: Duration = Duration::from_millis(50);

/// How long after the first SIGKILL a process that can't be ended (in an uninterruptible sleep, say) is waited for.
const GIVE_UP: Duration = Duration::from_secs(5);

/// `--timeout` and `--kill-after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How long the command may run.
    pub timeout: Duration,
    /// How long after SIGTERM comes SIGKILL.
    pub kill_after: Duration,
}

/// A limit whose time is running.
#[derive(Debug)]
pub(super) struct Deadline {
    scope: Scope,
    kill_after: Duration,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The command has until then.
    Running { until: Option<Instant> },
    /// It was told to end, and has until then.
    Told { until: Option<Instant>, look: Instant },
    /// It is being killed since then.
    Killing { since: Instant, again: Instant },
    /// The command ended in time, or everything it started has ended.
    Settled { passed: bool },
}

impl Deadline {
    pub(super) fn new(limit: Limit, scope: Scope) -> Deadline {
        Deadline {
            scope,
            kill_after: limit.kill_after,
            stage: Stage::Running { until: Instant::now().checked_add(limit.timeout) },
        }
    }

    /// Returns when there is something to do next.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.stage {
            Stage::Running { until } => until,
            Stage::Told { until, look } => Some(until.map_or(look, |until| until.min(look))),
            Stage::Killing { again, .. } => Some(again),
            Stage::Settled { .. } => None,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.next().is_some_and(|next| next <= Instant::now())
    }

    /// Tells whether the time ran out before the command ended.
    pub(super) fn has_passed(&self) -> bool {
        !matches!(self.stage, Stage::Running { .. } | Stage::Settled { passed: false })
    }

    /// Tells whether nothing more is to be waited for, once the command itself has ended.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Running { .. } | Stage::Settled { .. })
    }

    /// Does what is due. `ended`: whether the command itself has ended.
    pub(super) fn act(&mut self, ended: bool) {
        let now = Instant::now();
        let due = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        match self.stage {
            Stage::Running { .. } if ended => self.stage = Stage::Settled { passed: false },
            Stage::Running { until } if due(until) => {
                tree::signal(self.scope, Signal::SIGTERM);
                // A stopped process takes SIGTERM only when it goes on.
                tree::signal(self.scope, Signal::SIGCONT);
                self.stage = Stage::Told { until: now.checked_add(self.kill_after), look: now + AGAIN };
            }
            Stage::Told { .. } if ended && !tree::is_alive(self.scope) => self.stage = Stage::Settled { passed: true },
            Stage::Told { until, .. } if due(until) => {
                tree::signal(self.scope, Signal::SIGKILL);
                self.stage = Stage::Killing { since: now, again: now + AGAIN };
            }
            Stage::Told { until, look } if look <= now => self.stage = Stage::Told { until, look: now + AGAIN },
            Stage::Killing { since, again } if again <= now => {
                // One that was started between the look and the signal is found now.
                let alive = tree::signal(self.scope, Signal::SIGKILL);
                let over = ended && (!alive || now.duration_since(since) >= GIVE_UP);
                self.stage =
                    if over { Stage::Settled { passed: true } } else { Stage::Killing { since, again: now + AGAIN } };
            }
            _ => {}
        }
    }
}
