//! A network that does what a test tells it: a proxy before the server that acts at a statement, not at a time.
//!
//! It reads what client and server say to each other. Whatever it was told to do it does once, in the thread that carries
//! the statement or its answer, and then tells the test by a channel. No bytes pass between deciding and acting.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::libc::linger;
use nix::sys::socket::{self, setsockopt, sockopt};

use crate::wire::{Message, Opening, Unit, Units};

/// What happens at a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The statement doesn't reach the server; the connection is cut.
    CutBefore,
    /// The server has done it and committed; its answer is thrown away, and the connection is cut.
    CutAfter,
    /// The statement waits here until the network is healed.
    HoldBefore,
    /// The server has done it and committed; its answer waits here until the network is healed. Everything else passes.
    HoldAfter,
    /// From this statement on nothing passes in either direction, and nobody is told: no end, no reset.
    HoleBefore,
    /// The server has done it and committed; from its answer on nothing passes.
    HoleAfter,
}

/// What becomes of the network after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Only that connection was cut. Whoever calls again gets through.
    HealsAtOnce,
    /// All connections are cut, and whoever calls again is refused until [`Proxy::heal`].
    StaysAway,
}

/// The proxy; it ends with the test.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    socket: TcpListener,
    listener: Option<JoinHandle<()>>,
}

/// The word that something was done.
pub(crate) struct Acted(Receiver<()>);

struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    /// New connections are reset.
    refuses: bool,
    /// Nothing passes.
    is_hole: bool,
    /// How often the network was healed: who waits for that waits for another number.
    healings: usize,
    rules: Vec<Rule>,
    links: HashMap<u64, Link>,
    connections: u64,
    round_trips: usize,
    /// The statements that were answered.
    statements: Vec<String>,
}

struct Rule {
    is_it: Box<dyn Fn(&str) -> bool + Send>,
    /// How many fitting statements are let pass before.
    passes: usize,
    fate: Fate,
}

/// What was decided about a unit.
#[derive(Clone)]
struct Fate {
    act: Act,
    then: Then,
    told: Sender<()>,
}

/// One connection, as the threads of both directions and the test see it.
struct Link {
    client: TcpStream,
    server: TcpStream,
    is_cut: bool,
    /// What the server has not answered yet, in order.
    units: VecDeque<(Option<Fate>, Vec<String>)>,
}

impl Proxy {
    /// A proxy on loopback.
    pub(crate) fn before(server: SocketAddr) -> Proxy {
        Proxy::at(Ipv4Addr::LOCALHOST, server)
    }

    /// A proxy at an address of this machine.
    pub(crate) fn at(address: Ipv4Addr, server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((address, 0)).expect("a port of the proxy's own");
        let address = listener.local_addr().expect("the proxy's address");
        let shared = Arc::new(Shared { server, state: Mutex::default(), changed: Condvar::new() });
        let socket = listener.try_clone().expect("the proxy's socket");
        let listener = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.listen(&listener)
        });
        Proxy { address, shared, socket, listener: Some(listener) }
    }

    /// Where clients go.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Acts at the `nth` statement (from 1) that is meant, counted over all connections from now on.
    #[must_use]
    pub(crate) fn at_statement(
        &self,
        nth: usize,
        is_it: impl Fn(&str) -> bool + Send + 'static,
        act: Act,
        then: Then,
    ) -> Acted {
        let (told, acted) = channel();
        let rule = Rule { is_it: Box::new(is_it), passes: nth - 1, fate: Fate { act, then, told } };
        self.shared.state().rules.push(rule);
        Acted(acted)
    }

    /// Cuts all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.shared.state().cut_all();
        self.shared.changed.notify_all();
    }

    /// Cuts all connections; whoever calls again gets through.
    pub(crate) fn cut_for_a_moment(&self) {
        let mut state = self.shared.state();
        state.links.values_mut().for_each(Link::cut);
        self.shared.changed.notify_all();
    }

    /// Lets nothing pass, and tells nobody.
    pub(crate) fn swallow_everything(&self) {
        self.shared.state().is_hole = true;
    }

    /// Lets everything pass again, what was held up included.
    pub(crate) fn heal(&self) {
        let mut state = self.shared.state();
        (state.refuses, state.is_hole) = (false, false);
        state.healings += 1;
        self.shared.changed.notify_all();
    }

    /// How many times somebody asked and was answered since the last time that this was asked, start-ups apart.
    pub(crate) fn round_trips(&self) -> usize {
        std::mem::take(&mut self.shared.state().round_trips)
    }

    /// The statements that were answered since the last time that this was asked.
    pub(crate) fn statements(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().statements)
    }

    /// How many connections there have been, refused ones included.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.state().connections
    }

    /// How many connections there are.
    pub(crate) fn open_connections(&self) -> usize {
        self.shared.state().links.len()
    }
}

