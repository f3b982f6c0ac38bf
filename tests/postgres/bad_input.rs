//! Stores that can't be used: each has its own word and message, nothing is run, and the password is nowhere.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;

use crate::env::{Answer, TestEnv, wait_for};
use crate::proxy::Proxy;
use crate::server::{Disk, PASSWORD, ROLE, Server, free_port, url};
use crate::world::World;

/// The password is in nothing that somebody could read.
#[track_caller]
fn keeps_the_password(answer: &Answer) {
    for stream in [answer.stdout(), answer.stderr()] {
        assert!(!String::from_utf8_lossy(stream).contains(PASSWORD), "the password is told\n{answer}");
    }
}

/// A call to this store is refused with this word: in the envelope, in the status file, on a terminal. Returns the message.
#[track_caller]
fn refuses(store: &str, kind: &str) -> String {
    let env = TestEnv::with_store(Some(store.to_owned()));
    let told = env.run("t").args(["--json", "--status-file", "status"]).counting("true").answer();
    keeps_the_password(&told);
    let envelope = told.exits(125).envelope();
    assert_eq!(envelope["error"]["kind"], kind, "{told}");
    assert_eq!(env.status_file("status")["error"], envelope["error"]);
    assert!(!env.text_of("status").contains(PASSWORD));
    let message = envelope["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.ends_with("nothing was run"), "{message}");
    let hint = &envelope["error"]["hint"];
    assert!(hint.as_str().is_some_and(|hint| !hint.is_empty()), "it says what to do: {hint}");

    let said = env.run("t").counting("true").answer();
    keeps_the_password(&said);
    said.refuses();
    assert!(said.messages().lines().next().is_some_and(|line| line.ends_with("nothing was run")), "{said}");
    assert_eq!(env.runs(), 0, "nothing is run\n{said}");

    for verb in [&["list"][..], &["list", "--json"], &["show", "1"], &["stats"], &["doctor"], &["doctor", "--json"]] {
        let answer = env.idem(verb.iter().copied()).answer();
        keeps_the_password(&answer);
        assert!(answer.code() != Some(101) && answer.code().is_some(), "{answer}");
    }
    message
}

/// What `doctor` says of a store that can't be used.
fn doctor(store: &str) -> Answer {
    TestEnv::with_store(Some(store.to_owned())).idem(["doctor"]).answer()
}

#[test]
fn a_wrong_password_an_unknown_role_and_an_unknown_database_are_refused_logins() {
    let Some(world) = World::new() else { return };
    let (server, database) = (world.server(), world.database());
    let right = world.url_by(server.address());
    let messages: BTreeSet<String> = [
        right.replace(ROLE, "nobody_here"),
        url("scram", server.address(), database).replace(PASSWORD, "pw-Hx7_fUqZ-wrong"),
        right.replace(PASSWORD, "pw-Hx7_fUqZ-wrong"),
        right.replace(&format!("/{database}"), "/no_such_database"),
    ]
    .iter()
    .map(|store| refuses(store, "store-login-refused"))
    .collect();
    assert!(messages.iter().any(|message| message.contains("no_such_database")), "{messages:?}");
    assert!(messages.iter().any(|message| message.contains("nobody_here")), "{messages:?}");
    assert!(messages.len() >= 3, "each its own message: {messages:?}");
}

#[test]
fn an_unknown_host_and_a_port_that_refuses_are_out_of_reach() {
    let Some(world) = World::new() else { return };
    let refused = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let unknown = world.url_by(refused).replace(&refused.to_string(), "no-such-host.invalid");
    let (unknown, refused_by) =
        (refuses(&unknown, "store-unreachable"), refuses(&world.url_by(refused), "store-unreachable"));
    assert!(unknown.contains("no-such-host.invalid"), "{unknown}");
    assert!(refused_by.contains(&refused.port().to_string()), "{refused_by}");
    // A network that resets every call.
    let proxy = world.proxy();
    proxy.cut();
    refuses(&world.url_by(proxy.address()), "store-unreachable");
}

#[test]
fn a_network_that_swallows_every_call_is_given_up_in_the_end() {
    let Some(world) = World::new() else { return };
    let proxy = world.proxy();
    proxy.swallow_everything();
    let store = format!("{}?connect_timeout=2", world.url_by(proxy.address()));
    let env = TestEnv::with_store(Some(store));
    let answer = env.run("t").args(["--json"]).counting("true").answer();
    keeps_the_password(&answer);
    assert_eq!(answer.exits(125).envelope()["error"]["kind"], "store-unreachable", "{answer}");
    assert_eq!(env.runs(), 0);
}

#[test]
fn urls_that_say_nothing_usable_are_refused() {
    for store in [
        format!("postgres://{ROLE}:{PASSWORD}@127.0.0.1:port/db"),
        format!("postgres://{ROLE}:{PASSWORD}@127.0.0.1/db?sslmode=maybe"),
        format!("postgresql://{ROLE}:{PASSWORD}@127.0.0.1/db?no_such_option=1"),
        format!("mysql://{ROLE}:{PASSWORD}@127.0.0.1/db"),
    ] {
        refuses(&store, "store-url");
    }
}

#[test]
fn a_role_without_rights_is_told_so_and_one_with_a_schema_of_its_own_needs_no_more() {
    let Some(world) = World::new() else { return };
    let (server, database) = (world.server(), world.database());
    let role = format!("poor_{database}");
    world.rows(&format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'"));
    let store = url(&role, server.address(), database);
    // No schema, and no right to make one.
    let no_schema = refuses(&store, "store-no-rights");
    // A schema that isn't for it.
    world.rows("CREATE SCHEMA idem");
    let not_its_own = refuses(&store, "store-no-rights");
    assert!(no_schema.contains(&role) || no_schema.contains("schema"), "{no_schema}");
    assert!(not_its_own.contains(&role) || not_its_own.contains("schema"), "{not_its_own}");
    // A schema in which it may create, and nothing else.
    world.rows(&format!("GRANT USAGE, CREATE ON SCHEMA idem TO {role}"));
    let env = TestEnv::with_store(Some(store));
    env.run("t").script("echo one").answer().exits(0).prints("one\n").says_exactly("");
    env.run("t").script("echo one").answer().exits(0).prints("one\n").is_a_replay();
}

#[test]
fn a_role_that_may_only_read_a_store_that_is_there_is_told_that_it_has_no_rights() {
    let Some(world) = World::new() else { return };
    world.make_store();
    let (server, database) = (world.server(), world.database());
    let role = format!("reader_{database}");
    world.rows(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'; GRANT USAGE ON SCHEMA idem TO {role};
         GRANT SELECT ON ALL TABLES IN SCHEMA idem TO {role}"
    ));
    refuses(&url(&role, server.address(), database), "store-no-rights");
}

#[test]
fn a_store_of_a_newer_idem_is_left_alone() {
    let Some(world) = World::new() else { return };
    world.make_store();
    world.rows("UPDATE idem.store SET version = 999");
    let before = world.server().dump(world.database(), "idem");
    let message = refuses(&world.url_by(world.server().address()), "store-newer");
    assert!(message.contains("999"), "{message}");
    assert!(before == world.server().dump(world.database(), "idem"), "nothing in it was changed");
    assert_ne!(doctor(&world.url_by(world.server().address())).code(), Some(0));
}

#[test]
fn a_database_that_is_read_only_runs_nothing() {
    let Some(world) = World::new() else { return };
    let read_only = |database: &str| {
        let statement = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
        world.server().sql("postgres", &statement);
    };
    let empty = world.server().database();
    read_only(&empty);
    refuses(&world.server().url(&empty), "store-read-only");
    world.make_store();
    read_only(world.database());
    refuses(&world.url_by(world.server().address()), "store-read-only");
}

#[test]
fn a_standby_runs_nothing() {
    let Some(primary) = Server::private(Disk::Memory) else { return };
    let (with_store, empty) = (primary.database(), primary.database());
    let env = TestEnv::with_store(Some(primary.url(&with_store)));
    env.run("before").script("true").answer().exits(0);
    let standby = primary.standby();
    wait_for("the claim on the standby", || {
        (standby.sql(&with_store, "SELECT count(*) FROM idem.claim") == ["1"]).then_some(())
    });
    refuses(&standby.url(&with_store), "store-read-only");
    refuses(&standby.url(&empty), "store-read-only");
}

#[test]
fn a_server_that_is_stopped_or_starting_is_out_of_reach() {
    let Some(world) = World::of_its_own(Disk::Memory) else { return };
    world.make_store();
    world.server().stop();
    refuses(&world.url_by(world.server().address()), "store-unreachable");
    world.server().start_again();
    world.env.run("before").script("true").answer().exits(0).is_a_replay();
    // The right server is asked again for each call, by a proxy whose server is gone.
    let proxy = Proxy::before(world.server().address());
    world.server().kill_9();
    refuses(&world.url_by(proxy.address()), "store-unreachable");
}

#[test]
fn the_password_is_nowhere_in_what_is_said_or_kept() {
    let Some(world) = World::new() else { return };
    let env = &world.env;
    keeps_the_password(&env.run("t").args(["--status-file", "status"]).script("echo out").answer());
    keeps_the_password(&env.run("t").args(["--json"]).script("echo out").answer());
    keeps_the_password(&env.run("t").script("echo other").answer());
    keeps_the_password(&env.run("held").external().script("exit 7").answer());
    keeps_the_password(&env.run("held").external().args(["--json"]).script("exit 7").answer());
    assert!(!env.text_of("status").contains(PASSWORD));
    let id = world.newest("held");
    for verb in [
        &["list", "--all"][..],
        &["list", "--all", "--json"],
        &["show", &id],
        &["show", &id, "--json"],
        &["stats", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["resolve", &id, "landed", "--dry-run"],
        &["no-such-verb"],
        &["run", "--no-such-option"],
    ] {
        keeps_the_password(&env.idem(verb.iter().copied()).answer());
    }
    let kept = world.server().dump(world.database(), "idem");
    assert!(kept.contains("held") && !kept.contains(PASSWORD), "the password is in the store");
    let folder = env.state_home();
    let grep = std::process::Command::new("grep").args(["-rqF", PASSWORD]).arg(&folder).status().expect("grep");
    assert_eq!(grep.code(), Some(1), "the password is in {}", folder.display());
    // Of the process itself the environment is its owner's alone; its command line is everybody's.
    let told: Value = env.idem(["doctor", "--json"]).answer().json_line();
    assert!(told["store"].as_str().is_some_and(|store| store.contains(ROLE)), "who logs in may be told: {told}");
}
