//! As much of PostgreSQL's protocol as the proxy has to understand: where messages end, which statements they are, and
//! which of them ask for an answer.

use std::collections::HashMap;
use std::io::{self, Read};

/// One message, with the bytes that it came in.
pub(crate) struct Message {
    /// Its type; 0 before the session has begun, when messages have none.
    pub(crate) kind: u8,
    pub(crate) bytes: Vec<u8>,
}

/// What a client says before the session begins.
pub(crate) enum Opening {
    /// It asks whether there is TLS, or GSSAPI; the answer is one byte.
    MayEncrypt,
    /// It wants another session's statement to be cancelled.
    Cancels,
    /// It begins the session.
    Begins,
}

impl Message {
    /// Reads a message that has no type.
    pub(crate) fn opening(stream: &mut impl Read) -> io::Result<(Opening, Message)> {
        let message = Message::read(stream, 0)?;
        let code = message.bytes.get(4..8).map(|code| code.try_into().expect("four bytes")).map(u32::from_be_bytes);
        let opening = match code {
            Some(80_877_103 | 80_877_104) => Opening::MayEncrypt,
            Some(80_877_102) => Opening::Cancels,
            _ => Opening::Begins,
        };
        Ok((opening, message))
    }

    /// Reads a message of a session.
    pub(crate) fn next(stream: &mut impl Read) -> io::Result<Message> {
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        Message::read(stream, kind[0])
    }

    fn read(stream: &mut impl Read, kind: u8) -> io::Result<Message> {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let rest = u64::from(u32::from_be_bytes(length)).checked_sub(4).ok_or(io::ErrorKind::InvalidData)?;
        let mut bytes = if kind == 0 { Vec::new() } else { vec![kind] };
        bytes.extend(length);
        if stream.take(rest).read_to_end(&mut bytes)? as u64 == rest {
            Ok(Message { kind, bytes })
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// The state that a `ReadyForQuery` tells: `I` outside a transaction, `T` in one, `E` in a failed one.
    pub(crate) fn readiness(&self) -> Option<u8> {
        (self.kind == b'Z').then(|| self.bytes[5])
    }

    /// The strings that its body begins with, each ended by a zero.
    fn strings(&self) -> impl Iterator<Item = String> {
        self.bytes[5..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

/// Messages of a client that go to the server together.
#[derive(Default)]
pub(crate) struct Unit {
    pub(crate) bytes: Vec<u8>,
    /// The texts of the statements that it has executed.
    pub(crate) statements: Vec<String>,
    /// Whether the server answers it with a `ReadyForQuery`: a round trip.
    pub(crate) is_answered: bool,
}

/// Puts a client's messages together, each unit up to where an answer is asked for.
#[derive(Default)]
pub(crate) struct Units {
    unit: Unit,
    /// The texts of prepared statements by name; the unnamed one's is empty.
    prepared: HashMap<String, String>,
}

impl Units {
    /// Adds a message, and returns the unit if this one completes it.
    pub(crate) fn add(&mut self, message: &Message) -> Option<Unit> {
        let mut strings = message.strings();
        match message.kind {
            b'Q' => self.unit.statements.extend(strings.next()),
            b'P' => {
                if let (Some(name), Some(text)) = (strings.next(), strings.next()) {
                    self.prepared.insert(name, text);
                }
            }
            b'B' => self.unit.statements.extend(strings.nth(1).and_then(|name| self.prepared.get(&name).cloned())),
            _ => {}
        }
        drop(strings);
        self.unit.bytes.extend_from_slice(&message.bytes);
        self.unit.is_answered = matches!(message.kind, b'Q' | b'S');
        // Parse, Bind, Describe, Execute and Close wait for the Sync that follows them.
        let goes_on = matches!(message.kind, b'P' | b'B' | b'D' | b'E' | b'C');
        (!goes_on).then(|| std::mem::take(&mut self.unit))
    }
}
