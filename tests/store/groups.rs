//! The contract's part about groups (design §8).

use idem::domain::claim::{ClaimId, LockPlace, NewClaim, Outcome, Reason, State};
use idem::domain::end::Ended;
use idem::domain::event::EventKind;
use idem::domain::group::{Emitted, Enclosing, Made};
use idem::domain::key::Key;
use idem::domain::store::{Finished, Store};

use crate::contract::{Stores, call, change, failed, get, inserted, landed, unknown, within};

fn emit(store: &mut impl Store, id: ClaimId, name: &str, data: Option<&str>) -> Emitted {
    store.emit(&within(id), name, data).expect("emitting works")
}

pub(crate) fn several_changes_are_made_at_once<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let ids: Vec<ClaimId> = (0..3).map(|n| inserted(&mut store, &call(&format!("t{n}"))).0).collect();
    store.finish(ids[1], &landed(), &[]).expect("finishing works");
    let clear = change(State::Running, State::Cleared, Reason::Cleared, EventKind::Cleared);
    let changes: Vec<_> = ids.iter().map(|id| (*id, clear.clone())).collect();
    assert_eq!(store.transitions(&changes).expect("clearing works"), [ids[1]], "that one runs no more");
    let states: Vec<State> = ids.iter().map(|id| get(&mut store, *id).state).collect();
    assert_eq!(states, [State::Cleared, State::Completed, State::Cleared]);
}

/// The members of a group: names with values, and steps with their number and state.
pub(crate) fn members(store: &mut impl Store, id: ClaimId) -> Vec<String> {
    let told = |made| match made {
        Made::Emitted { name, data } => format!("{name}={}", data.unwrap_or_default()),
        Made::Step(claim) => format!("{} {}", claim.id, claim.state),
    };
    store.group(id).expect("reading works").into_iter().map(|member| told(member.made)).collect()
}

pub(crate) fn a_name_is_there_once_in_a_group<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (id, _) = inserted(&mut store, &call("t"));
    let other_lock = LockPlace { offset: 5, inode: 77 };
    let (other, _) = inserted(&mut store, &NewClaim { lock: other_lock, ..call("other") });
    for (name, data, became) in [
        ("order", Some(r#"{"id":17}"#), Emitted::Recorded),
        ("line", None, Emitted::Recorded),
        ("order", Some(r#"{ "id": 17.0 }"#), Emitted::Recorded),
        ("order", Some("18"), Emitted::Other(Some(r#"{"id":17}"#.to_owned()))),
        ("line", Some("null"), Emitted::Other(None)),
        ("line", None, Emitted::Recorded),
    ] {
        assert_eq!(emit(&mut store, id, name, data), became, "{name} {data:?}");
    }
    assert_eq!(members(&mut stores.open(), id), [r#"order={"id":17}"#, "line="]);
    assert_eq!(emit(&mut store, other, "x", None), Emitted::NotThisAttempt, "the token is of another attempt");
    assert_eq!(emit(&mut store, 99, "x", None), Emitted::NotThisAttempt);
    let own = Enclosing { id: other, token: other_lock.token() };
    assert_eq!(store.emit(&own, "order", Some("1")).expect("emitting works"), Emitted::Recorded, "another group");
    store.finish(id, &landed(), &[]).expect("finishing works");
    assert_eq!(emit(&mut store, id, "late", None), Emitted::Over(State::Completed));
    assert_eq!(members(&mut store, id).len(), 2);
}

pub(crate) fn a_group_is_that_of_all_attempts_until_its_key_is_cleared<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (first, _) = inserted(&mut store, &call("t"));
    assert_eq!(emit(&mut store, first, "a", Some("1")), Emitted::Recorded);
    store.finish(first, &failed(), &[]).expect("finishing works");
    let (second, _) = inserted(&mut store, &call("t"));
    assert_eq!(emit(&mut store, second, "a", Some("2")), Emitted::Other(Some("1".to_owned())));
    assert_eq!(emit(&mut store, second, "b", None), Emitted::Recorded);
    store.finish(second, &landed(), &[]).expect("finishing works");
    assert_eq!(members(&mut store, second), ["a=1", "b="], "whichever attempt made each");
    assert_eq!(members(&mut store, first), ["a=1", "b="]);
    for state in [State::Cleared, State::Expired] {
        let (last, _) = match store.holder(&Key::of("t")).expect("reading works") {
            Some(claim) => (claim.id, 0),
            None => inserted(&mut store, &call("t")),
        };
        let from = get(&mut store, last).state;
        assert!(store.transition(last, &change(from, state, Reason::Cleared, EventKind::Cleared)).expect("freeing"));
        let (anew, _) = inserted(&mut store, &call("t"));
        assert_eq!(members(&mut store, anew), Vec::<String>::new(), "{state}");
        assert_eq!(emit(&mut store, anew, "a", Some("3")), Emitted::Recorded);
        assert_eq!(members(&mut store, second), ["a=1", "b="], "history keeps its own");
    }
}

pub(crate) fn a_step_belongs_to_each_group_that_came_to_it<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (parent, _) = inserted(&mut store, &call("parent"));
    let (step, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(parent)), ..call("step") });
    assert_eq!(get(&mut store, step).parent, Some(parent));
    assert_eq!(members(&mut store, parent), [format!("{step} running")]);
    assert_eq!(store.open_steps(parent).expect("reading works"), [step]);
    store.finish(step, &landed(), &[]).expect("finishing works");
    assert_eq!(store.open_steps(parent).expect("reading works"), Vec::<ClaimId>::new());
    // Another call comes to its result.
    let (other, _) = inserted(&mut store, &call("other"));
    store.join(&within(other), &Key::of("step")).expect("joining works");
    store.join(&within(other), &Key::of("step")).expect("joining works");
    assert_eq!(members(&mut store, other), [format!("{step} completed")]);
    // What is over, and what isn't proven, takes no more steps.
    store.finish(other, &landed(), &[]).expect("finishing works");
    let (late, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(other)), ..call("late") });
    store.join(&within(other), &Key::of("late")).expect("joining works");
    let forged = Enclosing { id: parent, token: "0".repeat(16) };
    store.join(&forged, &Key::of("late")).expect("joining works");
    assert_eq!(get(&mut store, late).parent, None);
    assert_eq!((members(&mut store, other).len(), members(&mut store, parent).len()), (1, 1));
    // A step is told as its newest attempt.
    let clear = change(State::Completed, State::Cleared, Reason::Cleared, EventKind::Cleared);
    assert!(store.transition(step, &clear).expect("clearing works"));
    let (again, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(parent)), ..call("step") });
    assert_eq!(members(&mut store, parent), [format!("{again} running")]);
}

