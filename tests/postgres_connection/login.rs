//! Who is let in, and what is said to those who aren't.

use std::fs;

use idem::domain::store::StoreError;
use idem::store::postgres::{Connection, Trouble};

use crate::server::{Server, open, place_at, write_private};

const ACCESS: &str = "\
host all trusty 127.0.0.1/32 trust
host all old    127.0.0.1/32 md5
host all clear  127.0.0.1/32 password
host all barred 127.0.0.1/32 reject
host all all    127.0.0.1/32 scram-sha-256
";

const ROLES: &str = "\
CREATE ROLE trusty LOGIN; CREATE ROLE barred LOGIN PASSWORD 'pw'; CREATE ROLE nologin PASSWORD 'pw';
CREATE ROLE ann LOGIN PASSWORD 's3cret'; CREATE ROLE clear LOGIN PASSWORD 's3cret';
CREATE ROLE full LOGIN CONNECTION LIMIT 0 PASSWORD 's3cret';
SET password_encryption = 'md5'; CREATE ROLE old LOGIN PASSWORD 's3cret';
CREATE DATABASE locked; REVOKE CONNECT ON DATABASE locked FROM PUBLIC;
";

#[test]
fn logins() {
    let Some(server) = Server::start(ACCESS, "", |_| {}) else { return };
    for statement in ROLES.split(';') {
        server.boss().batch(statement).expect(statement);
    }

    for login in ["trusty", "ann:s3cret", "old:s3cret", "clear:s3cret"] {
        let mut connection = open(&server.url(login, "postgres")).expect(login);
        let rows =
            connection.query("SELECT current_user::text, current_setting('application_name')", &[]).expect("a row");
        let user = login.split(':').next().expect("a user");
        assert_eq!((rows[0].get::<_, &str>(0), rows[0].get::<_, &str>(1)), (user, "idem"));
    }

    let refused = |login: &str, database: &str| {
        let url = server.url(login, database);
        let trouble = open(&url).err().unwrap_or_else(|| panic!("{url} was let in"));
        let error = trouble.clone().into_store_error(&place_at(&url, server.folder.path()));
        let text = format!("{trouble} {trouble:?} {error} {error:?}");
        assert!(!text.contains("s3cret") && !text.contains("wr0ng") && !text.contains('\n'), "{text}");
        (trouble, error)
    };
    for (login, database, part) in [
        ("ann:wr0ng", "postgres", "28P01"),
        ("old:wr0ng", "postgres", "28P01"),
        ("clear:wr0ng", "postgres", "28P01"),
        ("ann", "postgres", "none is given"),
        ("old", "postgres", "none is given"),
        ("nemo:s3cret", "postgres", "28P01"),
        ("nologin:pw", "postgres", "28000"),
        ("barred:pw", "postgres", "28000"),
        ("ann:s3cret", "nowhere", "3D000"),
    ] {
        let (trouble, error) = refused(login, database);
        assert!(matches!(&trouble, Trouble::LoginRefused(text) if text.contains(part)), "{login}: {trouble:?}");
        assert!(matches!(error, StoreError::LoginRefused(..)) && error.kind() == "store-login-refused");
    }
    assert!(matches!(refused("ann:s3cret", "locked").0, Trouble::NoRights(text) if text.contains("42501")));
    assert!(
        matches!(refused("full:s3cret", "postgres").0, Trouble::Unreachable(text) if text.contains("53300") && text.starts_with("127.0.0.1:"))
    );

    // The password file, which others mustn't be able to read.
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join(".pgpass");
    write_private(&file, &format!("127.0.0.1:{}:postgres:ann:s3cret\n", server.port));
    let place = place_at(&server.url("ann", "postgres"), home.path());
    assert!(Connection::open(&place).is_ok());
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("changed");
    assert!(matches!(Connection::open(&place).err(), Some(Trouble::LoginRefused(_))));
}

#[test]
fn the_kind_of_server_that_is_asked_for() {
    let access = "host all all 127.0.0.1/32 trust\n";
    let Some(first) = Server::start(access, "default_transaction_read_only = on", |_| {}) else { return };
    let Some(second) = Server::start(access, "", |_| {}) else { return };
    let url =
        |rest: &str| format!("postgres://boss@127.0.0.1:{},127.0.0.1:{}/postgres?{rest}", first.port, second.port);
    let port_of = |rest: &str| {
        let rows = open(&url(rest)).expect(rest).query("SELECT inet_server_port()", &[]).expect("a row");
        u16::try_from(rows[0].get::<_, i32>(0)).expect("a port")
    };
    assert_eq!(port_of(""), first.port);
    assert_eq!(port_of("target_session_attrs=read-write"), second.port);
    assert_eq!(port_of("target_session_attrs=read-only"), first.port);
    assert_eq!(port_of("target_session_attrs=primary"), first.port);
    assert_eq!(port_of("target_session_attrs=prefer-standby"), first.port);
    let trouble = open(&url("target_session_attrs=standby")).err();
    assert!(matches!(&trouble, Some(Trouble::Unreachable(text)) if text.contains("no standby")), "{trouble:?}");
    let trouble = open(&first.url("boss", "postgres?target_session_attrs=read-write")).err();
    assert!(matches!(&trouble, Some(Trouble::ReadOnly(text)) if text.contains("read-only")), "{trouble:?}");
    // The first that is reached, too.
    drop(first);
    let reached = format!("postgres://boss@127.0.0.1:1,127.0.0.1:{}/postgres", second.port);
    assert!(open(&reached).is_ok());
    let trouble = open("postgres://boss@127.0.0.1:1,127.0.0.1:2/postgres").err().expect("nobody there");
    assert_eq!(trouble.text(), "127.0.0.1:1: connection refused, 127.0.0.1:2: connection refused");
}
