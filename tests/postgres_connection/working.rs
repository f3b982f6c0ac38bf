//! An open connection at work: round trips, transactions, notifications, and what becomes of a broken one.

use std::time::{Duration, Instant};

use idem::store::postgres::Trouble;
use tokio_postgres::types::Type;

use crate::relay::Relay;
use crate::server::{Server, open};

const ACCESS: &str = "host all all 127.0.0.1/32 trust\n";

#[test]
fn statements_and_transactions() {
    let Some(server) = Server::start(ACCESS, "", |_| {}) else { return };
    let relay = Relay::to(server.port);
    let url = format!("postgres://boss@127.0.0.1:{}/postgres", relay.port);
    let mut connection = open(&url).expect("a connection");
    relay.turns();
    connection.batch("CREATE TABLE t (n bigint PRIMARY KEY, b bytea); CREATE ROLE poor LOGIN").expect("made");
    assert_eq!(relay.turns(), 1);
    let insert = "INSERT INTO t VALUES ($1, $2) RETURNING n";
    let rows = connection.query(insert, &[(&1i64, Type::INT8), (&&b"bytes"[..], Type::BYTEA)]).expect("inserted");
    assert_eq!((rows.len(), rows[0].get::<_, i64>(0), relay.turns()), (1, 1, 1));
    let rows = connection.query("SELECT n, b FROM t WHERE n = $1", &[(&1i64, Type::INT8)]).expect("a row");
    assert_eq!((rows[0].get::<_, i64>(0), rows[0].get::<_, &[u8]>(1), relay.turns()), (1, &b"bytes"[..], 1));
    let changed = connection.execute("UPDATE t SET b = NULL WHERE n >= $1", &[(&1i64, Type::INT8)]).expect("changed");
    assert_eq!((changed, relay.turns()), (1, 1));

    // An answer that is an error leaves the connection as it was.
    for (sql, kind) in [
        ("INSERT INTO t VALUES (1)", "Unique"),
        ("CREATE TABLE t ()", "Unique"),
        ("SELECT * FROM nowhere", "Missing"),
        ("CREATE TABLE nowhere.t ()", "Missing"),
        ("SELECT 1/0", "Other"),
        ("SELEKT", "Other"),
    ] {
        let trouble = connection.query(sql, &[]).expect_err(sql);
        assert!(format!("{trouble:?}").starts_with(kind) && trouble.text().contains("SQLSTATE"), "{trouble:?}");
    }
    assert!(!connection.is_broken());
    let mut poor = open(&server.url("poor", "postgres")).expect("a connection");
    assert!(matches!(poor.query("SELECT * FROM t", &[]), Err(Trouble::NoRights(_))));
    poor.batch("SET default_transaction_read_only = on").expect("set");
    assert!(matches!(poor.batch("CREATE TABLE u ()"), Err(Trouble::ReadOnly(_))));

    connection.begin().expect("begun");
    connection.execute("INSERT INTO t VALUES (2)", &[]).expect("inserted");
    connection.rollback().expect("rolled back");
    connection.begin().expect("begun");
    connection.execute("INSERT INTO t VALUES (3)", &[]).expect("inserted");
    relay.turns();
    connection.commit().expect("committed");
    assert_eq!(relay.turns(), 1);
    // In a transaction, an error is its end, and the connection's.
    connection.begin().expect("begun");
    connection.execute("INSERT INTO t VALUES (4)", &[]).expect("inserted");
    assert!(matches!(connection.execute("INSERT INTO t VALUES (3)", &[]), Err(Trouble::Unique(_))));
    assert!(connection.is_broken());
    let after = connection.query("SELECT 1", &[]).expect_err("closed");
    assert!(matches!(&after, Trouble::Unreachable(text) if text.contains("23505")), "{after:?}");
    let left = server.boss().query("SELECT array_agg(n ORDER BY n)::text FROM t", &[]).expect("a row");
    assert_eq!(left[0].get::<_, &str>(0), "{1,3}");

    // Two in each other's way.
    let (mut one, mut other) = (server.boss(), server.boss());
    one.begin().expect("begun");
    one.execute("UPDATE t SET b = '' WHERE n = 1", &[]).expect("changed");
    other.batch("SET lock_timeout = 50").expect("set");
    let trouble = other.execute("UPDATE t SET b = '' WHERE n = 1", &[]).expect_err("locked");
    assert!(matches!(trouble, Trouble::Retry(_)), "{trouble:?}");
    assert!(!other.is_broken());
}

