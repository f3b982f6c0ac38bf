//! JSON texts, and the one canonical spelling that each value has (contract §3; published in `docs/key.md`).
//!
//! Invariant: two texts have one canonical text exactly when they say the same value. So a number is never anything
//! but its decimal digits, and what leaves a value in doubt is refused. Every step is linear in the text, or sorts.
//! Plain values and no I/O: anything may import this, and it imports nothing of idem's.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

type Result<T, E = ParamsError> = std::result::Result<T, E>;

/// The arrays and objects that may be open at once (§3). Every recursion over a parsed [`Json`] is bounded by it.
const MAX_DEPTH: usize = 100;

/// The power of ten of a number's first digit lies within ± this (§3).
const MAX_POWER: u32 = 999_999_999;

/// A JSON value, borrowed from its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as spelled, in the grammar of RFC 8259 and with an exponent within §3's bounds.
    Number(&'a str),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object: the members in the order given, names unescaped and each there once.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Parses one JSON text (RFC 8259), all of `raw`.
    ///
    /// Errors: every class of §3; of several, the one with the smallest offset.
    pub fn parse(raw: &'a [u8]) -> Result<Json<'a>, ParamsError> {
        let text = raw.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let parsed = Scanner { text, at: 0, open: 0 }.document();
        // The scanner takes the first byte that isn't UTF-8 for the end. What it objects to before there was met first.
        if text.len() < raw.len() && parsed.as_ref().err().is_none_or(|error| error.offset == text.len()) {
            return refuse(ErrorClass::Utf8, text.len(), "this byte is not UTF-8");
        }
        parsed
    }

    /// Appends the canonical text of §3 to `out`: equal values and only those give equal texts.
    pub fn write_canonical(&self, out: &mut String) {
        self.write(true, out);
    }

    /// Appends the value as given to `out`, on one line without white space: members in their order, numbers as
    /// spelled, strings as [`write_string`] writes them.
    pub fn write_compact(&self, out: &mut String) {
        self.write(false, out);
    }

    fn write(&self, canonical: bool, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(spelled) if canonical => write_number(spelled, out),
            Json::Number(spelled) => out.push_str(spelled),
            Json::String(string) => write_string(string, out),
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push(if index == 0 { '[' } else { ',' });
                    item.write(canonical, out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if canonical {
                    members.sort_unstable_by(|(a, _), (b, _)| utf16_order(a, b));
                }
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push(if index == 0 { '{' } else { ',' });
                    write_string(name, out);
                    out.push(':');
                    value.write(canonical, out);
                }
                out.push_str(if members.is_empty() { "{}" } else { "}" });
            }
        }
    }
}

/// Appends `s` as a canonical JSON string (§3): only `"`, `\` and the controls below U+0020 are escaped, in the
/// shortest way, otherwise as `\u00xx` in lower-case hex.
pub fn write_string(s: &str, out: &mut String) {
    out.push('"');
    for character in s.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..' ' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Compares two names by their UTF-16 code units.
fn utf16_order(a: &str, b: &str) -> Ordering {
    // UTF-8 bytes sort as UTF-16 code units do, but for U+E000..=U+FFFF (first byte EE or EF): in UTF-16 they come
    // after the characters beyond U+FFFF (first byte F0 to F4), whose units are surrogates, D800 to DFFF.
    fn rank(byte: u8) -> u8 {
        if matches!(byte, 0xee | 0xef) { byte + 0x10 } else { byte }
    }
    a.bytes().map(rank).cmp(b.bytes().map(rank))
}

/// The exact value of a number: ±0.d1…dk × 10^n, in §3's terms.
struct Decimal<'a> {
    sign: &'static str,
    /// d1 to dk, neither d1 nor dk zero; empty for zero, which has no sign.
    digits: Cow<'a, str>,
    n: i32,
}

