//! The claims as the store tells them after the storm.

use serde_json::Value;

/// One attempt.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) key: String,
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) outcome: String,
    pub(crate) attempt: u64,
    pub(crate) exit_code: Option<i64>,
    /// Milliseconds since 1970.
    pub(crate) created: u128,
    pub(crate) finished: Option<u128>,
}

impl Row {
    /// Reads a line of `idem list --json`.
    pub(crate) fn read(claim: &Value) -> Row {
        let text = |name: &str| claim[name].as_str().unwrap_or_default().to_owned();
        Row {
            id: claim["id"].as_i64().expect("a claim's number"),
            key: text("tool"),
            state: text("state"),
            reason: text("reason"),
            outcome: text("outcome"),
            attempt: claim["attempt"].as_u64().unwrap_or_default(),
            exit_code: claim["exit_code"].as_i64(),
            created: moment(&claim["created_at"]).expect("the time of a claim"),
            finished: moment(&claim["finished_at"]),
        }
    }

    pub(crate) fn holds_key(&self) -> bool {
        matches!(self.state.as_str(), "running" | "completed" | "held")
    }
}

fn moment(value: &Value) -> Option<u128> {
    let time = humantime::parse_rfc3339(value.as_str()?).expect("a time");
    Some(time.duration_since(std::time::UNIX_EPOCH).expect("a time after 1970").as_millis())
}
