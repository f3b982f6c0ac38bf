//! The processes that the command started, and those that they started: what `--timeout` ends.
//!
//! idem makes itself the reaper of orphans before the spawn, so that a process whose parent has ended stays below idem
//! and is found. Who its parent is, is read from `/proc`.

use std::collections::HashMap;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// Makes orphans below this process its own children. Where the system can't, they are not found later.
pub fn adopt_orphans() {
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Collects adopted orphans that have ended: they would count against the user's processes as long as idem runs. The
/// command itself is left to whoever waits for it.
pub(super) fn reap_orphans(command: u32) {
    let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(status) = waitid(Id::All, peek) {
        match status.pid() {
            Some(orphan) if orphan.as_raw() != command.cast_signed() => {
                let _ = waitid(Id::Pid(orphan), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
            }
            _ => break,
        }
    }
}

/// Sends a signal to every living process below this one. Tells whether there was any.
pub(super) fn signal(signal: Signal) -> bool {
    let living = living();
    for &pid in &living {
        let _ = kill(Pid::from_raw(pid), signal);
    }
    !living.is_empty()
}

/// Tells whether a process below this one lives.
pub(super) fn is_alive() -> bool {
    !living().is_empty()
}

/// Returns the processes below this one that haven't ended.
fn living() -> Vec<i32> {
    let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some((state, parent)) = parse(&stat) {
            children.entry(parent).or_default().push((pid, state != 'Z'));
        }
    }
    let mut below = Vec::new();
    let mut next = vec![std::process::id().cast_signed()];
    while let Some(pid) = next.pop() {
        for &(child, lives) in children.get(&pid).into_iter().flatten() {
            next.push(child);
            if lives {
                below.push(child);
            }
        }
    }
    below
}

/// Reads state and parent from `/proc/PID/stat`. The name before them may contain anything, parentheses too.
fn parse(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_a_parent() {
        assert_eq!(parse("12 (sh) S 7 12 12 0"), Some(('S', 7)));
        assert_eq!(parse("12 (a) R 1 (b) Z 9 12"), Some(('Z', 9)));
        assert_eq!(parse("12 (sh"), None);
    }
}
