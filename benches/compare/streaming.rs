//! A command that prints much: how fast it passes through, what it costs to keep all of it, how much memory that takes, and
//! what the next call pays for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::idem::{Idem, output};
use crate::machine::Disk;
use crate::pipeline::{flow, settle_disk};
use crate::place::{Place, clean, find};
use crate::report::{Row, times};
use crate::sampling::{Ratio, Samples, Subject, interleave, millis, time};
use crate::{Bench, Result};

const GROUP: &str = "A command that prints much";

/// The file that the command prints, again and again: as long as the default cap, so that it is the record then.
const BLOCK: usize = 64 << 20;

/// Another call of the store, which is replayed next, and the one that prints.
const OTHER: usize = 0;
const PRINTS: usize = 1;

/// Goals: peak memory with the default cap and recorded whole, and the log that is left, in KiB.
const MEMORY: f64 = 8.0 * 1024.0;
const MEMORY_WHOLE: f64 = 12.0 * 1024.0;
const LOG: u64 = 512;

/// Looks at the disk before each run.
const SYNCS: usize = 20;

/// Repeats of the file that are compared byte by byte with the default cap: past it is past it.
const PROVED: usize = 2;

/// Pairs of replays that are measured once much was recorded.
const NEXT: usize = 50;

/// Who carries the output.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    /// idem as it is used, which records the first 64 MiB.
    Capped,
    /// idem with nothing to record: what carrying alone costs.
    Unrecorded,
    Whole,
    /// `cat | cat`.
    Cats,
    /// `cat | tee FILE; sync FILE`.
    Tee,
}

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let scene = Scene::set(&bench.place, bench.options.size.streamed)?;
    let (streams, wholes) = (bench.options.size.streams, bench.options.size.wholes);
    let size = format!("{} MiB", bench.options.size.streamed).replace("1024 MiB", "1 GiB");
    let fresh = scene.store(&bench.place, "streaming-fresh")?;
    scene.prove(&bench.place)?;

    let mut disk = Disk::new(&bench.place)?;
    let mut figures = Figures::default();
    let mut next = Next::default();
    let mut order = [Side::Capped, Side::Unrecorded, Side::Cats];
    for _ in 0..streams {
        bench.rng.shuffle(&mut order);
        for side in order {
            if let Some(store) = scene.play(&bench.place, side, &mut disk, &mut figures)? {
                scene.finish(&store)?;
            }
        }
    }
    let mut order = [Side::Whole, Side::Tee];
    for round in 0..wholes {
        bench.rng.shuffle(&mut order);
        for side in order {
            let Some(store) = scene.play(&bench.place, side, &mut disk, &mut figures)? else { continue };
            next.measure(&scene, &store, &fresh, bench)?;
            if round == 0 {
                scene.prove_whole(&store)?;
            }
            scene.finish(&store)?;
        }
    }
    rows(bench, &size, &figures, &next);
    disk.report(GROUP, &mut bench.report);
    Ok(())
}

#[derive(Default)]
struct Figures {
    times: [Samples; 5],
    memory: [Samples; 5],
}

