//! What the policy can say of a tool: its keys, each with the place where it was said.

use std::time::Duration;

use crate::domain::canonical::Json;
use crate::domain::claim::Effect;
use crate::domain::codes::ExitCodes;
use crate::domain::pointer::Pointer;
use crate::domain::size::Size;

/// Where something was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The section, as its header has it: `defaults` or `tools."mail.*"`.
    pub section: String,
}

/// A value, and where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said<T> {
    /// The value.
    pub value: T,
    /// The value as it was written.
    pub text: String,
    /// Where.
    pub place: Place,
}

/// Something that is wrong with the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, without the line.
    pub text: String,
}

impl Problem {
    /// Makes a problem.
    pub fn new(line: usize, text: impl Into<String>) -> Problem {
        Problem { line, text: text.into() }
    }
}

/// How long results are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// For ever, whatever a caller says.
    Never,
    /// This long at least.
    For(Duration),
}

/// A key that was said, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'static str,
    /// The value as it was written.
    pub text: &'a str,
    /// Where.
    pub place: &'a Place,
}

/// Gives every key its field, so that none is forgotten where rules are merged or listed.
macro_rules! rules {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $key:literal),+ $(,)?) => {
        /// What the policy says of a tool. A key that isn't said is `None`.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Rules { $($(#[$doc])* pub $field: Option<Said<$type>>),+ }

        /// Every key, in the order in which they are documented.
        pub const KEYS: &[&str] = &[$($key),+];

        impl Rules {
            /// Returns these rules, and where they are silent what is `below`.
            fn over(self, below: &Rules) -> Rules {
                Rules { $($field: self.$field.or_else(|| below.$field.clone())),+ }
            }

            /// Returns every key that is said.
            pub fn entries(&self) -> Vec<Entry<'_>> {
                let mut entries = Vec::new();
                $(if let Some(said) = &self.$field {
                    entries.push(Entry { key: $key, text: &said.text, place: &said.place });
                })+
                entries
            }
        }
    };
}

rules! {
    /// Whether a failure can leave us not knowing.
    effect: Effect = "effect",
    /// Exit codes that mean: landed.
    landed_exit: ExitCodes = "landed-exit",
    /// Exit codes that mean: not landed. The whole list: no caller adds to it.
    not_landed_exit: ExitCodes = "not-landed-exit",
    /// Whether a failure of a local call is final.
    keep_failure: bool = "keep-failure",
    /// Whether an interrupted local call is run again.
    rerun_if_interrupted: bool = "rerun-if-interrupted",
    /// What asks the target.
    probe: String = "probe",
    /// How long after the end it asks, at least.
    probe_delay: Duration = "probe-delay",
    /// How long it may take.
    probe_timeout: Duration = "probe-timeout",
    /// Whether the command marks before it sends.
    marks: bool = "marks",
    /// How long the command may run, at most.
    timeout: Duration = "timeout",
    /// How long after SIGTERM comes SIGKILL.
    kill_after: Duration = "kill-after",
    /// For how long the target dedupes on the key, at most; zero: it doesn't.
    resend_within: Duration = "resend-within",
    /// How long results are kept, at least.
    ttl: Ttl = "ttl",
    /// How long an arrival waits for a running owner.
    wait: Duration = "wait",
    /// Members that are left out of the key. The whole list: no caller adds to it.
    ignore_params: Vec<Pointer> = "ignore-params",
    /// Members that are hidden in the record.
    redact: Vec<Pointer> = "redact",
    /// Members without which nothing runs.
    require_params: Vec<Pointer> = "require-params",
    /// How much output is recorded, at least.
    max_output: Size = "max-output",
    /// Whether another command line is the same call.
    allow_command_change: bool = "allow-command-change",
}

impl Rules {
    /// Returns these rules, and where they are silent those of a less exact section. Once they say external, what that one
    /// has for local calls is no word on this tool.
    pub(super) fn over_less_exact(self, below: &Rules) -> Rules {
        if self.effect.as_ref().is_some_and(|said| said.value == Effect::External) {
            return self.over(&Rules { keep_failure: None, rerun_if_interrupted: None, ..below.clone() });
        }
        self.over(below)
    }

    /// Returns what in these rules can't be true together.
    pub(super) fn contradiction(&self) -> Option<Problem> {
        if let (Some(landed), Some(not_landed)) = (&self.landed_exit, &self.not_landed_exit)
            && let Some(code) = landed.value.common(&not_landed.value)
        {
            let (first, second) = (landed.place.line, not_landed.place.line);
            let text =
                format!("exit code {code} is in landed-exit (line {first}) and in not-landed-exit (line {second})");
            return Some(Problem::new(first.max(second), text));
        }
        let effect = self.effect.as_ref().filter(|said| said.value == Effect::External)?;
        let local_only = [("keep-failure", &self.keep_failure), ("rerun-if-interrupted", &self.rerun_if_interrupted)];
        local_only.into_iter().find_map(|(key, said)| {
            let said = said.as_ref().filter(|said| said.value)?;
            let text = format!("{key} is for local calls, and line {} says external", effect.place.line);
            Some(Problem::new(said.place.line, text))
        })
    }

    /// Returns the first of the required params that isn't there, and where it is required.
    pub fn missing_param(&self, params: &Json<'_>) -> Option<(&Pointer, &Place)> {
        let required = self.require_params.as_ref()?;
        let missing = required.value.iter().find(|pointer| !pointer.is_in(params))?;
        Some((missing, &required.place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T>(value: T, section: &str) -> Option<Said<T>> {
        Some(Said { value, text: String::new(), place: Place { line: 1, section: section.to_owned() } })
    }

    #[test]
    fn what_is_for_local_calls_gives_way_to_a_more_exact_external_and_contradicts_a_less_exact_one() {
        let external = Rules { effect: said(Effect::External, "a"), ..Rules::default() };
        let keep = |kept| Rules { keep_failure: said(kept, "b"), ..Rules::default() };
        for (exact, less, wrong, left) in [
            (external.clone(), keep(true), false, false),
            (keep(true), external.clone(), true, true),
            (keep(false), external.clone(), false, true),
            (Rules { effect: external.effect.clone(), ..keep(true) }, Rules::default(), true, true),
            (Rules { effect: said(Effect::Local, "b"), ..keep(true) }, external, false, true),
        ] {
            let rules = exact.clone().over_less_exact(&less);
            assert_eq!(rules.contradiction().is_some(), wrong, "{exact:?} over {less:?}");
            assert_eq!(rules.keep_failure.is_some(), left, "{exact:?} over {less:?}");
        }
    }

    #[test]
    fn required_params_must_be_there() {
        let pointers =
            |texts: &[&str]| texts.iter().map(|text| text.parse().expect("a pointer")).collect::<Vec<Pointer>>();
        let rules = Rules { require_params: said(pointers(&["/to", "/cc/0"]), "defaults"), ..Rules::default() };
        for (params, missing) in [
            (r#"{"to":1,"cc":[2]}"#, None),
            (r#"{"to":null,"cc":[null]}"#, None),
            (r#"{"to":1}"#, Some("/cc/0")),
            (r#"{"cc":[]}"#, Some("/to")),
            ("7", Some("/to")),
        ] {
            let json = Json::parse(params.as_bytes()).expect("JSON");
            assert_eq!(rules.missing_param(&json).map(|(at, _)| at.to_string()).as_deref(), missing, "{params}");
        }
    }
}
