//! Through PgBouncer in transaction mode: nothing rests on what a session remembers.

use crate::bouncer::Bouncer;
use crate::env::{Answer, Gate, Running, TestEnv, wait_for};
use crate::proxy::{Act, Proxy, Then};
use crate::steps::{claims, finishes};
use crate::world::World;

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// A world, its PgBouncer, and a home that goes to the store by it.
fn pooled() -> Option<(World, Bouncer, TestEnv)> {
    let world = World::new()?;
    let bouncer = Bouncer::before(world.server())?;
    let env = TestEnv::with_store(Some(world.url_by(bouncer.address())));
    Some((world, bouncer, env))
}

#[test]
fn every_verb_works_through_a_pool() {
    let Some((world, _bouncer, env)) = pooled() else { return };
    let script = world.counted(&format!("echo out; {IDEM} emit made 1; echo err >&2; exit 3"));
    let call = |env: &TestEnv| env.run("t").args(["--landed-exit", "3"]).script(&script).answer();
    call(&env).exits(3).prints("out\n").says_exactly("err\n");
    call(&env).exits(3).prints("out\n").is_a_replay();
    call(&world.elsewhere()).exits(3).prints("out\n").is_a_replay();
    assert_eq!(world.runs(), 1);
    env.run("t").script("true").answer().exits(122);
    env.run("held").external().script("exit 7").answer().exits(7);
    env.run("held").external().script("exit 7").answer().exits(121);
    env.idem(["resolve", &world.newest("held"), "landed"]).answer().exits(0);
    env.run("held").external().script("exit 7").answer().exits(0).is_a_replay();
    env.idem(["clear", &world.newest("t")]).answer().exits(0);
    call(&env).exits(3).is_a_first_run();
    for verb in [&["list", "--all", "--json"][..], &["stats"], &["prune", "--older-than", "0s", "--yes"]] {
        env.idem(verb.iter().copied()).answer().exits(0);
    }
}

#[test]
fn forty_arrivals_through_a_pool_of_three_run_once() {
    let Some((world, bouncer, _env)) = pooled() else { return };
    let homes: Vec<TestEnv> = (0..40).map(|_| TestEnv::with_store(Some(world.url_by(bouncer.address())))).collect();
    let script = world.counted("echo done");
    let arrivals: Vec<Running> = homes.iter().map(|home| home.run("t").script(&script).start()).collect();
    let answers: Vec<Answer> = arrivals.into_iter().map(Running::answer).collect();
    for answer in &answers {
        answer.exits(0).prints("done\n");
    }
    assert_eq!((world.runs(), answers.iter().filter(|answer| answer.is_marked_as_replay()).count()), (1, 39));
}

#[test]
fn who_waits_through_a_pool_gets_the_owners_result() {
    let Some((world, bouncer, env)) = pooled() else { return };
    let gate = Gate::new(&env, "gate");
    let proxy = Proxy::before(bouncer.address());
    let elsewhere = world.behind(&proxy);
    let script = world.counted("echo $$ > pid; read _ < gate; echo done");
    let owner = env.run("t").script(&script).start();
    owner.command();
    let waiters: Vec<Running> = [&env, &elsewhere].iter().map(|env| env.run("t").script(&script).start()).collect();
    let mut asked = 0;
    wait_for("a waiter that has looked several times", || {
        asked += proxy.round_trips();
        (asked >= 4).then_some(())
    });
    gate.open();
    owner.answer().exits(0).prints("done\n").is_a_first_run();
    for waiter in waiters {
        waiter.answer().exits(0).prints("done\n").is_a_replay();
    }
    assert_eq!(world.runs(), 1);
}

#[test]
fn an_answer_that_is_lost_before_a_pool_is_looked_up() {
    for (step, is_it) in [("claim", claims as fn(&str) -> bool), ("finish", finishes)] {
        let Some((world, bouncer, _env)) = pooled() else { return };
        world.make_store();
        let proxy = Proxy::before(bouncer.address());
        let env = world.behind(&proxy);
        let script = world.counted("echo done");
        let acted = proxy.at_statement(1, is_it, Act::CutAfter, Then::HealsAtOnce);
        let owner = env.run("t").script(&script).start();
        acted.wait();
        owner.answer().exits(0).prints("done\n").is_a_first_run();
        env.run("t").script(&script).answer().exits(0).prints("done\n").is_a_replay();
        assert_eq!((world.runs(), world.states("t")), (1, vec!["completed".to_owned()]), "{step}");
    }
}
