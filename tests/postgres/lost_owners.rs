//! Owners that can't be seen any more: time frees nothing, and what they bring back late counts.

use serde_json::Value;

use crate::env::{Answer, Call, Gate, KILL_IDEM, Running, TestEnv, become_free};
use crate::network::Machine;
use crate::proxy::Proxy;
use crate::world::World;

/// An owner in a home of its own, whose way to the store can be closed, and somebody else who goes there straight.
struct Lost {
    world: World,
    way: Way,
    owner: TestEnv,
    gate: Gate,
}

/// The owner's way to the store.
enum Way {
    /// By a proxy that swallows everything.
    Proxy(Proxy),
    /// From a machine of its own, whose cable is pulled.
    // The proxy ends first: it has to be reached for that.
    Machine(#[expect(dead_code, reason = "the way goes through it")] Proxy, Machine),
}

impl Way {
    fn close(&mut self) {
        match self {
            Way::Proxy(proxy) => proxy.swallow_everything(),
            Way::Machine(_, machine) => machine.pull_the_cable(),
        }
    }

    fn open(&mut self) {
        match self {
            Way::Proxy(proxy) => proxy.heal(),
            Way::Machine(_, machine) => machine.plug_it_in(),
        }
    }
}

/// A command that waits at its gate where there is one: only the first owner's home has it.
const SCRIPT: &str = "echo $$ > pid; if [ -p gate ]; then read _ < gate; fi; echo done $IDEM_ATTEMPT; echo err >&2";

impl Lost {
    fn behind_a_proxy() -> Option<Lost> {
        let world = World::new()?;
        let proxy = world.proxy();
        let owner = world.behind(&proxy);
        Some(Lost::new(world, Way::Proxy(proxy), owner))
    }

    fn on_a_machine() -> Option<Lost> {
        let world = World::new()?;
        let machine = Machine::new()?;
        let proxy = Proxy::at(machine.host(), world.server().address());
        let owner = world.behind(&proxy);
        Some(Lost::new(world, Way::Machine(proxy, machine), owner))
    }

    fn new(world: World, way: Way, owner: TestEnv) -> Lost {
        world.make_store();
        let gate = Gate::new(&owner, "gate");
        Lost { world, way, owner, gate }
    }

    /// An arrival. All of them have the same command.
    fn call<'a>(&self, env: &'a TestEnv) -> Call<'a> {
        env.run("t").args(["--seen-every", "200ms", "--record-wait", "60s"]).script(&self.world.counted(SCRIPT))
    }

    /// Starts the owner and waits for its command.
    fn start_owner(&self) -> Running {
        let call = self.call(&self.owner);
        let owner = match &self.way {
            Way::Proxy(_) => call.start(),
            Way::Machine(_, machine) => machine.on(call).start(),
        };
        owner.command();
        owner
    }

    /// An arrival elsewhere, which waits for the owner until it is lost.
    fn is_lost(&self) -> Answer {
        let answer = self.call(&self.world.env).args(["--json"]).answer();
        let envelope = answer.exits(121).envelope();
        assert_eq!(envelope["error"]["kind"], "held", "{answer}");
        assert_eq!(
            (&envelope["state"], &envelope["reason"]),
            (&Value::from("held"), &Value::from("owner-lost")),
            "{answer}"
        );
        assert_eq!((self.world.states("t"), self.world.runs()), (vec!["held".to_owned()], 1), "{answer}");
        // Whoever comes next is told at once.
        self.call(&self.world.elsewhere()).args(["--no-wait"]).answer().exits(121).prints("");
        answer
    }

    /// The owner has come back with its outcome: everybody gets it.
    fn is_found(&self, owner: Running) {
        owner.answer().exits(0).prints("done 1\n").says("err\n").is_a_first_run().does_not_say("nothing was run");
        for env in [&self.world.env, &self.owner] {
            let call = self.call(env);
            call.answer().exits(0).prints("done 1\n").is_a_replay();
        }
        assert_eq!((self.world.states("t"), self.world.runs()), (vec!["completed".to_owned()], 1));
        let kinds = self.world.env.event_kinds(&self.world.newest("t"));
        let count = |kind: &str| kinds.iter().filter(|there| *there == kind).count();
        assert_eq!((count("became-held"), count("became-completed"), count("late-outcome")), (1, 1, 0), "{kinds:?}");
    }
}

/// The network heals first, and then the command ends.
fn comes_back_and_ends(mut lost: Lost) {
    let owner = lost.start_owner();
    lost.way.close();
    lost.is_lost();
    lost.way.open();
    lost.gate.open();
    lost.is_found(owner);
}

#[test]
fn an_owner_behind_a_dead_network_is_lost_and_its_late_outcome_counts() {
    Lost::behind_a_proxy().into_iter().for_each(comes_back_and_ends);
}

#[test]
fn an_owner_on_a_machine_whose_cable_is_pulled_is_lost_and_its_late_outcome_counts() {
    Lost::on_a_machine().into_iter().for_each(comes_back_and_ends);
}

#[test]
fn a_command_that_ends_while_its_owner_is_lost_is_recorded_when_the_network_is_back() {
    for lost in [Lost::behind_a_proxy(), Lost::on_a_machine()] {
        let Some(mut lost) = lost else { continue };
        let owner = lost.start_owner();
        lost.way.close();
        lost.is_lost();
        lost.gate.open();
        become_free(lost.owner.pid_in("pid"));
        lost.way.open();
        lost.is_found(owner);
    }
}

