//! An outcome on its way into the store: what an owner knows of its attempt's end while the store can't take it.
//!
//! Invariant: a pending outcome has all that recording it needs, and what tells which attempt it is of: the key and the
//! lock's random place. So it can be recorded by anybody who meets it, and never for another attempt.

use std::borrow::Cow;
use std::fmt;
use std::time::UNIX_EPOCH;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::claim::{Chunk, ClaimId, Effect, LockPlace, Stream};
use super::codes::ExitCodes;
use super::end::{End, EndTerms};
use super::key::Key;
use super::store::Finish;
use super::timestamp::Timestamp;

/// The format that this program writes, and the newest that it reads.
pub const FORMAT: u64 = 1;

/// An outcome that could not be recorded when it became known.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Document<Vec<Piece>>")]
pub struct Pending {
    /// What tells the store from others.
    pub store: String,
    /// The call's key.
    pub key: Key,
    /// The claim; `None` where it isn't known whether the store has it.
    pub id: Option<ClaimId>,
    /// Where the attempt's liveness was locked: no other attempt has this place.
    pub lock: LockPlace,
    /// When it was put aside, by the owner's clock.
    pub at: Timestamp,
    /// The end.
    pub finish: Finish,
    /// The output that isn't in the store yet.
    pub rest: Vec<Chunk>,
}

impl Pending {
    /// Returns the name of its file.
    pub fn name(&self) -> Name {
        Name { id: self.id, token: self.lock.token(), store: digest(&self.store) }
    }
}

/// A pending file's name: it tells whose outcome this is to those who have no reason to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The claim, where its number was known.
    pub id: Option<ClaimId>,
    /// The attempt's token.
    pub token: String,
    /// The digest of the store.
    pub store: String,
}

impl Name {
    /// Reads a name, with what follows it: nothing for an outcome that waits, `.bad` and the like for others.
    pub fn parse(text: &str) -> Option<(Name, &str)> {
        let (stem, rest) = text.split_once(".json")?;
        let mut parts = stem.split('-');
        let (id, token, store) = (parts.next()?, parts.next()?, parts.next()?);
        let hex =
            |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if parts.next().is_some() || !hex(token) || !hex(store) {
            return None;
        }
        let id = if id == "new" { None } else { Some(id.parse().ok().filter(|&id| id > 0)?) };
        Some((Name { id, token: token.to_owned(), store: store.to_owned() }, rest))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{id}-{}-{}.json", self.token, self.store),
            None => write!(f, "new-{}-{}.json", self.token, self.store),
        }
    }
}

/// Returns the short digest of a store, by which the files of several stores are told apart in one folder.
pub fn digest(store: &str) -> String {
    Sha256::digest(store).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The format of a file that this program can't read otherwise.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Format {
    /// Its number.
    #[serde(rename = "idem_pending")]
    pub number: u64,
}

/// The file's content. `O`: the output, borrowed or owned.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<O> {
    idem_pending: u64,
    store: String,
    key: String,
    claim: Option<ClaimId>,
    lock_offset: i64,
    lock_inode: i64,
    at: String,
    actor: String,
    end: String,
    effect: String,
    landed_exit: Option<String>,
    not_landed_exit: Option<String>,
    keep_failure: bool,
    marks: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    missing: i64,
    recorded: i64,
    output: O,
}

/// The ends' words. Their numbers are the exit code and the signal that are recorded.
fn word_of(end: End) -> &'static str {
    match end {
        End::Exited(_) => "exited",
        End::Signaled(_) => "signaled",
        End::TimedOut { .. } => "timed-out",
        End::NotStarted => "not-started",
    }
}

/// Reads an end back.
fn end_of(word: &str, exit_code: Option<i32>, signal: Option<i32>) -> Option<End> {
    match (word, exit_code, signal) {
        ("exited", Some(code), None) => Some(End::Exited(code)),
        ("signaled", None, Some(signal)) => Some(End::Signaled(signal)),
        ("timed-out", Some(_), signal) => Some(End::TimedOut { signal }),
        ("not-started", ..) => Some(End::NotStarted),
        _ => None,
    }
}

