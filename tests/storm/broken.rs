//! That the storm can fail: programs in idem's place that break one promise each, and are found.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;

use crate::env::TestEnv;
use crate::storm::Storm;

/// Fails unless the storm finds that this program breaks this promise.
fn is_found(part: &'static str, promise: &str) {
    let mut storm = Storm::new(vec![TestEnv::new()]).of(Duration::from_secs(3), 8);
    storm.in_its_place = Some(part);
    storm.rage(|_| {});
    let standing = storm.last_look();
    let violations = storm.verdict(&standing);
    assert!(violations.iter().any(|violation| violation.promise == promise), "{part}: {promise} is not found broken");
}

pub(crate) fn runs_first() {
    is_found("late", "G1");
}

pub(crate) fn guesses() {
    is_found("guessing", "G3");
}

pub(crate) fn is_impatient() {
    is_found("impatient", "G2");
}

/// Plays one of them; the arguments are the real idem and what it is asked.
pub(crate) fn play(part: &str, args: &[String]) -> u8 {
    let (idem, args) = args.split_first().expect("an idem");
    let is_run = args.first().is_some_and(|verb| verb == "run");
    let tool = args.iter().position(|arg| arg == "--tool").map(|at| args[at + 1].as_str());
    if let (true, Some(tool)) = (is_run, tool) {
        match part {
            "late" => run_first(args),
            "guessing" => clear(idem, tool, "held", &[]),
            _ => clear(idem, tool, "running", &["--force"]),
        }
    }
    let error = Command::new(idem).args(args).exec();
    panic!("{idem}: {error}");
}

/// Runs the command, and claims afterwards.
fn run_first(args: &[String]) {
    let command = args.iter().position(|arg| arg == "--").expect("a command") + 1;
    let _ = output(Command::new(&args[command]).args(&args[command + 1..]));
}

/// Frees the key without a person's word.
fn clear(idem: &str, tool: &str, state: &str, force: &[&str]) {
    let _ = output(Command::new(idem).args(["clear", "--yes", "--tool", tool, "--state", state]).args(force));
}

fn output(command: &mut Command) -> Output {
    command.output().expect("a program that starts")
}
