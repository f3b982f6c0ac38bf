use std::os::unix::fs::PermissionsExt;

use super::*;

type Env = &'static [(&'static str, &'static str)];

/// Who needs no more said than this.
const ANN: Env = &[("USER", "ann")];

fn parse_in(env: Env, url: &str) -> Result<PostgresPlace, StoreError> {
    let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    PostgresPlace::parse(url, &env, Some(Path::new("/home/ann")))
}

fn parse(url: &str) -> PostgresPlace {
    parse_in(ANN, url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Returns where one gets when nothing says where: it depends on the machine.
fn default_host() -> &'static str {
    if Path::new(SOCKET_FOLDER).is_dir() { SOCKET_FOLDER } else { "localhost" }
}

#[test]
fn urls_and_environments() {
    let here = format!("{}:5432", default_host());
    // The URL, the environment, the user, the password, the servers, the database.
    type Row<'row> = (&'row str, Env, &'row str, Option<&'row str>, &'row str, &'row str);
    let rows: &[Row<'_>] = &[
        ("postgres://", ANN, "ann", None, &here, "ann"),
        ("postgresql://", ANN, "ann", None, &here, "ann"),
        ("postgres:///", ANN, "ann", None, &here, "ann"),
        ("postgres:///db", ANN, "ann", None, &here, "db"),
        ("postgres:///db", &[("LOGNAME", "bob")], "bob", None, &here, "db"),
        ("postgres:///db", &[("USER", ""), ("LOGNAME", "bob")], "bob", None, &here, "db"),
        ("postgres://h", ANN, "ann", None, "h:5432", "ann"),
        ("postgres://h/", ANN, "ann", None, "h:5432", "ann"),
        ("postgres://h:1/db", ANN, "ann", None, "h:1", "db"),
        ("postgres://bob@h/db", ANN, "bob", None, "h:5432", "db"),
        ("postgres://bob@h", ANN, "bob", None, "h:5432", "bob"),
        ("postgres://bob:pw@h/db", ANN, "bob", Some("pw"), "h:5432", "db"),
        ("postgres://bob:@h/db", ANN, "bob", None, "h:5432", "db"),
        ("postgres://:pw@h/db", ANN, "ann", Some("pw"), "h:5432", "db"),
        ("postgres://b%40b:p%2F%3A%40%3F%23%25%20w@h/db", ANN, "b@b", Some("p/:@?#% w"), "h:5432", "db"),
        ("postgres://bob:a:b@h/db", ANN, "bob", Some("a:b"), "h:5432", "db"),
        ("postgres://bob:a?b#c@h/db", ANN, "bob", Some("a?b#c"), "h:5432", "db"),
        ("postgres://bob:p%C3%A4ss@h/db", ANN, "bob", Some("päss"), "h:5432", "db"),
        ("postgres://h/d%20b", ANN, "ann", None, "h:5432", "d b"),
        ("postgres://h1:1,h2:2/db", ANN, "ann", None, "h1:1,h2:2", "db"),
        ("postgres://h1,h2/db", ANN, "ann", None, "h1:5432,h2:5432", "db"),
        ("postgres://h1,h2:2/db", ANN, "ann", None, "h1:5432,h2:2", "db"),
        ("postgres://H1:1/db", ANN, "ann", None, "h1:1", "db"),
        ("postgres://[::1]/db", ANN, "ann", None, "[::1]:5432", "db"),
        ("postgres://[::1]:1,127.0.0.1:2/db", ANN, "ann", None, "[::1]:1,127.0.0.1:2", "db"),
        ("postgres://bob:pw@[fe80::1%25eth0]:1/db", ANN, "bob", Some("pw"), "[fe80::1%eth0]:1", "db"),
        ("postgres://%2Frun%2Fpg/db", ANN, "ann", None, "/run/pg:5432", "db"),
        ("postgres://%2Frun%2Fpg:1/db", ANN, "ann", None, "/run/pg:1", "db"),
        ("postgres:///db?host=/run/pg", ANN, "ann", None, "/run/pg:5432", "db"),
        ("postgres:///db?host=/run/pg&port=1", ANN, "ann", None, "/run/pg:1", "db"),
        ("postgres://h/db?host=other", ANN, "ann", None, "other:5432", "db"),
        ("postgres:///?host=h1,h2&port=1,2&dbname=db", ANN, "ann", None, "h1:1,h2:2", "db"),
        ("postgres:///?host=h1,h2&port=7", ANN, "ann", None, "h1:7,h2:7", "ann"),
        ("postgres:///?user=bob&password=p%40w&dbname=db", ANN, "bob", Some("p@w"), &here, "db"),
        ("postgres://h/db?pass%77ord=pw", ANN, "ann", Some("pw"), "h:5432", "db"),
        ("postgres://h/db?&user=bob&", ANN, "bob", None, "h:5432", "db"),
        ("postgres://h/db?hostaddr=127.0.0.1", ANN, "ann", None, "h:5432", "db"),
        ("postgres:///db?hostaddr=127.0.0.1,::1", ANN, "ann", None, "127.0.0.1:5432,[::1]:5432", "db"),
        ("postgres://", &[("USER", "ann"), ("PGUSER", "bob")], "bob", None, &here, "bob"),
        ("postgres://", &[("USER", "ann"), ("PGHOST", "h")], "ann", None, "h:5432", "ann"),
        ("postgres://", &[("USER", "ann"), ("PGHOST", "")], "ann", None, &here, "ann"),
        ("postgres://", &[("USER", "ann"), ("PGHOST", "h1,h2"), ("PGPORT", "1,2")], "ann", None, "h1:1,h2:2", "ann"),
        ("postgres://h/db", &[("USER", "ann"), ("PGHOST", "x"), ("PGPORT", "9")], "ann", None, "h:9", "db"),
        ("postgres://h:1/db", &[("USER", "ann"), ("PGPORT", "9")], "ann", None, "h:1", "db"),
        ("postgres://h1,h2:2/db", &[("USER", "ann"), ("PGPORT", "9")], "ann", None, "h1:5432,h2:2", "db"),
        ("postgres://h", &[("USER", "ann"), ("PGDATABASE", "db")], "ann", None, "h:5432", "db"),
        ("postgres://h/x", &[("USER", "ann"), ("PGDATABASE", "db")], "ann", None, "h:5432", "x"),
        ("postgres://h", &[("USER", "ann"), ("PGPASSWORD", "pw")], "ann", Some("pw"), "h:5432", "ann"),
        ("postgres://:url@h", &[("USER", "ann"), ("PGPASSWORD", "pw")], "ann", Some("url"), "h:5432", "ann"),
        ("postgres://", &[("USER", "ann"), ("PGHOSTADDR", "::1")], "ann", None, "[::1]:5432", "ann"),
        ("postgres://", &[("USER", "ann"), ("PGHOST", "/run/pg"), ("PGPORT", "1")], "ann", None, "/run/pg:1", "ann"),
    ];
    for (url, env, user, password, servers, dbname) in rows {
        let place = parse_in(env, url).unwrap_or_else(|error| panic!("{url} {env:?}: {error}"));
        assert_eq!(place.identity(), format!("{servers}/{dbname}"), "{url} {env:?}");
        assert_eq!((place.user.as_str(), place.password.as_deref()), (*user, *password), "{url} {env:?}");
        assert_eq!(place.given(), *url);
    }
}

