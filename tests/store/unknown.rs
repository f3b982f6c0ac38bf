//! The contract's part about unknown outcomes: marks (design §8), and a second run that is borne (§7).

use std::time::Duration;

use idem::domain::claim::{InPlaceOf, LockPlace, Mark, NewClaim, Outcome, Reason, State};
use idem::domain::end::{End, Ended};
use idem::domain::event::{EventKind, NewEvent};
use idem::domain::key::Key;
use idem::domain::store::{Claimed, Finish, Finished, Marked, Store, Transition};

use crate::contract::{Stores, call, change, failed, get, hold, inserted, kinds, landed, unknown, within};

fn mark<S: Store>(store: &mut S, id: i64, mark: Mark) -> Marked {
    store.mark(&within(id), mark, "cmd@h[3]").expect("marking works")
}

pub(crate) fn a_mark_is_taken_from_its_own_attempt_while_it_is_open<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (id, _) = inserted(&mut store, &call("t"));
    let other_lock = LockPlace { offset: 5, inode: 77 };
    let (other, _) = inserted(&mut store, &NewClaim { lock: other_lock, ..call("other") });
    assert_eq!(mark(&mut store, other, Mark::Landed), Marked::NotThisAttempt, "the token is of another attempt");
    assert_eq!(mark(&mut store, 99, Mark::Landed), Marked::NotThisAttempt);
    assert_eq!(get(&mut store, other).mark, None);

    for (said, known) in [
        (Mark::Sending, Marked::Recorded),
        (Mark::Sending, Marked::Recorded),
        (Mark::NotLanded, Marked::Recorded),
        (Mark::Sending, Marked::Recorded),
        (Mark::Landed, Marked::Recorded),
        (Mark::Landed, Marked::Recorded),
        (Mark::NotLanded, Marked::HasLanded),
        (Mark::Sending, Marked::HasLanded),
    ] {
        assert_eq!(mark(&mut store, id, said), known, "{said}");
    }
    assert_eq!(get(&mut stores.open(), id).mark, Some(Mark::Landed));
    let marks = kinds(&mut store, "t").iter().filter(|kind| **kind == EventKind::Mark).count();
    assert_eq!(marks, 4, "what changes nothing leaves no event");

    store.finish(id, &landed(), &[]).expect("finishing works");
    assert_eq!(mark(&mut store, id, Mark::Landed), Marked::Over(State::Completed));
}

pub(crate) fn an_end_is_judged_by_the_last_mark<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let held = Ended { state: State::Held, outcome: Outcome::Unknown, reason: Reason::Exit };
    for (said, ended) in [
        (Mark::Sending, held),
        (Mark::NotLanded, Ended::not_landed(Reason::Marks)),
        (Mark::Landed, Ended::landed(Reason::Marks)),
    ] {
        let (id, _) = inserted(&mut store, &call("t"));
        assert_eq!(mark(&mut store, id, said), Marked::Recorded);
        assert_eq!(store.finish(id, &unknown(), &[]).expect("finishing works"), Finished::Recorded(ended), "{said}");
        let claim = get(&mut store, id);
        assert_eq!((claim.state, claim.outcome, claim.exit_code), (ended.state, ended.outcome, Some(3)));
        if claim.state.holds_key() {
            let clear = Transition {
                mark: Some(said),
                ..change(claim.state, State::Cleared, Reason::Cleared, EventKind::Cleared)
            };
            assert!(store.transition(id, &clear).expect("clearing works"));
        }
    }
    // Marked while it was thought lost: the truth that comes late is judged by it too.
    let (id, _) = inserted(&mut store, &call("t"));
    assert!(store.transition(id, &hold()).expect("holding works"));
    assert_eq!(mark(&mut store, id, Mark::Landed), Marked::Recorded);
    let landed = Finished::Recorded(Ended::landed(Reason::Marks));
    assert_eq!(store.finish(id, &failed(), &[]).expect("finishing works"), landed);
}

