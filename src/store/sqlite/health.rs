//! Looking at a store's health: its place from outside, and what is in effect inside. Changes nothing.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statfs::statfs;
use nix::unistd::geteuid;
use rusqlite::Connection;

use super::create;
use super::space::{self, pragma};
use crate::domain::health::{Finding, Integrity, Level};
use crate::domain::size::Size;
use crate::domain::store::StoreError;
use crate::store::{SqlitePlace, beside, guard};

/// Below this much free space somebody should make room: the default limit of one command's output, and a little.
const LITTLE_SPACE: u64 = 100 << 20;

/// From here on the write-ahead log is longer than runs leave it.
const LONG_LOG: u64 = 64 << 20;

/// Looks at the folder, the file system and the files of a store, whether it can be opened or not.
pub fn look_at_place(place: &SqlitePlace) -> Vec<Finding> {
    let folder = place.path.parent().unwrap_or(Path::new("/"));
    let mut findings = Vec::new();
    let Ok(metadata) = std::fs::metadata(folder) else {
        if place.create_folder {
            findings.push(Finding::new("folder", Level::Note, "the folder isn't there yet: the first run makes it"));
        } else {
            findings.push(Finding::unusable(&StoreError::FolderMissing(folder.to_owned())));
        }
        return findings;
    };
    findings.push(match guard::check_folder(folder) {
        Ok(()) => Finding::fine("folder", format!("{} ({})", folder.display(), rights(&metadata))),
        Err(error) => Finding::unusable(&error),
    });
    findings.extend(file_system(folder));
    findings.extend(place.files().iter().filter_map(|path| file(path)));
    findings.extend(leftovers(place));
    findings
}

fn file_system(folder: &Path) -> Vec<Finding> {
    let Ok(kind) = statfs(folder) else { return Vec::new() };
    let magic = kind.filesystem_type().0;
    let name = guard::network_name(magic).map_or_else(|| guard::local_name(magic), str::to_owned);
    let mut findings = vec![match name.as_str() {
        "tmpfs" => Finding::new("file-system", Level::Note, "tmpfs: in memory, so every claim is gone after a reboot"),
        "overlayfs" => Finding::new(
            "file-system",
            Level::Note,
            "overlayfs: a container's own layer, which goes with the container",
        ),
        _ => Finding::fine("file-system", name),
    }];
    let free = kind.blocks_available().saturating_mul(u64::try_from(kind.block_size()).unwrap_or(0));
    let message = format!("{} are free", Size(free));
    findings.push(if free < LITTLE_SPACE {
        Finding::attention("free-space", message, "make room: on a full disk nothing can be claimed")
    } else {
        Finding::fine("free-space", message)
    });
    findings
}

/// Looks at one of the store's files, where it is there.
fn file(path: &Path) -> Option<Finding> {
    let metadata = path.symlink_metadata().ok()?;
    let told = format!("{} ({}, {})", path.display(), rights(&metadata), Size(metadata.blocks() * 512));
    Some(if metadata.uid() != geteuid().as_raw() {
        Finding::attention("file", format!("{told} belongs to another user"), "give it to the user who runs idem")
    } else if !metadata.is_file() {
        Finding::attention(
            "file",
            format!("{told} is no regular file"),
            "name a file's path, such as /path/to/idem.db, if this one was mistyped; else see what is in its place",
        )
    } else if metadata.mode() & 0o077 != 0 {
        let hint = format!("chmod 600 {}: params and output are in there", path.display());
        Finding::attention("file", format!("{told} can be used by other users"), hint)
    } else if path.as_os_str().to_string_lossy().ends_with("-wal") && metadata.len() > LONG_LOG {
        let hint = "runs shorten it once nobody reads the store: look for a program that keeps it open";
        Finding::attention("file", format!("{told} is long"), hint)
    } else {
        Finding::fine("file", told)
    })
}

/// What a killed first run or another program has left.
fn leftovers(place: &SqlitePlace) -> Vec<Finding> {
    let path = &place.path;
    let left = ["-new", "-new-wal", "-new-shm", "-new-journal", "-journal"].map(|ending| beside(path, ending));
    let there = left.iter().filter(|path| path.symlink_metadata().is_ok());
    there
        .map(|path| {
            let message = format!("{} was left by a run that was killed", path.display());
            Finding::attention("leftover", message, "remove it while no idem runs")
        })
        .collect()
}

fn rights(metadata: &Metadata) -> String {
    format!("mode {:04o}, owner uid {}", metadata.mode() & 0o7777, metadata.uid())
}

