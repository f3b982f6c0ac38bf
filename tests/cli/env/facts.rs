//! Facts about processes and locks that a test can wait for. No test sleeps to make a race come out right.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a fact may take before the test is given up; a bound for broken programs, not a measure.
const DEADLINE: Duration = Duration::from_mins(1);

/// Waits until `fact` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = fact() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process still runs; one that has ended and waits to be collected doesn't.
pub(crate) fn is_alive(pid: i32) -> bool {
    !matches!(state_of(pid), None | Some('Z' | 'X'))
}

/// Whether a process is stopped, as by SIGSTOP.
pub(crate) fn is_stopped(pid: i32) -> bool {
    state_of(pid) == Some('T')
}

fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The most memory that a living process has had at one time, in KiB, without the pages of files: the program itself is one,
/// and a debug build of it has many.
#[track_caller]
pub(crate) fn peak_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
        line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
    };
    kib("VmHWM:").saturating_sub(kib("RssFile:"))
}

/// Waits until a process has ended, so that nothing it held is held any more.
#[track_caller]
pub(crate) fn become_free(pid: i32) {
    wait_for(&format!("the end of process {pid}"), || (!is_alive(pid)).then_some(()));
}

/// The process id that a file has, once its line is whole.
pub(crate) fn written_pid(file: &Path) -> Option<i32> {
    let text = fs::read_to_string(file).ok()?;
    text.strip_suffix('\n')?.lines().last()?.trim().parse().ok()
}

/// Whether a process has a file open.
pub(crate) fn has_open(pid: i32, path: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
}

/// How many processes sleep in the kernel for a shared lock on this file: those that wait for an owner's end.
pub(crate) fn sleeping_waiters(lock: &Path) -> usize {
    let Ok(meta) = fs::metadata(lock) else { return 0 };
    let inode = format!(":{} ", meta.ino());
    let locks = fs::read_to_string("/proc/locks").expect("/proc/locks, which lists the sleepers");
    let waits = |line: &&str| line.contains("->") && line.contains(" READ ") && line.contains(&inode);
    locks.lines().filter(waits).count()
}

/// The lines that `seq COUNT` prints.
pub(crate) fn seq(count: u32) -> String {
    let mut lines = String::new();
    for n in 1..=count {
        lines.push_str(&n.to_string());
        lines.push('\n');
    }
    lines
}
