//! From TOML to rules: every key and value with its line, and all that is wrong at once.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::domain::claim::Effect;
use crate::domain::codes::ExitCodes;
use crate::domain::pointer::Pointer;
use crate::domain::policy::{KEYS, Place, Policy, Problem, Rules, Said, Section, Ttl};
use crate::domain::size::Size;

/// Reads a policy's text. Errors: every problem, in the order of the lines.
pub(super) fn policy(bytes: &[u8]) -> Result<Policy, Vec<Problem>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        vec![Problem::new(line, "this is not UTF-8")]
    })?;
    let mut reader = Reader { text, problems: Vec::new() };
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // What the parser made of the rest is guesswork.
        for error in errors {
            let line = reader.line(error.span().map_or(0, |span| span.start));
            reader.problems.push(Problem::new(line, error.message().lines().collect::<Vec<_>>().join(", ")));
        }
        // The parser tells of an open quote only after what it made of the lines below.
        reader.problems.sort_by_key(|problem| problem.line);
        return Err(reader.problems);
    }
    let policy = reader.root(root.get_ref());
    reader.problems.extend(policy.problems());
    reader.problems.sort_by_key(|problem| problem.line);
    if reader.problems.is_empty() { Ok(policy) } else { Err(reader.problems) }
}

type Value<'t> = Spanned<DeValue<'t>>;

struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    fn problem(&mut self, offset: usize, text: impl Into<String>) {
        let line = self.line(offset);
        self.problems.push(Problem::new(line, text));
    }

    fn root(&mut self, root: &DeTable<'_>) -> Policy {
        let mut policy = Policy::default();
        for (key, value) in root {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("defaults", DeValue::Table(table)) => policy.defaults = self.rules("defaults", table),
                ("tools", DeValue::Table(tools)) => policy.tools = self.tools(tools),
                ("defaults" | "tools", _) => {
                    self.problem(key.span().start, "this is a section: write [defaults], [tools.\"NAME\"]");
                }
                (other, _) => {
                    let text = format!("unknown key {other}; there are [defaults] and [tools.\"NAME\"]");
                    self.problem(key.span().start, text);
                }
            }
        }
        policy
    }

    fn tools(&mut self, tools: &DeTable<'_>) -> Vec<Section> {
        let mut sections = Vec::new();
        for (name, value) in tools {
            let (offset, name) = (name.span().start, name.get_ref().as_ref());
            let DeValue::Table(table) = value.get_ref() else {
                self.problem(offset, format!("tools.{name} is a section of its own: write [tools.\"{name}\"]"));
                continue;
            };
            // [tools.mail.send] without quotes is a section `mail` with a table `send` in it.
            if let Some((inner, _)) = table.iter().find(|(_, value)| value.get_ref().is_table()) {
                let text = format!("put the tool's name in quotes: [tools.\"{name}.{}\"]", inner.get_ref());
                self.problem(inner.span().start, text);
                continue;
            }
            let rules = self.rules(&format!("tools.\"{name}\""), table);
            match name.parse() {
                Ok(pattern) => sections.push(Section { pattern, line: self.line(offset), rules }),
                Err(problem) => self.problem(offset, problem),
            }
        }
        sections
    }

    fn rules(&mut self, section: &str, table: &DeTable<'_>) -> Rules {
        let mut rules = Rules::default();
        for (key, value) in table {
            let (offset, name) = (key.span().start, key.get_ref().as_ref());
            let place = Place { line: self.line(offset), section: section.to_owned() };
            if let Err(problem) = self.rule(&mut rules, name, value, place) {
                self.problem(offset, problem);
            }
        }
        rules
    }

    fn rule(&self, rules: &mut Rules, key: &str, value: &Value<'_>, place: Place) -> Result<(), String> {
        let text = self.text.get(value.span()).unwrap_or_default();
        let said = Said { value: (), text: text.split_whitespace().collect::<Vec<_>>().join(" "), place };
        let value = value.get_ref();
        let wrong = |problem: String| format!("{key}: {problem}");
        macro_rules! set {
            ($field:ident, $read:expr) => {
                rules.$field = Some(Said { value: $read(value).map_err(wrong)?, text: said.text, place: said.place })
            };
        }
        match key {
            "effect" => set!(effect, effect),
            "landed-exit" => set!(landed_exit, codes),
            "not-landed-exit" => set!(not_landed_exit, codes_of_failures),
            "keep-failure" => set!(keep_failure, yes_or_no),
            "rerun-if-interrupted" => set!(rerun_if_interrupted, yes_or_no),
            "probe" => set!(probe, command),
            "probe-delay" => set!(probe_delay, duration),
            "probe-timeout" => set!(probe_timeout, time),
            "marks" => set!(marks, yes_or_no),
            "timeout" => set!(timeout, time),
            "kill-after" => set!(kill_after, duration),
            "resend-within" => set!(resend_within, duration),
            "ttl" => set!(ttl, ttl),
            "wait" => set!(wait, duration),
            "ignore-params" => set!(ignore_params, pointers),
            "redact" => set!(redact, pointers),
            "require-params" => set!(require_params, pointers),
            "max-output" => set!(max_output, size),
            "allow-command-change" => set!(allow_command_change, yes_or_no),
            unknown => return Err(unknown_key(unknown)),
        }
        Ok(())
    }
}

