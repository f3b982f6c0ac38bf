//! The command of the calls, and the probe: what is done outside idem, and written down as it is done.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};

use crate::facts::Fact;
use crate::journal::Journal;
use crate::kinds::{Kind, NOT_LANDED, Plan, number};
use crate::overlap::Alive;

/// The variables that tell a command what it is part of, and what to do.
pub(crate) const ARRIVAL: &str = "STORM_ARRIVAL";
pub(crate) const PLAN: &str = "STORM_PLAN";
/// Which idem marks, emits and runs steps.
pub(crate) const IDEM: &str = "STORM_IDEM";

struct Part {
    journal: Journal,
    plan: Plan,
    kind: Kind,
    key: String,
    arrival: u64,
    claim: i64,
}

/// Plays the command of a key, and returns what it exits with.
pub(crate) fn play(key: &str) -> u8 {
    let part = Part {
        journal: Journal::of_this_process(),
        plan: plan(),
        kind: Kind::of(key),
        key: key.to_owned(),
        arrival: variable(ARRIVAL),
        claim: variable("IDEM_CLAIM"),
    };
    let alive = Alive::new(part.journal.folder(), number(key), part.claim);
    part.begin(&alive);
    let code = part.act();
    part.journal.write(&Fact::Ended { arrival: part.arrival, key: part.key.clone(), claim: part.claim, code });
    // Not before this process is over.
    std::mem::forget(alive);
    code
}

/// Plays the probe of a key: 0 where the target has its write, 1 where it hasn't.
pub(crate) fn play_probe(key: &str) -> u8 {
    let journal = Journal::of_this_process();
    let sent = journal.sent(key);
    let says = match sent.first() {
        _ if plan().mute => 2,
        Some(first) => {
            print(&format!("{key} has arrived from claim {first}\n"));
            0
        }
        None => 1,
    };
    journal.write(&Fact::Probed { key: key.to_owned(), says });
    says
}

impl Part {
    fn begin(&self, alive: &Alive) {
        let (pid, idem) = (getpid(), getppid());
        let started = Fact::Started {
            arrival: self.arrival,
            key: self.key.clone(),
            claim: self.claim,
            attempt: variable("IDEM_ATTEMPT"),
            pid: pid.as_raw(),
            alive: alive.others(),
        };
        self.journal.write(&started);
        self.kill_after(self.plan.dies, "command", move || Some(pid));
        // Once it is gone, its id may be somebody else's.
        self.kill_after(self.plan.orphans, "idem", move || (getppid() == idem).then_some(idem));
    }

    /// Sends signal 9 while the command does whatever it does by then.
    fn kill_after(&self, time: Option<u64>, whom: &str, target: impl Fn() -> Option<Pid> + Send + 'static) {
        let Some(time) = time else { return };
        let kills = Fact::Kills { arrival: self.arrival, key: self.key.clone(), whom: whom.to_owned() };
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(time));
            Journal::of_this_process().write(&kills);
            if let Some(pid) = target() {
                // Gone already is as good as killed.
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
    }

    /// What the call is for.
    fn act(&self) -> u8 {
        print(&format!("{} by arrival {} in claim {}\n", self.key, self.arrival, self.claim));
        if self.plan.looks {
            self.say(["show", &self.claim.to_string()], None);
        }
        thread::sleep(Duration::from_millis(self.plan.before));
        print(&"x".repeat(self.plan.prints));
        if self.kind == Kind::Grouped && !self.make_group() {
            return 1;
        }
        // It can't be written down? Then it isn't sent.
        if self.kind.has_marks() && (self.plan.sends || self.plan.tells) && !self.mark("sending") {
            return 1;
        }
        if self.plan.sends {
            self.journal.send(&self.key, self.claim);
        }
        if self.kind.has_marks() && self.plan.tells {
            self.mark(if self.plan.sends { "landed" } else { "not-landed" });
        }
        thread::sleep(Duration::from_millis(self.plan.after));
        print("done\n");
        self.plan.exit
    }

    fn mark(&self, word: &str) -> bool {
        self.say(["mark", word], None)
    }

    /// A member, and two steps: one local, one external. Whether all of it went well.
    fn make_group(&self) -> bool {
        self.say(["emit", "made", &format!("\"{}\"", self.key)], None)
            && ["a", "b"].iter().zip(&self.plan.steps).all(|(step, plan)| {
                let key = format!("{}-{step}", self.key);
                let exe = std::env::current_exe().expect("this program").to_string_lossy().into_owned();
                let mut args = vec!["run".to_owned(), "--tool".to_owned(), key.clone()];
                args.extend(Kind::of(&key).options());
                args.extend(["--", &exe, "play", "command", &key].map(str::to_owned));
                self.say(args, Some(plan))
            })
    }

    /// Asks idem for something from within the command, and returns whether it was done.
    fn say<A: AsRef<str>>(&self, args: impl IntoIterator<Item = A>, plan: Option<&Plan>) -> bool {
        let args: Vec<String> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let mut idem = Command::new(std::env::var_os(IDEM).expect("an idem"));
        idem.args(&args).stdin(Stdio::null());
        if let Some(plan) = plan {
            idem.env(PLAN, serde_json::to_string(plan).expect("a plan in JSON"));
        }
        let output = idem.output().expect("an idem that starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let what_was_said = args[..2.min(args.len())].join(" ");
        let (key, code) = (self.key.clone(), output.status.code());
        if text.contains("panicked") {
            self.journal.write(&Fact::Complaint { key: key.clone(), text: format!("{what_was_said}: {text}") });
        }
        self.journal.write(&Fact::Said { key, claim: self.claim, what_was_said, code });
        code == Some(0)
    }
}

fn plan() -> Plan {
    // A probe that a person asks with has none.
    std::env::var(PLAN).map_or_else(|_| Plan::default(), |plan| serde_json::from_str(&plan).expect("a plan"))
}

fn variable<T: std::str::FromStr + Default>(name: &str) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Prints as one that doesn't care whether somebody reads: idem may have been killed.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Whether this exit code says that it landed.
pub(crate) fn has_landed(code: u8) -> bool {
    code != NOT_LANDED && (code == 0 || code == crate::kinds::LANDED)
}
