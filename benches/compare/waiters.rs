//! One key, 200 arrivals: one owner, 199 who sleep until it ends and then all give its answer.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::idem::{Idem, output, shown};
use crate::place::{Place, clean, find};
use crate::report::{Row, times};
use crate::sampling::{Ratio, Samples, millis};
use crate::{Bench, Result};

const GROUP: &str = "One key, 200 arrivals";
const WAITERS: usize = 199;

/// How long the waiters' processor time is watched, once they sleep.
const WATCH: Duration = Duration::from_millis(500);

/// How long they get to fall asleep; waiters that poll never do, and are then measured as they are.
const SETTLE: Duration = Duration::from_secs(20);

/// Who runs the two sides of the comparison.
#[derive(Clone, Copy)]
enum Side {
    Idem,
    Floor,
}

/// What one waking shows.
struct Waking {
    /// From the owner's end to the last waiter's, in milliseconds.
    last: f64,
    /// From letting the owner go to the last waiter's end, in milliseconds.
    whole: f64,
    /// Processor time of all waiters in [`WATCH`], in milliseconds.
    asleep: f64,
}

#[derive(Default)]
struct Figures {
    last: Samples,
    whole: Samples,
    asleep: Samples,
}

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let store = bench.place.store("waiters")?;
    bench.place.idem.prove(&store)?;
    let scene = Scene::set(&bench.place, &store)?;
    let mut measured = [Figures::default(), Figures::default()];
    let mut order = [Side::Idem, Side::Floor];
    let wakings = bench.options.size.wakings;
    for call in 0..wakings {
        bench.rng.shuffle(&mut order);
        for side in order {
            let waking = scene.play(side, call)?;
            let figures = &mut measured[side as usize];
            figures.last.push(waking.last);
            figures.whole.push(waking.whole);
            figures.asleep.push(waking.asleep);
        }
    }
    bench.place.idem.check(&store, wakings)?;

    let [idem, floor] = &measured;
    // Once the lock is let go, the owner has to get its turn among 199 that woke, so that when it ends is much a matter of
    // luck; the second figure is the steadier one.
    let figures = [
        ("owner's end → last waiter's end", &idem.last, &floor.last),
        ("command let go → last waiter's end", &idem.whole, &floor.whole),
    ];
    for (figure, idem, floor) in figures {
        let ratio = Ratio::of(idem, floor, &mut bench.rng);
        let row = Row::new(figure).values(times(idem), times(floor));
        bench.report.push(GROUP, row.ratio(ratio).at_most(Some(3.0)));
    }
    let spent = |figures: &Figures| format!("{:.1} ms", figures.asleep.percentile(100.0));
    let row = Row::new(format!("CPU of {WAITERS} sleepers in {} ms", WATCH.as_millis()));
    let none = idem.asleep.percentile(100.0) < 0.05;
    bench.report.push(GROUP, row.values(spent(idem), spent(floor)).goal("none", none));
    Ok(())
}

/// Everything that both sides need.
struct Scene<'a> {
    idem: &'a Idem,
    floor_wait: &'a Path,
    store: &'a Path,
    /// The answer, 4 KiB of text, and the file that floor's owner locks.
    answer: PathBuf,
    fifo: PathBuf,
    started: PathBuf,
    folder: &'a Path,
}

impl<'a> Scene<'a> {
    fn set(place: &'a Place, store: &'a Path) -> Result<Self> {
        let (answer, fifo, started) = (place.path("answer"), place.path("fifo"), place.path("started"));
        fs::write(&answer, "0123456789abcde\n".repeat(256))?;
        output(clean(find("mkfifo").ok_or("`mkfifo` is not on PATH")?).arg(&fifo))?;
        let (idem, floor_wait, folder) = (&place.idem, &*place.tools.floor_wait, place.folder());
        Ok(Self { idem, floor_wait, store, answer, fifo, started, folder })
    }

    fn owner(&self, side: Side, call: usize) -> Command {
        match side {
            // The same command line for owner and waiters, or it would be a mismatch.
            Side::Idem => {
                let script = "cat \"$0\"; : >\"$1\"; read -r go <\"$2\"";
                let command = [Path::new("/bin/sh"), Path::new("-c"), Path::new(script)];
                let command = [&command[..], &[&self.answer, &self.started, &self.fifo]].concat();
                self.idem.run(self.store, call, &command)
            }
            Side::Floor => {
                let mut run = clean(self.floor_wait);
                run.arg(&self.answer).arg(&self.fifo);
                run
            }
        }
    }

