//! The key of a call (contract §3, docs/key.md): the published vectors, properties of every call, hostile params.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use idem::domain::canonical::{ErrorClass, Json, ParamsError};
use idem::domain::key::{Bound, Call, Key};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde::de::IgnoredAny;

/// Returns the canonical text of params.
fn canonical(params: &[u8]) -> Result<String, ParamsError> {
    let mut text = String::new();
    Json::parse(params)?.write_canonical(&mut text);
    Ok(text)
}

/// Returns the value of params on one line, as given.
fn compact(params: &[u8]) -> String {
    let mut text = String::new();
    Json::parse(params).expect("params").write_compact(&mut text);
    text
}

/// Returns where and why params are refused, having looked at the message.
fn refusal(params: &[u8]) -> (ErrorClass, usize) {
    let error = Json::parse(params).expect_err("params that are refused");
    let message = error.to_string();
    let place = format!(" ({}) at byte {}: ", error.class.as_str(), error.offset);
    assert!(message.contains(&place), "{message}");
    assert!(message.len() < 400 && !message.contains(char::is_control), "{message}");
    (error.class, error.offset)
}

/// Returns a call's canonical text and its key.
fn text_and_key([who, conv, tool]: [&str; 3], params: &[u8], bound: &Bound) -> (String, Key) {
    let params = &Json::parse(params).expect("params");
    let call = Call { who, conv, tool, params, bound };
    (call.canonical(), call.key())
}

#[test]
fn params_are_given_back_as_they_came_but_for_white_space_and_escapes() {
    let params = br#" { "b" : [ 1.0, -0 , 1E5, null ], "\u0061" : "\/\u00e9\u0007" , "" : { } , "c":[ ] } "#;
    let given_back = r#"{"b":[1.0,-0,1E5,null],"a":"/é\u0007","":{},"c":[]}"#;
    assert_eq!(compact(params), given_back);
}

#[test]
fn messages_say_what_is_wrong() {
    let message = |params: &str| Json::parse(params.as_bytes()).expect_err(params).to_string();
    let trailing = "params are not valid JSON (syntax) at byte 3: trailing text after the value";
    assert_eq!(message("{} {}"), trailing);
    for (params, detail) in [
        ("\u{feff}1", ": expected a value, found a byte order mark"),
        ("[1", ": expected `,` or `]`, found the end"),
        ("{\"a\u{1b}\":1}", ": a control character that isn't escaped"),
        ("\u{9b}", ": expected a value, found `\\u{9b}`"),
        (r#"{"\n":1,"\n":1}"#, r": the member `\n` is there twice"),
    ] {
        assert!(message(params).ends_with(detail), "{}", message(params));
    }
}

mod vectors {
    use serde_json::Value;

    use super::*;

    fn published(list: &str) -> Vec<Value> {
        let mut vectors: Value = serde_json::from_str(include_str!("../docs/key-vectors.json")).expect("JSON");
        serde_json::from_value(vectors[list].take()).expect("a list")
    }

    fn word<'a>(case: &'a Value, name: &str) -> &'a str {
        case[name].as_str().expect("a string")
    }

    fn params(case: &Value) -> Vec<u8> {
        let Some(hex) = case["params_hex"].as_str() else {
            return word(case, "params").into();
        };
        let digits = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).expect("hex"));
        digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
    }

    fn bound(case: &Value) -> Bound {
        let inputs = &case["bound"];
        let string = |name: &str| inputs[name].as_str().map(str::to_owned);
        Bound {
            occurrence: inputs["occurrence"].as_u64(),
            stdin: string("stdin"),
            files: serde_json::from_value(inputs["files"].clone()).unwrap_or_default(),
            env: serde_json::from_value(inputs["env"].clone()).unwrap_or_default(),
            cwd: string("cwd"),
        }
    }

    /// Returns the key of a case, having checked it and its text.
    fn checked_key(case: &Value) -> Key {
        let names = ["who", "conv", "tool"].map(|name| word(case, name));
        let (text, key) = text_and_key(names, &params(case), &bound(case));
        assert_eq!(text, word(case, "canonical"), "{case}");
        assert_eq!(key.to_string(), word(case, "sha256"), "{case}");
        key
    }

    #[test]
    fn every_case_has_its_text_and_key_or_its_error() {
        let cases = published("cases");
        assert_eq!(cases.len(), 83);
        for case in &cases {
            match case["error"].as_str() {
                Some(class) => assert_eq!(refusal(&params(case)).0.as_str(), class, "{case}"),
                None => drop(checked_key(case)),
            }
        }
    }

    #[test]
    fn equal_cases_share_one_key_and_different_ones_share_none() {
        let cases = published("cases");
        let cases = cases.iter().filter(|case| case["error"].is_null());
        let keys: BTreeMap<_, _> = cases.map(|case| (word(case, "id"), checked_key(case))).collect();
        let groups = |list| published(list).into_iter().map(move |group| (list, group));
        for (list, group) in groups("equal").chain(groups("differ")) {
            let ids: Vec<String> = serde_json::from_value(group["ids"].clone()).expect("ids");
            let distinct: BTreeSet<_> = ids.iter().map(|id| keys[&**id]).collect();
            assert_eq!(distinct.len(), if list == "equal" { 1 } else { ids.len() }, "{group}");
        }
    }

    #[test]
    fn bound_inputs_are_a_sixth_element_and_a_key_has_its_other_forms() {
        for case in &published("bound") {
            let key = checked_key(case);
            assert_eq!(key.uuid(), word(case, "uuid"), "{case}");
            assert_eq!(key.short(), word(case, "short"), "{case}");
        }
    }

    #[test]
    fn the_first_error_is_reported_with_its_offset() {
        for case in &published("refused") {
            let (class, offset) = refusal(&params(case));
            assert_eq!(class.as_str(), word(case, "error"), "{case}");
            assert_eq!(Some(offset as u64), case["offset"].as_u64(), "{case}");
        }
    }

    #[test]
    fn the_examples_of_the_published_rules_are_vectors() {
        let (page, vectors) = (include_str!("../docs/key.md"), include_str!("../docs/key-vectors.json"));
        let words = page.split(|c: char| !c.is_ascii_alphanumeric());
        let hashes: Vec<_> = words.filter(|word| word.parse::<Key>().is_ok()).collect();
        assert!(hashes.len() > 5 && hashes.iter().all(|hash| vectors.contains(hash)), "{hashes:?}");
    }
}

