//! The rig itself, tried by PostgreSQL's own programs: what the other tests rest on does what it says.

use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::bouncer::Bouncer;
use crate::env::{is_alive, wait_for};
use crate::network::Machine;
use crate::proxy::{Act, Proxy, Then};
use crate::server::{Disk, ROLE, Server};

/// A database with a table `t`, on the server that all share.
fn table() -> Option<(&'static Server, String)> {
    let server = Server::shared()?;
    let database = server.database();
    server.sql(&database, &format!("CREATE TABLE t (n integer); ALTER TABLE t OWNER TO {ROLE}"));
    Some((server, database))
}

/// psql by a way of one's own, as the tests' role.
fn psql(server: &Server, way: SocketAddr, database: &str, statement: &str) -> Command {
    let mut psql = server.program("psql");
    psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", &way.ip().to_string(), "-p", &way.port().to_string()]);
    psql.args(["-U", ROLE, "-d", database, "-c", statement]).stdin(Stdio::null());
    psql
}

fn answer(mut command: Command) -> Output {
    command.output().expect("a program of PostgreSQL's")
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program of PostgreSQL's")
}

/// pgbench, which says Parse, Bind, Describe, Execute and Sync, once.
fn pgbench(server: &Server, way: SocketAddr, database: &str, statement: &str, options: &[&str]) -> Command {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    let script = server.folder().join(format!("{}.bench", WRITTEN.fetch_add(1, Ordering::Relaxed)));
    std::fs::write(&script, format!("\\set n 7\n{statement}\n")).expect("a script for pgbench");
    let mut pgbench = server.program("pgbench");
    pgbench.args(["-n", "-c", "1", "-h", &way.ip().to_string(), "-p", &way.port().to_string(), "-U", ROLE]);
    pgbench.args(options).arg("-f").arg(script).arg(database);
    pgbench
}

fn rows(server: &Server, database: &str) -> Vec<String> {
    server.sql(database, "SELECT n FROM t ORDER BY n")
}

fn inserts(statement: &str) -> bool {
    statement.starts_with("INSERT")
}

#[test]
fn a_server_that_is_killed_and_started_again_has_what_it_had() {
    let Some(server) = Server::private(Disk::Real) else { return };
    let database = server.database();
    server.sql(&database, "CREATE TABLE t (n integer); INSERT INTO t VALUES (1)");
    server.kill_9();
    assert!(!answer(psql(&server, server.address(), &database, "SELECT 1")).status.success(), "it is gone");
    server.start_again();
    assert_eq!(rows(&server, &database), ["1"]);
    server.stop();
    server.start_again();
    assert_eq!(rows(&server, &database), ["1"]);
    let standby = server.standby();
    wait_for("the standby's rows", || (rows(&standby, &database) == ["1"]).then_some(()));
    assert_eq!(standby.sql(&database, "SHOW transaction_read_only"), ["on"]);
    let folder = server.folder().to_owned();
    let pid = std::fs::read_to_string(folder.join("data/postmaster.pid")).expect("its process id");
    let pid = pid.lines().next().and_then(|pid| pid.parse().ok()).expect("its process id");
    assert!(is_alive(pid));
    drop((standby, server));
    assert!(!is_alive(pid) && !folder.exists(), "nothing is left of it");
}

#[test]
fn a_proxy_counts_round_trips_and_no_start_up() {
    let Some((server, database)) = table() else { return };
    let proxy = Proxy::before(server.address());
    assert!(answer(psql(server, proxy.address(), &database, "SELECT 1")).status.success());
    assert_eq!(proxy.round_trips(), 1);
    let mut several = psql(server, proxy.address(), &database, "SELECT 1");
    assert!(
        answer({
            several.args(["-c", "SELECT 2", "-c", "SELECT 3"]);
            several
        })
        .status
        .success()
    );
    assert_eq!(proxy.round_trips(), 3);
    assert_eq!(proxy.statements(), ["SELECT 1", "SELECT 1", "SELECT 2", "SELECT 3"]);
    for mode in ["extended", "prepared"] {
        let bench = pgbench(server, proxy.address(), &database, "INSERT INTO t VALUES (:n);", &["-t", "2", "-M", mode]);
        let answer = answer(bench);
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        let inserted = proxy.statements().iter().filter(|statement| inserts(statement)).count();
        assert_eq!(inserted, 2, "{mode}");
    }
    assert_eq!(rows(server, &database).len(), 4);
}