#[test]
fn broken_connections() {
    let Some(server) = Server::start(ACCESS, "", |_| {}) else { return };
    // Another ends it, while it waits for an answer and while it doesn't.
    for waits in [true, false] {
        let mut connection = open(&server.url("boss", "postgres")).expect("a connection");
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = $1";
        let own = connection.query("SELECT pg_backend_pid()", &[]).expect("a row")[0].get::<_, i32>(0);
        if waits {
            let trouble = connection.query(end, &[(&own, Type::INT4)]).expect_err("ended");
            assert!(matches!(&trouble, Trouble::Lost(text) if text.contains("57P01")), "{trouble:?}");
        } else {
            server.boss().query(end, &[(&own, Type::INT4)]).expect("ended");
            let trouble = connection.wait_for_notification(Duration::from_secs(5)).expect_err("ended");
            assert!(matches!(&trouble, Trouble::Lost(text) if text.contains("57P01")), "{trouble:?}");
        }
        assert!(connection.is_broken());
        assert!(matches!(connection.batch("SELECT 1"), Err(Trouble::Unreachable(_))));
    }

    // The network is cut, or only swallows.
    let relay = Relay::to(server.port);
    let url = format!("postgres://boss@127.0.0.1:{}/postgres", relay.port);
    let mut connection = open(&url).expect("a connection");
    relay.cut();
    assert!(matches!(connection.query("SELECT 1", &[]), Err(Trouble::Lost(_))) && connection.is_broken());

    let mut connection = open(&url).expect("a connection");
    connection.set_patience(Duration::from_millis(300));
    connection.query("SELECT 1", &[]).expect("a row");
    relay.fall_silent();
    let begun = Instant::now();
    let trouble = connection.query("SELECT 1", &[]).expect_err("no answer");
    assert_eq!(trouble, Trouble::Lost("no answer within 300 ms".to_owned()));
    assert!(begun.elapsed() < Duration::from_secs(5) && connection.is_broken());
}

#[test]
fn notifications() {
    let Some(server) = Server::start(ACCESS, "", |_| {}) else { return };
    let mut connection = open(&server.url("boss", "postgres")).expect("a connection");
    let shortly = Duration::from_millis(30);
    assert_eq!(connection.wait_for_notification(shortly), Ok(false));
    connection.batch("LISTEN idem").expect("listens");
    assert_eq!(connection.wait_for_notification(shortly), Ok(false));
    server.boss().batch("NOTIFY idem; NOTIFY other").expect("said");
    assert_eq!(connection.wait_for_notification(Duration::from_secs(5)), Ok(true));
    assert_eq!(connection.wait_for_notification(shortly), Ok(false));
    // One that comes with the answer to a statement isn't lost.
    server.boss().batch("NOTIFY idem").expect("said");
    let until = Instant::now() + Duration::from_secs(5);
    connection.query("SELECT pg_sleep(0.1)::text", &[]).expect("a row");
    assert_eq!(connection.wait_for_notification(until - Instant::now()), Ok(true));

    // It leaves no trace when it goes.
    drop(connection);
    let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let mut boss = server.boss();
    let alone =
        |boss: &mut idem::store::postgres::Connection| boss.query(count, &[]).expect("a row")[0].get::<_, i64>(0) == 1;
    let until = Instant::now() + Duration::from_secs(5);
    while !alone(&mut boss) {
        assert!(Instant::now() < until, "somebody is still connected");
    }
}
