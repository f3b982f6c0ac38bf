//! strace as the hand that kills or hinders idem at one of its system calls.
//!
//! Without `-f` it follows idem itself and not the command that idem starts. A call is counted by its name: the n-th
//! `pwrite64` is the same one from run to run, whatever the others did.

use std::collections::BTreeMap;

/// strace, writing the calls of what it starts to the file `trace` in the folder that it runs in.
const STRACE: [&str; 6] = ["strace", "-qq", "-o", "trace", "-e", "signal=none"];

/// One system call of a run: the n-th of its name, counted from 1.
#[derive(Clone, Debug)]
pub(crate) struct Syscall {
    pub(crate) name: String,
    pub(crate) nth: usize,
    /// The whole line of the trace.
    pub(crate) line: String,
}

/// The words that only trace.
pub(crate) fn watch() -> Vec<String> {
    STRACE.map(str::to_owned).to_vec()
}

impl Syscall {
    /// The words that kill what they start when it enters this call: the call has no effect any more.
    pub(crate) fn kill(&self) -> Vec<String> {
        self.inject(&format!("signal=KILL:when={}", self.nth))
    }

    /// The words that let this call fail, and with `all_from_here` each later one of its name too.
    pub(crate) fn fail(&self, error: &str, all_from_here: bool) -> Vec<String> {
        let plus = if all_from_here { "+" } else { "" };
        self.inject(&format!("error={error}:when={}{plus}", self.nth))
    }

    fn inject(&self, how: &str) -> Vec<String> {
        let mut words = watch();
        words.extend(["-e".to_owned(), format!("trace={}", self.name)]);
        words.extend(["-e".to_owned(), format!("inject={}:{how}", self.name)]);
        words
    }
}

/// The calls in a trace, without the `execve` that started it.
pub(crate) fn syscalls(trace: &str) -> Vec<Syscall> {
    assert!(!trace.is_empty(), "these tests need a working strace");
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((name, _)) = line.split_once('(') else { continue };
        if name == "execve" || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let count = counts.entry(name).or_default();
        *count += 1;
        calls.push(Syscall { name: name.to_owned(), nth: *count, line: line.to_owned() });
    }
    calls
}
