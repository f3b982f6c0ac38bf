//! The sentences: what happened, whether the command ran, what to do next (design §10 messages, §12 words of 121).
//!
//! They are read by people and by models that decide whether to call again. Each is lower case, has no full stop, and
//! speaks of one claim.

mod unrecorded;

use std::time::Duration;

pub use self::unrecorded::{
    bad_pending, delivered, delivered_late, not_recorded_yet, pending, recorded_and_unreadable, start_unrecorded,
    still_pending, unrecorded, waiting_for_store,
};
use super::escape::escape;
use crate::domain::claim::{Claim, ClaimId, Effect, Mark, Outcome, Reason, State};
use crate::domain::end::{End, signal_name};
use crate::domain::timestamp::Timestamp;

/// An answer's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// What happened.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

/// How a command ended, as part of a sentence: `exited with 7`.
pub fn end(end: End) -> String {
    match end {
        End::Exited(code) => format!("exited with {code}"),
        End::Signaled(signal) => format!("was ended by {}", signal_name(signal)),
        End::TimedOut { .. } => "was ended by its time limit".to_owned(),
        End::NotStarted => "never started".to_owned(),
    }
}

/// The same of an attempt, by its row.
pub fn end_of(claim: &Claim) -> String {
    match (claim.exit_code, claim.signal) {
        (_, signal) if claim.reason == Some(Reason::Timeout) => end(End::TimedOut { signal }),
        (Some(code), _) => end(End::Exited(code)),
        (None, Some(signal)) => end(End::Signaled(signal)),
        (None, None) => "left no exit status".to_owned(),
    }
}

/// What is to be said where output is missing from the record; nothing where it is whole.
fn missing(claim: &Claim, were_not: &str, so: &str) -> String {
    match claim.missing {
        0 => String::new(),
        bytes => format!("; {bytes} bytes of its output {were_not} recorded and {so}"),
    }
}

/// What is said of a run that this arrival owned.
#[derive(Debug)]
pub struct Ran<'a> {
    /// The row as it is now.
    pub claim: &'a Claim,
    /// How the command ended: `exited with 7`.
    pub how: &'a str,
    /// Whether the store could not take all of the output.
    pub refused: bool,
    /// What can be said where the outcome is unknown.
    pub unknown: Unknown,
}

/// What can be said of a claim whose outcome is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// How its probe ended, where it was asked: `exited with 2`.
    pub probe: Option<String>,
    /// Until when it may be sent again.
    pub window_end: Option<Timestamp>,
    /// Its steps whose outcome is unknown, where it is held for them.
    pub steps: Vec<OpenStep>,
}

/// A step whose outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenStep {
    /// Its claim.
    pub id: ClaimId,
    /// Whether its command is still running.
    pub runs: bool,
}

/// The words of a run that this arrival owned.
pub fn ran(ran: &Ran<'_>) -> Words {
    let (claim, how) = (ran.claim, ran.how);
    let id = claim.id;
    let (message, hint) = match (claim.state, claim.reason) {
        (State::Completed, reason) => (format!("the command ran and {}", completed(claim, reason, how)), None),
        (State::Held, Some(Reason::Steps)) => (
            format!(
                "the command ran and {how}, and {}, so its own outcome is unknown too: claim {id} is held and was not retried",
                open(&ran.unknown.steps)
            ),
            Some(what_then(claim, &ran.unknown)),
        ),
        (State::Held, Some(Reason::Resent)) => (
            format!(
                "the command ran and {how}, and did not land; but it was sent again in place of an attempt whose outcome is \
                 unknown, and the request of that one may have reached the target{}. Claim {id} is held and was not \
                 retried; {}",
                asked(&ran.unknown),
                once(claim)
            ),
            Some(what_then(claim, &ran.unknown)),
        ),
        (State::Held, _) => (
            format!(
                "the command ran and {how}, so its outcome is unknown: the request may have reached the target{}. Claim \
                 {id} is held and was not retried; {}",
                asked(&ran.unknown),
                once(claim)
            ),
            Some(what_then(claim, &ran.unknown)),
        ),
        (_, reason) => {
            let why = match reason {
                Some(Reason::Marks) if claim.mark == Some(Mark::NotLanded) => {
                    ", after it had marked that it did not land"
                }
                Some(Reason::Marks) => ", and had not marked that it sends",
                Some(Reason::Probe) => ", and its probe says that nothing has arrived",
                _ => "",
            };
            (
                format!("the command ran and {how}{why}: it did not land. Claim {id} is released"),
                Some("the next arrival of this call runs the command again".to_owned()),
            )
        }
    };
    let missing = missing(claim, if ran.refused { "could not be" } else { "were not" }, "a replay lacks them");
    Words { message: message + &missing, hint }
}

