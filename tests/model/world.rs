//! The state of the model: what the store, the operating system, the target and each process have at one moment.

use idem::domain::arrival::{Liveness, Terms};
use idem::domain::claim::{Claim, CommandLine, Effect, LockPlace, Mark, Means, Outcome, Owner, Reason, State};
use idem::domain::end::{End, EndTerms, Ended};
use idem::domain::key::Key;
use idem::domain::moment::Uptime;
use idem::domain::timestamp::Timestamp;

/// How a command is said to end here: `--not-landed-exit 6`.
pub(crate) const REFUSED: i32 = 6;

/// What one arrival is called with, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) terms: Terms,
    pub(crate) marks: bool,
    /// `--resend-within`, a window that is open until the model's time has passed.
    pub(crate) resend: bool,
    /// The host that it comes on.
    pub(crate) host: usize,
}

/// What is given once for a whole search.
pub(crate) struct Scenario {
    pub(crate) profiles: Vec<Profile>,
    /// Whether the store is shared by hosts: who waits then looks at rows and at who was seen, and not at a lock alone.
    pub(crate) shared: bool,
    pub(crate) faults: Faults,
    pub(crate) guard: Option<Guard>,
    /// What each arrival's ends mean.
    pub(crate) ends: Vec<EndTerms>,
    /// The parts of a claim that no rule looks at.
    pub(crate) blank: Claim,
}

/// How much may go wrong, and how often somebody from outside acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Deaths of idem, of a command, or of both.
    pub(crate) deaths: u8,
    /// An owner on another host that lives and isn't seen for a while.
    pub(crate) unseen: u8,
    /// Words of a person: clear, clear --force, resolve.
    pub(crate) words: u8,
    /// Commands that close what they have inherited, the lock too.
    pub(crate) closed: u8,
    /// Ends that the store doesn't take.
    pub(crate) refusals: u8,
    /// Whether the time of `--resend-within` may run out.
    pub(crate) time: bool,
}

/// What can be taken away from the program, to show that the search finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The unique index alone.
    Index,
    /// The insert's uniqueness: the index, and the look at what came since.
    Unique,
    /// The lock: a running claim's owner counts as dead, whatever it says.
    Lock,
    /// That a lock which proves nothing is no proof of death.
    Unprovable,
    /// That the command inherits the lock.
    Inherited,
    /// The hold: what is unknown is released.
    Hold,
    /// The comparison of the state in a change of state.
    ComparedState,
    /// The comparison of the mark in a change of state.
    ComparedMark,
    /// The comparison of the mark in the record of an end.
    FinishedMark,
    /// That a mark is refused once the attempt is over.
    RefusedMark,
    /// That an attempt which came and went since the arrival looked is told.
    Missed,
    /// That who found a running claim changed gets what became of it, and doesn't start anew.
    ChangedIsPast,
    /// That a claim which has changed is read again.
    ReadAgain,
    /// That the lock is let go at the end, and not by the end of the process alone: a daemon left behind keeps it.
    LetGo,
    /// That a waiter reads again what became of the attempt: it takes the end for a success.
    TrueReplay,
    /// The lock before the insert.
    LockFirst,
    /// That an outcome is kept before the lock is let go.
    PendingFirst,
    /// That what is kept is looked for once more after the lock was found free.
    PendingSeen,
    /// That an end is recorded before the lock is let go.
    EndFirst,
    /// That a resend releases and inserts in one transaction.
    OneTransaction,
    /// That the owner's life counts where a probe says that a write has not landed.
    ProbedAlive,
    /// That the attempt in whose place a resend came is still unknown once that one has not landed.
    Earlier,
    /// That what a late owner records leaves alone what a person decided.
    LateEnd,
}

/// What the store has of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) state: State,
    pub(crate) reason: Option<Reason>,
    pub(crate) outcome: Outcome,
    pub(crate) effect: Effect,
    pub(crate) mark: Option<Mark>,
    pub(crate) marks: bool,
    pub(crate) probe: bool,
    /// Whether it has an exit status.
    pub(crate) has_end: bool,
    /// How often its target was asked about.
    pub(crate) asked: u8,
}

/// A row as somebody has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) id: usize,
    pub(crate) stored: Stored,
}

/// A change's new state, outcome and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct To(pub State, pub Outcome, pub Reason);

impl From<Ended> for To {
    fn from(ended: Ended) -> To {
        To(ended.state, ended.outcome, ended.reason)
    }
}

/// Where a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    NotStarted,
    /// It runs, and nothing has left.
    Fresh,
    /// Its mark `sending` is on disk.
    MaySend,
    /// The target has taken its write, and it may still say so.
    Sent,
    /// The same, and it has said so.
    Told,
    /// It runs, and will not send.
    Over,
    /// It has ended: with a code, or by a signal.
    Ended(Option<i32>),
}