#[test]
fn what_is_shown_has_no_password() {
    let rows = [
        ("postgres://", "postgres://"),
        ("postgres://h/db", "postgres://h/db"),
        ("postgresql://bob@h:1,i:2/db?sslmode=require", "postgresql://bob@h:1,i:2/db?sslmode=require"),
        ("postgres://bob:s3cret@h/db", "postgres://bob@h/db"),
        ("postgres://bob:s3:cret@h/db", "postgres://bob@h/db"),
        ("postgres://:s3cret@h/db", "postgres://h/db"),
        ("postgres://b%40b:s3cret@[::1]:1/db", "postgres://b%40b@[::1]:1/db"),
        ("postgres://bob:s3?cret@h/db?port=1", "postgres://bob@h/db?port=1"),
        ("postgres://h/db?password=s3cret", "postgres://h/db"),
        ("postgres://h/db?pass%77ord=s3cret&port=1", "postgres://h/db?port=1"),
        ("postgres://h/db?port=1&password=s3cret&password=s3cret2", "postgres://h/db?port=1"),
    ];
    for (url, shown) in rows {
        let place = parse(url);
        assert_eq!(place.shown(), shown);
        assert!(!format!("{place:?} {}", place.identity()).contains("s3"), "{url}");
    }
}

/// Passwords that nobody encoded, and slips: the message may have no part of what could be the password.
#[test]
fn what_is_wrong_is_said_without_the_password() {
    let rows = [
        ("postgres:/bob:s3cret@h/db", "begin with"),
        ("postgres//bob:s3cret@h/db", "begin with"),
        ("mysql://bob:s3cret@h/db", "begin with"),
        ("POSTGRES://bob:s3cret@h/db", "begin with"),
        ("postgres://bob:s3@cret@h/db", "%40"),
        ("postgres://bob:s3/cret@h/db", "%2F"),
        ("postgres://bob:1/s3cret?s3cret=s3cret@h/db", "%2F"),
        ("postgres://bob:1/s3cret?s3cret@h/db", "%2F"),
        ("postgres://bob:s3cr%et@h/db", "%25"),
        ("postgres://bob:s3cr%e@h/db", "%25"),
        ("postgres://bob:s3cret%@h/db", "%25"),
        ("postgres://bob:s3cret%00@h/db", "%00"),
        ("postgres://bob:s3cret%ff@h/db", "UTF-8"),
        ("postgres://bob:s3 cret@h/db", "blank"),
        ("postgres://bob:s3\ncret@h/db", "control character"),
        ("postgres://bob:s3cret", "port"),
        ("postgres://bob:s3cret/db", "port"),
        ("postgres://bob:pw@h:s3cret/db", "port"),
        ("postgres://bob:s3cret@h:0/db", "port"),
        ("postgres://bob:s3cret@h:65536/db", "port"),
        ("postgres://bob:s3cret:x", "colons"),
        ("postgres://bob:s3cret@::1/db", "brackets"),
        ("postgres://bob:s3cret@[::1/db", "]"),
        ("postgres://bob:s3cret@[::1]x/db", "brackets"),
        ("postgres://bob:pw@s3%40cret/db", "host"),
        ("postgres://bob:s3cret@%40abstract/db", "host"),
        ("postgres://h/db?s3cret", "without ="),
        ("postgres://bob:s3cret@h/db?colour=red", "parameter colour"),
        ("postgres://h/db?sslpassword=s3cret", "parameter sslpassword"),
        ("postgres://h/db?s3%0acret=1", "a parameter"),
        ("postgres://h/db?sslmode=s3cret", "verify-full"),
        ("postgres://h/db?sslmode=disable&sslrootcert=system&password=s3cret", "verify-full"),
        ("postgres://h/db?sslmode=prefer&sslnegotiation=direct", "sslnegotiation"),
        ("postgres://h/db?target_session_attrs=s3cret", "prefer-standby"),
        ("postgres://h/db?channel_binding=s3cret", "prefer"),
        ("postgres://h/db?connect_timeout=s3cret", "connect_timeout"),
        ("postgres://h/db?keepalives_idle=s3cret", "keepalives_idle"),
        ("postgres://h/db?gssencmode=require", "gssencmode"),
        ("postgres://h/db?client_encoding=LATIN1", "client_encoding"),
        ("postgres://h/db?hostaddr=s3cret", "hostaddr"),
        ("postgres://h/db?hostaddr=::1,::1", "hostaddr"),
        ("postgres://h1,h2,h3/db?port=1,2", "port"),
        ("postgres://h/db?ssl=s3cret", "parameter ssl"),
        ("postgres://h/db?service=s3cret", "parameter service"),
    ];
    for (url, part) in rows {
        let error = parse_in(ANN, url).expect_err(url);
        assert!(matches!(error, StoreError::BadUrl(_)) && error.kind() == "store-url");
        let text = format!("{error} {error:?} {}", error.hint());
        assert!(text.contains(part), "{url}: {text}");
        assert!(!text.contains("s3") && !text.contains("cret") && !text.contains('\n'), "{url}: {text}");
    }
    let error = parse_in(&[("USER", "ann"), ("PGPORT", "nonsense")], "postgres://h/db").expect_err("no port");
    assert!(error.to_string().contains("port"));
}

