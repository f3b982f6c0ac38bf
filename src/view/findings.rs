//! What `idem doctor` found, as lines and as JSON.

use serde::Serialize;

use super::envelope::line;
use super::escape::escape;
use crate::domain::health::{Finding, Level};

/// The whole look, as JSON.
#[derive(Serialize, Debug)]
pub struct Health<'a> {
    /// The store's path.
    pub store: Option<String>,
    /// What decided on it: `--store`, `IDEM_STORE` or `default`.
    pub decided_by: &'a str,
    /// The version of idem.
    pub idem: &'a str,
    /// The version of SQLite.
    pub sqlite: &'a str,
    /// The worst level among the findings.
    pub level: &'static str,
    /// What was found, in the order of looking.
    pub findings: Vec<FindingFields>,
}

/// One finding.
#[derive(Serialize, Debug)]
pub struct FindingFields {
    check: &'static str,
    level: &'static str,
    message: String,
    hint: Option<String>,
}

impl From<&Finding> for FindingFields {
    fn from(finding: &Finding) -> Self {
        FindingFields {
            check: finding.check,
            level: finding.level.as_str(),
            message: finding.message.clone(),
            hint: finding.hint.clone(),
        }
    }
}

impl Health<'_> {
    /// Returns it as one line with its line break.
    pub fn line(&self) -> String {
        line(self)
    }
}

/// Returns the worst level of these findings.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Fine)
}

/// Returns the findings for people, one a line, what to do on a line of its own.
pub fn findings_text(findings: &[Finding], colored: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        let (mark, color) = match finding.level {
            Level::Fine => ("ok  ", "\x1b[32m"),
            Level::Note => ("note", "\x1b[33m"),
            Level::Attention => ("!!  ", "\x1b[1;97;41m"),
            Level::Unusable => ("!!! ", "\x1b[1;97;41m"),
        };
        let mark = if colored { format!("{color}{mark}\x1b[0m") } else { mark.to_owned() };
        text += &format!("{mark}  {:<11}  {}\n", finding.check, escape(&finding.message));
        if let Some(hint) = &finding.hint {
            text += &format!("      {:<11}  → {}\n", "", escape(hint));
        }
    }
    text
}
