//! The last look: everything is over, everybody who comes now is told what became of each call.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::env::{TestEnv, wait_for};
use crate::kinds::Kind;
use crate::rows::Row;
use crate::standing::Standing;
use crate::storm::{KEYS, Storm};
use crate::worker::Worker;

impl Storm {
    /// Waits until nothing of the storm is left, lets idem find out about everything, and gathers what there is.
    pub(crate) fn last_look(&self) -> Standing {
        self.nothing_is_left_running();
        for home in &self.homes {
            // Any idem delivers what waits on its host.
            self.idem(home, ["list"]).answer().exits(0);
            self.is_delivered(home);
        }
        for home in &self.homes {
            let code = self.idem(home, ["reconcile", "--all"]).answer().code();
            if !matches!(code, Some(0 | 1)) {
                self.complain("", format!("the last reconcile exited with {code:?}"));
            }
        }
        for row in self.rows().iter().filter(|row| row.state == "running") {
            self.complain(&row.key, format!("left running: {row:?}"));
        }
        for key in self.keys().iter().filter(|key| !key.contains('-')) {
            self.arrive_last(key);
        }
        self.nothing_is_left_running();
        self.store_is_whole();
        self.gather()
    }

    /// What doctor has to say is about claims that wait for a person, and nothing else.
    fn store_is_whole(&self) {
        let doctor = self.idem(&self.homes[0], ["doctor"]).answer();
        let expected = |line: &&str| ["ok ", "note ", "!!    held ", "  "].iter().any(|start| line.starts_with(start));
        if !doctor.text().contains("integrity") || !doctor.text().lines().all(|line| expected(&line)) {
            self.complain("", doctor.to_string());
        }
    }

    /// Whoever comes last is answered as everybody was.
    fn arrive_last(&self, key: &str) {
        for turn in 0..2 {
            let random = crate::env::Random::new(self.seed, key, turn);
            let mut worker = Worker { storm: self, home: &self.homes[turn % self.homes.len()], random };
            worker.arrive_in_peace(key);
        }
    }

    fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for key in (0..KEYS).map(|n| self.key(n)) {
            if Kind::of(&key) == Kind::Grouped {
                keys.extend([format!("{key}-a"), format!("{key}-b")]);
            }
            keys.push(key);
        }
        keys
    }

    /// No process of the storm lives, whatever it was started by.
    fn nothing_is_left_running(&self) {
        let place = self.journal.folder().to_str().expect("a path in UTF-8");
        let own = std::process::id().to_string();
        let is_of_storm = |pid: &str| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            pid != own && environment.split(|byte| *byte == 0).any(|text| text.ends_with(place.as_bytes()))
        };
        wait_for("the end of all commands, probes and idems", || {
            let processes = fs::read_dir("/proc").expect("/proc").flatten();
            let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let left = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).any(|pid| is_of_storm(&pid));
            (!left).then_some(())
        });
    }

    fn is_delivered(&self, home: &TestEnv) {
        let files = fs::read_dir(home.state_home().join("idem/pending")).into_iter().flatten().flatten();
        let left: Vec<_> = files.map(|file| file.path()).filter(|path| path.is_file()).collect();
        if !left.is_empty() {
            self.complain("", format!("outcomes that nobody delivered: {left:?}"));
        }
    }

    fn rows(&self) -> Vec<Row> {
        let listed = self.idem(&self.homes[0], ["list", "--all", "--steps", "--limit", "0", "--json"]).answer();
        let lines = listed.exits(0).json_lines();
        let mut rows: Vec<Row> = lines.iter().map(Row::read).collect();
        rows.sort_by_key(|row| row.id);
        rows
    }

    fn gather(&self) -> Standing {
        let keys = self.keys();
        let sent: BTreeMap<_, _> = keys.iter().map(|key| (key.clone(), self.journal.sent(key))).collect();
        let rows = self.rows();
        let mut newest = BTreeMap::new();
        for row in &rows {
            newest.insert(row.key.clone(), row.id);
        }
        let events = newest.into_iter().map(|(key, id)| (key, self.events(id))).collect();
        let file = !self.store_goes_away;
        Standing { rows, sent, numbers_have_no_gaps: file, store_goes_away: self.store_goes_away, events }
    }

    /// How often a key's attempts were begun, and whether its events stand in order.
    fn events(&self, newest: i64) -> (usize, bool) {
        let shown = self.idem(&self.homes[0], ["show", &newest.to_string(), "--json"]).answer().exits(0).json_line();
        let events = shown["events"].as_array().cloned().unwrap_or_default();
        let at = |event: &Value| event["at"].as_str().unwrap_or_default().to_owned();
        let runs = events.iter().filter(|event| event["kind"] == "run").count();
        (runs, events.windows(2).all(|pair| at(&pair[0]) <= at(&pair[1])))
    }
}