#[test]
fn tls_terms() {
    let terms = |url: &str| parse(url).tls;
    assert_eq!(terms("postgres://h").mode, SslMode::Prefer);
    for (word, mode) in SSL_MODES {
        assert_eq!(terms(&format!("postgres://h/?sslmode={word}")).mode, *mode);
    }
    assert_eq!(terms("postgres://h/?ssl=true").mode, SslMode::Require);
    assert_eq!(terms("postgres://h/?sslrootcert=system").mode, SslMode::VerifyFull);
    assert_eq!(terms("postgres://h/?sslrootcert=system").roots, Roots::System);
    assert_eq!(terms("postgres://h").folder.as_deref(), Some(Path::new("/home/ann/.postgresql")));
    let given = terms("postgres://h/?sslrootcert=/a%20b&sslcert=/c&sslkey=/k&sslmode=require&sslnegotiation=direct");
    assert_eq!(given.roots, Roots::File("/a b".into()));
    assert_eq!((given.certificate, given.key, given.direct), (Some("/c".into()), Some("/k".into()), true));
    let env: Env = &[
        ("USER", "ann"),
        ("PGSSLMODE", "verify-ca"),
        ("PGSSLROOTCERT", "/r"),
        ("PGSSLCERT", "/c"),
        ("PGSSLKEY", "/k"),
        ("PGCONNECT_TIMEOUT", "3"),
        ("PGTARGETSESSIONATTRS", "read-write"),
        ("PGOPTIONS", "-c geqo=off"),
        ("PGAPPNAME", "nightly"),
    ];
    let place = parse_in(env, "postgres://h").expect("from the environment");
    assert_eq!((place.tls.mode, place.tls.roots), (SslMode::VerifyCa, Roots::File("/r".into())));
    assert_eq!((place.tls.certificate, place.tls.key), (Some("/c".into()), Some("/k".into())));
    assert_eq!((place.connect_timeout, place.session), (Some(Duration::from_secs(3)), SessionKind::ReadWrite));
    assert_eq!((place.options.as_deref(), place.application_name.as_str()), (Some("-c geqo=off"), "nightly"));
}