/// Looks at what is in effect in an open store.
pub(super) fn examine(conn: &Connection, integrity: Integrity) -> rusqlite::Result<Vec<Finding>> {
    let version = pragma(conn, "user_version")?;
    let mut findings = vec![Finding::fine("schema", format!("version {version}, of {} known", create::VERSION))];
    let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    findings.push(if mode == "wal" {
        Finding::fine("journal", "write-ahead log")
    } else {
        let hint = "run `PRAGMA journal_mode = WAL` on it by the sqlite3 program while no idem runs";
        Finding::attention("journal", format!("journal mode {mode} instead of a write-ahead log"), hint)
    });
    let synced = pragma(conn, "synchronous")?;
    findings.push(if synced >= 2 {
        Finding::fine("sync", "claims and outcomes are synced to disk (synchronous=FULL)")
    } else {
        let hint = "use a build of idem whose SQLite syncs by default";
        Finding::attention("sync", format!("synchronous={synced}: a power cut can lose claims"), hint)
    });
    let size = format!("{}, of which {} are free within", Size(space::size(conn)?), Size(space::free(conn)?));
    findings.push(if pragma(conn, "auto_vacuum")? == space::INCREMENTAL {
        Finding::fine("size", size)
    } else {
        Finding::new("size", Level::Note, format!("{size}; the file can't shrink"))
            .hint("later claims use what is free; docs/storage.md says how to let the file shrink once")
    });
    findings.push(whole(conn, integrity)?);
    Ok(findings)
}

fn whole(conn: &Connection, integrity: Integrity) -> rusqlite::Result<Finding> {
    let (check, done) = match integrity {
        Integrity::Full => ("integrity_check", "every page and every index"),
        Integrity::Quick => {
            ("quick_check", "every page, but not the indexes against their rows (--integrity full does)")
        }
        Integrity::None => return Ok(Finding::new("integrity", Level::Note, "not looked at")),
    };
    let mut statement = conn.prepare(&format!("PRAGMA {check}(10)"))?;
    let said: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(if said == ["ok"] {
        Finding::fine("integrity", format!("whole: {done}"))
    } else {
        let hint = "stop every idem, keep a copy of the files, and restore the store from a backup";
        Finding::attention("integrity", format!("damaged: {}", said.join("; ")), hint)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("rights");
    }

    /// What is said of a file: its level and its words.
    fn told(path: &Path) -> (Level, String) {
        let finding = file(path).expect("it is there");
        (finding.level, finding.message)
    }

    #[test]
    fn a_file_of_the_store_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("idem.db");
        assert!(file(&path).is_none(), "what isn't there is no finding");
        fs::write(&path, "").expect("a file");
        set_mode(&path, 0o600);
        let (level, message) = told(&path);
        assert_eq!(level, Level::Fine);
        assert!(message.contains("(mode 0600, owner uid "), "{message}");
        for mode in [0o604, 0o640, 0o611] {
            set_mode(&path, mode);
            let (level, message) = told(&path);
            assert_eq!(level, Level::Attention);
            assert!(message.contains("can be used by other users"), "{message}");
        }
        let (level, message) = told(folder.path());
        assert_eq!(level, Level::Attention);
        assert!(message.contains("is no regular file"), "{message}");
    }

    #[test]
    fn a_long_log_is_one_that_runs_would_not_leave() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, length, level) in [
            ("idem.db-wal", LONG_LOG, Level::Fine),
            ("idem.db-wal", LONG_LOG + 1, Level::Attention),
            ("idem.db", LONG_LOG + 1, Level::Fine),
        ] {
            let path = folder.path().join(name);
            File::create(&path).and_then(|file| file.set_len(length)).expect("a file full of holes");
            set_mode(&path, 0o600);
            assert_eq!(told(&path).0, level, "{name} of {length} bytes");
        }
    }

    #[test]
    fn the_place_is_looked_at_whether_there_is_a_store_or_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = SqlitePlace::at(folder.path().join("idem.db"), false);
        let checks = |place: &SqlitePlace| -> Vec<&'static str> {
            look_at_place(place).iter().map(|finding| finding.check).collect()
        };
        set_mode(folder.path(), 0o700);
        assert_eq!(checks(&place), ["folder", "file-system", "free-space"]);
        for ending in ["", "-arrivals", "-new"] {
            File::create(beside(&place.path, ending)).expect("a file");
        }
        assert_eq!(checks(&place), ["folder", "file-system", "free-space", "file", "file", "leftover"]);
        let missing = folder.path().join("none/idem.db");
        for (create_folder, level) in [(true, Level::Note), (false, Level::Unusable)] {
            let findings = look_at_place(&SqlitePlace::at(missing.clone(), create_folder));
            assert_eq!(findings.iter().map(|finding| finding.level).collect::<Vec<_>>(), [level]);
        }
    }
}
