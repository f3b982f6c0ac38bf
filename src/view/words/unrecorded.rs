//! The sentences about ends that the store didn't take, or takes late (design §6).

use std::time::Duration;

use super::{Words, how_to_resolve};
use crate::domain::claim::Claim;

/// The words of a run whose end could not be recorded.
pub fn unrecorded(id: i64, end: &str, error: &str) -> Words {
    Words {
        message: format!(
            "the command ran and {end}, but this could not be recorded: {error}. Its output was passed on; a repeat will \
             run nothing: it finds claim {id} held, or replays it if the record got through after all"
        ),
        hint: Some(how_to_resolve(id)),
    }
}

/// The words of a run whose outcome could not be recorded yet, and is kept in a file.
pub fn pending(id: i64, end: &str, error: &str, file: &str) -> Words {
    Words {
        message: format!(
            "the command ran and {end}, but this could not be recorded in the store: {error}. It is kept in {file}, and the \
             next idem on this host that comes to the store records it; until then others find claim {id} running or held, \
             and run nothing"
        ),
        hint: Some(format!(
            "call again once the store can be used, and nothing is sent twice; keep that file until then: `idem show {id}` \
             records what is in it too"
        )),
    }
}

/// The words of an attempt that didn't start, where that is kept in a file.
pub fn not_recorded_yet(id: i64, why: &str, error: &str, file: &str) -> Words {
    Words {
        message: format!(
            "{why}; nothing was run, but claim {id} could not be released yet: {error}. That is kept in {file}, and the next \
             idem on this host that comes to the store does it"
        ),
        hint: Some("call again once the store can be written".to_owned()),
    }
}

/// The note of an owner that begins to wait for its store.
pub fn waiting_for_store(error: &str, wait: Duration, kept: Option<&str>) -> String {
    let kept = kept.map_or(String::new(), |file| format!(" (meanwhile it is kept in {file})"));
    format!(
        "the command has ended, and its outcome can't be recorded: {error}; trying for {}{kept}",
        humantime::format_duration(wait)
    )
}

/// The note of an outcome that was kept in a file and is recorded now.
pub fn delivered(claim: &Claim) -> String {
    format!(
        "the outcome of claim {}, which its store could not take when the command ended, is recorded now: it is {}",
        claim.id, claim.state
    )
}

/// The words of such an outcome where somebody has decided about the claim meanwhile.
pub fn delivered_late(claim: &Claim, how: &str) -> Words {
    let id = claim.id;
    Words {
        message: format!(
            "the command of claim {id} had {how}, which its store could not take then, and the claim became {} meanwhile: \
             what came of it is in its history only",
            claim.state
        ),
        hint: Some(format!("see `idem show {id}`: the write may have been made although the key was given to others")),
    }
}

/// What is said of a kept outcome that still can't be recorded.
pub fn still_pending(file: &str, error: &str) -> String {
    format!("an outcome that is known and kept in {file} can't be recorded yet: {error}")
}

/// What is said of a kept outcome that nobody can use, and what to do.
pub fn bad_pending(file: &str, id: Option<i64>, why: &str) -> (String, String) {
    let whose = id.map_or_else(|| "a claim".to_owned(), |id| format!("claim {id}"));
    let resolve =
        id.map_or_else(|| "resolve its claim".to_owned(), |id| format!("`idem resolve {id} landed` or `not-landed`"));
    (
        format!("what was kept of the outcome of {whose} can't be used: {why}; it was moved to {file}"),
        format!("read what can be read of it, then {resolve}"),
    )
}

/// The words of a run whose end is recorded, and whose claim can't be read back.
pub fn recorded_and_unreadable(id: i64) -> Words {
    Words {
        message: format!("the command ran and its end was recorded, but claim {id} can't be read back from the store"),
        hint: Some(format!("see `idem show {id}` once the store can be read")),
    }
}

/// The words of an attempt that didn't start, where that could not be recorded.
pub fn start_unrecorded(id: i64, why: &str, error: &str) -> Words {
    Words {
        message: format!(
            "{why}; nothing was run, but claim {id} could not be released: {error}. A repeat will find it held"
        ),
        hint: Some(format!("`idem clear {id}` frees it once the store can be written")),
    }
}
