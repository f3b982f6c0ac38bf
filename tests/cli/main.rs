//! Black-box tests of the `idem` program: real processes against the contract, one module a subject.
//!
//! They need `sh`, `curl`, `sqlite3`, `strace`, `script`, `setsid`, `nohup` and `timeout`; some need root or user namespaces and say so.

mod arrivals;
mod background;
mod bad_input;
mod bad_store;
mod claim_first;
mod doctor;
mod env;
mod environment;
mod faults;
mod hands;
mod identity;
mod inputs;
mod json;
mod late_truth;
mod limits;
mod marks;
mod marks_refused;
mod migration;
mod mismatch;
mod nested;
mod outcomes;
mod output;
mod owners;
mod probes;
mod probes_waiting;
mod prune;
mod reconcile;
mod recording;
mod resend;
mod resolving;
mod signals;
mod stats;
mod streams;
mod subst;
mod terminal;
mod ttl;
mod unrecorded;
