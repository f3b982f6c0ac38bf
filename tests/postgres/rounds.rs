//! How often the store is asked: a network between idem and its store is paid for with each question.

use std::io::{self, Write};

use crate::world::World;

/// Tells the numbers to whoever runs the tests with `--nocapture`.
fn tell(what: &str, rounds: usize, statements: &[String]) {
    let text: String = statements.iter().map(|text| format!("    {}\n", first_line(text))).collect();
    let _ = write!(io::stderr(), "{what}: {rounds} round trips\n{text}");
}

fn first_line(statement: &str) -> String {
    statement.split_ascii_whitespace().collect::<Vec<_>>().join(" ").chars().take(100).collect()
}

#[test]
fn a_first_run_takes_at_most_five_round_trips_and_a_replay_two() {
    let Some(world) = World::new() else { return };
    world.make_store();
    let proxy = world.proxy();
    let env = world.behind(&proxy);
    for (tool, options) in [("local", &[][..]), ("external", &["--external"]), ("terms", &["--ttl", "1h", "--marks"])] {
        for (turn, most) in [("first run", 5), ("replay", 2)] {
            let (before, _) = (proxy.connections(), proxy.statements());
            let call = env.run(tool).args(options.iter().copied()).script("echo out; echo err >&2");
            call.answer().exits(0).prints("out\n");
            let (rounds, statements) = (proxy.round_trips(), proxy.statements());
            tell(&format!("{turn}, {tool}"), rounds, &statements);
            assert!(rounds <= most, "{turn} of {tool}: {rounds} round trips, at most {most}: {statements:#?}");
            assert!(rounds > 0, "it went by the proxy");
            assert_eq!(proxy.connections() - before, 1, "by one connection");
        }
    }
}
