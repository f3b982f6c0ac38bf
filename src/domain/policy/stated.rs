//! What a call states by its own options, and what becomes of it under the policy.

use std::ffi::OsString;
use std::time::Duration;

use super::rules::{Place, Rules, Said, Ttl};
use crate::domain::claim::Effect;
use crate::domain::codes::ExitCodes;
use crate::domain::pointer::Pointer;
use crate::domain::size::Size;

/// The options of a call that the policy has a word in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// `--local`, `--external`.
    pub effect: Option<Effect>,
    /// `--landed-exit`.
    pub landed_exit: Option<ExitCodes>,
    /// `--not-landed-exit`.
    pub not_landed_exit: Option<ExitCodes>,
    /// `--keep-failure`.
    pub keep_failure: bool,
    /// `--rerun-if-interrupted`.
    pub rerun_if_interrupted: bool,
    /// `--probe`.
    pub probe: Option<OsString>,
    /// `--probe-delay`.
    pub probe_delay: Option<Duration>,
    /// `--probe-timeout`.
    pub probe_timeout: Option<Duration>,
    /// `--marks`.
    pub marks: bool,
    /// `--timeout`.
    pub timeout: Option<Duration>,
    /// `--kill-after`.
    pub kill_after: Option<Duration>,
    /// `--resend-within`.
    pub resend_within: Option<Duration>,
    /// `--ttl`.
    pub ttl: Option<Duration>,
    /// `--wait`; zero with `--no-wait`.
    pub wait: Option<Duration>,
    /// `--ignore-param`.
    pub ignore_params: Vec<Pointer>,
    /// `--redact`.
    pub redact: Vec<Pointer>,
    /// `--max-output`; zero with `--no-record-output`.
    pub max_output: Option<Size>,
    /// `--allow-command-change`.
    pub allow_command_change: bool,
}

/// An option that would weaken the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakening {
    /// The option, as it was given: `--not-landed-exit 9`.
    pub option: String,
    /// The key that it would weaken.
    pub key: &'static str,
    /// That key's value as it was written.
    pub said: String,
    /// Where.
    pub place: Place,
    /// What would come of it.
    pub why: &'static str,
}

fn weakens<T>(option: impl Into<String>, key: &'static str, said: &Said<T>, why: &'static str) -> Weakening {
    Weakening { option: option.into(), key, said: said.text.clone(), place: said.place.clone(), why }
}

impl Stated {
    /// Returns what applies to the call: its own options and what the policy adds to them. Fails for the first option that
    /// would weaken the policy.
    pub fn under(mut self, rules: &Rules) -> Result<Stated, Weakening> {
        self.effect_under(rules)?;
        self.exits_under(rules)?;
        self.flags_under(rules)?;
        self.probe_under(rules)?;
        self.times_under(rules)?;
        self.record_under(rules)?;
        Ok(self)
    }

    fn effect_under(&mut self, rules: &Rules) -> Result<(), Weakening> {
        let Some(effect) = &rules.effect else { return Ok(()) };
        if effect.value == Effect::External {
            let why = "a failure would be taken for not landed, and a repeat would send again";
            let local_only = [
                (self.effect == Some(Effect::Local), "--local"),
                (self.keep_failure, "--keep-failure"),
                (self.rerun_if_interrupted, "--rerun-if-interrupted"),
            ];
            if let Some((_, option)) = local_only.into_iter().find(|(given, _)| *given) {
                return Err(weakens(option, "effect", effect, why));
            }
        }
        self.effect = self.effect.or(Some(effect.value));
        Ok(())
    }

    fn exits_under(&mut self, rules: &Rules) -> Result<(), Weakening> {
        if let Some(landed) = &rules.landed_exit {
            let stated = self.not_landed_exit.as_ref();
            if let Some(code) = stated.and_then(|stated| stated.common(&landed.value)) {
                let why = "a call that has landed would run again";
                return Err(weakens(format!("--not-landed-exit {code}"), "landed-exit", landed, why));
            }
        }
        if let Some(not_landed) = &rules.not_landed_exit {
            if let Some(code) = self.not_landed_exit.as_ref().and_then(|stated| stated.beyond(&not_landed.value)) {
                let why = "the list is whole: with one code more a call that may have landed would run again";
                return Err(weakens(format!("--not-landed-exit {code}"), "not-landed-exit", not_landed, why));
            }
            if let Some(code) = self.landed_exit.as_ref().and_then(|stated| stated.common(&not_landed.value)) {
                let why = "a call that has not landed would be taken for done, and the write would be lost";
                return Err(weakens(format!("--landed-exit {code}"), "not-landed-exit", not_landed, why));
            }
            self.not_landed_exit = Some(not_landed.value.clone()).filter(|codes| !codes.is_empty());
        }
        if let Some(landed) = rules.landed_exit.as_ref().filter(|landed| !landed.value.is_empty()) {
            self.landed_exit.get_or_insert_default().extend(&landed.value);
        }
        Ok(())
    }

