//! The only writer of idem's own text.
//!
//! Messages go to stderr, start with `idem: ` and are written by one call each, so that those of several processes
//! don't mix. One that follows output of the command which ended within a line starts a line of its own.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::Color;
use crate::view::escape::escape;
use crate::view::table::Look;

/// The way to the person or program that called.
#[derive(Debug)]
pub struct Ui {
    quiet: bool,
    open_line: Cell<bool>,
}

impl Ui {
    /// Makes a way that `quiet` keeps free of notes.
    pub fn new(quiet: bool) -> Ui {
        Ui { quiet, open_line: Cell::new(false) }
    }

    /// Takes note that what stands before the next message ended within a line.
    ///
    /// `stdout`, `stderr`: whether that stream did. Stdout counts where both streams are one file (`2>&1`, a terminal).
    pub fn after_output(&self, stdout: bool, stderr: bool) {
        self.open_line.set(stderr || (stdout && same_file()));
    }

    /// Says what is worth knowing; nothing with `--quiet`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// Shows what is waited for until the result is dropped. `age`: for how long that has been going on. Nothing with
    /// `--quiet`, and nothing where stderr is no terminal: then it costs nothing either.
    pub fn waiting(&self, age: Duration, what: &str) -> Option<Waiting> {
        (!self.quiet && io::stderr().is_terminal()).then(|| Waiting::new(age, what))
    }

    /// Says what must be said, with what to do next on a line of its own.
    pub fn error(&self, text: &str, hint: Option<&str>) {
        self.say(text);
        if let Some(hint) = hint {
            self.say(hint);
        }
    }

    fn say(&self, text: &str) {
        let start = if self.open_line.take() { "\n" } else { "" };
        let line = format!("{start}idem: {}\n", escape(text));
        // Where nobody can be told, there is nobody to tell that.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// A bar on stderr for work of many steps; nothing where nobody looks at it.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows a bar for this many steps, each of which is `done`.
    pub fn new(steps: usize, done: &str) -> Progress {
        // Hidden where stderr is no terminal.
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(&format!("idem: {{bar:20}} {{pos}} of {{len}} {done}, {{msg}}"));
        Progress { bar: style.map_or(bar.clone(), |style| bar.with_style(style)) }
    }

    /// Takes so many steps as done.
    pub fn reach(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// Says what the present step is about.
    pub fn at(&self, what: &str) {
        self.bar.set_message(escape(what).into_owned());
    }

    /// Prints a step's line to stdout, the bar out of its way, and takes the step as done.
    pub fn print(&self, line: &str) -> io::Result<()> {
        let printed = self.bar.suspend(|| print(line));
        self.bar.inc(1);
        printed
    }

    /// Takes the bar away.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// A line on stderr that tells a person what is waited for, and since when, until it is dropped; nothing where nobody looks.
#[derive(Debug)]
pub struct Waiting {
    bar: ProgressBar,
}

/// How often the line is drawn anew.
const TICK: Duration = Duration::from_millis(500);

impl Waiting {
    fn new(age: Duration, what: &str) -> Waiting {
        // The thread that draws sleeps meanwhile, and ends with the process: it keeps nobody.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_elapsed(age);
        let bar = match ProgressStyle::with_template("idem: {elapsed}: {wide_msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        bar.set_message(escape(what).into_owned());
        bar.enable_steady_tick(TICK);
        Waiting { bar }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Writes a command's result (a list, a key, a story, JSON) to stdout. A reader that went away has what it wanted.
pub fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// The same for bytes that are passed on as they are.
pub fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Asks a person a yes-or-no question on the terminal. Anything but yes is no.
pub fn ask(question: &str) -> io::Result<bool> {
    let mut stderr = io::stderr();
    stderr.write_all(format!("{} [y/N] ", escape(question)).as_bytes())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Tells whether a person can be asked: both the question and the answer need a terminal.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Tells how a table on stdout is to look.
pub fn look(color: Color) -> Look {
    let stdout = io::stdout();
    let width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    Look { colored: colored(color), width: width.filter(|_| stdout.is_terminal()) }
}

/// Tells whether stdout is to be coloured.
pub fn colored(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

fn same_file() -> bool {
    let id = |fd: std::os::fd::BorrowedFd<'_>| nix::sys::stat::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    let (stdout, stderr) = (io::stdout(), io::stderr());
    id(stdout.as_fd()).is_some_and(|out| id(stderr.as_fd()) == Some(out))
}
