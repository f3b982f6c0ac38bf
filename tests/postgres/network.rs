//! Machines of their own, as far as the network goes: a network namespace each, joined to this one by a cable that can be
//! pulled.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::unistd::Uid;

use crate::env::Call;
use crate::keeper::{Keeper, search_path};

/// A network namespace; it goes with the test.
pub(crate) struct Machine {
    name: String,
    cable: String,
    host: Ipv4Addr,
    keeper: Keeper,
}

const KEEPER: &str = r#"
name=$1 cable=$2 host=$3 guest=$4
set_up() {
  ip netns add "$name" &&
  ip link add "$cable" type veth peer name "$cable"p &&
  ip link set "$cable"p netns "$name" &&
  ip addr add "$host/30" dev "$cable" &&
  ip link set "$cable" up &&
  ip -n "$name" addr add "$guest/30" dev "$cable"p &&
  ip -n "$name" link set lo up &&
  ip -n "$name" link set "$cable"p up
}
while read -r order; do
  case $order in
    start) if set_up; then echo done; else echo failed; fi ;;
    pull) ip link set "$cable" down; echo done ;;
    plug) ip link set "$cable" up; echo done ;;
  esac
done
ip link del "$cable"
ip netns del "$name"
"#;

impl Machine {
    /// Sets one up. Nothing where that can't be done, which it then says.
    pub(crate) fn new() -> Option<Machine> {
        static MADE: AtomicU8 = AtomicU8::new(0);
        if !can_have_machines() {
            return None;
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        assert!(number < 60, "addresses for so many machines");
        // Another run of the tests at the same time most probably has another network.
        let network = u8::try_from(std::process::id() % 200).expect("a number below 200");
        let (host, guest) = (number * 4 + 1, number * 4 + 2);
        let [host, guest] = [host, guest].map(|last| Ipv4Addr::new(10, 213, network, last));
        let name = format!("idem-{}-{number}", std::process::id());
        let cable = format!("id{}x{number}", std::process::id() % 1_000_000);
        let args = [name.clone(), cable.clone(), host.to_string(), guest.to_string()];
        let mut keeper = Keeper::start(KEEPER, "/".as_ref(), &args.each_ref().map(String::as_str));
        assert_eq!(keeper.order("start"), "done", "a network namespace could not be set up");
        Some(Machine { name, cable, host, keeper })
    }

    /// This machine's address, as that one sees it: a proxy can listen there.
    pub(crate) fn host(&self) -> Ipv4Addr {
        self.host
    }

    /// Makes a call on that machine.
    pub(crate) fn on<'a>(&self, call: Call<'a>) -> Call<'a> {
        call.under(["ip", "netns", "exec", &self.name])
    }

    /// The beginning of a command line on that machine.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).env("PATH", search_path());
        command
    }

    /// Pulls the cable: what is sent gets lost, and nobody is told.
    pub(crate) fn pull_the_cable(&mut self) {
        assert_eq!(self.keeper.order("pull"), "done", "{}", self.cable);
    }

    /// Plugs it in again.
    pub(crate) fn plug_it_in(&mut self) {
        assert_eq!(self.keeper.order("plug"), "done", "{}", self.cable);
    }
}

#[expect(clippy::print_stderr, reason = "who runs the tests has to know what was left out")]
fn can_have_machines() -> bool {
    let ip = Command::new("ip").arg("netns").env("PATH", search_path()).output();
    let why = if !Uid::effective().is_root() {
        "not root"
    } else if std::env::var_os("IDEM_TEST_NO_NAMESPACES").is_some() {
        "IDEM_TEST_NO_NAMESPACES is set"
    } else if !ip.is_ok_and(|output| output.status.success()) {
        "no `ip netns`"
    } else {
        return true;
    };
    eprintln!("skipped: network namespaces, {why} here");
    false
}