fn unknown_key(unknown: &str) -> String {
    let plain = |key: &str| key.replace(['-', '_'], "").trim_end_matches('s').to_ascii_lowercase();
    match KEYS.iter().find(|key| plain(key) == plain(unknown)) {
        Some(key) => format!("unknown key {unknown}; {key} is meant, perhaps"),
        None => format!("unknown key {unknown}; the keys are {}", KEYS.join(", ")),
    }
}

fn text<'v>(value: &'v DeValue<'_>, example: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("write it as a text, such as {example}"))
}

fn yes_or_no(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "it is true or false".to_owned())
}

fn effect(value: &DeValue<'_>) -> Result<Effect, String> {
    let word = value.as_str().and_then(Effect::from_word);
    word.ok_or_else(|| "it is \"local\" or \"external\"".to_owned())
}

/// Exit codes, as one text (`"6,7,10-19"`), one number, or a list of either.
fn codes(value: &DeValue<'_>) -> Result<ExitCodes, String> {
    match value {
        DeValue::String(text) => text.parse(),
        DeValue::Integer(_) => number(value)?.to_string().parse(),
        DeValue::Array(list) => {
            let mut codes = ExitCodes::default();
            for one in list.iter() {
                codes.extend(&match one.get_ref() {
                    DeValue::Array(_) => return Err("a list in a list".to_owned()),
                    one => self::codes(one)?,
                });
            }
            Ok(codes)
        }
        _ => Err("write exit codes as [6, 7, \"10-19\"]".to_owned()),
    }
}

fn codes_of_failures(value: &DeValue<'_>) -> Result<ExitCodes, String> {
    let codes = codes(value)?;
    if codes.contains(0) { Err("exit code 0 means that the call landed".to_owned()) } else { Ok(codes) }
}

fn command(value: &DeValue<'_>) -> Result<String, String> {
    let command = text(value, "\"curl -fs …\"")?;
    if command.trim().is_empty() {
        return Err("an empty command would always say landed".to_owned());
    }
    if command.contains('\0') {
        return Err("a command has no NUL in it".to_owned());
    }
    Ok(command.to_owned())
}

fn duration(value: &DeValue<'_>) -> Result<Duration, String> {
    let text = text(value, "\"30s\", \"5m\", \"24h\" or \"7d\"")?;
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write durations as \"30s\", \"5m\", \"24h\" or \"7d\""))
}

/// A duration that leaves some time, as the flags have it.
fn time(value: &DeValue<'_>) -> Result<Duration, String> {
    let duration = duration(value)?;
    if duration.as_millis() == 0 { Err("this leaves no time".to_owned()) } else { Ok(duration) }
}

fn ttl(value: &DeValue<'_>) -> Result<Ttl, String> {
    if value.as_str() == Some("never") { Ok(Ttl::Never) } else { time(value).map(Ttl::For) }
}

fn pointers(value: &DeValue<'_>) -> Result<Vec<Pointer>, String> {
    let one = |value: &DeValue<'_>| text(value, "\"/request_id\"")?.parse();
    match value {
        DeValue::Array(list) => list.iter().map(|value| one(value.get_ref())).collect(),
        value => Ok(vec![one(value)?]),
    }
}

fn size(value: &DeValue<'_>) -> Result<Size, String> {
    match value {
        DeValue::Integer(_) => number(value).map(Size),
        value => text(value, "\"64MiB\"")?.parse(),
    }
}

