//! Black-box tests of `idem` with its store in PostgreSQL: real processes, real servers, and a network that is cut where
//! it hurts, one module a subject.
//!
//! They start private servers themselves, with the programs of an installed PostgreSQL (Debian: `postgresql`) and PgBouncer.
//! Where these are missing, each test says that it was skipped, and passes; with `IDEM_TEST_NEED_POSTGRES=1` it fails.
//! Network namespaces need root and `ip`; `IDEM_TEST_KEYS` makes one of them longer. A server that dies while many
//! run is in `tests/storm`.

mod bad_input;
mod basics;
mod bouncer;
mod contract_kept;
mod cuts;
mod keeper;
mod lost_owners;
mod many;
mod network;
mod pooled;
mod proxy;
mod rig;
mod rounds;
mod server;
mod steps;
mod wire;
mod world;

#[path = "../store/contract.rs"]
mod contract;
#[path = "../store/groups.rs"]
mod groups;
#[path = "../store/prune.rs"]
mod prune;
#[path = "../store/unknown.rs"]
mod unknown;

/// What the tests of the file store have, too.
#[path = "../cli"]
mod shared {
    #[expect(dead_code, unused_imports, reason = "the tests of the file store use more of it")]
    pub(crate) mod env;
}

use shared::env;
