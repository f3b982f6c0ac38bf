//! Random order, one sample a process, medians, and the spread of their ratios.
//!
//! A machine drifts: its clock, its caches, its neighbours. So subjects are never measured one after the other but
//! interleaved, one sample each a round, in an order that is drawn anew, and only ratios of what was measured together are
//! compared with a goal.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;
use crate::idem::shown;
use crate::machine::Disk;

/// Rounds that are thrown away: the first ones fill caches and grow files.
pub(crate) const WARM_UP: usize = 5;

/// Times that a ratio is drawn anew to see how far it may be off.
const DRAWS: usize = 400;

/// xorshift64*: enough for an order and for drawing samples, and the same everywhere for the same seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero is the one state that xorshift never leaves.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Values of one figure in the order of the rounds.
#[derive(Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        percentile(&mut self.0.clone(), percent)
    }
}

/// A ratio of two medians, with the 5th and 95th percentile of what it would be had other rounds been drawn.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Ratio {
    /// Compares two figures that were measured in the same rounds. Rounds are drawn whole (a bootstrap over pairs), since a
    /// slow moment of the machine is in both figures.
    pub(crate) fn of(above: &Samples, below: &Samples, rng: &mut Rng) -> Self {
        let rounds = above.0.len().min(below.0.len());
        let mut drawn: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let picks: Vec<usize> = (0..rounds).map(|_| rng.below(rounds)).collect();
                let median = |samples: &Samples| {
                    let mut values: Vec<f64> = picks.iter().map(|&pick| samples.0[pick]).collect();
                    percentile(&mut values, 50.0)
                };
                median(above) / median(below)
            })
            .collect();
        Self {
            value: above.median() / below.median(),
            low: percentile(&mut drawn, 5.0),
            high: percentile(&mut drawn, 95.0),
        }
    }
}

/// Returns the value below which `percent` of the values lie, between two neighbours where it falls between them.
fn percentile(values: &mut [f64], percent: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = percent / 100.0 * (values.len() - 1) as f64;
    let (under, over) = (values[at.floor() as usize], values[at.ceil() as usize]);
    under + (over - under) * at.fract()
}

/// One thing to run again and again; each sample is a new process.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    next: Box<dyn FnMut() -> Command>,
    /// What it ends with.
    code: i32,
}

impl Subject {
    pub(crate) fn new(name: &'static str, next: impl FnMut() -> Command + 'static) -> Self {
        Self { name, next: Box::new(next), code: 0 }
    }

    /// One that ends with another exit code than 0 where all is well.
    pub(crate) fn ending_with(self, code: i32) -> Self {
        Self { code, ..self }
    }
}

/// Runs every subject once a round, in a new random order each, with an eye on the disk, and returns the times in milliseconds in the order of
/// `subjects`.
pub(crate) fn interleave(
    subjects: &mut [Subject],
    rounds: usize,
    rng: &mut Rng,
    disk: &mut Disk,
) -> Result<Vec<Samples>> {
    let mut times = vec![Samples::default(); subjects.len()];
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    for round in 0..rounds + WARM_UP {
        disk.sample()?;
        rng.shuffle(&mut order);
        for &index in &order {
            let mut command = (subjects[index].next)();
            let time = time_of(&mut command, subjects[index].code)
                .map_err(|error| format!("{}: {error}", subjects[index].name))?;
            if round >= WARM_UP {
                times[index].push(time);
            }
        }
    }
    Ok(times)
}

/// Times one whole process, from fork to wait, in milliseconds. Every subject gets the same three streams.
pub(crate) fn time(command: &mut Command) -> Result<f64> {
    time_of(command, 0)
}

fn time_of(command: &mut Command, code: i32) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status()?;
    let time = millis(start);
    if status.code() == Some(code) { Ok(time) } else { Err(format!("{} ended with {status}", shown(command)).into()) }
}

pub(crate) fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