fn rows(bench: &mut Bench, size: &str, figures: &Figures, next: &Next) {
    let mut ratio = |figure: String, above: &Samples, below: &Samples, goal| {
        let ratio = Ratio::of(above, below, &mut bench.rng);
        let row = Row::new(figure).values(times(above), times(below)).ratio(ratio).at_most(goal);
        bench.report.push(GROUP, if above.len() == 1 { row.spread("") } else { row });
    };
    let of = |side: Side| &figures.times[side as usize];
    let cats = of(Side::Cats);
    ratio(format!("{size}, default cap / cat | cat"), of(Side::Capped), cats, Some(0.8));
    ratio(format!("{size}, nothing recorded / cat | cat"), of(Side::Unrecorded), cats, None);
    ratio(format!("{size} recorded whole / cat | tee FILE; sync"), of(Side::Whole), of(Side::Tee), Some(3.0));
    ratio("a replay after it / on a fresh store".to_owned(), &next.old, &next.fresh, Some(1.15));
    let first = Row::new("the very next call, a replay").values(times(&next.first), "");
    bench.report.push(GROUP, first);
    let log = Row::new("write-ahead log after it, KiB").values(next.log.to_string(), "");
    bench.report.push(GROUP, log.goal(format!("≤ {LOG}"), next.log <= LOG));
    for (side, name, goal) in [(Side::Capped, "default cap", MEMORY), (Side::Whole, "recorded whole", MEMORY_WHOLE)] {
        // The most, not the median: memory that is bounded is bounded each time.
        let peak = figures.memory[side as usize].percentile(100.0);
        let row = Row::new(format!("{size}, {name}: peak memory, KiB")).values(format!("{peak:.0}"), "");
        bench.report.push(GROUP, row.goal(format!("≤ {goal}"), peak <= goal));
    }
}

/// What a call pays when it comes after one that recorded much.
#[derive(Default)]
struct Next {
    first: Samples,
    old: Samples,
    fresh: Samples,
    /// The longest write-ahead log that was left, in KiB.
    log: u64,
}

impl Next {
    /// A replay leaves the log as it finds it, and each process reads it anew, so more of them may follow the first.
    fn measure(&mut self, scene: &Scene, old: &Path, fresh: &Path, bench: &mut Bench) -> Result<()> {
        let log = fs::metadata(old.with_extension("db-wal")).map_or(0, |file| file.len());
        self.log = self.log.max(log.div_ceil(1024));
        self.first.push(time(&mut scene.other(old))?);
        let subject = |name, store: &Path| {
            let (idem, store, nothing) = (scene.idem.clone(), store.to_owned(), scene.nothing.clone());
            Subject::new(name, move || idem.run(&store, OTHER, &[&nothing]))
        };
        let mut subjects = [subject("replay after much output", old), subject("replay, fresh store", fresh)];
        let mut disk = Disk::new(&bench.place)?;
        let measured = interleave(&mut subjects, NEXT, &mut bench.rng, &mut disk)?;
        self.old.extend(&measured[0]);
        self.fresh.extend(&measured[1]);
        Ok(())
    }
}

/// Everything that all sides need.
struct Scene {
    idem: Idem,
    folder: PathBuf,
    nothing: PathBuf,
    rss: PathBuf,
    cat: PathBuf,
    tee: PathBuf,
    sync: PathBuf,
    block: Vec<u8>,
    file: PathBuf,
    /// How often the file is printed.
    repeats: usize,
}

impl Scene {
    fn set(place: &Place, streamed: usize) -> Result<Self> {
        // No two words alike, and every value of a byte.
        let word = |word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let block: Vec<u8> = (0..BLOCK as u64 / 8).flat_map(word).collect();
        let file = place.path("streamed");
        fs::write(&file, &block)?;
        let program = |name: &str| find(name).ok_or(format!("`{name}` is not on PATH"));
        Ok(Self {
            idem: place.idem.clone(),
            folder: place.folder().to_owned(),
            nothing: place.tools.nothing.clone(),
            rss: place.tools.rss.clone(),
            cat: program("cat")?,
            tee: program("tee")?,
            sync: program("sync")?,
            block,
            file,
            repeats: (streamed << 20) / BLOCK,
        })
    }

    /// Makes a store with another call in it.
    fn store(&self, place: &Place, name: &str) -> Result<PathBuf> {
        let store = place.store(name)?;
        self.idem.prove(&store)?;
        output(&mut self.other(&store))?;
        Ok(store)
    }

    fn other(&self, store: &Path) -> Command {
        self.idem.run(store, OTHER, &[&self.nothing])
    }

    /// The command that prints: no shell, and nothing that the disk must be read for.
    fn printing(&self) -> Vec<&Path> {
        [&*self.cat].into_iter().chain((0..self.repeats).map(|_| &*self.file)).collect()
    }

