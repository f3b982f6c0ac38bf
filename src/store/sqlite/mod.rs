//! The store in an SQLite file (design §11).
//!
//! Invariant: every write is one immediate transaction in the writers' queue, and a claim's and an outcome's commit is
//! synced (`synchronous=FULL`). Reading takes no lock that a writer could hold.

mod arrivals;
mod checkpoint;
mod create;
mod error;
mod group;
pub mod health;
mod listing;
mod open;
pub mod place;
mod prune;
mod queue;
mod read;
mod rows;
mod space;
mod stats;
mod write;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::arrivals::ArrivalsLog;
use self::error::from_sqlite;
use self::queue::{LogDuty, Queue};
use super::{SqlitePlace, beside};
use crate::domain::claim::{Chunk, Claim, ClaimId, LockPlace, Mark, NewClaim, Stream};
use crate::domain::event::{Event, EventKind, NewEvent};
use crate::domain::group::{Emitted, Enclosing, Member};
use crate::domain::health::{Finding, Integrity};
use crate::domain::key::Key;
use crate::domain::moment::Moment;
use crate::domain::prune::{Pruned, Pruning, Reached, Space};
use crate::domain::stats::Stats;
use crate::domain::store::{
    ClaimRef, Claimed, Filter, Finish, Finished, Found, Listed, Marked, Store, StoreError, Transition, Which,
};
use crate::host::uptime;

/// How often somebody looks who isn't woken by a lock.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The longest pause between two pieces of work that nobody waits for.
const MOST_PAUSE: Duration = Duration::from_millis(10);

/// The longest time that such work waits for whoever is taking the log in.
const MOST_WAIT: Duration = Duration::from_secs(1);

/// A store in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    conn: Connection,
    path: PathBuf,
    lock_path: PathBuf,
    /// Opened by the first write: a replay needs none.
    queue: Option<Queue>,
    /// How long a write waits for its turn and for other programs; `None`: for its turn as long as it takes.
    patience: Option<Duration>,
    log: ArrivalsLog,
    made_where_told: bool,
}

/// Returns the version of SQLite.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

impl SqliteStore {
    /// Opens a store, creating it where it isn't there.
    pub fn open(place: &SqlitePlace) -> Result<SqliteStore, StoreError> {
        let opened = open::open(place)?;
        Ok(SqliteStore {
            conn: opened.conn,
            log: ArrivalsLog::new(beside(&opened.path, "-arrivals")),
            path: opened.path,
            made_where_told: opened.made_where_told,
            lock_path: place.lock_path(),
            queue: None,
            patience: None,
        })
    }

    /// Opens a store if it is there. To look is not to make.
    pub fn open_existing(place: &SqlitePlace) -> Result<Option<SqliteStore>, StoreError> {
        if open::is_missing(place) { Ok(None) } else { SqliteStore::open(place).map(Some) }
    }

    fn read<T>(&mut self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        read(&self.conn).map_err(|error| from_sqlite(&self.path, &error))
    }

    /// Does something in the writers' queue.
    fn in_turn<T>(&mut self, act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let queue = Queue::opened(&mut self.queue, &self.lock_path)?;
        let turn = match self.patience {
            None => queue.turn().map(Some),
            Some(patience) => queue.turn_within(patience),
        };
        let turn = turn.map_err(|error| StoreError::from_io(&self.path, "waiting for the turn to write", &error))?;
        let Some(_turn) = turn else { return Err(StoreError::Busy(self.path.clone())) };
        act(&mut self.conn).map_err(|error| from_sqlite(&self.path, &error))
    }

    /// Runs one write transaction in the writers' queue. A claim's: its end, or another run, sees to the log.
    fn write_only<T>(&mut self, write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.in_turn(|conn| {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = write(&tx)?;
            tx.commit()?;
            Ok(result)
        })
    }

    /// Runs one write transaction in the writers' queue, and sees to it afterwards that the log doesn't become too long.
    fn write<T>(&mut self, write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let written = self.write_only(write)?;
        if checkpoint::waiting(&self.conn).is_ok_and(|waiting| waiting >= checkpoint::UNDER_WAY) {
            // It is written and stays so, whatever becomes of this: a later one tries it again.
            let _ = checkpoint::take_in(&self.conn);
        }
        Ok(written)
    }