/// JSON values made up for a test, and the many ways to spell each.
mod values {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    pub(super) enum Value {
        /// `null`, `true` or `false`.
        Word(&'static str),
        /// ±0.digits × 10^n: whether it's negative, the digits (none for zero), and n.
        Number(bool, String, i64),
        String(String),
        Array(Vec<Value>),
        Object(BTreeMap<String, Value>),
    }

    pub(super) fn strings() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            any::<char>(),
            prop::char::range('\0', '\u{1f}'),
            select(vec!['"', '\\', '/', 'a', 'b', '\u{7f}', '\u{2028}', '\u{d7ff}']),
            prop::char::range('\u{e000}', '\u{ffff}'),
            prop::char::range('\u{10000}', '\u{10ffff}'),
        ];
        vec(character, 0..6).prop_map(String::from_iter)
    }

    fn numbers() -> impl Strategy<Value = Value> {
        let n = prop_oneof![8 => -30..30i64, 1 => Just(1_000_000_000), 1 => Just(-999_999_998)];
        let number = (any::<bool>(), "[1-9]([0-9]{0,25}[1-9])?", n);
        let number = number.prop_map(|(negative, digits, n)| Value::Number(negative, digits, n));
        prop_oneof![1 => Just(Value::Number(false, String::new(), 0)), 9 => number]
    }

    pub(super) fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            select(vec!["null", "true", "false"]).prop_map(Value::Word),
            numbers(),
            strings().prop_map(Value::String)
        ];
        leaf.prop_recursive(4, 24, 5, |value| {
            prop_oneof![
                vec(value.clone(), 0..5).prop_map(Value::Array),
                btree_map(strings(), value, 0..5).prop_map(Value::Object)
            ]
        })
    }

    /// An endless supply of small decisions.
    pub(super) struct Choices<'a>(iter::Cycle<std::slice::Iter<'a, u8>>);

    impl<'a> Choices<'a> {
        pub(super) fn new(bytes: &'a [u8]) -> Self {
            Choices(bytes.iter().cycle())
        }

        /// Returns a number below `end`.
        fn below(&mut self, end: usize) -> usize {
            usize::from(*self.0.next().expect("choices")) % end
        }

        fn one_of<'s>(&mut self, texts: &[&'s str]) -> &'s str {
            texts[self.below(texts.len())]
        }

        fn space(&mut self) -> &'static str {
            self.one_of(&["", "", " ", "\n", "\t\r "])
        }
    }

    /// Spells a value in one of the ways that mean it.
    pub(super) fn spell(value: &Value, choices: &mut Choices<'_>) -> String {
        let text = match value {
            Value::Word(word) => (*word).into(),
            Value::Number(negative, digits, n) => spell_number(*negative, digits, *n, choices),
            Value::String(string) => spell_string(string, choices),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| spell(item, choices)).collect();
                format!("[{}{}]", choices.space(), items.join(","))
            }
            Value::Object(members) => {
                let mut texts: Vec<String> = Vec::new();
                for (name, value) in members {
                    let name = spell_string(name, choices);
                    let member = [choices.space(), &name, choices.space(), ":", &spell(value, choices)].concat();
                    texts.insert(choices.below(texts.len() + 1), member);
                }
                format!("{{{}{}}}", choices.space(), texts.join(","))
            }
        };
        [choices.space(), &text, choices.space()].concat()
    }

    fn spell_number(negative: bool, digits: &str, n: i64, choices: &mut Choices<'_>) -> String {
        if digits.is_empty() {
            let zeros = ["0", "-0", "0.00", "-0.0e-7", "0E+99999999999999999999"];
            return choices.one_of(&zeros).into();
        }
        // The point stands after `place` digits, counted from the first one and perhaps beyond either end.
        let place = choices.below(digits.len() + 6) as i64 - 3;
        let zeros = |count: i64| "0".repeat(count.max(0) as usize);
        let padded = zeros(1 - place) + digits + &zeros(place - digits.len() as i64);
        let (whole, fraction) = padded.split_at(place.max(1) as usize);
        let fraction = fraction.to_owned() + choices.one_of(&["", "0", "000"]);
        let point = if fraction.is_empty() { "" } else { "." };
        let exponent = match n - place {
            0 => choices.one_of(&["", "e0", "E-00", "e+0"]).into(),
            power @ 1.. => choices.one_of(&["e", "E+", "e+00"]).to_owned() + &power.to_string(),
            power => choices.one_of(&["e-", "E-0"]).to_owned() + &power.unsigned_abs().to_string(),
        };
        [if negative { "-" } else { "" }, whole, point, &fraction, &exponent].concat()
    }

    fn spell_string(string: &str, choices: &mut Choices<'_>) -> String {
        let mut out = String::from("\"");
        for character in string.chars() {
            let place = "\"\\/\u{8}\t\n\u{c}\r".find(character);
            let short = place.map(|place| &"\"\\/btnfr"[place..=place]);
            let plain = character >= ' ' && !matches!(character, '"' | '\\');
            let upper = |unit| format!("\\u{unit:04X}");
            let lower = |unit| format!("\\u{unit:04x}");
            match (choices.below(4), short) {
                (0, Some(letter)) => out.extend(["\\", letter]),
                (1 | 2, _) if plain => out.push(character),
                (3, _) => out.extend(character.encode_utf16(&mut [0; 2]).iter().map(upper)),
                _ => out.extend(character.encode_utf16(&mut [0; 2]).iter().map(lower)),
            }
        }
        out + "\""
    }

    /// Returns another value, changed in one place.
    pub(super) fn change(value: &Value, choices: &mut Choices<'_>) -> Value {
        let mut changed = value.clone();
        match &mut changed {
            Value::Word(word) => *word = if *word == "null" { "true" } else { "null" },
            Value::Number(_, digits, _) if digits.is_empty() => changed = Value::String("0".into()),
            Value::Number(negative, digits, n) => match choices.below(4) {
                0 => *negative = !*negative,
                1 => digits.push('1'),
                2 => *n -= n.signum() + i64::from(*n == 0),
                _ => digits.insert(0, '1'),
            },
            Value::String(string) => string.insert(0, 'x'),
            Value::Array(items) if items.is_empty() => changed = Value::Object(BTreeMap::new()),
            Value::Array(items) => match choices.below(items.len() + 1) {
                0 => items.push(Value::Word("null")),
                place => items[place - 1] = change(&items[place - 1], choices),
            },
            Value::Object(members) => match choices.below(members.len() + 1) {
                0 => drop(members.insert("a new name".into(), Value::Word("null"))),
                place => members.values_mut().skip(place - 1).take(1).for_each(|value| *value = change(value, choices)),
            },
        }
        changed
    }
}

