//! The policy file: what is wrong with it has its line, what is right means what it says, and no option weakens it.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use idem::domain::claim::{Effect, Mark, State};
use idem::domain::codes::ExitCodes;
use idem::domain::end::{End, EndTerms, Open, judge_end};
use idem::domain::pointer::Pointer;
use idem::domain::policy::{KEYS, Policy, Rules, Said, Section, Stated, Ttl};
use idem::domain::size::Size;
use idem::policy::{PolicyError, PolicyPlace, load};
use idem::view;

use crate::drive::{Fuzz, Seen};
use crate::mutate::Language;
use crate::rng::Rng;
use crate::tame::tame;

const WORDS: [&[u8]; 47] = [
    b"[defaults]\n",
    b"[tools.\"",
    b"mail.*",
    b"\"]\n",
    b"[tools.a]\n",
    b"[tools]\n",
    b"effect = ",
    b"\"external\"",
    b"\"local\"",
    b"landed-exit = ",
    b"not-landed-exit = ",
    b"keep-failure = ",
    b"rerun-if-interrupted = ",
    b"probe = ",
    b"probe-delay = ",
    b"probe-timeout = ",
    b"marks = ",
    b"timeout = ",
    b"kill-after = ",
    b"resend-within = ",
    b"ttl = ",
    b"\"never\"",
    b"wait = ",
    b"ignore-params = ",
    b"redact = ",
    b"require-params = ",
    b"max-output = ",
    b"allow-command-change = ",
    b"true\n",
    b"false\n",
    b"[6, 7, \"10-19\"]\n",
    b"0x10",
    b"1_000",
    b"\"30s\"\n",
    b"\"/a\"",
    b"[\"/a\", \"/b~0\"]\n",
    b"\"\"\"",
    b"'''",
    b"#",
    b"\n",
    b"\r\n",
    b"\\u0000",
    b"\xff",
    b"{ a = 1 }",
    b"?",
    b"*",
    b"1979-05-27",
];

const LINES: [&[u8]; 44] = [
    b"[defaults]",
    b"[tools.\"mail.*\"]",
    b"[tools.\"mail.send\"]",
    b"[tools.\"*.send\"]",
    b"[tools.local]",
    b"[tools.\"m?il.*\"]",
    b"effect = \"external\"",
    b"effect = \"local\"",
    b"landed-exit = 3",
    b"landed-exit = [3, \"6-9\"]",
    b"not-landed-exit = []",
    b"not-landed-exit = \"6,7,10-19\"",
    b"not-landed-exit = 0b11",
    b"keep-failure = true",
    b"keep-failure = false",
    b"rerun-if-interrupted = true",
    b"rerun-if-interrupted = false",
    b"probe = 'ask'",
    b"probe = \"\"\"\n a \\\n b\"\"\"",
    b"probe-delay = \"5s\"",
    b"probe-timeout = \"9s\"",
    b"marks = true",
    b"marks = false",
    b"timeout = \"30s\"",
    b"timeout = \"1ms\"",
    b"kill-after = \"0s\"",
    b"resend-within = \"24h\"",
    b"resend-within = \"0s\"",
    b"ttl = \"never\"",
    b"ttl = \"7d\"",
    b"wait = \"0s\"",
    b"wait = \"1month 3us\"",
    b"ignore-params = [\"/a\", \"/b~0\"]",
    b"ignore-params = []",
    b"redact = \"/card\"",
    b"redact = [\n  \"/pin\", # c\n]",
    b"require-params = \"/to\"",
    b"max-output = 0x10",
    b"max-output = \"64MiB\"",
    b"allow-command-change = false",
    b"allow-command-change = true",
    b"# a comment",
    b"",
    b"\"marks\" = true",
];

const TOML: Language<'_> = Language { breaks: b"\n", parts: &LINES, words: &WORDS };

