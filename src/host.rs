//! What this host says of itself: how long it has been up, and in which of its boots.

use std::fs::File;
use std::io::Read;

use nix::time::{ClockId, clock_gettime};

use crate::domain::moment::Uptime;

/// Returns this host's uptime, sleep included. A boot whose id can't be told is like no other.
pub fn uptime() -> Uptime {
    let millis =
        clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000);
    Uptime { boot: boot().unwrap_or_default(), millis }
}

/// Returns the id of this boot; `None` where the system doesn't tell. Read by one call: such a file has no size that a reader could know before.
pub fn boot() -> Option<String> {
    let mut bytes = [0; 64];
    let count = File::open("/proc/sys/kernel/random/boot_id").ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_boot_goes_on() {
        let (first, second) = (uptime(), uptime());
        assert!(!first.boot.is_empty() && first.boot == second.boot);
        assert!(first.millis > 0 && first.millis <= second.millis);
    }
}
