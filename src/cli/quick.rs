//! The short way through the command line, for the two commands whose start-up is paid on each call: `run` and `key`.
//!
//! Building clap's definition of every option costs more than a fifth of a replay. This reads the plain spelling of the
//! options (`--name VALUE`, each once) into the same structs and gives up on everything else: another spelling, a value
//! that might be an option, a conflict, any mistake. What it gives up on, clap parses, and words the errors. So clap's
//! definition stays the one source of what there is; the tests below hold that both read every option alike.

use std::ffi::OsString;
use std::path::PathBuf;

use super::run::duration;
use super::{Color, Global, Identity, KeyArgs, Parsed, RunArgs, Stdin, Verb};

/// Parses `idem run …` or `idem key …` in their plain spelling; `None`: leave it to clap.
pub(super) fn parse(args: &[OsString]) -> Option<Parsed> {
    let mut global = Global { store: None, policy: None, color: Color::Auto };
    let mut rest = args.get(2..)?.iter();
    let verb = match args[1].to_str()? {
        "run" => {
            let mut run = RunArgs::default();
            loop {
                let name = rest.next()?.to_str()?;
                if name == "--" {
                    break;
                }
                read_run(name, &mut rest, &mut run, &mut global)?;
            }
            run.command = rest.cloned().collect();
            if run.command.is_empty() || conflict(&run) {
                return None;
            }
            complete(&mut run.identity);
            complete_durations(&mut run)?;
            Verb::Run(Box::new(run))
        }
        "key" => {
            let mut key = KeyArgs::default();
            while let Some(name) = rest.next() {
                match name.to_str()? {
                    "--explain" => flag(&mut key.explain)?,
                    name => read_common(name, &mut rest, &mut key.identity, &mut global)?,
                }
            }
            complete(&mut key.identity);
            Verb::Key(key)
        }
        _ => return None,
    };
    let (store, policy) = (from_env("IDEM_STORE"), from_env("IDEM_POLICY"));
    // clap words the refusal of an empty path; it looks at these also where the option is given.
    if [&store, &policy].into_iter().flatten().any(|path| path.is_empty()) {
        return None;
    }
    global.store = global.store.or(store.map(PathBuf::from));
    global.policy = global.policy.or(policy.map(PathBuf::from));
    Some(Parsed { global, verb })
}

/// Tells whether options exclude each other.
fn conflict(run: &RunArgs) -> bool {
    (run.external && (run.local || run.keep_failure || run.rerun_if_interrupted))
        || (run.wait.is_some() && run.no_wait)
        || (run.max_output.is_some() && run.no_record_output)
}

type Rest<'a> = std::slice::Iter<'a, OsString>;

fn read_run(name: &str, rest: &mut Rest<'_>, run: &mut RunArgs, global: &mut Global) -> Option<()> {
    match name {
        "--external" => flag(&mut run.external),
        "--local" => flag(&mut run.local),
        "--landed-exit" => set(&mut run.landed_exit, text(rest)?.parse().ok()?),
        "--not-landed-exit" => set(&mut run.not_landed_exit, text(rest)?.parse().ok()?),
        "--keep-failure" => flag(&mut run.keep_failure),
        "--rerun-if-interrupted" => flag(&mut run.rerun_if_interrupted),
        "--probe" => set(&mut run.probe, value(rest)?),
        "--probe-delay" => set(&mut run.probe_delay, duration(text(rest)?).ok()?),
        "--probe-timeout" => set(&mut run.probe_timeout, duration(text(rest)?).ok()?),
        "--resend-within" => set(&mut run.resend_within, duration(text(rest)?).ok()?),
        "--marks" => flag(&mut run.marks),
        "--ttl" => set(&mut run.ttl, duration(text(rest)?).ok()?),
        "--timeout" => set(&mut run.timeout, duration(text(rest)?).ok()?),
        "--kill-after" => set(&mut run.kill_after, duration(text(rest)?).ok()?),
        "--stdin" if run.stdin == Stdin::Inherit => {
            run.stdin = if text(rest)? == "null" { Stdin::Null } else { return None };
            Some(())
        }
        "--subst" => flag(&mut run.subst),
        "--max-output" => set(&mut run.max_output, text(rest)?.parse().ok()?),
        "--no-record-output" => flag(&mut run.no_record_output),
        "--redact" => push(&mut run.redact, text(rest)?.parse().ok()?),
        "--wait" => set(&mut run.wait, duration(text(rest)?).ok()?),
        "--no-wait" => flag(&mut run.no_wait),
        "--allow-command-change" => flag(&mut run.allow_command_change),
        "--record-wait" => set(&mut run.record_wait, duration(text(rest)?).ok()?),
        "--seen-every" => set(&mut run.seen_every, duration(text(rest)?).ok()?),
        "--json" => flag(&mut run.json),
        "--status-file" => set(&mut run.status_file, PathBuf::from(filled(rest)?)),
        "--quiet" => flag(&mut run.quiet),
        name => read_common(name, rest, &mut run.identity, global),
    }
}