#[test]
fn defaults() {
    let place = parse("postgres://h");
    assert_eq!((place.connect_timeout, place.session), (Some(Duration::from_secs(10)), SessionKind::Any));
    assert_eq!((place.application_name.as_str(), place.options.as_deref()), ("idem", None));
    assert_eq!(place.binding, ChannelBinding::Prefer);
    assert_eq!(parse("postgres://h/?connect_timeout=0").connect_timeout, None);
    assert_eq!(parse("postgres://h/?connect_timeout=-1").connect_timeout, None);
    assert_eq!(parse("postgres://h/?fallback_application_name=x").application_name, "x");
    let noticing = parse("postgres://h/?keepalives=0&keepalives_idle=1&tcp_user_timeout=500").noticing;
    assert_eq!((noticing.keepalives, noticing.idle), (false, Duration::from_secs(1)));
    assert_eq!((noticing.interval, noticing.unacknowledged), (Duration::from_secs(5), Duration::from_millis(500)));
    let nobody = PostgresPlace::parse("postgres://h", &|_| None, None).expect("by the account's number");
    assert!(!nobody.user.is_empty() && nobody.passfile.is_none());
}

#[test]
fn the_password_file_is_asked_by_server() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join(".pgpass");
    fs::write(
        &file,
        "h1:1:db:ann:one\nh2:*:*:*:two\n/run/pg:5432:db:ann:socket\nlocalhost:5432:db:ann:local\n\\:\\:1:5432:db:ann:six\n",
    )
    .expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("changed");
    let passwords = |url: &str| {
        let env = |name: &str| (name == "USER").then(|| "ann".to_owned());
        let place = PostgresPlace::parse(url, &env, Some(home.path())).expect("a place");
        place.servers.iter().map(|server| place.password(server).unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(passwords("postgres://h1:1,h2:2,h3/db"), ["one", "two", ""]);
    assert_eq!(passwords("postgres://:given@h1:1,h2:2/db"), ["given", "given"]);
    assert_eq!(passwords("postgres://%2Frun%2Fpg/db"), ["socket"]);
    assert_eq!(passwords("postgres:///db?host=/var/run/postgresql"), ["local"]);
    assert_eq!(passwords("postgres://localhost,[::1]/db"), ["local", "six"]);
    assert_eq!(passwords("postgres://h1:1/db?hostaddr=127.0.0.1"), ["one"]);
    assert_eq!(passwords("postgres://h1:1/db?passfile=/nowhere"), [""]);
}
