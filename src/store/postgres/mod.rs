//! The store in a PostgreSQL database (design §11), for hosts that share nothing else.
//!
//! Invariant: every method is one statement or one transaction, and relies on nothing of the session: a pooler may give each
//! its own connection. What arbitrates are unique indexes and comparisons; the clock is the server's. Nothing of a place that
//! is shown, logged or told in an error has the password in it.

mod certificate;
mod claiming;
mod companion;
pub mod connection;
mod create;
mod dial;
mod group;
mod health;
mod passfile;
pub mod place;
mod prune;
mod read;
mod rows;
mod stats;
mod tls;
pub mod trouble;
mod url;
mod waiting;
mod writing;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::companion::{Companion, Refused};
use self::connection::ANSWER;
pub use self::connection::Connection;
pub use self::place::PostgresPlace;
use self::read::Output;
pub use self::trouble::Trouble;
use self::waiting::Waiting;
use crate::domain::claim::{Chunk, Claim, ClaimId, LockPlace, Mark, NewClaim, State, Stream};
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

/// How often something that others were in the way of is tried again.
const RETRIES: u32 = 12;

/// How long an answer and a connection may take in any case: a network is no lock that is free or not.
const LEAST: Duration = Duration::from_millis(500);

/// The same for a statement that carries much.
const MUCH: Duration = Duration::from_secs(5);

/// For how long the server's time is counted on here before it is asked for again.
const CLOCK: Duration = Duration::from_secs(1);

/// For how long a claim whose answer was lost is looked up.
const LOOK_UP: Duration = Duration::from_secs(10);

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    place: PostgresPlace,
    conn: Option<Connection>,
    /// Whether the schema is known to be there, as new as this program.
    ready: bool,
    /// How often the owner shows itself, by its claim.
    seen_every: Duration,
    companion: Option<Companion>,
    waiting: Waiting,
    /// When the server last told its time, and what it told.
    clock: Option<(Instant, i64)>,
    /// How long an answer, and a connection, may take; `None`: as long as is usual.
    patience: Option<Duration>,
}

impl PostgresStore {
    /// Connects to a store. Its schema is looked at, and created where it isn't there, by the first question.
    pub fn open(place: &PostgresPlace) -> Result<PostgresStore, StoreError> {
        let mut store = PostgresStore {
            place: place.clone(),
            conn: None,
            ready: false,
            seen_every: Duration::from_secs(5),
            companion: None,
            waiting: Waiting::default(),
            clock: None,
            patience: None,
        };
        store.connect()?;
        Ok(store)
    }

    /// Connects to a store if it is there. To look is not to make.
    pub fn open_existing(place: &PostgresPlace) -> Result<Option<PostgresStore>, StoreError> {
        let mut store = PostgresStore::open(place)?;
        let version = store.ask_as_it_is(create::version)?;
        match version {
            create::Version::None => Ok(None),
            create::Version::Is(_) => store.make_ready().map(|()| Some(store)),
        }
    }

    fn error(&self, trouble: Trouble) -> StoreError {
        trouble.into_store_error(&self.place)
    }

    fn connect(&mut self) -> Result<&mut Connection, StoreError> {
        if self.conn.as_ref().is_none_or(Connection::is_broken) {
            self.conn = None;
            self.waiting = Waiting::default();
            let mut place = self.place.clone();
            if let Some(patience) = self.patience {
                place.connect_within(patience.max(LEAST));
            }
            let conn = Connection::open(&place).map_err(|trouble| self.error(trouble))?;
            self.conn = Some(conn);
            self.set_patience(self.patience);
        }
        let path = PathBuf::from(self.place.shown());
        self.conn.as_mut().ok_or_else(|| StoreError::Unreachable(path, "it is closed".to_owned()))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(self.place.shown())
    }

    /// Looks at the schema, and creates it or brings it up to date.
    fn make_ready(&mut self) -> Result<(), StoreError> {
        if self.ready {
            return Ok(());
        }
        let found = self.ask_as_it_is(create::bring_up_to_date)?;
        self.check_version(found)
    }

