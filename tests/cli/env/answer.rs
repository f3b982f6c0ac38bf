//! What an `idem` process answered, and sentences about it that fail with the whole answer in view.

use std::fmt;
use std::process::ExitStatus;

use serde_json::Value;

use super::schema::fits_schema;

/// The end of one process: its status and all that it wrote.
pub(crate) struct Answer {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    asked: String,
}

impl Answer {
    pub(super) fn new(asked: String, status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        Answer { status, stdout, stderr, asked }
    }

    /// The exit code, or nothing when a signal ended the process.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The bytes on stdout.
    pub(crate) fn stdout(&self) -> &[u8] {
        &self.stdout
    }

    /// stdout as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The bytes on stderr.
    pub(crate) fn stderr(&self) -> &[u8] {
        &self.stderr
    }

    /// stderr as text.
    pub(crate) fn messages(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Whether a line of idem's own says that this is a replay.
    pub(crate) fn is_marked_as_replay(&self) -> bool {
        self.messages().lines().any(|line| line.starts_with("idem: replay"))
    }

    /// Fails unless this is the exit code.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code(), Some(code), "another exit code was expected\n{self}");
        self
    }

    /// Fails unless stdout has exactly these bytes.
    #[track_caller]
    pub(crate) fn prints(&self, bytes: impl AsRef<[u8]>) -> &Self {
        let expected = bytes.as_ref();
        assert!(self.stdout == expected, "stdout should be {:?}\n{self}", String::from_utf8_lossy(expected));
        self
    }

    /// Fails unless stderr has these words.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(self.messages().contains(words), "stderr should say {words:?}\n{self}");
        self
    }

    /// Fails when stderr has these words.
    #[track_caller]
    pub(crate) fn does_not_say(&self, words: &str) -> &Self {
        assert!(!self.messages().contains(words), "stderr should not say {words:?}\n{self}");
        self
    }

    /// Fails unless stderr has exactly these bytes.
    #[track_caller]
    pub(crate) fn says_exactly(&self, bytes: impl AsRef<[u8]>) -> &Self {
        let expected = bytes.as_ref();
        assert!(self.stderr == expected, "stderr should be {:?}\n{self}", String::from_utf8_lossy(expected));
        self
    }

    /// Fails unless idem says that this is a replay.
    #[track_caller]
    pub(crate) fn is_a_replay(&self) -> &Self {
        assert!(self.is_marked_as_replay(), "a replay has to say that it is one\n{self}");
        self
    }

    /// Fails when idem says that this is a replay.
    #[track_caller]
    pub(crate) fn is_a_first_run(&self) -> &Self {
        assert!(!self.is_marked_as_replay(), "this is no replay\n{self}");
        self
    }

    /// Fails unless this is idem's own error: code 125, its own line on stderr, and the word that nothing was run.
    #[track_caller]
    pub(crate) fn refuses(&self) -> &Self {
        self.exits(125).prints("").says("nothing was run");
        assert!(self.messages().starts_with("idem: "), "an error is a line of idem's own\n{self}");
        self
    }

    /// The envelope: stdout has to be one line of JSON, as the published schema says.
    #[track_caller]
    pub(crate) fn envelope(&self) -> Value {
        let envelopes = self.envelopes();
        assert_eq!(envelopes.len(), 1, "stdout should be one line\n{self}");
        envelopes.into_iter().next().expect("one envelope")
    }

    /// One envelope for each line of stdout, as the published schema says.
    #[track_caller]
    pub(crate) fn envelopes(&self) -> Vec<Value> {
        let envelopes = self.json_lines();
        envelopes.iter().for_each(fits_schema);
        envelopes
    }

    /// The one line of stdout, JSON that is no envelope.
    #[track_caller]
    pub(crate) fn json_line(&self) -> Value {
        let mut lines = self.json_lines();
        assert_eq!(lines.len(), 1, "stdout should be one line\n{self}");
        lines.remove(0)
    }

    /// A value for each line of stdout, whatever JSON it is.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let text = self.text();
        assert!(text.is_empty() || text.ends_with('\n'), "the last line has no end\n{self}");
        let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}\n{self}"));
        text.lines().map(read).collect()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "--- {}\n--- {}", self.asked, self.status)?;
        writeln!(f, "--- stdout\n{}\n--- stderr\n{}", excerpt(&self.stdout), excerpt(&self.stderr))
    }
}

/// The text of a stream, cut where it is too long to read.
fn excerpt(bytes: &[u8]) -> String {
    match bytes.get(..4000) {
        Some(start) => format!("{}… ({} bytes)", String::from_utf8_lossy(start), bytes.len()),
        None => String::from_utf8_lossy(bytes).into_owned(),
    }
}