#[test]
fn a_statement_that_is_cut_off_before_the_server_is_not_done_and_one_whose_answer_is_swallowed_is() {
    let Some((server, database)) = table() else { return };
    for then in [Then::HealsAtOnce, Then::StaysAway] {
        for (act, left) in [(Act::CutBefore, 0), (Act::CutAfter, 1)] {
            for mode in ["simple", "extended", "prepared"] {
                server.sql(&database, "DELETE FROM t");
                let proxy = Proxy::before(server.address());
                let acted = proxy.at_statement(2, inserts, act, then);
                let options = ["-t", "3", "-M", mode];
                let statement = "INSERT INTO t VALUES (:n);";
                let failed = answer(pgbench(server, proxy.address(), &database, statement, &options));
                assert!(!failed.status.success() && acted.has_happened(), "{act:?} {mode}");
                wait_for("the server's end of it", || (rows(server, &database).len() == 1 + left).then_some(()));
                let again = || answer(psql(server, proxy.address(), &database, "SELECT 1")).status.success();
                assert_eq!(again(), then == Then::HealsAtOnce, "{act:?} {mode}");
                proxy.heal();
                assert!(again());
            }
        }
    }
}

#[test]
fn an_answer_is_swallowed_where_its_transaction_commits() {
    let Some((server, database)) = table() else { return };
    let proxy = Proxy::before(server.address());
    let acted = proxy.at_statement(1, inserts, Act::CutAfter, Then::HealsAtOnce);
    let mut several = psql(server, proxy.address(), &database, "BEGIN");
    several.args(["-c", "INSERT INTO t VALUES (1)", "-c", "SELECT 2", "-c", "COMMIT", "-c", "SELECT 3"]);
    assert!(!answer(several).status.success());
    assert!(acted.has_happened());
    assert_eq!(proxy.statements(), ["BEGIN", "INSERT INTO t VALUES (1)", "SELECT 2", "COMMIT"]);
    assert_eq!(rows(server, &database), ["1"]);
}

#[test]
fn what_is_held_or_falls_into_a_hole_arrives_when_the_network_is_healed() {
    let Some((server, database)) = table() else { return };
    for (act, done) in [(Act::HoldBefore, 0), (Act::HoldAfter, 1), (Act::HoleBefore, 0), (Act::HoleAfter, 1)] {
        server.sql(&database, "DELETE FROM t");
        let proxy = Proxy::before(server.address());
        let acted = proxy.at_statement(1, inserts, act, Then::HealsAtOnce);
        let mut client = start(psql(server, proxy.address(), &database, "INSERT INTO t VALUES (1)"));
        acted.wait();
        assert_eq!(rows(server, &database).len(), done, "{act:?}");
        let pid = i32::try_from(client.id()).expect("a process id");
        assert!(is_alive(pid), "it waits: {act:?}");
        let before = proxy.connections();
        let mut other = start(psql(server, proxy.address(), &database, "INSERT INTO t VALUES (2)"));
        if matches!(act, Act::HoleBefore | Act::HoleAfter) {
            wait_for("another call", || (proxy.connections() > before).then_some(()));
            assert!(is_alive(i32::try_from(other.id()).expect("a process id")), "nothing passes: {act:?}");
        } else {
            assert!(other.wait().expect("its end").success(), "everything else passes: {act:?}");
        }
        proxy.heal();
        assert!(client.wait().expect("its end").success() && other.wait().expect("its end").success());
        assert_eq!(rows(server, &database), ["1", "2"], "{act:?}");
        wait_for("the end of the connections", || (proxy.open_connections() == 0).then_some(()));
    }
}

#[test]
fn who_gives_up_in_a_hole_leaves_its_session_behind_until_the_network_is_healed() {
    let Some((server, database)) = table() else { return };
    let proxy = Proxy::before(server.address());
    let mut client = start(psql(server, proxy.address(), &database, "SELECT pg_sleep(0)"));
    client.wait().expect("its end");
    let acted = proxy.at_statement(1, inserts, Act::HoleAfter, Then::HealsAtOnce);
    let mut client = start(psql(server, proxy.address(), &database, "INSERT INTO t VALUES (1)"));
    acted.wait();
    client.kill().expect("a client to kill");
    client.wait().expect("its end");
    let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND usename = '{ROLE}'");
    assert_eq!(server.sql("postgres", &sessions), ["1"]);
    proxy.heal();
    wait_for("the session's end", || (server.sql("postgres", &sessions) == ["0"]).then_some(()));
}

