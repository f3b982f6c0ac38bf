//! Collecting a claim's group from the store, for envelopes, the story and `clear --group`.

use std::collections::HashSet;

use super::settle::output;
use crate::domain::claim::{Claim, ClaimId};
use crate::domain::group::Made;
use crate::domain::store::{Store, StoreError, Which};
use crate::view::group::{MemberFields, Node};

/// How deep a group is shown. What is below that can be asked for by its own number.
const DEPTH: usize = 50;

/// Returns the members of a claim's group, with all that is below them; `output`: with what the steps printed.
pub(super) fn members(store: &mut dyn Store, id: ClaimId, output: bool) -> anyhow::Result<Vec<Node>> {
    Ok(below(store, id, output, &mut HashSet::from([id]), 0)?)
}

/// Returns them as an envelope has them.
pub(super) fn fields(members: Vec<Node>) -> Vec<MemberFields> {
    members.into_iter().map(Into::into).collect()
}

/// `seen`: the claims whose members are shown elsewhere. A step may belong to several groups, and two calls may each have
/// come to the other's result: its members and its output are told where it comes first.
fn below(
    store: &mut dyn Store,
    id: ClaimId,
    with_output: bool,
    seen: &mut HashSet<ClaimId>,
    depth: usize,
) -> Result<Vec<Node>, StoreError> {
    let mut nodes = Vec::new();
    for member in store.group(id)? {
        nodes.push(match member.made {
            Made::Emitted { name, data } => Node::Member { name, data },
            Made::Step(claim) => {
                let first = depth < DEPTH && seen.insert(claim.id);
                let members = if first { below(store, claim.id, with_output, seen, depth + 1)? } else { Vec::new() };
                let output = if with_output && first { Some(output(store, claim.id, Which::Result)?) } else { None };
                Node::Step { claim, output, members }
            }
        });
    }
    Ok(nodes)
}

/// Returns every step below these claims, however deep, each once and as its newest attempt.
pub(super) fn all_below(store: &mut dyn Store, claims: &[Claim]) -> Result<Vec<Claim>, StoreError> {
    let mut seen: HashSet<ClaimId> = claims.iter().map(|claim| claim.id).collect();
    let mut found = Vec::new();
    let mut next: Vec<ClaimId> = claims.iter().map(|claim| claim.id).collect();
    while let Some(id) = next.pop() {
        for member in store.group(id)? {
            if let Made::Step(claim) = member.made
                && seen.insert(claim.id)
            {
                next.push(claim.id);
                found.push(*claim);
            }
        }
    }
    found.sort_unstable_by_key(|claim| claim.id);
    Ok(found)
}
