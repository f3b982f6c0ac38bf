//! The storm: mixed arrivals on fifty keys from many processes, with random kills, clears and resolves, and then the
//! contract's promises held against what the commands really did. The same with the store in PostgreSQL, whose server is
//! killed with -9 again and again.
//!
//! Quick in plain `cargo test`. A whole one:
//! `IDEM_TEST_STORM_SECONDS=600 IDEM_TEST_STORM_WORKERS=64 cargo test --release --test storm`.
//! `IDEM_TEST_SEED` gives each worker the decisions that it had. See docs/testing.md.
//!
//! The commands of the calls are this very program ([`command`]), which is why it has a `main` of its own.

mod broken;
mod command;
mod facts;
mod harness;
mod journal;
mod kinds;
mod last_look;
mod oracle;
mod outage;
mod overlap;
mod people;
mod rows;
mod standing;
mod storm;
mod worker;

#[path = "../postgres/keeper.rs"]
mod keeper;
#[path = "../postgres/server.rs"]
#[expect(dead_code, reason = "the tests of the store in PostgreSQL need more of it")]
mod server;

#[path = "../cli"]
mod shared {
    #[expect(dead_code, unused_imports, reason = "the other tests need more of it")]
    pub(crate) mod env;
}

use std::process::ExitCode;

use harness::Test;
use shared::env;

/// The tests, in the order in which they run: never two at once, since each one takes the whole machine.
const TESTS: [Test; 5] = [
    Test { name: "fifty_keys_in_a_storm_keep_every_promise", run: storm::in_a_file },
    Test { name: "fifty_keys_in_a_storm_keep_every_promise_while_the_server_dies", run: outage::in_postgresql },
    Test { name: "an_idem_that_runs_before_it_claims_is_found", run: broken::runs_first },
    Test { name: "an_idem_that_guesses_what_nobody_knows_is_found", run: broken::guesses },
    Test { name: "an_idem_that_does_not_wait_for_owners_is_found", run: broken::is_impatient },
];

fn main() -> ExitCode {
    let mut args = std::env::args();
    match (args.nth(1).as_deref(), args.next()) {
        // A part in the storm, played in a process of its own.
        (Some("play"), Some(part)) => play(&part, &args.collect::<Vec<_>>()),
        _ => harness::run(&TESTS),
    }
}

fn play(part: &str, args: &[String]) -> ExitCode {
    let code = match part {
        "command" => command::play(&args[0]),
        "probe" => command::play_probe(&args[0]),
        _ => broken::play(part, args),
    };
    ExitCode::from(code)
}