impl Decimal<'_> {
    /// Reads a number of RFC 8259's grammar. `None`: the power of its first digit is out of §3's bounds.
    fn read(spelled: &str) -> Option<Decimal<'_>> {
        let unsigned = spelled.trim_start_matches('-');
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let length = |digits: &str| i64::try_from(digits.len()).ok();
        // The grammar leaves two cases: `whole` is "0", or its first digit counts.
        let (digits, point) = if whole == "0" {
            let digits = fraction.trim_start_matches('0');
            (Cow::from(digits), length(digits)? - length(fraction)?)
        } else if fraction.is_empty() {
            (Cow::from(whole.trim_end_matches('0')), length(whole)?)
        } else {
            (Cow::from([whole, fraction].concat()), length(whole)?)
        };
        if digits.is_empty() {
            return Some(Decimal { sign: "", digits, n: 0 });
        }
        // An exponent that i64 doesn't hold is out of bounds too: no text is long enough to bring it back.
        let n = i32::try_from(exponent.parse::<i64>().ok()?.checked_add(point)?).ok()?;
        let sign = if unsigned == spelled { "" } else { "-" };
        (n.abs_diff(1) <= MAX_POWER).then_some(Decimal { sign, digits, n })
    }
}

/// Appends a number in ECMAScript's layout (§3), with all of its digits.
fn write_number(spelled: &str, out: &mut String) {
    let Some(Decimal { sign, digits, n }) = Decimal::read(spelled) else {
        return out.push_str(spelled); // Not from a text: `Json::parse` refuses it.
    };
    let k = digits.len();
    let places = n.unsigned_abs() as usize;
    let zeros = |count| "0".repeat(count);
    out.push_str(sign);
    match n {
        _ if k == 0 => out.push('0'),
        1..=21 if k <= places => out.extend([&*digits, &zeros(places - k)]),
        1..=21 => out.extend([&digits[..places], ".", &digits[places..]]),
        -5..=0 => out.extend(["0.", &zeros(places), &digits]),
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            out.extend([first, point, rest, &format!("e{:+}", n - 1)]);
        }
    }
}

/// Reads one JSON text from left to right, up to the first thing that is wrong.
struct Scanner<'a> {
    text: &'a str,
    /// The offset of the next byte; between two characters wherever something is reported.
    at: usize,
    /// The arrays and objects that are open here.
    open: usize,
}

