//! Waiting for a claim to change: woken by a notification where that works, and looking again and again in any case.
//!
//! Invariant: a notification is only a reason to look sooner. Behind a pooler, or at a server that knows none, everything works
//! as well, a little later.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::{Connection, Trouble};
use crate::domain::claim::{Claim, ClaimId};

/// How long to sleep between two looks, at first and at the most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What a waiter knows of its waiting, as long as its connection lasts.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The claim it has told the server that it waits for.
    told: Option<ClaimId>,
    /// How long the last sleep was.
    slept: Duration,
}

impl Waiting {
    /// Sleeps once. The caller looks at the row afterwards.
    ///
    /// First it listens, then it writes into the row that somebody waits, and tells the caller to look: an end before that is
    /// seen by the look, one after it sees that somebody waits, and notifies.
    pub(super) fn wait(&mut self, conn: &mut Connection, claim: &Claim, at_most: Duration) -> Result<(), Trouble> {
        if self.told != Some(claim.id) {
            self.slept = Duration::ZERO;
            match conn.batch(&format!("LISTEN {}", channel(claim.id))) {
                Ok(()) => {
                    let sql = "UPDATE idem.claim SET waited = true WHERE id = $1 AND state = 'running' AND NOT waited";
                    conn.query(sql, &[(&claim.id, Type::INT8)])?;
                }
                Err(trouble @ Trouble::Lost(_)) => return Err(trouble),
                // A server without notifications.
                Err(_) => {}
            }
            self.told = Some(claim.id);
            return Ok(());
        }
        let sleep = (self.slept * 2).clamp(LOOKS.0, LOOKS.1).min(at_most);
        self.slept = sleep;
        let began = Instant::now();
        conn.wait_for_notification(sleep)?;
        if began.elapsed() < sleep {
            self.slept = Duration::ZERO;
        }
        Ok(())
    }
}

/// Wakes those who wait for a claim.
pub(super) fn wake(conn: &mut Connection, id: ClaimId) -> Result<(), Trouble> {
    conn.batch(&format!("NOTIFY {}", channel(id)))
}

fn channel(id: ClaimId) -> String {
    format!("idem_claim_{id}")
}