impl Serialize for Pending {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let codes = |codes: &ExitCodes| (!codes.is_empty()).then(|| codes.to_string());
        let Finish { end, terms, exit_code, signal, missing, recorded, actor } = &self.finish;
        let document = Document {
            idem_pending: FORMAT,
            store: self.store.clone(),
            key: self.key.to_string(),
            claim: self.id,
            lock_offset: self.lock.offset,
            lock_inode: self.lock.inode,
            at: self.at.to_string(),
            actor: actor.clone(),
            end: word_of(*end).to_owned(),
            effect: terms.effect.as_str().to_owned(),
            landed_exit: codes(&terms.landed_exit),
            not_landed_exit: codes(&terms.not_landed_exit),
            keep_failure: terms.keep_failure,
            marks: terms.marks,
            exit_code: *exit_code,
            signal: *signal,
            missing: *missing,
            recorded: *recorded,
            output: Pieces(&self.rest),
        };
        document.serialize(to)
    }
}

impl TryFrom<Document<Vec<Piece>>> for Pending {
    type Error = String;

    fn try_from(from: Document<Vec<Piece>>) -> Result<Pending, String> {
        let wrong = |what: &str| format!("{what} is nothing that idem writes");
        let codes = |codes: &Option<String>| codes.as_deref().map_or(Ok(ExitCodes::default()), str::parse);
        let fits = |number: Option<i32>, low, high| number.is_none_or(|number| (low..=high).contains(&number));
        if from.idem_pending != FORMAT {
            return Err(format!("format {} is none that this idem knows", from.idem_pending));
        }
        if !fits(from.exit_code, 0, 255) || !fits(from.signal, 1, 64) {
            return Err(wrong("the end"));
        }
        let end = end_of(&from.end, from.exit_code, from.signal).ok_or_else(|| wrong("the end"))?;
        if from.claim.is_some_and(|id| id < 1) || !(1..1 << 62).contains(&from.lock_offset) {
            return Err(wrong("the claim or its lock"));
        }
        if from.missing < 0 || from.recorded < 0 {
            return Err(wrong("the number of bytes"));
        }
        let terms = EndTerms {
            effect: Effect::from_word(&from.effect).ok_or_else(|| wrong("the effect"))?,
            landed_exit: codes(&from.landed_exit)?,
            not_landed_exit: codes(&from.not_landed_exit)?,
            keep_failure: from.keep_failure,
            marks: from.marks,
        };
        let at = humantime::parse_rfc3339(&from.at).map_err(|error| format!("the time: {error}"))?;
        Ok(Pending {
            store: from.store,
            key: from.key.parse().map_err(|_| wrong("the key"))?,
            id: from.claim,
            lock: LockPlace { offset: from.lock_offset, inode: from.lock_inode },
            at: if at < UNIX_EPOCH { Timestamp(0) } else { at.into() },
            finish: Finish {
                end,
                terms,
                exit_code: from.exit_code,
                signal: from.signal,
                missing: from.missing,
                recorded: from.recorded,
                actor: from.actor,
            },
            rest: from.output.into_iter().map(|piece| Chunk { stream: piece.stream.0, data: piece.base64.0 }).collect(),
        })
    }
}

/// Output to write, a piece at a time: it can be tens of megabytes, and no second copy of it is made.
struct Pieces<'a>(&'a [Chunk]);

impl Serialize for Pieces<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            stream: &'static str,
            base64: Encoded<'a>,
        }
        struct Encoded<'a>(&'a [u8]);
        impl Serialize for Encoded<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(&Base64Display::new(self.0, &STANDARD))
            }
        }
        let word = |stream| if stream == Stream::Stdout { "stdout" } else { "stderr" };
        to.collect_seq(self.0.iter().map(|chunk| Written { stream: word(chunk.stream), base64: Encoded(&chunk.data) }))
    }
}

/// A piece of output as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Piece {
    stream: StreamWord,
    base64: Decoded,
}

struct StreamWord(Stream);

impl<'de> Deserialize<'de> for StreamWord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Cow::<str>::deserialize(from)?.as_ref() {
            "stdout" => Ok(StreamWord(Stream::Stdout)),
            "stderr" => Ok(StreamWord(Stream::Stderr)),
            other => Err(D::Error::invalid_value(Unexpected::Str(other), &"stdout or stderr")),
        }
    }
}

struct Decoded(Vec<u8>);