    fn check_version(&mut self, found: i64) -> Result<(), StoreError> {
        if found > create::VERSION {
            return Err(StoreError::Newer { path: self.path(), found, known: create::VERSION });
        }
        self.ready = true;
        Ok(())
    }

    /// Does something that may be done again: a question, or a change that finds what it did before.
    fn ask<T>(&mut self, act: impl FnMut(&mut Connection) -> Result<T, Trouble>) -> Result<T, StoreError> {
        self.make_ready()?;
        self.ask_as_it_is(act)
    }

    fn ask_as_it_is<T>(&mut self, mut act: impl FnMut(&mut Connection) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let mut tries = 0;
        let mut lost = false;
        loop {
            match act(self.connect()?) {
                Ok(done) => return Ok(done),
                Err(Trouble::Retry(_)) if tries < RETRIES => {
                    tries += 1;
                    std::thread::sleep(pause(tries));
                }
                // A server that was restarted, or a pooler that let an idle connection go. Once: the next time it is really away.
                Err(Trouble::Lost(_)) if !lost => lost = true,
                Err(trouble) => return Err(self.error(trouble)),
            }
        }
    }

    /// Looks what became of a claim whose answer was lost.
    ///
    /// *The server commits the claim, and the answer is lost on the way.* Without this look the arrival would find itself the
    /// owner of a claim that it knows nothing of; were it to believe that nothing was claimed, the key would be held for no
    /// reason; were it to believe that it was, it could run what somebody else owns. A statement that is still on its way to
    /// the server finds, when it comes, the row of the one that was sent again, or the other way round: the index decides.
    fn look_up(&mut self, new: &NewClaim, why: &Trouble) -> Result<Option<Claim>, StoreError> {
        let until = Instant::now() + LOOK_UP;
        let mut tries = 0;
        loop {
            let looked = self.ask(|conn| claiming::made_with(conn, &new.key, new.lock));
            match looked {
                Ok(made) => return Ok(made),
                Err(_) if Instant::now() < until => {
                    tries += 1;
                    std::thread::sleep(pause(tries));
                }
                Err(error) => {
                    let why = format!("the answer to it was lost ({why}), and it can't be looked up: {error}");
                    return Err(StoreError::ClaimUncertain(self.path(), why));
                }
            }
        }
    }

    /// Makes a change of state. Where an answer was lost, what the row says then is the answer.
    fn change<T>(
        &mut self,
        mut act: impl FnMut(&mut Connection) -> Result<T, Trouble>,
        took_effect: impl Fn(&mut Connection) -> Result<Option<T>, Trouble>,
    ) -> Result<T, StoreError> {
        let mut lost = false;
        self.ask(|conn| {
            if lost && let Some(done) = took_effect(conn)? {
                return Ok(done);
            }
            let done = act(conn);
            lost |= matches!(done, Err(Trouble::Lost(_)));
            done
        })
    }

