//! The store in PostgreSQL beside the store in a file: how long a call takes, and how often it asks the server.
//!
//! `IDEM_BENCH_POSTGRES` names an empty database that may be filled, on loopback without TLS. Where it isn't set, the room says so.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::idem::output;
use crate::machine::Disk;
use crate::report::{Row, times};
use crate::sampling::{Ratio, Subject, interleave};
use crate::{Bench, Result};

const GROUP: &str = "In PostgreSQL";

const FIRST: &str = "first run, PostgreSQL";
const FIRST_FILE: &str = "first run, file";
const REPLAY: &str = "replay, PostgreSQL";
const REPLAY_FILE: &str = "replay, file";

/// The most round trips of a first run and of a replay, the start of the connection apart.
const GOALS: [(&str, usize); 2] = [("a first run", 5), ("a replay", 2)];

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let Ok(url) = std::env::var("IDEM_BENCH_POSTGRES") else {
        bench.report.push(GROUP, Row::new("not measured: IDEM_BENCH_POSTGRES names no database"));
        return Ok(());
    };
    // An empty database is made a store by the first call of all.
    let making = usize::try_from(std::process::id())?;
    output(run(bench, Path::new(&url), making).arg(&bench.place.tools.nothing))?;
    round_trips(bench, &url)?;
    latency(bench, &url)
}

/// Counts them on the wire, by a relay between idem and the server.
fn round_trips(bench: &mut Bench, url: &str) -> Result<()> {
    let (before, rest) = url.split_once('@').ok_or("the URL has no user")?;
    let (server, database) = rest.split_once('/').ok_or("the URL has no database")?;
    let relay = Relay::before(server.parse()?)?;
    let relayed = format!("{before}@{}/{database}", relay.address);
    let call = usize::try_from(std::process::id())? * 1000;
    for (what, goal) in GOALS {
        let already = relay.answers.load(Ordering::SeqCst);
        let replayed = output(run(bench, Path::new(&relayed), call).arg("/bin/echo").arg("one"))?;
        if replayed.stdout != b"one\n" {
            return Err(format!("{what} printed {replayed:?}").into());
        }
        let trips = relay.answers.load(Ordering::SeqCst) - already;
        let row = Row::new(format!("round trips of {what}")).values(trips.to_string(), "");
        bench.report.push(GROUP, row.goal(format!("≤ {goal}"), trips <= goal));
    }
    Ok(())
}

fn latency(bench: &mut Bench, url: &str) -> Result<()> {
    let file = bench.place.store("beside-postgres")?;
    let base = usize::try_from(std::process::id())? * 1000 + 1;
    let nothing = bench.place.tools.nothing.clone();
    for store in [Path::new(url), &file] {
        output(run(bench, store, base).arg(&nothing))?;
    }
    let mut subjects = Vec::new();
    for (first, replay, store) in [(FIRST, REPLAY, PathBuf::from(url)), (FIRST_FILE, REPLAY_FILE, file)] {
        let (again, mut call) = (store.clone(), base);
        let (one, other) = (Caller::of(bench), Caller::of(bench));
        subjects.push(Subject::new(first, move || {
            call += 1;
            one.run(&store, call)
        }));
        subjects.push(Subject::new(replay, move || other.run(&again, base)));
    }
    let mut disk = Disk::new(&bench.place)?;
    let measured = interleave(&mut subjects, bench.options.size.rounds, &mut bench.rng, &mut disk)?;
    for (above, below) in [(0, 2), (1, 3)] {
        let ratio = Ratio::of(&measured[above], &measured[below], &mut bench.rng);
        let figure = format!("{} / {}", subjects[above].name, subjects[below].name);
        let row = Row::new(figure).values(times(&measured[above]), times(&measured[below]));
        bench.report.push(GROUP, row.ratio(ratio));
    }
    Ok(())
}

fn run(bench: &Bench, store: &Path, call: usize) -> Command {
    Caller::of(bench).command(store, call)
}

/// What a call needs that outlives the look at the bench.
struct Caller {
    idem: crate::idem::Idem,
    nothing: PathBuf,
    state: PathBuf,
}

impl Caller {
    fn of(bench: &Bench) -> Caller {
        let place = &bench.place;
        Caller { idem: place.idem.clone(), nothing: place.tools.nothing.clone(), state: place.path("state") }
    }

    /// Up to the command.
    fn command(&self, store: &Path, call: usize) -> Command {
        let none: [&str; 0] = [];
        let mut run = self.idem.run(store, call, &none);
        run.env("XDG_STATE_HOME", &self.state);
        run
    }

    fn run(&self, store: &Path, call: usize) -> Command {
        let mut run = self.command(store, call);
        run.arg(&self.nothing);
        run
    }
}

/// Passes bytes on between clients and a server, and counts the server's `ReadyForQuery`: one for each round trip, besides
/// the one that ends the start of a connection.
struct Relay {
    address: SocketAddr,
    answers: Arc<AtomicUsize>,
}

impl Relay {
    fn before(server: SocketAddr) -> Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let answers = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&answers);
        // It ends with the bench.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let (Ok(mut from), Ok(mut to)) = (client.try_clone(), server.try_clone()) else { continue };
                thread::spawn(move || std::io::copy(&mut from, &mut to));
                let counted = Arc::clone(&counted);
                thread::spawn(move || carry(server, client, &counted));
            }
        });
        Ok(Relay { address, answers })
    }
}

/// Carries the server's messages, each a kind, a length and a body.
fn carry(mut server: TcpStream, mut client: TcpStream, answers: &AtomicUsize) -> Option<()> {
    let mut first = [0];
    server.read_exact(&mut first).ok()?;
    // The answer to a question for TLS is one byte alone; after it comes the start.
    if first == *b"N" {
        client.write_all(&first).ok()?;
        server.read_exact(&mut first).ok()?;
    }
    let mut is_started = false;
    loop {
        let mut length = [0; 4];
        server.read_exact(&mut length).ok()?;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?.saturating_sub(4)];
        server.read_exact(&mut body).ok()?;
        if first == *b"Z" {
            answers.fetch_add(usize::from(is_started), Ordering::SeqCst);
            is_started = true;
        }
        client.write_all(&[&first[..], &length, &body].concat()).ok()?;
        server.read_exact(&mut first).ok()?;
    }
}
