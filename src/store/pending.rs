//! The files of outcomes that a store could not take: kept on this host until somebody records them.
//!
//! Invariant: a file appears under its name whole and synced, its folder's entry too, and whoever works on one holds the
//! lock on it. So an outcome is recorded by one process at a time, and one that is found recorded is only removed.
//!
//! Beside a store in a file first, where every arrival at that store looks, whatever its home; else in the state folder.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::libc;

use super::{Location, Place, beside, guard};
use crate::domain::claim::LockPlace;
use crate::domain::pending::{FORMAT, Format, Name, Pending, digest};
use crate::domain::store::StoreError;
use crate::lock::{self, Mode};

/// The byte of a pending file that is locked by whoever works on it.
const WORK: i64 = 0;

/// How often a folder is made anew that somebody else has just emptied and removed.
const TRIES: usize = 5;

/// How many unusable files of one outcome are told apart by their names.
const MOST_BAD: usize = 1000;

/// How much is read or written at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// A pending file that this process has locked: nobody else works on it until this is dropped.
#[derive(Debug)]
pub struct Kept {
    _locked: File,
    path: PathBuf,
}

/// A pending file that was seen, and maybe isn't there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path.
    pub path: PathBuf,
    /// What its name tells.
    pub name: Name,
    /// Whether it lies beside its store, which then is told by the place.
    beside: bool,
}

/// What is kept of this store's outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Those that wait.
    pub waiting: Vec<Entry>,
    /// Files that nobody could use.
    pub bad: Vec<Entry>,
}

/// What came of taking a file up.
#[derive(Debug)]
pub enum Taken {
    /// It is this process's to record.
    Mine(Box<Pending>, Kept),
    /// Somebody else has recorded it.
    Gone,
    /// Somebody else is at it: its owner, who goes on trying, or another one who found it.
    InUse,
    /// It is of a newer idem, and left for that.
    Newer(u64),
    /// It is nothing that can be used, and why. It was set aside under this name.
    Bad(PathBuf, String),
}

impl Location {
    /// Returns the folders for pending outcomes, the best first, and whether it is one beside the store.
    fn pending_folders(&self) -> impl Iterator<Item = (PathBuf, bool)> {
        let state = self.state.as_ref().map(|state| (state.join("pending"), false));
        let beside = match &self.place {
            Place::Sqlite(place) => Some((beside(&place.path, "-pending"), true)),
            #[cfg(feature = "postgres")]
            Place::Postgres(_) => None,
        };
        [beside, state].into_iter().flatten()
    }
}

impl Seen {
    /// Tells whether there is anything at all.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.bad.is_empty()
    }

    /// Returns what there is of the attempt with this lock.
    pub fn of(mut self, lock: LockPlace) -> Seen {
        let token = lock.token();
        self.waiting.retain(|entry| entry.name.token == token);
        self.bad.retain(|entry| entry.name.token == token);
        self
    }
}

/// Looks what is kept of a store's outcomes. Where there is nothing, which is nearly always, it costs one call a folder.
pub fn look(location: &Location) -> Result<Seen, StoreError> {
    let mut seen = Seen::default();
    for (folder, beside) in location.pending_folders() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // Where this user can't look it can have put nothing: a home that isn't there or isn't its own.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
                ) =>
            {
                continue;
            }
            Err(error) => return Err(StoreError::from_io(&folder, "looking for pending outcomes", &error)),
        };
        check_folder(&folder)?;
        let store = digest(&location.identity());
        for entry in entries {
            let entry = entry.map_err(|error| StoreError::from_io(&folder, "looking for pending outcomes", &error))?;
            let file_name = entry.file_name();
            let Some((name, ending)) = file_name.to_str().and_then(Name::parse) else { continue };
            if !beside && name.store != store {
                // Another store's, in the folder that all of them share.
                continue;
            }
            let group = match ending {
                "" => &mut seen.waiting,
                ending if ending.ends_with(".bad") => &mut seen.bad,
                _ => continue,
            };
            group.push(Entry { path: entry.path(), name, beside });
        }
    }
    seen.waiting.sort_by_key(|entry| entry.name.id);
    Ok(seen)
}

