//! The journal: one file that the workers and all commands append to. The kernel puts the lines of a file that is open for
//! appending into one order, whole, so that "before" is a fact. Beside it is the target, a file for each key.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::facts::Fact;

/// The variable that tells a command where it is.
pub(crate) const VARIABLE: &str = "STORM_JOURNAL";

/// The folder of a storm.
pub(crate) struct Journal {
    folder: PathBuf,
    file: File,
}

impl Journal {
    /// The journal in this folder; made where there is none.
    pub(crate) fn at(folder: &Path) -> Journal {
        fs::create_dir_all(folder.join("target")).expect("the target's folder");
        let file = append(&folder.join("journal"));
        Journal { folder: folder.to_owned(), file }
    }

    /// The one that this process was told of.
    pub(crate) fn of_this_process() -> Journal {
        Journal::at(Path::new(&std::env::var_os(VARIABLE).expect("a journal")))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a line, by one write.
    pub(crate) fn write(&self, fact: &Fact) {
        let mut line = serde_json::to_string(fact).expect("a fact in JSON");
        line.push('\n');
        (&self.file).write_all(line.as_bytes()).expect("a journal that can be written");
    }

    /// The write that the call is about: from here on the target has it. By one write, too.
    pub(crate) fn send(&self, key: &str, claim: i64) {
        append(&self.target(key)).write_all(format!("{claim}\n").as_bytes()).expect("a target");
    }

    /// The claims whose commands have sent this key's write, in order.
    pub(crate) fn sent(&self, key: &str) -> Vec<i64> {
        let text = fs::read_to_string(self.target(key)).unwrap_or_default();
        text.lines().map(|line| line.parse().expect("a claim's number")).collect()
    }

    fn target(&self, key: &str) -> PathBuf {
        self.folder.join("target").join(key)
    }

    /// All that was written.
    pub(crate) fn read(&self) -> Vec<Fact> {
        let text = fs::read_to_string(self.folder.join("journal")).expect("the journal");
        let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        text.lines().map(read).collect()
    }
}

fn append(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).expect("a file to append to")
}