    /// Sends what is too much to go along with an end. Returns what is left for that.
    fn send_ahead<'a>(&mut self, id: ClaimId, finish: &Finish, rest: &'a [Chunk]) -> Result<&'a [Chunk], StoreError> {
        let (ahead, left) = rest.split_at(writing::ahead(rest));
        let bytes: usize = rest.iter().map(|chunk| chunk.data.len()).sum();
        let mut at = finish.recorded - i64::try_from(bytes).unwrap_or(0);
        let (mut ahead, patience) = (ahead, self.patience);
        // Each of these is much for one answer, and small in all.
        self.set_patience(patience.map(|patience| patience.max(MUCH)));
        let mut sent = Ok((0, 0));
        while let Ok((_, bytes)) = sent
            && !ahead.is_empty()
        {
            at += bytes;
            sent = self.ask(|conn| writing::send_ahead(conn, id, ahead, at));
            ahead = &ahead[sent.as_ref().map_or(0, |(count, _)| *count)..];
        }
        self.set_patience(patience);
        sent.map(|_| left)
    }

    /// Wakes those who wait for a claim, where anybody does. They look by themselves too.
    fn wake(&mut self, id: ClaimId, waited: bool) {
        if waited && let Some(conn) = &mut self.conn {
            let _ = waiting::wake(conn, id);
        }
    }

    /// Hands output to `visit`, piece by piece. `replay`: the arrival that it is for.
    fn read(
        &mut self,
        mut output: Output,
        mut replay: Option<&str>,
        visit: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, StoreError> {
        loop {
            let replay = replay.take();
            let piece = self.ask(|conn| output.next(conn, replay))?;
            let Some(piece) = piece else { return Err(StoreError::Pruned(self.path(), output.id)) };
            for (stream, data) in &piece.chunks {
                if let Err(error) = visit(*stream, data) {
                    return Ok(Err(error));
                }
            }
            if piece.last {
                return Ok(Ok(()));
            }
        }
    }
}

/// Returns a pause that grows with the tries, a little different for each process: those that are in each other's way part.
fn pause(tries: u32) -> Duration {
    let most = 1_u64 << tries.min(9);
    let random = getrandom::u64().unwrap_or(most);
    Duration::from_millis(1 + random % most)
}

impl Store for PostgresStore {
    fn holder(&mut self, key: &Key) -> Result<Option<Claim>, StoreError> {
        // The first question of an arrival asks for the schema's version too.
        let found = self.ask_as_it_is(|conn| match read::look(conn, key) {
            Err(Trouble::Missing(_)) => Ok(None),
            found => found.map(Some),
        })?;
        let look = match found {
            Some(look) if look.version >= create::VERSION => look,
            _ => self.ask(|conn| read::look(conn, key))?,
        };
        self.check_version(look.version)?;
        self.clock = Some((Instant::now(), look.at));
        Ok(look.holder)
    }

    fn newest(&mut self, key: &Key) -> Result<ClaimId, StoreError> {
        self.ask(|conn| Ok(claiming::newest(conn, key)?.map_or(0, |claim| claim.id)))
    }

    fn claim(&mut self, new: &NewClaim) -> Result<Claimed, StoreError> {
        self.seen_every = new.seen_every;
        self.make_ready()?;
        let (mut tries, mut again) = (0, false);
        loop {
            let trouble = match claiming::claim(self.connect()?, new, again) {
                Ok(Some(claimed)) => return Ok(claimed),
                Ok(None) => Trouble::Retry("others claimed and left the key in the same moments".to_owned()),
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::Retry(_) if tries < RETRIES => {
                    tries += 1;
                    std::thread::sleep(pause(tries));
                }
                Trouble::Lost(_) => match self.look_up(new, &trouble)? {
                    Some(made) if made.state == State::Running => return Ok(claiming::own(&made)),
                    Some(made) if made.state.holds_key() => return Ok(Claimed::Taken(Box::new(made))),
                    Some(made) => return Ok(Claimed::Missed(Box::new(made))),
                    // It did not come to be, or is still on its way: it is sent again, and one of the two is.
                    None if tries < RETRIES => {
                        tries += 1;
                        again = true;
                    }
                    None => return Err(self.error(trouble)),
                },
                trouble => return Err(self.error(trouble)),
            }
        }
    }

    fn made_with(&mut self, key: &Key, lock: LockPlace) -> Result<Option<Claim>, StoreError> {
        self.ask(|conn| claiming::made_with(conn, key, lock))
    }

    fn attend(&mut self, id: ClaimId) {
        self.companion = Some(Companion::start(&self.place, id, self.seen_every));
    }

    fn leave_off(&mut self) -> Vec<Chunk> {
        self.companion.take().map(Companion::end).unwrap_or_default()
    }