fn read_common(name: &str, rest: &mut Rest<'_>, identity: &mut Identity, global: &mut Global) -> Option<()> {
    match name {
        "--who" => set(&mut identity.who, value(rest)?),
        "--conv" => set(&mut identity.conv, value(rest)?),
        "--tool" => set(&mut identity.tool, value(rest)?),
        // The one option whose value may look like an option: a negative number, or - for standard input.
        "--params" if identity.params.is_empty() => {
            identity.params = rest.next().filter(|params| !params.is_empty() && *params != "--")?.clone();
            Some(())
        }
        "--occurrence" => set(&mut identity.occurrence, text(rest)?.parse().ok().filter(|&number| number > 0)?),
        "--bind-stdin" => flag(&mut identity.bind_stdin),
        "--bind-file" => push(&mut identity.bind_file, value(rest)?),
        "--bind-env" => push(&mut identity.bind_env, value(rest)?),
        "--bind-cwd" => flag(&mut identity.bind_cwd),
        "--ignore-param" => push(&mut identity.ignore_param, text(rest)?.parse().ok()?),
        "--store" => set(&mut global.store, PathBuf::from(filled(rest)?)),
        "--policy" => set(&mut global.policy, PathBuf::from(filled(rest)?)),
        _ => None,
    }
}

/// Puts in what wasn't given: the environment's values and the default.
fn complete(identity: &mut Identity) {
    identity.who = identity.who.take().or_else(|| from_env("IDEM_WHO"));
    identity.conv = identity.conv.take().or_else(|| from_env("IDEM_CONV"));
    if identity.params.is_empty() {
        identity.params = "{}".into();
    }
}

/// Puts in the durations that the environment has. `None`: one of them is none.
fn complete_durations(run: &mut RunArgs) -> Option<()> {
    for (option, name) in [(&mut run.record_wait, "IDEM_RECORD_WAIT"), (&mut run.seen_every, "IDEM_SEEN_EVERY")] {
        if let Some(value) = from_env(name).filter(|_| option.is_none()) {
            *option = Some(duration(value.to_str()?).ok()?);
        }
    }
    Some(())
}

fn from_env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Sets an option that isn't set yet.
fn set<T>(option: &mut Option<T>, value: T) -> Option<()> {
    option.is_none().then(|| *option = Some(value))
}

/// Adds to an option that may be given again.
fn push<T>(option: &mut Vec<T>, value: T) -> Option<()> {
    option.push(value);
    Some(())
}

fn flag(flag: &mut bool) -> Option<()> {
    (!*flag).then(|| *flag = true)
}

/// Takes a value that can't be meant as an option.
fn value(rest: &mut Rest<'_>) -> Option<OsString> {
    rest.next().filter(|value| !value.as_encoded_bytes().starts_with(b"-")).cloned()
}

fn filled(rest: &mut Rest<'_>) -> Option<OsString> {
    value(rest).filter(|value| !value.is_empty())
}