    fn flags_under(&mut self, rules: &Rules) -> Result<(), Weakening> {
        let again = "a call could run again that the policy holds";
        let other = "the result of another command would be replayed";
        for (stated, option, key, said, why) in [
            (&mut self.marks, "--marks", "marks", &rules.marks, again),
            (
                &mut self.rerun_if_interrupted,
                "--rerun-if-interrupted",
                "rerun-if-interrupted",
                &rules.rerun_if_interrupted,
                again,
            ),
            (
                &mut self.allow_command_change,
                "--allow-command-change",
                "allow-command-change",
                &rules.allow_command_change,
                other,
            ),
        ] {
            let Some(said) = said else { continue };
            if *stated && !said.value {
                return Err(weakens(option, key, said, why));
            }
            *stated = said.value;
        }
        // To keep a failure runs nothing again: a caller may ask for it whatever the policy says.
        self.keep_failure |= rules.keep_failure.as_ref().is_some_and(|said| said.value);
        if self.effect == Some(Effect::External) {
            // The policy's word on local calls is no word on this one.
            self.keep_failure = false;
            self.rerun_if_interrupted = false;
        }
        Ok(())
    }

    fn probe_under(&mut self, rules: &Rules) -> Result<(), Weakening> {
        if let Some(probe) = &rules.probe {
            if self.probe.as_ref().is_some_and(|stated| *stated != *probe.value) {
                let why = "another probe could say that nothing has landed, and the call would run again";
                return Err(weakens("another --probe", "probe", probe, why));
            }
            self.probe = Some(probe.value.clone().into());
        }
        if let Some(delay) = &rules.probe_delay {
            if self.probe_delay.is_some_and(|stated| stated < delay.value) {
                let why = "the target reads behind its writes: asked too early it would say that nothing has landed";
                return Err(weakens("a shorter --probe-delay", "probe-delay", delay, why));
            }
            self.probe_delay = self.probe_delay.or(self.probe.as_ref().map(|_| delay.value));
        }
        // However long a probe may take, without its answer the outcome stays unknown.
        let timeout = rules.probe_timeout.as_ref().filter(|_| self.probe.is_some());
        self.probe_timeout = self.probe_timeout.or(timeout.map(|said| said.value));
        Ok(())
    }

    fn times_under(&mut self, rules: &Rules) -> Result<(), Weakening> {
        if let Some(timeout) = &rules.timeout {
            if self.timeout.is_some_and(|stated| stated > timeout.value) {
                return Err(weakens("a longer --timeout", "timeout", timeout, "the command could outlast its limit"));
            }
            self.timeout = self.timeout.or(Some(timeout.value));
        }
        if let Some(kill_after) = &rules.kill_after {
            if self.kill_after.is_some_and(|stated| stated != kill_after.value) {
                let why =
                    "with less the command can't tidy up and leaves half a write, with more it outlasts its limit";
                return Err(weakens("another --kill-after", "kill-after", kill_after, why));
            }
            self.kill_after = self.kill_after.or(self.timeout.map(|_| kill_after.value));
        }
        if let Some(window) = &rules.resend_within {
            if self.resend_within.is_some_and(|stated| stated > window.value) {
                let why = "the target has forgotten the key by then, and the call would land twice";
                return Err(weakens("a longer --resend-within", "resend-within", window, why));
            }
            self.resend_within = self.resend_within.or(Some(window.value)).filter(|window| !window.is_zero());
        }
        if let Some(said) = &rules.ttl {
            let refusal = match (said.value, self.ttl) {
                (Ttl::Never, Some(_)) => Some("--ttl"),
                (Ttl::For(least), Some(stated)) if stated < least => Some("a shorter --ttl"),
                _ => None,
            };
            if let Some(option) = refusal {
                let why = "the result would expire earlier than the policy says, and a repeat would run again";
                return Err(weakens(option, "ttl", said, why));
            }
            if let Ttl::For(least) = said.value {
                self.ttl = self.ttl.or(Some(least));
            }
        }
        self.wait = self.wait.or(rules.wait.as_ref().map(|said| said.value));
        Ok(())
    }

    fn record_under(&mut self, rules: &Rules) -> Result<(), Weakening> {
        if let Some(ignored) = &rules.ignore_params {
            if let Some(more) = self.ignore_params.iter().find(|stated| !ignored.value.contains(stated)) {
                let why = "the list is whole: callers that leave out different members give one call different keys, and it \
                           would run twice";
                return Err(weakens(format!("--ignore-param {more}"), "ignore-params", ignored, why));
            }
            self.ignore_params.clone_from(&ignored.value);
        }
        if let Some(redacted) = &rules.redact {
            let more: Vec<Pointer> = redacted.value.iter().filter(|one| !self.redact.contains(one)).cloned().collect();
            self.redact.extend(more);
        }
        if let Some(size) = &rules.max_output {
            if self.max_output.is_some_and(|stated| stated < size.value) {
                let option =
                    if self.max_output == Some(Size(0)) { "--no-record-output" } else { "a smaller --max-output" };
                return Err(weakens(option, "max-output", size, "a replay would lack output that the policy keeps"));
            }
            self.max_output = self.max_output.or(Some(size.value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
