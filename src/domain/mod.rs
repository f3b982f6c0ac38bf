//! The domain: calls, keys, claims and the rules of design §§2–8, as plain values and pure functions.
//!
//! Invariant: nothing here does I/O, reads a clock or knows a terminal. Everybody may import it; it imports nobody.

pub mod arrival;
pub mod canonical;
pub mod claim;
pub mod codes;
pub mod end;
pub mod event;
pub mod group;
pub mod health;
pub mod key;
pub mod moment;
pub mod pending;
pub mod pointer;
pub mod policy;
pub mod probe;
pub mod prune;
pub mod size;
pub mod stats;
pub mod store;
pub mod timestamp;