fn text<'a>(rest: &mut Rest<'a>) -> Option<&'a str> {
    rest.next()?.to_str().filter(|text| !text.starts_with('-') && !text.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use proptest::prelude::*;

    use super::*;
    use crate::cli::Cli;

    fn by_clap(line: &[OsString]) -> Option<String> {
        Cli::try_parse_from(line).ok().map(|cli| format!("{:?} {:?}", cli.verb, cli.global))
    }

    fn quickly(line: &[OsString]) -> Option<String> {
        parse(line).map(|parsed| format!("{:?} {:?}", parsed.verb, parsed.global))
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    /// A value that the option takes.
    fn sample(option: &str) -> &'static str {
        match option {
            "landed-exit" | "not-landed-exit" => "6,10-19",
            "wait" | "timeout" | "kill-after" | "resend-within" | "ttl" | "probe-delay" | "probe-timeout"
            | "record-wait" | "seen-every" => "90s",
            "occurrence" => "2",
            "stdin" => "null",
            "max-output" => "7MiB",
            "redact" | "ignore-param" => "/a",
            _ => "x",
        }
    }

    #[test]
    fn every_option_of_clap_is_read_alike() {
        let cli = Cli::command();
        for (verb, end) in [("run", "-- cmd --who y"), ("key", "")] {
            let command = cli.find_subcommand(verb).expect("a command");
            for arg in command.get_arguments().chain(cli.get_arguments()) {
                let Some(option) = arg.get_long().filter(|long| *long != "help" && *long != "version") else {
                    continue;
                };
                let value = if arg.get_action().takes_values() { sample(option) } else { "" };
                let line = words(&format!("idem {verb} --{option} {value} {end}"));
                if option == "color" {
                    assert_eq!(quickly(&line), None, "colour is for people, who can wait");
                    continue;
                }
                let read = quickly(&line);
                assert!(read.is_some(), "--{option} of {verb} is not read by the short way");
                assert_eq!(read, by_clap(&line), "--{option}");
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_clap() {
        for line in [
            "idem",
            "idem run",
            "idem run --who a",
            "idem run --who a --",
            "idem run --help -- x",
            "idem run --nonsense -- x",
            "idem run --who=a -- x",
            "idem run --who -- x",
            "idem run --external --keep-failure -- x",
            "idem run --external --local -- x",
            "idem run --wait 5s --no-wait -- x",
            "idem run --wait soon -- x",
            "idem run --tool a --tool b -- x",
            "idem run --quiet --quiet -- x",
            "idem run x",
            "idem --store /s run -- x",
            "idem list",
        ] {
            assert_eq!(quickly(&words(line)), None, "{line}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn whatever_is_read_is_read_as_by_clap(
            verb in prop::sample::select(vec!["run", "key"]),
            line in prop::collection::vec(prop::sample::select(vec![
                "--who", "--conv", "--tool", "--params", "--occurrence", "--store", "--policy", "--external", "--local", "--landed-exit",
                "--not-landed-exit", "--keep-failure", "--rerun-if-interrupted", "--wait", "--no-wait", "--json",
                "--status-file", "--timeout", "--kill-after", "--stdin", "null", "inherit", "--max-output", "--redact",
                "--no-record-output", "--record-wait", "--seen-every", "--subst", "--bind-file", "--bind-env", "--bind-stdin", "--ignore-param", "/a", "--quiet", "--allow-command-change", "--explain",
                "--probe", "--probe-delay", "--probe-timeout", "--resend-within", "--marks", "--ttl", "--", "-", "", "a", "{}", "-1", "6", "5s",
                "--json=true", "0", "-x", "@f",
            ]), 0..9),
        ) {
            let line: Vec<OsString> = ["idem", verb].into_iter().chain(line).map(OsString::from).collect();
            if let Some(read) = quickly(&line) {
                prop_assert_eq!(Some(read), by_clap(&line));
            }
        }
    }
}