pub(crate) fn a_failure_beside_an_open_step_is_held<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let held = Ended { state: State::Held, outcome: Outcome::Unknown, reason: Reason::Steps };
    for step_end in [None, Some(unknown())] {
        let name = if step_end.is_some() { "held" } else { "running" };
        let (parent, _) = inserted(&mut store, &call(name));
        let step_name = format!("{name}-step");
        let (step, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(parent)), ..call(&step_name) });
        if let Some(end) = step_end {
            store.finish(step, &end, &[]).expect("finishing works");
        }
        assert_eq!(store.finish(parent, &failed(), &[]).expect("finishing works"), Finished::Recorded(held), "{name}");
        assert_eq!(store.open_steps(parent).expect("reading works"), [step]);
    }
    // Each knows who is held for it, and a step that waits for this very call is no reason to wait.
    let held_for = |store: &mut S::Store, step: &str| -> Vec<ClaimId> {
        store.held_for(&Key::of(step)).expect("reading works").iter().map(|claim| claim.id).collect()
    };
    assert_eq!((held_for(&mut store, "held-step"), held_for(&mut store, "none")), (vec![3], vec![]));
    let (circle, _) = inserted(&mut store, &call("circle"));
    let (back, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(circle)), ..call("back") });
    store.join(&within(back), &Key::of("circle")).expect("joining works");
    assert_eq!(members(&mut store, back), [format!("{circle} running")]);
    assert_eq!(store.open_steps(back).expect("reading works"), Vec::<ClaimId>::new());
    store.join(&within(circle), &Key::of("circle")).expect("joining works");
    assert_eq!(members(&mut store, circle), [format!("{back} running")], "nobody is a step of itself");

    let (parent, _) = inserted(&mut store, &call("fine"));
    let (step, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(parent)), ..call("fine-step") });
    store.finish(step, &landed(), &[]).expect("finishing works");
    let released = Finished::Recorded(Ended::not_landed(Reason::Exit));
    assert_eq!(store.finish(parent, &failed(), &[]).expect("finishing works"), released);
}

pub(crate) fn many_members_at_once_are_all_there<S: Stores + Sync>() {
    let stores = S::new();
    let (id, _) = inserted(&mut stores.open(), &call("t"));
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let stores = &stores;
            scope.spawn(move || {
                let mut store = stores.open();
                for n in 0..20 {
                    // Each name by two of them: the second one changes nothing.
                    assert_eq!(emit(&mut store, id, &format!("{}-{n}", worker / 2), Some("1")), Emitted::Recorded);
                }
            });
        }
    });
    assert_eq!(members(&mut stores.open(), id).len(), 80);
}
