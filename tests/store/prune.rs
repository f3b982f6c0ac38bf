//! The contract's part about pruning and counting.

use std::time::Duration;

use idem::domain::claim::{Chunk, ClaimId, Means, NewClaim, Reason, State, Stream};
use idem::domain::event::EventKind;
use idem::domain::health::{Integrity, Level};
use idem::domain::key::Key;
use idem::domain::prune::{Pruned, Pruning};
use idem::domain::store::{Filter, Store, StoreError, Which};
use idem::domain::timestamp::Timestamp;

use crate::contract::{Stores, call, change, failed, finish_with, inserted, landed, unknown, within};
use crate::groups::members;

/// Everything that has ended, however short a time ago.
pub(crate) fn all() -> Pruning {
    Pruning { ended_before: Timestamp(i64::MAX), who: None, conv: None, tool: None, apply: true }
}

fn prune(store: &mut impl Store, pruning: &Pruning) -> Pruned {
    store.prune(pruning, &mut |_| {}).expect("pruning works")
}

fn ended(store: &mut impl Store, new: &NewClaim, finish: &idem::domain::store::Finish) -> ClaimId {
    let (id, _) = inserted(store, new);
    finish_with(store, id, finish, 0, &[Chunk { stream: Stream::Stdout, data: b"out".to_vec() }]);
    id
}

fn ids(store: &mut impl Store) -> Vec<ClaimId> {
    let listed = store.list(&Filter::default()).expect("listing works");
    listed.iter().rev().map(|listed| listed.claim.id).collect()
}

pub(crate) fn what_has_ended_is_pruned_and_the_rest_stays<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let done = ended(&mut store, &call("done"), &landed());
    ended(&mut store, &call("failed"), &failed());
    let held = ended(&mut store, &call("held"), &unknown());
    let (running, _) = inserted(&mut store, &call("running"));
    let newest = ended(&mut store, &call("newest"), &landed());
    let count = Pruning { apply: false, ..all() };
    let would = prune(&mut store, &count);
    assert_eq!((would.completed, would.history, would.events, would.members), (1, 1, 4, 0));
    assert!(would.bytes > 0);
    assert_eq!(ids(&mut store).len(), 5, "counting changes nothing");
    assert_eq!(prune(&mut store, &Pruning { ended_before: Timestamp(1), ..all() }), Pruned::default());
    assert_eq!(prune(&mut store, &Pruning { tool: Some("else".to_owned()), ..all() }), Pruned::default());
    let mut told = 0;
    assert_eq!(store.prune(&all(), &mut |reached| told = reached.pruned.claims()).expect("pruning works"), would);
    assert_eq!(told, 2, "the last piece is told");
    assert_eq!(ids(&mut stores.open()), [held, running, newest]);
    assert!(store.get(done).expect("reading works").is_none());
    let output = store.output(done, Which::Result, &mut |_, _| Ok(()));
    assert!(matches!(output, Err(StoreError::Pruned(_, id)) if id == done), "no output is not an empty one");
    assert!(matches!(store.group(done), Err(StoreError::Pruned(..))));
    store.give_back(&mut |_| {}).expect("giving back works");
    assert_eq!(ids(&mut store), [held, running, newest]);
    assert_eq!(inserted(&mut store, &call("done")), (newest + 1, 1), "a new number, and attempts from the beginning");
}

pub(crate) fn what_lasts_for_ever_is_no_trouble<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let means = Means { resend_within: Some(Duration::MAX), ttl: Some(Duration::MAX), ..Means::default() };
    let id = ended(&mut store, &NewClaim { means, seen_every: Duration::MAX, ..call("t") }, &landed());
    ended(&mut store, &call("newest"), &landed());
    assert_eq!(prune(&mut store, &all()), Pruned::default(), "within its window the target knows the key");
    assert_eq!(store.list(&Filter::default()).expect("listing works").len(), 2);
    assert!(store.holder(&Key::of("t")).expect("reading works").is_some_and(|claim| claim.id == id));
}

pub(crate) fn numbers_of_attempts_go_on_after_older_ones_are_pruned<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    for _ in 0..3 {
        ended(&mut store, &call("t"), &failed());
    }
    // The newest of the store stays, and with it the key's number.
    assert_eq!(prune(&mut store, &all()).history, 2);
    assert_eq!(inserted(&mut store, &call("t")), (4, 4));
}

pub(crate) fn a_group_and_its_steps_go_together<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let step = ended(&mut store, &call("step"), &landed());
    let (parent, _) = inserted(&mut store, &call("parent"));
    store.join(&within(parent), &call("step").key).expect("joining works");
    store.emit(&within(parent), "made", Some("1")).expect("emitting works");
    let (other, _) = inserted(&mut store, &call("other"));
    store.emit(&within(other), "newest", None).expect("emitting works");
    assert_eq!(prune(&mut store, &all()), Pruned::default(), "a running parent keeps its steps");
    store.finish(parent, &failed(), &[]).expect("finishing works");
    let (again, _) = inserted(&mut store, &call("parent"));
    assert_eq!(prune(&mut store, &all()), Pruned::default());
    store.finish(again, &landed(), &[]).expect("finishing works");
    let early = prune(&mut store, &Pruning { tool: Some("step".to_owned()), ..all() });
    assert_eq!(early, Pruned::default(), "a completed parent keeps its steps");
    let newest = ended(&mut store, &call("newest"), &landed());
    let would = prune(&mut store, &Pruning { apply: false, ..all() });
    assert_eq!((would.completed, would.history, would.members), (2, 1, 2));
    assert_eq!(prune(&mut store, &all()), would);
    assert_eq!(ids(&mut store), [other, newest], "{step} went after {parent}");
}

