//! The members of a group, in short.

use serde_json::Value;

/// A group on one line: `NAME=DATA` for an emitted member, `TOOL STATE` for a step, with its own group in brackets where
/// it has one.
#[track_caller]
pub(crate) fn outline(envelope: &Value) -> String {
    let members = envelope["members"].as_array().unwrap_or_else(|| panic!("no members in {envelope}"));
    let words: Vec<String> = members.iter().map(word).collect();
    words.join(", ")
}

#[track_caller]
fn word(member: &Value) -> String {
    let text = |name: &str| member[name].as_str().unwrap_or_else(|| panic!("no {name} in {member}")).to_owned();
    match member["kind"].as_str() {
        Some("member") => format!("{}={}", text("name"), member["data"]),
        Some("step") => {
            let below = outline(member);
            let below = if below.is_empty() { below } else { format!(" [{below}]") };
            format!("{} {}{below}", text("tool"), text("state"))
        }
        kind => panic!("a member of kind {kind:?} in {member}"),
    }
}
