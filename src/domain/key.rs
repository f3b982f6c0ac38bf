//! The key of a call: what makes two calls the same write (contract §3 and §9; published in `docs/key.md`).
//!
//! Invariant: equal calls and only those have equal canonical texts, and the key is that text's SHA-256. Plain values
//! and no I/O: anything may import this, and it imports only its sibling [`canonical`](super::canonical).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::canonical::{Json, write_string};

/// The first element of each canonical text: this version of the rules.
const VERSION: &str = "idem/1";

/// A call, as its key sees it (§3).
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// On whose behalf; not empty.
    pub who: &'a str,
    /// The conversation, job or run; not empty.
    pub conv: &'a str,
    /// What is called; not empty.
    pub tool: &'a str,
    /// With which params, the ignored ones left out already.
    pub params: &'a Json<'a>,
    /// What else the caller binds.
    pub bound: &'a Bound,
}

impl Call<'_> {
    /// Returns the text that the key is the hash of: a JSON array of five elements, six with bound inputs (§3).
    pub fn canonical(&self) -> String {
        let mut out = String::from("[");
        for part in [VERSION, self.who, self.conv, self.tool] {
            write_string(part, &mut out);
            out.push(',');
        }
        self.params.write_canonical(&mut out);
        if !self.bound.is_empty() {
            out.push(',');
            self.bound.write_canonical(&mut out);
        }
        out.push(']');
        out
    }

    /// Returns the key: the SHA-256 of the canonical text.
    pub fn key(&self) -> Key {
        Key::of(&self.canonical())
    }
}

/// The bound inputs: what changes the write without being a param (§3).
#[derive(Default, Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Which of several equal calls this is, from 1 on; 1 is the same as none.
    pub occurrence: Option<u64>,
    /// The SHA-256 of standard input, 64 lower-case hex digits.
    pub stdin: Option<String>,
    /// The SHA-256 of each file's bytes, 64 lower-case hex digits, by the path as given.
    pub files: BTreeMap<String, String>,
    /// The value of each environment variable, by its name; `None` for one that isn't set.
    pub env: BTreeMap<String, Option<String>>,
    /// The working directory, absolute.
    pub cwd: Option<String>,
}

impl Bound {
    /// Says whether nothing is bound; the call then has no sixth element.
    pub fn is_empty(&self) -> bool {
        let Bound { occurrence, stdin, files, env, cwd } = self;
        occurrence.is_none_or(|n| n == 1) && stdin.is_none() && files.is_empty() && env.is_empty() && cwd.is_none()
    }

    /// Returns the sixth element's text; `None` where nothing is bound.
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        self.write_canonical(&mut text);
        (!self.is_empty()).then_some(text)
    }

    /// Appends the sixth element: an object with the names in use.
    fn write_canonical(&self, out: &mut String) {
        let occurrence = self.occurrence.filter(|&n| n != 1).map(|n| n.to_string());
        let files = self.files.iter().map(|(path, sha256)| (Cow::from(path), string(sha256)));
        let env = self.env.iter().map(|(name, value)| (Cow::from(name), value.as_deref().map_or(Json::Null, string)));
        let members = [
            ("occurrence", occurrence.as_deref().map(Json::Number)),
            ("stdin", self.stdin.as_deref().map(string)),
            ("files", (!self.files.is_empty()).then(|| Json::Object(files.collect()))),
            ("env", (!self.env.is_empty()).then(|| Json::Object(env.collect()))),
            ("cwd", self.cwd.as_deref().map(string)),
        ];
        // Sorted there: neither this order nor that of a `BTreeMap` is the one by UTF-16 code units.
        let in_use = members.into_iter().filter_map(|(name, value)| Some((Cow::from(name), value?)));
        Json::Object(in_use.collect()).write_canonical(out);
    }
}

fn string(s: &str) -> Json<'_> {
    Json::String(Cow::from(s))
}

/// The key of a call. Displayed as 64 lower-case hex digits, and parsed from nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// Returns the key of a canonical text: its SHA-256.
    pub fn of(canonical: &str) -> Key {
        Key(Sha256::digest(canonical).into())
    }

    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the key as a UUID of 36 characters, lower-case, for targets that want one (`IDEM_KEY_UUID`, §9):
    /// version 5, in RFC 9562's URL namespace, of `urn:idem:1:` and the 64 hex digits.
    pub fn uuid(&self) -> String {
        Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("urn:idem:1:{self}").as_bytes()).hyphenated().to_string()
    }

    /// Returns the first 32 hex digits, for targets that cap the length of a key (`IDEM_KEY_SHORT`, §9).
    pub fn short(&self) -> String {
        let mut hex = self.to_string();
        hex.truncate(32);
        hex
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(s: &str) -> Result<Key, ParseKeyError> {
        let (pairs, rest) = s.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 32];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(ParseKeyError);
        }
        for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = hex_digit(high)? << 4 | hex_digit(low)?;
        }
        Ok(Key(bytes))
    }
}

fn hex_digit(digit: u8) -> Result<u8, ParseKeyError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(ParseKeyError),
    }
}

/// A text that isn't a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseKeyError;

impl fmt::Display for ParseKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key is 64 lower-case hex digits")
    }
}

impl std::error::Error for ParseKeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_its_own_form_only() {
        let key = Key::from_bytes(std::array::from_fn(|place| place as u8 * 8 + 3));
        let hex = key.to_string();
        assert!(hex.starts_with("030b131b") && hex.ends_with("ebf3fb"));
        assert_eq!(hex.parse(), Ok(key));
        assert_eq!(Key::from_bytes(*key.as_bytes()), key);
        assert_eq!(format!("{key:?}"), format!("Key({hex})"));
        for other in [hex.to_uppercase(), hex[1..].into(), hex[2..].into(), hex.clone() + "00", hex.replace("03", "é")]
        {
            assert_eq!(other.parse::<Key>(), Err(ParseKeyError), "{other}");
        }
    }

    #[test]
    fn what_is_bound_is_told_as_the_key_has_it() {
        assert_eq!(Bound::default().text(), None);
        let bound = Bound { occurrence: Some(2), cwd: Some("/w".to_owned()), ..Bound::default() };
        assert_eq!(bound.text().as_deref(), Some(r#"{"cwd":"/w","occurrence":2}"#));
        let env = BTreeMap::from([("A".to_owned(), None)]);
        assert_eq!(Bound { env, ..Bound::default() }.text().as_deref(), Some(r#"{"env":{"A":null}}"#));
    }

    #[test]
    fn occurrence_one_binds_nothing() {
        let occurrence = |n| Bound { occurrence: Some(n), ..Bound::default() };
        assert!(Bound::default().is_empty() && occurrence(1).is_empty());
        assert!(!occurrence(2).is_empty());
    }
}
