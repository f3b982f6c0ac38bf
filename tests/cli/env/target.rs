//! A target outside this machine, as far as idem can tell: a small payment service on a port of its own, with faults.
//!
//! `POST /pay` with an `Idempotency-Key` and an order's number as its body makes an effect and answers a receipt.
//! `GET /effects/KEY` answers that receipt, or 404 when nothing has landed under the key. What it answers there is never
//! behind what it was sent: it first waits until every connection that came earlier has made its effect or never will.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};

/// How long the target waits for a caller to give up; a bound for broken programs.
const PATIENCE: Duration = Duration::from_mins(1);

/// How many requests of one kind go wrong for one key, at most: in the end everybody gets through.
const BAD_TURNS: usize = 6;

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// Nothing: 200 and the receipt.
    None,
    /// The connection ends with no answer.
    Drop { landed: bool },
    /// An answer that says that it failed.
    Error { status: u16, landed: bool },
    /// It landed, and no answer comes until the caller gives up.
    Silence,
    /// It landed, and the connection is reset in the middle of the receipt.
    Reset,
    /// It landed, and the answer is 200 with nothing in it.
    Empty,
    /// The connection ends with no answer, and the effect comes only then, after this time.
    Late(Duration),
}

/// What the faults of a [`Target::faulty`] are drawn from.
const PAY_FAULTS: [Fault; 8] = [
    Fault::None,
    Fault::Drop { landed: false },
    Fault::Drop { landed: true },
    Fault::Error { status: 500, landed: false },
    Fault::Error { status: 500, landed: true },
    Fault::Error { status: 503, landed: false },
    Fault::Silence,
    Fault::Reset,
];

/// What goes wrong when a [`Target::faulty`] is asked for an effect.
const READ_FAULTS: [Fault; 8] = [
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::Drop { landed: false },
    Fault::Error { status: 500, landed: false },
    Fault::Silence,
];

/// The target; it ends with the test.
pub(crate) struct Target {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

/// One request for a payment, as the target saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) order: String,
    pub(crate) key: String,
    pub(crate) fault: Fault,
}

struct Shared {
    seed: u64,
    plan: Plan,
    dedupes: bool,
    /// Each pause before and after an effect is shorter than this.
    latency: Duration,
    ended: AtomicBool,
    book: Mutex<Book>,
    settled: Condvar,
}

enum Plan {
    /// Drawn anew for each request.
    Drawn,
    /// The first payment of each key gets this one, and everything else goes well.
    First(Fault),
}

/// What the target knows.
#[derive(Default)]
struct Book {
    payments: Vec<Payment>,
    /// Order and key of each effect.
    effects: Vec<(String, String)>,
    /// How often each key was asked for.
    reads: HashMap<String, usize>,
    faults: HashMap<Fault, usize>,
    /// How many connections there have been.
    connections: u64,
    /// Those whose effect, if any, is still to come.
    unsettled: BTreeSet<u64>,
}

impl Target {
    /// A target whose every request may go wrong, drawn by a seed: `FAULT_SEED`, or a new one.
    pub(crate) fn faulty() -> Self {
        Target::start(Plan::Drawn, false, Duration::ZERO)
    }

    /// The same, and one key has one effect: whoever sends it again gets the receipt that there is.
    pub(crate) fn faulty_and_deduping() -> Self {
        Target::start(Plan::Drawn, true, Duration::ZERO)
    }

    /// A faulty target that takes its time, so that its callers can be killed before and after the effect.
    pub(crate) fn faulty_and_slow(latency: Duration) -> Self {
        Target::start(Plan::Drawn, false, latency)
    }

    /// One that takes its time and dedupes.
    pub(crate) fn faulty_slow_and_deduping(latency: Duration) -> Self {
        Target::start(Plan::Drawn, true, latency)
    }

    /// A target where the first payment of each key goes wrong in one way, and nothing else does.
    pub(crate) fn with(fault: Fault) -> Self {
        Target::start(Plan::First(fault), false, Duration::ZERO)
    }

    fn start(plan: Plan, dedupes: bool, latency: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the target's own");
        let address = listener.local_addr().expect("the target's address");
        let shared = Arc::new(Shared {
            seed: new_seed(),
            plan,
            dedupes,
            latency,
            ended: AtomicBool::new(false),
            book: Mutex::default(),
            settled: Condvar::new(),
        });
        let listener = thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Target { address, shared, listener: Some(listener) }
    }

    /// Where payments are sent to.
    pub(crate) fn pay(&self) -> String {
        format!("http://{}/pay", self.address)
    }

