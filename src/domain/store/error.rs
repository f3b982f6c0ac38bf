//! Why a store can't be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::domain::claim::ClaimId;

/// Why a store can't be used. The message says what is wrong; the edge adds what was and wasn't run.
#[derive(Debug)]
pub enum StoreError {
    /// There is no home to keep the default store in.
    NoHome,
    /// A URL of a kind that this build has no store for.
    UnknownUrl(String),
    /// The folder of an explicitly named store doesn't exist.
    FolderMissing(PathBuf),
    /// The store's path is a folder or another thing that isn't a file.
    NotAFile(PathBuf),
    /// The store's file has more than one name (hard links).
    OtherNames(PathBuf),
    /// Another user owns this file or folder.
    ForeignOwner(PathBuf),
    /// Other users can write this file or folder.
    WritableByOthers(PathBuf),
    /// The folder is on a network file system (its name follows).
    NetworkFileSystem(PathBuf, &'static str),
    /// The store's file is empty: truncated, or never idem's.
    Empty(PathBuf),
    /// The store is gone, but its write-ahead log is there.
    LogWithoutStore(PathBuf),
    /// The file is no SQLite database, or one of another program.
    NotAStore(PathBuf),
    /// The store's schema is newer than this program knows.
    Newer {
        /// The store's file.
        path: PathBuf,
        /// The store's schema version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The store's content contradicts itself.
    Damaged(PathBuf, String),
    /// No space left.
    Full(PathBuf),
    /// The file system or the rights allow no writing.
    ReadOnly(PathBuf),
    /// A claim was pruned while it was read.
    Pruned(PathBuf, ClaimId),
    /// Another program keeps the store locked.
    Busy(PathBuf),
    /// A store's URL can't be used. Says why, and never quotes it: it could be the password.
    BadUrl(String),
    /// The server of a store (its URL without the password) isn't reached, or the connection broke.
    Unreachable(PathBuf, String),
    /// The server doesn't know the role or the database, or refuses the password.
    LoginRefused(PathBuf, String),
    /// There is no TLS to the server as it was asked for.
    Tls(PathBuf, String),
    /// The role may not do what idem does.
    NoRights(PathBuf, String),
    /// The server is a standby, or the database is set read-only.
    ReadOnlyServer(PathBuf, String),
    /// The claim was sent, its answer was lost, and whether it is recorded can't be looked up.
    ClaimUncertain(PathBuf, String),
    /// Something else failed: what was being done, and the error.
    Other(PathBuf, String),
}

impl StoreError {
    /// Makes one of an error of the system while doing something at this store.
    pub fn from_io(path: &Path, doing: &str, error: &io::Error) -> StoreError {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(path),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(path),
            _ => StoreError::Other(path, format!("{doing}: {error}")),
        }
    }

    /// Tells whether waiting can help: somebody ends a transaction, makes room, gives the rights back. What a store is not, or
    /// is no more, it doesn't become.
    pub fn may_pass(&self) -> bool {
        match self {
            StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::ReadOnly(_)
            | StoreError::Unreachable(..)
            | StoreError::LoginRefused(..)
            | StoreError::Tls(..)
            | StoreError::NoRights(..)
            | StoreError::ReadOnlyServer(..)
            | StoreError::Other(..) => true,
            StoreError::NoHome
            | StoreError::UnknownUrl(_)
            | StoreError::BadUrl(_)
            | StoreError::ClaimUncertain(..)
            | StoreError::FolderMissing(_)
            | StoreError::NotAFile(_)
            | StoreError::OtherNames(_)
            | StoreError::ForeignOwner(_)
            | StoreError::WritableByOthers(_)
            | StoreError::NetworkFileSystem(..)
            | StoreError::Empty(_)
            | StoreError::LogWithoutStore(_)
            | StoreError::NotAStore(_)
            | StoreError::Newer { .. }
            | StoreError::Damaged(..)
            | StoreError::Pruned(..) => false,
        }
    }

    /// Returns the error's kind as one word, for the JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            StoreError::NoHome => "no-home",
            StoreError::UnknownUrl(_) => "store-url",
            StoreError::FolderMissing(_) => "store-folder-missing",
            StoreError::NotAFile(_) => "store-not-a-file",
            StoreError::OtherNames(_) => "store-other-names",
            StoreError::ForeignOwner(_) => "store-foreign-owner",
            StoreError::WritableByOthers(_) => "store-writable-by-others",
            StoreError::NetworkFileSystem(..) => "store-network-file-system",
            StoreError::Empty(_) => "store-empty",
            StoreError::LogWithoutStore(_) => "store-log-without-store",
            StoreError::NotAStore(_) => "store-not-a-store",
            StoreError::Newer { .. } => "store-newer",
            StoreError::Damaged(..) => "store-damaged",
            StoreError::Full(_) => "store-full",
            StoreError::ReadOnly(_) => "store-read-only",
            StoreError::Pruned(..) => "claim-pruned",
            StoreError::Busy(_) => "store-busy",
            StoreError::BadUrl(_) => "store-url",
            StoreError::Unreachable(..) => "store-unreachable",
            StoreError::LoginRefused(..) => "store-login-refused",
            StoreError::Tls(..) => "store-tls",
            StoreError::NoRights(..) => "store-no-rights",
            StoreError::ReadOnlyServer(..) => "store-read-only",
            StoreError::ClaimUncertain(..) => "claim-uncertain",
            StoreError::Other(..) => "store-error",
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            StoreError::NoHome => "set HOME or XDG_STATE_HOME, or name a store with --store or IDEM_STORE",
            StoreError::UnknownUrl(_) => "name a file's path",
            StoreError::FolderMissing(_) => {
                "create the folder (mode 0700) if the path is right; idem creates only its default folder, since a \
                 mistyped path would be another ledger"
            }
            StoreError::NotAFile(_) => "name a file's path, such as /path/to/idem.db",
            StoreError::OtherNames(_) => {
                "remove the other names (find -samefile): each would have a log and locks of its own, and claims would be \
                 missed; a symbolic link is fine"
            }
            StoreError::ForeignOwner(_) => "use a store of your own, or give this one to the user who runs idem",
            StoreError::WritableByOthers(_) => {
                "name a store in a folder of your own with --store or IDEM_STORE; or, where it is meant for you alone and no \
                 shared folder such as /tmp, chmod go-w it"
            }
            StoreError::NetworkFileSystem(..) => {
                "name a store on a local file system with --store or IDEM_STORE; locks and shared memory don't hold \
                 over a network"
            }
            StoreError::Empty(_) => {
                "restore it from a backup if it had claims; if you made the empty file yourself, remove it and idem \
                 creates the store"
            }
            StoreError::LogWithoutStore(_) => {
                "restore the store beside its -wal file; to begin anew and forget every claim, remove the -wal file too"
            }
            StoreError::NotAStore(_) => "name another path with --store or IDEM_STORE",
            StoreError::Newer { .. } => "use the newer idem that made it",
            StoreError::Damaged(..) => {
                "restore it from a backup; until then nothing can be claimed, and what was claimed isn't known"
            }
            StoreError::Full(_) => "free some space",
            StoreError::ReadOnly(_) => "make the folder and the files writable for the user who runs idem",
            StoreError::Pruned(..) => {
                "call again: the claim is gone, and what was printed of its result may not be all of it"
            }
            StoreError::Busy(_) => "end the program that keeps the store locked (an open sqlite3 transaction?)",
            StoreError::BadUrl(_) => "write it as postgres://user@host:5432/database?sslmode=verify-full",
            StoreError::Unreachable(..) => "check the host, the port and the network, and that the server runs",
            StoreError::LoginRefused(..) => {
                "check the user, the database and the password: in the URL, in PGPASSWORD, or in ~/.pgpass (mode 0600)"
            }
            StoreError::Tls(..) => "check sslmode, and sslrootcert, sslcert and sslkey where they are given",
            StoreError::NoRights(..) => "grant them, or name a database whose owner the user is",
            StoreError::ReadOnlyServer(..) => "name the primary server, or add target_session_attrs=read-write",
            StoreError::ClaimUncertain(..) => {
                "call again when the store is reached; a claim that is there without a run is settled then"
            }
            StoreError::Other(..) => "see the cause above",
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreError::NoHome => write!(f, "there is no HOME to keep the store in"),
            StoreError::UnknownUrl(url) => write!(f, "there is no store for {url} in this build"),
            StoreError::FolderMissing(path) => write!(f, "the store's folder {} doesn't exist", path.display()),
            StoreError::NotAFile(path) => write!(f, "the store {} is not a regular file", path.display()),
            StoreError::OtherNames(path) => write!(f, "the store {} has other names (hard links)", path.display()),
            StoreError::ForeignOwner(path) => write!(f, "{} belongs to another user", path.display()),
            StoreError::WritableByOthers(path) => write!(f, "{} can be written by other users", path.display()),
            StoreError::NetworkFileSystem(path, name) => {
                write!(f, "the store's folder {} is on a network file system ({name})", path.display())
            }
            StoreError::Empty(path) => write!(f, "the store {} is an empty file", path.display()),
            StoreError::LogWithoutStore(path) => {
                write!(f, "the store {} is gone, but its write-ahead log is there", path.display())
            }
            StoreError::NotAStore(path) => write!(f, "{} is not a store of idem", path.display()),
            StoreError::Newer { path, found, known } => {
                write!(f, "the store {} has schema {found}, and this idem knows up to {known}", path.display())
            }
            StoreError::Damaged(path, detail) => write!(f, "the store {} is damaged: {detail}", path.display()),
            StoreError::Full(path) => write!(f, "no space is left for the store {}", path.display()),
            StoreError::ReadOnly(path) => write!(f, "the store {} can't be written", path.display()),
            StoreError::Pruned(_, id) => write!(f, "claim {id} was pruned while it was read"),
            StoreError::Busy(path) => write!(f, "the store {} is locked by another program", path.display()),
            StoreError::BadUrl(why) => write!(f, "the store's URL can't be used: {why}"),
            StoreError::Unreachable(path, why) => write!(f, "the store {} can't be reached: {why}", path.display()),
            StoreError::LoginRefused(path, why) => write!(f, "the store {} refused the login: {why}", path.display()),
            StoreError::Tls(path, why) => write!(f, "there is no safe way to the store {}: {why}", path.display()),
            StoreError::NoRights(path, why) => write!(f, "the store {} denies idem a right: {why}", path.display()),
            StoreError::ReadOnlyServer(path, why) => write!(f, "the store {} is read-only: {why}", path.display()),
            StoreError::ClaimUncertain(path, why) => {
                write!(f, "nobody knows whether the store {} has the claim: {why}", path.display())
            }
            StoreError::Other(path, detail) => write!(f, "the store {} failed: {detail}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}
