//! One `idem` process: how it is asked for, and how a test holds on to it while it runs.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use super::facts::written_pid;
use super::{Answer, TestEnv, become_free, is_alive, wait_for};

/// A command line of `idem` in the making.
#[must_use]
pub(crate) struct Call<'a> {
    env: &'a TestEnv,
    wrapper: Vec<OsString>,
    binary: PathBuf,
    args: Vec<OsString>,
    command: Vec<OsString>,
    vars: Vec<(OsString, Option<OsString>)>,
    stdin: Option<Vec<u8>>,
    user: Option<u32>,
}

impl<'a> Call<'a> {
    pub(super) fn new<I, A>(env: &'a TestEnv, args: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        Call {
            env,
            wrapper: Vec::new(),
            binary: PathBuf::from(env!("CARGO_BIN_EXE_idem")),
            args: args.into_iter().map(Into::into).collect(),
            command: Vec::new(),
            vars: Vec::new(),
            stdin: None,
            user: None,
        }
    }

    /// The params, as one JSON text.
    pub(crate) fn params(self, json: &str) -> Self {
        self.args(["--params", json])
    }

    /// The call's effect is outside this machine: a failure can leave us not knowing.
    pub(crate) fn external(self) -> Self {
        self.args(["--external"])
    }

    /// Further options.
    pub(crate) fn args<I, A>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The command that comes after `--`.
    pub(crate) fn command<I, A>(mut self, command: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        self.command = command.into_iter().map(Into::into).collect();
        self
    }

    /// A shell script as the command.
    pub(crate) fn script(self, script: &str) -> Self {
        self.command(["sh", "-c", script])
    }

    /// A shell script as the command, which [`TestEnv::runs`] counts each time it is really started.
    pub(crate) fn counting(self, script: &str) -> Self {
        self.script(&format!("echo run >> runs; {script}"))
    }

    /// A variable of the environment.
    pub(crate) fn var(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.vars.push((name.into(), Some(value.into())));
        self
    }

    /// A variable that is not there.
    pub(crate) fn no_var(mut self, name: &str) -> Self {
        self.vars.push((name.into(), None));
        self
    }

    /// What the process reads on stdin; without it stdin is empty.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// A program that starts idem, with its own arguments: strace, say.
    pub(crate) fn under<I, A>(mut self, wrapper: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        self.wrapper = wrapper.into_iter().map(Into::into).collect();
        self
    }

    /// Runs a copy of idem as another user, which only root can.
    pub(crate) fn by_user(mut self, id: u32, copy_of_idem: PathBuf) -> Self {
        self.user = Some(id);
        self.binary = copy_of_idem;
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn answer(self) -> Answer {
        self.start().answer()
    }

    /// Starts it in the background.
    #[track_caller]
    pub(crate) fn start(self) -> Running {
        let mut line = self.wrapper;
        line.push(self.binary.into_os_string());
        line.extend(self.args);
        if !self.command.is_empty() {
            line.push("--".into());
            line.extend(self.command);
        }
        let mut process = Command::new(&line[0]);
        process
            .args(&line[1..])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("a PATH"))
            .env("HOME", self.env.home())
            .env("XDG_STATE_HOME", self.env.state_home())
            .current_dir(self.env.work())
            .process_group(0)
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(url) = &self.env.store_url {
            process.env("IDEM_STORE", url);
        }
        for (name, value) in self.vars {
            match value {
                Some(value) => process.env(name, value),
                None => process.env_remove(name),
            };
        }
        if let Some(id) = self.user {
            process.uid(id).gid(id);
        }
        let asked = line.join(OsStr::new(" ")).to_string_lossy().into_owned();
        Running::spawn(asked, process, self.stdin, self.env.file("pid"))
    }
}

/// A process that was started; dropped, it and its process group are killed.
pub(crate) struct Running {
    asked: String,
    pid_file: PathBuf,
    child: Child,
    ended: Option<ExitStatus>,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    #[track_caller]
    fn spawn(asked: String, mut process: Command, stdin: Option<Vec<u8>>, pid_file: PathBuf) -> Self {
        let mut child = process.spawn().unwrap_or_else(|error| panic!("can't start {asked}: {error}"));
        if let (Some(bytes), Some(mut pipe)) = (stdin, child.stdin.take()) {
            // A process that ends without reading breaks the pipe, which is its right.
            thread::spawn(move || pipe.write_all(&bytes));
        }
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Running { asked, pid_file, child, ended: None, stdout, stderr }
    }

    /// The process id of idem itself.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Waits until the command has written its process id to `pid` in the work folder, as `echo $$ > pid` does.
    #[track_caller]
    pub(crate) fn command(&self) -> i32 {
        wait_for(&format!("the command of: {}", self.asked), || {
            let alive = is_alive(self.pid());
            let command = written_pid(&self.pid_file);
            assert!(alive || command.is_some(), "idem ended without its command: {}", self.asked);
            command
        })
    }

    /// Sends a signal to idem alone, not to its command.
    pub(crate) fn signal(&self, signal: Signal) {
        signal::kill(Pid::from_raw(self.pid()), signal).expect("a signal for idem");
    }

    /// Sends a signal to idem and to its command, as a key press on a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        signal::killpg(Pid::from_raw(self.pid()), signal).expect("a signal for idem and its command");
    }

    /// `kill -9` of idem alone, and waits until it's gone.
    pub(crate) fn kill_9(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("the end of idem");
        self.ended = Some(ExitStatus::default());
    }

    /// `kill -9` of idem and of its command, and waits until both are gone.
    #[track_caller]
    pub(crate) fn kill_9_with_command(self) {
        let command = self.command();
        self.kill_9();
        signal::kill(Pid::from_raw(command), Signal::SIGKILL).expect("the command still lives");
        become_free(command);
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn answer(mut self) -> Answer {
        let status = wait_for(&format!("the end of: {}", self.asked), || self.poll());
        let streams = (self.stdout.take(), self.stderr.take());
        let (Some(stdout), Some(stderr)) = streams else { panic!("both streams are read once") };
        // Whoever still holds idem's own streams after its end would keep its caller waiting: a failure as well.
        wait_for(&format!("the end of the streams of: {}", self.asked), || {
            (stdout.is_finished() && stderr.is_finished()).then_some(())
        });
        let read = |stream: JoinHandle<Vec<u8>>| stream.join().expect("a stream that can be read");
        Answer::new(self.asked.clone(), status, read(stdout), read(stderr))
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("the state of a child");
        }
        self.ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Gone already is as good as killed.
            let _ = signal::killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Reads a stream to its end, in a thread of its own, so that no process waits for a reader.
fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a stream that can be read");
        bytes
    })
}