#[test]
fn a_cut_meets_all_connections_and_refuses_new_ones_until_it_is_healed() {
    let Some((server, database)) = table() else { return };
    let proxy = Proxy::before(server.address());
    let clients: Vec<_> =
        (0..3).map(|_| start(psql(server, proxy.address(), &database, "SELECT pg_sleep(1000)"))).collect();
    // Not when they are only opened: psql calls again when it is cut off in its greeting.
    let asleep =
        format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND wait_event = 'PgSleep'");
    let sleepers = |count: &str| (server.sql("postgres", &asleep) == [count]).then_some(());
    wait_for("three sessions", || sleepers("3"));
    proxy.cut();
    for mut client in clients {
        assert!(!client.wait().expect("its end").success());
    }
    assert!(!answer(psql(server, proxy.address(), &database, "SELECT 1")).status.success());
    proxy.heal();
    assert!(answer(psql(server, proxy.address(), &database, "SELECT 1")).status.success());
    let client = start(psql(server, proxy.address(), &database, "SELECT pg_sleep(1000)"));
    // A session whose client is gone sleeps on.
    wait_for("a fourth session", || sleepers("4"));
    proxy.cut_for_a_moment();
    assert!(!{ client }.wait().expect("its end").success());
    assert!(answer(psql(server, proxy.address(), &database, "SELECT 1")).status.success());
    proxy.swallow_everything();
    let before = proxy.connections();
    let mut client = start(psql(server, proxy.address(), &database, "INSERT INTO t VALUES (3)"));
    wait_for("another call", || (proxy.connections() > before).then_some(()));
    assert!(rows(server, &database).is_empty() && is_alive(i32::try_from(client.id()).expect("a process id")));
    proxy.heal();
    assert!(client.wait().expect("its end").success());
}

#[test]
fn a_bouncer_serves_many_clients_by_few_connections() {
    let Some((server, database)) = table() else { return };
    let Some(bouncer) = Bouncer::before(server) else { return };
    thread::scope(|threads| {
        for _ in 0..20 {
            threads.spawn(|| {
                let options = ["-t", "5", "-M", "extended"];
                let answer =
                    answer(pgbench(server, bouncer.address(), &database, "INSERT INTO t VALUES (:n);", &options));
                assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
            });
        }
    });
    let sessions = format!("SELECT count(*) <= 3 FROM pg_stat_activity WHERE datname = '{database}'");
    assert_eq!(server.sql("postgres", &sessions), ["t"]);
    assert_eq!(rows(server, &database).len(), 100);
}

#[test]
fn a_machine_whose_cable_is_pulled_hears_nothing_until_it_is_plugged_in() {
    let Some((server, database)) = table() else { return };
    let Some(mut machine) = Machine::new() else { return };
    let proxy = Proxy::at(machine.host(), server.address());
    let inside = |statement: &str| {
        let psql = psql(server, proxy.address(), &database, statement);
        let mut command = machine.command();
        command.arg(psql.get_program()).args(psql.get_args()).env("PGPASSWORD", crate::server::PASSWORD);
        command
    };
    assert!(answer(inside("INSERT INTO t VALUES (1)")).status.success());
    // The statement takes a lock that is held, so that its answer is still to come when the cable is pulled.
    let mut holder = start(psql(server, server.address(), &database, "BEGIN; LOCK t; SELECT pg_sleep(1000)"));
    let count = |what: &str| server.sql("postgres", &format!("SELECT count(*) FROM pg_stat_activity WHERE {what}"));
    let lives = format!("datname = '{database}' AND query LIKE '%pg_sleep%' AND wait_event = 'PgSleep'");
    wait_for("the lock", || (count(&lives) == ["1"]).then_some(()));
    let mut client = start(inside("INSERT INTO t VALUES (2)"));
    let waits = format!("datname = '{database}' AND wait_event_type = 'Lock'");
    wait_for("the waiting statement", || (count(&waits) == ["1"]).then_some(()));
    machine.pull_the_cable();
    server.sql("postgres", &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {lives}"));
    holder.wait().expect("its end");
    wait_for("both rows", || (rows(server, &database) == ["1", "2"]).then_some(()));
    assert!(is_alive(i32::try_from(client.id()).expect("a process id")), "it hears nothing");
    machine.plug_it_in();
    assert!(client.wait().expect("its end").success());
}
