//! TLS, by the words of `sslmode`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use idem::store::postgres::{Connection, Trouble};

use crate::certificates::{Authority, write_self_signed};
use crate::server::{Server, open, place_at};

const ACCESS: &str = "\
hostssl   all sealed 127.0.0.1/32 trust
hostnossl all bare   127.0.0.1/32 trust
hostssl   all ann    127.0.0.1/32 cert
host      all secret 127.0.0.1/32 scram-sha-256
host      all boss   127.0.0.1/32 trust
";

const WITH_TLS: &str = "ssl = on\nssl_ca_file = 'ca.crt'";

fn is_encrypted(connection: &mut Connection) -> bool {
    let rows = connection.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).expect("a row");
    rows[0].get(0)
}

#[test]
fn modes() {
    let (authority, stranger) = (Authority::new("good"), Authority::new("other"));
    let Some(server) = Server::start(ACCESS, WITH_TLS, |data| {
        authority.sign(data, "server", "db", &["localhost", "127.0.0.1"]);
        fs::write(data.join("ca.crt"), authority.pem()).expect("written");
    }) else {
        return;
    };
    for role in ["sealed", "bare", "ann", "secret PASSWORD 's3cret'"] {
        server.boss().batch(&format!("CREATE USER {role}")).expect(role);
    }
    let home = tempfile::tempdir().expect("a folder");
    let file = |name: &str| home.path().join(name).display().to_string();
    fs::write(file("good.crt"), authority.pem()).expect("written");
    fs::write(file("other.crt"), stranger.pem()).expect("written");
    fs::write(file("both.crt"), stranger.pem() + &authority.pem()).expect("written");
    fs::write(file("empty.crt"), "").expect("written");
    fs::write(file("junk.crt"), "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").expect("written");
    let (good, other) = (file("good.crt"), file("other.crt"));
    let port = server.port;
    let to = |host: &str, login: &str, rest: &str| {
        let url = format!("postgres://{login}@{host}:{port}/postgres?{rest}");
        Connection::open(&place_at(&url, home.path()))
    };

    // With TLS, or without.
    for (login, rest, expected) in [
        ("boss", "", true),
        ("boss", "sslmode=disable", false),
        ("boss", "sslmode=allow", true),
        ("boss", "sslmode=prefer", true),
        ("boss", "sslmode=require", true),
        ("boss", "sslmode=prefer&sslrootcert=/nonexistent", true),
        ("boss", "sslmode=require&sslrootcert=/nonexistent", true),
        ("sealed", "", true),
        // The rules of the server have room for it without TLS only.
        ("bare", "", false),
        ("secret:s3cret", "sslmode=require&channel_binding=require", true),
        ("secret:s3cret", "sslmode=require&channel_binding=disable", true),
        ("secret:s3cret", "sslmode=disable", false),
        ("boss", &format!("sslmode=require&sslrootcert={good}"), true),
        ("boss", &format!("sslmode=verify-ca&sslrootcert={good}"), true),
        ("boss", &format!("sslmode=verify-ca&sslrootcert={}", file("both.crt")), true),
        ("boss", &format!("sslmode=verify-full&sslrootcert={good}"), true),
    ] {
        for host in ["127.0.0.1", "localhost"] {
            let mut connection = to(host, login, rest).unwrap_or_else(|trouble| panic!("{login} {rest}: {trouble:?}"));
            assert_eq!(is_encrypted(&mut connection), expected, "{login} {rest}");
        }
    }

    let refused = |host: &str, rest: &str| match to(host, "boss", rest).err() {
        Some(Trouble::Tls(text)) => text,
        other => panic!("{host} {rest}: {other:?}"),
    };
    for (rest, part) in [
        (format!("sslmode=verify-ca&sslrootcert={other}"), "signed by none"),
        (format!("sslmode=verify-full&sslrootcert={other}"), "signed by none"),
        (format!("sslmode=require&sslrootcert={other}"), "signed by none"),
        ("sslrootcert=system".to_owned(), "signed by none"),
        ("sslmode=verify-ca".to_owned(), "root.crt doesn't exist"),
        ("sslmode=verify-full".to_owned(), "root.crt doesn't exist"),
        ("sslmode=verify-full&sslrootcert=/nonexistent".to_owned(), "/nonexistent doesn't exist"),
        (format!("sslmode=verify-full&sslrootcert={}", file("empty.crt")), "no root certificates"),
        (format!("sslmode=verify-full&sslrootcert={}", file("junk.crt")), "no readable certificates"),
    ] {
        let text = refused("127.0.0.1", &rest);
        assert!(text.contains(part) && text.contains(&format!("127.0.0.1:{port}")), "{rest}: {text}");
    }
    // Another name for the same address: the authority is right, the name isn't.
    let through = |mode: &str| format!("sslmode={mode}&sslrootcert={good}&hostaddr=127.0.0.1");
    assert!(to("other.example", "boss", &through("verify-ca")).is_ok());
    assert!(to("other.example", "boss", &through("require")).is_ok());
    let text = refused("other.example", &through("verify-full"));
    assert!(text.contains("not for other.example"), "{text}");

    // libpq's own place for the authority.
    let own = home.path().join(".postgresql");
    fs::create_dir(&own).expect("a folder");
    fs::copy(&good, own.join("root.crt")).expect("copied");
    assert!(to("localhost", "boss", "sslmode=verify-full").is_ok());
    fs::copy(&other, own.join("root.crt")).expect("copied");
    assert!(refused("localhost", "sslmode=require").contains("signed by none"));
    assert!(to("localhost", "boss", "sslmode=prefer").is_ok());
    fs::remove_file(own.join("root.crt")).expect("removed");

    // A certificate to log in with.
    authority.sign(home.path(), "ann", "ann", &[]);
    stranger.sign(home.path(), "false", "ann", &[]);
    authority.sign(&own, "postgresql", "ann", &[]);
    let with = |name: &str| {
        format!("sslmode=require&sslcert={}&sslkey={}", file(&format!("{name}.crt")), file(&format!("{name}.key")))
    };
    assert!(to("localhost", "ann", &with("ann")).is_ok());
    assert!(to("localhost", "ann", "sslmode=require").is_ok(), "the one in its own place");
    fs::remove_dir_all(&own).expect("removed");
    let without = to("localhost", "ann", "sslmode=require").err();
    assert!(matches!(&without, Some(Trouble::LoginRefused(text)) if text.contains("certificate")), "{without:?}");
    let forged = to("localhost", "ann", &with("false")).err();
    assert!(matches!(&forged, Some(Trouble::Tls(_))), "{forged:?}");
    let missing = to("localhost", "ann", &with("missing")).err();
    assert!(matches!(&missing, Some(Trouble::Tls(text)) if text.contains("missing.crt can't be read")), "{missing:?}");
    fs::set_permissions(file("ann.key"), fs::Permissions::from_mode(0o644)).expect("changed");
    let shared = to("localhost", "ann", &with("ann")).err();
    assert!(matches!(&shared, Some(Trouble::Tls(text)) if text.contains("chmod 0600")), "{shared:?}");
}

