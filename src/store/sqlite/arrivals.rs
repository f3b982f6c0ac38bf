//! The log of arrivals that ran nothing, a file beside the store that the next writer takes in.
//!
//! Why not an event in the database at once: a replay would be a process that commits *once*. Such processes never
//! start the write-ahead log anew, it grows without bound, and every later opening reads all of it. An append to a file
//! costs a replay next to nothing, and it waits for no writer.
//!
//! The file only ever grows; how far it was taken in stands in the database, changed in the transaction that inserts
//! the events. So a crash at any point neither loses a line nor takes one twice, and appending needs no lock. What was
//! taken in is given back to the file system by punching holes; where that can't be done the file merely stays large.
//!
//! A line: `claim kind milliseconds actor`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::{Whence, lseek};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::domain::claim::ClaimId;
use crate::domain::event::EventKind;
use crate::domain::timestamp::Timestamp;

/// How much one writer takes in at the most, in bytes: a long backlog must not become one caller's wait.
pub(super) const BATCH: usize = 64 * 1024;

/// How much of an actor's name is logged, in characters.
const MAX_ACTOR: usize = 256;

/// Opening waits for nobody, whatever somebody put in the log's place: a FIFO would keep a replay for ever.
const NO_WAIT: i32 = nix::libc::O_NONBLOCK;

/// The log of one store.
#[derive(Clone, Debug)]
pub(super) struct ArrivalsLog {
    path: PathBuf,
}

/// One arrival in the log.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    claim: ClaimId,
    kind: EventKind,
    at: Timestamp,
    actor: String,
}

impl ArrivalsLog {
    pub(super) fn new(path: PathBuf) -> Self {
        ArrivalsLog { path }
    }

