//! Black-box tests of the `idem` program: real processes against the contract, one module a subject.
//!
//! They need `sh`, the `sqlite3` program and `strace`; some need root or user namespaces and say so.

mod arrivals;
mod bad_input;
mod bad_store;
mod claim_first;
mod env;
mod environment;
mod hands;
mod identity;
mod json;
mod mismatch;
mod nested;
mod outcomes;
mod output;
mod owners;
mod resolving;
mod terminal;
mod unrecorded;
