//! A connection to the database, as plain calls that return.
//!
//! Invariant: nothing waits without a limit, and a connection is never left inside a transaction that failed: it is
//! closed, and the server rolls back.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::config::{ChannelBinding as Binding, SslMode as TlsMode, SslNegotiation};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Error, Row};

use super::dial::dial;
use super::place::{ChannelBinding, Host, PostgresPlace, Server, SessionKind, SslMode};
use super::tls::Tls;
use super::trouble::{Trouble, is_fatal};

/// How long an answer may take.
pub const ANSWER: Duration = Duration::from_secs(10);

/// What begins a transaction. Its commit waits for the disk, whatever the server or the role say: see `rows`.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
  SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END";

/// How long closing may take: what is still to be written is a few bytes, and nobody waits for an answer.
const GOODBYE: Duration = Duration::from_millis(50);

/// `connect_timeout=0` asks for no limit, which the clock can't say.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

/// A connection.
pub struct Connection {
    runtime: Runtime,
    /// Gone once the connection is broken or given up.
    link: Option<Link>,
    /// Why it is gone.
    ended: Option<String>,
    patience: Duration,
    in_transaction: bool,
}

/// The two halves of an open connection: one takes statements, the other must be driven for anything to move.
struct Link {
    client: Client,
    wire: Box<dyn Messages>,
    /// Whether a notification came that nobody was told of.
    notified: bool,
}

/// The half that moves the bytes, whatever they go through.
trait Messages: Send {
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>>;
    fn parameter(&self, name: &str) -> Option<&str>;
}

impl<S, T> Messages for tokio_postgres::Connection<S, T>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> {
        tokio_postgres::Connection::poll_message(self, cx)
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        tokio_postgres::Connection::parameter(self, name)
    }
}