    /// Runs one write transaction whose commit isn't synced.
    fn write_unsynced<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.read(|conn| conn.pragma_update(None, "synchronous", "NORMAL"))?;
        let result = self.write(write);
        // Whatever became of it: no outcome may be recorded without a sync afterwards.
        self.read(|conn| conn.pragma_update(None, "synchronous", "FULL"))?;
        result
    }

    /// Runs one of many write transactions that nobody waits for, in a way that those who do wait soon have their turn.
    fn write_aside<T>(&mut self, write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let began = Instant::now();
        let written = self.write_unsynced(write)?;
        let worked = began.elapsed();
        if self.read(checkpoint::waiting)? >= checkpoint::OF_PRUNING {
            self.let_log_begin_anew()?;
        }
        // Whoever the kernel has woken needs a moment to take its turn.
        std::thread::sleep(worked.min(MOST_PAUSE));
        Ok(written)
    }

    /// Takes the whole log in, so that the next writer begins it anew.
    ///
    /// First beside the queue. What others write meanwhile is left, and SQLite syncs the store's file only with the last of it: then in
    /// the queue, where nothing can come after it, and where there is little to do.
    fn let_log_begin_anew(&mut self) -> Result<(), StoreError> {
        let began = Instant::now();
        // Who goes on writing while somebody else takes the log in, leaves the next one more to do than he has, who takes longer for
        // it, while even more is written. Somebody stopped meanwhile is not waited for.
        while !self.read(checkpoint::take_in)? && began.elapsed() < MOST_WAIT {
            std::thread::sleep(MOST_PAUSE);
        }
        self.in_turn(|conn| checkpoint::take_in(conn)).map(|_| ())
    }

    /// Does something without waiting for other writers: [`StoreError::Busy`] comes at once where there are some.
    fn without_waiting<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let before = self.patience;
        self.set_patience(Some(Duration::ZERO));
        let done = act(self);
        self.set_patience(before);
        done
    }

    /// Takes the log of arrivals in, wholly or one batch.
    fn take_in_arrivals(&mut self, wholly: bool) -> Result<(), StoreError> {
        let log = self.log.clone();
        while self.read(|conn| log.has_news(conn))? {
            let punch = self.write_unsynced(|tx| log.take_in(tx))?;
            let Some(punch) = punch else { break };
            log.punch(&punch);
            if !wholly {
                break;
            }
        }
        Ok(())
    }
}

impl Store for SqliteStore {
    fn made_where_told(&self) -> bool {
        self.made_where_told
    }

    fn holder(&mut self, key: &Key) -> Result<Option<Claim>, StoreError> {
        self.read(|conn| write::holder(conn, key))
    }

    fn newest(&mut self, _key: &Key) -> Result<ClaimId, StoreError> {
        self.read(|conn| conn.query_row("SELECT coalesce(max(id), 0) FROM claim", [], |row| row.get(0)))
    }

    fn claim(&mut self, new: &NewClaim) -> Result<Claimed, StoreError> {
        self.read(write::prepare_claim)?;
        let uptime = uptime();
        self.write_only(|tx| write::claim(tx, new, &uptime))
    }

    fn made_with(&mut self, key: &Key, lock: LockPlace) -> Result<Option<Claim>, StoreError> {
        self.read(|conn| read::made_with(conn, key, lock))
    }

    /// The lock beside the store shows it.
    fn attend(&mut self, _id: ClaimId) {}

    /// Nothing does.
    fn leave_off(&mut self) -> Vec<Chunk> {
        Vec::new()
    }

    /// Nobody has to wait so: the owner's lock wakes those who wait. A look now and then.
    fn wait_for_change(&mut self, claim: &Claim, at_most: Duration) -> Result<(), StoreError> {
        if self.get(claim.id)?.is_some_and(|now| now.state == claim.state) {
            std::thread::sleep(at_most.min(LOOK_EVERY));
        }
        Ok(())
    }

    fn get(&mut self, id: ClaimId) -> Result<Option<Claim>, StoreError> {
        self.read(|conn| write::get(conn, id))
    }