impl Command {
    pub(crate) fn lives(self) -> bool {
        !matches!(self, Command::NotStarted | Command::Ended(_))
    }

    pub(crate) fn end(self) -> Option<End> {
        match self {
            Command::Ended(Some(code)) => Some(End::Exited(code)),
            Command::Ended(None) => Some(End::Signaled(9)),
            _ => None,
        }
    }
}

/// Why an attempt was allowed to come in the place of an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bears {
    Nothing,
    /// Its arrival stated that the target dedupes, and the window was open.
    Resend,
    /// Its arrival stated that the call is safe to run again, both are local, and the owner was gone without a word.
    Rerun,
}

/// One attempt: the row, its owner's locks, its command, and what the invariants need to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) stored: Stored,
    /// Who runs it.
    pub(crate) by: usize,
    /// Whether idem, or its command, keeps the attempt's byte locked.
    pub(crate) locked: (bool, bool),
    /// Who has the right to ask about it, on each host, and whether that is its owner.
    pub(crate) asking: [Option<(usize, bool)>; 2],
    /// Whether it isn't seen by the store's clock.
    pub(crate) unseen: bool,
    /// An end that is kept beside the store.
    pub(crate) pending: Option<Ending>,
    pub(crate) command: Command,
    /// Whether the target has taken its write. The truth, which nobody can read but a probe.
    pub(crate) sent: bool,
    /// Whether a person has decided about it.
    pub(crate) person: bool,
    /// Whether its owner's own end is recorded.
    pub(crate) own_end: bool,
    pub(crate) bears: Bears,
}

/// An end that can be hashed: an exit code, a signal, or none where it never started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Of(Option<i32>),
    NotStarted,
}

impl Ending {
    pub(crate) fn end(self) -> End {
        match self {
            Ending::Of(code) => Command::Ended(code).end().unwrap_or(End::NotStarted),
            Ending::NotStarted => End::NotStarted,
        }
    }
}

/// The claim in whose place a new one comes: as it was judged, and whether for a resend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) seen: Seen,
    pub(crate) resend: bool,
}

/// Where an arrival is: what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// It has not come.
    Away,
    /// It looks who holds the key.
    Look,
    /// It gathers the facts of the claim that it has read, and judges; `true`: by what became of it.
    Judge(Seen, bool),
    /// It waits for the owner.
    Wait(usize),
    /// The lock is free: it reads what became of the attempt.
    Woken(usize),
    /// It waits for somebody else's probe.
    WaitForProbe { of: Seen, for_attempt: bool, asked: u8 },
    /// It changes the claim's state.
    Change(Seen, To),
    /// It found nobody, or somebody in whose place it may come: it reads the newest number.
    Own(Option<Place>),
    /// It takes the lock and inserts.
    Insert(Option<Place>),
    /// It inserts in place of a claim that it has released before (a removed guard).
    Apart,
    /// It takes the lock after the insert (a removed guard).
    LateLock(usize),
    /// It takes the right to ask.
    Probe(Seen),
    /// It asks the target; `true`: the owner may live.
    Ask(Seen, bool),
    /// It records the answer.
    Answer(Seen, bool, Outcome),
    /// As the owner, it starts the command.
    Spawn(usize),
    /// It waits for the command's end.
    Run(usize),
    /// It records the end.
    Finish(usize, Ending),
    /// It keeps the end that the store refused.
    Keep(usize, Ending),
    /// It lets go of the lock; then it asks about its own end, or is done.
    Unlock(usize, bool),
    /// It has let go (a removed guard), and now records the end.
    FinishLate(usize, Ending),
    /// It has let go (a removed guard), and now keeps the end.
    KeepLate(usize, Ending),
    /// The owner asks about its own end.
    OwnAsk(usize),
    /// The owner records what its target answered.
    OwnAnswer(Seen, Outcome),
    /// It has its answer.
    Done(Done),
    /// It was killed.
    Killed,
}

/// What an arrival is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Done {
    Ran,
    Replay,
    Held,
    Busy,
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arrival {
    pub(crate) at: At,
    /// The newest row that it knows of.
    pub(crate) seen: Option<usize>,
    pub(crate) waited: Option<usize>,
    /// The claim that it has an answer about; `true`: by its own probe.
    pub(crate) asked: Option<(usize, bool)>,
    /// The claim that it has the right to ask about.
    pub(crate) right: Option<usize>,
    /// The attempts that it was there for or waited for, a bit each: what the invariants know of it.
    pub(crate) there: u8,
}

impl Arrival {
    pub(crate) fn new() -> Arrival {
        Arrival { at: At::Away, seen: None, waited: None, asked: None, right: None, there: 0 }
    }

