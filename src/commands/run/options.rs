//! The options of a run that are checked before anything is claimed, and what follows from them.

use std::time::Duration;

use anyhow::Context;

use super::MAX_OUTPUT;
use crate::cli::RunArgs;
use crate::commands::asking;
use crate::domain::arrival::Terms;
use crate::domain::claim::{Effect, Means, Probe};
use crate::exit::{Failure, Kind};

/// Fails for lists of exit codes that contradict each other or the contract.
pub(super) fn check_codes(args: &RunArgs) -> anyhow::Result<()> {
    let (Some(not_landed), landed) = (&args.not_landed_exit, &args.landed_exit) else {
        return Ok(());
    };
    if not_landed.contains(0) {
        return Err(Failure::new(
            Kind::Usage,
            "exit code 0 means that the call landed, so --not-landed-exit can't have it",
        )
        .into());
    }
    match landed.as_ref().and_then(|landed| landed.common(not_landed)) {
        None => Ok(()),
        Some(code) => {
            Err(Failure::new(Kind::Usage, format!("exit code {code} is in both --landed-exit and --not-landed-exit"))
                .into())
        }
    }
}

/// Fails for a time that leaves none.
pub(super) fn check_durations(args: &RunArgs) -> anyhow::Result<()> {
    let nothing = [
        (args.timeout, "--timeout", "leaves the command no time", "leave it out for no limit"),
        (args.probe_timeout, "--probe-timeout", "leaves the probe no time", "leave it out for 30 s"),
        (args.resend_within, "--resend-within", "leaves no time to send again", "leave it out"),
        (args.seen_every, "--seen-every", "would never let anybody see its owner", "leave it out for 5 s"),
        (args.ttl, "--ttl", "keeps no result for a repeat", "leave it out for a result that never expires"),
    ];
    match nothing.iter().find(|(given, ..)| given.is_some_and(|given| given.as_millis() == 0)) {
        None => Ok(()),
        Some((_, option, why, hint)) => Err(Failure::new(Kind::Usage, format!("{option} 0 {why}")).hint(*hint).into()),
    }
}

/// Fails for an option that says something of another one that isn't there, neither on the command line nor in the policy.
pub(super) fn check_needs(args: &RunArgs) -> anyhow::Result<()> {
    let lacking = [
        (args.probe_delay.is_some() && args.probe.is_none(), "--probe-delay", "--probe"),
        (args.probe_timeout.is_some() && args.probe.is_none(), "--probe-timeout", "--probe"),
        (args.kill_after.is_some() && args.timeout.is_none(), "--kill-after", "--timeout"),
    ];
    match lacking.iter().find(|(lacks, ..)| *lacks) {
        None => Ok(()),
        Some((_, option, other)) => Err(Failure::new(Kind::Usage, format!("{option} says nothing without {other}"))
            .hint(format!("give {other} too, or leave {option} out"))
            .into()),
    }
}

/// Returns what the caller gave along to make an unknown outcome known, or a known one expire.
pub(super) fn means(args: &RunArgs) -> anyhow::Result<Means> {
    let probe = args.probe.as_ref().map(|command| {
        if asking::is_blank(command) {
            let failure = Failure::new(Kind::Usage, "the probe is empty, and an empty command would always say landed");
            return Err(failure.hint("give --probe a shell command that asks the target").into());
        }
        let folder = std::env::current_dir().context("the current folder can't be told, and the probe runs in it")?;
        Ok::<_, anyhow::Error>(Probe {
            command: command.clone(),
            folder: folder.into_os_string(),
            delay: args.probe_delay.unwrap_or_default(),
            timeout: args.probe_timeout.unwrap_or(asking::TIMEOUT),
            max_output: max_output(args).unwrap_or(MAX_OUTPUT),
        })
    });
    Ok(Means { probe: probe.transpose()?, marks: args.marks, resend_within: args.resend_within, ttl: args.ttl })
}

/// Returns how often the owner shows itself to a store that many hosts share.
pub(super) fn seen_every(args: &RunArgs) -> Duration {
    args.seen_every.unwrap_or(Duration::from_secs(5))
}

/// Returns how long an owner goes on trying to record its end in the store.
pub(super) fn record_wait(args: &RunArgs) -> Duration {
    args.record_wait.unwrap_or(Duration::from_secs(30))
}

/// Returns how much output is recorded, in bytes; `None`: as much as by default.
pub(super) fn max_output(args: &RunArgs) -> Option<u64> {
    if args.no_record_output { Some(0) } else { args.max_output.map(|size| size.0) }
}

/// Returns what the arrival brings along, as far as the judgement goes.
pub(super) fn terms(args: &RunArgs) -> Terms {
    Terms {
        effect: if args.external { Effect::External } else { Effect::Local },
        no_wait: args.no_wait,
        allow_command_change: args.allow_command_change,
        rerun_if_interrupted: args.rerun_if_interrupted,
        probe: args.probe.is_some(),
    }
}
