//! Which database a store is in, and how to get there: what the URL says, then the environment, then libpq's defaults.
//!
//! Invariant: only [`PostgresPlace::given`] and the login have the password in them.

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;

use super::passfile;
use super::url::Url;
use crate::domain::store::StoreError;

/// Where Debian and its kin keep the server's socket.
const SOCKET_FOLDER: &str = "/var/run/postgresql";

const PORT: u16 = 5432;

/// Settings that the environment gives where the URL doesn't.
const VARIABLES: &[(&str, &str)] = &[
    ("application_name", "PGAPPNAME"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("dbname", "PGDATABASE"),
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("options", "PGOPTIONS"),
    ("passfile", "PGPASSFILE"),
    ("password", "PGPASSWORD"),
    ("port", "PGPORT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslmode", "PGSSLMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("user", "PGUSER"),
];

/// A database, and how to get there.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresPlace {
    given: String,
    shown: String,
    pub(super) servers: Vec<Server>,
    pub(super) user: String,
    pub(super) dbname: String,
    password: Option<String>,
    passfile: Option<PathBuf>,
    pub(super) options: Option<String>,
    pub(super) application_name: String,
    /// How long each server is given; `None`: as long as it takes.
    pub(super) connect_timeout: Option<Duration>,
    pub(super) session: SessionKind,
    pub(super) binding: ChannelBinding,
    pub(super) tls: TlsTerms,
    pub(super) noticing: Noticing,
}

/// One of the servers to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// At a name, or at an address written as one.
    Name(String),
    /// At this address; the name is what its certificate must be for.
    Address(IpAddr, Option<String>),
    /// At a socket in this folder.
    Folder(PathBuf),
}

impl Host {
    /// Returns what the password file, the certificate and messages call it.
    pub(super) fn name(&self) -> String {
        match self {
            Host::Name(name) | Host::Address(_, Some(name)) => name.clone(),
            Host::Address(address, None) => address.to_string(),
            Host::Folder(folder) => folder.display().to_string(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.host.name();
        if name.contains(':') { write!(f, "[{name}]:{}", self.port) } else { write!(f, "{name}:{}", self.port) }
    }
}

/// What a server must be like (`target_session_attrs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionKind {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

/// Whether the login must be bound to the TLS connection it goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelBinding {
    Disable,
    Prefer,
    Require,
}

/// How far TLS is asked for (`sslmode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Which authorities may sign a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// Those that the system trusts.
    System,
    /// Those in this file.
    File(PathBuf),
    /// None was named: those in libpq's own file, where that is there.
    Unnamed,
}

/// What is asked of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsTerms {
    pub(super) mode: SslMode,
    pub(super) roots: Roots,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    /// Whether TLS begins without asking the server first.
    pub(super) direct: bool,
    /// `~/.postgresql`, where libpq looks for what isn't named.
    pub(super) folder: Option<PathBuf>,
}

/// How a cut network is noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noticing {
    pub(super) keepalives: bool,
    pub(super) idle: Duration,
    pub(super) interval: Duration,
    pub(super) count: u32,
    pub(super) unacknowledged: Duration,
}

impl PostgresPlace {
    /// Reads a URL; `env` and `home` (the password file, certificates) give what it leaves open.
    pub fn parse(
        url: &str,
        env: &dyn Fn(&str) -> Option<String>,
        home: Option<&Path>,
    ) -> Result<PostgresPlace, StoreError> {
        Self::read(url, env, home).map_err(StoreError::BadUrl)
    }

    fn read(url: &str, env: &dyn Fn(&str) -> Option<String>, home: Option<&Path>) -> Result<PostgresPlace, String> {
        let settings = Settings { url: Url::parse(url)?, env };
        let user = match settings.text("user") {
            Some(user) => user,
            None => account(env).ok_or("no user is given, and this account has no name")?,
        };
        let text_or = |name: &str, default: &str| settings.text(name).unwrap_or_else(|| default.to_owned());
        refuse_unfit("gssencmode", &text_or("gssencmode", "disable"), &["disable", "prefer"])?;
        refuse_unfit(
            "client_encoding",
            &text_or("client_encoding", "auto"),
            &["auto", "UTF8", "utf8", "UTF-8", "utf-8"],
        )?;
        let fallback = text_or("fallback_application_name", "idem");
        Ok(PostgresPlace {
            given: url.to_owned(),
            shown: settings.url.shown.clone(),
            servers: servers(&settings)?,
            dbname: text_or("dbname", &user),
            user,
            password: settings.text("password"),
            passfile: settings.text("passfile").map(PathBuf::from).or_else(|| Some(home?.join(".pgpass"))),
            options: settings.text("options"),
            application_name: text_or("application_name", &fallback),
            connect_timeout: connect_timeout(&settings)?,
            session: settings.word("target_session_attrs", SESSION_KINDS, SessionKind::Any)?,
            binding: settings.word("channel_binding", BINDINGS, ChannelBinding::Prefer)?,
            tls: tls_terms(&settings, home)?,
            noticing: noticing(&settings)?,
        })
    }

