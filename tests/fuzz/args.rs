//! The command line: the short way reads what clap reads, and the small languages of its values.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use clap::Parser;
use idem::cli::{Cli, parse};
use idem::domain::codes::ExitCodes;
use idem::domain::key::Key;
use idem::domain::pointer::Pointer;
use idem::domain::size::Size;

use crate::drive::{Fuzz, Seen, corpus, full};
use crate::mutate::{Language, mutate};
use crate::rng::{Rng, seed};

/// The arguments of a line stand between these.
const BREAK: u8 = b'\n';

const WORDS: [&[u8]; 72] = [
    b"\nrun\n",
    b"\nkey\n",
    b"\n--\n",
    b"\n--who\n",
    b"\n--conv\n",
    b"\n--tool\n",
    b"\n--params\n",
    b"\n--occurrence\n",
    b"\n--bind-stdin\n",
    b"\n--bind-file\n",
    b"\n--bind-env\n",
    b"\n--bind-cwd\n",
    b"\n--ignore-param\n",
    b"\n--external\n",
    b"\n--local\n",
    b"\n--landed-exit\n",
    b"\n--not-landed-exit\n",
    b"\n--keep-failure\n",
    b"\n--rerun-if-interrupted\n",
    b"\n--probe\n",
    b"\n--probe-delay\n",
    b"\n--probe-timeout\n",
    b"\n--resend-within\n",
    b"\n--marks\n",
    b"\n--ttl\n",
    b"\n--timeout\n",
    b"\n--kill-after\n",
    b"\n--stdin\n",
    b"\n--subst\n",
    b"\n--wait\n",
    b"\n--no-wait\n",
    b"\n--allow-command-change\n",
    b"\n--record-wait\n",
    b"\n--seen-every\n",
    b"\n--max-output\n",
    b"\n--no-record-output\n",
    b"\n--redact\n",
    b"\n--json\n",
    b"\n--status-file\n",
    b"\n--quiet\n",
    b"\n--store\n",
    b"\n--policy\n",
    b"\n--color\n",
    b"\n--explain\n",
    b"\n--help\n",
    b"null",
    b"inherit",
    b"90s",
    b"5m 3s",
    b"64MiB",
    b"6,10-19",
    b"/a~1b",
    b"{}",
    b"@f",
    b"-",
    b"-1",
    b"=",
    b"\xff",
    b"\xc3",
    b"\xc3\xa9",
    b" ",
    b"\n\n",
    b"0",
    b"18446744073709551616",
    b"--wh",
    b"--who=a",
    b"-x",
    b"auto",
    b"+7",
    b"007",
    b"1e3",
    b"\n--json=true\n",
];

/// Options, each with a value that it takes.
const OPTIONS: [&[u8]; 40] = [
    b"--who\na",
    b"--conv\n\xff",
    b"--tool\nmail.send",
    b"--params\n-1",
    b"--params\n{\"a\":1}",
    b"--occurrence\n2",
    b"--bind-stdin",
    b"--bind-file\nf",
    b"--bind-env\nHOME",
    b"--bind-cwd",
    b"--ignore-param\n/a",
    b"--external",
    b"--local",
    b"--landed-exit\n3",
    b"--not-landed-exit\n6,10-19",
    b"--keep-failure",
    b"--rerun-if-interrupted",
    b"--probe\nask",
    b"--probe-delay\n5s",
    b"--probe-timeout\n9s",
    b"--resend-within\n24h",
    b"--marks",
    b"--ttl\n7d",
    b"--timeout\n30s",
    b"--kill-after\n0s",
    b"--stdin\nnull",
    b"--subst",
    b"--wait\n1m 3s",
    b"--no-wait",
    b"--allow-command-change",
    b"--record-wait\n1s",
    b"--seen-every\n5s",
    b"--max-output\n7MiB",
    b"--no-record-output",
    b"--redact\n/a",
    b"--json",
    b"--status-file\ns",
    b"--quiet",
    b"--store\n/s",
    b"--policy\np",
];

