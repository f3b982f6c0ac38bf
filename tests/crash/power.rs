//! The power is cut at every write: from the log of what idem wrote and synced, the files are rebuilt as a disk could
//! have them, and the next arrival is judged.
//!
//! What was synced is there. Of what was written since, any part can be: every subset where few writes are open, drawn
//! ones where many are, and single writes torn at sectors. A name is there once its folder was synced. The shared memory
//! beside the store is gone with the power, as after a reboot.

mod disk;
mod journal;

use std::collections::HashSet;
use std::fs;

use self::disk::{Disk, Image};
use self::journal::{Event, read};
use crate::after::{OUT, at_most, replays};
use crate::env::{Answer, Call, TestEnv};
use crate::points::{DAMAGED, DOUBLE_RUN, Figures, LOST_RESULT, at, full, seed, try_some};

/// How many images `cargo test` tries of each story.
const QUICK: usize = 100;

/// One call of a story.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// A first run that goes well: local, or external.
    Run { external: bool },
    /// An external one that fails, and is held.
    Unclear,
    /// A first run with much output.
    Large,
    /// A replay of the story's first call.
    Replay,
    /// A person says that the story's last held call landed.
    Resolve,
    /// Old claims are forgotten: none of them is one that the checks ask for.
    Prune,
}

/// Calls, each of its own process, on one store that they make.
const NEW_STORE: &[Act] = &[Act::Run { external: false }, Act::Run { external: true }];

/// Enough for the log to be taken in and begun anew, twice and more.
const IN_USE: &[Act] = &[
    Act::Run { external: false },
    Act::Unclear,
    Act::Run { external: true },
    Act::Replay,
    Act::Run { external: false },
    Act::Run { external: true },
    Act::Resolve,
    Act::Run { external: false },
    Act::Replay,
    Act::Unclear,
    Act::Run { external: true },
    Act::Run { external: false },
    Act::Resolve,
    Act::Large,
    Act::Run { external: false },
    Act::Prune,
    Act::Run { external: true },
    Act::Run { external: false },
];

/// What a call's caller and the world know at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    /// Its command may have started.
    Started,
    /// Its caller was told: it went well.
    Landed,
    /// Its caller was told: it is held.
    Held,
}

/// One moment of a story: what can be on the disk, and what is known.
struct Moment {
    /// How many events of the journal have happened.
    after: usize,
    known: Vec<(usize, Known)>,
    /// The call under way, or the last one.
    latest: usize,
}

struct Story {
    env: TestEnv,
    acts: &'static [Act],
    journal: Vec<Event>,
    moments: Vec<Moment>,
}

fn tool(number: usize) -> String {
    format!("t{number}")
}

fn script(act: Act) -> &'static str {
    match act {
        Act::Unclear => "echo out; exit 7",
        Act::Large => "echo out; seq 60000 >&2",
        _ => "echo out",
    }
}

fn arrival<'a>(env: &'a TestEnv, acts: &[Act], number: usize) -> Call<'a> {
    let act = acts[number];
    let call = env.run(&tool(number)).counting(script(act));
    if matches!(act, Act::Unclear | Act::Run { external: true }) { call.external() } else { call }
}

impl Story {
    /// Plays it once, and keeps what was written and synced.
    fn play(acts: &'static [Act]) -> Story {
        let env = TestEnv::new();
        let (mut journal, mut moments) = (Vec::new(), Vec::new());
        let mut known: Vec<(usize, Known)> = Vec::new();
        let mut unclear = None;
        for (number, act) in acts.iter().enumerate() {
            let call = match act {
                Act::Run { .. } | Act::Unclear | Act::Large => arrival(&env, acts, number),
                Act::Replay => arrival(&env, acts, 0),
                Act::Resolve => {
                    let id = env.rows(&format!("SELECT id FROM claim WHERE tool = '{}'", tool(unclear.expect("one"))));
                    env.idem(["resolve", &id.concat(), "landed"])
                }
                Act::Prune => env.idem(["prune", "--older-than", "1d", "--yes"]),
            };
            let answer = call.under(journal::words()).answer();
            let code = match act {
                Act::Unclear => 7,
                Act::Prune => 1,
                _ => 0,
            };
            answer.exits(code);
            let events = read(&env.text_of("trace"), &env.state_home());
            for event in events {
                if event == Event::Spawn && script_runs(*act) {
                    known.push((number, Known::Started));
                }
                journal.push(event);
                moments.push(Moment { after: journal.len(), known: known.clone(), latest: number });
            }
            match act {
                Act::Run { .. } | Act::Large => learn(&mut known, number, Known::Landed),
                Act::Unclear => {
                    learn(&mut known, number, Known::Held);
                    unclear = Some(number);
                }
                Act::Resolve => learn(&mut known, unclear.take().expect("one"), Known::Landed),
                Act::Replay | Act::Prune => {}
            }
            moments.push(Moment { after: journal.len(), known: known.clone(), latest: number });
        }
        Story { env, acts, journal, moments }
    }

    /// All images, each with the moment that it belongs to. Equal ones that have to hold the same come once.
    fn images(&self, seed: u64) -> Vec<(usize, Image)> {
        let mut disk = Disk::new(self.env.state_home().join("idem"));
        let (mut seen, mut images) = (HashSet::new(), Vec::new());
        let mut done = 0;
        for (index, moment) in self.moments.iter().enumerate() {
            for event in &self.journal[done..moment.after] {
                disk.happens(event);
            }
            done = moment.after;
            for image in disk.images(seed ^ index as u64) {
                if seen.insert((image.clone(), moment.known.clone(), moment.latest)) {
                    images.push((index, image));
                }
            }
        }
        images
    }