    /// Finds an attempt without a known end: it was there for that one and those before it no more.
    pub(crate) fn start_anew(&mut self, id: usize) {
        self.there &= !((2 << id) - 1);
    }

    /// Forgets what nobody asks any more, so that equal futures are one state.
    pub(crate) fn end(&mut self, at: At) {
        *self = Arrival { at, ..Arrival::new() };
    }
}

/// What a person is about to do, by what he has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word {
    pub(crate) of: Seen,
    pub(crate) to: To,
}

/// Everything at one moment. Rows are numbered from 1.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) rows: Vec<Row>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) word: Option<Word>,
    pub(crate) window_open: bool,
    /// What may still go wrong.
    pub(crate) left: Faults,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> World {
        World {
            rows: Vec::new(),
            arrivals: vec![Arrival::new(); scenario.profiles.len()],
            word: None,
            window_open: true,
            left: scenario.faults,
        }
    }

    pub(crate) fn row(&self, id: usize) -> &Row {
        &self.rows[id - 1]
    }

    pub(crate) fn row_mut(&mut self, id: usize) -> &mut Row {
        &mut self.rows[id - 1]
    }

    pub(crate) fn read(&self, id: usize) -> Seen {
        Seen { id, stored: self.row(id).stored }
    }

    /// The claims that hold the key: never more than one, as long as the insert is unique.
    pub(crate) fn holder(&self) -> Option<Seen> {
        let holding = (1..=self.rows.len()).find(|&id| self.row(id).stored.state.holds_key());
        holding.map(|id| self.read(id))
    }

    /// Whether the target has the write.
    pub(crate) fn has_landed(&self) -> bool {
        self.rows.iter().any(|row| row.sent)
    }

    /// Whether the owner's idem lives.
    pub(crate) fn owner_lives(&self, id: usize) -> bool {
        !matches!(self.arrivals[self.row(id).by].at, At::Killed | At::Done(_))
    }
}

impl Scenario {
    /// What the lock of an attempt says to somebody on this host, and then the store's clock.
    pub(crate) fn liveness(&self, world: &World, id: usize, host: usize) -> Liveness {
        let row = world.row(id);
        if self.guard == Some(Guard::Lock) {
            return Liveness::Dead;
        }
        let proven = if self.profiles[row.by].host != host {
            Liveness::Unprovable
        } else if row.locked.0 || row.locked.1 {
            Liveness::Alive
        } else {
            Liveness::Dead
        };
        match proven.or_seen(self.shared && !row.unseen) {
            Liveness::Unprovable if self.guard == Some(Guard::Unprovable) => Liveness::Dead,
            said => said,
        }
    }

    /// Whether an attempt was sent again in place of one whose outcome is still unknown, as the stores tell it.
    pub(crate) fn earlier_is_unknown(&self, world: &World, id: usize) -> bool {
        let earlier = (id > 1).then(|| world.row(id - 1).stored);
        self.guard != Some(Guard::Earlier)
            && earlier.is_some_and(|earlier| {
                earlier.state == State::Released
                    && earlier.reason == Some(Reason::Resent)
                    && earlier.outcome != Outcome::NotLanded
            })
    }

    /// The end that is kept of an attempt, as far as somebody on this host can see it: what a shared store refused is kept on
    /// the owner's host.
    pub(crate) fn kept(&self, world: &World, id: usize, host: usize) -> Option<Ending> {
        let row = world.row(id);
        row.pending.filter(|_| !self.shared || self.profiles[row.by].host == host)
    }

    /// The claim that a row is, for the rules that are asked of claims.
    pub(crate) fn claim(&self, seen: Seen) -> Claim {
        let stored = seen.stored;
        Claim {
            id: seen.id as i64,
            state: stored.state,
            reason: stored.reason,
            outcome: stored.outcome,
            effect: stored.effect,
            mark: stored.mark,
            exit_code: stored.has_end.then_some(0),
            ..self.blank.clone()
        }
    }
}

/// A claim that says nothing.
pub(crate) fn blank() -> Claim {
    Claim {
        id: 0,
        key: "0".repeat(64).parse::<Key>().expect("64 digits"),
        state: State::Running,
        reason: None,
        outcome: Outcome::Unknown,
        who: String::new(),
        conv: String::new(),
        tool: String::new(),
        params: String::new(),
        effect: Effect::Local,
        attempt: 1,
        command: CommandLine::from_bytes(Vec::new()),
        parent: None,
        exit_code: None,
        signal: None,
        missing: 0,
        created_at: Timestamp(0),
        uptime: Uptime::default(),
        finished_at: None,
        lock: LockPlace { offset: 1, inode: 1 },
        owner: Owner::default(),
        means: Means::default(),
        mark: None,
        seen_lately: false,
    }
}
