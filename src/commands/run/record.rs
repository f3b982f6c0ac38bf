//! The recorder of a running attempt: output to the store in chunks, and to memory where an envelope wants it.

use std::time::{Duration, Instant};

use super::MAX_OUTPUT;
use crate::domain::claim::{Chunk, ClaimId, Stream};
use crate::domain::store::Store;
use crate::process;
use crate::view::envelope::Output;

/// How long output may wait before it is in the store. A command that ends sooner pays for no write of its own.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// How much output may wait, in bytes.
const FLUSH_AT: usize = 256 * 1024;

/// How much is kept in memory, in bytes, for a store that can't take it now.
const KEPT: usize = 4 * 1024 * 1024;

/// Records the output of one attempt.
pub(super) struct Recorder<'a> {
    store: &'a mut dyn Store,
    id: ClaimId,
    waiting: Vec<Chunk>,
    waiting_bytes: usize,
    since: Option<Instant>,
    room: u64,
    recorded: u64,
    missing: u64,
    refused: bool,
    /// Whether the row says that bytes are missing.
    told: bool,
    captured: Option<Captured>,
}

/// A copy of the output for the envelope of the run itself, which has it also where little or nothing is recorded.
struct Captured {
    output: Output,
    room: u64,
}

/// What a recorder leaves at the end.
pub(super) struct Recorded {
    /// What isn't in the store yet.
    pub(super) rest: Vec<Chunk>,
    /// How many bytes were recorded in all.
    pub(super) recorded: u64,
    /// How many bytes are missing from the record.
    pub(super) missing: u64,
    /// Whether they are missing because the store could not take them.
    pub(super) refused: bool,
    /// The copy.
    pub(super) output: Option<Output>,
}

impl<'a> Recorder<'a> {
    /// Makes a recorder for at most `max` bytes; `capture` keeps a copy for an envelope.
    pub(super) fn new(store: &'a mut dyn Store, id: ClaimId, max: Option<u64>, capture: bool) -> Recorder<'a> {
        let room = max.unwrap_or(MAX_OUTPUT);
        Recorder {
            store,
            id,
            waiting: Vec::new(),
            waiting_bytes: 0,
            since: None,
            room,
            recorded: 0,
            missing: 0,
            refused: false,
            told: false,
            captured: capture.then(|| Captured { output: Output::default(), room: room.max(MAX_OUTPUT) }),
        }
    }

    /// Returns what is left to do and to say.
    pub(super) fn finish(self) -> Recorded {
        let output = self.captured.map(|captured| captured.output);
        Recorded { rest: self.waiting, recorded: self.recorded, missing: self.missing, refused: self.refused, output }
    }

    fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        self.waiting_bytes += bytes.len();
        self.since.get_or_insert_with(Instant::now);
        match self.waiting.last_mut() {
            // One row for what one stream wrote in one go.
            Some(last) if last.stream == stream && last.data.len() + bytes.len() <= FLUSH_AT => {
                last.data.extend_from_slice(bytes);
            }
            _ => self.waiting.push(Chunk { stream, data: bytes.to_vec() }),
        }
    }
}

/// Takes as much as there is room for.
fn take<'b>(bytes: &'b [u8], room: &mut u64) -> &'b [u8] {
    let taken = bytes.len().min(usize::try_from(*room).unwrap_or(usize::MAX));
    *room -= taken as u64;
    &bytes[..taken]
}

impl process::Recorder for Recorder<'_> {
    fn record(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(captured) = &mut self.captured {
            captured.output.push(stream, take(bytes, &mut captured.room));
        }
        // Once something is missing, what follows would stand in the wrong place.
        let taken = if self.missing > 0 { &[] } else { take(bytes, &mut self.room) };
        self.missing += (bytes.len() - taken.len()) as u64;
        if self.missing > 0 && !self.told {
            // So that the row says it, should this process be killed.
            self.since.get_or_insert_with(Instant::now);
        }
        if taken.is_empty() {
            return;
        }
        self.recorded += taken.len() as u64;
        self.keep(stream, taken);
        // One that was put off is tried again when it is due, or when memory would grow.
        let put_off = self.waiting_bytes > FLUSH_AT + bytes.len() && self.waiting_bytes < KEPT;
        if self.waiting_bytes >= FLUSH_AT && !put_off {
            process::Recorder::flush(self);
        }
    }

    fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + FLUSH_AFTER)
    }

    fn flush(&mut self) {
        self.since = None;
        if self.waiting.is_empty() && (self.missing == 0 || self.told) {
            return;
        }
        // Other writers are waited for only where memory would grow: meanwhile the command's output, its end and its time
        // limit would wait too.
        let wait = self.waiting_bytes >= KEPT;
        let missing = i64::try_from(self.missing).unwrap_or(i64::MAX);
        match self.store.append_output(self.id, &self.waiting, missing, wait) {
            Ok(()) => {
                self.told = self.missing > 0;
                self.waiting.clear();
                self.waiting_bytes = 0;
            }
            Err(_) if wait => {
                // The store can't take it: what follows is missing, and the end is tried again with what was kept.
                self.room = 0;
                self.refused = true;
            }
            Err(_) => self.since = Some(Instant::now()),
        }
    }
}
