//! A private PostgreSQL on loopback, and certificates of its own.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use idem::store::postgres::{Connection, PostgresPlace, Trouble};
use tempfile::TempDir;

/// A server; ends with this value.
pub(crate) struct Server {
    /// Holds everything, this server's socket too.
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
    programs: PathBuf,
}

impl Server {
    /// Starts a server with these rules of access. `None`: there is no PostgreSQL here, and nobody says there must be.
    pub(crate) fn start(access: &str, settings: &str, prepare: impl FnOnce(&Path)) -> Option<Server> {
        let Some(programs) = programs() else {
            let needed = std::env::var("IDEM_TEST_NEED_POSTGRES").is_ok_and(|value| value == "1");
            assert!(!needed, "IDEM_TEST_NEED_POSTGRES=1, but there is no PostgreSQL in /usr/lib/postgresql");
            skipped();
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        give(folder.path());
        let server = Server { folder, port, programs };
        let data = server.data();
        server.run(
            "initdb",
            &["--no-sync", "--no-instructions", "-A", "trust", "-U", "boss", "-E", "UTF8", "--locale=C"],
        );
        prepare(&data);
        fs::write(data.join("pg_hba.conf"), format!("local all all trust\n{access}")).expect("written");
        let socket = server.folder.path().display();
        let fixed = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{socket}'\nfsync = off\n{settings}\n"
        );
        fs::write(data.join("postgresql.auto.conf"), fixed).expect("written");
        for file in fs::read_dir(&data).expect("a folder") {
            give(&file.expect("a file").path());
        }
        let log = server.folder.path().join("log").display().to_string();
        server.run("pg_ctl", &["start", "-w", "-s", "-l", &log]);
        Some(server)
    }

    /// Returns the way to it through the socket, as its superuser.
    pub(crate) fn boss(&self) -> Connection {
        let socket = self.folder.path().display();
        open(&format!("postgres://boss@/postgres?host={socket}&port={}", self.port)).expect("a connection")
    }

    /// Returns a URL of this server.
    pub(crate) fn url(&self, login: &str, rest: &str) -> String {
        format!("postgres://{login}@127.0.0.1:{}/{rest}", self.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn run(&self, program: &str, args: &[&str]) {
        let output = self.call(program, args);
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{program}: {told:?} {log}");
    }

    /// PostgreSQL refuses to run as root.
    fn call(&self, program: &str, args: &[&str]) -> Output {
        let program = self.programs.join(program);
        let mut command = if nix::unistd::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
            command.args(ids).arg(program);
            command
        } else {
            Command::new(program)
        };
        let data = self.data();
        command.args(args).arg("-D").arg(data).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
        command.current_dir(self.folder.path()).output().expect("a program that starts")
    }
}

#[expect(clippy::print_stderr, reason = "a test that tries nothing must say so")]
fn skipped() {
    eprintln!("skipped: there is no PostgreSQL in /usr/lib/postgresql");
}

impl Drop for Server {
    fn drop(&mut self) {
        self.call("pg_ctl", &["stop", "-s", "-m", "immediate"]);
    }
}

/// Nobody's number, on every Linux.
const NOBODY: u32 = 65_534;

fn give(path: &Path) {
    if nix::unistd::geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("given");
    }
}

fn programs() -> Option<PathBuf> {
    let versions =
        fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok).map(|entry| entry.path().join("bin"));
    versions.filter(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists()).max()
}

/// Reads a URL as somebody with an empty environment and this home.
pub(crate) fn place_at(url: &str, home: &Path) -> PostgresPlace {
    PostgresPlace::parse(url, &|name| (name == "USER").then(|| "ann".to_owned()), Some(home)).expect("a place")
}

/// Connects as somebody with an empty environment and no home.
pub(crate) fn open(url: &str) -> Result<Connection, Trouble> {
    Connection::open(&place_at(url, Path::new("/nonexistent")))
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("changed");
}
