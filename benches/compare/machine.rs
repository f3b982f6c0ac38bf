//! What the figures were taken on: without it a time means nothing, and even a ratio moves with the price of a sync.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread::available_parallelism;
use std::time::Instant;

use crate::idem::text;
use crate::place::{Place, find};
use crate::report::{Report, Row, times};
use crate::sampling::{Samples, millis};
use crate::{Bench, Result};

/// p90 over p10 of the time of a sync from which on the disk is called unsteady.
const UNSTEADY: f64 = 5.0;

/// Describes the machine, the file system, the versions and this run of the bench, one fact a line.
pub(crate) fn describe(bench: &Bench) -> Result<Vec<String>> {
    let place = &bench.place;
    let cores = available_parallelism().map_or(0, usize::from);
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let memory = memory.map_or_else(unknown, |kib| format!("{} GiB", (kib + (1 << 19)) >> 20));
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| unknown());
    // Without what a distribution or a cloud adds to the number.
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    let folder = place.folder().to_string_lossy();
    let file_system = find("df").and_then(|df| text(df, &["--output=fstype", &folder]).ok());
    let file_system = file_system.and_then(|table| table.lines().last().map(str::to_owned)).unwrap_or_else(unknown);
    let mut facts = vec![
        format!("machine: {processor}, {cores} cores, {memory} of memory, Linux {kernel}"),
        format!("store on: {file_system}"),
    ];
    if file_system.contains("tmpfs") {
        facts.push("warning: this file system is in memory, where a sync costs nothing".to_owned());
    }
    let mut versions = vec![place.idem.version()?];
    for (tool, flag) in [(&place.tools.bkt, "--version"), (&place.tools.flock, "--version")] {
        versions.extend(tool.as_ref().and_then(|tool| text(tool, &[flag]).ok()));
    }
    let sqlite3 = place.tools.sqlite3.as_ref().and_then(|tool| text(tool, &["--version"]).ok());
    versions.extend(sqlite3.map(|text| format!("sqlite3 {}", text.split(' ').next().unwrap_or_default())));
    facts.push(format!("versions: {}", versions.join(", ")));
    let options = &bench.options;
    facts.push(format!("run: {} size, {} rounds, seed {}", options.size_name, options.size.rounds, options.seed));
    facts.extend(place.missing.iter().cloned());
    Ok(facts)
}

/// What a claim can't do without, a 4 KiB write over bytes that are there and its fdatasync, timed again and again: disks
/// that are rented by the operation slow down twentyfold once a burst is used up, and a ratio to floor then says nothing
/// but that both wait for the same disk.
pub(crate) struct Disk {
    file: File,
    samples: Samples,
}

impl Disk {
    pub(crate) fn new(place: &Place) -> Result<Self> {
        let mut disk = Self { file: File::create(place.path("sync"))?, samples: Samples::default() };
        // The first one makes the file longer, which costs more.
        disk.sample()?;
        disk.samples = Samples::default();
        Ok(disk)
    }

    pub(crate) fn sample(&mut self) -> Result<()> {
        let start = Instant::now();
        self.file.write_all_at(&[0; 4096], 0)?;
        self.file.sync_data()?;
        self.samples.push(millis(start));
        Ok(())
    }

    /// Adds the figure to a group, and a warning when the disk did not stay the same.
    pub(crate) fn report(self, group: &'static str, report: &mut Report) {
        let (low, high) = (self.samples.percentile(10.0), self.samples.percentile(90.0));
        let row = Row::new("a 4 KiB write and its sync, meanwhile");
        report.push(group, row.values("", times(&self.samples)));
        if high > UNSTEADY * low {
            let warning = format!("warning: a sync took {low:.2} to {high:.2} ms under {group:?}: run it again");
            report.machine.push(warning);
        }
    }
}

/// Returns the value of the first line `name: value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}