/// Keeps an outcome in the first folder that takes it.
pub fn keep(location: &Location, pending: &Pending) -> Result<Kept, StoreError> {
    let mut result = Err(StoreError::NoHome);
    for (folder, beside) in location.pending_folders() {
        result = keep_in(&folder, beside, pending);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn keep_in(folder: &Path, beside: bool, pending: &Pending) -> Result<Kept, StoreError> {
    let failed = |error: &io::Error| StoreError::from_io(folder, "keeping the outcome", error);
    for _ in 0..TRIES {
        make_folder(folder, beside)?;
        match write(folder, pending) {
            // Somebody who had emptied the folder has removed it since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(kept) => return Ok(kept),
            Err(error) => {
                let _ = std::fs::remove_dir(folder);
                return Err(failed(&error));
            }
        }
    }
    Err(failed(&io::ErrorKind::NotFound.into()))
}

/// Makes the folder where it isn't there, for its owner alone, and checks it.
fn make_folder(folder: &Path, beside: bool) -> Result<(), StoreError> {
    if folder.is_dir() {
        return check_folder(folder);
    }
    if !beside {
        guard::create_folder(folder)?;
        return check_folder(folder);
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StoreError::from_io(folder, "creating the folder", &error));
        }
        _ => {}
    }
    // Somebody else who has made it may not have come to that yet.
    guard::sync_folder(folder.parent().unwrap_or(Path::new("/")))?;
    check_folder(folder)
}

fn check_folder(folder: &Path) -> Result<(), StoreError> {
    let metadata = match folder.metadata() {
        Ok(metadata) => metadata,
        // Removed meanwhile: nobody has anything in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::from_io(folder, "looking at the folder", &error)),
    };
    if !metadata.is_dir() {
        return Err(StoreError::FolderMissing(folder.to_owned()));
    }
    guard::check_rights(folder, &metadata)
}

/// Writes the file under another name, locked and synced, then moves it into place and syncs the folder.
///
/// Locked before it has its name: *the owner moves it into place; an arrival finds it and records it; the owner, who goes on
/// trying, records it too*, as a late outcome of its own.
fn write(folder: &Path, pending: &Pending) -> io::Result<Kept> {
    let path = folder.join(pending.name().to_string());
    let unfinished = folder.join(format!("{}.new", pending.name()));
    // Of this attempt only its owner writes one, and it has none unfinished but of an earlier try.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&unfinished)?;
    let fill = || {
        lock::try_lock(&file, WORK, Mode::Exclusive)?;
        let mut buffer = BufWriter::with_capacity(BLOCK, &file);
        serde_json::to_writer(&mut buffer, pending)?;
        buffer.write_all(b"\n")?;
        buffer.flush()?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        File::open(folder)?.sync_all()
    };
    if let Err(error) = fill() {
        let _ = std::fs::remove_file(&unfinished);
        return Err(error);
    }
    Ok(Kept { _locked: file, path })
}

/// Takes a file up, to record what it says. `wait`: whether somebody else who is at it is waited for.
pub fn take(location: &Location, entry: &Entry, wait: bool) -> Result<Taken, StoreError> {
    let failed = |error: io::Error| StoreError::from_io(&entry.path, "reading the outcome", &error);
    let mut options = OpenOptions::new();
    // Neither through a link nor waiting for a pipe's other end.
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(&entry.path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Taken::Gone),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EISDIR | libc::ENXIO)) => {
            return set_aside(entry, "it is no regular file");
        }
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if let Some(why) = distrust(&entry.path, &metadata) {
        return set_aside(entry, &why);
    }
    if wait {
        lock::lock(&file, WORK, Mode::Exclusive).map_err(failed)?;
    } else if !lock::try_lock(&file, WORK, Mode::Exclusive).map_err(failed)? {
        return Ok(Taken::InUse);
    }
    // Whoever had it locked may have recorded and removed it.
    let same =
        entry.path.symlink_metadata().is_ok_and(|now| (now.dev(), now.ino()) == (metadata.dev(), metadata.ino()));
    if !same {
        return Ok(Taken::Gone);
    }
    let pending = match read(&file) {
        Ok(Ok(pending)) => pending,
        Ok(Err(newer)) => return Ok(Taken::Newer(newer)),
        Err(error) if error.is_io() => return Err(failed(error.into())),
        Err(error) => return set_aside(entry, &format!("it can't be read: {error}")),
    };
    if pending.name() != entry.name || (!entry.beside && pending.store != location.identity()) {
        return set_aside(entry, "what it says doesn't fit its name");
    }
    Ok(Taken::Mine(Box::new(pending), Kept { _locked: file, path: entry.path.clone() }))
}

