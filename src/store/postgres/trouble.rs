//! What can go wrong with a connection, as far as a caller must tell it apart.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::PathBuf;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use super::place::PostgresPlace;
use crate::domain::store::StoreError;

/// What went wrong. The texts are one line each, and never have the password in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no connection, and the statement, where there was one, was not sent. Names the server.
    Unreachable(String),
    /// The server doesn't know the role or the database, or refuses the password.
    LoginRefused(String),
    /// There is no TLS as it was asked for.
    Tls(String),
    /// The connection broke, or the answer didn't come: whether the statement took effect is unknown.
    Lost(String),
    /// It had no effect, and can be tried again: others were in the way.
    Retry(String),
    /// The role may not do this.
    NoRights(String),
    /// The server is a standby, or the database or role is set read-only.
    ReadOnly(String),
    /// The schema or the table isn't there.
    Missing(String),
    /// What was inserted or created is there already.
    Unique(String),
    /// The server's disk is full.
    Full(String),
    /// Anything else.
    Other(String),
}

impl Trouble {
    /// Returns what is wrong, without the kind.
    pub fn text(&self) -> &str {
        match self {
            Trouble::Unreachable(text)
            | Trouble::LoginRefused(text)
            | Trouble::Tls(text)
            | Trouble::Lost(text)
            | Trouble::Retry(text)
            | Trouble::NoRights(text)
            | Trouble::ReadOnly(text)
            | Trouble::Missing(text)
            | Trouble::Unique(text)
            | Trouble::Full(text)
            | Trouble::Other(text) => text,
        }
    }

    /// Says it as the store's error.
    pub fn into_store_error(self, place: &PostgresPlace) -> StoreError {
        let path = PathBuf::from(place.shown());
        match self {
            Trouble::Unreachable(text) | Trouble::Lost(text) => StoreError::Unreachable(path, text),
            Trouble::LoginRefused(text) => StoreError::LoginRefused(path, text),
            Trouble::Tls(text) => StoreError::Tls(path, text),
            Trouble::NoRights(text) => StoreError::NoRights(path, text),
            Trouble::ReadOnly(text) => StoreError::ReadOnlyServer(path, text),
            Trouble::Full(_) => StoreError::Full(path),
            Trouble::Retry(text) | Trouble::Missing(text) | Trouble::Unique(text) | Trouble::Other(text) => {
                StoreError::Other(path, text)
            }
        }
    }

    /// Says what ended an attempt to connect to this server.
    pub(super) fn of_connecting(server: &str, error: &Error) -> Trouble {
        if let Some(refusal) = error.as_db_error() {
            return match of_code(refusal.code().code(), Phase::Connecting, told(refusal)) {
                Trouble::Unreachable(text) => Trouble::Unreachable(format!("{server}: {text}")),
                other => other,
            };
        }
        let text = format!("{server}: {}", chain(error));
        // The library has no better way to tell these two.
        match error.to_string().as_str() {
            "invalid configuration" => {
                Trouble::LoginRefused(format!("{server}: the server asks for a password, and none is given"))
            }
            "authentication error" => Trouble::LoginRefused(text),
            "error performing TLS handshake" => Trouble::Tls(text),
            // A server of TLS 1.3 refuses a client's certificate after the handshake.
            _ if is_of_tls(error) => Trouble::Tls(text),
            _ => Trouble::Unreachable(text),
        }
    }