    /// Appends an arrival. `sync`: those that aren't replays are on disk when this returns (design §11).
    pub(super) fn append(
        &self,
        claim: ClaimId,
        kind: EventKind,
        at: Timestamp,
        actor: &str,
        sync: bool,
    ) -> io::Result<()> {
        let mut file =
            OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(NO_WAIT).open(&self.path)?;
        let actor: String = actor.chars().take(MAX_ACTOR).collect();
        // One write: lines of several processes don't mix. The line break before it ends a line that a full disk cut, which
        // is passed over when read.
        file.write_all(format!("\n{claim} {kind} {} {}\n", at.0, actor.replace(['\n', '\0'], " ")).as_bytes())?;
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Tells whether there is anything to take in.
    pub(super) fn has_news(&self, conn: &Connection) -> rusqlite::Result<bool> {
        let length = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        if length == 0 {
            return Ok(false);
        }
        Ok(taken(conn)? != length)
    }

    /// Inserts one batch of logged arrivals as events. Returns what may be punched out after the commit.
    pub(super) fn take_in(&self, tx: &Transaction<'_>) -> rusqlite::Result<Option<Punch>> {
        let Ok(file) = OpenOptions::new().read(true).custom_flags(NO_WAIT).open(&self.path) else {
            return Ok(None);
        };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut from = taken(tx)?;
        if from > length {
            // Somebody removed the file; what is there now is all new.
            from = 0;
        }
        let Some((from, batch)) = read_lines(&file, from) else {
            return Ok(None);
        };
        for line in batch.split(|&byte| byte == b'\n').filter_map(parse) {
            insert(tx, &line)?;
        }
        let until = from + batch.len() as u64;
        tx.execute("UPDATE arrivals_log SET taken = ?1", params![until.cast_signed()])?;
        Ok(Some(Punch { from, until }))
    }

    /// Gives the space of what was taken in back to the file system.
    pub(super) fn punch(&self, punch: &Punch) {
        let punch_hole = |path: &Path| -> io::Result<()> {
            let file = OpenOptions::new().write(true).open(path)?;
            let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let (from, length) = (punch.from.cast_signed(), (punch.until - punch.from).cast_signed());
            fallocate(&file, mode, from, length).map_err(io::Error::from)
        };
        // A file system without holes keeps a larger file: nothing that a person would have to know.
        let _ = punch_hole(&self.path);
    }
}

/// A part of the log that is in the database now.
#[derive(Debug)]
pub(super) struct Punch {
    from: u64,
    until: u64,
}

fn taken(conn: &Connection) -> rusqlite::Result<u64> {
    conn.query_row("SELECT taken FROM arrivals_log", [], |row| row.get(0)).map(i64::cast_unsigned)
}

/// Reads whole lines from `from` on, one batch at the most, and returns where they begin. `None`: there is none yet.
fn read_lines(file: &File, from: u64) -> Option<(u64, Vec<u8>)> {
    // Past a hole: the database may be an older one, from a backup, that doesn't know of what was taken in since.
    let from = lseek(file, from.cast_signed(), Whence::SeekData).ok()?.cast_unsigned();
    let mut bytes = vec![0; BATCH];
    let read = file.read_at(&mut bytes, from).ok()?;
    // What follows the last line break is a line that somebody is just writing; a batch without one is no log of ours.
    let end = bytes[..read].iter().rposition(|&byte| byte == b'\n');
    let whole = if read == BATCH { Some(BATCH - 1) } else { None };
    bytes.truncate(end.or(whole)? + 1);
    Some((from, bytes))
}

/// Reads a line. `None` for one that was cut by a full disk, or lies in a hole (a store restored from a backup).
fn parse(line: &[u8]) -> Option<Line> {
    let mut parts = std::str::from_utf8(line).ok()?.trim_start_matches('\0').splitn(4, ' ');
    Some(Line {
        claim: parts.next()?.parse().ok()?,
        kind: EventKind::from_word(parts.next()?)?,
        at: Timestamp(parts.next()?.parse().ok()?),
        actor: parts.next()?.to_owned(),
    })
}

fn insert(tx: &Transaction<'_>, line: &Line) -> rusqlite::Result<()> {
    let mut known = tx.prepare_cached("SELECT 1 FROM claim WHERE id = ?1")?;
    if known.query_row([line.claim], |_| Ok(())).optional()?.is_none() {
        return Ok(());
    }
    super::write::insert_event(tx, line.claim, line.at, line.kind, &line.actor, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_survives_and_a_broken_one_is_passed_over() {
        let line = parse(b"12 replay 1700000000000 ann lee@host[7]").expect("a line");
        assert_eq!(line.claim, 12);
        assert_eq!(line.kind, EventKind::Replay);
        assert_eq!(line.actor, "ann lee@host[7]");
        assert!(parse(b"\x00\x0012 replay 17 ann@host[7]").is_some(), "a hole before it");
        for broken in [&b"12 rep"[..], b"", b"\xff replay 1 x"] {
            assert_eq!(parse(broken).map(|line| line.claim), None, "{broken:?}");
        }
    }

    #[test]
    fn a_hole_that_the_database_does_not_know_of_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = ArrivalsLog::new(folder.path().join("log"));
        let length = || std::fs::metadata(&log.path).map_or(0, |metadata| metadata.len());
        let append = || log.append(7, EventKind::Replay, Timestamp(1), "a@b[1]", false).expect("appended");
        while length() < 3 * BATCH as u64 {
            append();
        }
        let until = length();
        log.punch(&Punch { from: 0, until });
        append();
        let file = File::open(&log.path).expect("there");
        let (from, lines) = read_lines(&file, 0).expect("the last line");
        assert!(from > until - 4096, "from {from} of {until}");
        assert_eq!(lines.split(|&byte| byte == b'\n').filter_map(parse).count(), 1);
    }

    /// A log, and a database with the tables that it is taken into; claim 7 is there.
    fn log_and_tables() -> (tempfile::TempDir, ArrivalsLog, Connection) {
        let folder = tempfile::tempdir().expect("a folder");
        let log = ArrivalsLog::new(folder.path().join("log"));
        let conn = Connection::open_in_memory().expect("a database");
        let tables = "CREATE TABLE claim (id INTEGER); INSERT INTO claim VALUES (7);
                      CREATE TABLE event (claim, seq, at, kind, actor, detail);
                      CREATE TABLE arrivals_log (taken INTEGER); INSERT INTO arrivals_log VALUES (0)";
        conn.execute_batch(tables).expect("tables");
        (folder, log, conn)
    }

    /// Takes the log in, and says how many events there are and whether anything was there to take. No hole is punched: not
    /// every file system has them.
    fn take_in(log: &ArrivalsLog, conn: &mut Connection) -> (i64, bool) {
        let tx = conn.transaction().expect("a transaction");
        let taken = log.take_in(&tx).expect("taking in works").is_some();
        tx.commit().expect("a commit");
        (conn.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).expect("a count"), taken)
    }

