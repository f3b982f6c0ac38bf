//! Private PostgreSQL servers: made by `initdb` in a folder of their own, reachable by loopback, gone with the test.
//!
//! A server refuses to run as root, so root starts it as another user.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use nix::unistd::{Uid, User, chown};

use crate::env::{Random, new_seed, set_mode, wait_for};
use crate::keeper::{Keeper, search_path};

/// The password of the roles. It must come up nowhere in what idem says or keeps.
pub(crate) const PASSWORD: &str = "pw-Hx7_fUqZ";

/// The role that the tests' idem logs in as, and that owns the databases.
pub(crate) const ROLE: &str = "idem_user";

/// Where a server keeps what it was told to keep. It syncs in any case: doctor would say so if it didn't.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// On a disk, as a real one.
    Real,
    /// In memory, where there is a file system for that: syncs cost nothing.
    Memory,
}

impl Disk {
    fn folder(self) -> &'static Path {
        let memory = Path::new("/dev/shm");
        let room = nix::sys::statvfs::statvfs(memory).map_or(0, |of| of.blocks_available() * of.fragment_size());
        // Not where TMPDIR says: a socket's path has to be short, and the other user must be able to go there.
        if self == Disk::Memory && room > 4 << 30 { memory } else { Path::new("/tmp") }
    }
}

/// A running server.
pub(crate) struct Server {
    programs: &'static Programs,
    folder: PathBuf,
    port: u16,
    keeper: Mutex<Keeper>,
}

/// Starts, kills and stops the server, and removes its folder at the end.
const KEEPER: &str = r#"
folder=$1 port=$2 bin=$3; shift 3
pid=
while read -r order; do
  case $order in
    start)
      "$@" "$bin/postgres" -D "$folder/data" -k "$folder" -p "$port" \
        -c listen_addresses=127.0.0.1 -c max_connections=400 -c shared_buffers=32MB \
        -c max_wal_senders=4 -c autovacuum=off -c logging_collector=off -c restart_after_crash=on \
        >>"$folder/log" 2>&1 </dev/null &
      pid=$!
      echo started ;;
    lives) case $(cut -d " " -f 3 "/proc/$pid/stat") in "" | Z) echo no ;; *) echo yes ;; esac ;;
    kill) kill -9 "$pid"; wait "$pid"; echo killed ;;
    stop) kill -INT "$pid"; wait "$pid"; echo stopped ;;
  esac
done
[ -z "$pid" ] || { kill -QUIT "$pid"; wait "$pid"; }
rm -rf "$folder"
"#;

/// Who may log in, and how. Only the passwords of `scram` go through SCRAM: it takes a debug build a while.
const LOGINS: &str = "local all all trust\nlocal replication all trust\n\
                      host all scram 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 password\n";