fn completed(claim: &Claim, reason: Option<Reason>, how: &str) -> String {
    let id = claim.id;
    let once = if claim.effect == Effect::External { format!("; {}", once(claim)) } else { String::new() };
    match reason {
        Some(Reason::Marks) => format!(
            "{how}, after it had marked that it landed: claim {id} is completed, and repeats get this result{once}"
        ),
        Some(Reason::Probe) => format!(
            "{how}, and its probe says that it landed: claim {id} is completed, and repeats get the probe's answer{once}"
        ),
        Some(Reason::KeptFailure) => {
            format!("{how}, a failure that is kept: claim {id} is completed, and repeats get this result{once}")
        }
        _ => format!("{how}: claim {id} is completed, and repeats get this result{once}"),
    }
}

/// What idem can't promise (G8), said with the result of an external call.
fn once(claim: &Claim) -> String {
    match claim.means.resend_within {
        None => "idem will not send it again; it can't promise that the target received it once".to_owned(),
        Some(window) => format!(
            "that the target takes it once rests on its deduping on the key, which the caller states for {}",
            humantime::format_duration(window)
        ),
    }
}

/// The words of a run whose claim somebody else had decided about meanwhile.
pub fn ran_late(claim: &Claim, how: &str) -> Words {
    let id = claim.id;
    let by = match claim.reason {
        Some(Reason::Cleared | Reason::Resolved) | None => " by a person's word".to_owned(),
        Some(reason) => format!(" ({reason})"),
    };
    Words {
        message: format!(
            "the command ran and {how}, but claim {id} had become {} meanwhile{by}: what came of it is in the claim's \
             history only",
            claim.state
        ),
        hint: Some(format!("see `idem show {id}`")),
    }
}

/// The words of a replay.
pub fn replay(claim: &Claim) -> Words {
    let at = claim.finished_at.map_or(String::new(), |at| format!(" at {at}"));
    let result = match (claim.state, claim.reason) {
        (_, Some(Reason::NotStarted)) => "which could not start its command".to_owned(),
        (_, Some(Reason::Resolved)) => "resolved as landed".to_owned(),
        (_, Some(Reason::Probe)) if claim.outcome == Outcome::Landed => {
            "which its probe found to have landed".to_owned()
        }
        // Exit 0 by itself would be reason enough: nobody saw this one end.
        (State::Completed, Some(Reason::Marks)) if claim.exit_code == Some(0) => {
            "which marked that it landed".to_owned()
        }
        (State::Completed, Some(Reason::Marks)) => format!("which marked that it landed and {}", end_of(claim)),
        (State::Completed, Some(Reason::KeptFailure)) => format!("a kept failure that {}", end_of(claim)),
        (State::Completed, _) => format!("which {}", end_of(claim)),
        _ if claim.outcome == Outcome::Landed => {
            format!("which this arrival waited for and which {}", end_of(claim))
        }
        _ => format!("which this arrival waited for and which {}: it did not land", end_of(claim)),
    };
    let once = if claim.effect == Effect::External && claim.outcome == Outcome::Landed {
        format!("; {}", once(claim))
    } else {
        String::new()
    };
    let missing = missing(claim, "were not", "are missing here");
    let message = format!(
        "replay of claim {}, attempt {}{at}, {result}: the command was not run now{once}{missing}",
        claim.id, claim.attempt
    );
    let hint = (claim.state == State::Released)
        .then(|| "a new call runs the command again, as the claim is released".to_owned());
    Words { message, hint }
}

/// How many claims a sentence names.
const NAMED: usize = 8;

/// The steps that a claim is held for, as part of a sentence.
fn open(steps: &[OpenStep]) -> String {
    let ids = ids(&steps.iter().map(|step| step.id).collect::<Vec<_>>());
    match (steps, steps.iter().all(|step| step.runs)) {
        ([], _) => "the outcome of one of its steps was unknown".to_owned(),
        ([_], true) => format!("its step, claim {ids}, is still running"),
        (_, true) => format!("its steps, claims {ids}, are still running"),
        ([_], false) => format!("the outcome of its step, claim {ids}, is unknown"),
        (_, false) => format!("the outcomes of its steps, claims {ids}, are unknown"),
    }
}

