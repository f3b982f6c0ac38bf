//! PgBouncer in transaction mode before a server: one server connection serves many clients in turn, so nothing that a
//! session remembers can be relied on.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use crate::env::wait_for;
use crate::keeper::{Keeper, search_path};
use crate::server::{PASSWORD, ROLE, Server, free_port, skip};

/// A running PgBouncer.
pub(crate) struct Bouncer {
    port: u16,
    _keeper: Keeper,
}

const KEEPER: &str = r#"
pid=
read -r order
"$@" </dev/null >/dev/null &
pid=$!
echo started
read -r order
kill -9 "$pid"; wait "$pid"
"#;

impl Bouncer {
    /// Starts one before a server. Nothing where it isn't installed, which it then says.
    pub(crate) fn before(server: &Server) -> Option<Bouncer> {
        let Some(program) = program() else {
            skip("PgBouncer");
            return None;
        };
        let port = free_port();
        let folder = server.folder().join(format!("bouncer-{port}"));
        fs::create_dir(&folder).expect("a folder for PgBouncer");
        let (settings, users) = (folder.join("pgbouncer.ini"), folder.join("users.txt"));
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = plain\nauth_file = {}\nlogfile = {}\npool_mode = transaction\n\
             default_pool_size = 3\nmax_client_conn = 300\nserver_login_retry = 1\n",
            server.address().port(),
            users.display(),
            folder.join("log").display(),
        );
        fs::write(&settings, text).expect("PgBouncer's settings");
        fs::write(&users, format!("\"{ROLE}\" \"{PASSWORD}\"\n")).expect("PgBouncer's users");
        [&folder, &settings, &users].into_iter().for_each(|path| server.hand_over(path));
        let mut line: Vec<&str> = server.other_user().iter().map(String::as_str).collect();
        line.extend([program.to_str().expect("UTF-8"), settings.to_str().expect("UTF-8")]);
        let mut keeper = Keeper::start(KEEPER, &folder, &line);
        keeper.order("start");
        let bouncer = Bouncer { port, _keeper: keeper };
        wait_for("a PgBouncer that listens", || TcpStream::connect(bouncer.address()).ok());
        Some(bouncer)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

fn program() -> Option<PathBuf> {
    let path = search_path();
    std::env::split_paths(&path).map(|folder| folder.join("pgbouncer")).find(|program| program.exists())
}
