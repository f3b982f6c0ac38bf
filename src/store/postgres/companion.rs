//! What works in the background while an owner's command runs: it shows the server that the owner lives, and records output.
//!
//! Invariant: nothing here can hold the command up or end it, whatever becomes of the server. Output waits in memory until
//! the server has said that it has it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;

use super::Connection;
use super::place::PostgresPlace;
use super::writing::{self, Pieces};
use crate::domain::claim::{Chunk, ClaimId};

/// How much output may wait while the server takes some, in bytes: then the command waits too.
const WAITING: usize = 4 << 20;

/// How much may wait while the server is away: what is recorded of a command by default. More is missing from the record.
const AWAY: usize = 64 << 20;

/// How much is sent at once.
const BATCH: usize = 1 << 20;

/// How long the end of an attempt waits for a piece that is on its way.
const LAST_PIECE: Duration = Duration::from_secs(2);

/// How long to pause after a failure, at first and at the most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Why output was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no room now.
    Busy,
    /// There is no room, and the server is away.
    Away,
}

/// The companion of one attempt.
#[derive(Debug)]
pub(super) struct Companion {
    work: Arc<Work>,
}

#[derive(Debug)]
struct Work {
    state: Mutex<State>,
    changed: Condvar,
    id: ClaimId,
    place: PostgresPlace,
    seen_every: Duration,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Chunk>,
    /// How many bytes that is.
    waiting: usize,
    /// How many bytes are known to be in the store.
    stored: i64,
    /// How many bytes are missing from the record, and whether the row says so.
    missing: (i64, bool),
    /// Whether the last try failed.
    away: bool,
    /// Whether a piece is on its way.
    sending: bool,
    stop: bool,
}

impl Companion {
    /// Starts one. Where there can be no thread, nobody shows the owner, and output is recorded with the end.
    pub(super) fn start(place: &PostgresPlace, id: ClaimId, seen_every: Duration) -> Companion {
        let work = Work { state: Mutex::default(), changed: Condvar::new(), id, place: place.clone(), seen_every };
        let companion = Companion { work: Arc::new(work) };
        let work = Arc::clone(&companion.work);
        if std::thread::Builder::new().name("companion".to_owned()).spawn(move || work.go_on()).is_err() {
            companion.work.lock().away = true;
        }
        companion
    }

    /// Takes output to be recorded. `wait`: until there is room.
    pub(super) fn take(&self, chunks: &[Chunk], missing: i64, wait: bool) -> Result<(), Refused> {
        let bytes: usize = chunks.iter().map(|chunk| chunk.data.len()).sum();
        let mut state = self.work.lock();
        loop {
            let room = if state.away { AWAY } else { WAITING };
            if bytes == 0 || state.waiting == 0 || state.waiting + bytes <= room {
                break;
            }
            match (wait, state.away) {
                (false, _) => return Err(Refused::Busy),
                (true, true) => return Err(Refused::Away),
                (true, false) => {
                    state = self.work.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.queue.extend(chunks.iter().cloned());
        state.waiting += bytes;
        if missing > state.missing.0 {
            state.missing = (missing, false);
        }
        self.work.changed.notify_all();
        Ok(())
    }

    /// Ends it. A piece that is on its way is waited for, though not for long: where its answer doesn't come, it is given back,
    /// and its place in the output tells later whether it is there. Returns the output that isn't known to be recorded.
    pub(super) fn end(self) -> Vec<Chunk> {
        let mut state = self.work.lock();
        state.stop = true;
        self.work.changed.notify_all();
        let until = Instant::now() + LAST_PIECE;
        while state.sending && !state.away {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .work
                .changed
                .wait_timeout(state, left)
                .map_or_else(|error| error.into_inner().0, |(state, _)| state);
        }
        state.queue.drain(..).collect()
    }
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics with the lock held; if something did, what is there is still what is known.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: sleeps until there is something to do, does it, and tries again where it failed.
    fn go_on(&self) {
        // Signals are for the thread that waits for the command.
        let _ = SigSet::all().thread_block();
        let mut connection = None;
        let mut pause = PAUSES.0;
        let mut seen = Instant::now();
        while let Some(todo) = self.next(seen + self.seen_every) {
            match self.act(&mut connection, &todo) {
                Ok(shown) => {
                    if shown {
                        seen = Instant::now();
                    }
                    pause = PAUSES.0;
                }
                Err(()) => {
                    connection = None;
                    self.rest(pause);
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    /// Sleeps until there is something to do. `None`: it is over.
    fn next(&self, show_at: Instant) -> Option<Todo> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            let show = Instant::now() >= show_at;
            let tell_missing = state.missing.0 > 0 && !state.missing.1;
            if show || tell_missing || !state.queue.is_empty() {
                let mut chunks = Vec::new();
                let mut bytes = 0;
                for chunk in &state.queue {
                    if bytes > 0 && bytes + chunk.data.len() > BATCH {
                        break;
                    }
                    bytes += chunk.data.len();
                    chunks.push(chunk.clone());
                }
                state.sending = !chunks.is_empty();
                return Some(Todo {
                    chunks,
                    stored: state.stored,
                    missing: state.missing.0,
                    show: show || tell_missing,
                });
            }
            let left = show_at.saturating_duration_since(Instant::now());
            state =
                self.changed.wait_timeout(state, left).map_or_else(|error| error.into_inner().0, |(state, _)| state);
        }
    }

    /// Does it. Returns whether the owner was shown.
    fn act(&self, connection: &mut Option<Connection>, todo: &Todo) -> Result<bool, ()> {
        let sent = self.send(connection, todo);
        let mut state = self.lock();
        state.sending = false;
        state.away = sent.is_err();
        if sent.is_ok() {
            for _ in &todo.chunks {
                let bytes = state.queue.pop_front().map_or(0, |chunk| chunk.data.len());
                state.waiting = state.waiting.saturating_sub(bytes);
                state.stored += i64::try_from(bytes).unwrap_or(0);
            }
            state.missing.1 |= state.missing.0 == todo.missing && todo.show;
        }
        self.changed.notify_all();
        if sent.is_ok() { Ok(todo.show) } else { Err(()) }
    }

    /// Why it failed is of no matter here: the end of the attempt meets the same, and says it.
    fn send(&self, connection: &mut Option<Connection>, todo: &Todo) -> Result<(), ()> {
        let conn = match connection {
            Some(conn) => conn,
            None => connection.insert(Connection::open(&self.place).map_err(drop)?),
        };
        // Sent again after a lost answer, a piece that is there already is passed over by its place.
        Pieces::of(&todo.chunks, todo.stored).append(conn, self.id).map_err(drop)?;
        if todo.show {
            writing::show(conn, self.id, todo.missing).map_err(drop)?;
        }
        Ok(())
    }

    fn rest(&self, pause: Duration) {
        let state = self.lock();
        if !state.stop {
            let _ = self.changed.wait_timeout_while(state, pause, |state| !state.stop);
        }
    }
}

/// One piece of work.
struct Todo {
    chunks: Vec<Chunk>,
    /// Where the first of them stands.
    stored: i64,
    missing: i64,
    show: bool,
}
