//! Params and the key: the scanner, the canonical text, and pointers into both.

use std::hash::Hash;

use idem::domain::canonical::{ErrorClass, Json, ParamsError};
use idem::domain::key::{Bound, Call, Key};
use idem::domain::pointer::Pointer;
use serde::de::IgnoredAny;

use crate::allocations;
use crate::drive::{Fuzz, Seen};
use crate::mutate::Language;
use crate::rng::Rng;
use crate::value::{Path, change, doubles_only, exact, paths, respell, same};

/// The words of JSON, and what is at the edge of the rules.
const WORDS: [&[u8]; 40] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud83d\\ude00",
    b"\\ud800",
    b"\\udc00",
    b"\\u0000",
    b"\\u001F",
    b"\\/",
    b"\\b",
    b"\"a\":",
    b"\"\\u0061\":",
    b"null",
    b"true",
    b"false",
    b"NaN",
    b"1.0",
    b"1e0",
    b"10e-1",
    b"-0",
    b"0.1e1000000000",
    b"1e-1000000000",
    b"e",
    b"E+",
    b".",
    b"01",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\xe2\x80\xa8",
    b"\x00",
    b"//",
    b"/*",
];

const VALUES: [&[u8]; 26] = [
    b"0",
    b"-0.0",
    b"1",
    b"10e-1",
    b"1E+2",
    b"123456789012345678901",
    b"1e-7",
    b"0.000001",
    b"9007199254740993",
    b"1e400",
    b"null",
    b"true",
    b"false",
    b"\"\"",
    b"\"a\"",
    b"\"\\u00e9\"",
    b"\"\\ud83d\\ude00\"",
    b"\"\\u0000\\/\"",
    b"[]",
    b"{}",
    b"[1,[2]]",
    b"{\"a\":1}",
    b"{\"b\":[{\"~/\":0}],\"a\":null}",
    b"\"a\":1",
    b"\"\":{\"\":[]}",
    b" ",
];

/// What params are made of.
pub(crate) const JSON: Language<'_> = Language { breaks: b",[]{}:", parts: &VALUES, words: &WORDS };

/// The inputs of the published vectors.
pub(crate) fn vectors() -> Vec<Vec<u8>> {
    let vectors: serde_json::Value = serde_json::from_str(include_str!("../../docs/key-vectors.json")).expect("JSON");
    let cases = ["cases", "bound", "refused"].into_iter().flat_map(|list| vectors[list].as_array().expect("a list"));
    let hex = |digits: &str| {
        let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).expect("hex"));
        pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
    };
    cases
        .map(|case| case["params_hex"].as_str().map_or_else(|| case["params"].as_str().expect("a text").into(), hex))
        .collect()
}

fn canonical(json: &Json<'_>) -> String {
    let mut text = String::new();
    json.write_canonical(&mut text);
    text
}

fn compact(json: &Json<'_>) -> String {
    let mut text = String::new();
    json.write_compact(&mut text);
    text
}

fn key(params: &Json<'_>) -> Key {
    Call { who: "u", conv: "c", tool: "t", params, bound: &Bound::default() }.key()
}

#[test]
fn the_key_of_any_params() {
    Fuzz { corpus: "params", more: vectors(), language: JSON, inputs: 12_000 }.run(|bytes, rng| {
        let (parsed, allocated) = allocations::of(|| Json::parse(bytes));
        // 24 bytes for each of the smallest items, and what growing lists leave behind.
        assert!(allocated < 4096 + 400 * bytes.len(), "{allocated} bytes for {} of input", bytes.len());
        match parsed {
            Ok(json) => {
                accepted(bytes, &json, rng);
                Seen::new(true, shape(&json, 3))
            }
            Err(error) => {
                refused(bytes, &error);
                let detail = error.detail.chars().filter(|c| !c.is_ascii_digit()).take(24).collect::<String>();
                Seen::new(false, (error.class, detail, error.offset.min(12)))
            }
        }
    });
}

