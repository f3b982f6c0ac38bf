//! The evidence that no crash makes idem run a command twice or forget a result: it is killed at every system call
//! (`sweep`), every system call fails in turn (`faults`), disks fill up, turn read-only and go away (`disks`), files are
//! damaged (`damage`), and the power is cut at every write (`power`).
//!
//! `cargo test` tries a part of the points, always the same one unless `FAULT_SEED` says otherwise; `IDEM_TEST_FULL=1 cargo
//! test --release --test crash` tries all of them. See docs/testing.md. Needs `strace` and `sqlite3`.

#[path = "../cli"]
mod shared {
    #[expect(dead_code, unused_imports, reason = "the other tests need more of it")]
    pub(crate) mod env;
}
mod after;
mod damage;
mod disks;
mod faults;
mod old_store;
mod points;
mod power;
mod strace;
mod sweep;

use shared::env;
