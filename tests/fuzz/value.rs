//! What a JSON value is, said once more and in another form than `domain::canonical` says it: when two are the same, how
//! else one can be spelled, how it can be changed, and what stands at which path.

use std::borrow::Cow;
use std::collections::BTreeMap;

use idem::domain::canonical::Json;

use crate::rng::Rng;

/// A number's value: its sign, and digits × 10^power, the digits without a zero at either end; zero has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) negative: bool,
    pub(crate) digits: String,
    pub(crate) power: i128,
}

pub(crate) fn exact(spelled: &str) -> Exact {
    let (mantissa, exponent) = spelled.split_once(['e', 'E']).unwrap_or((spelled, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let significant = digits.trim_start_matches('0').trim_end_matches('0').to_owned();
    if significant.is_empty() {
        return Exact { negative: false, digits: significant, power: 0 };
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    let power = exponent.parse::<i128>().expect("an exponent within the bounds") - fraction.len() as i128;
    Exact { negative: spelled.starts_with('-'), digits: significant, power: power + zeros as i128 }
}

/// Tells whether two values are the same.
pub(crate) fn same(a: &Json<'_>, b: &Json<'_>) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => exact(a) == exact(b),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            let b: BTreeMap<&str, &Json<'_>> = b.iter().map(|(name, value)| (&**name, value)).collect();
            a.len() == b.len() && a.iter().all(|(name, value)| b.get(&**name).is_some_and(|other| same(value, other)))
        }
        (a, b) => a == b,
    }
}

/// Spells a value in another of the ways that mean it.
pub(crate) fn respell(value: &Json<'_>, rng: &mut Rng, out: &mut String) {
    space(rng, out);
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(spelled) => respell_number(&exact(spelled), rng, out),
        Json::String(string) => respell_string(string, rng, out),
        Json::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                respell(item, rng, out);
            }
            space(rng, out);
            out.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for place in 1..members.len() {
                members.swap(place, rng.below(place + 1));
            }
            out.push('{');
            for (place, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                space(rng, out);
                respell_string(name, rng, out);
                space(rng, out);
                out.push(':');
                respell(value, rng, out);
            }
            space(rng, out);
            out.push('}');
        }
    }
    space(rng, out);
}

fn space(rng: &mut Rng, out: &mut String) {
    out.push_str(rng.pick(&["", "", "", " ", "\n", "\t", "\r\n  "]));
}

fn respell_number(Exact { negative, digits, power }: &Exact, rng: &mut Rng, out: &mut String) {
    if digits.is_empty() {
        out.push_str(rng.pick(&["0", "-0", "0.00", "-0.0e-7", "0E+99999999999999999999", "0e0"]));
        return;
    }
    // The point stands after so many digits, counted from the first one and perhaps beyond either end.
    let place = rng.below(digits.len() + 6) as i128 - 3;
    let zeros = |count: i128| "0".repeat(usize::try_from(count).unwrap_or(0));
    let padded = zeros(1 - place) + digits + &zeros(place - digits.len() as i128);
    let (whole, fraction) = padded.split_at(place.max(1) as usize);
    let fraction = fraction.to_owned() + rng.pick(&["", "0", "000"]);
    let point = if fraction.is_empty() { "" } else { "." };
    let exponent = match power + digits.len() as i128 - place {
        0 => rng.pick(&["", "e0", "E-00", "e+0"]).to_owned(),
        up @ 1.. => format!("{}{up}", rng.pick(&["e", "E+", "e+00"])),
        down => format!("{}{}", rng.pick(&["e-", "E-0"]), down.unsigned_abs()),
    };
    out.extend([if *negative { "-" } else { "" }, whole, point, &fraction, &exponent]);
}

