//! Persons in the storm: they look, and say what is to become of a claim.

use serde_json::Value;

use crate::facts::Fact;
use crate::kinds::Kind;
use crate::worker::Worker;

impl Worker<'_> {
    /// Somebody looks at what holds a key, or a step of it, and says something of it.
    pub(crate) fn have_a_word(&mut self, key: &str) {
        let mut key = key.to_owned();
        if Kind::of(&key) == Kind::Grouped {
            key += ["", "-a", "-b"][self.random.below(3)];
        }
        let listed = self.storm.idem(self.home, ["list", "--steps", "--json", "--tool", &key]).answer();
        self.storm.heard(&key, &listed);
        let Some(holder) = listed.text().lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok())
        else {
            return;
        };
        let Some(claim) = holder["id"].as_i64() else { return };
        let says: &[&[&str]] = match holder["state"].as_str() {
            Some("held") => &[&["clear"], &["landed"], &["not-landed"], &["not-landed"], &["reconcile"]],
            Some("completed") => &[&["clear"]],
            _ => &[
                &["clear"],
                &["not-landed"],
                &["reconcile"],
                &["nothing"],
                &["nothing"],
                &["nothing"],
                &["nothing"],
                &["clear", "--force"],
                &["landed", "--force"],
                &["not-landed", "--force"],
            ],
        };
        let says = says[self.random.below(says.len())];
        self.say(&key, claim, says);
    }

    fn say(&self, key: &str, claim: i64, says: &[&str]) {
        let id = claim.to_string();
        let args = match says[0] {
            "nothing" => return,
            "reconcile" => vec!["reconcile", &id],
            "clear" => vec!["clear", &id],
            what => vec!["resolve", &id, what],
        };
        let word = self.storm.next_number();
        let force = says.len() > 1;
        let key = key.to_owned();
        // To reconcile is to ask, and no word.
        if says[0] != "reconcile" {
            let says = says[0].to_owned();
            self.storm.journal.write(&Fact::Word { word, key: key.clone(), claim, says, force });
        }
        let answer = self.storm.idem(self.home, args).args(says[1..].iter().copied()).answer();
        self.storm.heard(&key, &answer);
        self.is_allowed(&key, says[0], answer.code());
        self.storm.journal.write(&Fact::Taken { word, key, code: answer.code() });
    }

    /// Commands that change nothing here.
    pub(crate) fn look_around(&mut self, key: &str) {
        let looks: [&[&str]; 8] = [
            &["list", "--json"],
            &["list", "--all", "--steps"],
            &["show", "1", "--json"],
            &["stats"],
            &["doctor"],
            &["prune", "--older-than", "1h", "--yes"],
            &["reconcile", "--all"],
            &["list", "--state", "held"],
        ];
        let args = looks[self.random.below(looks.len())];
        let answer = self.storm.idem(self.home, args.iter().copied()).answer();
        self.storm.heard(key, &answer);
        self.is_allowed(key, args[0], answer.code());
    }

    /// 0 done, 1 nothing matched or refused; 125 only where the store may be away.
    fn is_allowed(&self, key: &str, verb: &str, code: Option<i32>) {
        if !(matches!(code, Some(0 | 1)) || (code == Some(125) && self.storm.store_goes_away)) {
            self.storm.complain(key, format!("idem {verb} exited with {code:?}"));
        }
    }
}