fn number(value: &DeValue<'_>) -> Result<u64, String> {
    let number = value.as_integer().and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
    number.ok_or_else(|| "this number is out of range".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, String)> {
        let problems = policy(text.as_bytes()).err().unwrap_or_default();
        problems.into_iter().map(|problem| (problem.line, problem.text)).collect()
    }

    #[test]
    fn a_policy_with_every_key() {
        let text = "[defaults]\neffect = \"external\"\n[tools.\"mail.*\"]\nnot-landed-exit = [6, \"10-19\"]\nlanded-exit = 3\n\
                    probe = 'x'\nprobe-delay = \"0s\"\nprobe-timeout = \"9s\"\nmarks = true\ntimeout = \"30s\"\n\
                    kill-after = \"0s\"\nresend-within = \"24h\"\nttl = \"never\"\nwait = \"1m\"\nignore-params = [\"/a\"]\n\
                    redact = \"/b\"\nrequire-params = [\n  \"/c\",\n]\nmax-output = 0x10\nallow-command-change = false\n\
                    [tools.local]\neffect = \"local\"\nkeep-failure = true\nrerun-if-interrupted = false\n";
        let policy = policy(text.as_bytes()).expect("a policy");
        let mail = policy.rules_for("mail.send").expect("rules");
        let local = policy.rules_for("local").expect("rules");
        let said: std::collections::BTreeSet<&str> =
            mail.entries().iter().chain(&local.entries()).map(|entry| entry.key).collect();
        assert_eq!(said, KEYS.iter().copied().collect());
        assert_eq!(mail.effect.map(|said| said.place), Some(Place { line: 2, section: "defaults".to_owned() }));
        let required = mail.require_params.expect("said");
        assert_eq!((required.text.as_str(), required.place.line), ("[ \"/c\", ]", 17));
        assert_eq!(mail.max_output.map(|said| said.value), Some(Size(16)));
        assert!(mail.not_landed_exit.is_some_and(|codes| codes.value.contains(12) && codes.value.contains(6)));
    }

    #[test]
    fn every_problem_has_its_line() {
        for (text, line, words) in [
            ("[defaults]\n\neffects = \"local\"", 3, "effect is meant"),
            ("[defaults]\nignore_param = [\"/a\"]", 2, "ignore-params is meant"),
            ("[defaults]\nnonsense = 1", 2, "the keys are effect"),
            ("[default]\neffect = \"local\"", 1, "unknown key default"),
            ("[defaults]\neffect = \"remote\"", 2, "\"local\" or \"external\""),
            ("[defaults]\nmarks = \"yes\"", 2, "true or false"),
            ("[defaults]\ntimeout = 30", 2, "\"30s\""),
            ("[defaults]\ntimeout = \"0s\"", 2, "no time"),
            ("[defaults]\nttl = \"soon\"", 2, "ttl"),
            ("[defaults]\nnot-landed-exit = [1, 0]", 2, "landed"),
            ("[defaults]\nlanded-exit = [256]", 2, "255"),
            ("[defaults]\nlanded-exit = -1", 2, "out of range"),
            ("[defaults]\nredact = [\"a\"]", 2, "begins with /"),
            ("[defaults]\nmax-output = \"lots\"", 2, "size"),
            ("[defaults]\nprobe = \" \"", 2, "empty"),
            ("[defaults]\nlanded-exit = 3\nnot-landed-exit = [3]", 3, "line 2"),
            ("[defaults]\neffect = \"external\"\nkeep-failure = true", 3, "line 2"),
            ("\n[tools.mail.send]\neffect = \"local\"", 2, "\"mail.send\""),
            ("[tools]\nmail = 1", 2, "[tools.\"mail\"]"),
            ("[tools.\"a{b,c}\"]", 1, "no meaning"),
            ("[tools.\"a*\"]\n[tools.\"a*b\"]", 2, "line 1"),
            ("[defaults]\nmarks = true\nmarks = false", 3, "duplicate"),
            ("[defaults]\nmarks =", 2, ""),
            ("x", 1, ""),
        ] {
            let problems = lines(text);
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            assert_eq!(problems[0].0, line, "{text}: {problems:?}");
            assert!(problems[0].1.contains(words), "{text}: {problems:?}");
        }
        assert_eq!(lines("").len(), 0);
    }

    #[test]
    fn all_problems_come_at_once_in_the_order_of_lines() {
        let problems = lines("[tools.b]\nx = 1\nmarks = 3\n[defaults]\ny = 2\n");
        assert_eq!(problems.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(lines("\"\no").iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 1, 2]);
        assert_eq!(policy(b"\n\xff").err().map(|problems| problems[0].line), Some(2));
    }
}