pub(crate) fn a_change_overlooks_no_mark<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (id, _) = inserted(&mut store, &call("t"));
    let release = change(State::Running, State::Released, Reason::Marks, EventKind::BecameReleased);
    assert_eq!(mark(&mut store, id, Mark::Sending), Marked::Recorded);
    assert!(!store.transition(id, &release).expect("comparing works"), "it was judged before it said that it sends");
    assert_eq!(get(&mut store, id).state, State::Running);
    let judged_anew = Transition { mark: Some(Mark::Sending), ..hold() };
    assert!(store.transition(id, &judged_anew).expect("holding works"));
    // A change may leave several events, in order, and an event may change nothing.
    let probe = NewEvent { kind: EventKind::Probe, detail: Some("{}".to_owned()) };
    assert_eq!(store.times_asked(id).expect("counting works"), 0);
    store.leave(id, &probe, "eve@h[1]").expect("leaving works");
    assert_eq!(store.times_asked(id).expect("counting works"), 1);
    let mut free = change(State::Held, State::Released, Reason::Probe, EventKind::BecameReleased);
    free.mark = Some(Mark::Sending);
    free.events.insert(0, probe);
    assert!(store.transition(id, &free).expect("releasing works"));
    let events = kinds(&mut store, "t");
    assert_eq!(events[events.len() - 3..], [EventKind::Probe, EventKind::Probe, EventKind::BecameReleased]);
    assert_eq!(mark(&mut store, id, Mark::Landed), Marked::Over(State::Released));
}

pub(crate) fn a_claim_takes_anothers_place_at_once_or_not_at_all<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let place = |claim, within| InPlaceOf {
        claim,
        from: State::Held,
        mark: None,
        reason: Reason::Resent,
        within: Some(Duration::from_millis(within)),
    };
    let again = |claim, within| NewClaim { in_place_of: Some(place(claim, within)), ..call("t") };
    let (first, _) = inserted(&mut store, &call("t"));
    let taken = |claimed| matches!(claimed, Claimed::Taken(claim) if claim.id == first);
    assert!(
        taken(store.claim(&again(first, 60_000)).expect("claiming works")),
        "it runs: it is not what it was judged by"
    );
    store.finish(first, &unknown(), &[]).expect("finishing works");
    assert!(taken(store.claim(&call("t")).expect("claiming works")), "who doesn't say so takes nobody's place");
    assert!(taken(store.claim(&again(first, 0)).expect("claiming works")), "the window is over");
    let (second, attempt) = inserted(&mut store, &again(first, 60_000));
    assert_eq!(attempt, 2);
    let old = get(&mut store, first);
    assert_eq!((old.state, old.reason, old.outcome), (State::Released, Some(Reason::Resent), Outcome::Unknown));
    assert_eq!(get(&mut store, second).state, State::Running);
    // The second of two that judged the same held claim.
    let late = store.claim(&again(first, 60_000)).expect("claiming works");
    assert!(matches!(late, Claimed::Taken(claim) if claim.id == second));
}

pub(crate) fn a_resend_that_has_not_landed_is_held_for_the_attempt_before_it<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let resent = |claim| InPlaceOf {
        claim,
        from: State::Held,
        mark: None,
        reason: Reason::Resent,
        within: Some(Duration::from_secs(60)),
    };
    let rerun = |claim| InPlaceOf { from: State::Running, reason: Reason::Interrupted, within: None, ..resent(claim) };
    let place_of = |tool, old: InPlaceOf| NewClaim { seen: old.claim, in_place_of: Some(old), ..call(tool) };
    let unknown_before = |store: &mut S::Store, id| store.earlier_is_unknown(id).expect("reading works");
    let not_started = Finish { end: End::NotStarted, exit_code: Some(127), ..failed() };
    for (tool, finish) in [("exit", failed()), ("start", not_started)] {
        let (first, _) = inserted(&mut store, &call(tool));
        store.finish(first, &unknown(), &[]).expect("finishing works");
        let (second, _) = inserted(&mut store, &place_of(tool, resent(first)));
        assert_eq!((unknown_before(&mut store, first), unknown_before(&mut store, second)), (false, true));
        store.finish(second, &finish, &[]).expect("finishing works");
        let row = get(&mut store, second);
        assert_eq!((row.state, row.reason, row.outcome), (State::Held, Some(Reason::Resent), Outcome::Unknown));
        // The third follows one that knows no more; it lands.
        let (third, _) = inserted(&mut store, &place_of(tool, resent(second)));
        assert!(unknown_before(&mut store, third));
        store.finish(third, &landed(), &[]).expect("finishing works");
        assert_eq!(get(&mut store, third).state, State::Completed);
        // What comes after somebody's word has nothing unknown before it.
        let clear = change(State::Completed, State::Cleared, Reason::Cleared, EventKind::Cleared);
        assert!(store.transition(third, &clear).expect("clearing works"));
        let (fourth, _) = inserted(&mut store, &NewClaim { seen: third, ..call(tool) });
        assert!(!unknown_before(&mut store, fourth));
        store.finish(fourth, &finish, &[]).expect("finishing works");
        assert_eq!(get(&mut store, fourth).state, State::Released);
    }
    // Who ran again what was interrupted said that this is safe, for good.
    let (first, _) = inserted(&mut store, &call("safe"));
    let (second, _) = inserted(&mut store, &place_of("safe", rerun(first)));
    assert!(!unknown_before(&mut store, second));
    store.finish(second, &failed(), &[]).expect("finishing works");
    assert_eq!(get(&mut store, second).state, State::Released);
}

