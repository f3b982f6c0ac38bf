//! What doctor looks at in a PostgreSQL store: the server and its settings. Changes nothing.

use super::{Connection, Trouble};
use super::{create, prune, rows};
use crate::domain::health::{Finding, Integrity, Level};
use crate::domain::size::Size;

/// Looks at the server, its settings and the schema.
pub(super) fn examine(conn: &mut Connection, integrity: Integrity) -> Result<Vec<Finding>, Trouble> {
    let mut findings = vec![server(conn)?, schema(conn)?, encoding(conn)?];
    findings.extend(durability(conn)?);
    let size = prune::space(conn)?.before;
    findings.push(Finding::fine("size", format!("{} in the schema idem", Size(size))));
    findings.push(whole(conn, integrity)?);
    Ok(findings)
}

fn server(conn: &mut Connection) -> Result<Finding, Trouble> {
    let version: String = one(conn, "SELECT current_setting('server_version')")?;
    let role: String = one(conn, "SELECT current_user::text")?;
    let tls: bool = one(conn, "SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)")?;
    let way = if tls { "by TLS" } else { "without TLS" };
    Ok(Finding::fine("server", format!("PostgreSQL {version}, as {role}, {way}")))
}

fn schema(conn: &mut Connection) -> Result<Finding, Trouble> {
    let version: i64 = one(conn, "SELECT version FROM idem.store")?;
    Ok(Finding::fine("schema", format!("version {version}, of {} known", create::VERSION)))
}

fn encoding(conn: &mut Connection) -> Result<Finding, Trouble> {
    let encoding: String = one(conn, "SELECT current_setting('server_encoding')")?;
    Ok(if encoding.eq_ignore_ascii_case("UTF8") {
        Finding::fine("encoding", encoding)
    } else {
        Finding::attention("encoding", format!("{encoding} can't take every text"), "use a database with encoding UTF8")
    })
}

/// What a crash of the server, or the loss of it, can take along.
fn durability(conn: &mut Connection) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for (setting, risk) in [
        ("fsync", "a power cut can lose claims, and damage the database"),
        ("full_page_writes", "a power cut can damage the database"),
    ] {
        let value: String = one(conn, &format!("SELECT current_setting('{setting}')"))?;
        findings.push(if value == "on" {
            Finding::fine("sync", format!("{setting} is on"))
        } else {
            Finding::attention("sync", format!("{setting} is {value}: {risk}"), format!("set {setting} = on"))
        });
    }
    let commit: String = one(conn, "SELECT current_setting('synchronous_commit')")?;
    findings.push(if commit == "off" {
        Finding::fine("sync", "synchronous_commit is off here; idem switches it on for claims and outcomes")
    } else {
        Finding::fine("sync", format!("claims and outcomes are synced (synchronous_commit is {commit})"))
    });
    let standbys: String = one(conn, "SELECT current_setting('synchronous_standby_names')")?;
    if standbys.is_empty() {
        let message =
            "no synchronous standby: a fail-over to a copy that lags can lose claims, and a call can run twice";
        findings.push(Finding::new("failover", Level::Note, message));
    } else {
        findings.push(Finding::fine("failover", format!("synchronous standbys: {standbys}")));
    }
    Ok(findings)
}

/// Looks whether what the rows say of each other is so. The pages are the server's own affair.
fn whole(conn: &mut Connection, integrity: Integrity) -> Result<Finding, Trouble> {
    if integrity == Integrity::None {
        return Ok(Finding::new("integrity", Level::Note, "not looked at"));
    }
    let arbiters: i64 = one(
        conn,
        "SELECT count(*) FROM pg_index WHERE indisunique AND indisvalid
         AND indexrelid IN (to_regclass('idem.claim_holder'), to_regclass('idem.claim_turn'))",
    )?;
    if arbiters != 2 {
        let hint = "run nothing until they are made again: docs/postgres.md has their definition";
        return Ok(Finding::attention(
            "integrity",
            "a unique index that keeps calls from running twice is missing",
            hint,
        ));
    }
    if integrity == Integrity::Quick {
        return Ok(Finding::fine("integrity", "the arbiting indexes are there (--integrity full looks at the rows)"));
    }
    let twice: i64 = one(
        conn,
        "SELECT count(*) FROM (SELECT 1 FROM idem.claim WHERE state IN ('running', 'completed', 'held')
         GROUP BY key HAVING count(*) > 1) AS twice",
    )?;
    Ok(if twice == 0 {
        Finding::fine("integrity", "whole: the arbiting indexes are there, and no key is held twice")
    } else {
        let hint = "restore the database from a backup, or have its indexes built anew (REINDEX)";
        Finding::attention("integrity", format!("{twice} keys are held by more than one claim"), hint)
    })
}

fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(conn: &mut Connection, sql: &str) -> Result<T, Trouble> {
    let found = conn.query(sql, &[])?;
    let row = found.first().ok_or_else(|| Trouble::Other(format!("no answer to {sql}")))?;
    rows::column(row, 0)
}
