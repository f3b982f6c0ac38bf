//! The processes that the command started, and those that they started: what `--timeout` ends. Those of a probe, which has
//! a process group of its own.
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

/// Which processes a limit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All below this one.
    Below,
    /// Those of this process group, wherever they are.
    Group(i32),
}

/// Sends a signal to every living process of a scope. Tells whether there was any.
pub(super) fn signal(scope: Scope, signal: Signal) -> bool {
    let living = living(scope);
    for &pid in &living {
        let _ = kill(Pid::from_raw(pid), signal);
    }
    !living.is_empty()
}

/// Tells whether a process of a scope lives.
pub(super) fn is_alive(scope: Scope) -> bool {
    !living(scope).is_empty()
}

/// Returns the processes of a scope that haven't ended.
fn living(scope: Scope) -> Vec<i32> {
    match scope {
        Scope::Below => below(),
        Scope::Group(group) => {
            // Its leader wherever that has gone: it is the one that is waited for.
            let lives = |(pid, stat): (i32, Stat)| ((stat.group == group || pid == group) && stat.lives).then_some(pid);
            processes().filter_map(lives).collect()
        }
    }
}

fn below() -> Vec<i32> {
    let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
    for (pid, stat) in processes() {
        children.entry(stat.parent).or_default().push((pid, stat.lives));
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

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    lives: bool,
    parent: i32,
    group: i32,
}

fn processes() -> impl Iterator<Item = (i32, Stat)> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, parse(&stat)?))
    })
}

/// Reads state, parent and group. The name before them may contain anything, parentheses too.
fn parse(stat: &str) -> Option<Stat> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let lives = fields.next()? != "Z";
    Some(Stat { lives, parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_a_parent() {
        assert_eq!(parse("12 (sh) S 7 12 12 0"), Some(Stat { lives: true, parent: 7, group: 12 }));
        assert_eq!(parse("12 (a) R 1 (b) Z 9 12"), Some(Stat { lives: false, parent: 9, group: 12 }));
        assert_eq!(parse("12 (sh"), None);
    }
}
