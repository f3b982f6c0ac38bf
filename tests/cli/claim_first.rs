//! The claim is on disk before the command starts: there is no window between deciding and acting.

use std::collections::HashMap;

use crate::env::{Answer, Call, TestEnv};

/// The calls that start a process, that force data to disk, and that write to the store.
const TRACED: &str = "trace=execve,clone,clone3,vfork,fork,fsync,fdatasync,msync,sync,syncfs,sync_file_range,\
                      pwrite64,pwritev,write,open,openat";

const SYNCS: [&str; 6] = ["fsync", "fdatasync", "msync", "sync", "syncfs", "sync_file_range"];

/// One system call of a trace, whole: where a trace splits a call in two, `began` and `ended` are the two lines.
struct Syscall {
    began: usize,
    ended: usize,
    name: String,
    text: String,
}

impl Syscall {
    fn is_sync(&self) -> bool {
        SYNCS.contains(&self.name.as_str())
    }

    /// A new process, not a thread of the same.
    fn is_spawn(&self) -> bool {
        ["clone", "clone3", "vfork", "fork"].contains(&self.name.as_str()) && !self.text.contains("CLONE_THREAD")
    }

    fn is_on(&self, file: &str) -> bool {
        self.text.contains(&format!("{file}>"))
    }
}

/// The answer to an idem run and its system calls, in the order in which they began.
fn trace(env: &TestEnv, call: Call<'_>) -> (Answer, Vec<Syscall>) {
    let file = env.file("trace");
    let strace = ["strace", "-f", "-y", "-qq", "-s", "16", "-e", "signal=none", "-e", TRACED, "-o"];
    let answer = call.under(strace.iter().map(std::ffi::OsString::from).chain([file.into_os_string()])).answer();
    let text = env.text_of("trace");
    assert!(!text.is_empty(), "these tests need a working strace\n{answer}");
    answer.exits(0);
    (answer, parse(&text))
}

fn parse(trace: &str) -> Vec<Syscall> {
    let mut calls: Vec<Syscall> = Vec::new();
    let mut unfinished: HashMap<&str, usize> = HashMap::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if rest.starts_with("<... ") {
            let index = unfinished.remove(pid).unwrap_or_else(|| panic!("a resumed call that never began: {line}"));
            calls[index].ended = at;
            calls[index].text.push_str(rest);
        } else if let Some((name, _)) = rest.split_once('(') {
            if rest.ends_with("<unfinished ...>") {
                unfinished.insert(pid, calls.len());
            }
            calls.push(Syscall { began: at, ended: at, name: name.to_owned(), text: rest.to_owned() });
        }
    }
    calls
}

/// Where the command's process is made: the last spawn before the `execve` of the command.
fn start_of_command(calls: &[Syscall], command: &str) -> usize {
    let execve = calls
        .iter()
        .find(|call| call.name == "execve" && call.text.contains(&format!("(\"{command}\"")))
        .expect("the execve of the command");
    let before = calls.iter().filter(|call| call.is_spawn() && call.began < execve.began);
    before.map(|call| call.began).max().expect("the process that runs the command")
}

fn listing(calls: &[Syscall]) -> String {
    let mut text = String::new();
    for call in calls {
        text.push_str(&call.text);
        text.push('\n');
    }
    text
}

fn is_synced_before_the_spawn(calls: &[Syscall]) {
    let spawn = start_of_command(calls, "/bin/true");
    let of_log = |call: &&Syscall| call.is_on("idem.db-wal") && call.ended < spawn;
    let sync = calls.iter().filter(of_log).rfind(|call| call.is_sync() && call.text.ends_with("= 0"));
    let sync = sync.unwrap_or_else(|| panic!("no sync returned before the spawn\n{}", listing(calls)));
    let write = calls.iter().filter(of_log).rfind(|call| call.name.contains("write"));
    let write = write.unwrap_or_else(|| panic!("nothing was claimed before the spawn\n{}", listing(calls)));
    assert!(write.ended < sync.began, "the claim was written but not synced\n{}", listing(calls));
}

fn steady(env: &TestEnv) {
    for n in 0..3 {
        env.run("before").params(&n.to_string()).script("true").answer().exits(0);
    }
}