#[test]
fn the_policy_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = PolicyPlace { path: folder.path().join("policy.toml"), named: true };
    let read = |text: &[u8]| {
        fs::write(&place.path, text).expect("a file");
        load(&place).map(Option::unwrap_or_default)
    };
    Fuzz { corpus: "policy", more: Vec::new(), language: TOML, inputs: 6_000 }.run(|bytes, rng| match read(bytes) {
        Ok(policy) => {
            let printed = print(&policy);
            let again = read(printed.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{printed}"));
            assert_eq!(meaning(&again), meaning(&policy), "{printed}");
            let mut features = Vec::new();
            for tool in tools(&policy, rng) {
                tame(&view::policy::table(&tool, &place.path, &Rules::default()));
                let Ok(rules) = policy.rules_for(&tool) else { continue };
                key_by_key(&policy, &tool, &rules);
                tame(&view::policy::table(&tool, &place.path, &rules));
                features.push(rules.entries().iter().map(|entry| entry.key).collect::<Vec<_>>());
                for _ in 0..4 {
                    let stated = stated(rng, &rules);
                    match stated.clone().under(&rules) {
                        Ok(applies) => as_strict(&rules, &stated, &applies),
                        Err(weakening) => {
                            let entries = rules.entries();
                            let entry =
                                entries.iter().find(|entry| entry.key == weakening.key).expect("a key that is said");
                            assert_eq!((entry.text, entry.place), (&*weakening.said, &weakening.place));
                        }
                    }
                }
                // What the policy adds by itself is no weakening of it.
                let alone = Stated::default().under(&rules).expect("no option, no refusal");
                as_strict(&rules, &Stated::default(), &alone);
                let twice = alone.clone().under(&rules).expect("what the policy says is fine");
                assert_eq!(plain(twice), plain(alone), "said once more");
            }
            Seen::new(true, features)
        }
        Err(error) => {
            let text = error.to_string();
            let PolicyError::Wrong(path, problems) = error else { panic!("{text}") };
            let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
            assert!(!problems.is_empty() && problems.is_sorted_by_key(|problem| problem.line));
            assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)), "{lines} lines: {problems:?}");
            assert!(problems.iter().all(|problem| !problem.text.is_empty()), "{problems:?}");
            let shown = view::policy::problems(&path, &problems);
            tame(&shown);
            assert_eq!(shown.lines().count(), problems.len());
            let kind = problems[0].text.split(['"', '\'', '`', ' ']).take(6).map(str::to_owned).collect::<Vec<_>>();
            Seen::new(false, (kind, problems.len().min(4)))
        }
    });
}

/// Fails where a key that applies isn't that of the most exact section which has it.
fn key_by_key(policy: &Policy, tool: &str, rules: &Rules) {
    let tool: Vec<char> = tool.chars().collect();
    let glob = |section: &&Section| fits(&section.pattern.to_string().chars().collect::<Vec<_>>(), &tool);
    let mut fitting: Vec<&Section> = policy.tools.iter().filter(glob).collect();
    fitting.sort_by_key(|section| {
        let text = section.pattern.to_string();
        // A name is above every glob; of those, the one with more before its first wild character.
        text.find(['*', '?']).map_or(i64::MIN, |wild| -(text[..wild].chars().count() as i64))
    });
    let all: Vec<&Rules> = fitting.iter().map(|section| &section.rules).chain([&policy.defaults]).collect();
    for key in KEYS.iter().filter(|key| !["keep-failure", "rerun-if-interrupted"].contains(key)) {
        let of = |rules: &Rules| {
            let said = rules.entries().into_iter().find(|entry| entry.key == *key);
            said.map(|entry| (entry.text.to_owned(), entry.place.clone()))
        };
        assert_eq!(of(rules), all.iter().find_map(|rules| of(rules)), "{key} of {tool:?}");
    }
}

