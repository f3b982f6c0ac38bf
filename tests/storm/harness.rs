//! A small test harness, with as much of the usual one's command line as `cargo test` hands to every test binary.

use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;

/// A test.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// Fails by a panic, as all tests do.
    pub(crate) run: fn(),
}

/// Which tests were asked for.
#[derive(Default)]
struct Asked {
    names: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    ignored: bool,
}

impl Asked {
    fn read(mut args: impl Iterator<Item = String>) -> Asked {
        let mut asked = Asked::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--list" => asked.list = true,
                "--exact" => asked.exact = true,
                "--ignored" => asked.ignored = true,
                "--skip" => asked.skipped.extend(args.next()),
                "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(args.next()),
                option if option.starts_with('-') => {}
                _ => asked.names.push(arg),
            }
        }
        asked
    }

    fn has(&self, name: &str) -> bool {
        let matches = |asked: &String| if self.exact { asked == name } else { name.contains(asked.as_str()) };
        !self.ignored && (self.names.is_empty() || self.names.iter().any(matches)) && !self.skipped.iter().any(matches)
    }
}

/// Runs the tests that the command line asks for, one after the other.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let asked = Asked::read(std::env::args().skip(1));
    let mut failed = false;
    for test in tests.iter().filter(|test| asked.has(test.name)) {
        if asked.list {
            tell(format_args!("{}: test\n", test.name));
            continue;
        }
        tell(format_args!("test {} ...\n", test.name));
        let passed = panic::catch_unwind(test.run).is_ok();
        tell(format_args!("test {} ... {}\n", test.name, if passed { "ok" } else { "FAILED" }));
        failed |= !passed;
    }
    // What the usual harness exits with.
    if failed { ExitCode::from(101) } else { ExitCode::SUCCESS }
}

/// Tells whoever runs the tests.
pub(crate) fn tell(text: std::fmt::Arguments<'_>) {
    // A reader that has gone changes no test's result.
    let _ = io::stdout().lock().write_fmt(text);
}