#[test]
fn who_waits_already_when_the_owner_is_lost_is_told_so() {
    let Some(mut lost) = Lost::behind_a_proxy() else { return };
    let owner = lost.start_owner();
    let waiters: Vec<Running> = (0..5).map(|_| lost.call(&lost.world.env).start()).collect();
    lost.way.close();
    for waiter in waiters {
        waiter.answer().exits(121).prints("").says("held");
    }
    lost.is_lost();
    lost.way.open();
    lost.gate.open();
    lost.is_found(owner);
}

#[test]
fn an_owner_that_can_be_seen_is_not_lost_however_long_its_command_runs() {
    let Some(lost) = Lost::behind_a_proxy() else { return };
    let owner = lost.start_owner();
    // Ten of its intervals, as a waiter sees them.
    lost.call(&lost.world.env).args(["--wait", "2s"]).answer().exits(120);
    assert_eq!(lost.world.states("t"), ["running"]);
    lost.gate.open();
    lost.is_found_without_loss(owner);
}

impl Lost {
    fn is_found_without_loss(&self, owner: Running) {
        owner.answer().exits(0).prints("done 1\n");
        self.call(&self.world.env).answer().exits(0).prints("done 1\n").is_a_replay();
        assert_eq!(self.world.runs(), 1);
    }
}

#[test]
fn an_owner_whose_key_was_cleared_meanwhile_changes_nothing_and_says_so() {
    for lost in [Lost::behind_a_proxy(), Lost::on_a_machine()] {
        let Some(mut lost) = lost else { continue };
        let owner = lost.start_owner();
        lost.way.close();
        lost.is_lost();
        let first = lost.world.newest("t");
        lost.world.env.idem(["clear", &first]).answer().exits(0);
        lost.call(&lost.world.env).answer().exits(0).prints("done 2\n").is_a_first_run();
        let second = lost.world.newest("t");
        assert_ne!(first, second);
        let row = |id: &str| lost.world.rows(&format!("SELECT c FROM idem.claim c WHERE id = {id}"));
        let before = (row(&second), lost.world.shown(&second)["stdout"].clone());
        lost.way.open();
        lost.gate.open();
        // Loudly: its command has run beside another.
        owner.answer().exits(0).prints("done 1\n").says("idem: ").says("cleared").does_not_say("nothing was run");
        assert_eq!(before, (row(&second), lost.world.shown(&second)["stdout"].clone()), "the new run isn't touched");
        assert_eq!((lost.world.states("t").join(" "), lost.world.runs()), ("cleared completed".to_owned(), 2));
        let late = lost.world.env.event_details(&first, "late-outcome");
        assert_eq!(late.len(), 1, "it went to the history: {}", lost.world.shown(&first));
        lost.call(&lost.world.env).answer().exits(0).prints("done 2\n").is_a_replay();
    }
}

#[test]
fn what_a_person_has_said_of_a_lost_owners_call_stands() {
    let Some(mut lost) = Lost::behind_a_proxy() else { return };
    let owner = lost.start_owner();
    lost.way.close();
    lost.is_lost();
    let id = lost.world.newest("t");
    lost.world.env.idem(["resolve", &id, "landed", "--exit", "5"]).answer().exits(0);
    lost.way.open();
    lost.gate.open();
    owner.answer().exits(0).prints("done 1\n").says("idem: ").says("completed");
    lost.call(&lost.world.env).answer().exits(5).is_a_replay();
    assert_eq!(lost.world.runs(), 1);
    assert_eq!(lost.world.env.event_details(&id, "late-outcome").len(), 1);
}

#[test]
fn an_owner_that_was_killed_with_its_command_is_proven_dead_on_its_own_host_at_once() {
    let Some(lost) = Lost::behind_a_proxy() else { return };
    lost.start_owner().kill_9_with_command();
    let answer = lost.call(&lost.owner).args(["--no-wait", "--json"]).answer();
    let envelope = answer.exits(121).envelope();
    assert_eq!(
        (&envelope["state"], &envelope["reason"]),
        (&Value::from("held"), &Value::from("interrupted")),
        "{answer}"
    );
    lost.call(&lost.world.env).answer().exits(121);
    assert_eq!(lost.world.runs(), 1);
}

#[test]
fn an_owner_that_was_killed_with_its_command_is_lost_to_other_homes() {
    let Some(lost) = Lost::behind_a_proxy() else { return };
    lost.start_owner().kill_9_with_command();
    lost.is_lost();
}

#[test]
fn a_command_that_outlives_its_killed_idem_is_alive_on_its_host_and_lost_elsewhere() {
    let Some(lost) = Lost::behind_a_proxy() else { return };
    let owner = lost.start_owner();
    let command = owner.command();
    owner.kill_9();
    lost.call(&lost.owner).args(["--no-wait"]).answer().exits(120);
    lost.is_lost();
    lost.gate.open();
    become_free(command);
    lost.call(&lost.owner).answer().exits(121);
    assert_eq!(lost.world.runs(), 1);
}

#[test]
fn an_interrupted_local_command_that_may_run_again_does_so_on_its_own_host() {
    let Some(world) = World::new() else { return };
    let script = world.counted(&format!("[ $IDEM_ATTEMPT = 2 ] || {{ {KILL_IDEM}; kill -9 $$; }}; echo done"));
    let call = || world.env.run("t").args(["--rerun-if-interrupted"]).script(&script);
    assert_eq!(call().answer().code(), None, "idem was killed");
    call().answer().exits(0).prints("done\n").is_a_first_run();
    assert_eq!((world.runs(), world.states("t").join(" ")), (2, "released completed".to_owned()));
}
