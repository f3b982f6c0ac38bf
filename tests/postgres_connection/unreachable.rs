//! Servers that aren't there. No PostgreSQL is needed to try that.

use std::io::Read;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use idem::domain::store::StoreError;
use idem::store::postgres::Trouble;

use crate::server::{open, place_at};

fn trouble(url: &str) -> String {
    let trouble = open(url).err().unwrap_or_else(|| panic!("{url} was reached"));
    assert!(matches!(trouble, Trouble::Unreachable(_)), "{url}: {trouble:?}");
    trouble.text().to_owned()
}

#[test]
fn nobody_is_there() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    assert_eq!(
        trouble(&format!("postgres://u:pw@127.0.0.1:{port}/d")),
        format!("127.0.0.1:{port}: connection refused")
    );
    let named = trouble(&format!("postgres://u:pw@localhost:{port}/d"));
    assert_eq!(named, format!("localhost:{port}: connection refused"));
    let unknown = trouble("postgres://u:pw@no-such-host.invalid:7/d?connect_timeout=3");
    assert!(unknown.starts_with("no-such-host.invalid:7: "), "{unknown}");
    let socket = trouble("postgres://u:pw@%2Fno%2Fsuch%2Ffolder:7/d");
    assert_eq!(socket, "/no/such/folder/.s.PGSQL.7: no such file or directory");
    let both = trouble(&format!("postgres://u:pw@127.0.0.1:{port},%2Fno:7/d"));
    assert_eq!(both, format!("127.0.0.1:{port}: connection refused, /no/.s.PGSQL.7: no such file or directory"));

    let url = "postgres://u:s3cret@127.0.0.1:1/d";
    let error = open(url).err().expect("nobody there").into_store_error(&place_at(url, "/".as_ref()));
    assert!(matches!(error, StoreError::Unreachable(..)) && error.kind() == "store-unreachable");
    assert_eq!(
        error.to_string(),
        "the store postgres://u@127.0.0.1:1/d can't be reached: 127.0.0.1:1: connection refused"
    );
}

/// Whatever the server keeps for itself, `connect_timeout` is the limit.
#[test]
fn somebody_takes_the_call_and_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    for (mode, limit) in [("disable", 1), ("prefer", 2), ("require", 1)] {
        let begun = Instant::now();
        let text = trouble(&format!("postgres://u:pw@127.0.0.1:{port}/d?connect_timeout={limit}&sslmode={mode}"));
        let took = begun.elapsed();
        assert_eq!(text, format!("127.0.0.1:{port}: no answer in time"));
        assert!(took >= Duration::from_secs(limit) && took < Duration::from_secs(limit + 5), "{mode}: {took:?}");
    }
}

#[test]
fn somebody_hangs_up_or_talks_nonsense() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            if at > 0 {
                let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        }
    });
    for _ in 0..2 {
        let text = trouble(&format!("postgres://u:pw@127.0.0.1:{port}/d?connect_timeout=3&sslmode=disable"));
        assert!(text.starts_with(&format!("127.0.0.1:{port}: ")), "{text}");
    }
}