impl Connection {
    /// Connects to the first of the place's servers that is reached and fits, each within the place's `connect_timeout`.
    pub fn open(place: &PostgresPlace) -> Result<Connection, Trouble> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Trouble::Other(super::trouble::plain(&error)))?;
        let link = runtime.block_on(first_that_fits(place))?;
        Ok(Connection { runtime, link: Some(link), ended: None, patience: ANSWER, in_transaction: false })
    }

    /// Sets how long an answer may take from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Tells whether nothing can be asked any more.
    pub fn is_broken(&self) -> bool {
        self.link.is_none()
    }

    /// Asks one statement, in one round trip, and returns its rows.
    pub fn query(&mut self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, Trouble> {
        self.ask(async |client| client.query_typed(sql, params).await)
    }

    /// Asks one statement, in one round trip, and returns how many rows it changed.
    pub fn execute(&mut self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<u64, Trouble> {
        let params: Vec<_> = params.iter().map(|(value, kind)| (*value, kind.clone())).collect();
        self.ask(async |client| client.execute_typed(sql, &params).await)
    }

    /// Asks any number of statements without parameters, in one round trip and one transaction.
    pub fn batch(&mut self, sql: &str) -> Result<(), Trouble> {
        self.ask(async |client| client.batch_execute(sql).await)
    }

    /// Begins a transaction, each of whose statements sees what was committed before it.
    pub fn begin(&mut self) -> Result<(), Trouble> {
        self.batch(BEGIN)?;
        self.in_transaction = true;
        Ok(())
    }

    /// Commits the transaction. After [`Trouble::Lost`] nobody knows whether it was.
    pub fn commit(&mut self) -> Result<(), Trouble> {
        self.end("COMMIT")
    }

    /// Rolls the transaction back.
    pub fn rollback(&mut self) -> Result<(), Trouble> {
        self.end("ROLLBACK")
    }

    fn end(&mut self, sql: &str) -> Result<(), Trouble> {
        self.batch(sql)?;
        self.in_transaction = false;
        Ok(())
    }

    /// Waits for a notification, so long at most, and tells whether one came: now, or since somebody last asked.
    pub fn wait_for_notification(&mut self, at_most: Duration) -> Result<bool, Trouble> {
        let Some(link) = &mut self.link else { return Err(not_sent(self.ended.as_deref())) };
        let notified = poll_fn(|cx| link.poll_notified(cx));
        // Within, since the clock is the runtime's.
        let waited = self.runtime.block_on(async { timeout(at_most, notified).await });
        match waited {
            Ok(Ok(())) => Ok(true),
            Err(_) => Ok(false),
            Ok(Err(error)) => Err(self.give_up(Trouble::of_statement(&error))),
        }
    }

    /// Asks something and drives the connection until the answer is there.
    fn ask<T>(&mut self, asking: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Trouble> {
        let Some(link) = &mut self.link else { return Err(not_sent(self.ended.as_deref())) };
        let patience = self.patience;
        let answer = self.runtime.block_on(async { timeout(patience, link.drive(asking)).await });
        let trouble = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Trouble::of_statement(&error),
            Err(_) => Trouble::Lost(format!("no answer within {} ms", patience.as_millis())),
        };
        // A late answer would be taken for that of the next statement; a failed transaction refuses every one.
        let give_up = self.in_transaction || matches!(trouble, Trouble::Lost(_));
        Err(if give_up { self.give_up(trouble) } else { trouble })
    }

    fn give_up(&mut self, trouble: Trouble) -> Trouble {
        self.ended = Some(trouble.text().to_owned());
        self.close();
        trouble
    }

    /// Says goodbye, so that the server needn't find out by itself.
    fn close(&mut self) {
        let Some(Link { client, mut wire, .. }) = self.link.take() else { return };
        drop(client);
        let last = poll_fn(|cx| {
            while let Poll::Ready(message) = wire.poll_message(cx) {
                if !matches!(message, Some(Ok(_))) {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        });
        let _ = self.runtime.block_on(async { timeout(GOODBYE, last).await });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

fn not_sent(ended: Option<&str>) -> Trouble {
    Trouble::Unreachable(format!("the connection had been lost before: {}", ended.unwrap_or("closed")))
}

impl Link {
    async fn drive<T>(&mut self, asking: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let Link { client, wire, notified } = self;
        let mut asking = pin!(asking(client));
        let mut ended = None;
        poll_fn(|cx| {
            if ended.is_none() {
                ended = moved(wire.as_mut(), notified, cx).map(Result::err);
            }
            match (asking.as_mut().poll(cx), &mut ended) {
                // What ended the connection says more than that it is closed.
                (Poll::Ready(Err(error)), Some(cause)) if error.is_closed() => {
                    Poll::Ready(Err(cause.take().unwrap_or(error)))
                }
                (answer, _) => answer,
            }
        })
        .await
    }

    fn poll_notified(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let ended = moved(self.wire.as_mut(), &mut self.notified, cx);
        if std::mem::take(&mut self.notified) {
            return Poll::Ready(Ok(()));
        }
        ended.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Moves what can be moved. Returns how the connection ended, if it did.
fn moved(wire: &mut dyn Messages, notified: &mut bool, cx: &mut Context<'_>) -> Option<Result<(), Error>> {
    loop {
        match wire.poll_message(cx) {
            Poll::Ready(Some(Ok(AsyncMessage::Notification(_)))) => *notified = true,
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(error))) => return Some(Err(error)),
            Poll::Ready(None) => return Some(Ok(())),
            Poll::Pending => return None,
        }
    }
}

/// Tries the servers in order. What a server says about the login is final, as with libpq: the others are its copies.
async fn first_that_fits(place: &PostgresPlace) -> Result<Link, Trouble> {
    let mut passed_over = Vec::new();
    let mut second_choice = None;
    for server in &place.servers {
        let until = Instant::now() + place.connect_timeout.unwrap_or(NO_LIMIT);
        let late = || Trouble::Unreachable(format!("{server}: no answer in time"));
        let tried = timeout_at(until, one(place, server, until)).await;
        match tried.unwrap_or_else(|_| Err(late())) {
            Ok((link, Fit::Good)) => return Ok(link),
            Ok((link, Fit::SecondChoice)) => {
                second_choice.get_or_insert(link);
            }
            Ok((_, Fit::Not(why))) if is_for_writing(place.session) => {
                passed_over.push(Trouble::ReadOnly(format!("{server}: {why}")));
            }
            Ok((_, Fit::Not(why))) => passed_over.push(Trouble::Unreachable(format!("{server}: {why}"))),
            Err(trouble @ Trouble::Unreachable(_)) => passed_over.push(trouble),
            Err(trouble) => return Err(trouble),
        }
    }
    if let Some(link) = second_choice {
        return Ok(link);
    }
    let text = passed_over.iter().map(Trouble::text).collect::<Vec<_>>().join(", ");
    // Only where each of them answered is it their kind that is wrong.
    let all_answered = passed_over.iter().all(|trouble| matches!(trouble, Trouble::ReadOnly(_)));
    Err(if all_answered { Trouble::ReadOnly(text) } else { Trouble::Unreachable(text) })
}

async fn one(place: &PostgresPlace, server: &Server, until: Instant) -> Result<(Link, Fit), Trouble> {
    let wanted = if matches!(server.host, Host::Folder(_)) { TlsMode::Disable } else { tls_mode(place.tls.mode) };
    let mut link = match connect(place, server, until, wanted).await {
        Err(Refused { plain_could_do: true, .. }) if wanted == TlsMode::Prefer => {
            connect(place, server, until, TlsMode::Disable).await
        }
        other => other,
    }
    .map_err(|refused| refused.trouble)?;
    let fit =
        fit(&mut link, place.session).await.map_err(|error| Trouble::of_connecting(&server.to_string(), &error))?;
    Ok((link, fit))
}

/// Why a server wasn't connected to, and whether it could go without TLS.
struct Refused {
    trouble: Trouble,
    plain_could_do: bool,
}

async fn connect(place: &PostgresPlace, server: &Server, until: Instant, mode: TlsMode) -> Result<Link, Refused> {
    let wire = dial(server, &place.noticing, until).await;
    let wire = wire.map_err(|trouble| Refused { trouble, plain_could_do: false })?;
    let tls = Tls { terms: place.tls.clone(), host: server.host.name() };
    let connected = config(place, server, mode).connect_raw(wire, tls).await;
    let (client, wire) = connected.map_err(|error| {
        let trouble = Trouble::of_connecting(&server.to_string(), &error);
        // Either TLS failed, or the server's rules have no place for one who comes with TLS.
        let plain_could_do = matches!(trouble, Trouble::Tls(_))
            || error.as_db_error().is_some_and(|answer| is_fatal(answer) && answer.code().code() == "28000");
        Refused { trouble, plain_could_do }
    })?;
    Ok(Link { client, wire: Box::new(wire), notified: false })
}

fn tls_mode(mode: SslMode) -> TlsMode {
    match mode {
        SslMode::Disable => TlsMode::Disable,
        SslMode::Prefer => TlsMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => TlsMode::Require,
    }
}

fn config(place: &PostgresPlace, server: &Server, mode: TlsMode) -> Config {
    let mut config = Config::new();
    config
        .user(&place.user)
        .dbname(&place.dbname)
        .application_name(&place.application_name)
        .ssl_mode(mode)
        .ssl_negotiation(if place.tls.direct { SslNegotiation::Direct } else { SslNegotiation::Postgres })
        .channel_binding(match place.binding {
            ChannelBinding::Disable => Binding::Disable,
            ChannelBinding::Prefer => Binding::Prefer,
            ChannelBinding::Require => Binding::Require,
        });
    if let Some(options) = &place.options {
        config.options(options);
    }
    if let Some(password) = place.password(server) {
        config.password(password);
    }
    config
}

/// Whether a server is of the kind that is asked for.
enum Fit {
    Good,
    SecondChoice,
    Not(&'static str),
}

fn is_for_writing(wanted: SessionKind) -> bool {
    matches!(wanted, SessionKind::ReadWrite | SessionKind::Primary)
}

async fn fit(link: &mut Link, wanted: SessionKind) -> Result<Fit, Error> {
    if wanted == SessionKind::Any {
        return Ok(Fit::Good);
    }
    let is_standby = is_on(link, "in_hot_standby", "SELECT pg_is_in_recovery()::text").await?;
    let is_read_only = is_standby || is_on(link, "default_transaction_read_only", "SHOW transaction_read_only").await?;
    Ok(match wanted {
        SessionKind::ReadWrite if is_read_only => {
            Fit::Not("it is read-only, and target_session_attrs asks for another")
        }
        SessionKind::Primary if is_standby => Fit::Not("it is a standby, and target_session_attrs asks for another"),
        SessionKind::ReadOnly if !is_read_only => {
            Fit::Not("it is not read-only, and target_session_attrs asks for one")
        }
        SessionKind::Standby if !is_standby => Fit::Not("it is no standby, and target_session_attrs asks for one"),
        SessionKind::PreferStandby if !is_standby => Fit::SecondChoice,
        _ => Fit::Good,
    })
}

/// Servers since version 14 tell it unasked.
async fn is_on(link: &mut Link, parameter: &str, question: &str) -> Result<bool, Error> {
    if let Some(value) = link.wire.parameter(parameter) {
        return Ok(value == "on");
    }
    let rows = link.drive(async |client| client.query_typed(question, &[]).await).await?;
    Ok(rows.first().is_some_and(|row| matches!(row.get::<_, &str>(0), "on" | "true")))
}
