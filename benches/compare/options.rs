//! The command line of the bench, and how much work each size of it is.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Result;

const USAGE: &str = "\
usage: cargo bench --bench compare -- [OPTIONS]
  --quick      about half a minute
  --full       several minutes, with the stores of 10,000 replays and of a million claims
  --only ROOM  one group of figures; may be repeated
  --markdown   the tables as docs/benchmarks.md has them
  --seed N     the order of an earlier run
env: IDEM_BIN, BKT_BIN, FLOCK_BIN, SQLITE3_BIN, STRACE_BIN: programs to take instead of the one just built and those on PATH;
     IDEM_BENCH_POSTGRES: the URL of an empty database, for the room `database`";

/// How many samples are taken of what.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Rounds of the latency figures; each runs every subject once.
    pub(crate) rounds: usize,
    /// Batches of each of the parallel figures.
    pub(crate) batches: usize,
    /// Runs in one batch.
    pub(crate) batch_runs: usize,
    /// Times that 199 waiters are woken.
    pub(crate) wakings: usize,
    /// Traced runs behind each count.
    pub(crate) traces: usize,
    /// How much output a command streams, in MiB: a multiple of 64.
    pub(crate) streamed: usize,
    /// Rounds of the figures of streamed output, and of those that are recorded whole, which take longer.
    pub(crate) streams: usize,
    pub(crate) wholes: usize,
    /// Running commands that lines are sent through.
    pub(crate) sessions: usize,
    /// Whether a store of a million claims is measured.
    pub(crate) million: bool,
    /// Replays that age a store; `None` leaves the figure out.
    pub(crate) replays: Option<usize>,
}

const QUICK: Size = Size {
    rounds: 200,
    batches: 2,
    batch_runs: 256,
    wakings: 2,
    traces: 20,
    streamed: 256,
    streams: 2,
    wholes: 1,
    sessions: 10,
    million: false,
    replays: None,
};
const USUAL: Size = Size {
    rounds: 1000,
    batches: 6,
    batch_runs: 640,
    wakings: 6,
    traces: 60,
    streamed: 1024,
    streams: 3,
    wholes: 1,
    sessions: 40,
    million: false,
    replays: None,
};
const FULL: Size = Size {
    rounds: 3000,
    batches: 12,
    batch_runs: 1280,
    wakings: 15,
    traces: 120,
    streamed: 1024,
    streams: 9,
    wholes: 5,
    sessions: 100,
    million: true,
    replays: Some(10_000),
};

pub(crate) struct Options {
    pub(crate) size: Size,
    pub(crate) size_name: &'static str,
    pub(crate) seed: u64,
    pub(crate) markdown: bool,
    only: Vec<String>,
}

impl Options {
    /// Reads the arguments; `None` when there is nothing to measure.
    ///
    /// # Errors
    ///
    /// An argument that isn't known, or a room that isn't in `rooms`.
    pub(crate) fn parse(args: impl Iterator<Item = String>, rooms: &[&str]) -> Result<Option<Self>> {
        let mut options = Self { size: USUAL, size_name: "default", seed: clock(), markdown: false, only: Vec::new() };
        let mut args = args;
        let mut benching = false;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => (options.size, options.size_name) = (QUICK, "quick"),
                "--full" => (options.size, options.size_name) = (FULL, "full"),
                "--markdown" => options.markdown = true,
                "--seed" => options.seed = args.next().ok_or("--seed needs a number")?.parse()?,
                "--only" => {
                    let room = args.next().ok_or("--only needs a room")?;
                    if !rooms.contains(&room.as_str()) {
                        return Err(format!("no room {room:?}; there are {}", rooms.join(", ")).into());
                    }
                    options.only.push(room);
                }
                "--bench" => benching = true,
                "--help" => {
                    println!("{USAGE}");
                    return Ok(None);
                }
                other => return Err(format!("{other:?} is not an option\n{USAGE}").into()),
            }
        }
        // `cargo bench` passes --bench. `cargo test --all-targets` starts this program too, without it.
        if !benching {
            println!("compare: measures under `cargo bench` only");
            return Ok(None);
        }
        Ok(Some(options))
    }

    pub(crate) fn wants(&self, room: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == room)
    }
}

/// A seed that differs between runs; it is printed, so that an order can be had again.
fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 % 1_000_000_007)
}