impl Server {
    /// The server that all tests of this run share, each with a database of its own.
    pub(crate) fn shared() -> Option<&'static Server> {
        static SHARED: OnceLock<Option<Server>> = OnceLock::new();
        SHARED.get_or_init(|| Programs::found().map(|programs| Server::start(programs, Disk::Memory))).as_ref()
    }

    /// A server of one's own, to be killed or changed.
    pub(crate) fn private(disk: Disk) -> Option<Server> {
        Programs::found().map(|programs| Server::start(programs, disk))
    }

    fn start(programs: &'static Programs, disk: Disk) -> Server {
        let server = Server::in_new_folder(programs, disk, |folder| {
            let data = folder.join("data");
            let mut initdb = programs.as_other_user(&programs.bin.join("initdb"));
            initdb.args(["--no-sync", "-U", "postgres", "-E", "UTF8", "--locale=C", "-A", "trust", "-D"]).arg(&data);
            succeeded(&mut initdb);
            fs::write(data.join("pg_hba.conf"), LOGINS).expect("pg_hba.conf");
        });
        server.sql("postgres", &format!("CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'"));
        server.sql("postgres", &format!("CREATE ROLE scram LOGIN PASSWORD '{PASSWORD}'"));
        server
    }

    /// A standby that follows this server, read-only as all standbys.
    pub(crate) fn standby(&self) -> Server {
        Server::in_new_folder(self.programs, Disk::Memory, |folder| {
            let mut backup = self.programs.as_other_user(&self.programs.bin.join("pg_basebackup"));
            backup.args(["-R", "--no-sync", "-c", "fast", "-U", "postgres", "-p", &self.port.to_string(), "-h"]);
            succeeded(backup.arg(&self.folder).arg("-D").arg(folder.join("data")));
        })
    }

    fn in_new_folder(programs: &'static Programs, disk: Disk, fill: impl Fn(&Path)) -> Server {
        let folder = tempfile::Builder::new().prefix("idem-pg-").tempdir_in(disk.folder());
        let folder = folder.expect("a folder for a server");
        let folder = folder.keep();
        let (port, bin) = (free_port(), programs.bin.to_str().expect("a path in UTF-8"));
        let path = folder.to_str().expect("a path in UTF-8").to_owned();
        let number = port.to_string();
        let mut args = vec![path.as_str(), &number, bin];
        args.extend(programs.other_user.iter().map(String::as_str));
        // From here on the folder goes with the keeper.
        let keeper = Keeper::start(KEEPER, Path::new("/"), &args);
        let server = Server { programs, folder, port, keeper: Mutex::new(keeper) };
        set_mode(&server.folder, 0o755);
        if let Some(user) = &programs.user {
            chown(&server.folder, Some(user.uid), Some(user.gid)).expect("a folder of the other user");
        }
        fill(&server.folder);
        server.start_again();
        server
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Its folder; PgBouncer's is in it.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The URL of a database as the tests' role.
    pub(crate) fn url(&self, database: &str) -> String {
        url(ROLE, self.address(), database)
    }

    /// Makes a new database that the tests' role owns, and returns its name.
    pub(crate) fn database(&self) -> String {
        static MADE: AtomicU32 = AtomicU32::new(1);
        let name = format!("t{}", MADE.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER {ROLE}"));
        name
    }

    /// The rows of a statement, columns parted by `|`, as the superuser and not over the network.
    #[track_caller]
    pub(crate) fn sql(&self, database: &str, statement: &str) -> Vec<String> {
        let output = self.psql(&["-h", self.folder.to_str().expect("UTF-8"), "-U", "postgres"], database, statement);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statement}: {complaint}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// psql with options that say where the server is, or a proxy before it.
    pub(crate) fn psql(&self, place: &[&str], database: &str, statement: &str) -> Output {
        let port = self.port.to_string();
        let mut psql = self.programs.command("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-p", &port]).args(place).args(["-d", database, "-c", statement]);
        psql.output().expect("psql")
    }

    /// Another of PostgreSQL's programs, with the password in its environment.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.programs.command(name)
    }

    /// Everything that a database has in a schema, as text.
    #[track_caller]
    pub(crate) fn dump(&self, database: &str, schema: &str) -> String {
        let mut dump = self.programs.command("pg_dump");
        dump.args(["-U", "postgres", "-p", &self.port.to_string(), "-n", schema, "-d", database, "-h"]);
        let text = String::from_utf8_lossy(&succeeded(dump.arg(&self.folder)).stdout).into_owned();
        // Newer versions bracket the text with a word that they draw by lot.
        text.lines().filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict")).collect()
    }

    /// `kill -9` of the server; it was not asked and has written nothing more.
    pub(crate) fn kill_9(&self) {
        assert_eq!(self.order("kill"), "killed");
    }

    /// Starts it, on the port that it had, and waits until it answers.
    pub(crate) fn start_again(&self) {
        self.order("start");
        wait_for("a server that answers", || {
            // The rest of a killed one may still be in the way.
            if self.order("lives") == "no" {
                self.order("start");
            }
            let mut ready = self.programs.command("pg_isready");
            ready.args(["-q", "-p", &self.port.to_string(), "-h"]).arg(&self.folder);
            ready.status().expect("pg_isready").success().then_some(())
        });
    }

    /// Ends its connections and stops it, in good order.
    pub(crate) fn stop(&self) {
        assert_eq!(self.order("stop"), "stopped");
    }

    fn order(&self, order: &str) -> String {
        self.keeper.lock().expect("a keeper that takes orders").order(order)
    }

    /// The words that go before a program which must not run as root.
    pub(crate) fn other_user(&self) -> &[String] {
        &self.programs.other_user
    }

    /// Hands a file or folder to the user that the server runs as.
    pub(crate) fn hand_over(&self, path: &Path) {
        if let Some(user) = &self.programs.user {
            chown(path, Some(user.uid), Some(user.gid)).expect("a file of the other user");
        }
    }
}