const LINE: Language<'_> = Language { breaks: &[BREAK], parts: &OPTIONS, words: &WORDS };

fn line(bytes: &[u8]) -> Vec<OsString> {
    let args = bytes.split(|&byte| byte == BREAK).map(|arg| OsString::from_vec(arg.to_vec()));
    [OsString::from("idem")].into_iter().chain(args).collect()
}

/// Reads a line by both ways, and returns what came of it.
fn read(bytes: &[u8]) -> Seen {
    let line = line(bytes);
    let show = |verb: &dyn std::fmt::Debug, global: &dyn std::fmt::Debug| format!("{verb:?} {global:?}");
    let whole = Cli::try_parse_from(&line).map(|cli| show(&cli.verb, &cli.global));
    let short = parse(&line).map(|parsed| show(&parsed.verb, &parsed.global));
    match (short, whole) {
        (Ok(short), Ok(whole)) => {
            assert_eq!(short, whole);
            let options =
                line.iter().take_while(|arg| *arg != "--").filter(|arg| arg.as_encoded_bytes().starts_with(b"--"));
            Seen::new(true, options.collect::<Vec<_>>())
        }
        (Err(short), Err(whole)) => {
            assert_eq!(short.kind(), whole.kind());
            Seen::new(false, (whole.kind(), line.len().min(8)))
        }
        (short, whole) => panic!("the short way: {short:?}; clap: {whole:?}"),
    }
}

#[test]
fn the_short_way_reads_what_clap_reads() {
    Fuzz { corpus: "args", more: Vec::new(), language: LINE, inputs: 2_500 }.run(|bytes, _| read(bytes));
}

/// Whole options, each perhaps twice or with another's value, and a command that may be very long.
#[test]
fn lines_of_whole_options_and_long_ones_too() {
    let mut rng = Rng::new(seed());
    let values: Vec<&[u8]> = WORDS.into_iter().filter(|word| !word.contains(&BREAK)).collect();
    let options: Vec<&[u8]> = WORDS.into_iter().filter(|word| word.starts_with(b"\n--")).collect();
    let mut taken = 0;
    for number in 0..if full() { 100_000 } else { 1_000 } {
        let mut bytes = rng.pick(&["run", "key"]).as_bytes().to_vec();
        for _ in 0..rng.below(7) {
            bytes.extend_from_slice(rng.pick(&options).trim_ascii_end());
            if rng.one_in(2) {
                bytes.push(BREAK);
                bytes.extend_from_slice(rng.pick(&values));
            }
        }
        if rng.one_in(2) {
            bytes.extend_from_slice(b"\n--\ncmd\n--who\n\xff");
            let long = if number % 100 == 0 { 200_000 } else { rng.below(60) };
            bytes.extend(std::iter::repeat_n(rng.pick(b"x\n-"), long));
        }
        taken += usize::from(read(&bytes).taken);
    }
    assert!(taken > 0, "none of the lines is taken");
}

/// Set for a run of this test program within itself.
const WITHIN: &str = "IDEM_FUZZ_WITHIN";

/// Reads some lines under the environment that it was started with.
#[test]
fn lines_under_this_environment() {
    let Some(seed) = std::env::var(WITHIN).ok() else { return };
    let mut rng = Rng::new(seed.parse().expect("a seed"));
    let pool = corpus("args");
    for line in &pool {
        read(line);
    }
    for _ in 0..if full() { 2_000 } else { 10 } {
        read(&mutate(&pool, LINE, &mut rng));
    }
}