fn respell_string(string: &str, rng: &mut Rng, out: &mut String) {
    out.push('"');
    for character in string.chars() {
        let short = "\"\\/\u{8}\t\n\u{c}\r".find(character).map(|place| &"\"\\/btnfr"[place..=place]);
        let plain = character >= ' ' && !matches!(character, '"' | '\\');
        match (rng.below(4), short) {
            (0, Some(letter)) => out.extend(["\\", letter]),
            (0..3, _) if plain => out.push(character),
            (3, _) => {
                character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
            }
            _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out.push('"');
}

/// Changes something somewhere, as a rule to another value.
pub(crate) fn change(value: &mut Json<'_>, rng: &mut Rng) {
    match value {
        Json::Array(items) if !items.is_empty() && !rng.one_in(4) => {
            let place = rng.below(items.len());
            return change(&mut items[place], rng);
        }
        Json::Object(members) if !members.is_empty() && !rng.one_in(4) => {
            let place = rng.below(members.len());
            return change(&mut members[place].1, rng);
        }
        _ => {}
    }
    match value {
        Json::Null => *value = Json::Bool(false),
        Json::Bool(yes) if rng.one_in(2) => *yes = !*yes,
        Json::Number(spelled) if rng.one_in(2) => *value = Json::String(Cow::Owned((*spelled).to_owned())),
        Json::Number(_) => {
            *value = Json::Number(rng.pick(&["0", "-0.0", "1", "1e1", "-1", "9007199254740993", "0.1e1"]));
        }
        Json::String(string) => {
            let odd = rng.pick(&['\0', 'a', 'A', 'é', '\u{301}', '\u{2028}', '\u{ffff}', '\u{10000}', '/', '"']);
            let place = (0..=string.len()).filter(|&at| string.is_char_boundary(at)).nth(rng.below(string.len() + 1));
            string.to_mut().insert(place.unwrap_or(0), odd);
        }
        Json::Array(items) => match rng.below(3) {
            0 => items.push(Json::Null),
            1 => drop(items.pop()),
            _ => items.reverse(),
        },
        Json::Object(members) => match rng.below(3) {
            0 if members.iter().all(|(name, _)| name != "new") => members.push((Cow::from("new"), Json::Null)),
            1 => drop(members.pop()),
            _ => members.reverse(),
        },
        Json::Bool(_) => *value = Json::Null,
    }
}

/// Tells whether every number is one that a double and serde_json keep: few digits, a small power.
pub(crate) fn doubles_only(value: &Json<'_>) -> bool {
    match value {
        Json::Number(spelled) => {
            let (mantissa, exponent) = spelled.split_once(['e', 'E']).unwrap_or((spelled, "0"));
            let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            let shift = exponent.parse::<i64>().unwrap_or(1000) - fraction as i64;
            mantissa.bytes().filter(u8::is_ascii_digit).count() <= 15 && (-22..=22).contains(&shift)
        }
        Json::Array(items) => items.iter().all(doubles_only),
        Json::Object(members) => members.iter().all(|(_, value)| doubles_only(value)),
        _ => true,
    }
}

/// A way to a value: names and indices, and whether the last of them is a member's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) tokens: Vec<String>,
    pub(crate) member: bool,
}

/// Returns every path with what stands there, in the order of the text; of arrays and objects only that they are there.
pub(crate) fn paths(value: &Json<'_>) -> Vec<(Path, String)> {
    let mut all = Vec::new();
    walk(value, &Path { tokens: Vec::new(), member: false }, &mut all);
    all
}

fn walk(value: &Json<'_>, here: &Path, all: &mut Vec<(Path, String)>) {
    let below = |token: String, member| Path { tokens: [here.tokens.clone(), vec![token]].concat(), member };
    match value {
        Json::Array(items) => {
            all.push((here.clone(), "[".to_owned()));
            items.iter().enumerate().for_each(|(index, item)| walk(item, &below(index.to_string(), false), all));
        }
        Json::Object(members) => {
            all.push((here.clone(), "{".to_owned()));
            members.iter().for_each(|(name, value)| walk(value, &below(name.clone().into_owned(), true), all));
        }
        leaf => all.push((here.clone(), format!("{leaf:?}"))),
    }
}