    fn recording(&self, side: Side, store: &Path) -> Command {
        let flags: &[&str] = match side {
            Side::Unrecorded => &["--no-record-output"],
            Side::Whole => &["--max-output", "2GiB"],
            _ => &[],
        };
        self.idem.run_with(store, PRINTS, flags, &self.printing())
    }

    /// Runs one side once, on a disk that has nothing left to write, and returns idem's store.
    fn play(&self, place: &Place, side: Side, disk: &mut Disk, figures: &mut Figures) -> Result<Option<PathBuf>> {
        let mut cat = clean(&self.cat);
        cat.args(&self.printing()[1..]);
        let (kept, memory) = (self.folder.join("teed"), self.folder.join("streaming-rss"));
        let (mut commands, store) = match side {
            Side::Cats => (vec![cat, clean(&self.cat)], None),
            Side::Tee => {
                let mut tee = clean(&self.tee);
                tee.arg(&kept);
                (vec![cat, tee], None)
            }
            Side::Capped | Side::Unrecorded | Side::Whole => {
                let store = self.store(place, "streaming")?;
                (vec![wrap(&self.rss, &memory, &self.recording(side, &store))], Some(store))
            }
        };
        settle_disk(&self.sync, &self.folder)?;
        (0..SYNCS).try_for_each(|_| disk.sample())?;

        let start = Instant::now();
        let carried = flow(&mut commands, |_| Ok(()))?;
        if side == Side::Tee {
            output(clean(&self.sync).arg(&kept))?;
        }
        figures.times[side as usize].push(millis(start));

        if carried != self.repeats * BLOCK {
            return Err(format!("{carried} bytes came through of {}", self.repeats * BLOCK).into());
        }
        match store {
            Some(_) => figures.memory[side as usize].push(fs::read_to_string(&memory)?.trim().parse()?),
            None if side == Side::Tee => fs::remove_file(&kept)?,
            None => {}
        }
        Ok(store)
    }

    /// Checks that what was recorded was one run, and makes room.
    fn finish(&self, store: &Path) -> Result<()> {
        self.idem.check(store, 2)?;
        Ok(fs::remove_dir_all(store.parent().ok_or("a store has a folder")?)?)
    }

    /// Shows, byte by byte, that the output comes through unchanged, and that a replay gives the part that the cap leaves.
    fn prove(&self, place: &Place) -> Result<()> {
        let store = self.store(place, "streaming")?;
        let run = || self.idem.run(&store, PRINTS, &self.printing()[..=PROVED]);
        self.compare(&mut run(), PROVED)?;
        self.compare(&mut run(), 1)?;
        self.finish(&store)
    }

    /// Shows that a replay of what was recorded whole is the output, byte by byte.
    fn prove_whole(&self, store: &Path) -> Result<()> {
        self.compare(&mut self.recording(Side::Whole, store), self.repeats)
    }

    /// Compares what a program prints with the file, `repeats` times over.
    fn compare(&self, command: &mut Command, repeats: usize) -> Result<()> {
        let mut at = 0;
        let total = flow(std::slice::from_mut(command), |mut bytes| {
            while !bytes.is_empty() {
                let (piece, rest) = bytes.split_at(bytes.len().min(BLOCK - at));
                if piece != &self.block[at..at + piece.len()] {
                    return Err(format!("what came is not what was printed, about byte {at} of the file").into());
                }
                (at, bytes) = ((at + piece.len()) % BLOCK, rest);
            }
            Ok(())
        })?;
        let expected = repeats * BLOCK;
        if total == expected { Ok(()) } else { Err(format!("{total} bytes came, not {expected}").into()) }
    }
}

/// Has idem's peak memory written to a file, which costs a thousandth of such a run.
fn wrap(rss: &Path, file: &Path, command: &Command) -> Command {
    let mut wrapped = clean(rss);
    wrapped.arg(file).arg(command.get_program()).args(command.get_args());
    wrapped
}
