//! Starting the command.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;

/// A command to start. Arguments and environment are bytes, passed as they are.
#[derive(Debug)]
pub struct Program {
    /// The program and its arguments; at least one.
    pub args: Vec<OsString>,
    /// What is added to the environment (design §9).
    pub env: Vec<(&'static str, OsString)>,
    /// Its standard input.
    pub stdin: Input,
    /// Where it runs; `None`: where idem does.
    pub folder: Option<OsString>,
    /// Whether it gets a process group of its own.
    pub own_group: bool,
}

/// The command's standard input.
#[derive(Debug)]
pub enum Input {
    /// idem's own.
    Inherit,
    /// Empty.
    Null,
    /// This file, from where it stands.
    File(File),
}

/// Why a command could not be started. It never ran.
#[derive(Debug)]
pub enum SpawnError {
    /// There is no such program: 127.
    NotFound(io::Error),
    /// It can't be executed: 126.
    NotExecutable(io::Error),
    /// The system has no room for another process: 125.
    System(io::Error),
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpawnError::NotFound(error) => write!(f, "was not found: {error}"),
            SpawnError::NotExecutable(error) => write!(f, "can't be executed: {error}"),
            SpawnError::System(error) => write!(f, "could not be started: {error}"),
        }
    }
}

impl std::error::Error for SpawnError {}

/// Starts the command with pipes for its output.
///
/// No hook runs between fork and exec, so that the standard library can use `posix_spawn`, which copies no page tables.
pub fn spawn(program: &Program) -> Result<Child, SpawnError> {
    let mut command = Command::new(&program.args[0]);
    command.args(&program.args[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(match &program.stdin {
        Input::Inherit => Stdio::inherit(),
        Input::Null => Stdio::null(),
        Input::File(file) => file.try_clone().map_err(SpawnError::System)?.into(),
    });
    for (name, value) in &program.env {
        command.env(name, value);
    }
    if let Some(folder) = &program.folder {
        command.current_dir(folder);
    }
    if program.own_group {
        command.process_group(0);
    }
    command.spawn().map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR) => SpawnError::NotFound(error),
        Some(Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE) => SpawnError::System(error),
        _ => SpawnError::NotExecutable(error),
    })
}
