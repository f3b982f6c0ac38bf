//! Work on params grows as the params do, whatever they are made of.
//!
//! Two measures, of which neither is a clock on the wall: the bytes that are asked for, and the processor time of the
//! thread for a text and for one eight times as long. Linear work takes eight times as much, quadratic work 64 times.

use idem::domain::canonical::Json;
use idem::domain::pointer::Pointer;
use nix::time::{ClockId, clock_gettime};

use crate::allocations;

/// What is asked for eight times as much work may take: between a line with its sorting and a square.
const MOST: u32 = 24;

/// How often a measure is taken again before it counts: a neighbour may have emptied the caches.
const TRIES: usize = 5;

type Shape = (&'static str, fn(usize) -> String);

/// Texts of about so many bytes, each hard on another part.
const SHAPES: [Shape; 12] = [
    ("white space", |n| " ".repeat(n) + "1"),
    ("a long string", |n| format!("\"{}\"", "x".repeat(n))),
    ("escapes", |n| format!("\"{}\"", "\\ud83d\\ude00\\u0000".repeat(n / 18))),
    ("digits", |n| format!("1{}.{}e-7", "0".repeat(n / 2), "7".repeat(n / 2))),
    ("zeros", |n| format!("0.{}1", "0".repeat(n))),
    ("many numbers", |n| format!("[{}1]", "1e20,".repeat(n / 5))),
    ("many brackets", |n| format!("[{}[]]", "[[]],{\"a\":[]},".repeat(n / 14))),
    ("many names", |n| {
        format!("{{{}\"\":0}}", (0..n / 12).rev().map(|name| format!("\"{name:07}\":1,")).collect::<String>())
    }),
    ("names with one start", |n| {
        let names = (0..n / 256).map(|name| format!("\"{}{name:06}\":1,", "é".repeat(122)));
        format!("{{{}\"\":0}}", names.collect::<String>())
    }),
    ("deep names", |n| format!("{}1{}", format!("{{\"{}\":", "y".repeat(n / 99)).repeat(99), "}".repeat(99))),
    ("small objects", |n| format!("[{}0]", "{\"b\":1,\"a\":2},".repeat(n / 14))),
    ("an unclosed string", |n| format!("\"{}", "\\\\".repeat(n / 2))),
];

/// Does all that is done with params.
fn work(text: &str) {
    let Ok(mut json) = Json::parse(text.as_bytes()) else { return };
    let mut out = String::new();
    json.write_canonical(&mut out);
    json.write_compact(&mut out);
    let pointer: Pointer = "/0000001/x".parse().expect("a pointer");
    let _ = (pointer.is_in(&json), pointer.remove(&mut json));
}

fn processor_time(text: &str) -> u64 {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(std::time::Duration::from).expect("a clock");
    let before = now();
    work(text);
    u64::try_from((now() - before).as_nanos()).expect("a short time")
}

fn check(name: &str, make: fn(usize) -> String, work_on: impl Fn(&str) -> u64) {
    let (small, large) = (make(60_000), make(480_000));
    let ratio = || work_on(&large) as f64 / work_on(&small).max(1) as f64;
    let least = (0..TRIES).map(|_| ratio()).find(|ratio| *ratio < f64::from(MOST));
    assert!(least.is_some(), "{name}: eight times the text takes over {MOST} times the work");
}

#[test]
fn work_on_params_is_linear() {
    for (name, make) in SHAPES {
        let large = make(480_000);
        let ((), bytes) = allocations::of(|| work(&large));
        assert!(bytes < 400 * large.len(), "{name}: {bytes} bytes for {}", large.len());
        check(name, make, processor_time);
    }
}

#[test]
#[should_panic(expected = "takes over 24 times the work")]
fn the_check_sees_quadratic_work() {
    check("pairs", |n| "x".repeat(n / 100), |text| (text.len() * text.len()) as u64);
}