#[test]
fn the_environment_counts_alike_by_both_ways() {
    let values: [&[u8]; 7] = [b"", b"x", b"-x", b"--", b"\xff", b"5s", b"/"];
    let names = ["IDEM_WHO", "IDEM_CONV", "IDEM_STORE", "IDEM_POLICY", "IDEM_RECORD_WAIT", "IDEM_SEEN_EVERY"];
    // Each value of each by itself, then several together.
    let mut settings: Vec<Vec<(&str, &[u8])>> =
        names.iter().flat_map(|name| values.map(|value| vec![(*name, value)])).collect();
    let mut rng = Rng::new(seed());
    for _ in 0..if full() { 200 } else { 6 } {
        settings.push(names.iter().filter_map(|name| rng.maybe(|rng| (*name, rng.pick(&values)))).collect());
    }
    for setting in settings {
        let mut within = Command::new(std::env::current_exe().expect("this program"));
        within.args(["--exact", "args::lines_under_this_environment"]).env(WITHIN, rng.next().to_string());
        for name in names {
            within.env_remove(name);
        }
        within.envs(setting.iter().map(|(name, value)| (*name, OsString::from_vec(value.to_vec()))));
        let output = within.output().expect("this program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{setting:?}\n{text}");
    }
}

/// Durations, sizes, codes, pointers and keys: no text makes them panic, and what they read they mean.
#[test]
fn the_values_of_options() {
    let parts: [&[u8]; 10] = [b"s", b"ms", b"h", b"month", b"years", b"KiB", b"TB", b"10-19", b"6", b"a~1b"];
    let words: [&[u8]; 22] = [
        b"s",
        b"ms",
        b"h",
        b"d",
        b"month",
        b"years",
        b"ns",
        b" ",
        b"KiB",
        b"TB",
        b",",
        b"-",
        b"/",
        b"~0",
        b"~1",
        b"~",
        b"18446744073709551615",
        b"18446744073709551616",
        b"256",
        b"00",
        b"\xd9\xa3",
        b"+",
    ];
    let language = Language { breaks: b",/ 0123456789", parts: &parts, words: &words };
    Fuzz { corpus: "values", more: Vec::new(), language, inputs: 12_000 }.run(|bytes, _| {
        let Ok(text) = str::from_utf8(bytes) else { return Seen::new(false, "utf8") };
        let mut taken = Vec::new();
        if let Ok(duration) = humantime::parse_duration(text) {
            let shown = humantime::format_duration(duration).to_string();
            assert_eq!(humantime::parse_duration(&shown), Ok(duration), "{shown}");
            taken.push("duration");
        }
        if let Ok(size) = text.parse::<Size>() {
            assert_eq!(size.0.to_string().parse(), Ok(size));
            let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
            let (letter, factor) = if unit.contains('i') { (unit.find('i'), 1024_u128) } else { (Some(1), 1000) };
            let power = unit.get(..letter.unwrap_or(0)).and_then(|unit| "kMGT".find(&unit.replace('K', "k")));
            let power = power.filter(|_| unit.len() > 1).map_or(0, |power| power as u32 + 1);
            assert_eq!(number.parse::<u128>().map(|number| number * factor.pow(power)), Ok(u128::from(size.0)));
            taken.push("size");
        }
        if let Ok(codes) = text.parse::<ExitCodes>() {
            let list: Vec<_> = (-1..=256).filter(|&code| codes.contains(code)).map(|code| code.to_string()).collect();
            let again: ExitCodes = list.join(",").parse().expect("codes");
            assert!((codes.beyond(&again), again.beyond(&codes)) == (None, None) && !codes.is_empty(), "{text}");
            assert_eq!(codes.common(&again).map(|code| code.to_string()).as_ref(), list.first());
            taken.push("codes");
        }
        if let Ok(pointer) = text.parse::<Pointer>() {
            assert_eq!(pointer.to_string(), text);
            taken.push("pointer");
        }
        if let Ok(key) = text.parse::<Key>() {
            assert_eq!(key.to_string(), text);
            taken.push("key");
        }
        Seen::new(!taken.is_empty(), (taken, text.len().min(12)))
    });
}