impl<'de> Deserialize<'de> for Decoded {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Decoded;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Decoded, E> {
                STANDARD.decode(text).map(Decoded).map_err(|error: DecodeError| E::custom(error))
            }
        }
        from.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(end: End) -> Pending {
        let (exit_code, signal) = match end {
            End::Exited(code) => (Some(code), None),
            End::Signaled(signal) => (None, Some(signal)),
            End::TimedOut { signal } => (Some(124), signal),
            End::NotStarted => (Some(127), None),
        };
        let terms = EndTerms {
            effect: Effect::External,
            landed_exit: "3,10-19".parse().expect("codes"),
            not_landed_exit: ExitCodes::default(),
            keep_failure: true,
            marks: false,
        };
        Pending {
            store: "/a/idem.db".to_owned(),
            key: Key::of("x"),
            id: Some(7),
            lock: LockPlace { offset: 0x12_3456, inode: 9 },
            at: Timestamp(1_700_000_000_005),
            finish: Finish { end, terms, exit_code, signal, missing: 4, recorded: 5, actor: "ada@host[1]".to_owned() },
            rest: vec![
                Chunk { stream: Stream::Stdout, data: b"\x00\xff\"".to_vec() },
                Chunk { stream: Stream::Stderr, data: Vec::new() },
            ],
        }
    }

    fn written(pending: &Pending) -> String {
        serde_json::to_string(pending).expect("written")
    }

    #[test]
    fn what_was_written_is_read_back_whole() {
        let ends = [
            End::Exited(3),
            End::Signaled(9),
            End::TimedOut { signal: Some(15) },
            End::TimedOut { signal: None },
            End::NotStarted,
        ];
        for end in ends {
            let before = pending(end);
            let text = written(&before);
            let after: Pending =
                serde_json::from_reader(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(written(&after), text);
            assert_eq!((after.finish.end, after.rest, after.at), (end, before.rest, before.at));
            assert_eq!(after.finish.terms, before.finish.terms);
        }
        let unknown = Pending { id: None, ..pending(End::NotStarted) };
        let read: Pending = serde_json::from_str(&written(&unknown)).expect("readable");
        assert_eq!(read.id, None);
    }

    #[test]
    fn what_idem_does_not_write_is_refused() {
        let fine = written(&pending(End::Exited(3)));
        for (from, to) in [
            (r#""claim":7"#, r#""claim":0"#),
            (r#""claim":7"#, r#""claim":99999999999999999999"#),
            (r#""lock_offset":1193046"#, r#""lock_offset":4611686018427387904"#),
            (r#""lock_offset":1193046"#, r#""lock_offset":-1"#),
            (r#""end":"exited""#, r#""end":"vanished""#),
            (r#""end":"exited""#, r#""end":"signaled""#),
            (r#""exit_code":3"#, r#""exit_code":256"#),
            (r#""signal":null"#, r#""signal":65"#),
            (r#""exit_code":3"#, r#""exit_code":-1"#),
            (r#""missing":4"#, r#""missing":-4"#),
            (r#""missing":4"#, r#""missing":1e400"#),
            (r#""effect":"external""#, r#""effect":"none""#),
            (r#""stream":"stdout""#, r#""stream":"stdin""#),
            (r#""base64":"AP8i""#, r#""base64":"AP8""#),
            (r#""idem_pending":1"#, r#""idem_pending":2"#),
            (r#""at":"2023"#, r#""at":"20x3"#),
            (r#""marks":false"#, r#""marks":false,"more":1"#),
        ] {
            let text = fine.replacen(from, to, 1);
            assert_ne!(text, fine, "{from}");
            assert!(serde_json::from_str::<Pending>(&text).is_err(), "{text}");
        }
        for end in [0, 1, fine.len() / 2, fine.len() - 1] {
            assert!(serde_json::from_str::<Pending>(&fine[..end]).is_err(), "cut off after {end}");
        }
    }

    #[test]
    fn names_are_read_back_and_others_are_not_taken_for_them() {
        for id in [Some(7), None] {
            let name = Pending { id, ..pending(End::NotStarted) }.name();
            assert_eq!(Name::parse(&name.to_string()), Some((name.clone(), "")));
            assert_eq!(Name::parse(&format!("{name}.bad")), Some((name, ".bad")));
        }
        let digest = digest("/a/idem.db");
        for other in ["", "7.json", &format!("7-0123-{digest}.json"), &format!("0-{digest}-{digest}.json"), "../x.json"]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
