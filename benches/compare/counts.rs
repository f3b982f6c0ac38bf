//! What a clock doesn't see well: syncs, system calls, shared libraries, peak memory.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::idem::output;
use crate::place::{Place, clean};
use crate::report::Row;
use crate::sampling::Samples;
use crate::{Bench, Result};

const GROUP: &str = "Counts";

/// System calls that wait for a disk.
const SYNCS: [&str; 6] = ["fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync"];

/// The call that is replayed; first runs count up from the next.
const REPLAYED: usize = 0;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let store = bench.place.store("counts")?;
    let (idem, nothing) = (&bench.place.idem, [&bench.place.tools.nothing]);
    idem.prove(&store)?;
    output(&mut idem.run(&store, REPLAYED, &nothing))?;
    let (mut first, mut replay, mut key) = (Counts::default(), Counts::default(), Counts::default());
    let mut calls = REPLAYED;
    for _ in 0..bench.options.size.traces {
        let mut fresh = || {
            calls += 1;
            idem.run(&store, calls, &nothing)
        };
        // What is only due every few runs, a checkpoint say, must not always fall on those that aren't traced.
        for _ in 0..bench.rng.below(4) {
            output(&mut fresh())?;
        }
        first.add(&bench.place, true, fresh)?;
        replay.add(&bench.place, false, || idem.run(&store, REPLAYED, &nothing))?;
        key.add(&bench.place, false, || idem.key(REPLAYED))?;
    }
    idem.check(&store, 1 + calls)?;

    let figures = [
        ("first run: syncs", &first.syncs, Some(2.0)),
        ("first run: syncs before the spawn", &first.syncs_before_spawn, None),
        ("first run: system calls", &first.calls, Some(400.0)),
        ("first run: shared libraries", &first.libraries, Some(0.0)),
        ("first run: peak memory, KiB", &first.memory, Some(4096.0)),
        ("replay: syncs", &replay.syncs, Some(0.0)),
        ("replay: system calls", &replay.calls, Some(160.0)),
        ("replay: shared libraries", &replay.libraries, None),
        ("replay: peak memory, KiB", &replay.memory, Some(4096.0)),
        ("idem key: system calls", &key.calls, None),
        ("idem key: peak memory, KiB", &key.memory, None),
    ];
    for (figure, samples, goal) in figures {
        let middle = samples.median();
        // No samples: there is no strace here, and the report says so.
        if middle.is_nan() {
            continue;
        }
        let spread = format!("{:.0}–{:.0}", samples.percentile(0.0), samples.percentile(100.0));
        let row = Row::new(figure).values(format!("{middle:.0} (mean {:.1})", samples.mean()), "").spread(spread);
        let row = match goal {
            Some(goal) => row.goal(format!("≤ {goal}"), middle <= goal),
            None => row,
        };
        bench.report.push(GROUP, row);
    }
    Ok(())
}

/// The counts of one kind of run.
#[derive(Default)]
struct Counts {
    calls: Samples,
    syncs: Samples,
    syncs_before_spawn: Samples,
    libraries: Samples,
    memory: Samples,
}

impl Counts {
    /// Runs it once under strace, where there is one, and once for its memory: strace would be counted too.
    ///
    /// # Errors
    ///
    /// A run fails, or one that `spawns` starts its command before anything was synced: then the figures are those of
    /// something that breaks its promise.
    fn add(&mut self, place: &Place, spawns: bool, mut next: impl FnMut() -> Command) -> Result<()> {
        let file = place.path("count");
        output(&mut wrap(&place.tools.rss, &[], &file, &next()))?;
        self.memory.push(fs::read_to_string(&file)?.trim().parse()?);
        let Some(strace) = &place.tools.strace else {
            return Ok(());
        };
        let flags = ["-f", "-qq", "-e", "signal=none", "-o"];
        output(&mut wrap(strace, &flags, &file, &next()))?;
        let trace = Trace::read(&fs::read_to_string(&file)?);
        match trace.syncs_before_spawn {
            Some(0) if spawns => return Err("a command started before its claim was synced".into()),
            None if spawns => return Err("a first run started no command".into()),
            Some(_) if !spawns => return Err("something was started that should not have been".into()),
            _ => {}
        }
        self.calls.push(trace.calls as f64);
        self.syncs.push(trace.syncs as f64);
        self.syncs_before_spawn.push(trace.syncs_before_spawn.unwrap_or(0) as f64);
        self.libraries.push(trace.libraries as f64);
        Ok(())
    }
}

/// Puts a program that writes to `file` in front of a command line.
fn wrap(program: &Path, flags: &[&str], file: &Path, command: &Command) -> Command {
    let mut wrapped = clean(program);
    wrapped.args(flags).arg(file).arg(command.get_program()).args(command.get_args());
    wrapped
}

/// What one traced process did. Its threads count, and its child too until the command has taken it over.
#[derive(Default)]
struct Trace {
    calls: usize,
    syncs: usize,
    /// `None` when nothing was spawned.
    syncs_before_spawn: Option<usize>,
    libraries: usize,
}

impl Trace {
    /// Reads lines of `PID call(arguments) = result`. A call that another one interrupts has two lines: `PID call(… <unfinished
    /// ...>` and `PID <... call resumed>…`; it counts at the first and has its result at the second.
    fn read(text: &str) -> Self {
        let mut trace = Self::default();
        let mut commands = HashSet::new();
        let mut own = None;
        for line in text.lines() {
            let Some((pid, event)) = line.split_once(' ') else {
                continue;
            };
            let event = event.trim_start();
            let own = *own.get_or_insert(pid);
            if commands.contains(pid) || event.starts_with("+++") || event.starts_with("---") {
                continue;
            }
            let resumed = event.strip_prefix("<... ");
            let end = resumed.map_or('(', |_| ' ');
            let name = resumed.unwrap_or(event).split(end).next().unwrap_or_default();
            let done = !event.ends_with("<unfinished ...>");
            trace.calls += usize::from(resumed.is_none());
            trace.syncs += usize::from(done && SYNCS.contains(&name));
            trace.libraries += usize::from(name == "openat" && event.contains(".so"));
            if name == "execve" && pid != own {
                trace.syncs_before_spawn.get_or_insert(trace.syncs);
                if done && event.ends_with("= 0") {
                    commands.insert(pid);
                }
            }
        }
        trace
    }
}