    /// Says what became of a statement.
    pub(super) fn of_statement(error: &Error) -> Trouble {
        match error.as_db_error() {
            Some(answer) if is_fatal(answer) => Trouble::Lost(told(answer)),
            Some(answer) => of_code(answer.code().code(), Phase::Working, told(answer)),
            None => Trouble::Lost(chain(error)),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Trouble {}

/// When an error came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Working,
}

/// Maps an SQLSTATE.
fn of_code(code: &str, phase: Phase, text: String) -> Trouble {
    match code {
        "3D000" => Trouble::LoginRefused(text),
        // 40003: the server itself doesn't know. 57P0x: shut down, crashed, starting up, dropped, idle for too long.
        "40003" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "53300" => gone(phase, text),
        "40001" | "40P01" | "55P03" => Trouble::Retry(text),
        "42501" => Trouble::NoRights(text),
        "25006" => Trouble::ReadOnly(text),
        "3F000" | "42P01" => Trouble::Missing(text),
        "23505" | "42P06" | "42P07" => Trouble::Unique(text),
        "53100" => Trouble::Full(text),
        _ if code.starts_with("28") => Trouble::LoginRefused(text),
        // What a pooler says when it can't reach its server.
        _ if code.starts_with("08") => gone(phase, text),
        _ => Trouble::Other(text),
    }
}

fn gone(phase: Phase, text: String) -> Trouble {
    if phase == Phase::Connecting { Trouble::Unreachable(text) } else { Trouble::Lost(text) }
}

/// Tells whether the server ends the connection with this error.
pub(super) fn is_fatal(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

fn told(error: &DbError) -> String {
    one_line(&format!("{} (SQLSTATE {})", error.message(), error.code().code()))
}

/// Returns the error and its causes, without what merely says that there is a cause.
fn chain(error: &Error) -> String {
    let mut cause = error.source();
    let mut text = if cause.is_some() { String::new() } else { error.to_string() };
    while let Some(error) = cause {
        let said = of_system(error);
        if !text.contains(&said) {
            text = if text.is_empty() { said } else { format!("{text}: {said}") };
        }
        cause = error.source();
    }
    one_line(&text)
}

fn of_system(error: &(dyn std::error::Error + 'static)) -> String {
    error.downcast_ref::<io::Error>().map_or_else(|| error.to_string(), plain)
}

/// Returns the system's words without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn is_of_tls(error: &Error) -> bool {
    let io = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    let cause = io.and_then(io::Error::get_ref).and_then(|cause| cause.downcast_ref::<rustls::Error>());
    cause.is_some()
}

/// Makes one line of a text from elsewhere, which could also hold a terminal's commands.
pub(super) fn one_line(text: &str) -> String {
    text.split(|char: char| char.is_control() || char.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        use Phase::{Connecting, Working};
        type Kind = fn(String) -> Trouble;
        let rows: &[(&str, Phase, Kind)] = &[
            ("28P01", Connecting, Trouble::LoginRefused),
            ("28000", Connecting, Trouble::LoginRefused),
            ("3D000", Connecting, Trouble::LoginRefused),
            ("42501", Connecting, Trouble::NoRights),
            ("57P01", Connecting, Trouble::Unreachable),
            ("57P02", Connecting, Trouble::Unreachable),
            ("57P03", Connecting, Trouble::Unreachable),
            ("53300", Connecting, Trouble::Unreachable),
            ("08P01", Connecting, Trouble::Unreachable),
            ("08006", Connecting, Trouble::Unreachable),
            ("55000", Connecting, Trouble::Other),
            ("57P01", Working, Trouble::Lost),
            ("57P02", Working, Trouble::Lost),
            ("57P03", Working, Trouble::Lost),
            ("57P05", Working, Trouble::Lost),
            ("53300", Working, Trouble::Lost),
            ("08006", Working, Trouble::Lost),
            ("40003", Working, Trouble::Lost),
            ("40001", Working, Trouble::Retry),
            ("40P01", Working, Trouble::Retry),
            ("55P03", Working, Trouble::Retry),
            ("42501", Working, Trouble::NoRights),
            ("25006", Working, Trouble::ReadOnly),
            ("3F000", Working, Trouble::Missing),
            ("42P01", Working, Trouble::Missing),
            ("23505", Working, Trouble::Unique),
            ("42P06", Working, Trouble::Unique),
            ("42P07", Working, Trouble::Unique),
            ("53100", Working, Trouble::Full),
            ("53200", Working, Trouble::Other),
            ("57014", Working, Trouble::Other),
            ("42601", Working, Trouble::Other),
            ("XX000", Working, Trouble::Other),
        ];
        for (code, phase, kind) in rows {
            assert_eq!(of_code(code, *phase, "text".to_owned()), kind("text".to_owned()), "{code}");
        }
    }

    #[test]
    fn texts_are_one_line() {
        assert_eq!(one_line("a\nb\r\n  c\t\u{1b}[31md"), "a b c [31md");
        assert_eq!(plain(&io::Error::from_raw_os_error(nix::libc::ECONNREFUSED)), "connection refused");
    }
}
