//! One call at a time: a first run, a replay and a key, beside the yardsticks and the peers.

use crate::idem::{output, text};
use crate::machine::Disk;
use crate::place::{Place, clean};
use crate::report::{Row, times};
use crate::sampling::{Ratio, Samples, Subject, WARM_UP, interleave};
use crate::{Bench, Result};

const GROUP: &str = "One call at a time";

const TRUE: &str = "true";
const FLOOR: &str = "floor";
const FLOOR_REPLAY: &str = "floor-replay";
const FIRST: &str = "idem, first run";
const REPLAY: &str = "idem, replay";
const KEY: &str = "idem key";
const FLOCK: &str = "flock";
const BKT_MISS: &str = "bkt, miss";
const BKT_HIT: &str = "bkt, hit";
const NAIVE: &str = "sqlite3 script";
const NAIVE_REPLAY: &str = "sqlite3 script, replay";

/// idem beside the others: (figure, what it is compared with, the highest ratio that meets the goal).
const RATIOS: [(&str, &str, Option<f64>); 10] = [
    (FIRST, FLOOR, Some(1.5)),
    (FIRST, BKT_MISS, Some(1.25)),
    (FIRST, NAIVE, None),
    (FIRST, FLOCK, None),
    (FIRST, TRUE, None),
    (REPLAY, FLOOR_REPLAY, Some(1.75)),
    (REPLAY, BKT_HIT, Some(1.0)),
    (REPLAY, NAIVE_REPLAY, None),
    (REPLAY, TRUE, Some(1.5)),
    (KEY, TRUE, Some(1.15)),
];

/// The others beside the least that a process costs.
const OTHERS: [&str; 7] = [FLOOR, FLOOR_REPLAY, FLOCK, BKT_MISS, BKT_HIT, NAIVE, NAIVE_REPLAY];

/// The number of the call that is replayed; first runs count up from the next.
const REPLAYED: usize = 0;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let place = &bench.place;
    let store = place.store("latency")?;
    place.idem.prove(&store)?;
    output(&mut place.idem.run(&store, REPLAYED, &[&place.tools.nothing]))?;

    let mut disk = Disk::new(place)?;
    let mut subjects = idem(place, &store);
    subjects.extend(yardsticks(place)?);
    subjects.extend(peers(place)?);
    let measured = interleave(&mut subjects, bench.options.size.rounds, &mut bench.rng, &mut disk)?;
    disk.report(GROUP, &mut bench.report);

    // The first runs, warm-up included, are counted by the claims that they made.
    place.idem.check(&store, 1 + bench.options.size.rounds + WARM_UP)?;
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
    let of = |name: &str| names.iter().position(|known| *known == name).map(|index| &measured[index]);
    rows(&of, bench);
    Ok(())
}

fn rows<'a>(of: &dyn Fn(&str) -> Option<&'a Samples>, bench: &mut Bench) {
    for (figure, yardstick, goal) in RATIOS {
        if let Some((above, below)) = of(figure).zip(of(yardstick)) {
            let ratio = Ratio::of(above, below, &mut bench.rng);
            let row = Row::new(format!("{figure} / {yardstick}")).values(times(above), times(below));
            bench.report.push(GROUP, row.ratio(ratio).at_most(goal));
        }
    }
    for other in OTHERS {
        if let Some((above, below)) = of(other).zip(of(TRUE)) {
            let ratio = Ratio::of(above, below, &mut bench.rng);
            let row = Row::new(format!("{other} / {TRUE}")).values("", times(above));
            bench.report.push(GROUP, row.ratio(ratio));
        }
    }
}

fn idem(place: &Place, store: &std::path::Path) -> Vec<Subject> {
    let again = |program: &crate::idem::Idem| (program.clone(), store.to_owned(), place.tools.nothing.clone());
    let (first, first_store, nothing) = again(&place.idem);
    let mut call = REPLAYED;
    let (replay, replay_store, replayed) = again(&place.idem);
    let key = place.idem.clone();
    vec![
        Subject::new(FIRST, move || {
            call += 1;
            first.run(&first_store, call, &[&nothing])
        }),
        Subject::new(REPLAY, move || replay.run(&replay_store, REPLAYED, &[&replayed])),
        Subject::new(KEY, move || key.key(REPLAYED)),
    ]
}

fn yardsticks(place: &Place) -> Result<Vec<Subject>> {
    let tools = &place.tools;
    let ledger = place.path("ledger");
    output(clean(&tools.floor).arg(&ledger).arg(&tools.nothing))?;
    let (nothing, floor, replay) = (tools.nothing.clone(), tools.floor.clone(), tools.floor_replay.clone());
    let (command, written) = (nothing.clone(), ledger.clone());
    Ok(vec![
        Subject::new(TRUE, move || clean(&nothing)),
        Subject::new(FLOOR, move || {
            let mut run = clean(&floor);
            run.arg(&written).arg(&command);
            run
        }),
        Subject::new(FLOOR_REPLAY, move || {
            let mut run = clean(&replay);
            run.arg(&ledger);
            run
        }),
    ])
}

fn peers(place: &Place) -> Result<Vec<Subject>> {
    let tools = &place.tools;
    let mut subjects = Vec::new();
    if let Some(flock) = tools.flock.clone() {
        let (lock, nothing) = (place.path("lock"), tools.nothing.clone());
        subjects.push(Subject::new(FLOCK, move || {
            let mut run = clean(&flock);
            run.arg(&lock).arg(&nothing);
            run
        }));
    }
    if let Some(bkt) = tools.bkt.clone() {
        let (cache, nothing) = (place.path("bkt"), tools.nothing.clone());
        let run = move |scope: usize| {
            let mut run = clean(&bkt);
            run.arg("--cache-dir").arg(&cache).args(["--ttl", "1d", "--scope", &scope.to_string(), "--"]).arg(&nothing);
            run
        };
        output(&mut run(REPLAYED))?;
        let (miss, mut scope) = (run.clone(), REPLAYED);
        subjects.push(Subject::new(BKT_MISS, move || {
            scope += 1;
            miss(scope)
        }));
        subjects.push(Subject::new(BKT_HIT, move || run(REPLAYED)));
    }
    if let Some(sqlite3) = tools.sqlite3.clone() {
        let store = place.path("naive.db");
        let schema = "PRAGMA journal_mode=WAL; CREATE TABLE claim (key TEXT PRIMARY KEY, exit INTEGER, output TEXT)";
        let store_text = store.to_string_lossy();
        text(&sqlite3, &[&store_text, schema])?;
        let (script, nothing) = (tools.naive.clone(), tools.nothing.clone());
        let run = move |key: usize| {
            let mut run = clean("/bin/sh");
            run.arg(&script).arg(&sqlite3).arg(&store).arg(format!("k{key}")).arg(&nothing);
            run
        };
        output(&mut run(REPLAYED))?;
        let (first, mut key) = (run.clone(), REPLAYED);
        subjects.push(Subject::new(NAIVE, move || {
            key += 1;
            first(key)
        }));
        subjects.push(Subject::new(NAIVE_REPLAY, move || run(REPLAYED)));
    }
    Ok(subjects)
}
