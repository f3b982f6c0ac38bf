//! Different keys at once: how many runs a second, and how unevenly they take turns.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::idem::output;
use crate::machine::Disk;
use crate::place::clean;
use crate::report::{Row, times};
use crate::sampling::{Ratio, Samples, time};
use crate::{Bench, Result};

const GROUP: &str = "Different keys at once";

/// Looks at the disk before each batch.
const SYNCS: usize = 20;

/// How many run at once; the goals of 1 are those of latency.
const WIDTHS: [usize; 2] = [8, 64];

/// One batch: each of its workers starts the next run when its last one has ended.
struct Batch {
    /// Milliseconds of wall time for one run, which compares as the inverse of runs a second.
    per_run: f64,
    latencies: Samples,
}

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let (batches, runs) = (bench.options.size.batches, bench.options.size.batch_runs);
    for width in WIDTHS {
        let store = bench.place.store(&format!("parallel-{width}"))?;
        let (idem, tools) = (&bench.place.idem, &bench.place.tools);
        idem.prove(&store)?;
        // A file for each worker: one file for all would make floor wait for the file's own lock, which is no part of
        // the least that must be done.
        let ledger = |worker: usize| bench.place.path(&format!("ledger-{width}-{worker}"));
        for worker in 0..width {
            output(clean(&tools.floor).arg(ledger(worker)).arg(&tools.nothing))?;
        }
        let claims = AtomicUsize::new(0);
        let first = |_: usize| idem.run(&store, claims.fetch_add(1, Ordering::Relaxed), &[&tools.nothing]);
        let floor = |worker: usize| {
            let mut run = clean(&tools.floor);
            run.arg(ledger(worker)).arg(&tools.nothing);
            run
        };
        let mut measured = [Figures::default(), Figures::default()];
        let mut order = [0, 1];
        let mut disk = Disk::new(&bench.place)?;
        for _ in 0..batches {
            (0..SYNCS).try_for_each(|_| disk.sample())?;
            bench.rng.shuffle(&mut order);
            for which in order {
                let batch = if which == 0 { run(width, runs, &first) } else { run(width, runs, &floor) }?;
                measured[which].add(&batch);
            }
        }
        idem.check(&store, batches * (runs / width) * width)?;
        rows(bench, width, &measured);
        disk.report(GROUP, &mut bench.report);
    }
    Ok(())
}

/// What batches of one subject add up to.
#[derive(Default)]
struct Figures {
    per_run: Samples,
    latencies: Samples,
    uneven: Samples,
}

impl Figures {
    fn add(&mut self, batch: &Batch) {
        self.per_run.push(batch.per_run);
        self.latencies.extend(&batch.latencies);
        self.uneven.push(batch.latencies.percentile(99.0) / batch.latencies.median());
    }

    fn rate(&self) -> String {
        format!("{:.0} runs/s", 1e3 / self.per_run.median())
    }

    fn uneven(&self) -> f64 {
        self.latencies.percentile(99.0) / self.latencies.median()
    }
}

fn rows(bench: &mut Bench, width: usize, [idem, floor]: &[Figures; 2]) {
    let ratio = Ratio::of(&idem.per_run, &floor.per_run, &mut bench.rng);
    let rate = Row::new(format!("{width} at once: floor's runs/s / idem's")).values(idem.rate(), floor.rate());
    bench.report.push(GROUP, rate.ratio(ratio).at_most(Some(2.0)));
    let latency = Row::new(format!("{width} at once: latency")).values(times(&idem.latencies), times(&floor.latencies));
    bench.report.push(GROUP, latency);
    let each = format!("{:.2}–{:.2} a batch", idem.uneven.percentile(0.0), idem.uneven.percentile(100.0));
    let cell = |figures: &Figures| {
        let (high, middle) = (figures.latencies.percentile(99.0), figures.latencies.median());
        format!("{high:.0} / {middle:.0} ms = {:.2}", figures.uneven())
    };
    let uneven = Row::new(format!("{width} at once: p99 / p50")).values(cell(idem), cell(floor)).spread(each);
    // A goal of 64 alone: eight on few cores are spread by the scheduler more than by any queue.
    bench.report.push(GROUP, if width == 64 { uneven.goal("≤ 4", idem.uneven() <= 4.0) } else { uneven });
}

/// Runs one batch of `runs` (to a multiple of `width`) with `width` of them at once.
fn run(width: usize, runs: usize, next: &(dyn Fn(usize) -> Command + Sync)) -> Result<Batch> {
    let each = runs / width;
    let start = Instant::now();
    let workers: Vec<std::result::Result<Vec<f64>, String>> = thread::scope(|scope| {
        let work = |worker: usize| {
            move || (0..each).map(|_| time(&mut next(worker)).map_err(|error| error.to_string())).collect()
        };
        let threads: Vec<_> = (0..width).map(|worker| scope.spawn(work(worker))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".into()))).collect()
    });
    let per_run = start.elapsed().as_secs_f64() * 1e3 / (each * width) as f64;
    let mut latencies = Samples::default();
    for times in workers {
        times?.into_iter().for_each(|time| latencies.push(time));
    }
    Ok(Batch { per_run, latencies })
}
