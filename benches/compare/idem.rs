//! The command lines of idem, and the checks of what it recorded.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::Result;
use crate::place::clean;

/// The number of the call that [`Idem::prove`] makes; no figure comes near it.
const PROOF: usize = 4_000_000_000;

/// The binary under measurement.
#[derive(Clone)]
pub(crate) struct Idem {
    pub(crate) program: PathBuf,
}

impl Idem {
    pub(crate) fn version(&self) -> Result<String> {
        text(&self.program, &["--version"])
    }

    /// `idem run` of a call that only `n` tells from others. A number that was used before is a replay.
    pub(crate) fn run(&self, store: &Path, n: usize, command: &[impl AsRef<OsStr>]) -> Command {
        self.run_with(store, n, &[], command)
    }

    /// `idem key` of the same call.
    pub(crate) fn key(&self, n: usize) -> Command {
        let mut key = clean(&self.program);
        key.arg("key").args(call(n));
        key
    }

    /// Makes the store, and shows with a command that leaves a trace that a first run runs and a repeat replays.
    ///
    /// # Errors
    ///
    /// It doesn't, or idem can't be started.
    pub(crate) fn prove(&self, store: &Path) -> Result<()> {
        let trace = store.with_extension("trace");
        let command = ["/bin/sh", "-c", "echo ran >>\"$0\"; echo answer"].map(OsStr::new);
        let command = [&command[..], &[trace.as_os_str()]].concat();
        let first = output(&mut self.run(store, PROOF, &command))?;
        let repeat = output(&mut self.run_with(store, PROOF, &["--json"], &command))?;
        let traces = fs::read_to_string(&trace)?;
        let envelope = flat(&repeat.stdout);
        if first.stdout != b"answer\n" || traces != "ran\n" {
            return Err(format!("two arrivals of one call answered {first:?} and left {traces:?}").into());
        }
        if !envelope.contains("\"idempotent\":true") || !envelope.contains("\"stdout\":\"answer\\n\"") {
            return Err(format!("a repeat is no replay: {envelope}").into());
        }
        Ok(())
    }

    /// Checks that the store holds the claim of [`Idem::prove`] and `claims` others, each completed by its only attempt:
    /// then each first run ran, and no replay did.
    pub(crate) fn check(&self, store: &Path, claims: usize) -> Result<()> {
        let mut list = clean(&self.program);
        list.arg("list").arg("--store").arg(store).args(["--all", "--json", "--limit", &(claims + 2).to_string()]);
        let listing = flat(&output(&mut list)?.stdout);
        let once = |line: &&str| {
            line.contains("\"state\":\"completed\"")
                && (line.contains("\"attempt\":1,") || line.contains("\"attempt\":1}"))
        };
        let (rows, good) = (listing.lines().count(), listing.lines().filter(once).count());
        if rows == claims + 1 && good == rows {
            Ok(())
        } else {
            Err(format!("{} calls made {rows} claims, {good} of them completed by one run", claims + 1).into())
        }
    }

    /// The same with options of `idem run`.
    pub(crate) fn run_with(&self, store: &Path, n: usize, flags: &[&str], command: &[impl AsRef<OsStr>]) -> Command {
        let mut run = clean(&self.program);
        run.arg("run").arg("--store").arg(store).args(call(n)).args(flags).arg("--").args(command);
        run
    }
}

fn call(n: usize) -> [String; 8] {
    let params = format!("{{\"n\":{n}}}");
    ["--who", "bench", "--conv", "compare", "--tool", "true", "--params", &params].map(str::to_owned)
}

/// Runs a program to its end, outside any timed part.
///
/// # Errors
///
/// It can't be started, or ends with anything but 0; what it said on stderr is in the message.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", shown(command)))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} ended with {}: {}", shown(command), output.status, said.trim_end()).into())
}

/// A command line for a message; its environment is everybody's.
pub(crate) fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Returns what a program prints.
pub(crate) fn text(program: impl AsRef<OsStr>, args: &[&str]) -> Result<String> {
    let output = output(clean(program).args(args))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Returns JSON without the blanks that may stand after a name, so that a member can be looked for as text.
fn flat(json: &[u8]) -> String {
    String::from_utf8_lossy(json).replace("\": ", "\":")
}