    /// Where effects are asked for, by a key that is to be added.
    pub(crate) fn effects(&self) -> String {
        format!("http://{}/effects/", self.address)
    }

    /// The seed that decides the faults.
    pub(crate) fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// How many requests have gone wrong.
    pub(crate) fn faults(&self) -> usize {
        self.shared.book().faults.iter().filter(|(fault, _)| **fault != Fault::None).map(|(_, count)| count).sum()
    }

    /// The kinds of faults that payments can meet and none has met so far.
    pub(crate) fn faults_not_met(&self) -> Vec<Fault> {
        let book = self.shared.book();
        PAY_FAULTS.into_iter().filter(|fault| !book.faults.contains_key(fault)).collect()
    }

    /// The requests for an order, in order.
    pub(crate) fn payments(&self, order: &str) -> Vec<Payment> {
        self.shared.book().payments.iter().filter(|payment| payment.order == order).cloned().collect()
    }

    /// The receipts of all effects that an order has had, those of requests whose senders are gone included.
    pub(crate) fn receipts(&self, order: &str) -> Vec<String> {
        let book = self.shared.settled_before(None);
        (0..book.effects.len()).filter(|n| book.effects[*n].0 == order).map(|n| book.receipt(n)).collect()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if thread::panicking() {
            // Whatever happens to this line, the test has failed already.
            let _ = writeln!(io::stderr(), "the target's faults: repeat them with FAULT_SEED={}", self.seed());
        }
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the listener, so that it sees that.
        drop(TcpStream::connect(self.address));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl fmt::Display for Payment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {} with key {}: {:?}", self.order, self.key, self.fault)
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        let stream = stream.expect("a connection");
        shared.book().arrive(number);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A caller that was killed in the middle of its request gets no answer.
            if let Ok(request) = Request::read(&stream) {
                shared.serve(number, &request, &stream);
            }
            shared.settle(number);
        });
    }
}

/// What of a request counts here.
struct Request {
    pays: bool,
    path: String,
    key: String,
    body: String,
}

impl Request {
    fn read(stream: &TcpStream) -> io::Result<Request> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let mut words = line.split(' ');
        let pays = words.next() == Some("POST");
        let path = words.next().ok_or(io::ErrorKind::UnexpectedEof)?.to_owned();
        let (mut key, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            if line == "\r\n" {
                break;
            }
            let (name, value) = line.trim().split_once(": ").ok_or(io::ErrorKind::UnexpectedEof)?;
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => value.clone_into(&mut key),
                "content-length" => length = value.parse().expect("a length in bytes"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(Request { pays, path, key, body: String::from_utf8(body).expect("an order's number") })
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no thread of the target has failed")
    }

    /// Waits until no connection before this one, or of all that came so far, can make an effect any more.
    fn settled_before(&self, number: Option<u64>) -> MutexGuard<'_, Book> {
        let book = self.book();
        let number = number.unwrap_or(book.connections);
        let unsettled = |book: &mut Book| book.unsettled.first().is_some_and(|first| *first < number);
        self.settled.wait_while(book, unsettled).expect("no thread of the target has failed")
    }

    /// From here on a connection makes no effect.
    fn settle(&self, number: u64) {
        self.book().unsettled.remove(&number);
        self.settled.notify_all();
    }

    fn serve(&self, number: u64, request: &Request, stream: &TcpStream) {
        match request.path.strip_prefix("/effects/") {
            Some(key) if !request.pays => self.tell(number, key, stream),
            None if request.pays && request.path == "/pay" => self.take(number, request, stream),
            _ => answer(stream, 400, "no such place\n"),
        }
    }

    /// Takes a payment.
    fn take(&self, number: u64, request: &Request, stream: &TcpStream) {
        let (fault, mut random) = {
            let mut book = self.book();
            let before = book.payments.iter().filter(|payment| payment.key == request.key).count();
            let mut random = Random::new(self.seed, &format!("pay {}", request.key), before);
            let fault = match self.plan {
                Plan::First(fault) if before == 0 => fault,
                Plan::Drawn if before < BAD_TURNS => PAY_FAULTS[random.below(PAY_FAULTS.len())],
                _ => Fault::None,
            };
            *book.faults.entry(fault).or_default() += 1;
            let (order, key) = (request.body.clone(), request.key.clone());
            book.payments.push(Payment { order, key, fault });
            (fault, random)
        };
        thread::sleep(random.up_to(self.latency));
        let lands = match fault {
            Fault::Drop { landed } | Fault::Error { landed, .. } => landed,
            Fault::Late(_) => false,
            Fault::None | Fault::Silence | Fault::Reset | Fault::Empty => true,
        };
        let receipt = if lands { self.land(request) } else { String::new() };
        self.settle(number);
        thread::sleep(random.up_to(self.latency));
        match fault {
            Fault::Drop { .. } => {}
            Fault::Error { status, .. } => answer(stream, status, "it failed, says the target\n"),
            Fault::None => answer(stream, 200, &receipt),
            Fault::Empty => answer(stream, 200, ""),
            Fault::Silence => outlast(stream),
            Fault::Reset => reset(stream, &receipt),
            Fault::Late(time) => {
                // The caller's end of the connection sees no answer and may go.
                let _ = stream.shutdown(std::net::Shutdown::Both);
                thread::sleep(time);
                self.land(request);
            }
        }
    }

