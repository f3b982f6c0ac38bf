//! A store that has seen many replays: what a call costs then, beside the same call on a fresh one.

use std::fs;

use crate::idem::output;
use crate::machine::Disk;
use crate::report::{Row, times};
use crate::sampling::{Ratio, Subject, interleave, time};
use crate::{Bench, Result};

const GROUP: &str = "A store that has seen much";

/// The goal for the write-ahead log, in KiB.
const LOG: u64 = 512;

/// The call that is replayed.
const REPLAYED: usize = 0;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let Some(replays) = bench.options.size.replays else {
        eprintln!("compare: a store that has seen much is measured with --full only");
        return Ok(());
    };
    let (idem, nothing) = (&bench.place.idem, bench.place.tools.nothing.clone());
    let (old, fresh) = (bench.place.store("old")?, bench.place.store("fresh")?);
    for store in [&old, &fresh] {
        idem.prove(store)?;
        output(&mut idem.run(store, REPLAYED, &[&nothing]))?;
    }
    for _ in 0..replays {
        time(&mut idem.run(&old, REPLAYED, &[&nothing]))?;
    }
    // Read before anything else could tidy it up.
    let log = fs::metadata(old.with_extension("db-wal")).map_or(0, |file| file.len()).div_ceil(1024);

    let subject = |name, store: &std::path::Path| {
        let (idem, store, nothing) = (idem.clone(), store.to_owned(), nothing.clone());
        Subject::new(name, move || idem.run(&store, REPLAYED, &[&nothing]))
    };
    let mut subjects = [subject("replay, old store", &old), subject("replay, fresh store", &fresh)];
    let mut disk = Disk::new(&bench.place)?;
    let measured = interleave(&mut subjects, bench.options.size.rounds, &mut bench.rng, &mut disk)?;
    disk.report(GROUP, &mut bench.report);
    idem.check(&old, 1)?;
    idem.check(&fresh, 1)?;

    let ratio = Ratio::of(&measured[0], &measured[1], &mut bench.rng);
    let row =
        Row::new(format!("replay after {replays} replays / fresh")).values(times(&measured[0]), times(&measured[1]));
    bench.report.push(GROUP, row.ratio(ratio).at_most(Some(1.1)));
    let row = Row::new(format!("write-ahead log after {replays} replays, KiB")).values(log.to_string(), "");
    bench.report.push(GROUP, row.goal(format!("≤ {LOG}"), log <= LOG));
    Ok(())
}