    fn waiter(&self, side: Side, call: usize) -> Command {
        match side {
            Side::Idem => self.owner(side, call),
            Side::Floor => {
                let mut run = clean(self.floor_wait);
                run.arg(&self.answer);
                run
            }
        }
    }

    fn play(&self, side: Side, call: usize) -> Result<Waking> {
        let _ = fs::remove_file(&self.started);
        let mut owner = start(&mut self.owner(side, call), &self.folder.join("out-owner"))?;
        let mut fifo = match side {
            Side::Idem => {
                until(|| self.started.exists(), &mut owner)?;
                OpenOptions::new().write(true).open(&self.fifo)?
            }
            // Opening waits for the reader, and floor's owner opens it once it holds the lock.
            Side::Floor => OpenOptions::new().write(true).open(&self.fifo)?,
        };
        let outputs: Vec<PathBuf> = (0..WAITERS).map(|index| self.folder.join(format!("out-{index}"))).collect();
        let waiters =
            outputs.iter().map(|out| start(&mut self.waiter(side, call), out)).collect::<Result<Vec<Child>>>()?;
        let pids: Vec<u32> = waiters.iter().map(Child::id).collect();
        settle(&pids);
        let before = processor_time(&pids);
        thread::sleep(WATCH);
        let asleep = (processor_time(&pids) - before) as f64 / 1e6;

        let (owner_end, last_end, go) = thread::scope(|scope| -> Result<(Instant, Instant, Instant)> {
            let end = |mut child: Child| {
                move || child.wait().map(|status| (Instant::now(), status)).map_err(|error| error.to_string())
            };
            let owner = scope.spawn(end(owner));
            let waiters: Vec<_> = waiters.into_iter().map(|child| scope.spawn(end(child))).collect();
            let go = Instant::now();
            fifo.write_all(b"go\n")?;
            let (owner_end, status) = owner.join().map_err(|_| "a thread panicked")??;
            let mut last_end = owner_end;
            let mut good = status.success();
            for waiter in waiters {
                let (ended, status) = waiter.join().map_err(|_| "a thread panicked")??;
                last_end = last_end.max(ended);
                good &= status.success();
            }
            if good { Ok((owner_end, last_end, go)) } else { Err("an arrival did not end with 0".into()) }
        })?;

        let answer = fs::read(&self.answer)?;
        for out in &outputs {
            if fs::read(out)? != answer {
                return Err(format!("a waiter's answer is not the owner's: {}", out.display()).into());
            }
        }
        // The owner may be the last to end; a ratio needs more than nothing.
        let last = ((last_end - owner_end).as_secs_f64() * 1e3).max(0.01);
        Ok(Waking { last, whole: (last_end - go).as_secs_f64() * 1e3, asleep })
    }
}

/// Starts an arrival with its output in a file: 199 pipes would need a reader each.
fn start(command: &mut Command, out: &Path) -> Result<Child> {
    let out = File::create(out)?;
    let child = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn();
    child.map_err(|error| format!("{}: {error}", shown(command)).into())
}

/// Waits for a fact that a living process brings about.
fn until(fact: impl Fn() -> bool, owner: &mut Child) -> Result<()> {
    while !fact() {
        if let Some(status) = owner.try_wait()? {
            return Err(format!("the owner ended early, with {status}").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Waits until no waiter has used the processor for a while: then all of them are asleep.
fn settle(pids: &[u32]) {
    let start = Instant::now();
    let mut before = u64::MAX;
    while millis(start) < SETTLE.as_secs_f64() * 1e3 {
        let now = processor_time(pids);
        if now == before {
            return;
        }
        before = now;
        thread::sleep(Duration::from_millis(150));
    }
}

/// Returns the processor time of these processes, all threads, in nanoseconds. `/proc/PID/stat` counts in hundredths of a
/// second, too coarse to see a sleeper turn round.
fn processor_time(pids: &[u32]) -> u64 {
    let thread_time = |task: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let tasks = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten();
    tasks.filter_map(|task| thread_time(task.ok()?)).sum()
}