impl Acted {
    /// Waits until it was done.
    #[track_caller]
    pub(crate) fn wait(&self) {
        assert!(self.0.recv_timeout(Duration::from_mins(1)).is_ok(), "the statement that was waited for never came");
    }

    /// Whether it was done.
    pub(crate) fn has_happened(&self) -> bool {
        self.0.try_recv().is_ok()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.has_ended = true;
            state.cut_all();
            self.shared.changed.notify_all();
        }
        // Wakes the listener, so that it sees that. A call could come by no way any more: its machine may be gone.
        let _ = socket::shutdown(self.socket.as_raw_fd(), socket::Shutdown::Both);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl State {
    fn cut_all(&mut self) {
        self.refuses = true;
        self.links.values_mut().for_each(Link::cut);
    }

    /// What becomes of these statements: the first rule that means one of them is used up.
    fn decide(&mut self, statements: &[String]) -> Option<Fate> {
        for statement in statements {
            for n in 0..self.rules.len() {
                let rule = &mut self.rules[n];
                if (rule.is_it)(statement) {
                    match rule.passes.checked_sub(1) {
                        Some(passes) => rule.passes = passes,
                        None => return Some(self.rules.remove(n).fate),
                    }
                }
            }
        }
        None
    }
}

impl Link {
    fn cut(&mut self) {
        self.is_cut = true;
        // Gone already is as good as cut.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

fn is_cut() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the proxy has failed")
    }

    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            let mut state = self.state();
            if state.has_ended {
                return;
            }
            let client = client.expect("a connection");
            state.connections += 1;
            let number = state.connections;
            if state.refuses {
                reset(&client);
                continue;
            }
            drop(state);
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // Who hangs up in the middle of a word has hung up.
                let _ = shared.carry(number, &client);
                let _ = client.shutdown(Shutdown::Both);
                shared.state().links.remove(&number);
            });
        }
    }

    /// Carries one connection from its beginning to its end; this thread takes what the client says.
    fn carry(self: &Arc<Self>, number: u64, client: &TcpStream) -> io::Result<()> {
        drop(self.wait_while_hole(self.state(), None)?);
        let server = TcpStream::connect(self.server)?;
        for stream in [client, &server] {
            stream.set_nodelay(true)?;
        }
        let link =
            Link { client: client.try_clone()?, server: server.try_clone()?, is_cut: false, units: VecDeque::new() };
        {
            let mut state = self.state();
            if state.refuses {
                reset(client);
                return Err(is_cut());
            }
            state.links.insert(number, link);
        }
        let ended = self.talk(number, client, &server);
        let _ = server.shutdown(Shutdown::Both);
        ended
    }

    fn talk(self: &Arc<Self>, number: u64, mut client: &TcpStream, mut server: &TcpStream) -> io::Result<()> {
        let mut from_client = BufReader::new(client.try_clone()?);
        loop {
            let (opening, message) = Message::opening(&mut from_client)?;
            drop(self.wait_while_hole(self.state(), Some(number))?);
            server.write_all(&message.bytes)?;
            match opening {
                Opening::MayEncrypt => {
                    let mut answer = [0];
                    server.read_exact(&mut answer)?;
                    // What is encrypted can't be read here; the tests' servers have no TLS.
                    assert_eq!(answer, *b"N", "the server would encrypt");
                    client.write_all(&answer)?;
                }
                Opening::Cancels => return Ok(()),
                Opening::Begins => break,
            }
        }
        let answers = thread::spawn({
            let (shared, from_server, to_client) = (Arc::clone(self), server.try_clone()?, client.try_clone()?);
            move || {
                let _ = shared.answer(number, from_server, &to_client);
                let _ = to_client.shutdown(Shutdown::Both);
            }
        });
        let asked = self.ask(number, &mut from_client, server);
        // The server sees that the client has ended, may still answer, and ends as well.
        let _ = server.shutdown(Shutdown::Write);
        let _ = answers.join();
        asked
    }

    /// Carries what the client asks.
    fn ask(&self, number: u64, from_client: &mut impl Read, server: &TcpStream) -> io::Result<()> {
        let mut units = Units::default();
        loop {
            let message = match Message::next(from_client) {
                Ok(message) => message,
                // Its end is no news in a hole, either.
                Err(end) => {
                    drop(self.wait_while_hole(self.state(), Some(number))?);
                    return Err(end);
                }
            };
            if let Some(unit) = units.add(&message) {
                self.send(number, unit, server)?;
            }
        }
    }

    fn send(&self, number: u64, unit: Unit, server: &TcpStream) -> io::Result<()> {
        let mut state = self.state();
        let mut fate = state.decide(&unit.statements);
        if let Some(Fate { act, then, told }) = &fate {
            match act {
                Act::CutBefore => return Err(self.cut(state, number, *then, told)),
                Act::HoldBefore => {
                    let _ = told.send(());
                    state = self.wait_for_healing(state, number)?;
                    fate = None;
                }
                Act::HoleBefore => {
                    state.is_hole = true;
                    let _ = told.send(());
                    fate = None;
                }
                Act::CutAfter | Act::HoldAfter | Act::HoleAfter => {}
            }
        }
        state = self.wait_while_hole(state, Some(number))?;
        if unit.is_answered {
            state.links.get_mut(&number).ok_or_else(is_cut)?.units.push_back((fate, unit.statements));
        }
        drop(state);
        (&mut &*server).write_all(&unit.bytes)
    }

    /// Carries what the server answers.
    fn answer(&self, number: u64, from_server: TcpStream, client: &TcpStream) -> io::Result<()> {
        let mut from_server = BufReader::with_capacity(1 << 16, from_server);
        // What was decided about a statement in a transaction holds for the answer that tells of its commit.
        let mut in_transaction: Option<Fate> = None;
        let (mut has_begun, mut answer) = (false, Vec::new());
        loop {
            let message = match Message::next(&mut from_server) {
                Ok(message) => message,
                Err(end) => {
                    drop(self.wait_while_hole(self.state(), Some(number))?);
                    return Err(end);
                }
            };
            answer.extend_from_slice(&message.bytes);
            let readiness = message.readiness();
            let mut state = self.state();
            let has_fate = {
                let link = state.links.get(&number).ok_or_else(is_cut)?;
                in_transaction.is_some() || link.units.front().is_some_and(|(fate, _)| fate.is_some())
            };
            if let Some(readiness) = readiness.filter(|_| has_begun) {
                let unit = state.links.get_mut(&number).and_then(|link| link.units.pop_front());
                let (fate, statements) = unit.expect("an answer to something");
                state.round_trips += 1;
                state.statements.extend(statements);
                in_transaction = in_transaction.or(fate);
                if let Some(fate) = in_transaction.take_if(|_| readiness != b'T') {
                    state = self.meet(state, number, &fate)?;
                }
            } else if has_fate {
                continue;
            }
            has_begun |= readiness.is_some();
            drop(self.wait_while_hole(state, Some(number))?);
            (&mut &*client).write_all(&answer)?;
            answer.clear();
        }
    }

    /// The server has committed what the fate is about, and its answer is here.
    fn meet<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        number: u64,
        fate: &Fate,
    ) -> io::Result<MutexGuard<'a, State>> {
        match fate.act {
            Act::CutAfter => Err(self.cut(state, number, fate.then, &fate.told)),
            Act::HoldAfter => {
                let _ = fate.told.send(());
                self.wait_for_healing(state, number)
            }
            Act::HoleAfter => {
                state.is_hole = true;
                let _ = fate.told.send(());
                Ok(state)
            }
            Act::CutBefore | Act::HoldBefore | Act::HoleBefore => unreachable!("that was met before"),
        }
    }

    fn cut(&self, mut state: MutexGuard<'_, State>, number: u64, then: Then, told: &Sender<()>) -> io::Error {
        // Told first: whoever notices the cut must find that it has happened. What the test does then waits for this lock.
        let _ = told.send(());
        match then {
            Then::StaysAway => state.cut_all(),
            Then::HealsAtOnce => state.links.get_mut(&number).into_iter().for_each(Link::cut),
        }
        self.changed.notify_all();
        is_cut()
    }

    /// Waits until something may pass; fails when the connection is cut meanwhile.
    fn wait_while_hole<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        number: Option<u64>,
    ) -> io::Result<MutexGuard<'a, State>> {
        self.wait_while(state, number, |state| state.is_hole)
    }

    fn wait_for_healing<'a>(&'a self, state: MutexGuard<'a, State>, number: u64) -> io::Result<MutexGuard<'a, State>> {
        let before = state.healings;
        self.wait_while(state, Some(number), |state| state.healings == before)
    }

    fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        number: Option<u64>,
        waits: impl Fn(&State) -> bool,
    ) -> io::Result<MutexGuard<'a, State>> {
        let cut = |state: &State| {
            state.has_ended || number.is_some_and(|number| state.links.get(&number).is_none_or(|link| link.is_cut))
        };
        let state = self.changed.wait_while(state, |state| !cut(state) && waits(state));
        let state = state.expect("no thread of the proxy has failed");
        if cut(&state) { Err(is_cut()) } else { Ok(state) }
    }
}

/// Resets a connection: its socket doesn't linger, and is dropped by its owner.
fn reset(client: &TcpStream) {
    let _ = setsockopt(client, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 });
}