    /// Makes the effect, and returns its receipt. A target that dedupes makes one for each key.
    fn land(&self, request: &Request) -> String {
        let mut book = self.book();
        if let Some(n) = book.effect_of(&request.key).filter(|_| self.dedupes) {
            return book.receipt(n);
        }
        book.effects.push((request.body.clone(), request.key.clone()));
        book.receipt(book.effects.len() - 1)
    }

    /// Tells whether something has landed under a key.
    fn tell(&self, number: u64, key: &str, stream: &TcpStream) {
        self.settle(number);
        let mut book = self.settled_before(Some(number));
        let before = *book.reads.entry(key.to_owned()).and_modify(|count| *count += 1).or_default();
        let mut random = Random::new(self.seed, &format!("read {key}"), before);
        let fault = match self.plan {
            Plan::Drawn if before < BAD_TURNS => READ_FAULTS[random.below(READ_FAULTS.len())],
            _ => Fault::None,
        };
        *book.faults.entry(fault).or_default() += 1;
        let receipt = book.effect_of(key).map(|n| book.receipt(n));
        drop(book);
        match (fault, receipt) {
            (Fault::None, Some(receipt)) => answer(stream, 200, &receipt),
            (Fault::None, None) => answer(stream, 404, ""),
            (Fault::Error { status, .. }, _) => answer(stream, status, ""),
            (Fault::Silence, _) => outlast(stream),
            _ => {}
        }
    }
}

impl Book {
    fn arrive(&mut self, number: u64) {
        self.connections = number + 1;
        self.unsettled.insert(number);
    }

    /// The first effect under a key.
    fn effect_of(&self, key: &str) -> Option<usize> {
        self.effects.iter().position(|(_, of)| of == key)
    }

    fn receipt(&self, effect: usize) -> String {
        format!("receipt {} for order {}\n", effect + 1, self.effects[effect].0)
    }
}

// Whether an answer arrives is the caller's affair: it may be gone.

fn answer(mut stream: &TcpStream, status: u16, body: &str) {
    let _ = stream.write_all(format!("{}{body}", head(status, body)).as_bytes());
}

fn head(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} as it is\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())
}

/// Says nothing until the caller has given up.
fn outlast(mut stream: &TcpStream) {
    let _ = stream.read(&mut [0]);
}

/// Sends half an answer and resets the connection.
fn reset(mut stream: &TcpStream, body: &str) {
    let _ = stream.write_all(format!("{}{}", head(200, body), &body[..body.len() / 2]).as_bytes());
    // A socket that doesn't linger is reset by its close.
    setsockopt(&stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 }).expect("a socket that does not linger");
}

/// The seed of a test's faults: `FAULT_SEED`, or a new one.
pub(crate) fn new_seed() -> u64 {
    match std::env::var("FAULT_SEED") {
        Ok(seed) => seed.parse().expect("FAULT_SEED is a number"),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
            u64::from(now.subsec_nanos()) ^ now.as_secs()
        }
    }
}

/// Numbers that one seed always gives in the same order (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each thing that it decides and each turn of that.
    pub(crate) fn new(seed: u64, what: &str, turn: usize) -> Self {
        let mut state = seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in format!("{what} {turn}").bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut random = Random(state.max(1));
        // Neighbouring seeds part company only after some steps.
        for _ in 0..8 {
            random.step();
        }
        random
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let number = usize::try_from(self.step() >> 33).expect("31 bits");
        number % bound
    }

    /// A time below a bound.
    pub(crate) fn up_to(&mut self, bound: Duration) -> Duration {
        bound * u32::try_from(self.below(1000)).expect("a number below 1000") / 1000
    }

    fn step(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
