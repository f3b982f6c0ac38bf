//! A `postgres://` URL, taken apart as libpq does it.
//!
//! Invariant: no error quotes what could be a part of the password. A password with a raw `/` or `@` in it is cut at the
//! wrong place, so any part of such a URL could be one.

use std::collections::BTreeMap;

/// What libpq may be told, and idem follows.
const PARAMETERS: &[&str] = &[
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "gssencmode",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "options",
    "passfile",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

const RAW_AT: &str = "it has an @ that isn't percent-encoded; in a user or password write %40 for @, %2F for /, %3A for :, \
                      %3F for ?, %23 for # and %25 for %";

/// A URL's parts, decoded.
pub(super) struct Url {
    /// The URL without its password.
    pub(super) shown: String,
    settings: BTreeMap<&'static str, String>,
}

impl Url {
    /// Takes a URL apart, or says what is wrong with it.
    pub(super) fn parse(url: &str) -> Result<Url, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if !["postgres", "postgresql"].contains(&scheme) {
            return Err("it doesn't begin with postgres:// or postgresql://".to_owned());
        }
        if rest.chars().any(|char| char.is_whitespace() || char.is_control()) {
            return Err("it has a blank or a control character in it; percent-encode it".to_owned());
        }
        // As libpq looks for them: a user is there only where an @ comes before any slash.
        let (login, rest) = match rest.split_once('@') {
            Some((login, rest)) if !login.contains('/') => (Some(login), rest),
            _ => (None, rest),
        };
        if rest.contains('@') {
            return Err(RAW_AT.to_owned());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, dbname) = place.split_once('/').unwrap_or((place, ""));

        let mut parsed = Url { shown: String::new(), settings: BTreeMap::new() };
        let user = parsed.read_login(login.unwrap_or_default())?;
        parsed.read_hosts(hosts)?;
        parsed.set("dbname", decode(dbname)?);
        let public = parsed.read_query(query)?;

        let login = if user.is_empty() { String::new() } else { format!("{user}@") };
        let query = if public.is_empty() { String::new() } else { format!("?{}", public.join("&")) };
        parsed.shown = format!("{scheme}://{login}{place}{query}");
        Ok(parsed)
    }

    /// Returns a setting that the URL gives; an empty one counts as not given.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    fn set(&mut self, name: &'static str, value: String) {
        if !value.is_empty() {
            self.settings.insert(name, value);
        }
    }

    /// Reads `user:password` and returns the user as it was written.
    fn read_login<'url>(&mut self, login: &'url str) -> Result<&'url str, String> {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        self.set("user", decode(user)?);
        self.set("password", decode(password)?);
        Ok(user)
    }

    /// Reads `host:port,host:port` into the two lists that libpq makes of it.
    fn read_hosts(&mut self, text: &str) -> Result<(), String> {
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        for item in text.split(',') {
            let (host, port) = split_port(item)?;
            hosts.push(decode(host)?);
            ports.push(decode(port)?);
        }
        if ports.iter().any(|port| !port.is_empty()) {
            self.set("port", ports.join(","));
        }
        if hosts.iter().any(|host| !host.is_empty()) {
            self.set("host", hosts.join(","));
        }
        Ok(())
    }

    /// Reads the parameters and returns those that may be shown, as they were written.
    fn read_query<'url>(&mut self, query: &'url str) -> Result<Vec<&'url str>, String> {
        let mut public = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("it has a parameter without =")?;
            let (mut name, mut value) = (decode(name)?, decode(value)?);
            // Java's way to say it, which libpq knows too.
            if name == "ssl" && value == "true" {
                (name, value) = ("sslmode".to_owned(), "require".to_owned());
            }
            let known = PARAMETERS.iter().find(|known| **known == name).ok_or_else(|| unknown(&name))?;
            if *known != "password" {
                public.push(pair);
            }
            self.set(known, value);
        }
        Ok(public)
    }
}

fn unknown(name: &str) -> String {
    let word = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if !name.is_empty() && name.len() <= 40 && name.chars().all(word) {
        format!("idem doesn't know its parameter {name}")
    } else {
        "it has a parameter that idem doesn't know".to_owned()
    }
}

fn split_port(item: &str) -> Result<(&str, &str), String> {
    if let Some(inner) = item.strip_prefix('[') {
        let (host, rest) = inner.split_once(']').ok_or("an address in it has no closing ]")?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, port)),
            None if rest.is_empty() => Ok((host, "")),
            None => Err("something other than a port follows an address in brackets".to_owned()),
        };
    }
    let (host, port) = item.split_once(':').unwrap_or((item, ""));
    if port.contains(':') {
        return Err("it has too many colons; an IPv6 address needs brackets, as in [::1]:5432".to_owned());
    }
    Ok((host, port))
}

/// Decodes `%41` and the like.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { decoded_byte(rest.next(), rest.next())? } else { byte });
    }
    String::from_utf8(bytes).map_err(|_| "it has percent-encoded bytes that are no UTF-8".to_owned())
}

fn decoded_byte(high: Option<u8>, low: Option<u8>) -> Result<u8, String> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let wrong = || "it has a % that two hex digits don't follow; write %25 for %".to_owned();
    let byte = digit(high).zip(digit(low)).map(|(high, low)| high * 16 + low).ok_or_else(wrong)?;
    // The protocol ends its texts with such a byte.
    match u8::try_from(byte) {
        Ok(byte) if byte != 0 => Ok(byte),
        _ => Err("it has a %00 in it, which no setting can hold".to_owned()),
    }
}
