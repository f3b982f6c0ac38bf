//! A test's own world: a database of its own on some server, and homes whose idem goes there.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use crate::env::TestEnv;
use crate::proxy::Proxy;
use crate::server::{Disk, ROLE, Server, url};

/// A new database, and a home that goes to it straight.
pub(crate) struct World {
    // First, so that whatever a test left running ends before its server does.
    pub(crate) env: TestEnv,
    database: String,
    server: Held,
}

enum Held {
    Shared(&'static Server),
    Own(Server),
}

impl Held {
    fn get(&self) -> &Server {
        match self {
            Held::Shared(server) => server,
            Held::Own(server) => server,
        }
    }
}

impl World {
    /// On the server that all tests share. Nothing where PostgreSQL isn't installed, which it then says.
    pub(crate) fn new() -> Option<World> {
        Server::shared().map(|server| World::on(Held::Shared(server)))
    }

    /// On a server of its own, to be killed or changed.
    pub(crate) fn of_its_own(disk: Disk) -> Option<World> {
        Server::private(disk).map(|server| World::on(Held::Own(server)))
    }

    fn on(server: Held) -> World {
        let database = server.get().database();
        let env = TestEnv::with_store(Some(server.get().url(&database)));
        World { env, database, server }
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.get()
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// The database's URL by this way: the server's own address, or a proxy's.
    pub(crate) fn url_by(&self, address: SocketAddr) -> String {
        url(ROLE, address, &self.database)
    }

    /// Another home, as on another machine: another user's folders, another lock file. It goes to the store straight.
    pub(crate) fn elsewhere(&self) -> TestEnv {
        TestEnv::with_store(Some(self.server().url(&self.database)))
    }

    /// Another home, which goes to the store by a proxy.
    pub(crate) fn behind(&self, proxy: &Proxy) -> TestEnv {
        TestEnv::with_store(Some(self.url_by(proxy.address())))
    }

    /// A proxy before this world's server.
    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::before(self.server().address())
    }

    /// Makes the store, so that what comes later finds it there.
    #[track_caller]
    pub(crate) fn make_store(&self) {
        self.env.run("before").script("true").answer().exits(0);
    }

    /// The rows of a query, columns parted by `|`.
    #[track_caller]
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        self.server().sql(&self.database, query)
    }

    /// The states of all attempts of a tool, oldest first, whoever looks.
    #[track_caller]
    pub(crate) fn states(&self, tool: &str) -> Vec<String> {
        self.rows(&format!("SELECT state FROM idem.claim WHERE tool = '{tool}' ORDER BY id"))
    }

    /// A file that the commands of all homes can write to.
    pub(crate) fn shared_file(&self, name: &str) -> PathBuf {
        self.env.file(name)
    }

    /// A script that is counted by [`World::runs`] each time that it is really started, in whichever home.
    pub(crate) fn counted(&self, script: &str) -> String {
        format!("echo run >> {}; {script}", self.shared_file("runs").display())
    }

    /// How often that was.
    pub(crate) fn runs(&self) -> usize {
        self.env.runs()
    }

    /// What `idem show` says of a claim, asked from a home that goes straight to the store.
    #[track_caller]
    pub(crate) fn shown(&self, id: &str) -> Value {
        self.env.shown(id)
    }

    /// The number of a tool's newest attempt.
    #[track_caller]
    pub(crate) fn newest(&self, tool: &str) -> String {
        let listed = self.env.idem(["list", "--all", "--json", "--tool", tool]).answer();
        let newest = listed.exits(0).envelopes().into_iter().next().unwrap_or_else(|| panic!("a claim\n{listed}"));
        newest["id"].to_string()
    }
}

/// What waits in a home's state folder to be delivered.
pub(crate) fn pending(env: &TestEnv) -> Vec<PathBuf> {
    let files = std::fs::read_dir(env.state_home().join("idem/pending")).into_iter().flatten().flatten();
    files.map(|file| file.path()).filter(|path| path.is_file()).collect()
}
