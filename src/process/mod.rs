//! The command: spawned, its output passed on and recorded, its signals forwarded, its end waited for.
//!
//! Invariant: knows `domain` and nothing of stores, claims' rules or idem's own text. What is done with the output
//! besides passing it on is the [`Recorder`]'s.

mod limit;
mod outlet;
mod probe;
mod pump;
pub mod signals;
mod spawn;
mod tree;

pub use limit::Limit;
pub use outlet::Outlet;
pub use probe::{Probed, probe};
pub use pump::{GRACE, Ran, Recorder, pump};
pub use spawn::{Input, Program, SpawnError, spawn};
pub use tree::adopt_orphans;
