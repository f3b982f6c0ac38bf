//! Programs joined by pipes, as a shell joins them but without one: what a shell costs is in nobody's figure.

use std::io::{PipeReader, Read as _, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::idem::shown;

/// How much the reader at the end asks for at once. Its pipe is left as the kernel makes it, for both sides of a figure.
const READ: usize = 256 * 1024;

/// Runs the commands, each reading what the one before prints, gives what the last one prints to `take` piece by piece,
/// waits for all of them, and returns how many bytes came.
///
/// # Errors
///
/// A command can't be started or ends with anything but 0, or `take` says so.
pub(crate) fn flow(commands: &mut [Command], mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
    let mut children = Vec::new();
    let mut last: Option<PipeReader> = None;
    for command in commands.iter_mut() {
        let (child, output) = start(command, last.map_or_else(Stdio::null, Stdio::from))?;
        children.push(child);
        last = Some(output);
    }
    let mut last = last.ok_or("no command to run")?;
    let mut buffer = vec![0; READ];
    let mut total = 0;
    loop {
        let count = last.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        total += count;
        take(&buffer[..count])?;
    }
    for (mut child, command) in children.into_iter().zip(commands) {
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("{} ended with {status}", shown(command)).into());
        }
    }
    Ok(total)
}

/// Starts one command with a pipe for what it prints; what it says on stderr is nobody's figure.
pub(crate) fn start(command: &mut Command, input: impl Into<Stdio>) -> Result<(Child, PipeReader)> {
    let (reader, writer) = pipe()?;
    let child = command.stdin(input).stdout(writer).stderr(Stdio::null()).spawn();
    // The bench's copy of the writing end goes with what the command was set up with.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok((child.map_err(|error| format!("{}: {error}", shown(command)))?, reader))
}

/// Waits until nothing that was written before is left for the disk: one side's writes must not be on the other's time.
pub(crate) fn settle_disk(sync: &Path, folder: &Path) -> Result<()> {
    crate::idem::output(crate::place::clean(sync).arg("-f").arg(folder)).map(|_| ())
}
