//! A worker: one process after the other, drawn from a stream of its own.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::command::{ARRIVAL, IDEM, PLAN};
use crate::env::{Answer, Call, Random, Running, TestEnv};
use crate::facts::{Answered, Fact};
use crate::journal;
use crate::kinds::{Kind, Plan};
use crate::storm::{KEYS, Storm};

/// What is done to an idem while it runs.
#[derive(Clone, Copy)]
enum Blow {
    Idem(Signal),
    /// To idem and all that it started, as from a terminal or an out-of-memory killer.
    Group(Signal),
}

/// What was drawn for an arrival.
#[derive(Default)]
struct Arrival {
    options: Vec<&'static str>,
    resends: bool,
    reruns: bool,
    /// It has another command line than the others.
    changed: bool,
    plan: Plan,
    blow: Option<(Duration, Blow)>,
    /// The command's output instead of an envelope, which is then in a file.
    raw: bool,
}

pub(crate) struct Worker<'a> {
    pub(crate) storm: &'a Storm,
    pub(crate) home: &'a TestEnv,
    pub(crate) random: Random,
}

impl Worker<'_> {
    /// Works until the storm is over.
    pub(crate) fn work(mut self) {
        for turn in 0.. {
            if self.storm.is_over() {
                return;
            }
            let key = self.pick(turn);
            match self.random.below(100) {
                0..75 => self.arrive(&key),
                75..96 => self.have_a_word(&key),
                _ => self.look_around(&key),
            }
        }
    }

    /// Any key, or one of the five that all workers crowd about at this time, so that there is always somebody who waits.
    fn pick(&mut self, turn: usize) -> String {
        let crowded = turn / 8 * 5 + self.random.below(5);
        let any = self.random.below(KEYS);
        self.storm.key(if self.chance(50) { crowded % KEYS } else { any })
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    /// One arrival, and whatever befalls it.
    fn arrive(&mut self, key: &str) {
        let arrival = self.draw(key);
        self.make(key, arrival);
    }

    /// An arrival that nothing befalls, and whose command would do what it is for.
    pub(crate) fn arrive_in_peace(&mut self, key: &str) {
        let well = Plan { sends: true, ..Plan::default() };
        let plan = Plan { steps: vec![well.clone(), well.clone()], ..well };
        self.make(key, Arrival { plan, ..Arrival::default() });
    }

    fn draw(&mut self, key: &str) -> Arrival {
        let kind = Kind::of(key);
        let changed = kind == Kind::Changing && self.chance(50);
        let mut arrival = Arrival {
            resends: kind.may_resend() && self.chance(60),
            reruns: kind == Kind::Rerun && self.chance(50),
            changed,
            ..Arrival::default()
        };
        match self.random.below(10) {
            0 => arrival.options.push("--no-wait"),
            1 => arrival.options.extend(["--wait", "60ms"]),
            _ => {}
        }
        if self.chance(5) {
            arrival.options.extend(["--timeout", "40ms"]);
        }
        if changed && self.chance(50) {
            arrival.options.push("--allow-command-change");
        }
        arrival.plan = Plan::drawn(&mut self.random, key);
        arrival.blow = self.blow();
        arrival.raw = self.chance(15);
        arrival
    }

    fn make(&mut self, key: &str, drawn: Arrival) {
        let arrival = self.storm.next_number();
        let Arrival { mut options, resends, reruns, changed, plan, blow, raw } = drawn;
        if resends {
            options.extend(["--resend-within", "1h"]);
        }
        if reruns {
            options.push("--rerun-if-interrupted");
        }
        let status_file = format!("status-{arrival}");
        let told = if raw { vec!["--status-file", &status_file] } else { vec!["--json"] };
        let plan = serde_json::to_string(&plan).expect("a plan in JSON");
        let call = self.storm.run(self.home, key, changed).args(options).args(told);
        let call = call.var(ARRIVAL, arrival.to_string()).var(PLAN, plan);
        self.storm.journal.write(&Fact::Arrives { arrival, key: key.to_owned(), resends, reruns });
        let running = call.start();
        self.strike(&running, blow, arrival, key);
        let answer = running.answer();
        let envelope = if raw { self.home.text_of(&status_file) } else { answer.text() };
        // There is none where idem was killed.
        let _ = std::fs::remove_file(self.home.file(&status_file));
        self.storm.heard(key, &answer);
        let answered = Answered { arrival, key: key.to_owned(), ..read(&answer, &envelope, raw) };
        self.storm.journal.write(&Fact::Answered(answered));
        if answer.code() == Some(125) {
            // As every caller does whom the store is away for; else nearly all arrivals would be of that kind.
            thread::sleep(self.random.up_to(Duration::from_millis(800)));
        }
    }

    fn blow(&mut self) -> Option<(Duration, Blow)> {
        let at = Duration::from_millis(self.random.below(90) as u64);
        let blow = match self.random.below(100) {
            0..7 => Blow::Idem(Signal::SIGKILL),
            7..12 => Blow::Group(Signal::SIGKILL),
            12..16 => Blow::Idem(Signal::SIGTERM),
            16..18 => Blow::Group(Signal::SIGTERM),
            _ => return None,
        };
        Some((at, blow))
    }

    fn strike(&self, running: &Running, blow: Option<(Duration, Blow)>, arrival: u64, key: &str) {
        let Some((at, blow)) = blow else { return };
        // No moment is the right one: the point is to hit as many different ones as there are.
        thread::sleep(at);
        let whom = match blow {
            Blow::Idem(signal) => format!("idem, {signal}"),
            Blow::Group(signal) => format!("idem and command, {signal}"),
        };
        self.storm.journal.write(&Fact::Kills { arrival, key: key.to_owned(), whom });
        match blow {
            Blow::Idem(signal) => running.signal(signal),
            Blow::Group(signal) => running.signal_group(signal),
        }
    }
}