    fn wait_for_change(&mut self, claim: &Claim, at_most: Duration) -> Result<(), StoreError> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let waited = self.ask(|conn| waiting.wait(conn, claim, at_most));
        self.waiting = waiting;
        waited
    }

    fn get(&mut self, id: ClaimId) -> Result<Option<Claim>, StoreError> {
        self.ask(|conn| writing::get(conn, id))
    }

    fn append_output(&mut self, id: ClaimId, chunks: &[Chunk], missing: i64, wait: bool) -> Result<(), StoreError> {
        if self.companion.is_none() {
            self.attend(id);
        }
        let taken =
            self.companion.as_ref().map_or(Err(Refused::Away), |companion| companion.take(chunks, missing, wait));
        taken.map_err(|refused| match refused {
            Refused::Busy => StoreError::Busy(self.path()),
            Refused::Away => StoreError::Unreachable(self.path(), "too much output waits for it".to_owned()),
        })
    }

    fn finish(&mut self, id: ClaimId, finish: &Finish, rest: &[Chunk]) -> Result<Finished, StoreError> {
        let rest = self.send_ahead(id, finish, rest)?;
        let (finished, waited) = self.ask(|conn| writing::finish(conn, id, finish, rest))?;
        self.wake(id, waited);
        Ok(finished)
    }

    fn has_recorded(&mut self, id: ClaimId, finish: &Finish) -> Result<bool, StoreError> {
        self.ask(|conn| writing::has_recorded(conn, id, finish))
    }

    fn set_patience(&mut self, at_most: Option<Duration>) {
        self.patience = at_most;
        if let Some(conn) = &mut self.conn {
            conn.set_patience(at_most.map_or(ANSWER, |at_most| at_most.clamp(LEAST, ANSWER)));
        }
    }

    fn transition(&mut self, id: ClaimId, transition: &Transition) -> Result<bool, StoreError> {
        let changed = self.change(
            |conn| writing::transition(conn, id, transition),
            |conn| {
                let took_effect = writing::took_effect(conn, id, transition)?;
                Ok(took_effect.then_some(writing::Changed { changed: true, waited: true }))
            },
        )?;
        self.wake(id, changed.waited);
        Ok(changed.changed)
    }

    fn transitions(&mut self, changes: &[(ClaimId, Transition)]) -> Result<Vec<ClaimId>, StoreError> {
        let last = changes.last();
        let not = self.change(
            |conn| {
                conn.begin()?;
                let mut not = Vec::new();
                for (id, change) in changes {
                    if !writing::change(conn, *id, change)?.changed {
                        not.push(*id);
                    }
                }
                conn.commit()?;
                Ok(not)
            },
            |conn| match last {
                // All of them are one transaction.
                Some((id, change)) => Ok(writing::took_effect(conn, *id, change)?.then(Vec::new)),
                None => Ok(None),
            },
        )?;
        for (id, _) in changes.iter().filter(|(id, _)| !not.contains(id)) {
            self.wake(*id, true);
        }
        Ok(not)
    }

    fn mark(&mut self, from: &Enclosing, mark: Mark, actor: &str) -> Result<Marked, StoreError> {
        self.ask(|conn| writing::mark(conn, from, mark, actor))
    }

    fn emit(&mut self, from: &Enclosing, name: &str, data: Option<&str>) -> Result<Emitted, StoreError> {
        self.ask(|conn| group::emit(conn, from, name, data))
    }

    fn join(&mut self, enclosing: &Enclosing, step: &Key) -> Result<(), StoreError> {
        self.ask(|conn| {
            // A parent that runs again comes to steps that its group has: nothing is written for those.
            if group::would_join(conn, enclosing, step)? {
                conn.begin()?;
                group::join(conn, enclosing, step)?;
                conn.commit()?;
            }
            Ok(())
        })
    }

    fn group(&mut self, id: ClaimId) -> Result<Vec<Member>, StoreError> {
        let members = self.ask(|conn| group::members(conn, id))?;
        members.ok_or_else(|| StoreError::Pruned(self.path(), id))
    }

    fn open_steps(&mut self, id: ClaimId) -> Result<Vec<ClaimId>, StoreError> {
        self.ask(|conn| group::open_steps(conn, id))
    }

    fn earlier_is_unknown(&mut self, id: ClaimId) -> Result<bool, StoreError> {
        self.ask(|conn| writing::earlier_is_unknown(conn, id))
    }

    fn held_for(&mut self, step: &Key) -> Result<Vec<Claim>, StoreError> {
        self.ask(|conn| group::held_for(conn, step))
    }

    fn times_asked(&mut self, id: ClaimId) -> Result<i64, StoreError> {
        self.ask(|conn| read::times_asked(conn, id))
    }

    fn leave(&mut self, id: ClaimId, event: &NewEvent, actor: &str) -> Result<(), StoreError> {
        self.ask(|conn| writing::leave(conn, id, event, actor))
    }

    fn arrived(&mut self, id: ClaimId, kind: EventKind, actor: &str) -> Result<(), StoreError> {
        self.leave(id, &NewEvent { kind, detail: None }, actor)
    }

    /// The server keeps its own house.
    fn upkeep(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn shrink(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn find(&mut self, claim: &ClaimRef) -> Result<Found, StoreError> {
        self.ask(|conn| read::find(conn, claim))
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        self.ask(|conn| read::list(conn, filter))
    }

    fn count(&mut self, filter: &Filter, most: u64) -> Result<u64, StoreError> {
        self.ask(|conn| read::count(conn, filter, most))
    }

    fn claims(&mut self, filter: &Filter) -> Result<Vec<Claim>, StoreError> {
        self.ask(|conn| read::claims(conn, filter))
    }

    fn attempts(&mut self, key: &Key) -> Result<Vec<Claim>, StoreError> {
        self.ask(|conn| read::attempts(conn, key))
    }

    fn events(&mut self, key: &Key) -> Result<Vec<Event>, StoreError> {
        self.ask(|conn| read::events(conn, key))
    }

    fn output(
        &mut self,
        id: ClaimId,
        which: Which,
        visit: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, StoreError> {
        self.read(Output::of(id, which), None, visit)
    }

    /// The event goes along with the first look at the output, in one round trip.
    fn replay(
        &mut self,
        id: ClaimId,
        actor: &str,
        visit: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, StoreError> {
        self.read(Output::of(id, Which::Result), Some(actor), visit)
    }

    fn stats(&mut self, filter: &Filter) -> Result<Stats, StoreError> {
        self.ask(|conn| stats::stats(conn, filter))
    }

    fn prune(&mut self, pruning: &Pruning, reached: &mut dyn FnMut(&Reached)) -> Result<Pruned, StoreError> {
        let mut course = self.ask(prune::Course::begin)?;
        while self.ask(|conn| course.look(conn, pruning))? {
            course = self.ask(|conn| course.piece(conn, pruning))?;
            reached(&course.reached());
        }
        Ok(course.reached().pruned)
    }

    fn give_back(&mut self, _left: &mut dyn FnMut(u64)) -> Result<Space, StoreError> {
        self.ask(prune::space)
    }

    fn examine(&mut self, integrity: Integrity) -> Result<Vec<Finding>, StoreError> {
        self.ask(|conn| health::examine(conn, integrity))
    }

    fn encloses(&mut self, ancestor: ClaimId, claim: ClaimId) -> Result<bool, StoreError> {
        self.ask(|conn| read::encloses(conn, ancestor, claim))
    }

    fn first_start(&mut self, key: &Key) -> Result<Option<Moment>, StoreError> {
        self.ask(|conn| claiming::first_start(conn, key))
    }

    /// The server's time: as it told it a moment ago, and what has passed since.
    fn now(&mut self) -> Result<Moment, StoreError> {
        match self.clock.filter(|(asked, _)| asked.elapsed() < CLOCK) {
            Some((asked, at)) => Ok(rows::moment(at.saturating_add(rows::millis(asked.elapsed())))),
            None => self.ask(claiming::now),
        }
    }
}