/// Tells whether a name fits a glob: by trying.
fn fits(glob: &[char], name: &[char]) -> bool {
    match (glob, name) {
        ([], name) => name.is_empty(),
        (['*', rest @ ..], name) => (0..=name.len()).any(|taken| fits(rest, &name[taken..])),
        (_, []) => false,
        ([one, rest @ ..], [first, others @ ..]) => (*one == '?' || one == first) && fits(rest, others),
    }
}

/// Names that fit the sections, more or less.
fn tools(policy: &Policy, rng: &mut Rng) -> Vec<String> {
    let mut names = vec!["mail.send".to_owned()];
    for section in policy.tools.iter().take(3) {
        let sample = section.pattern.sample();
        assert!(section.pattern.fits(&sample), "{sample}");
        names.push(section.pattern.to_string().replace('*', rng.pick(&["", "x", "send.now"])).replace('?', "y"));
        names.push(sample);
    }
    names
}

/// Writes a policy as TOML, from what it means.
fn print(policy: &Policy) -> String {
    let mut text = String::from("[defaults]\n");
    rules(&policy.defaults, &mut text);
    for section in &policy.tools {
        let _ = writeln!(text, "[tools.{}]", quoted(&section.pattern.to_string()));
        rules(&section.rules, &mut text);
    }
    text
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if char.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out + "\""
}

fn rules(rules: &Rules, text: &mut String) {
    for (key, value) in values(rules) {
        let _ = writeln!(text, "{key} = {value}");
    }
}