impl Storm {
    /// The arrival of a key, with what all of its arrivals promise.
    pub(crate) fn run<'a>(&self, home: &'a TestEnv, key: &str, changed: bool) -> Call<'a> {
        let kind = Kind::of(key);
        let mut call = self.idem(home, ["run", "--who", "storm", "--conv", "c", "--tool", key]);
        call = call.args(kind.options());
        if kind.has_probe() {
            call = call.args(["--probe", &format!("exec {} play probe {key}", self.exe)]);
        }
        let mut command = vec![self.exe.as_str(), "play", "command", key];
        if changed {
            command.push("changed");
        }
        call.command(command)
    }

    /// Any idem of the storm.
    pub(crate) fn idem<'a, A: Into<std::ffi::OsString>>(
        &self,
        home: &'a TestEnv,
        args: impl IntoIterator<Item = A>,
    ) -> Call<'a> {
        let idem = self.in_its_place.map_or(Vec::new(), |part| vec![self.exe.as_str(), "play", part]);
        let mut call = home.idem(args).under(idem);
        for (name, value) in &self.vars {
            call = call.var(name, value);
        }
        call.var(journal::VARIABLE, self.journal.folder()).var(IDEM, env!("CARGO_BIN_EXE_idem"))
    }

    /// Looks for what no idem may say.
    pub(crate) fn heard(&self, key: &str, answer: &Answer) {
        if answer.messages().contains("panicked") {
            self.complain(key, format!("a panic: {answer}"));
        }
    }
}

/// The short form of an answer.
fn read(answer: &Answer, envelope: &str, raw: bool) -> Answered {
    let mut answered = Answered { code: answer.code(), ..Answered::default() };
    let Ok(envelope) = serde_json::from_str::<Value>(envelope) else { return answered };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let stdout = match envelope["stdout"].as_str() {
        _ if raw => answer.stdout(),
        Some(stdout) => stdout.as_bytes(),
        None => b"",
    };
    answered.told = true;
    answered.id = envelope["id"].as_i64();
    answered.state = text(&envelope["state"]);
    answered.reason = text(&envelope["reason"]);
    answered.idempotent = envelope["idempotent"] == true;
    answered.exit_code = envelope["exit_code"].as_i64();
    answered.signal = text(&envelope["signal"]);
    answered.stdout = fingerprint(stdout);
    answered.error = text(&envelope["error"]["kind"]);
    answered.says_nothing_was_run = envelope.to_string().contains("nothing was run");
    answered.members = members(&envelope);
    answered
}

/// A length, a beginning and a number that tell two outputs apart.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    format!("{} bytes {:016x} {}", bytes.len(), hasher.finish(), String::from_utf8_lossy(&line[..line.len().min(60)]))
}

fn members(envelope: &Value) -> Vec<String> {
    let members = envelope["members"].as_array().into_iter().flatten();
    members.map(|member| member["name"].as_str().or(member["tool"].as_str()).unwrap_or("?").to_owned()).collect()
}
