//! The storm on a store in PostgreSQL, whose server is killed with -9 and comes back, again and again.

use std::thread;
use std::time::Duration;

use crate::env::{Random, TestEnv};
use crate::facts::Fact;
use crate::server::{Disk, Server};
use crate::storm::Storm;

/// Workers share four homes: within one an owner's death can be proven, from another it can't.
const HOMES: usize = 4;

pub(crate) fn in_postgresql() {
    if cfg!(not(feature = "postgres")) {
        return;
    }
    let Some(server) = Server::private(Disk::Memory) else { return };
    let url = server.url(&server.database());
    let mut storm = Storm::new((0..HOMES).map(|_| TestEnv::with_store(Some(url.clone()))).collect());
    // Short ones, so that outcomes are kept on the host and owners are lost in an outage.
    storm.vars = vec![("IDEM_RECORD_WAIT", "700ms"), ("IDEM_SEEN_EVERY", "300ms")];
    storm.store_goes_away = true;
    storm
        .idem(&storm.homes[0], ["run", "--who", "storm", "--conv", "c", "--tool", "first"])
        .script("true")
        .answer()
        .exits(0);
    storm.rage(|storm| kill_again_and_again(storm, &server));
    let standing = storm.last_look();
    storm.kept_every_promise(&standing);
}

fn kill_again_and_again(storm: &Storm, server: &Server) {
    let mut random = Random::new(storm.seed, "server", 0);
    while !storm.is_over() {
        // No moment is the right one here either.
        thread::sleep(random.up_to(Duration::from_millis(5000)));
        storm.journal.write(&Fact::ServerKilled);
        server.kill_9();
        thread::sleep(random.up_to(Duration::from_millis(600)));
        server.start_again();
    }
}
