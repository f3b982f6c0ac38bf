//! The way to a server: the look-up of its name, and the socket.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};

use super::place::{Host, Noticing, Server};
use super::trouble::{Trouble, plain};

/// A stream to a server, of either kind.
pub(super) type Wire = Box<dyn Stream>;

/// What a stream must be able to do.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Opens a socket to a server until then; `None`: however long it takes.
pub(super) async fn dial(server: &Server, noticing: &Noticing, until: Instant) -> Result<Wire, Trouble> {
    let unreachable = |text: &str| Trouble::Unreachable(format!("{server}: {text}"));
    if let Host::Folder(folder) = &server.host {
        let path = folder.join(format!(".s.PGSQL.{}", server.port));
        return match timeout_at(until, UnixStream::connect(&path)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(Trouble::Unreachable(format!("{}: {}", path.display(), plain(&error)))),
            Err(_) => Err(unreachable("no answer in time")),
        };
    }
    let addresses = addresses(server, until).map_err(|text| unreachable(&text))?;
    let mut failed = unreachable("the name has no address");
    for (at, address) in addresses.iter().enumerate() {
        // An address that swallows everything must leave some time for those that follow.
        let rest = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        let now = Instant::now();
        let limit = now + until.saturating_duration_since(now) / rest;
        match timeout_at(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                prepare(&stream, noticing).map_err(|error| unreachable(&plain(&error)))?;
                return Ok(Box::new(stream));
            }
            Ok(Err(error)) => failed = unreachable(&plain(&error)),
            Err(_) => failed = unreachable("no answer in time"),
        }
    }
    Err(failed)
}

/// A statement is one small packet and mustn't wait for another; and a cut network must be noticed.
fn prepare(stream: &TcpStream, noticing: &Noticing) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    if noticing.keepalives {
        let keepalive = TcpKeepalive::new().with_time(noticing.idle).with_interval(noticing.interval);
        socket.set_tcp_keepalive(&keepalive.with_retries(noticing.count))?;
    }
    socket.set_tcp_user_timeout(Some(noticing.unacknowledged))
}

fn addresses(server: &Server, until: Instant) -> Result<Vec<SocketAddr>, String> {
    match &server.host {
        Host::Address(address, _) => Ok(vec![SocketAddr::new(*address, server.port)]),
        Host::Name(name) => look_up(name, server.port, until.saturating_duration_since(Instant::now())),
        Host::Folder(_) => Ok(Vec::new()),
    }
}

/// Looks a name up, for so long at most. The system has no way to stop a look-up, so a thread is left to it: it ends with
/// the process.
fn look_up(name: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, String> {
    let (sender, receiver) = channel();
    let target = (name.to_owned(), port);
    let looking = move || {
        let found = target.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        // Nobody waits any more if this fails.
        let _ = sender.send(found);
    };
    thread::Builder::new().name("look-up".to_owned()).spawn(looking).map_err(|error| plain(&error))?;
    match receiver.recv_timeout(limit) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(format!("unknown host: {}", plain(&error))),
        Err(RecvTimeoutError::Timeout) => Err("the look-up of its name gave no answer in time".to_owned()),
        Err(RecvTimeoutError::Disconnected) => Err("the look-up of its name failed".to_owned()),
    }
}