pub(crate) fn a_group_goes_on_with_the_attempts_that_are_left<S: Stores>() {
    for cleared in [false, true] {
        let stores = S::new();
        let mut store = stores.open();
        let (other, _) = inserted(&mut store, &call("other"));
        let (first, _) = inserted(&mut store, &call("t"));
        store.emit(&within(first), "made", Some("1")).expect("emitting works");
        store.finish(first, &if cleared { landed() } else { failed() }, &[]).expect("finishing works");
        if cleared {
            let clear = change(State::Completed, State::Cleared, Reason::Cleared, EventKind::Cleared);
            assert!(store.transition(first, &clear).expect("clearing works"));
        }
        // The newest of the store stays.
        let (second, _) = inserted(&mut store, &call("t"));
        store.emit(&within(second), "later", Some("2")).expect("emitting works");
        store.finish(second, &landed(), &[]).expect("finishing works");
        store.emit(&within(other), "newest", None).expect("emitting works");
        let wanted: &[&str] = if cleared { &["later=2"] } else { &["made=1", "later=2"] };
        assert_eq!(members(&mut store, second), wanted);
        let would = prune(&mut store, &Pruning { apply: false, ..all() });
        assert_eq!((would.history, would.members), (1, u64::from(cleared)));
        assert_eq!(members(&mut store, second), wanted, "counting changes nothing");
        assert_eq!(prune(&mut store, &all()), would);
        assert_eq!(ids(&mut store), [other, second]);
        assert_eq!(members(&mut store, second), wanted);
    }
}

pub(crate) fn a_parent_stays_while_its_step_is_unknown_and_a_step_is_counted_once<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    ended(&mut store, &call("step"), &failed());
    let (parent, _) = inserted(&mut store, &call("parent"));
    let (step, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(parent)), ..call("step") });
    store.finish(step, &unknown(), &[]).expect("finishing works");
    store.finish(parent, &landed(), &[]).expect("finishing works");
    let (other, _) = inserted(&mut store, &call("other"));
    store.emit(&within(other), "newest", None).expect("emitting works");
    let newest = ended(&mut store, &call("newest"), &landed());
    assert_eq!(prune(&mut store, &all()), Pruned::default(), "the step is held");
    let resolve = change(State::Held, State::Completed, Reason::Resolved, EventKind::Resolved);
    assert!(store.transition(step, &resolve).expect("resolving works"));
    // The step is looked at before its parent, where its first attempt may go, and once more after it.
    let would = prune(&mut store, &Pruning { apply: false, ..all() });
    assert_eq!((would.completed, would.history, would.members), (2, 1, 1));
    assert_eq!(prune(&mut store, &all()), would);
    assert_eq!(ids(&mut store), [other, newest]);
}

pub(crate) fn a_key_with_many_attempts_goes_wholly<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    for _ in 0..55 {
        ended(&mut store, &call("t"), &failed());
    }
    let newest = ended(&mut store, &call("newest"), &landed());
    let would = prune(&mut store, &Pruning { apply: false, ..all() });
    assert_eq!((would.history, would.events), (55, 110));
    assert_eq!(prune(&mut store, &all()), would);
    assert_eq!(ids(&mut store), [newest]);
}

pub(crate) fn arrivals_are_counted_by_tool_and_day<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let done = ended(&mut store, &call("done"), &landed());
    ended(&mut store, &call("held"), &unknown());
    for kind in [EventKind::Replay, EventKind::Replay, EventKind::Mismatch] {
        store.arrived(done, kind, "a@b[1]").expect("logging works");
    }
    let stats = store.stats(&Filter::default()).expect("counting works");
    assert_eq!((stats.total.runs, stats.total.kept_from_running(), stats.total.failures), (2, 3, 1));
    assert_eq!((stats.by_tool["done"].replays, stats.by_tool["held"].held_now), (2, 1));
    assert_eq!(stats.by_day.values().map(|counts| counts.runs).sum::<u64>(), 2);
    let none = Filter { since: Some(Timestamp(i64::MAX)), ..Filter::default() };
    let stats = store.stats(&none).expect("counting works");
    assert_eq!((stats.total.runs, stats.total.held_now), (0, 1), "what is held now is held now");
    let other = Filter { tool: Some("other".to_owned()), states: vec![State::Held], ..Filter::default() };
    assert!(store.stats(&other).expect("counting works").total.is_empty());
}

pub(crate) fn a_new_store_is_well<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    inserted(&mut store, &call("t"));
    for integrity in [Integrity::Full, Integrity::Quick] {
        let findings = store.examine(integrity).expect("looking works");
        assert!(!findings.is_empty());
        assert!(findings.iter().all(|finding| finding.level <= Level::Note), "{findings:?}");
    }
}