pub(crate) fn a_claim_that_was_to_make_place_and_has_changed_is_told<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let place = |claim, from| InPlaceOf { claim, from, mark: None, reason: Reason::Interrupted, within: None };
    let (first, _) = inserted(&mut store, &call("t"));
    let again = NewClaim { seen: first, in_place_of: Some(place(first, State::Running)), ..call("t") };
    store.finish(first, &failed(), &[]).expect("finishing works");
    // It was judged while it ran; it has failed since, and its key is free. That failure is the answer.
    let told = store.claim(&again).expect("claiming works");
    assert!(matches!(told, Claimed::Missed(claim) if claim.id == first && claim.state == State::Released));
    assert_eq!(store.attempts(&Key::of("t")).expect("reading works").len(), 1, "nothing is inserted");
    inserted(&mut store, &NewClaim { seen: first, ..call("t") });
}

pub(crate) fn the_first_start_is_that_of_all_attempts<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    assert_eq!(store.first_start(&Key::of("t")).expect("reading works"), None);
    let (first, _) = inserted(&mut store, &call("t"));
    store.finish(first, &failed(), &[]).expect("finishing works");
    let (second, _) = inserted(&mut store, &call("t"));
    store.finish(second, &landed(), &[]).expect("finishing works");
    let clear = change(State::Completed, State::Cleared, Reason::Cleared, EventKind::Cleared);
    store.transition(second, &clear).expect("clearing works");
    inserted(&mut store, &call("t"));
    let start = store.first_start(&Key::of("t")).expect("reading works");
    assert_eq!(start, Some(get(&mut store, first).claimed()));
}

pub(crate) fn an_end_that_was_recorded_is_known_to_be<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let has = |store: &mut S::Store, id, finish: &Finish| store.has_recorded(id, finish).expect("reading works");
    let (id, _) = inserted(&mut store, &call("t"));
    assert!(!has(&mut store, id, &landed()));
    // What others make of the claim is no end of its owner, whoever they are.
    let held = Transition { actor: landed().actor, ..hold() };
    assert!(store.transition(id, &held).expect("holding works"));
    assert!(!has(&mut store, id, &landed()));
    store.finish(id, &landed(), &[]).expect("finishing works");
    store.set_patience(Some(Duration::ZERO));
    assert!(has(&mut store, id, &landed()) && has(&mut stores.open(), id, &landed()));
    for other in [
        failed(),
        Finish { actor: "eve@h[7]".to_owned(), ..landed() },
        Finish { exit_code: None, signal: Some(9), ..landed() },
    ] {
        assert!(!has(&mut store, id, &other), "{other:?}");
    }
    // One that came too late is in the history.
    let (late, _) = inserted(&mut store, &call("late"));
    let clear = change(State::Running, State::Cleared, Reason::Cleared, EventKind::Cleared);
    assert!(store.transition(late, &clear).expect("clearing works"));
    assert!(!has(&mut store, late, &failed()));
    assert_eq!(store.finish(late, &failed(), &[]).expect("finishing works"), Finished::Late(State::Cleared));
    assert!(has(&mut store, late, &failed()) && !has(&mut store, id, &failed()));
}

pub(crate) fn a_claim_whose_answer_was_lost_is_found_by_its_lock<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let place = |offset| LockPlace { offset, inode: 77 };
    let mut made = Vec::new();
    for offset in [5, 6] {
        let (id, _) = inserted(&mut store, &NewClaim { lock: place(offset), ..call("t") });
        store.finish(id, &failed(), &[]).expect("finishing works");
        made.push(id);
    }
    inserted(&mut store, &NewClaim { lock: place(7), ..call("other") });
    let mut found = |lock| store.made_with(&Key::of("t"), lock).expect("reading works").map(|claim| claim.id);
    assert_eq!([5, 6].map(|offset| found(place(offset))), [Some(made[0]), Some(made[1])]);
    assert_eq!(found(place(7)), None, "another key's");
    assert_eq!(found(LockPlace { inode: 78, ..place(5) }), None, "another host's");
}
