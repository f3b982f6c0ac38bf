//! The kinds of keys. All arrivals of a key promise the same of their command, so that it is known what is allowed; what
//! belongs to one arrival (waiting, running again, sending again) is drawn for each.

use serde::{Deserialize, Serialize};

use crate::env::Random;

/// How long a result of [`Kind::Expiring`] lives, in milliseconds.
pub(crate) const LIVES: u64 = 300;

/// What the calls of a key promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Local, and nothing else.
    Plain,
    /// Local; some arrivals say `--rerun-if-interrupted`.
    Rerun,
    /// Local, `--keep-failure`.
    Kept,
    /// Local, `--ttl`.
    Expiring,
    /// Local, with a member and two steps.
    Grouped,
    /// Local; some arrivals have another command line, and some of these allow that.
    Changing,
    /// External, and nothing else.
    External,
    /// External, with exit codes that say what came of it.
    Codes,
    /// External, `--marks`.
    Marked,
    /// External, `--probe`.
    Probed,
    /// External; some arrivals say `--resend-within`; an exit code says that this one did not land.
    Resent,
    /// External, `--marks` and `--probe`.
    MarkedProbed,
    /// External, `--marks`; some arrivals say `--resend-within`.
    MarkedResent,
}

const KINDS: [Kind; 13] = [
    Kind::Plain,
    Kind::External,
    Kind::Marked,
    Kind::Probed,
    Kind::Resent,
    Kind::Grouped,
    Kind::Rerun,
    Kind::Kept,
    Kind::Expiring,
    Kind::Codes,
    Kind::Changing,
    Kind::MarkedProbed,
    Kind::MarkedResent,
];

/// The exit codes that mean "it landed" and "it did not" where a kind has such.
pub(crate) const LANDED: u8 = 10;
pub(crate) const NOT_LANDED: u8 = 20;

impl Kind {
    /// The kind of a key by its name, which is its tool as well: `k7`, and `k5-a` and `k5-b` for the steps of `k5`.
    pub(crate) fn of(key: &str) -> Kind {
        match key.split_once('-') {
            Some((_, "a")) => Kind::Plain,
            Some(_) => Kind::External,
            None => KINDS[usize::try_from(number(key)).expect("a small number") % KINDS.len()],
        }
    }

    pub(crate) fn is_external(self) -> bool {
        !matches!(self, Kind::Plain | Kind::Rerun | Kind::Kept | Kind::Expiring | Kind::Grouped | Kind::Changing)
    }

    pub(crate) fn has_marks(self) -> bool {
        matches!(self, Kind::Marked | Kind::MarkedProbed | Kind::MarkedResent)
    }

    pub(crate) fn has_probe(self) -> bool {
        matches!(self, Kind::Probed | Kind::MarkedProbed)
    }

    pub(crate) fn may_resend(self) -> bool {
        matches!(self, Kind::Resent | Kind::MarkedResent)
    }

    /// The options that all arrivals of such a key have.
    pub(crate) fn options(self) -> Vec<String> {
        let words: &[&str] = match self {
            Kind::Kept => &["--keep-failure"],
            Kind::Codes => &["--landed-exit", "10", "--not-landed-exit", "20"],
            Kind::Resent => &["--not-landed-exit", "20"],
            _ => &[],
        };
        let mut options: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        if self.is_external() {
            options.push("--external".into());
        }
        if self.has_marks() {
            options.push("--marks".into());
        }
        if self == Kind::Expiring {
            options.extend(["--ttl".into(), format!("{LIVES}ms")]);
        }
        options
    }
}

/// A number of its own for each key.
pub(crate) fn number(key: &str) -> i64 {
    let (main, step) = key.split_once('-').unwrap_or((key, ""));
    let main: i64 = main[1..].parse().expect("a key's number");
    main + 1000
        * match step {
            "a" => 1,
            "b" => 2,
            _ => 0,
        }
}

/// What a command does this time, which is no part of its call: it is told by the environment. Times in milliseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Until it sends.
    pub(crate) before: u64,
    /// From then until its end.
    pub(crate) after: u64,
    pub(crate) sends: bool,
    /// Whether it marks `landed` after it has sent, or `not-landed` where it doesn't.
    pub(crate) tells: bool,
    pub(crate) exit: u8,
    /// Bytes to print besides the first line.
    pub(crate) prints: usize,
    /// When it kills itself.
    pub(crate) dies: Option<u64>,
    /// When it kills its idem, and goes on.
    pub(crate) orphans: Option<u64>,
    /// Whether it looks for its own claim.
    pub(crate) looks: bool,
    /// Whether the probe can't tell.
    pub(crate) mute: bool,
    pub(crate) steps: Vec<Plan>,
}

impl Plan {
    /// Draws one for a key.
    pub(crate) fn drawn(random: &mut Random, key: &str) -> Plan {
        let kind = Kind::of(key);
        let exit = draw_exit(random, kind);
        let at = |random: &mut Random, one_in: usize, length: usize| {
            (random.below(one_in) == 0).then(|| random.below(length) as u64)
        };
        // Whoever waits for an idem that is killed comes while its command goes on.
        let orphans = at(random, 8, 40);
        let slow = orphans.is_some() || random.below(8) == 0;
        let length = if slow { 150 } else { 25 };
        let (before, after) = (random.below(length) as u64, random.below(length) as u64);
        let sends = match exit {
            0 | LANDED => true,
            NOT_LANDED => false,
            _ => random.below(2) == 0,
        };
        let steps = if kind == Kind::Grouped { ["a", "b"].map(|step| format!("{key}-{step}")).into() } else { vec![] };
        Plan {
            before,
            after,
            sends,
            tells: random.below(2) == 0,
            exit,
            prints: if random.below(4) == 0 { random.below(16 << 10) } else { 0 },
            dies: at(random, 12, length * 2),
            orphans,
            looks: random.below(8) == 0,
            mute: random.below(5) == 0,
            steps: steps.iter().map(|step: &String| Plan::drawn(random, step)).collect(),
        }
    }
}

fn draw_exit(random: &mut Random, kind: Kind) -> u8 {
    let codes: &[u8] = match kind {
        Kind::Codes => &[0, 0, LANDED, LANDED, NOT_LANDED, NOT_LANDED, 1],
        Kind::Resent => &[0, 0, 1, 1, NOT_LANDED],
        _ => &[0, 0, 1],
    };
    codes[random.below(codes.len())]
}