    /// Makes a world in which the power has come back, and judges it.
    fn try_image(&self, moment: &Moment, image: &Image) {
        let env = TestEnv::new();
        self.restore(&env, moment, image);
        let latest = moment.known.iter().rfind(|(number, _)| *number == moment.latest).map(|(_, known)| *known);
        if script_runs(self.acts[moment.latest]) {
            self.judge(&env, moment.latest, latest);
        }
        for &(number, known) in moment.known.iter().filter(|(number, _)| *number != moment.latest) {
            // All of them are looked at in the store, and one is asked for by an arrival.
            if number == moment.after % self.acts.len() {
                self.judge(&env, number, Some(known));
            }
            let row = env.rows(&format!("SELECT state FROM claim WHERE tool = '{}'", tool(number))).concat();
            let right = match known {
                Known::Landed => row == "completed",
                Known::Held => row == "held" || row == "completed",
                Known::Started => !row.is_empty(),
            };
            assert!(right, "{LOST_RESULT}: call {number} was {known:?} and is {row:?}");
        }
        let integrity = env.rows("PRAGMA integrity_check");
        assert_eq!(integrity, ["ok"], "{DAMAGED}: {integrity:?}");
    }

    fn restore(&self, env: &TestEnv, moment: &Moment, image: &Image) {
        let folder = env.state_home().join("idem");
        let mut disk = Disk::new(self.env.state_home().join("idem"));
        self.journal[..moment.after].iter().for_each(|event| disk.happens(event));
        let Some(files) = disk.files(image) else { return };
        fs::create_dir(&folder).expect("the store's folder");
        crate::env::set_mode(&folder, 0o700);
        for (name, bytes) in &files {
            if name.ends_with("-shm") {
                continue;
            }
            if name.ends_with("-lock") {
                // The same inode: rows name it, and after a reboot it would still be the same.
                fs::hard_link(self.env.beside_store("-lock"), folder.join(name)).expect("one file system");
                continue;
            }
            fs::write(folder.join(name), bytes).expect("a file of the store");
            crate::env::set_mode(&folder.join(name), 0o600);
        }
    }

    fn judge(&self, env: &TestEnv, number: usize, known: Option<Known>) {
        let before = env.runs();
        let next = arrival(env, self.acts, number).answer();
        let ran = env.runs() - before;
        match known {
            Some(Known::Started | Known::Held) => {
                assert_eq!(ran, 0, "{DOUBLE_RUN}: of call {number}\n{next}");
                let fails = self.acts[number] == Act::Unclear;
                let held = next.code() == Some(121) && next.text().is_empty();
                // Its end, or a person's word, may have reached the disk before anybody was told.
                let replayed = next.code() == Some(0) && next.is_marked_as_replay() && next.text() == OUT;
                assert!(held || replayed, "neither held nor replayed (it fails: {fails})\n{next}");
            }
            Some(Known::Landed) => {
                assert_eq!(ran, 0, "{DOUBLE_RUN}: of call {number}\n{next}");
                replays(&next, 0, OUT);
            }
            None => self.judge_not_started(env, number, ran, &next),
        }
        let (runs, again) = (env.runs(), arrival(env, self.acts, number).answer());
        at_most(env, runs, &again);
    }

    /// Its command had not started: it runs now, or is held since its claim was there already.
    fn judge_not_started(&self, env: &TestEnv, number: usize, ran: usize, next: &Answer) {
        let code = if self.acts[number] == Act::Unclear { 7 } else { 0 };
        let run = ran == 1 && next.code() == Some(code) && next.text() == OUT && !next.is_marked_as_replay();
        let held = ran == 0 && next.code() == Some(121);
        assert!(run || held, "neither run nor held ({} runs)\n{next}", env.runs());
    }
}

fn script_runs(act: Act) -> bool {
    matches!(act, Act::Run { .. } | Act::Unclear | Act::Large)
}

fn learn(known: &mut [(usize, Known)], number: usize, what: Known) {
    let entry = known.iter_mut().find(|(of, _)| *of == number).expect("its command has started");
    entry.1 = what;
}

/// Cuts the power at about so many of the points that there are.
fn cut(room: &str, story: &Story, count: usize) -> Figures {
    let images = story.images(seed());
    let moments: HashSet<usize> = images.iter().map(|(moment, _)| *moment).collect();
    try_some(format!("{room}, {} moments", moments.len()), &images, count, |(index, image)| {
        let moment = &story.moments[*index];
        let latest = story.journal[..moment.after].last().map(Event::short);
        at(&format!("after event {} ({latest:?}): {image:?}", moment.after), || story.try_image(moment, image));
    })
}

fn all_or_some() -> usize {
    if full() { usize::MAX } else { QUICK }
}

#[test]
fn a_power_cut_while_a_store_is_made_loses_no_claim_whose_command_had_started() {
    cut("power cut, new store", &Story::play(NEW_STORE), all_or_some()).are_clean();
}

#[test]
fn a_power_cut_while_a_store_is_in_use_loses_no_claim_and_no_result_that_was_told() {
    cut("power cut, store in use", &Story::play(IN_USE), all_or_some()).are_clean();
}

/// The same log without the syncs of one file: what they are for has to be found missing.
#[test]
fn the_images_show_what_each_kind_of_sync_is_for() {
    for file in ["idem.db-wal", "idem.db-new", "idem"] {
        let mut story = Story::play(NEW_STORE);
        for event in &mut story.journal {
            if matches!(event, Event::Sync { path } if path.file_name().is_some_and(|name| name == file)) {
                *event = Event::Other;
            }
        }
        let figures = cut("power cut without a sync", &story, 60);
        assert!(figures.found() > 0, "without the syncs of {file} nothing was found");
    }
}