/// Reads an outcome, or the number of a newer format.
fn read(file: &File) -> Result<Result<Pending, u64>, serde_json::Error> {
    let read = serde_json::from_reader(BufReader::with_capacity(BLOCK, file));
    if read.as_ref().is_err_and(|error: &serde_json::Error| !error.is_io()) {
        let mut file = file;
        file.rewind().map_err(serde_json::Error::io)?;
        let format = serde_json::from_reader(BufReader::with_capacity(BLOCK, file));
        if let Ok(Format { number }) = format
            && number > FORMAT
        {
            return Ok(Err(number));
        }
    }
    read.map(Ok)
}

/// Says why a file isn't to be trusted.
fn distrust(path: &Path, metadata: &Metadata) -> Option<String> {
    if !metadata.is_file() {
        return Some("it is no regular file".to_owned());
    }
    if metadata.nlink() > 1 {
        return Some("it has other names (hard links)".to_owned());
    }
    guard::check_rights(path, metadata).err().map(|error| error.to_string())
}

/// Moves a file out of the way that can't be used. It is never removed: somebody may still read from it what happened.
pub fn set_aside(entry: &Entry, why: &str) -> Result<Taken, StoreError> {
    for number in 1..MOST_BAD {
        let ending = if number == 1 { "bad".to_owned() } else { format!("{number}.bad") };
        let aside = PathBuf::from(format!("{}.{ending}", entry.path.display()));
        match renameat2(AT_FDCWD, &entry.path, AT_FDCWD, &aside, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => return Ok(Taken::Bad(aside, why.to_owned())),
            Err(Errno::ENOENT) => return Ok(Taken::Gone),
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(StoreError::from_io(&entry.path, "setting it aside", &errno.into())),
        }
    }
    Err(StoreError::Other(entry.path.clone(), "too many files of this name were set aside".to_owned()))
}

impl Kept {
    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, whose outcome is recorded, and its folder if that is empty then: the next look costs less. After a
    /// power cut it may be there again, and is then found to be recorded.
    pub fn remove(self) -> Result<(), StoreError> {
        std::fs::remove_file(&self.path)
            .map_err(|error| StoreError::from_io(&self.path, "removing what is recorded", &error))?;
        let _ = self.path.parent().map(std::fs::remove_dir);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::domain::claim::{Chunk, Effect, Stream};
    use crate::domain::end::{End, EndTerms};
    use crate::domain::key::Key;
    use crate::domain::store::Finish;
    use crate::domain::timestamp::Timestamp;

    fn pending(location: &Location, offset: i64) -> Pending {
        let terms = EndTerms {
            effect: Effect::Local,
            landed_exit: Default::default(),
            not_landed_exit: Default::default(),
            keep_failure: false,
            marks: false,
        };
        let end = End::Exited(0);
        let actor = "ada@host[1]".to_owned();
        let finish = Finish { end, terms, exit_code: Some(0), signal: None, missing: 0, recorded: 3, actor };
        Pending {
            store: location.identity(),
            key: Key::of("x"),
            id: Some(offset),
            lock: LockPlace { offset, inode: 1 },
            at: Timestamp(5),
            finish,
            rest: vec![Chunk { stream: Stream::Stdout, data: b"out".to_vec() }],
        }
    }

    /// A place with a folder for the store and a state folder that isn't there yet.
    fn place() -> (tempfile::TempDir, Location) {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("stores")).expect("the store's folder");
        let state = Some(root.path().join("home/state/idem"));
        let location = Location::parse(Path::new("stores/idem.db"), root.path(), state).expect("a location");
        (root, location)
    }

    fn first(location: &Location) -> Entry {
        look(location).expect("a look").waiting.into_iter().next().expect("an outcome")
    }