/// Every key that is said, with its value as TOML.
fn values(rules: &Rules) -> Vec<(&'static str, String)> {
    let mut values = Vec::new();
    fn add<T>(
        values: &mut Vec<(&'static str, String)>,
        key: &'static str,
        said: &Option<Said<T>>,
        write: impl Fn(&T) -> String,
    ) {
        values.extend(said.as_ref().map(|said| (key, write(&said.value))));
    }
    let span = |span: &Duration| format!("\"{}s {}ns\"", span.as_secs(), span.subsec_nanos());
    let yes = |value: &bool| value.to_string();
    let codes = |codes: &ExitCodes| format!("{:?}", (0..=255).filter(|&code| codes.contains(code)).collect::<Vec<_>>());
    let pointers = |list: &Vec<Pointer>| {
        let texts: Vec<_> = list.iter().map(|pointer| quoted(&pointer.to_string())).collect();
        format!("[{}]", texts.join(", "))
    };
    add(&mut values, "effect", &rules.effect, |effect| quoted(effect.as_str()));
    add(&mut values, "landed-exit", &rules.landed_exit, codes);
    add(&mut values, "not-landed-exit", &rules.not_landed_exit, codes);
    add(&mut values, "keep-failure", &rules.keep_failure, yes);
    add(&mut values, "rerun-if-interrupted", &rules.rerun_if_interrupted, yes);
    add(&mut values, "probe", &rules.probe, |probe| quoted(probe));
    add(&mut values, "probe-delay", &rules.probe_delay, span);
    add(&mut values, "probe-timeout", &rules.probe_timeout, span);
    add(&mut values, "marks", &rules.marks, yes);
    add(&mut values, "timeout", &rules.timeout, span);
    add(&mut values, "kill-after", &rules.kill_after, span);
    add(&mut values, "resend-within", &rules.resend_within, span);
    add(&mut values, "ttl", &rules.ttl, |ttl| match ttl {
        Ttl::Never => "\"never\"".to_owned(),
        Ttl::For(duration) => span(duration),
    });
    add(&mut values, "wait", &rules.wait, span);
    add(&mut values, "ignore-params", &rules.ignore_params, pointers);
    add(&mut values, "redact", &rules.redact, pointers);
    add(&mut values, "require-params", &rules.require_params, pointers);
    add(&mut values, "max-output", &rules.max_output, |size| format!("\"{}\"", size.0));
    add(&mut values, "allow-command-change", &rules.allow_command_change, yes);
    assert_eq!(values.len(), rules.entries().len(), "a key that this file doesn't know");
    values
}

/// What a policy means: the values of each section, without their places.
fn meaning(policy: &Policy) -> Vec<(String, Vec<(&'static str, String)>)> {
    let mut sections: Vec<_> =
        policy.tools.iter().map(|section| (section.pattern.to_string(), values(&section.rules))).collect();
    sections.sort();
    sections.insert(0, (String::new(), values(&policy.defaults)));
    sections
}

/// Options of a call: any, and often those that the policy has or nearly has.
fn stated(rng: &mut Rng, rules: &Rules) -> Stated {
    fn near(said: Option<&Said<Duration>>, rng: &mut Rng) -> Option<Duration> {
        let step = Duration::from_millis(1);
        rng.maybe(|rng| match (said, rng.below(4)) {
            (Some(said), 0) => said.value,
            (Some(said), 1) => said.value.saturating_sub(step),
            (Some(said), 2) => said.value.saturating_add(step),
            _ => Duration::from_secs(rng.below(100) as u64),
        })
    }
    fn codes(rng: &mut Rng) -> Option<ExitCodes> {
        rng.maybe(|rng| {
            let low = rng.below(20);
            format!("{},{}-{}", rng.below(256), low, low + rng.below(5)).parse().expect("codes")
        })
    }
    fn pointers(said: Option<&Said<Vec<Pointer>>>, rng: &mut Rng) -> Vec<Pointer> {
        let known = said.map(|said| said.value.clone()).unwrap_or_default();
        let mut list: Vec<Pointer> = known.into_iter().filter(|_| rng.one_in(2)).collect();
        if rng.one_in(4) {
            list.push("/other".parse().expect("a pointer"));
        }
        list
    }
    let ttl = rules.ttl.as_ref().and_then(|said| match said.value {
        Ttl::For(value) => Some(Said { value, text: String::new(), place: said.place.clone() }),
        Ttl::Never => None,
    });
    Stated {
        effect: rng.maybe(|rng| rng.pick(Effect::ALL)),
        landed_exit: codes(rng),
        not_landed_exit: codes(rng),
        keep_failure: rng.one_in(4),
        rerun_if_interrupted: rng.one_in(4),
        probe: rng.maybe(|rng| match &rules.probe {
            Some(said) if rng.one_in(2) => said.value.clone().into(),
            _ => "another".into(),
        }),
        probe_delay: near(rules.probe_delay.as_ref(), rng),
        probe_timeout: near(rules.probe_timeout.as_ref(), rng),
        marks: rng.one_in(4),
        timeout: near(rules.timeout.as_ref(), rng),
        kill_after: near(rules.kill_after.as_ref(), rng),
        resend_within: near(rules.resend_within.as_ref(), rng),
        ttl: near(ttl.as_ref(), rng),
        wait: near(rules.wait.as_ref(), rng),
        ignore_params: pointers(rules.ignore_params.as_ref(), rng),
        redact: pointers(rules.redact.as_ref(), rng),
        max_output: rng
            .maybe(|rng| Size(rules.max_output.as_ref().map_or(0, |said| said.value.0) / 2 * rng.below(4) as u64)),
        allow_command_change: rng.one_in(4),
    }
}

/// The same options, each list of codes spelled one way.
fn plain(stated: Stated) -> Stated {
    let plain = |codes: ExitCodes| {
        let list: Vec<_> = (0..=255).filter(|&code| codes.contains(code)).map(|code| code.to_string()).collect();
        list.join(",").parse().ok()
    };
    Stated {
        landed_exit: stated.landed_exit.and_then(plain),
        not_landed_exit: stated.not_landed_exit.and_then(plain),
        ..stated
    }
}

fn value<T>(said: &Option<Said<T>>) -> Option<&T> {
    said.as_ref().map(|said| &said.value)
}

/// Fails where what applies is weaker than the policy by its published words (docs/policy.md), or adds what neither said.
fn as_strict(rules: &Rules, stated: &Stated, applies: &Stated) {
    let external = applies.effect == Some(Effect::External);
    if value(&rules.effect) == Some(&Effect::External) || stated.effect == Some(Effect::External) {
        assert!(external && !applies.keep_failure && !applies.rerun_if_interrupted);
    }
    if value(&rules.rerun_if_interrupted) == Some(&false) {
        assert!(!applies.rerun_if_interrupted);
    }
    if value(&rules.keep_failure) == Some(&true) {
        assert!(applies.keep_failure || external);
    }
    if value(&rules.marks) == Some(&false) {
        assert!(!applies.marks);
    }
    if value(&rules.allow_command_change) == Some(&false) {
        assert!(!applies.allow_command_change);
    }
    if let Some(probe) = value(&rules.probe) {
        assert_eq!(applies.probe.as_deref(), Some(probe.as_ref()));
    }
    if let Some(most) = value(&rules.timeout) {
        assert!(applies.timeout.is_some_and(|timeout| timeout <= *most));
    }
    if let Some(most) = value(&rules.resend_within) {
        assert!(applies.resend_within.is_none_or(|window| window <= *most && !window.is_zero()));
    }
    if let Some(least) = value(&rules.probe_delay) {
        assert!(applies.probe.is_none() || applies.probe_delay.is_some_and(|delay| delay >= *least));
    }
    if let Some(kill_after) = value(&rules.kill_after) {
        assert!(applies.timeout.is_none() || applies.kill_after == Some(*kill_after));
    }
    match value(&rules.ttl) {
        Some(Ttl::Never) => assert_eq!(applies.ttl, None),
        Some(Ttl::For(least)) => assert!(applies.ttl.is_some_and(|ttl| ttl >= *least)),
        None => assert_eq!(applies.ttl, stated.ttl),
    }
    if let Some(ignored) = value(&rules.ignore_params) {
        assert_eq!(&applies.ignore_params, ignored, "callers would give one call different keys");
    }
    let redacted = value(&rules.redact).into_iter().flatten().chain(&stated.redact);
    assert!(redacted.into_iter().all(|pointer| applies.redact.contains(pointer)));
    if let Some(least) = value(&rules.max_output) {
        assert!(applies.max_output.is_some_and(|size| size >= *least));
    }
    ends(rules, stated, applies);
}

/// The same of what every end of the command comes to, by the rule that judges them.
fn ends(rules: &Rules, stated: &Stated, applies: &Stated) {
    let terms = EndTerms {
        effect: applies.effect.unwrap_or(Effect::Local),
        landed_exit: applies.landed_exit.clone().unwrap_or_default(),
        not_landed_exit: applies.not_landed_exit.clone().unwrap_or_default(),
        keep_failure: applies.keep_failure,
        marks: applies.marks,
    };
    for code in 1..=255 {
        let ended = judge_end(&terms, End::Exited(code), Some(Mark::Sending), Open::default());
        let says = |list: &Option<Said<ExitCodes>>| value(list).is_some_and(|list| list.contains(code));
        let may = |list: &Option<ExitCodes>| list.as_ref().is_some_and(|list| list.contains(code));
        if says(&rules.landed_exit) {
            assert_eq!(ended.state, State::Completed, "exit {code} has landed and would run again");
        }
        if says(&rules.not_landed_exit) {
            assert_eq!(ended.state, State::Released, "exit {code} has not landed and would be lost");
        }
        let allowed = match &rules.not_landed_exit {
            Some(whole) => whole.value.contains(code),
            None => may(&stated.not_landed_exit),
        };
        if terms.effect == Effect::External && ended.state == State::Released {
            assert!(allowed, "exit {code} may have landed and would run again");
        }
    }
    for end in [End::Signaled(9), End::TimedOut { signal: Some(15) }] {
        let ended = judge_end(&terms, end, Some(Mark::Sending), Open::default());
        assert!(value(&rules.effect) != Some(&Effect::External) || ended.state == State::Held, "{end:?}: {ended:?}");
    }
}