    fn append_output(&mut self, id: ClaimId, chunks: &[Chunk], missing: i64, wait: bool) -> Result<(), StoreError> {
        self.read(write::prepare_output)?;
        let append = |tx: &Transaction<'_>| {
            write::append_output(tx, id, chunks)?;
            if missing > 0 { write::tell_missing(tx, id, missing) } else { Ok(()) }
        };
        if wait { self.write_unsynced(append) } else { self.without_waiting(|store| store.write_unsynced(append)) }
    }

    fn finish(&mut self, id: ClaimId, finish: &Finish, rest: &[Chunk]) -> Result<Finished, StoreError> {
        self.read(write::prepare_finish)?;
        if !rest.is_empty() {
            self.read(write::prepare_output)?;
        }
        self.write(|tx| {
            write::append_output(tx, id, rest)?;
            write::finish(tx, id, finish)
        })
    }

    fn has_recorded(&mut self, id: ClaimId, finish: &Finish) -> Result<bool, StoreError> {
        self.read(|conn| write::has_recorded(conn, id, finish))
    }

    fn set_patience(&mut self, at_most: Option<Duration>) {
        self.patience = at_most;
        // It fails for no connection that is open.
        let _ = self.conn.busy_timeout(at_most.map_or(open::BUSY_TIMEOUT, |at_most| at_most.min(open::BUSY_TIMEOUT)));
    }

    fn transition(&mut self, id: ClaimId, transition: &Transition) -> Result<bool, StoreError> {
        self.write(|tx| write::transition(tx, id, transition))
    }

    fn transitions(&mut self, changes: &[(ClaimId, Transition)]) -> Result<Vec<ClaimId>, StoreError> {
        self.write(|tx| {
            let mut not = Vec::new();
            for (id, change) in changes {
                if !write::transition(tx, *id, change)? {
                    not.push(*id);
                }
            }
            Ok(not)
        })
    }

    fn mark(&mut self, from: &Enclosing, mark: Mark, actor: &str) -> Result<Marked, StoreError> {
        self.write(|tx| write::mark(tx, from, mark, actor))
    }

    fn emit(&mut self, from: &Enclosing, name: &str, data: Option<&str>) -> Result<Emitted, StoreError> {
        self.write(|tx| group::emit(tx, from, name, data))
    }

    fn join(&mut self, enclosing: &Enclosing, step: &Key) -> Result<(), StoreError> {
        // A parent that runs again comes to steps that its group has: nothing is written for those.
        if self.read(|conn| group::would_join(conn, enclosing, step))? {
            self.write(|tx| group::join(tx, enclosing, step))?;
        }
        Ok(())
    }

    fn group(&mut self, id: ClaimId) -> Result<Vec<Member>, StoreError> {
        let members = self.read(|conn| group::members(conn, id))?;
        members.ok_or_else(|| StoreError::Pruned(self.path.clone(), id))
    }

    fn open_steps(&mut self, id: ClaimId) -> Result<Vec<ClaimId>, StoreError> {
        self.read(|conn| group::open_steps(conn, id))
    }

    fn earlier_is_unknown(&mut self, id: ClaimId) -> Result<bool, StoreError> {
        self.read(|conn| write::earlier_is_unknown(conn, id))
    }

    fn held_for(&mut self, step: &Key) -> Result<Vec<Claim>, StoreError> {
        self.read(|conn| group::held_for(conn, step))
    }

    fn times_asked(&mut self, id: ClaimId) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM event WHERE claim = ?1 AND kind = 'probe'";
        self.read(|conn| conn.query_row(sql, [id], |row| row.get(0)))
    }

    fn leave(&mut self, id: ClaimId, event: &NewEvent, actor: &str) -> Result<(), StoreError> {
        self.write(|tx| write::insert_event(tx, id, write::now(), event.kind, actor, event.detail.as_deref()))
    }

    fn arrived(&mut self, id: ClaimId, kind: EventKind, actor: &str) -> Result<(), StoreError> {
        let sync = kind != EventKind::Replay;
        let append = self.log.append(id, kind, write::now(), actor, sync);
        append.map_err(|error| StoreError::from_io(&self.path, "logging the arrival", &error))
    }

    fn upkeep(&mut self) -> Result<(), StoreError> {
        self.read(write::prepare_finish)?;
        // Not while others write: the command's output and its time limit would wait with it. A later run takes them in.
        match self.without_waiting(|store| store.take_in_arrivals(false)) {
            Err(StoreError::Busy(_)) => {}
            taken => taken?,
        }
        if self.read(listing::is_due)? {
            match self.without_waiting(|store| store.write_unsynced(listing::extend)) {
                Err(StoreError::Busy(_)) => {}
                listed => listed?,
            }
        }
        let waiting = self.read(checkpoint::waiting)?;
        if waiting < checkpoint::DUE {
            return Ok(());
        }
        // Whoever prunes takes it in, and may have left some hundred pages.
        let queue = Queue::opened(&mut self.queue, &self.lock_path)?;
        if waiting < checkpoint::UNDER_WAY && queue.log_is_taken_over() {
            return Ok(());
        }
        self.read(checkpoint::take_in).map(|_| ())
    }

    fn shrink(&mut self) -> Result<(), StoreError> {
        // Not while others read: one of them will do it, or a later run.
        self.without_waiting(|store| store.read(checkpoint::cut))
    }

    fn find(&mut self, claim: &ClaimRef) -> Result<Found, StoreError> {
        self.read(|conn| read::find(conn, claim))
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        self.take_in_arrivals(true)?;
        self.read(|conn| read::list(conn, filter))
    }

    fn count(&mut self, filter: &Filter, most: u64) -> Result<u64, StoreError> {
        self.read(|conn| listing::count(conn, filter, most))
    }

    fn claims(&mut self, filter: &Filter) -> Result<Vec<Claim>, StoreError> {
        self.read(|conn| read::claims(conn, filter))
    }

    fn attempts(&mut self, key: &Key) -> Result<Vec<Claim>, StoreError> {
        self.read(|conn| read::attempts(conn, key))
    }

    fn events(&mut self, key: &Key) -> Result<Vec<Event>, StoreError> {
        self.take_in_arrivals(true)?;
        self.read(|conn| read::events(conn, key))
    }

    fn output(
        &mut self,
        id: ClaimId,
        which: Which,
        visit: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, StoreError> {
        let whole = self.read(|conn| read::output(conn, id, which, visit))?;
        whole.ok_or_else(|| StoreError::Pruned(self.path.clone(), id))
    }

    fn stats(&mut self, filter: &Filter) -> Result<Stats, StoreError> {
        self.take_in_arrivals(true)?;
        self.read(|conn| stats::stats(conn, filter))
    }

    fn prune(&mut self, pruning: &Pruning, reached: &mut dyn FnMut(&Reached)) -> Result<Pruned, StoreError> {
        // So that no run has to take in what is written here.
        let _duty = if pruning.apply { LogDuty::take(&self.lock_path)? } else { None };
        self.conn.set_prepared_statement_cache_capacity(64);
        let mut course = self.read(|conn| prune::Course::begin(conn, pruning))?;
        while self.read(|conn| course.look(conn, pruning))? {
            if pruning.apply {
                self.write_aside(|tx| course.piece(tx, pruning))?;
            } else {
                self.read(|conn| course.piece(conn, pruning))?;
            }
            reached(&course.reached());
        }
        Ok(course.reached().pruned)
    }

    fn give_back(&mut self, left: &mut dyn FnMut(u64)) -> Result<Space, StoreError> {
        let _duty = LogDuty::take(&self.lock_path)?;
        let before = self.read(space::size)?;
        while self.read(space::can_shrink)? {
            self.write_aside(|tx| space::shrink(tx))?;
            left(self.read(space::free)?);
        }
        // The file gets shorter when the log is taken in.
        match self.shrink() {
            Err(StoreError::Busy(_)) => {}
            shrunk => shrunk?,
        }
        Ok(Space { before, after: self.read(space::size)?, free_inside: self.read(space::free)? })
    }

    fn examine(&mut self, integrity: Integrity) -> Result<Vec<Finding>, StoreError> {
        self.read(|conn| health::examine(conn, integrity))
    }

    fn encloses(&mut self, ancestor: ClaimId, claim: ClaimId) -> Result<bool, StoreError> {
        self.read(|conn| read::encloses(conn, ancestor, claim))
    }

    fn first_start(&mut self, key: &Key) -> Result<Option<Moment>, StoreError> {
        self.read(|conn| write::first_start(conn, key))
    }

    fn now(&mut self) -> Result<Moment, StoreError> {
        Ok(write::moment())
    }
}