    /// Bounds how long connecting may take, each server.
    pub(super) fn connect_within(&mut self, at_most: Duration) {
        self.connect_timeout = Some(self.connect_timeout.map_or(at_most, |usual| usual.min(at_most)));
    }

    /// Returns the URL without the password: what people are shown.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the whole URL, with the password: for the environment of the command.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Returns what tells one store from another: the servers and the database, however they were said.
    pub fn identity(&self) -> String {
        let servers: Vec<String> = self.servers.iter().map(|server| server.to_string().to_lowercase()).collect();
        format!("{}/{}", servers.join(","), self.dbname)
    }

    /// Returns the password for a server: the one that was given, or the password file's.
    pub(super) fn password(&self, server: &Server) -> Option<String> {
        if self.password.is_some() {
            return self.password.clone();
        }
        let host = match &server.host {
            // The password file calls the default socket so.
            Host::Folder(folder) if folder == Path::new(SOCKET_FOLDER) => "localhost".to_owned(),
            host => host.name(),
        };
        passfile::password(self.passfile.as_deref()?, &host, server.port, &self.dbname, &self.user)
    }
}

impl fmt::Debug for PostgresPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresPlace").field(&self.shown).finish()
    }
}

/// Where settings come from.
struct Settings<'env> {
    url: Url,
    env: &'env dyn Fn(&str) -> Option<String>,
}

impl Settings<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let variable = || VARIABLES.iter().find(|(setting, _)| *setting == name);
        let from_env = || (self.env)(variable()?.1).filter(|value| !value.is_empty());
        self.url.get(name).map(str::to_owned).or_else(from_env)
    }

    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)], default: T) -> Result<T, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let names = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| format!("{name} is none of {}", names()))
    }

    fn number(&self, name: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| format!("{name} is not a whole number"))
    }
}

const SSL_MODES: &[(&str, SslMode)] = &[
    ("disable", SslMode::Disable),
    // libpq tries without TLS first; to a server that takes both the difference is only less safety.
    ("allow", SslMode::Prefer),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

const SESSION_KINDS: &[(&str, SessionKind)] = &[
    ("any", SessionKind::Any),
    ("read-write", SessionKind::ReadWrite),
    ("read-only", SessionKind::ReadOnly),
    ("primary", SessionKind::Primary),
    ("standby", SessionKind::Standby),
    ("prefer-standby", SessionKind::PreferStandby),
];

const BINDINGS: &[(&str, ChannelBinding)] =
    &[("disable", ChannelBinding::Disable), ("prefer", ChannelBinding::Prefer), ("require", ChannelBinding::Require)];

fn refuse_unfit(name: &str, value: &str, fit: &[&str]) -> Result<(), String> {
    if fit.contains(&value) {
        Ok(())
    } else {
        Err(format!("idem can't do what {name} asks for; it can do {}", fit.join(", ")))
    }
}

/// Pairs the lists of hosts, addresses and ports.
fn servers(settings: &Settings<'_>) -> Result<Vec<Server>, String> {
    let list = |name| settings.text(name).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
    let (hosts, addresses) = (list("host"), list("hostaddr"));
    let count = hosts.as_ref().or(addresses.as_ref()).map_or(1, Vec::len);
    if addresses.as_ref().is_some_and(|addresses| addresses.len() != count) {
        return Err("there must be as many hostaddr as hosts".to_owned());
    }
    let ports = list("port").unwrap_or_default();
    if ports.len() > 1 && ports.len() != count {
        return Err("there must be one port, or as many as hosts".to_owned());
    }
    (0..count)
        .map(|at| {
            let item =
                |list: &Option<Vec<String>>| list.as_ref().map(|list| list[at].clone()).filter(|text| !text.is_empty());
            let port = ports.get(if ports.len() == 1 { 0 } else { at }).map_or("", String::as_str);
            Ok(Server { host: host(item(&hosts), item(&addresses))?, port: read_port(port)? })
        })
        .collect()
}

fn host(name: Option<String>, address: Option<String>) -> Result<Host, String> {
    if let Some(address) = address {
        let address = address.parse().map_err(|_| "hostaddr is not an IP address")?;
        return Ok(Host::Address(address, name));
    }
    let Some(name) = name else {
        let folder = PathBuf::from(SOCKET_FOLDER);
        return Ok(if folder.is_dir() { Host::Folder(folder) } else { Host::Name("localhost".to_owned()) });
    };
    if name.starts_with('/') {
        return Ok(Host::Folder(PathBuf::from(name)));
    }
    // Neither a name nor an address has these, and a message would show them.
    if name.chars().any(|char| char.is_whitespace() || char.is_control() || "@/?#:".contains(char))
        && name.parse::<IpAddr>().is_err()
        && !is_scoped(&name)
    {
        return Err("its host is neither a name nor an address nor the folder of a socket".to_owned());
    }
    match name.parse() {
        Ok(address) => Ok(Host::Address(address, None)),
        Err(_) => Ok(Host::Name(name)),
    }
}

/// Tells whether it is an IPv6 address of one network, such as `fe80::1%eth0`.
fn is_scoped(name: &str) -> bool {
    name.split_once('%').is_some_and(|(address, scope)| {
        address.parse::<std::net::Ipv6Addr>().is_ok() && scope.chars().all(|char| char.is_ascii_alphanumeric())
    })
}

fn read_port(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Ok(PORT);
    }
    // The number itself isn't told: with a slash in the password, it is part of that.
    text.parse().ok().filter(|port| *port != 0).ok_or_else(|| "its port is not a number from 1 to 65535".to_owned())
}

