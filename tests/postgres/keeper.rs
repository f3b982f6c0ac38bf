//! What outlives this process for a moment: a shell that undoes what a test did to the machine, however the test ends.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A shell that takes orders, a line each, until its stdin ends: by [`Drop`], or because this process is gone, killed or
/// not. Whatever it started is its child and is ended then; no process id is ever looked up.
pub(crate) struct Keeper {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    /// Starts it. The script reads orders and answers each with one line; its arguments are `$1`, `$2`…
    pub(crate) fn start(script: &str, folder: &Path, args: &[&str]) -> Keeper {
        // Its answer to somebody who was killed meanwhile must not be its own end.
        let script = format!("trap '' PIPE\n{script}");
        let mut shell = Command::new("setsid")
            .args(["sh", "-c", &script, "keeper"])
            .args(args)
            .env_clear()
            .env("PATH", search_path())
            .env("LC_ALL", "C")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Nobody who waits for the end of the tests' own streams must wait for it.
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().expect("its answers"));
        Keeper { shell, orders, answers }
    }

    /// Gives an order and waits for its answer.
    #[track_caller]
    pub(crate) fn order(&mut self, order: &str) -> String {
        let orders = self.orders.as_mut().expect("a shell that takes orders");
        writeln!(orders, "{order}").expect("a shell that takes orders");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("an answer");
        assert!(answer.ends_with('\n'), "the shell ended at {order:?}");
        answer.trim_end().to_owned()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

/// `PATH`, with the folders that administrators have in theirs.
pub(crate) fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}