mod properties {
    use super::values::{Choices, change, spell, strings, values};
    use super::*;

    fn choices() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 1..200)
    }

    /// One spelling of any value.
    fn texts() -> impl Strategy<Value = String> {
        (values(), choices()).prop_map(|(value, one)| spell(&value, &mut Choices::new(&one)))
    }

    fn key(params: &str) -> Key {
        text_and_key(["u1", "c1", "t"], params.as_bytes(), &Bound::default()).1
    }

    proptest! {
        #[test]
        fn no_spelling_changes_the_key(value in values(), one in choices(), other in choices()) {
            let [one, other] = [one, other].map(|choices| spell(&value, &mut Choices::new(&choices)));
            prop_assert_eq!(key(&one), key(&other), "{} and {}", one, other);
        }

        #[test]
        fn every_change_of_value_changes_the_key(value in values(), one in choices(), other in choices()) {
            let changed = spell(&change(&value, &mut Choices::new(&other)), &mut Choices::new(&other));
            let text = spell(&value, &mut Choices::new(&one));
            prop_assert_ne!(key(&text), key(&changed), "{} and {}", text, changed);
        }

        #[test]
        fn canonical_text_is_canonical_and_the_value_as_given_means_the_same(params in texts()) {
            let (text, given) = (canonical(params.as_bytes()).expect("params"), compact(params.as_bytes()));
            prop_assert_eq!(canonical(text.as_bytes()).expect("params"), &*text);
            prop_assert_eq!(canonical(given.as_bytes()).expect("params"), &*text);
            prop_assert_eq!(compact(text.as_bytes()), text);
            prop_assert!(!given.contains(|c| c < ' '));
        }

        #[test]
        fn members_are_sorted_by_utf16_code_units(members in btree_map(strings(), Just(0), 2..6)) {
            let text = canonical(serde_json::to_string(&members).expect("JSON").as_bytes()).expect("params");
            let Ok(Json::Object(members)) = Json::parse(text.as_bytes()) else { panic!("{text}") };
            prop_assert!(members.is_sorted_by_key(|(name, _)| Vec::from_iter(name.encode_utf16())), "{}", text);
        }

        #[test]
        fn who_conv_and_tool_are_read_back_from_the_text(call in [strings(), strings(), strings()], one in strings()) {
            let (bound, [who, conv, tool]) = (Bound { cwd: Some(one), ..Bound::default() }, &call);
            let (text, _) = text_and_key([who, conv, tool], b"null", &bound);
            let expected = serde_json::json!(["idem/1", who, conv, tool, null, {"cwd": bound.cwd}]);
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), expected);
        }

        #[test]
        fn it_is_rfc_8785_where_a_double_loses_nothing(
            double in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
            whole in -(1i64 << 53)..1 << 53,
            members in btree_map(strings(), strings(), 0..6),
        ) {
            let oracle = serde_json_canonicalizer::to_string(&serde_json::json!([double, whole, members]));
            let oracle = oracle.expect("canonical JSON");
            // The digits are the oracle's: of two spellings that are as short and as close, Rust prints the other.
            let double = oracle[1..].split(',').next().expect("a number");
            let exponent = if double.contains('e') { "" } else { "e-0" };
            let params = format!("[{double}{exponent},{whole},{}]", serde_json::json!(members));
            prop_assert_eq!(canonical(params.as_bytes()).expect("params"), oracle);
        }

        #[test]
        fn damaged_params_and_random_bytes_are_read_as_another_reader_reads_them(
            mut bytes in prop_oneof![3 => texts().prop_map(String::into_bytes), 1 => vec(any::<u8>(), 0..60)],
            damage in vec((any::<Index>(), 0..3, select(br#"[]{}",:\u0de-+.tn"#.to_vec())), 0..3),
        ) {
            for (place, how, byte) in damage {
                let place = place.index(bytes.len() + 1);
                let end = if how == 0 { place } else { (place + 1).min(bytes.len()) };
                bytes.splice(place..end, (how < 2).then_some(byte));
            }
            // The other reader lets names repeat and numbers be of any size, and doesn't look into strings.
            let other = serde_json::from_slice::<IgnoredAny>(&bytes);
            match Json::parse(&bytes) {
                Ok(_) => prop_assert!(other.is_ok()),
                Err(ParamsError { class: ErrorClass::Syntax, .. }) => prop_assert!(other.is_err()),
                Err(error) => prop_assert!(error.offset < bytes.len()),
            }
        }
    }
}

mod hostile {
    use super::*;

    const MB: usize = 1_000_000;

    #[test]
    fn a_million_open_brackets_are_too_deep() {
        assert_eq!(refusal("[".repeat(MB).as_bytes()), (ErrorClass::Depth, 100));
        assert_eq!(refusal("{\"\":".repeat(MB / 4).as_bytes()), (ErrorClass::Depth, 400));
        let flat = format!("[{}[]]", "[[]],{\"a\":[]},".repeat(MB / 14));
        assert_eq!(canonical(flat.as_bytes()).as_deref(), Ok(&*flat));
    }

    #[test]
    fn depth_is_what_is_open_and_not_what_was() {
        for before in 0..120 {
            let (start, most) = ("[],".repeat(before), "[".repeat(99));
            assert!(Json::parse(format!("[{start}{most}{}]", "]".repeat(99)).as_bytes()).is_ok(), "{before}");
            let deeper = format!("[{start}{most}[{}]", "]".repeat(100));
            assert_eq!(refusal(deeper.as_bytes()), (ErrorClass::Depth, 1 + start.len() + 99));
        }
    }

    #[test]
    fn a_million_digits_are_one_number() {
        let (ones, zeros) = ("1".repeat(MB), "0".repeat(MB));
        for (params, text) in [
            (ones.clone(), format!("1.{}e+999999", &ones[1..])),
            (format!("0.{ones}e-5"), format!("0.00000{ones}")),
            (format!("1{zeros}"), "1e+1000000".into()),
            (format!("1{zeros}.{zeros}e-{MB}"), "1".into()),
            (format!("0.{zeros}1e{}", MB + 1), "1".into()),
            (format!("-0.{zeros}"), "0".into()),
            (format!("0e{ones}"), "0".into()),
            (format!("1e-{zeros}7"), "1e-7".into()),
        ] {
            assert!(canonical(params.as_bytes()).as_ref() == Ok(&text), "{:.20}…", params);
        }
        assert_eq!(refusal(format!("1e{ones}").as_bytes()), (ErrorClass::Exponent, 0));
        assert_eq!(refusal(format!("1e-{ones}").as_bytes()), (ErrorClass::Exponent, 0));
    }

    #[test]
    fn a_megabyte_of_escapes_is_one_string() {
        let escaped = |escape: &str| canonical(format!("\"{}\"", escape.repeat(MB / 6)).as_bytes());
        let quoted = |text: &str| format!("\"{}\"", text.repeat(MB / 6));
        assert!(escaped("\\u0061") == Ok(quoted("a")));
        assert!(escaped("\\u001F") == Ok(quoted("\\u001f")));
        assert!(escaped("\\ud83d\\ude02") == Ok(quoted("😂")));
        let unclosed = format!("\"{}", "\\\\".repeat(MB / 2));
        assert_eq!(refusal(unclosed.as_bytes()), (ErrorClass::Syntax, MB + 1));
    }

    #[test]
    fn a_hundred_thousand_members_are_sorted_and_told_apart() {
        let object = |names: Vec<String>| format!("{{{}:1}}", names.join(":1,"));
        let names = || (0..100_000).map(|n| format!("\"{n:05}\""));
        let sorted = object(names().collect());
        assert!(canonical(object(names().rev().collect()).as_bytes()) == Ok(sorted.clone()));
        for again in ["\"00000\"", "\"99999\"", "\"\\u0039999\\u0039\""] {
            let params = sorted.replace('}', &format!(",{again}:1}}"));
            assert_eq!(refusal(params.as_bytes()), (ErrorClass::Duplicate, sorted.len()));
        }
    }

    #[test]
    fn long_names_with_one_start_are_told_apart() {
        let start = "x".repeat(1000);
        let names: Vec<_> = (0..1000).map(|n| format!("\"{start}{n:03}\":1")).collect();
        let sorted = format!("{{{}}}", names.join(","));
        assert!(canonical(sorted.as_bytes()) == Ok(sorted.clone()));
        let long = format!("\"{}\"", "é\\u001b".repeat(MB / 16));
        let twice = format!("{{{long}:1,{long}:1}}");
        assert_eq!(refusal(twice.as_bytes()), (ErrorClass::Duplicate, long.len() + 4));
    }

    #[test]
    fn every_part_of_a_text_is_refused_where_it_stops() {
        let whole = r#"{"a":[1,-0.5e+10,"é\n\ud83d\ude02",{}],"b":{"c":null,"d":true,"e":false}}"#.as_bytes();
        assert!(Json::parse(whole).is_ok());
        for end in 0..whole.len() {
            let (class, offset) = refusal(&whole[..end]);
            let cut_within = matches!(class, ErrorClass::Surrogate | ErrorClass::Utf8);
            assert!(offset == end || cut_within, "{end}: {class:?} at {offset}");
        }
    }
}
