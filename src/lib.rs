//! idem runs a command at most once per call: it claims before acting, replays on repeat, and holds what nobody knows.
//!
//! The floor plan, top to bottom; each room knows only what stands below it:
//!
//! - `cli`: the command line, as clap sees it. `settings`: flag > environment > default; paths.
//! - `commands`: one verb a file. `ui`: the only writer of idem's own text. `exit`: the exit codes. `view`: a claim as
//!   table, story and JSON.
//! - `policy`: the operator's policy file.
//! - `store` (claims, in a file or in PostgreSQL), `process` (the command), `liveness` (is an owner alive?): know each other not at all.
//! - `lock`: byte-range locks of the operating system. `host`: what this host says of itself.
//! - `domain`: keys, claims and the rules, without any I/O.

pub mod cli;
pub mod commands;
pub mod domain;
pub mod exit;
pub mod host;
pub mod liveness;
pub mod lock;
pub mod policy;
pub mod process;
pub mod settings;
pub mod store;
pub mod ui;
pub mod view;
