//! What there is when the storm is over: in the store, at the target, and on the hosts.

use std::collections::BTreeMap;

use crate::rows::Row;

/// What the oracle holds the journal against.
pub(crate) struct Standing {
    /// All attempts, oldest first.
    pub(crate) rows: Vec<Row>,
    /// The claims whose commands have sent, by key.
    pub(crate) sent: BTreeMap<String, Vec<i64>>,
    /// Whether claims are numbered without gaps.
    pub(crate) numbers_have_no_gaps: bool,
    /// Whether owners may be lost, and an answer to a person too.
    pub(crate) store_goes_away: bool,
    /// How many events of each kind a key has, and whether they stand in the order of their times.
    pub(crate) events: BTreeMap<String, (usize, bool)>,
}
