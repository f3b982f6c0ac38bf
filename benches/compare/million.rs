//! A store of 10^6 claims: what each command costs there beside an empty one, and how long a first run waits while all of
//! it is pruned.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::idem::{Idem, output};
use crate::machine::Disk;
use crate::place::clean;
use crate::report::{Row, times};
use crate::sampling::{Ratio, Samples, Subject, WARM_UP, interleave, time};
use crate::{Bench, Result};

const GROUP: &str = "A store of a million claims";

/// How many claims are there.
const CLAIMS: usize = 1_000_000;

/// The longest that a first run may wait for the pruning of all of them, in milliseconds.
const DELAY: f64 = 100.0;

/// The first number of calls that nobody else makes.
const FRESH: usize = 3_000_000_000;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let Some(sqlite3) = bench.place.tools.sqlite3.clone().filter(|_| bench.options.size.million) else {
        eprintln!("compare: a store of a million claims is measured with --full only, by the sqlite3 program");
        return Ok(());
    };
    let idem = bench.place.idem.clone();
    let nothing = bench.place.tools.nothing.clone();
    let rounds = bench.options.size.rounds.min(1000);
    let (large, empty) = (bench.place.store("million")?, bench.place.store("empty")?);
    for store in [&large, &empty] {
        idem.prove(store)?;
        output(&mut idem.run(store, 0, &[&nothing]))?;
        for cleared in 0..rounds + WARM_UP {
            output(&mut idem.run(store, FRESH - 1 - cleared, &[&nothing]))?;
        }
        let rare = ["--who", "bench", "--conv", "rare", "--tool", "true", "--"];
        output(hands(&idem, store, &["run"]).args(rare).arg(&nothing))?;
    }
    fill(&sqlite3, &large)?;

    let mut next = FRESH;
    let mut subjects = Vec::new();
    for store in [&large, &empty] {
        subjects.extend(of_store(&idem, store, next, &nothing));
        next += CLAIMS;
    }
    let mut disk = Disk::new(&bench.place)?;
    let measured = interleave(&mut subjects, rounds, &mut bench.rng, &mut disk)?;
    disk.report(GROUP, &mut bench.report);
    let per_store = subjects.len() / 2;
    for (index, subject) in subjects.iter().take(per_store).enumerate() {
        let (above, below) = (&measured[index], &measured[index + per_store]);
        let ratio = Ratio::of(above, below, &mut bench.rng);
        let row = Row::new(format!("{}, a million / empty", subject.name)).values(times(above), times(below));
        bench.report.push(GROUP, row.ratio(ratio).at_most(Some(1.15)));
    }
    prune(bench, &large, next, &measured[0])
}

/// What is done in one store. Its claims 1 and 2 are those that are proven by and replayed, the next ones are to be cleared.
fn of_store(idem: &Idem, store: &Path, first: usize, nothing: &Path) -> Vec<Subject> {
    let (mut number, mut cleared) = (first, 2);
    let subject = |name, args: &'static [&'static str]| {
        let (idem, store) = (idem.clone(), store.to_owned());
        Subject::new(name, move || hands(&idem, &store, args))
    };
    let lists = [
        subject("show", &["show", "2"]),
        subject("list page", &["list", "--limit", "2"]),
        subject("list of two filters, one match", &["list", "--who", "bench", "--tool", "true", "--conv", "rare"]),
        subject("list that matches nobody: --conv", &["list", "--who", "bench", "--conv", "nobody"]).ending_with(1),
        subject("list that matches nobody: --state", &["list", "--state", "held", "--state", "running"]).ending_with(1),
        subject("list that matches nobody: --since", &["list", "--since", "2099-01-01T00:00:00Z"]).ending_with(1),
    ];
    let (runs, s1, n1) = (idem.clone(), store.to_owned(), nothing.to_owned());
    let (replays, s2, n2) = (runs.clone(), s1.clone(), n1.clone());
    let (clears, s3) = (runs.clone(), s1.clone());
    let mut subjects = vec![
        Subject::new("first run", move || {
            number += 1;
            runs.run(&s1, number, &[&n1])
        }),
        Subject::new("replay", move || replays.run(&s2, 0, &[&n2])),
        Subject::new("clear", move || {
            cleared += 1;
            hands(&clears, &s3, &["clear", &cleared.to_string()])
        }),
    ];
    subjects.extend(lists);
    subjects
}

/// Prunes all of it, and starts first runs one after the other meanwhile. What the slowest took longer than the median of
/// those before is the delay.
fn prune(bench: &mut Bench, store: &Path, first: usize, before: &Samples) -> Result<()> {
    let idem = bench.place.idem.clone();
    let nothing = bench.place.tools.nothing.clone();
    let mut pruning = hands(&idem, store, &["prune", "--older-than", "30d", "--yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let (mut during, mut number) = (Samples::default(), first);
    let status = loop {
        if let Some(status) = pruning.try_wait()? {
            break status;
        }
        number += 1;
        during.push(time(&mut idem.run(store, number, &[&nothing]))?);
        // As calls come: not so many that pruning has no turn.
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        return Err(format!("the prune ended with {status}").into());
    }
    let delay = during.percentile(100.0) - before.median();
    let row = Row::new("a first run while a million claims are pruned").values(times(&during), times(before));
    bench.report.push(GROUP, row);
    let row = Row::new("longest delay of a first run").values(format!("{delay:.1} ms of {} runs", during.len()), "");
    bench.report.push(GROUP, row.goal(format!("≤ {DELAY} ms"), delay <= DELAY));
    Ok(())
}

fn hands(idem: &Idem, store: &Path, args: &[&str]) -> Command {
    let mut command = clean(&idem.program);
    command.args(args).arg("--store").arg(store);
    command
}

/// Adds completed claims that ended forty days ago, each with its two events and a little output; they are listed, as they would be
/// had a million runs made them.
fn fill(sqlite3: &Path, store: &Path) -> Result<()> {
    let script = format!(
        "BEGIN;
         INSERT INTO claim (key, state, reason, outcome, effect, attempt, who, conv, tool, params, command, exit_code,
                            created_at, finished_at, lock_offset, lock_inode, owner, process, listed)
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {CLAIMS})
         SELECT lower(hex(randomblob(32))), 'completed', 'exit', 'landed', 'local', 1, 'bench', 'old', 'true',
                '{{\"n\":' || i || '}}', x'747275650000', 0, t - 10, t, i, 1, 'a@h[1]', 'start 1', 1
         FROM n, (SELECT unixepoch() * 1000 - 40 * 86400000 AS t);
         INSERT INTO event SELECT id, 1, created_at, 'run', 'a@h[1]', NULL FROM claim WHERE conv = 'old';
         INSERT INTO event SELECT id, 2, finished_at, 'became-completed', 'a@h[1]', '{{}}' FROM claim WHERE conv = 'old';
         INSERT INTO output (claim, stream, data) SELECT id, 1, randomblob(100) FROM claim WHERE conv = 'old';
         UPDATE claim SET listed = 1 WHERE conv <> 'old';
         UPDATE listing SET last = (SELECT max(id) FROM claim);
         COMMIT;
         PRAGMA wal_checkpoint(TRUNCATE)"
    );
    output(clean(sqlite3).arg("-batch").arg(store).arg(script)).map(|_| ())
}