/// Claims in a sentence: `3, 5 and 8`.
pub fn ids(ids: &[ClaimId]) -> String {
    let mut words: Vec<String> = ids.iter().take(NAMED).map(ToString::to_string).collect();
    if ids.len() > NAMED {
        words.push(format!("{} more", ids.len() - NAMED));
    }
    match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.concat(),
    }
}

/// How its probe ended, where it was asked, as the end of a sentence.
fn asked(unknown: &Unknown) -> String {
    unknown.probe.as_ref().map_or(String::new(), |probe| format!("; its probe {probe}"))
}

/// The words of 121.
pub fn held(claim: &Claim, unknown: &Unknown) -> Words {
    let id = claim.id;
    if claim.reason == Some(Reason::Steps) {
        let message = format!(
            "claim {id} is held: its command {}, and {}. It was not retried, and nothing was run now",
            end_of(claim),
            open(&unknown.steps)
        );
        return Words { message, hint: Some(what_then(claim, unknown)) };
    }
    let why = match claim.reason {
        Some(Reason::Interrupted) => "its owner was interrupted before it recorded an outcome".to_owned(),
        Some(Reason::OwnerLost) => "its owner can be proven neither alive nor dead".to_owned(),
        Some(Reason::Resent) => {
            "it was sent again in place of an attempt whose outcome is unknown, and has not landed itself".to_owned()
        }
        _ => format!("its command {}", end_of(claim)),
    };
    let asked = asked(unknown);
    let message = match claim.effect {
        // Whatever this attempt was: an external one can be sent again only.
        _ if claim.reason == Some(Reason::Resent) => format!(
            "claim {id} is held: {why}; the request may have reached the target with the earlier attempt, and the target \
             decides what came of it{asked}. It was not retried, and nothing was run now"
        ),
        Effect::External => format!(
            "claim {id} is held: {why}, and the request may have reached the target; the target decides what came of \
             it{asked}. It was not retried, and nothing was run now"
        ),
        Effect::Local => {
            format!(
                "claim {id} is held: the command was interrupted and its outcome is unknown ({why}{asked}); nothing was run \
                 now"
            )
        }
    };
    Words { message, hint: Some(what_then(claim, unknown)) }
}

/// The words of an arrival that was told to end while it asked the target, and so starts nothing.
pub fn stopped_while_asking(claim: &Claim, signal: i32) -> Words {
    Words {
        message: format!(
            "{} came while the target was asked: nothing was run now; claim {} is {}, outcome {}",
            signal_name(signal),
            claim.id,
            claim.state,
            claim.outcome
        ),
        hint: Some("call again to get the result, or to run the command where it did not land".to_owned()),
    }
}

/// The words of 120.
pub fn busy(claim: &Claim, waited: bool) -> Words {
    let (waited, longer) = match waited {
        true => ("still running after the wait", "with a longer --wait"),
        false => ("running", "without --no-wait"),
    };
    Words {
        message: format!(
            "claim {} is {waited}: its owner is {} since {}; nothing was run for this arrival",
            claim.id,
            escape(&claim.owner.actor),
            claim.created_at
        ),
        hint: Some(format!("call again after it has ended, or {longer}, to get its result")),
    }
}

/// The note of a run that made the store which it was told to use.
pub fn made_store(store: &str) -> String {
    format!("there was no store {store}: a new one was made, which knows of no earlier call")
}

/// The words of 122. Of a claim whose outcome isn't known yet they don't advise another key: that would send beside it.
pub fn mismatch(claim: &Claim) -> Words {
    let id = claim.id;
    let (stands, hint) = match claim.state {
        State::Held => (
            " and is held, its outcome unknown",
            format!(
                "claim {id} comes first: {}; a call with other params would send beside it. --allow-command-change is for a \
                 difference that doesn't matter",
                say(id)
            ),
        ),
        State::Running => (
            " and is running",
            format!(
                "wait for the end of claim {id}; a call with other params would run beside it. --allow-command-change is for a \
                 difference that doesn't matter"
            ),
        ),
        _ => (
            "",
            "put what differs into --params, or use --allow-command-change if the difference doesn't matter".to_owned(),
        ),
    };
    Words {
        message: format!(
            "mismatch: claim {id} has this key with another command ({}){stands}; nothing was run and nothing is replayed",
            command(claim)
        ),
        hint: Some(hint),
    }
}