fn connect_timeout(settings: &Settings<'_>) -> Result<Option<Duration>, String> {
    let seconds = settings.number("connect_timeout")?.unwrap_or(10);
    // libpq: zero and less mean without limit.
    Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs))
}

fn tls_terms(settings: &Settings<'_>, home: Option<&Path>) -> Result<TlsTerms, String> {
    let roots = match settings.text("sslrootcert") {
        None => Roots::Unnamed,
        Some(text) if text == "system" => Roots::System,
        Some(text) => Roots::File(PathBuf::from(text)),
    };
    // Anybody can have a certificate of a public authority, so the name must be checked as well.
    let default = if roots == Roots::System { SslMode::VerifyFull } else { SslMode::Prefer };
    let mode = settings.word("sslmode", SSL_MODES, default)?;
    if roots == Roots::System && mode != SslMode::VerifyFull {
        return Err("sslrootcert=system needs sslmode=verify-full".to_owned());
    }
    let direct = settings.word("sslnegotiation", &[("postgres", false), ("direct", true)], false)?;
    if direct && matches!(mode, SslMode::Disable | SslMode::Prefer) {
        return Err("sslnegotiation=direct needs sslmode=require or more".to_owned());
    }
    let path = |name| settings.text(name).map(PathBuf::from);
    let folder = home.map(|home| home.join(".postgresql"));
    Ok(TlsTerms { mode, roots, certificate: path("sslcert"), key: path("sslkey"), direct, folder })
}

/// libpq leaves these to the system, which notices a cut network after two hours. An owner can't wait so long.
fn noticing(settings: &Settings<'_>) -> Result<Noticing, String> {
    let positive = |name, default| {
        let number = settings.number(name)?.unwrap_or_default();
        Ok::<u64, String>(u64::try_from(number).ok().filter(|number| *number > 0).unwrap_or(default))
    };
    Ok(Noticing {
        keepalives: settings.number("keepalives")? != Some(0),
        idle: Duration::from_secs(positive("keepalives_idle", 15)?),
        interval: Duration::from_secs(positive("keepalives_interval", 5)?),
        count: u32::try_from(positive("keepalives_count", 3)?).unwrap_or(3),
        unacknowledged: Duration::from_millis(positive("tcp_user_timeout", 30_000)?),
    })
}

/// Returns this account's name. The file is read as it is: a look-up would load libraries into a static program.
fn account(env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let said = ["USER", "LOGNAME"].iter().find_map(|name| env(name).filter(|value| !value.is_empty()));
    said.or_else(|| {
        let uid = geteuid().to_string();
        let lines = fs::read_to_string("/etc/passwd").ok()?;
        let name = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == uid).then(|| name.to_owned())
        };
        lines.lines().find_map(name)
    })
}

#[cfg(test)]
mod tests;
