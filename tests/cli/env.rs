//! A test's own world: a home, a state folder and a place to work, all of them new and gone with the test.
//!
//! Nothing of the machine's environment but `PATH` reaches `idem`, so tests can't see each other's claims.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

mod answer;
mod call;
mod facts;
mod files;
mod gate;
mod members;
mod registry;
mod schema;
mod store;
mod target;

pub(crate) use answer::Answer;
pub(crate) use call::{Call, Running};
pub(crate) use facts::{become_free, has_open, is_alive, is_stopped, peak_memory, seq, sleeping_waiters, wait_for};
pub(crate) use files::{copy_of_idem, mode_of, set_mode};
pub(crate) use gate::Gate;
pub(crate) use members::outline;
pub(crate) use registry::Registry;
pub(crate) use schema::{envelope_schema, fits_schema, objections};
pub(crate) use target::{Fault, Random, Target, new_seed};

/// Shell words that kill the idem whose command this is with signal 9, and nobody else.
pub(crate) const KILL_IDEM: &str = "[ \"$(cat /proc/$PPID/comm)\" = idem ] && kill -9 $PPID";

/// One test's folders; everything in them goes when it is dropped.
pub(crate) struct TestEnv {
    root: TempDir,
    store_url: Option<String>,
}

impl TestEnv {
    /// Makes the folders. No store exists yet.
    pub(crate) fn new() -> Self {
        TestEnv::with_store(None)
    }

    /// The same; where a URL is given, all calls go to the store there unless they say otherwise.
    pub(crate) fn with_store(store_url: Option<String>) -> Self {
        let root = tempfile::Builder::new().prefix("idem-test-").tempdir().expect("a temporary folder for the test");
        let env = TestEnv { root, store_url };
        for folder in [env.home(), env.state_home(), env.work()] {
            fs::create_dir(&folder).expect("a folder of the test");
            set_mode(&folder, 0o700);
        }
        env
    }

    /// What `HOME` is set to.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// What `XDG_STATE_HOME` is set to.
    pub(crate) fn state_home(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// The folder that every process of the test starts in, so that scripts can use bare file names.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// A file in the work folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// Where the store is when nothing else was asked for.
    pub(crate) fn store(&self) -> PathBuf {
        self.state_home().join("idem/idem.db")
    }

    /// A file that stands beside the store, by what is added to its name: `-wal`, `-lock`, …
    pub(crate) fn beside_store(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(self.store());
        name.push(suffix);
        PathBuf::from(name)
    }

    /// Where the policy is when no other was named.
    pub(crate) fn policy(&self) -> PathBuf {
        self.home().join(".config/idem/policy.toml")
    }

    /// Writes that policy, for its owner alone to change.
    pub(crate) fn write_policy(&self, text: &str) -> PathBuf {
        let path = self.policy();
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder of the policy");
        fs::write(&path, text).expect("the policy");
        set_mode(&path, 0o644);
        path
    }

    /// `idem run` for one tool, with the identity that all calls of the tests have unless they say otherwise.
    pub(crate) fn run(&self, tool: &str) -> Call<'_> {
        Call::new(self, ["run", "--who", "agent", "--conv", "c1", "--tool", tool])
    }

    /// Any other `idem` command line, given whole.
    pub(crate) fn idem<I, A>(&self, args: I) -> Call<'_>
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        Call::new(self, args)
    }

    /// How often a command that was built with [`Call::counting`] has really been started.
    pub(crate) fn runs(&self) -> usize {
        self.text_of("runs").lines().count()
    }

    /// The text of a file in the work folder, empty when it isn't there.
    pub(crate) fn text_of(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// The envelope in a status file, as the published schema says.
    #[track_caller]
    pub(crate) fn status_file(&self, name: &str) -> Value {
        let text = self.text_of(name);
        assert_eq!(text.lines().count(), 1, "one line: {text:?}");
        let envelope = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"));
        fits_schema(&envelope);
        envelope
    }

    /// Whether a file is in the work folder.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Writes a file in the work folder.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, bytes).expect("a file in the work folder");
        path
    }

    /// Waits until a command has written its process id, with a line end, to a file in the work folder.
    pub(crate) fn pid_in(&self, name: &str) -> i32 {
        wait_for(&format!("a process id in {name}"), || facts::written_pid(&self.file(name)))
    }

    /// Waits until `count` processes sleep for the end of a running claim.
    pub(crate) fn wait_for_waiters(&self, count: usize) {
        let lock = self.beside_store("-lock");
        wait_for(&format!("{count} sleeping waiters"), || (sleeping_waiters(&lock) >= count).then_some(()));
    }

    /// What `idem show ID --json` says of a claim.
    pub(crate) fn shown(&self, id: &str) -> Value {
        self.idem(["show", id, "--json"]).answer().exits(0).envelope()
    }

    /// The kinds of a claim's events, oldest first.
    pub(crate) fn event_kinds(&self, id: &str) -> Vec<String> {
        let shown = self.shown(id);
        let events = shown["events"].as_array().unwrap_or_else(|| panic!("no events in {shown}"));
        events.iter().map(|event| event["kind"].as_str().expect("a kind of event").to_owned()).collect()
    }

    /// What a claim's events of one kind tell, oldest first.
    pub(crate) fn event_details(&self, id: &str, kind: &str) -> Vec<Value> {
        let shown = self.shown(id);
        let events = shown["events"].as_array().unwrap_or_else(|| panic!("no events in {shown}"));
        events.iter().filter(|event| event["kind"] == kind).map(|event| event["detail"].clone()).collect()
    }

    /// How many lines a file in the work folder has: how often something wrote one.
    pub(crate) fn lines_in(&self, name: &str) -> usize {
        self.text_of(name).lines().count()
    }

    /// Waits until this is the output that is recorded of a claim.
    pub(crate) fn wait_for_record(&self, id: &str, output: &str) {
        wait_for(&format!("{output:?} in the record of claim {id}"), || {
            (self.idem(["show", id, "--stdout"]).answer().stdout() == output.as_bytes()).then_some(())
        });
    }
}