/// The first certificate of PostgreSQL's manual: it signs itself, and has no names but its subject.
#[test]
fn a_certificate_as_the_manual_makes_it() {
    let home = tempfile::tempdir().expect("a folder");
    write_self_signed(home.path(), "server", "localhost");
    write_self_signed(home.path(), "other", "localhost");
    let Some(server) = Server::start(ACCESS, "ssl = on", |data| {
        for name in ["server.crt", "server.key"] {
            fs::copy(home.path().join(name), data.join(name)).expect("copied");
        }
    }) else {
        return;
    };
    let to = |host: &str, file: &str, mode: &str| {
        let file = home.path().join(file).display().to_string();
        open(&format!(
            "postgres://boss@{host}:{}/postgres?sslmode={mode}&sslrootcert={file}&hostaddr=127.0.0.1",
            server.port
        ))
    };
    for (host, file, mode, expected) in [
        ("localhost", "server.crt", "verify-full", true),
        ("localhost", "server.crt", "verify-ca", true),
        ("other.example", "server.crt", "verify-ca", true),
        ("other.example", "server.crt", "verify-full", false),
        ("localhost", "other.crt", "verify-full", false),
        ("localhost", "other.crt", "verify-ca", false),
    ] {
        match to(host, file, mode) {
            Ok(mut connection) => assert!(expected && is_encrypted(&mut connection), "{host} {file} {mode}"),
            Err(Trouble::Tls(text)) if file == "other.crt" => assert!(text.contains("signs itself"), "{text}"),
            Err(trouble) => {
                assert!(!expected && matches!(trouble, Trouble::Tls(_)), "{host} {file} {mode}: {trouble:?}");
            }
        }
    }
}

#[test]
fn a_server_without_tls() {
    let Some(server) = Server::start(ACCESS, "", |_| {}) else { return };
    for rest in ["", "sslmode=disable", "sslmode=prefer"] {
        let mut connection = open(&server.url("boss", &format!("postgres?{rest}"))).expect(rest);
        assert!(!is_encrypted(&mut connection));
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        let trouble = open(&server.url("boss", &format!("postgres?sslmode={mode}"))).err();
        assert!(matches!(&trouble, Some(Trouble::Tls(text)) if text.contains("does not support TLS")), "{trouble:?}");
    }
    // A socket needs none.
    let socket = server.folder.path().display();
    let url = format!("postgres://boss@/postgres?host={socket}&port={}&sslmode=verify-full", server.port);
    assert!(open(&url).is_ok());
}
