//! A registry and shop on a port of its own, for the recipes: it keeps what is put, dedupes orders by their key, and
//! loses the first answer of each kind that it is told to lose.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What it has been told and has kept.
#[derive(Default)]
struct Kept {
    /// How often each path was put, over all connections.
    puts: HashMap<String, usize>,
    /// The order of each key, and how often it was sent.
    orders: HashMap<String, (String, usize)>,
    /// Requests (method and path) whose first answer gets lost.
    lose: HashSet<String>,
}

/// The registry; its thread ends with the test's process.
pub(crate) struct Registry {
    address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its number");
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A caller that goes away in the middle is its own affair.
                thread::spawn(move || serve(&stream, &shared).ok());
            }
        });
        Registry { address, kept }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the first answer to this request (`PUT /cli/1.4.0`) get lost, after it has had its effect.
    pub(crate) fn lose_answer_to(&self, request: &str) {
        self.kept.lock().expect("no panic").lose.insert(request.to_owned());
    }

    /// The paths that were put, each with how often.
    pub(crate) fn puts(&self) -> Vec<(String, usize)> {
        let mut puts: Vec<_> = self.kept.lock().expect("no panic").puts.clone().into_iter().collect();
        puts.sort();
        puts
    }

    /// The orders that there are, each with how often it was sent.
    pub(crate) fn orders(&self) -> Vec<(String, usize)> {
        self.kept.lock().expect("no panic").orders.values().cloned().collect()
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Kept>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "idempotency-key" => value.trim().clone_into(&mut key),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, answer) = {
        let mut kept = kept.lock().expect("no panic");
        let answer = effect(&mut kept, &method, &path, &key, &String::from_utf8_lossy(&body));
        if kept.lose.remove(&format!("{method} {path}")) {
            return Ok(());
        }
        answer
    };
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}", answer.len())
}

fn effect(kept: &mut Kept, method: &str, path: &str, key: &str, body: &str) -> (&'static str, String) {
    match method {
        "PUT" => {
            let count = kept.puts.entry(path.to_owned()).or_default();
            *count += 1;
            // As registries do: a version is published once.
            if *count == 1 { ("201 Created", "published\n".into()) } else { ("409 Conflict", "it is there\n".into()) }
        }
        "POST" if !key.is_empty() => {
            let number = kept.orders.len() + 1;
            let order = kept.orders.entry(key.to_owned()).or_insert_with(|| (format!("order {number}: {body}\n"), 0));
            order.1 += 1;
            ("201 Created", order.0.clone())
        }
        "GET" if kept.puts.contains_key(path) => ("200 OK", "there\n".into()),
        _ => ("404 Not Found", "no such thing\n".into()),
    }
}
