//! A group: as the `members` of an envelope, and as a tree with states.

use serde::Serialize;
use serde_json::value::RawValue;

use super::envelope::{Envelope, Output, raw};
use super::escape::escape;
use super::words;
use crate::domain::claim::Claim;

/// A member, with what is below it.
#[derive(Debug)]
pub enum Node {
    /// What a command emitted.
    Member {
        /// Its name.
        name: String,
        /// Its value, JSON.
        data: Option<String>,
    },
    /// A call of its own.
    Step {
        /// Its newest attempt.
        claim: Box<Claim>,
        /// What it printed, where that is wanted.
        output: Option<Output>,
        /// What it made in turn.
        members: Vec<Node>,
    },
}

/// A member's fields (design §12, JSON shapes).
#[derive(Serialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum MemberFields {
    /// `{"kind":"member","name":…,"data":…}`
    Member {
        /// Its name.
        name: String,
        /// Its value; null where it was emitted without one.
        data: Option<Box<RawValue>>,
    },
    /// `{"kind":"step", …the step's envelope}`
    Step(Box<Envelope>),
}

impl From<Node> for MemberFields {
    fn from(node: Node) -> Self {
        match node {
            Node::Member { name, data } => MemberFields::Member { name, data: data.and_then(raw) },
            Node::Step { claim, output, members } => {
                let message = format!("step {} is {}", claim.id, claim.state);
                let mut envelope = Envelope::of_claim(&claim, message, output);
                envelope.members = members.into_iter().map(Into::into).collect();
                MemberFields::Step(Box::new(envelope))
            }
        }
    }
}

/// Returns the tree, a line for each member.
pub fn tree(members: &[Node]) -> Vec<String> {
    let mut lines = Vec::new();
    grow(members, "", &mut lines);
    lines
}

fn grow(members: &[Node], indent: &str, lines: &mut Vec<String>) {
    for (index, node) in members.iter().enumerate() {
        let last = index + 1 == members.len();
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        match node {
            Node::Member { name, data } => {
                let data =
                    data.as_ref().map_or(String::new(), |data| format!("  {}", words::shorten(&escape(data), 100)));
                lines.push(format!("{indent}{branch}{}{data}", escape(name)));
            }
            Node::Step { claim, members, .. } => {
                let call = format!("{}  {}", escape(&claim.tool), words::shorten(&escape(&claim.params), 60));
                let state = match claim.state.holds_key() || claim.exit_code.is_none() {
                    true => claim.state.to_string(),
                    false => format!("{}, it {}", claim.state, words::end_of(claim)),
                };
                lines.push(format!("{indent}{branch}claim {}, {state}: {call}", claim.id));
                grow(members, &format!("{indent}{below}"), lines);
            }
        }
    }
}