impl<'a> Scanner<'a> {
    /// Reads the whole text: one value, with nothing but white space around it.
    fn document(mut self) -> Result<Json<'a>> {
        let value = self.value()?;
        self.space();
        match self.peek() {
            None => Ok(value),
            Some(_) => refuse(ErrorClass::Syntax, self.at, "trailing text after the value"),
        }
    }

    /// Reads a value, and the white space before it.
    fn value(&mut self) -> Result<Json<'a>> {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b'n') => self.literal("null", Json::Null),
            _ => self.expected("a value"),
        }
    }

    fn object(&mut self) -> Result<Json<'a>> {
        let mut members = Vec::new();
        let mut names = BTreeSet::new();
        self.list(b'}', "`,` or `}`", |scanner| {
            let start = scanner.at;
            if scanner.peek() != Some(b'"') {
                return scanner.expected("a member name in double quotes");
            }
            let name = scanner.string()?;
            // Asked at once, not when the object ends, so that the first thing that is wrong is the one reported.
            if !names.insert(name.clone()) {
                let detail = format!("the member {} is there twice", shown(&name));
                return refuse(ErrorClass::Duplicate, start, detail);
            }
            scanner.space();
            if !scanner.eat(b':') {
                return scanner.expected("`:`");
            }
            members.push((name, scanner.value()?));
            Ok(())
        })?;
        Ok(Json::Object(members))
    }

    fn array(&mut self) -> Result<Json<'a>> {
        let mut items = Vec::new();
        self.list(b']', "`,` or `]`", |scanner| scanner.value().map(|item| items.push(item)))?;
        Ok(Json::Array(items))
    }

    /// Reads from an opening bracket to `close`, each of the items between the commas by `item`.
    fn list(&mut self, close: u8, next: &str, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.open == MAX_DEPTH {
            return refuse(ErrorClass::Depth, self.at, "over 100 arrays and objects are open");
        }
        self.open += 1;
        self.at += 1;
        self.space();
        let mut closed = self.eat(close);
        while !closed {
            self.space();
            item(self)?;
            self.space();
            closed = self.eat(close);
            if !closed && !self.eat(b',') {
                return self.expected(next);
            }
        }
        self.open -= 1;
        Ok(())
    }

    fn literal(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>> {
        if word.bytes().all(|letter| self.eat(letter)) {
            return Ok(value);
        }
        self.expected(word)
    }

    fn number(&mut self) -> Result<Json<'a>> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        } else if matches!(self.peek(), Some(b'0'..=b'9')) {
            return refuse(ErrorClass::Syntax, self.at, "a digit after a leading zero");
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _signed = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        let spelled = &self.text[start..self.at];
        match Decimal::read(spelled) {
            Some(_) => Ok(Json::Number(spelled)),
            None => refuse(ErrorClass::Exponent, start, "the first digit is beyond 10 to the power of ±999999999"),
        }
    }

    /// Skips one digit or more.
    fn digits(&mut self) -> Result<()> {
        match self.skip(u8::is_ascii_digit) {
            0 => self.expected("a digit"),
            _ => Ok(()),
        }
    }

    /// Reads a string from its opening quote on; borrowed unless it has escapes.
    fn string(&mut self) -> Result<Cow<'a, str>> {
        let start = self.at;
        let mut string = Cow::default();
        self.at += 1;
        loop {
            let plain_from = self.at;
            self.skip(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20));
            string += &self.text[plain_from..self.at];
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => string.to_mut().push(self.escape()?),
                Some(_) => return refuse(ErrorClass::Syntax, self.at, "a control character that isn't escaped"),
                None => return self.expected(&format!("a closing quote for the one at byte {start}")),
            }
        }
        self.at += 1;
        Ok(string)
    }

    /// Reads an escape from its backslash on.
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 1;
        let meant = match self.peek() {
            Some(b'u') => return self.unicode_escape(start),
            Some(same @ (b'"' | b'\\' | b'/')) => char::from(same),
            Some(b'b') => '\u{8}',
            Some(b't') => '\t',
            Some(b'n') => '\n',
            Some(b'f') => '\u{c}',
            Some(b'r') => '\r',
            _ => return self.expected("one of \"\\/bfnrtu after a backslash"),
        };
        self.at += 1;
        Ok(meant)
    }

    /// Reads a `\u` escape from its `u` on, or the two that make one character; `start` is the first backslash.
    fn unicode_escape(&mut self, start: usize) -> Result<char> {
        self.at += 1;
        let first = self.code_unit()?;
        let mut second = 0;
        if matches!(first, 0xd800..0xdc00) && self.eat(b'\\') && self.eat(b'u') {
            second = self.code_unit().unwrap_or(0);
        }
        match char::decode_utf16([first, second]).next() {
            Some(Ok(character)) => Ok(character),
            _ => refuse(ErrorClass::Surrogate, start, "half a surrogate pair"),
        }
    }

    /// Reads four hex digits.
    fn code_unit(&mut self) -> Result<u16> {
        for _ in 0..4 {
            if !matches!(self.peek(), Some(b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F')) {
                return self.expected("four hex digits after \\u");
            }
            self.at += 1;
        }
        Ok(u16::from_str_radix(&self.text[self.at - 4..self.at], 16).unwrap_or(0))
    }

    fn space(&mut self) {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    /// Skips the bytes that are `wanted`, and says how many.
    fn skip(&mut self, wanted: impl Fn(&u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().position(|byte| !wanted(byte)).unwrap_or(rest.len());
        self.at += count;
        count
    }

    /// Skips `byte` if it is next, and says whether it was.
    fn eat(&mut self, byte: u8) -> bool {
        // Written as an `if`: rustc 1.95 miscompiles the same thing without a branch (rust-lang/rust#158206).
        if self.peek() == Some(byte) {
            self.at += 1;
            return true;
        }
        false
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match self.text[self.at..].chars().next() {
            None => "the end".to_owned(),
            Some('\u{feff}') => "a byte order mark".to_owned(),
            Some(character) => shown(character.encode_utf8(&mut [0; 4])),
        };
        refuse(ErrorClass::Syntax, self.at, format!("expected {what}, found {found}"))
    }
}

/// Why a text can't be params (§3). Displayed as one lower-case sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamsError {
    /// The class.
    pub class: ErrorClass,
    /// Where, in bytes from 0; [`ErrorClass`] says what stands there.
    pub offset: usize,
    /// What is wrong there: part of a sentence, without control characters.
    pub detail: Cow<'static, str>,
}

impl ParamsError {
    /// Returns what is wrong and where, as the end of a sentence: `(syntax) at byte 3: …`.
    pub fn place(&self) -> String {
        format!("({}) at byte {}: {}", self.class.as_str(), self.offset, self.detail)
    }
}

fn refuse<T>(class: ErrorClass, offset: usize, detail: impl Into<Cow<'static, str>>) -> Result<T> {
    let detail = detail.into();
    Err(ParamsError { class, offset, detail })
}

/// The start of a piece of the text, quoted for a message: on one line, whatever it is.
fn shown(piece: &str) -> String {
    const CHARACTERS: usize = 40;
    let start: String = piece.chars().take(CHARACTERS).flat_map(char::escape_debug).collect();
    let rest = piece.chars().nth(CHARACTERS).map_or("", |_| "…");
    format!("`{start}{rest}`")
}

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let judgement = match self.class {
            ErrorClass::Utf8 | ErrorClass::Syntax => "are not valid JSON",
            ErrorClass::Surrogate | ErrorClass::Duplicate | ErrorClass::Depth | ErrorClass::Exponent => "are refused",
        };
        write!(f, "params {judgement} {}", self.place())
    }
}