/// The words of a call inside itself.
pub fn inside_itself(claim: &Claim) -> Words {
    Words {
        message: format!(
            "this call is inside itself: the command of claim {} calls `idem run` with the same key, and waiting for it \
             would never end; nothing was run",
            claim.id
        ),
        hint: Some("give the inner call a --tool or --params of its own".to_owned()),
    }
}

/// Why a command did not start, and what to do where that releases its claim.
pub fn could_not_start(program: &str, error: &str) -> Words {
    Words {
        message: format!("{} {error}", escape(program)),
        hint: Some("call again once the command can be started".to_owned()),
    }
}

/// The same of one that a signal stopped before its command started.
pub fn stopped_before_start(signal: i32) -> Words {
    Words {
        message: format!("{} came before the command", signal_name(signal)),
        hint: Some("call again to run it".to_owned()),
    }
}

/// The words of an attempt whose command did not start.
pub fn not_started(claim: &Claim, why: &Words, unknown: &Unknown) -> Words {
    let (id, message) = (claim.id, &why.message);
    if claim.state == State::Held {
        return Words {
            message: format!(
                "{message}; nothing was run now. Claim {id} is held: it was to be sent again in place of an attempt whose \
                 outcome is unknown, and the request of that one may have reached the target"
            ),
            hint: Some(what_then(claim, unknown)),
        };
    }
    Words { message: format!("{message}; nothing was run and claim {id} is {}", claim.state), hint: why.hint.clone() }
}

/// What to do about a held claim: what a repeat would do by itself, and what a person can say.
pub fn what_then(claim: &Claim, unknown: &Unknown) -> String {
    if claim.reason == Some(Reason::Steps) {
        return match unknown.steps.as_slice() {
            [] => "the next call runs it again, and steps that have landed replay".to_owned(),
            steps => match steps.iter().find(|step| !step.runs) {
                None => "call again when it has ended: then this one runs again, and steps that have landed replay"
                    .to_owned(),
                Some(step) => format!(
                    "a repeat asks about its steps by their probes, where they have one; else {} for each of them. Then the \
                     next call runs this one again, and steps that have landed replay",
                    say(step.id)
                ),
            },
        };
    }
    let resolve = ask_then_say(claim.id);
    let probe = claim.means.probe.is_some();
    match unknown.window_end {
        Some(end) => {
            format!("until {end} a repeat that states --resend-within sends it again with the same key; else {resolve}")
        }
        None if probe => format!(
            "a repeat, or `idem reconcile {}`, asks the target once more and sends nothing unless it answers that nothing \
             has landed; else {resolve}",
            claim.id
        ),
        None => how_to_resolve(claim.id),
    }
}

/// The two ways out of a held claim.
pub fn how_to_resolve(id: i64) -> String {
    format!("do not retry; a person has to resolve claim {id}: {}", ask_then_say(id))
}

fn ask_then_say(id: i64) -> String {
    format!("{} (the next call then runs)", say(id))
}

fn say(id: i64) -> String {
    format!("ask the target, then say `idem resolve {id} landed` or `idem resolve {id} not-landed`")
}

/// A claim and its call, as part of a sentence: `claim 4 (ada / demo-1 / mail.send)`.
pub fn call(claim: &Claim) -> String {
    format!("claim {} ({} / {} / {})", claim.id, escape(&claim.who), escape(&claim.conv), escape(&claim.tool))
}

/// The command line as a person would type it, shortened.
pub fn command(claim: &Claim) -> String {
    let args: Vec<String> = claim.command.args().iter().map(|arg| quote(&arg.to_string_lossy())).collect();
    shorten(&args.join(" "), 120)
}

/// An age in its largest unit: `3s`, `5m`, `2h`, `9d`.
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn quote(arg: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !arg.is_empty() && arg.bytes().all(plain) {
        return arg.to_owned();
    }
    format!("'{}'", escape(arg).replace('\'', "'\\''"))
}

/// Cuts a text after so many characters.
pub fn shorten(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (seconds, shown) in [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (864_000, "10d")] {
            assert_eq!(age(Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn commands_are_shown_as_typed() {
        assert_eq!(quote("a-b/c=d"), "a-b/c=d");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("\x1b[2J"), "'\\u{1b}[2J'");
        assert_eq!(shorten("äbc", 2), "äb…");
    }
}