/// What kinds of values there are, not too deep.
fn shape(json: &Json<'_>, deep: usize) -> impl Hash + use<> {
    fn of(json: &Json<'_>, deep: usize, out: &mut String) {
        match json {
            Json::Number(spelled) => {
                out.extend(spelled.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).take(6));
            }
            Json::String(string) => out.push(if string.is_ascii() { 's' } else { 'u' }),
            Json::Array(items) if deep > 0 => {
                out.push('[');
                items.iter().take(3).for_each(|item| of(item, deep - 1, out));
            }
            Json::Object(members) if deep > 0 => {
                out.push('{');
                members.iter().take(3).for_each(|(_, value)| of(value, deep - 1, out));
            }
            other => out.push(if matches!(other, Json::Null | Json::Bool(_)) { 'w' } else { '…' }),
        }
    }
    let mut out = String::new();
    of(json, deep, &mut out);
    out
}

/// Params that have no key: the class and the offset say what they should.
fn refused(bytes: &[u8], error: &ParamsError) {
    let ParamsError { class, offset, .. } = *error;
    let there = bytes.get(offset).copied();
    match class {
        ErrorClass::Utf8 => {
            let invalid = str::from_utf8(bytes).expect_err("an error of another class").valid_up_to();
            assert_eq!(offset, invalid);
        }
        ErrorClass::Syntax => {
            assert!(serde_json::from_slice::<IgnoredAny>(bytes).is_err(), "another reader takes it");
            assert!(offset <= bytes.len() && str::from_utf8(&bytes[..offset]).is_ok());
            // What stands before it could have gone on.
            let before = Json::parse(&bytes[..offset]);
            let at_the_end = |error: &ParamsError| error.class == ErrorClass::Syntax && error.offset == offset;
            assert!(before.as_ref().err().is_none_or(at_the_end), "{before:?}");
        }
        ErrorClass::Surrogate => assert_eq!(there, Some(b'\\')),
        ErrorClass::Duplicate => assert_eq!(there, Some(b'"')),
        ErrorClass::Depth => {
            assert!(matches!(there, Some(b'[' | b'{')));
            assert_eq!(open_at(&bytes[..offset]), 100);
        }
        ErrorClass::Exponent => assert!(matches!(there, Some(b'-' | b'1'..=b'9' | b'0'))),
    }
    let message = error.to_string();
    assert!(message.len() < 400 && !message.contains(char::is_control), "{message}");
}

/// How many arrays and objects are open where a text that is fine so far ends.
fn open_at(text: &[u8]) -> usize {
    let (mut open, mut within, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => within = !within,
            b'[' | b'{' if !within => open += 1,
            b']' | b'}' if !within => open -= 1,
            _ => {}
        }
    }
    open
}

/// Params that have a key: its text is the one text of their value.
fn accepted(bytes: &[u8], json: &Json<'_>, rng: &mut Rng) {
    assert!(serde_json::from_slice::<IgnoredAny>(bytes).is_ok(), "another reader refuses it");
    let (text, given) = (canonical(json), compact(json));
    // `1e20` becomes 21 digits: no spelling grows by more.
    assert!(text.len() <= 6 * bytes.len(), "{} bytes become {}", bytes.len(), text.len());
    assert!(![&text, &given].iter().any(|text| text.contains(|c| c < ' ')));
    let again = Json::parse(text.as_bytes()).expect("canonical text is JSON");
    assert_eq!((canonical(&again), compact(&again)), (text.clone(), text.clone()), "a fixed point");
    assert!(same(json, &again), "{text} is another value");
    assert!(numbers(&again).iter().all(|spelled| plainest(spelled)), "{text}");
    assert_eq!(&Json::parse(given.as_bytes()).expect("JSON"), json, "the value as given");
    assert!(key(&again) == key(json));

    let mut other = String::new();
    respell(json, rng, &mut other);
    let respelled = Json::parse(other.as_bytes()).expect("another spelling");
    assert_eq!(canonical(&respelled), text, "{other}");
    assert!(key(&respelled) == key(json), "{other}");

    let mut changed = json.clone();
    change(&mut changed, rng);
    assert_eq!(canonical(&changed) == text, same(&changed, json), "{}", compact(&changed));
    assert_eq!(key(&changed) == key(json), same(&changed, json), "{}", compact(&changed));

    // Where the rules differ: serde_json reads larger doubles not exactly, refuses what no double holds, and takes one name
    // of its own for something else than a name.
    if doubles_only(json) && !given.contains("$serde_json::private::") {
        let value: serde_json::Value = serde_json::from_slice(bytes).expect("a JSON value");
        assert_eq!(serde_json_canonicalizer::to_string(&value).expect("canonical JSON"), text, "the oracle");
    }
    pointers(json, rng);
}

