//! A model of the arrivals of one call, searched exhaustively: every interleaving of the atomic steps of the program, with
//! deaths, hosts that aren't seen, commands that fail, probes and a person's words in between.
//!
//! The judgements are the program's own pure functions (`domain::arrival`, `domain::end`, `domain::probe`, `Claim`): a change
//! of a rule is searched with the next `cargo test`. What the transactions of the store and the steps of `commands/run` do is
//! modelled: `store.rs` and `steps.rs` follow them line by line. `contract.rs` says what may be and what not.
//!
//! `cargo test --test model` searches a few calls; `IDEM_TEST_FULL=1 cargo test --release --test model -- --nocapture` all of
//! them (docs/testing.md has its figures). `guards.rs` takes away one guard after the other and finds out.
#![expect(clippy::print_stdout, reason = "figures and ways are what these tests are for; cargo shows them on request")]

mod contract;
mod guards;
mod others;
mod scenario;
mod search;
mod steps;
mod store;
mod world;

use std::sync::Mutex;
use std::time::Instant;

use scenario::{
    ALL, EXTERNAL, LOCAL, LOCAL_RERUN, MARKS, MARKS_RESEND, NONE, PROBE, PROBE_RESEND, RESEND, beside, far, shared,
};
use search::{Found, search};
use world::{Faults, Scenario};

const DEATH: Faults = Faults { deaths: 1, time: true, ..NONE };
const WORD: Faults = Faults { words: 1, time: true, ..NONE };
/// All that may go wrong with two arrivals.
const MUCH: Faults = Faults { deaths: 2, words: 1, refusals: 1, time: true, ..NONE };
/// The same between two hosts.
const APART: Faults = Faults { deaths: 1, unseen: 1, words: 1, refusals: 1, time: true, ..NONE };

#[test]
fn every_interleaving_keeps_every_promise() {
    let mut searches = vec![
        beside(&[LOCAL, LOCAL, LOCAL], DEATH),
        beside(&[LOCAL_RERUN, LOCAL_RERUN, LOCAL], DEATH),
        beside(&[EXTERNAL, EXTERNAL, EXTERNAL], DEATH),
        beside(&[MARKS, MARKS], DEATH),
        beside(&[PROBE, PROBE], DEATH),
        beside(&[PROBE_RESEND, RESEND], DEATH),
        beside(&[EXTERNAL, RESEND], WORD),
        shared(&[LOCAL, far(LOCAL_RERUN)], Faults { words: 0, ..APART }),
        shared(&[MARKS, far(PROBE)], Faults { unseen: 1, ..NONE }),
    ];
    if full() {
        searches = all();
    }
    keep(searches);
}

fn full() -> bool {
    std::env::var_os("IDEM_TEST_FULL").is_some()
}

/// Every three arrivals with a death, a word, or an end that the store refuses; every two with much more; a few fours.
fn all() -> Vec<Scenario> {
    let mut searches = Vec::new();
    for (a, &first) in ALL.iter().enumerate() {
        for (b, &second) in ALL.iter().enumerate() {
            searches.push(shared(&[first, far(second)], APART));
            if b < a {
                continue;
            }
            searches.push(beside(&[first, second], MUCH));
            for &third in &ALL[b..] {
                searches.push(beside(&[first, second, third], DEATH));
                searches.push(beside(&[first, second, third], Faults { refusals: 1, ..NONE }));
            }
        }
    }
    for three in [
        [LOCAL, LOCAL, LOCAL],
        [LOCAL_RERUN, LOCAL_RERUN, LOCAL],
        [EXTERNAL, EXTERNAL, EXTERNAL],
        [MARKS, MARKS, MARKS],
        [PROBE, PROBE, PROBE],
        [RESEND, RESEND, EXTERNAL],
        [PROBE_RESEND, PROBE, RESEND],
        [MARKS_RESEND, MARKS, RESEND],
    ] {
        searches.push(beside(&three, WORD));
        searches.push(beside(&three, Faults { deaths: 2, ..DEATH }));
        searches.push(shared(&[three[0], far(three[1]), three[2]], Faults { deaths: 1, unseen: 1, ..DEATH }));
    }
    for four in
        [[LOCAL; 4], [EXTERNAL; 4], [LOCAL_RERUN, LOCAL_RERUN, LOCAL, LOCAL], [RESEND, RESEND, EXTERNAL, EXTERNAL]]
    {
        searches.push(beside(&four, DEATH));
    }
    searches
}

/// Searches them on every processor, prints the figures, and fails with the way to the first broken promise.
fn keep(searches: Vec<Scenario>) {
    let began = Instant::now();
    let count = searches.len();
    let left = Mutex::new(searches.into_iter());
    let sums = Mutex::new((0, 0, 0));
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(of) = left.lock().expect("no search panics here").next() else { return };
                    let found = search(&of, |_| true);
                    println!("{}: {}", who(&of), figures(&found));
                    if let Some((_, trace)) = &found.broken {
                        panic!("{}\n{}", who(&of), trace.text);
                    }
                    let mut sums = sums.lock().expect("no search panics here");
                    *sums = (sums.0 + found.states, sums.1 + found.transitions, sums.2.max(found.depth));
                }
            });
        }
    });
    let (states, transitions, depth) = *sums.lock().expect("no search panics here");
    println!("{count} searches: {states} states, {transitions} transitions, depth {depth}, {:.1?}", began.elapsed());
}

fn who(of: &Scenario) -> String {
    let of_host = |host| if host == 0 { "" } else { " (another host)" };
    let who: Vec<String> = of.profiles.iter().map(|one| format!("{}{}", one.name, of_host(one.host))).collect();
    let faults = of.faults;
    let mut may: Vec<String> = [
        (faults.deaths, "deaths"),
        (faults.unseen, "unseen"),
        (faults.words, "words"),
        (faults.closed, "closed locks"),
        (faults.refusals, "refused ends"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    if faults.time {
        may.push("time".to_owned());
    }
    format!("{} | {}", who.join(" + "), may.join(", "))
}

fn figures(found: &Found) -> String {
    let Found { states, transitions, depth, took, .. } = found;
    format!("{states} states, {transitions} transitions, depth {depth}, {took:.1?}")
}
