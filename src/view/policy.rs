//! The policy as people and programs see it.

use std::path::Path;

use serde_json::{Map, json};

use super::escape::escape;
use crate::domain::policy::{Policy, Problem, Rules};

/// Every problem on a line of its own, as compilers have it: `FILE:LINE: what is wrong`.
pub fn problems(path: &Path, problems: &[Problem]) -> String {
    let path = path.display().to_string();
    problems.iter().map(|problem| format!("{}:{}: {}\n", escape(&path), problem.line, escape(&problem.text))).collect()
}

/// What is said of a policy without a problem.
pub fn sound(path: &Path, policy: &Policy) -> String {
    let sections = match policy.tools.len() {
        1 => "1 section for tools".to_owned(),
        count => format!("{count} sections for tools"),
    };
    format!("{}: no problem; {sections}\n", escape(&path.display().to_string()))
}

/// What applies to a tool: a key a line, with the line and the section that it comes from.
pub fn table(tool: &str, path: &Path, rules: &Rules) -> String {
    let path = path.display().to_string();
    let entries = rules.entries();
    if entries.is_empty() {
        return format!("{} says nothing of {}\n", escape(&path), escape(tool));
    }
    let rows: Vec<(String, String)> = entries
        .iter()
        .map(|entry| {
            let said = format!("{} = {}", entry.key, escape(entry.text));
            (said, format!("{}:{} [{}]", escape(&path), entry.place.line, escape(&entry.place.section)))
        })
        .collect();
    let width = rows.iter().map(|(said, _)| unicode_width::UnicodeWidthStr::width(said.as_str())).max().unwrap_or(0);
    rows.iter()
        .map(|(said, place)| {
            let gap = width - unicode_width::UnicodeWidthStr::width(said.as_str());
            format!("{said}{}  {place}\n", " ".repeat(gap))
        })
        .collect()
}

/// The same as one line of JSON; the values as they are written in the file.
pub fn json(tool: &str, path: &Path, rules: &Rules) -> String {
    let keys: Map<_, _> = rules
        .entries()
        .iter()
        .map(|entry| {
            let said = json!({"value": entry.text, "line": entry.place.line, "section": entry.place.section});
            (entry.key.to_owned(), said)
        })
        .collect();
    format!("{}\n", json!({"tool": tool, "policy": path.to_string_lossy(), "keys": keys}))
}