fn numbers<'a>(json: &Json<'a>) -> Vec<&'a str> {
    match json {
        Json::Number(spelled) => vec![spelled],
        Json::Array(items) => items.iter().flat_map(numbers).collect(),
        Json::Object(members) => members.iter().flat_map(|(_, value)| numbers(value)).collect(),
        _ => Vec::new(),
    }
}

/// Tells whether a number has ECMAScript's layout: by its value alone, and without the code that writes it.
fn plainest(spelled: &str) -> bool {
    let value = exact(spelled);
    let (k, n) = (value.digits.len() as i128, value.power + value.digits.len() as i128);
    let unsigned = spelled.trim_start_matches('-');
    let sign = spelled.len() - unsigned.len() == usize::from(value.negative);
    let length = match n {
        _ if k == 0 => 1,
        _ if k <= n && n <= 21 => n,
        1..=21 => k + 1,
        -5..=0 => 2 - n + k,
        _ => k + i128::from(k > 1) + 2 + (n - 1).abs().to_string().len() as i128,
    };
    sign && unsigned.len() as i128 == length && !unsigned.contains('E')
}

/// A pointer takes what it names, replaces it, or finds it, and touches nothing else.
fn pointers(json: &Json<'_>, rng: &mut Rng) {
    let all = paths(json);
    let (mut path, _) = all[rng.below(all.len())].clone();
    if rng.one_in(3) {
        // Something that is most likely not there.
        path.tokens.push(rng.pick(&["", "0", "00", "-", "1", "a", "~", "18446744073709551616"]).to_owned());
    }
    if path.tokens.is_empty() {
        return;
    }
    let escaped: Vec<_> = path.tokens.iter().map(|token| token.replace('~', "~0").replace('/', "~1")).collect();
    let text = format!("/{}", escaped.join("/"));
    let pointer: Pointer = text.parse().expect("a pointer");
    assert_eq!(pointer.to_string(), text);
    let found = all.iter().find(|(other, _)| other.tokens == path.tokens);
    assert_eq!(pointer.is_in(json), found.is_some(), "{text}");

    let below = |other: &Path| other.tokens.starts_with(&path.tokens);
    let (mut without, mut hidden) = (json.clone(), json.clone());
    let results = [pointer.remove(&mut without).is_ok(), pointer.replace(&mut hidden, "gone").is_ok()];
    assert_eq!(results[0], results[1], "{text}");
    if found.is_some_and(|(path, _)| path.member) {
        assert!(results[0], "{text}");
        let left: Vec<_> = all.iter().filter(|(other, _)| !below(other)).cloned().collect();
        assert_eq!(paths(&without), left, "{text}");
        let hidden: Vec<_> = paths(&hidden).into_iter().filter(|(other, _)| !below(other)).collect();
        assert_eq!(hidden, left, "{text}");
    } else {
        // An element of an array, or nothing at all.
        assert!(found.is_none() || !results[0], "{text}");
        assert!(without == *json && hidden == *json, "{text}");
    }
}
