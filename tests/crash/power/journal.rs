//! What idem wrote, synced and renamed, read from strace's account of it.

use std::path::{Path, PathBuf};

use crate::strace::watch;

/// The calls that change files or make changes last, and the one that starts the command.
const CALLS: &str = "trace=openat,creat,write,pwrite64,writev,pwritev,fsync,fdatasync,ftruncate,fallocate,rename,renameat,\
                     renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,clone,clone3,vfork,fork";

/// One thing that happened to the store's folder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A file was opened that is made where it isn't there.
    Open {
        path: PathBuf,
    },
    /// Bytes were written; `at` none: at the end.
    Write {
        path: PathBuf,
        at: Option<usize>,
        bytes: Vec<u8>,
    },
    /// The file was made this long.
    Truncate {
        path: PathBuf,
        length: usize,
    },
    /// A hole was made.
    Punch {
        path: PathBuf,
        from: usize,
        length: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    MakeFolder {
        path: PathBuf,
    },
    /// All that was done to the file so far is on the disk; of a folder: the names in it.
    Sync {
        path: PathBuf,
    },
    /// The command was started.
    Spawn,
    Other,
}

/// strace's words for a trace that [`read`] reads: whole buffers, all text in hexadecimal.
pub(super) fn words() -> Vec<String> {
    let mut words = watch();
    words.extend(["-y", "-xx", "-s", "100000000", "-e", CALLS].map(str::to_owned));
    words
}

/// Reads a trace; what happened outside `root` is left out.
pub(super) fn read(trace: &str, root: &Path) -> Vec<Event> {
    assert!(!trace.is_empty(), "these tests need a working strace");
    trace.lines().filter_map(|line| event(line, root)).collect()
}

fn event(line: &str, root: &Path) -> Option<Event> {
    let (name, rest) = line.split_once('(')?;
    let (args, result) = rest.rsplit_once(" = ")?;
    if result.starts_with('-') {
        return None;
    }
    if ["clone", "clone3", "vfork", "fork"].contains(&name) {
        return (!args.contains("CLONE_THREAD")).then_some(Event::Spawn);
    }
    // Descriptors are told with their paths in angle brackets, strings stand in quotes, and neither has either within.
    let opened = || args.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(path, _)| text(path));
    let strings = || args.split('"').skip(1).step_by(2).map(bytes);
    let named = || strings().map(|path| path_of(&path));
    let number = |nth: usize| -> Option<usize> { args.trim_end_matches(')').rsplit(", ").nth(nth)?.parse().ok() };
    let written = || -> Option<usize> { result.parse().ok() };
    let event = match name {
        "openat" if args.contains("O_CREAT") => Event::Open { path: named().next()? },
        "pwrite64" => Event::Write { path: opened()?, at: Some(number(0)?), bytes: cut(strings().next()?, written()?) },
        "write" => Event::Write { path: opened()?, at: None, bytes: cut(strings().next()?, written()?) },
        "fsync" | "fdatasync" => Event::Sync { path: opened()? },
        "ftruncate" => Event::Truncate { path: opened()?, length: number(0)? },
        "fallocate" => Event::Punch { path: opened()?, from: number(1)?, length: number(0)? },
        "rename" | "renameat" | "renameat2" => Event::Rename { from: named().next()?, to: named().nth(1)? },
        "unlink" => Event::Unlink { path: named().next()? },
        "mkdir" => Event::MakeFolder { path: named().next()? },
        "openat" => return None,
        other => panic!("{other} is not reckoned with: {}", &line[..line.len().min(300)]),
    };
    event.path().is_none_or(|path| path.starts_with(root)).then_some(event)
}

impl Event {
    /// The event without its bytes.
    pub(super) fn short(&self) -> String {
        match self {
            Event::Write { path, at, bytes } => format!("{} bytes at {at:?} of {}", bytes.len(), path.display()),
            other => format!("{other:?}"),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Event::Open { path }
            | Event::Write { path, .. }
            | Event::Truncate { path, .. }
            | Event::Punch { path, .. }
            | Event::Rename { to: path, .. }
            | Event::Unlink { path }
            | Event::MakeFolder { path }
            | Event::Sync { path } => Some(path),
            Event::Spawn | Event::Other => None,
        }
    }
}

fn cut(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.truncate(length);
    bytes
}

/// The bytes of `\x2f\x74…`.
fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("hexadecimal");
    let byte = |four: &[u8]| u8::try_from(digit(four[2]) * 16 + digit(four[3])).expect("two digits");
    hex.as_bytes().chunks_exact(4).map(byte).collect()
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// A descriptor's path: in hexadecimal where it is a file's, plain where it is a pipe's.
fn text(word: &str) -> PathBuf {
    if word.starts_with("\\x") { path_of(&bytes(word)) } else { PathBuf::from(word) }
}
