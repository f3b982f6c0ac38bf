//! A relay before a server: counts the round trips, falls silent or cuts on demand.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A relay on loopback.
pub(crate) struct Relay {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How often the client spoke after the server had.
    turns: AtomicUsize,
    server_spoke: AtomicBool,
    silent: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    pub(crate) fn to(port: u16) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let relay = Relay { port: listener.local_addr().expect("an address").port(), shared: Arc::default() };
        let shared = Arc::clone(&relay.shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
                let copies = [client.try_clone(), server.try_clone()].map(|stream| stream.expect("a copy"));
                shared.streams.lock().expect("the list").extend(copies);
                let copies = [client.try_clone(), server.try_clone()].map(|stream| stream.expect("a copy"));
                let [to_client, to_server] = copies;
                let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || pass(client, to_server, &one, true));
                thread::spawn(move || pass(server, to_client, &other, false));
            }
        });
        relay
    }

    /// Returns how many round trips there were since it was last asked.
    pub(crate) fn turns(&self) -> usize {
        self.shared.turns.swap(0, Ordering::SeqCst)
    }

    /// Swallows everything from now on.
    pub(crate) fn fall_silent(&self) {
        self.shared.silent.store(true, Ordering::SeqCst);
    }

    pub(crate) fn cut(&self) {
        for stream in self.shared.streams.lock().expect("the list").drain(..) {
            // One that is closed already is cut.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_client: bool) {
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if is_client && shared.server_spoke.swap(false, Ordering::SeqCst) {
            shared.turns.fetch_add(1, Ordering::SeqCst);
        }
        if !is_client {
            shared.server_spoke.store(true, Ordering::SeqCst);
        }
        if !shared.silent.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