#[test]
fn the_sync_of_the_claim_has_returned_before_the_command_starts() {
    let env = TestEnv::new();
    steady(&env);
    let (_, calls) = trace(&env, env.run("t").command(["/bin/true"]));
    is_synced_before_the_spawn(&calls);
}

#[test]
fn on_a_new_store_the_files_and_their_folder_are_synced_before_the_command_starts() {
    let env = TestEnv::new();
    let (_, calls) = trace(&env, env.run("t").command(["/bin/true"]));
    is_synced_before_the_spawn(&calls);
    let spawn = start_of_command(&calls, "/bin/true");
    let synced = |file: &str| calls.iter().any(|call| call.is_sync() && call.is_on(file) && call.ended < spawn);
    assert!(synced("/state/idem"), "the store's folder\n{}", listing(&calls));
    assert!(synced("/state"), "the folder that the store's folder was made in\n{}", listing(&calls));
}

#[test]
fn a_first_run_on_a_store_in_use_makes_two_syncs() {
    let env = TestEnv::new();
    steady(&env);
    let (_, calls) = trace(&env, env.run("t").command(["/bin/true"]));
    assert_eq!(calls.iter().filter(|call| call.is_sync()).count(), 2, "{}", listing(&calls));
    let synchronous = |call: &&Syscall| call.name.starts_with("open") && call.text.contains("SYNC");
    assert_eq!(calls.iter().filter(synchronous).count(), 0, "{}", listing(&calls));
}

#[test]
fn the_outcome_is_synced_before_idem_answers() {
    let env = TestEnv::new();
    steady(&env);
    let (_, calls) = trace(&env, env.run("t").command(["/bin/true"]));
    let spawn = start_of_command(&calls, "/bin/true");
    let after: Vec<&Syscall> = calls.iter().filter(|call| call.is_on("idem.db-wal") && call.began > spawn).collect();
    let write = after.iter().find(|call| call.name.contains("write")).map(|call| call.ended);
    let sync = after.iter().rfind(|call| call.is_sync()).map(|call| call.began);
    assert!(write.is_some() && write < sync, "the outcome is written, then synced\n{}", listing(&calls));
}

#[test]
fn a_replay_makes_no_sync() {
    let env = TestEnv::new();
    steady(&env);
    env.run("t").command(["/bin/true"]).answer().exits(0);
    let (answer, calls) = trace(&env, env.run("t").command(["/bin/true"]));
    answer.is_a_replay();
    assert_eq!(calls.iter().filter(|call| call.is_sync()).count(), 0, "{}", listing(&calls));
    assert!(!calls.iter().any(Syscall::is_spawn), "nor does it start a process\n{}", listing(&calls));
}

#[test]
fn a_command_that_reads_the_store_sees_its_own_running_claim() {
    let env = TestEnv::new();
    let query = "SELECT state, key, tool, attempt FROM claim WHERE id = $IDEM_CLAIM";
    let answer = env.run("t").script(&format!("sqlite3 \"$IDEM_STORE\" \"{query}\"; echo $IDEM_KEY")).answer();
    answer.exits(0);
    let text = answer.text();
    let (row, key) = text.trim_end().split_once('\n').expect("a row and a key");
    let columns: Vec<&str> = row.split('|').collect();
    assert_eq!(columns, ["running", key, "t", "1"], "{answer}");
}

#[test]
fn a_command_that_reads_the_store_by_idem_sees_its_own_running_claim() {
    let env = TestEnv::new();
    let idem = env!("CARGO_BIN_EXE_idem");
    let answer = env.run("t").script(&format!("{idem} show $IDEM_CLAIM --json")).answer();
    let seen = answer.exits(0).envelope();
    assert_eq!((&seen["state"], &seen["tool"]), (&"running".into(), &"t".into()), "{answer}");
}

#[test]
fn a_crash_at_the_start_of_the_command_would_leave_its_claim() {
    let env = TestEnv::new();
    let store = env.store();
    let script = format!("mkdir crash; cp {0} {0}-wal crash", store.display());
    env.run("t").script(&script).answer().exits(0);
    let seen = std::process::Command::new("sqlite3")
        .arg(env.file("crash").join("idem.db"))
        .arg("SELECT state, tool FROM claim")
        .output()
        .expect("these tests need the sqlite3 program");
    assert_eq!(String::from_utf8_lossy(&seen.stdout), "running|t\n");
}
