//! One line through a running command: what a person at a prompt, or a program that asks and waits for its answer, notices.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::process::{Child, Command};
use std::time::Instant;

use crate::idem::output;
use crate::pipeline::start;
use crate::place::{clean, find};
use crate::report::{Row, times};
use crate::sampling::{Ratio, Samples, millis};
use crate::{Bench, Result};

const GROUP: &str = "One line through a running command";

/// Lines that are thrown away: a pipe's first pages, a program's first faults.
const WARM_UP: usize = 50;

/// Lines in one session.
const LINES: usize = 250;

/// Takes one sample a session, its median: where the scheduler puts the processes at their start, on one processor or on
/// two, stays so for a session and makes a factor of two, for `cat` as for idem.
pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let store = bench.place.store("lines")?;
    let cat = find("cat").ok_or("`cat` is not on PATH")?;
    bench.place.idem.prove(&store)?;
    let mut medians = [Samples::default(), Samples::default(), Samples::default()];
    let mut all = medians.clone();
    let mut order = [0, 1, 2];
    let sessions = bench.options.size.sessions;
    for call in 0..sessions {
        bench.rng.shuffle(&mut order);
        for which in order {
            let mut running = match which {
                0 => Running::start(&mut [&mut bench.place.idem.run(&store, call, &[&cat])])?,
                1 => Running::start(&mut [&mut clean(&cat)])?,
                _ => Running::start(&mut [&mut clean(&cat), &mut clean(&cat)])?,
            };
            let (times, sent) = running.session()?;
            running.end()?;
            medians[which].push(times.median());
            all[which].extend(&times);
            // The record has the lines, too, so the figure is of a run that recorded them.
            if which == 0 && output(&mut bench.place.idem.run(&store, call, &[&cat]))?.stdout != sent.as_bytes() {
                return Err("a replay does not give the lines that were passed".into());
            }
        }
    }
    bench.place.idem.check(&store, sessions)?;

    let [idem, cat, cats] = &medians;
    let figures = [("cat", cat, Some(1.5)), ("cat | cat", cats, None)];
    for (yardstick, below, goal) in figures {
        let ratio = Ratio::of(idem, below, &mut bench.rng);
        let row = Row::new(format!("a line there and back, p50 / {yardstick}")).values(times(idem), times(below));
        bench.report.push(GROUP, row.ratio(ratio).at_most(goal));
    }
    let p99 = |samples: &Samples| format!("{:.0} µs", samples.percentile(99.0) * 1e3);
    bench.report.push(GROUP, Row::new("a line there and back, p99 / cat").values(p99(&all[0]), p99(&all[1])));
    Ok(())
}

/// Programs that are waiting for a line, joined by pipes.
struct Running {
    children: Vec<Child>,
    input: PipeWriter,
    output: BufReader<PipeReader>,
    line: Vec<u8>,
}

impl Running {
    fn start(commands: &mut [&mut Command]) -> Result<Self> {
        let (mut output, input) = pipe()?;
        let mut children = Vec::new();
        for command in commands {
            let (child, next) = start(command, output)?;
            children.push(child);
            output = next;
        }
        Ok(Self { children, input, output: BufReader::new(output), line: Vec::new() })
    }

    /// Passes the lines of one session, and returns their times and what was sent.
    fn session(&mut self) -> Result<(Samples, String)> {
        let (mut times, mut sent) = (Samples::default(), String::new());
        for number in 0..WARM_UP + LINES {
            let line = format!("line {number:>8} of a command that someone waits for\n");
            let time = self.pass(&line)?;
            if number >= WARM_UP {
                times.push(time);
            }
            sent.push_str(&line);
        }
        Ok((times, sent))
    }

    /// Sends a line, waits until it is back, and returns how long that took, in milliseconds.
    fn pass(&mut self, line: &str) -> Result<f64> {
        self.line.clear();
        let start = Instant::now();
        self.input.write_all(line.as_bytes())?;
        self.output.read_until(b'\n', &mut self.line)?;
        let time = millis(start);
        if self.line == line.as_bytes() {
            Ok(time)
        } else {
            Err(format!("{line:?} came back as {:?}", String::from_utf8_lossy(&self.line)).into())
        }
    }

    fn end(mut self) -> Result<()> {
        drop(self.input);
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest)?;
        for mut child in self.children {
            let status = child.wait()?;
            if !status.success() || !rest.is_empty() {
                return Err(format!("a command that passes lines ended with {status}, and {rest:?} left over").into());
            }
        }
        Ok(())
    }
}
