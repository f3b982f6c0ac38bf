//! Fuzzers of all that idem reads and of what it shows: params, policies, command lines, claims.
//!
//! Each changes the inputs of its committed corpus (`tests/fuzz/corpus/`), keeps those that make the program do something
//! new, and holds what comes of them against something that says it in another way: another reader, a model, or itself.
//! They run with the stable toolchain, as any test. `IDEM_TEST_SEED` gives a run again, `IDEM_TEST_FULL=1` makes it long.

mod allocations;
mod args;
mod drive;
mod envelope;
mod linear;
mod mutate;
mod params;
mod policy;
mod reference;
mod rng;
mod tame;
mod value;
