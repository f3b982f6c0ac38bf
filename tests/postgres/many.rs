//! Many at once: one key from everywhere, and many keys.

use std::thread;

use crate::env::{Answer, Running, TestEnv};
use crate::network::Machine;
use crate::proxy::Proxy;
use crate::world::World;

/// One of these ran, and all others have its result.
#[track_caller]
fn one_ran(world: &World, answers: &[Answer]) {
    let runs = answers.iter().filter(|answer| !answer.is_marked_as_replay()).count();
    for answer in answers {
        answer.exits(0).prints("done\n");
    }
    assert_eq!((world.runs(), runs, answers.len() - runs), (1, 1, 99), "one run and 99 replays");
    assert_eq!(world.states("t"), ["completed"]);
}

#[test]
fn a_hundred_arrivals_from_different_homes_by_two_ways_run_once() {
    let Some(world) = World::new() else { return };
    let ways = [world.proxy(), world.proxy()];
    let homes: Vec<TestEnv> = (0..100).map(|n| world.behind(&ways[n % 2])).collect();
    let script = world.counted("echo done");
    let arrivals: Vec<Running> = homes.iter().map(|home| home.run("t").script(&script).start()).collect();
    let answers: Vec<Answer> = arrivals.into_iter().map(Running::answer).collect();
    one_ran(&world, &answers);
    assert!(ways.iter().all(|way| way.connections() >= 50), "each way was taken");
}

#[test]
fn a_hundred_arrivals_from_ten_machines_run_once() {
    let Some(world) = World::new() else { return };
    let machines: Vec<Machine> = (0..10).map_while(|_| Machine::new()).collect();
    if machines.is_empty() {
        return;
    }
    let ways: Vec<Proxy> = machines.iter().map(|machine| Proxy::at(machine.host(), world.server().address())).collect();
    let homes: Vec<TestEnv> = (0..100).map(|n| world.behind(&ways[n % 10])).collect();
    let script = world.counted("echo done");
    let call = |n: usize| machines[n % 10].on(homes[n].run("t").script(&script));
    let arrivals: Vec<Running> = (0..100).map(|n| call(n).start()).collect();
    let answers: Vec<Answer> = arrivals.into_iter().map(Running::answer).collect();
    one_ran(&world, &answers);
}

#[test]
fn sixty_four_at_once_with_keys_of_their_own_all_complete() {
    let Some(world) = World::new() else { return };
    let keys = std::env::var("IDEM_TEST_KEYS").map_or(20, |keys| keys.parse().expect("IDEM_TEST_KEYS is a number"));
    thread::scope(|threads| {
        for n in 0..64 {
            let world = &world;
            threads.spawn(move || {
                let home = world.elsewhere();
                for k in 0..keys {
                    let call = home.run("t").params(&format!("[{n},{k}]")).command(["echo", &format!("{n} {k}")]);
                    call.answer().exits(0).prints(format!("{n} {k}\n")).says_exactly("");
                }
            });
        }
    });
    let all = (64 * keys).to_string();
    assert_eq!(world.rows("SELECT count(*) FROM idem.claim WHERE state = 'completed'"), [all.as_str()]);
    assert_eq!(world.rows("SELECT count(DISTINCT key) FROM idem.claim"), [all]);
}