/// A URL with the tests' password.
pub(crate) fn url(role: &str, address: SocketAddr, database: &str) -> String {
    format!("postgres://{role}:{PASSWORD}@{address}/{database}")
}

/// Says that a test was skipped for want of a program, unless that is a failure here.
#[expect(clippy::print_stderr, reason = "who runs the tests has to know what was left out")]
pub(crate) fn skip(without: &str) {
    assert!(std::env::var_os("IDEM_TEST_NEED_POSTGRES").is_none_or(|need| need != "1"), "there is no {without} here");
    eprintln!("skipped: no {without} here");
}

/// Where PostgreSQL's programs are, and as whom its server runs.
struct Programs {
    bin: PathBuf,
    user: Option<User>,
    other_user: Vec<String>,
}

impl Programs {
    /// The newest ones in Debian's place, or those in `PATH`. Says so where there are none.
    fn found() -> Option<&'static Programs> {
        static FOUND: OnceLock<Option<Programs>> = OnceLock::new();
        let found = FOUND.get_or_init(Programs::find).as_ref();
        if found.is_none() {
            skip("PostgreSQL");
        }
        found
    }

    fn find() -> Option<Programs> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let newest = versions.max_by_key(|version| version.file_name().to_string_lossy().parse::<u32>().unwrap_or(0));
        let debians = newest.map(|version| version.path().join("bin"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = debians.into_iter().chain(std::env::split_paths(&path));
        let bin =
            folders.find(|folder| ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).exists()))?;
        if !Uid::effective().is_root() {
            return Some(Programs { bin, user: None, other_user: Vec::new() });
        }
        let user = ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten())?;
        let (uid, gid) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
        let other_user = vec!["setpriv".to_owned(), uid, gid, "--clear-groups".to_owned()];
        Some(Programs { bin, user: Some(user), other_user })
    }

    fn command(&self, name: &str) -> Command {
        clean(self.bin.join(name).into_os_string())
    }

    fn as_other_user(&self, program: &Path) -> Command {
        match self.other_user.split_first() {
            Some((first, rest)) => {
                let mut command = clean(first.into());
                command.args(rest).arg(program);
                command
            }
            None => clean(program.into()),
        }
    }
}

/// A program with nothing of the machine's environment but `PATH`.
fn clean(program: OsString) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", search_path()).env("LC_ALL", "C").env("PGPASSWORD", PASSWORD).current_dir("/");
    command
}

#[track_caller]
fn succeeded(command: &mut Command) -> Output {
    let output = command.output().expect("a program of PostgreSQL's");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A port that nobody listens on, below those that the system gives to callers: one of those could meet itself where the
/// server was, or be in its way when it comes back.
pub(crate) fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let turn = ASKED.fetch_add(1, Ordering::Relaxed) + std::process::id() * 1000;
    let mut random = Random::new(new_seed(), "port", turn as usize);
    let port = |random: &mut Random| 20_000 + u16::try_from(random.below(12_000)).expect("a number below 12000");
    wait_for("a free port", || {
        let port = port(&mut random);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
    })
}