impl std::error::Error for ParamsError {}

/// The classes of [`ParamsError`] (§3), and where each one's offset points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Not UTF-8: the first byte of what isn't.
    Utf8,
    /// Not RFC 8259: the first byte that can't go on, the end included.
    Syntax,
    /// Half a surrogate pair: the backslash of its escape.
    Surrogate,
    /// A member name twice in one object, after unescaping: the second one's opening quote.
    Duplicate,
    /// Over 100 arrays and objects open at once: the bracket of the 101st.
    Depth,
    /// A number whose first digit is beyond 10^±999999999: the number's first byte.
    Exponent,
}

impl ErrorClass {
    /// The contract's word for the class.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorClass::Utf8 => "utf8",
            ErrorClass::Syntax => "syntax",
            ErrorClass::Surrogate => "surrogate",
            ErrorClass::Duplicate => "duplicate",
            ErrorClass::Depth => "depth",
            ErrorClass::Exponent => "exponent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between semicolons: a canonical number, and other spellings of its value.
    const LAYOUT: &str = "0 -0 0.000 0e99999999999999999999 -0.0E-99999999999999999999; -1 -1.0 -1E+0 -10e-1;
        100000000000000000000 1e20 0.001e23; 999999999999999999999 999999999999999999999.0 9.99999999999999999999e20;
        1e+21 1000000000000000000000 1E021; -1.234567890123456789012e+21 -1234567890123456789012;
        26000.33 2.600033e4 26000.330; 123456789012345678901.5 1234567890123456789015e-1; 1200.5 12.005e+2;
        1200 12e2; 0.5 5e-1 0.50; 0.000001 1e-6 0.00001e-1; 0.00000123 1.23e-6; 1e-7 0.0000001; -1.2e-7 -12e-8;
        1e+999999999 0.1e1000000000 10e999999998; 1e-999999999 10e-1000000000 0.1e-999999998; 1e+400 10e399";

    #[test]
    fn a_number_has_one_layout_whatever_its_spelling() {
        for spellings in LAYOUT.split(';') {
            for spelled in spellings.split_whitespace() {
                let mut canonical = String::new();
                write_number(spelled, &mut canonical);
                assert_eq!(spellings.split_whitespace().next(), Some(&*canonical), "{spelled}");
            }
        }
    }
}
