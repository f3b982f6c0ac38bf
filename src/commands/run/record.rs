//! The recorder of a running attempt: output to the store in chunks, and to memory where an envelope wants it.

use std::time::{Duration, Instant};

use crate::domain::claim::{Chunk, ClaimId, Stream};
use crate::domain::store::Store;
use crate::process;
use crate::view::envelope::Output;

/// How much of a claim's output is recorded, in bytes, both streams together (design §12, paths).
pub(super) const MAX_OUTPUT: usize = 64 * 1024 * 1024;

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
    recorded: usize,
    truncated: bool,
    captured: Option<Output>,
}

impl<'a> Recorder<'a> {
    /// Makes a recorder; `capture` keeps a copy of what is recorded for an envelope.
    pub(super) fn new(store: &'a mut dyn Store, id: ClaimId, capture: bool) -> Recorder<'a> {
        Recorder {
            store,
            id,
            waiting: Vec::new(),
            waiting_bytes: 0,
            since: None,
            recorded: 0,
            truncated: false,
            captured: capture.then(Output::default),
        }
    }

    /// Returns what isn't in the store yet, whether something is missing from the record, and the copy.
    pub(super) fn finish(self) -> (Vec<Chunk>, bool, Option<Output>) {
        (self.waiting, self.truncated, self.captured)
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

impl process::Recorder for Recorder<'_> {
    fn record(&mut self, stream: Stream, bytes: &[u8]) {
        let room = MAX_OUTPUT - self.recorded;
        // Once something is missing, what follows would stand in the wrong place.
        let taken = if self.truncated { &[] } else { &bytes[..bytes.len().min(room)] };
        self.truncated |= taken.len() < bytes.len();
        if taken.is_empty() {
            return;
        }
        self.recorded += taken.len();
        if let Some(captured) = &mut self.captured {
            captured.push(stream, taken);
        }
        self.keep(stream, taken);
        if self.waiting_bytes >= FLUSH_AT {
            process::Recorder::flush(self);
        }
    }

    fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + FLUSH_AFTER)
    }

    fn flush(&mut self) {
        self.since = None;
        if self.waiting.is_empty() {
            return;
        }
        if self.store.append_output(self.id, &self.waiting).is_ok() {
            self.waiting.clear();
            self.waiting_bytes = 0;
        } else if self.waiting_bytes >= KEPT {
            // The store can't take it: the end is tried again with what was kept, and says what is missing.
            self.truncated = true;
        } else {
            self.since = Some(Instant::now());
        }
    }
}
