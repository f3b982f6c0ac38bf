//! Runs idem beside its yardsticks and its peers, and says which goals it meets.
//!
//! `cargo bench --bench compare -- --quick | --full | --only ROOM | --markdown | --seed N`. Nothing here asserts a time: a
//! shared machine would make that a coin toss. What is asserted, outside the timed parts, is that each first run ran and
//! each replay replayed, since a figure of something else is worse than none.
//!
//! | room | what it does |
//! | --- | --- |
//! | `options` | the command line, and how much work each size of bench is |
//! | `place` | the temporary folder; programs built, found, or said to be missing |
//! | `idem` | the command lines of idem, and the checks of what it recorded |
//! | `sampling` | random order, one sample a process, medians and the spread of their ratios |
//! | `latency`, `parallel`, `waiters`, `counts`, `aged`, `database`, `million`, `lines`, `streaming` | one group of figures each |
//! | `pipeline` | programs joined by pipes, for `lines` and `streaming` |
//! | `machine` | what the figures were taken on |
//! | `report` | goals, the table, markdown |

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report and its progress are what this program is for"
)]

mod aged;
mod counts;
mod database;
mod idem;
mod latency;
mod lines;
mod machine;
mod million;
mod options;
mod parallel;
mod pipeline;
mod place;
mod report;
mod sampling;
mod streaming;
mod waiters;

use std::error::Error;
use std::process::ExitCode;

use crate::options::Options;
use crate::place::Place;
use crate::report::Report;
use crate::sampling::Rng;

/// Anything that keeps a figure from being taken; the text says which.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What every room works with.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) place: Place,
    pub(crate) rng: Rng,
    pub(crate) report: Report,
}

/// One group of figures.
type Room = fn(&mut Bench) -> Result<()>;

const ROOMS: [(&str, Room); 9] = [
    ("latency", latency::measure),
    ("parallel", parallel::measure),
    ("waiters", waiters::measure),
    ("counts", counts::measure),
    ("aged", aged::measure),
    ("database", database::measure),
    ("million", million::measure),
    ("lines", lines::measure),
    // Last: it may use up what a rented disk allows at full speed.
    ("streaming", streaming::measure),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let Some(options) = Options::parse(std::env::args().skip(1), &ROOMS.map(|(name, _)| name))? else {
        return Ok(());
    };
    let place = Place::build()?;
    let mut bench = Bench { rng: Rng::new(options.seed), report: Report::default(), options, place };
    bench.report.machine = machine::describe(&bench)?;
    for (name, room) in ROOMS {
        if bench.options.wants(name) {
            eprintln!("compare: {name}");
            room(&mut bench).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    if bench.options.markdown {
        print!("{}", bench.report.markdown());
    } else {
        print!("{}", bench.report.text());
    }
    Ok(())
}