    #[test]
    fn each_line_is_taken_in_once_though_it_stays_in_the_file() {
        let (_folder, log, mut conn) = log_and_tables();
        let append = |claim| log.append(claim, EventKind::Replay, Timestamp(1), "a@b[1]", true).expect("appended");
        assert!(!log.has_news(&conn).expect("asking works"), "no file");
        append(7);
        append(8); // Of a claim that isn't there.
        append(7);
        assert!(log.has_news(&conn).expect("asking works"));
        assert_eq!(take_in(&log, &mut conn), (2, true));
        assert!(!log.has_news(&conn).expect("asking works"));
        assert_eq!(take_in(&log, &mut conn), (2, false), "two that saw the same news");
        append(7);
        assert_eq!(take_in(&log, &mut conn), (3, true));
        std::fs::remove_file(&log.path).expect("removed");
        append(7);
        assert!(log.has_news(&conn).expect("asking works"));
        assert_eq!(take_in(&log, &mut conn), (4, true), "another file is all new");
    }

    #[test]
    fn a_line_that_is_being_written_waits_and_what_is_no_line_is_passed_over() {
        let (_folder, log, mut conn) = log_and_tables();
        let write = |text: &[u8]| {
            let mut file = OpenOptions::new().append(true).create(true).open(&log.path).expect("a file");
            file.write_all(text).expect("written");
        };
        write(b"\n7 rep");
        assert_eq!(take_in(&log, &mut conn), (0, true), "the line break before it");
        assert_eq!(take_in(&log, &mut conn), (0, false));
        write(b"lay 1 a@b[1]\n\n7 busy 2 c");
        assert_eq!(take_in(&log, &mut conn), (1, true));
        write(b"@d[2]\n");
        assert_eq!(take_in(&log, &mut conn), (2, true));
        write(&vec![b'x'; 2 * BATCH]);
        log.append(7, EventKind::Replay, Timestamp(1), "a\n@b[1]", false).expect("appended");
        while take_in(&log, &mut conn).1 {}
        let actors = "SELECT group_concat(actor, '|') FROM event ORDER BY seq";
        let actors: String = conn.query_row(actors, [], |row| row.get(0)).expect("actors");
        assert_eq!(actors, "a@b[1]|c@d[2]|a @b[1]");
    }

    #[test]
    fn a_hole_takes_nothing_that_follows() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = ArrivalsLog::new(folder.path().join("log"));
        std::fs::write(&log.path, vec![b'x'; 5 * 4096]).expect("written");
        log.punch(&Punch { from: 4096, until: 2 * 4096 });
        let left = std::fs::read(&log.path).expect("read");
        // Where there are no holes, all of it is left.
        assert!(left.len() == 5 * 4096 && left[2 * 4096..].iter().all(|&byte| byte == b'x'));
        assert!(left[..4096].iter().all(|&byte| byte == b'x'));
    }
}