    #[test]
    fn what_is_kept_is_found_taken_and_gone() {
        let (root, location) = place();
        assert_eq!(look(&location).expect("a look"), Seen::default());
        let kept = keep(&location, &pending(&location, 7)).expect("kept");
        let folder = root.path().join("stores/idem.db-pending");
        assert_eq!(kept.path().parent(), Some(folder.as_path()));
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(kept.path())), (0o700, 0o600));
        let entry = first(&location);
        assert!(matches!(take(&location, &entry, false).expect("asked"), Taken::InUse), "its owner is at it");
        drop(kept);
        let Taken::Mine(read, mine) = take(&location, &entry, false).expect("taken") else { panic!("not taken") };
        assert_eq!(read.rest, pending(&location, 7).rest);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| take(&location, &entry, true).expect("waited"));
            mine.remove().expect("removed");
            assert!(matches!(other.join().expect("no panic"), Taken::Gone), "who waited finds it recorded");
        });
        assert!(!folder.exists(), "an empty folder costs every look");
    }

    #[test]
    fn where_the_store_has_no_room_the_state_folder_has() {
        let (root, location) = place();
        // A file in the folder's place stops root too.
        std::fs::write(root.path().join("stores/idem.db-pending"), "").expect("a file");
        let kept = keep(&location, &pending(&location, 7)).expect("kept");
        assert!(kept.path().starts_with(root.path().join("home/state/idem/pending")), "{:?}", kept.path());
        drop(kept);
        let other = Location::parse(Path::new("stores/other.db"), root.path(), location.state.clone()).expect("other");
        assert!(look(&other).expect("a look").is_empty(), "another store's");
        assert!(matches!(take(&location, &first(&location), false).expect("taken"), Taken::Mine(..)));
        std::fs::write(root.path().join("home/state/idem/pending2"), "").expect("a file");
        let nowhere = Location { state: Some(root.path().join("home/state/idem/pending2")), ..location };
        assert!(keep(&nowhere, &pending(&nowhere, 8)).is_err());
    }

    #[test]
    fn what_is_not_to_be_trusted_is_set_aside_and_never_removed() {
        type Spoil = fn(&Path);
        let spoil: [(&str, Spoil); 6] = [
            ("cut off", |path| {
                let text = std::fs::read(path).expect("readable");
                std::fs::write(path, &text[..text.len() / 2]).expect("written");
            }),
            ("a link", |path| {
                std::fs::rename(path, path.with_extension("away")).expect("moved");
                std::os::unix::fs::symlink(path.with_extension("away"), path).expect("a link");
            }),
            ("writable by others", |path| {
                std::fs::set_permissions(path, PermissionsExt::from_mode(0o622)).expect("chmod");
            }),
            ("two names", |path| std::fs::hard_link(path, path.with_extension("twin")).expect("a link")),
            ("a folder", |path| {
                std::fs::remove_file(path).expect("removed");
                std::fs::create_dir(path).expect("a folder");
            }),
            ("another outcome", |path| {
                let text = std::fs::read_to_string(path).expect("readable");
                std::fs::write(path, text.replacen(r#""claim":7"#, r#""claim":8"#, 1)).expect("written");
            }),
        ];
        for (what, spoil) in spoil {
            let (_root, location) = place();
            let path = keep(&location, &pending(&location, 7)).expect("kept").path().to_owned();
            let entry = first(&location);
            spoil(&path);
            let Taken::Bad(aside, _) = take(&location, &entry, false).expect("asked") else { panic!("{what}: used") };
            assert!(!path.exists() && aside.symlink_metadata().is_ok(), "{what}");
            let seen = look(&location).expect("a look");
            assert_eq!((seen.waiting.len(), seen.bad.len()), (0, 1), "{what}");
            // A second one doesn't take its place.
            std::fs::write(&path, "{").expect("another one");
            assert!(matches!(take(&location, &entry, false).expect("asked"), Taken::Bad(..)));
            assert_eq!(look(&location).expect("a look").of(LockPlace { offset: 7, inode: 1 }).bad.len(), 2, "{what}");
        }
    }

    #[test]
    fn one_of_a_newer_idem_is_left_for_that() {
        let (_root, location) = place();
        let path = keep(&location, &pending(&location, 7)).expect("kept").path().to_owned();
        std::fs::write(&path, r#"{"idem_pending":2,"claim":{"new":"shape"}}"#).expect("written");
        assert!(matches!(take(&location, &first(&location), false).expect("asked"), Taken::Newer(2)));
        assert!(path.exists());
    }
}
