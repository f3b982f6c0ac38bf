//! What every store must do (design §11), whatever it is made of.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use idem::domain::claim::{
    Chunk, Claim, ClaimId, CommandLine, Effect, LockPlace, Means, NewClaim, Outcome, Owner, Probe, Reason, State,
    Stream,
};
use idem::domain::codes::ExitCodes;
use idem::domain::end::{End, EndTerms, Ended};
use idem::domain::event::{Event, EventKind, NewEvent};
use idem::domain::group::Enclosing;
use idem::domain::key::Key;
use idem::domain::store::{
    ClaimRef, Claimed, Filter, Finish, Finished, Found, NewOutput, NewResult, Store, Transition, Which,
};
use idem::domain::timestamp::Timestamp;

/// Makes empty stores, and opens one of them several times over.
pub(crate) trait Stores {
    /// The implementation.
    type Store: Store;
    /// Tells whether there is what such stores need. Says so where there isn't.
    fn is_here() -> bool {
        true
    }
    /// Makes the place of an empty store.
    fn new() -> Self;
    /// Opens it, as another process would.
    fn open(&self) -> Self::Store;
}

/// Names every test of the contract for one implementation.
macro_rules! tests {
    ($stores:ty) => {
        mod store {
            $crate::contract::named! { $stores:
                contract::the_insert_is_the_arbiter,
                contract::an_attempt_that_was_missed_is_told,
                contract::many_at_once_and_one_wins,
                contract::a_claim_comes_back_as_it_was_given,
                contract::an_end_is_recorded_whole,
                contract::attempts_count_spawns,
                contract::output_keeps_its_order_and_its_bytes,
                contract::a_transition_compares_first,
                contract::a_late_truth_counts_unless_a_person_decided,
                contract::a_stated_result_stands_in_place_of_the_recorded,
                contract::history_is_whole_and_in_order,
                contract::arrivals_are_counted_once_whoever_takes_them_in,
                contract::claims_are_found_and_listed,
                contract::steps_know_what_encloses_them,
                unknown::an_end_that_was_recorded_is_known_to_be,
                unknown::a_mark_is_taken_from_its_own_attempt_while_it_is_open,
                unknown::an_end_is_judged_by_the_last_mark,
                unknown::a_change_overlooks_no_mark,
                unknown::a_claim_takes_anothers_place_at_once_or_not_at_all,
                unknown::a_resend_that_has_not_landed_is_held_for_the_attempt_before_it,
                unknown::the_first_start_is_that_of_all_attempts,
                groups::a_name_is_there_once_in_a_group,
                groups::a_group_is_that_of_all_attempts_until_its_key_is_cleared,
                groups::a_step_belongs_to_each_group_that_came_to_it,
                groups::a_failure_beside_an_open_step_is_held,
                groups::several_changes_are_made_at_once,
                groups::many_members_at_once_are_all_there,
                prune::what_has_ended_is_pruned_and_the_rest_stays,
                prune::numbers_of_attempts_go_on_after_older_ones_are_pruned,
                prune::a_group_and_its_steps_go_together,
                prune::a_group_goes_on_with_the_attempts_that_are_left,
                prune::a_parent_stays_while_its_step_is_unknown_and_a_step_is_counted_once,
                prune::a_key_with_many_attempts_goes_wholly,
                prune::arrivals_are_counted_by_tool_and_day,
                prune::a_new_store_is_well,
                prune::what_lasts_for_ever_is_no_trouble,
                contract::much_output_waits_for_the_end,
                unknown::a_claim_that_was_to_make_place_and_has_changed_is_told,
                unknown::a_claim_whose_answer_was_lost_is_found_by_its_lock
            }
        }
    };
}

/// One test for each of these functions.
macro_rules! named {
    ($stores:ty: $($room:ident::$name:ident),+) => {
        $(#[test]
        fn $name() {
            if <$stores as $crate::contract::Stores>::is_here() {
                $crate::$room::$name::<$stores>();
            }
        })+
    };
}
pub(crate) use named;
pub(crate) use tests;

pub(crate) fn call(name: &str) -> NewClaim {
    NewClaim {
        key: Key::of(name),
        who: "ada".to_owned(),
        conv: "c-1".to_owned(),
        tool: name.to_owned(),
        params: r#"{"b":1,"a":"ü\n"}"#.to_owned(),
        bound: None,
        effect: Effect::External,
        command: CommandLine::new(&["sh", "-c", "exit 3"]),
        enclosing: None,
        seen: i64::MAX,
        lock: LockPlace { offset: (1 << 62) - 1, inode: 77 },
        owner: Owner { actor: "ada@h[12]".into(), process: "start 9".into() },
        means: Means::default(),
        in_place_of: None,
        seen_every: Duration::from_secs(5),
    }
}

pub(crate) fn inserted(store: &mut impl Store, new: &NewClaim) -> (ClaimId, i64) {
    match store.claim(new).expect("claiming works") {
        Claimed::Inserted { id, attempt, .. } => (id, attempt),
        Claimed::Taken(claim) | Claimed::Missed(claim) => panic!("claim {} is there", claim.id),
    }
}

/// What the commands of these tests' claims are told: all have one lock place, and so one token.
pub(crate) fn within(id: ClaimId) -> Enclosing {
    Enclosing { id, token: call("t").lock.token() }
}

/// The end of a local command that exited with this code.
fn end(exit_code: i32) -> Finish {
    let terms = EndTerms {
        effect: Effect::Local,
        landed_exit: ExitCodes::default(),
        not_landed_exit: ExitCodes::default(),
        keep_failure: false,
        marks: false,
    };
    let actor = "ada@h[12]".to_owned();
    Finish {
        end: End::Exited(exit_code),
        terms,
        exit_code: Some(exit_code),
        signal: None,
        missing: 0,
        recorded: 0,
        actor,
    }
}

pub(crate) fn landed() -> Finish {
    end(0)
}

pub(crate) fn failed() -> Finish {
    end(3)
}

/// The end of an external command that failed: nobody knows.
pub(crate) fn unknown() -> Finish {
    Finish { terms: EndTerms { effect: Effect::External, ..failed().terms }, ..failed() }
}

pub(crate) fn change(from: State, to: State, reason: Reason, kind: EventKind) -> Transition {
    let outcome = if to == State::Completed { Outcome::Landed } else { Outcome::Unknown };
    let to = Ended { state: to, outcome, reason };
    let events = vec![NewEvent { kind, detail: None }];
    Transition { from, mark: None, to, events, actor: "eve@h[1]".into(), result: None }
}

pub(crate) fn hold() -> Transition {
    change(State::Running, State::Held, Reason::Interrupted, EventKind::BecameHeld)
}

pub(crate) fn get(store: &mut impl Store, id: ClaimId) -> Claim {
    store.get(id).expect("reading works").expect("the claim is there")
}

/// Records an end with the rest of the output, behind `before` bytes that were recorded while it ran.
pub(crate) fn finish_with(
    store: &mut impl Store,
    id: ClaimId,
    finish: &Finish,
    before: usize,
    rest: &[Chunk],
) -> Finished {
    let bytes = before + rest.iter().map(|chunk| chunk.data.len()).sum::<usize>();
    let mut all = store.leave_off();
    all.extend_from_slice(rest);
    let finish = Finish { recorded: i64::try_from(bytes).expect("a size"), ..finish.clone() };
    store.finish(id, &finish, &all).expect("finishing works")
}

fn output(store: &mut impl Store, id: ClaimId) -> Vec<(Stream, Vec<u8>)> {
    output_of(store, id, Which::Result)
}

fn output_of(store: &mut impl Store, id: ClaimId, which: Which) -> Vec<(Stream, Vec<u8>)> {
    let mut seen: Vec<(Stream, Vec<u8>)> = Vec::new();
    store
        .output(id, which, &mut |stream, bytes| {
            // In how many pieces it comes is the store's affair.
            match seen.last_mut().filter(|(last, _)| *last == stream) {
                Some((_, data)) => data.extend_from_slice(bytes),
                None => seen.push((stream, bytes.to_vec())),
            }
            Ok(())
        })
        .expect("reading works")
        .expect("the visitor is content");
    seen
}

pub(crate) fn kinds(store: &mut impl Store, name: &str) -> Vec<EventKind> {
    store.events(&Key::of(name)).expect("reading works").iter().map(|event| event.kind).collect()
}

pub(crate) fn the_insert_is_the_arbiter<S: Stores>() {
    let stores = S::new();
    let (mut a, mut b) = (stores.open(), stores.open());
    assert!(a.holder(&Key::of("t")).expect("reading works").is_none());
    let (id, attempt) = inserted(&mut a, &call("t"));
    assert_eq!((id, attempt), (1, 1));
    let Claimed::Taken(claim) = b.claim(&call("t")).expect("claiming works") else { panic!("claimed twice") };
    assert_eq!((claim.id, claim.state), (1, State::Running));
    // Every state that holds the key keeps others out; every other lets one in.
    for (state, finish) in [(State::Completed, landed()), (State::Held, unknown())] {
        let name = state.as_str();
        let (id, _) = inserted(&mut a, &call(name));
        a.finish(id, &finish, &[]).expect("finishing works");
        assert!(matches!(b.claim(&call(name)).expect("claiming works"), Claimed::Taken(_)), "{state}");
        assert_eq!(b.holder(&Key::of(name)).expect("reading works").map(|claim| claim.id), Some(id));
    }
    for state in [State::Released, State::Cleared, State::Expired] {
        let (id, _) = inserted(&mut a, &call(state.as_str()));
        let free = change(State::Running, state, Reason::Cleared, EventKind::Cleared);
        assert!(a.transition(id, &free).expect("freeing works"));
        assert!(b.holder(&Key::of(state.as_str())).expect("reading works").is_none(), "{state}");
        inserted(&mut b, &call(state.as_str()));
    }
}

pub(crate) fn an_attempt_that_was_missed_is_told<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let seen = store.newest(&Key::of("t")).expect("reading works");
    assert_eq!(seen, 0);
    // B has looked and found nobody. Then A claims, fails and releases.
    let (a, _) = inserted(&mut store, &call("t"));
    let late = NewClaim { seen, ..call("t") };
    assert!(matches!(store.claim(&late).expect("claiming works"), Claimed::Taken(claim) if claim.id == a));
    store.finish(a, &failed(), &[]).expect("finishing works");
    assert!(matches!(store.claim(&late).expect("claiming works"), Claimed::Missed(claim) if claim.id == a));
    let other = NewClaim { seen, ..call("u") };
    assert!(matches!(store.claim(&other).expect("claiming works"), Claimed::Inserted { .. }), "another key");
    // Who arrives after the release runs.
    let seen = store.newest(&Key::of("t")).expect("reading works");
    assert!(matches!(store.claim(&NewClaim { seen, ..call("t") }).expect("claiming works"), Claimed::Inserted { .. }));
}

pub(crate) fn many_at_once_and_one_wins<S: Stores + Sync>() {
    let stores = S::new();
    let won: usize = std::thread::scope(|scope| {
        let arrivals: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let mut store = stores.open();
                    matches!(store.claim(&call("t")).expect("claiming works"), Claimed::Inserted { .. })
                })
            })
            .collect();
        arrivals.into_iter().map(|arrival| usize::from(arrival.join().expect("no panic"))).sum()
    });
    assert_eq!(won, 1);
}

pub(crate) fn a_claim_comes_back_as_it_was_given<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let probe = Probe {
        command: OsString::from_vec(b"ask \xff".to_vec()),
        folder: "/srv".into(),
        delay: Duration::from_millis(1),
        timeout: Duration::from_secs(2),
        max_output: 5,
    };
    let means = Means {
        probe: Some(probe),
        marks: true,
        resend_within: Some(Duration::from_mins(3)),
        ttl: Some(Duration::from_hours(4)),
    };
    let new = NewClaim { means, ..call("t") };
    let (id, _) = inserted(&mut store, &new);
    let claim = get(&mut stores.open(), id);
    assert_eq!(claim.key, new.key);
    assert_eq!((&claim.who, &claim.conv, &claim.tool), (&new.who, &new.conv, &new.tool));
    assert_eq!((&claim.params, &claim.command), (&new.params, &new.command));
    assert_eq!((claim.effect, claim.parent, claim.lock), (new.effect, None, new.lock));
    assert_eq!((&claim.owner, &claim.means, claim.mark), (&new.owner, &new.means, None));
    assert_eq!((claim.state, claim.outcome, claim.reason), (State::Running, Outcome::Unknown, None));
    assert_eq!((claim.exit_code, claim.signal, claim.finished_at), (None, None, None));
    assert!(store.get(id + 1).expect("reading works").is_none());
}

pub(crate) fn an_end_is_recorded_whole<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (id, _) = inserted(&mut store, &call("t"));
    let rest = [Chunk { stream: Stream::Stdout, data: b"done".to_vec() }];
    let finish = Finish { exit_code: None, signal: Some(15), missing: 7, ..failed() };
    let recorded = Finished::Recorded(Ended::not_landed(Reason::Exit));
    assert_eq!(finish_with(&mut store, id, &finish, 0, &rest), recorded);
    let mut other = stores.open();
    let claim = get(&mut other, id);
    assert_eq!((claim.state, claim.outcome, claim.reason), (State::Released, Outcome::NotLanded, Some(Reason::Exit)));
    assert_eq!((claim.exit_code, claim.signal, claim.exit_status()), (None, Some(15), Some(143)));
    assert!(claim.missing == 7 && claim.finished_at.is_some_and(|at| at >= claim.created_at));
    assert_eq!(output(&mut other, id), vec![(Stream::Stdout, b"done".to_vec())]);
    let events = other.events(&Key::of("t")).expect("reading works");
    let Some(Event { kind: EventKind::BecameReleased, actor, detail: Some(detail), .. }) = events.last() else {
        panic!("{events:?}")
    };
    let told: serde_json::Value = serde_json::from_str(detail).expect("JSON");
    let wanted = serde_json::json!({"outcome": "not-landed", "reason": "exit", "exit_code": null, "signal": "SIGTERM"});
    assert_eq!((told, actor), (wanted, &finish.actor));
}

pub(crate) fn attempts_count_spawns<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let mut numbers = Vec::new();
    let never = Finish { end: End::NotStarted, exit_code: Some(127), ..failed() };
    for finish in [failed(), never, landed(), unknown()] {
        let (id, attempt) = inserted(&mut store, &call("t"));
        numbers.push(attempt);
        let done = store.finish(id, &finish, &[]).expect("finishing works");
        if done == Finished::Recorded(Ended::landed(Reason::Exit)) {
            let clear = change(State::Completed, State::Cleared, Reason::Cleared, EventKind::Cleared);
            assert!(store.transition(id, &clear).expect("clearing works"));
        }
    }
    assert_eq!(numbers, vec![1, 2, 2, 3], "what never started gives its number back; what was cleared keeps it");
    let attempts = store.attempts(&Key::of("t")).expect("reading works");
    assert_eq!(attempts.iter().map(|claim| claim.id).collect::<Vec<_>>(), vec![1, 2, 3, 4]);
}

pub(crate) fn output_keeps_its_order_and_its_bytes<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (id, _) = inserted(&mut store, &call("t"));
    let (other, _) = inserted(&mut store, &call("u"));
    let chunk = |stream, data: &[u8]| Chunk { stream, data: data.to_vec() };
    let big = vec![0xa5; 3 * 1024 * 1024];
    store
        .append_output(id, &[chunk(Stream::Stderr, b"\xff\x00"), chunk(Stream::Stdout, b"a")], 0, true)
        .expect("appending");
    stores.open().append_output(other, &[chunk(Stream::Stdout, b"not mine")], 0, true).expect("appending");
    store.append_output(id, &[chunk(Stream::Stdout, &big)], 0, true).expect("appending");
    // Seen by others while it runs.
    let length = |seen: &[(Stream, Vec<u8>)]| seen.iter().map(|(_, data)| data.len()).sum::<usize>();
    let until = Instant::now() + Duration::from_secs(60);
    while length(&output(&mut stores.open(), id)) < big.len() + 3 {
        assert!(Instant::now() < until, "what was appended is to be seen");
        std::thread::yield_now();
    }
    finish_with(&mut store, id, &landed(), big.len() + 3, &[chunk(Stream::Stderr, b"end")]);
    let seen = output(&mut stores.open(), id);
    let a_big = [&b"a"[..], &big].concat();
    let wanted = [(Stream::Stderr, &b"\xff\x00"[..]), (Stream::Stdout, &a_big), (Stream::Stderr, b"end")];
    assert!(seen.iter().map(|(stream, data)| (*stream, data.as_slice())).eq(wanted));
    // A visitor that fails ends the reading, and its error comes back.
    let mut visits = 0;
    let result = store.output(id, Which::Result, &mut |_, _| {
        visits += 1;
        Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe))
    });
    assert_eq!(result.expect("reading works").expect_err("its own error").kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(visits, 1);
}

pub(crate) fn a_transition_compares_first<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (id, _) = inserted(&mut store, &call("t"));
    // The owner ends while another arrival believes it dead: the owner's word stands.
    store.finish(id, &landed(), &[]).expect("finishing works");
    assert!(!store.transition(id, &hold()).expect("comparing works"));
    assert_eq!(get(&mut store, id).state, State::Completed);
    assert_eq!(
        kinds(&mut store, "t"),
        vec![EventKind::Run, EventKind::BecameCompleted],
        "what didn't happen leaves nothing"
    );
    let (id, _) = inserted(&mut store, &call("u"));
    assert!(store.transition(id, &hold()).expect("holding works"));
    assert!(!store.transition(id, &hold()).expect("comparing works"), "the second of two that held it");
    let claim = get(&mut store, id);
    assert_eq!((claim.state, claim.reason, claim.outcome), (State::Held, Some(Reason::Interrupted), Outcome::Unknown));
}

pub(crate) fn a_late_truth_counts_unless_a_person_decided<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    for reason in [Reason::Interrupted, Reason::OwnerLost] {
        let (id, _) = inserted(&mut store, &call(reason.as_str()));
        let change = change(State::Running, State::Held, reason, EventKind::BecameHeld);
        store.transition(id, &change).expect("holding works");
        let recorded = Finished::Recorded(Ended::landed(Reason::Exit));
        assert_eq!(store.finish(id, &landed(), &[]).expect("finishing works"), recorded, "{reason}");
        assert_eq!(get(&mut store, id).state, State::Completed);
    }
    let decisions = [
        (State::Cleared, Reason::Cleared, EventKind::Cleared),
        (State::Completed, Reason::Resolved, EventKind::Resolved),
        (State::Released, Reason::Resolved, EventKind::Resolved),
    ];
    for (to, reason, kind) in decisions {
        let (id, _) = inserted(&mut store, &call(&format!("{to}-late")));
        store.transition(id, &change(State::Running, to, reason, kind)).expect("deciding works");
        let rest = [Chunk { stream: Stream::Stdout, data: b"late".to_vec() }];
        assert_eq!(finish_with(&mut store, id, &failed(), 0, &rest), Finished::Late(to));
        let claim = get(&mut store, id);
        assert_eq!((claim.state, claim.reason), (to, Some(reason)), "a person's word stands");
        assert_eq!(claim.exit_code, (to != State::Completed).then_some(3), "told where nothing was stated");
        assert_eq!(kinds(&mut store, &format!("{to}-late")).last(), Some(&EventKind::LateOutcome));
    }
}

pub(crate) fn much_output_waits_for_the_end<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (id, _) = inserted(&mut store, &call("t"));
    // As after a long time without the store: chunks of all sizes, the first bytes recorded before.
    let sizes = [3, 900_000, 1, 300_000, 2_500_000, 700_000, 5, 1_048_576, 1];
    let chunk = |n: usize, size: usize| Chunk {
        stream: if n.is_multiple_of(2) { Stream::Stdout } else { Stream::Stderr },
        data: (0..size).map(|byte| u8::try_from((byte * 7 + n) % 251).expect("a byte")).collect(),
    };
    let rest: Vec<Chunk> = sizes.iter().enumerate().map(|(n, size)| chunk(n, *size)).collect();
    let wanted: Vec<(Stream, Vec<u8>)> =
        rest.iter().filter(|chunk| !chunk.data.is_empty()).map(|chunk| (chunk.stream, chunk.data.clone())).collect();
    assert_eq!(finish_with(&mut store, id, &landed(), 0, &rest), Finished::Recorded(Ended::landed(Reason::Exit)));
    let seen = output(&mut stores.open(), id);
    let mut merged: Vec<(Stream, Vec<u8>)> = Vec::new();
    for (stream, data) in wanted {
        match merged.last_mut().filter(|(last, _)| *last == stream) {
            Some((_, all)) => all.extend(data),
            None => merged.push((stream, data)),
        }
    }
    assert!(seen == merged);
}

pub(crate) fn a_stated_result_stands_in_place_of_the_recorded<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let stated = b"stated".to_vec();
    for (name, new, wanted, stderr, missing) in [
        ("kept", NewOutput::Recorded, "recorded", "err", 9),
        ("stated", NewOutput::Stdout(stated.clone()), "stated", "err", 9),
        ("only", NewOutput::Only { stdout: stated, missing: 0 }, "stated", "", 0),
    ] {
        let (id, _) = inserted(&mut store, &call(name));
        let chunks = [
            Chunk { stream: Stream::Stdout, data: b"recorded".to_vec() },
            Chunk { stream: Stream::Stderr, data: b"err".to_vec() },
        ];
        let finish = Finish { end: End::Signaled(9), signal: Some(9), exit_code: None, missing: 9, ..unknown() };
        finish_with(&mut store, id, &finish, 0, &chunks);
        let mut resolve = change(State::Held, State::Completed, Reason::Resolved, EventKind::Resolved);
        resolve.result = Some(NewResult { exit_code: 4, output: new });
        assert!(store.transition(id, &resolve).expect("resolving works"));
        let claim = get(&mut store, id);
        assert_eq!((claim.exit_code, claim.signal, claim.outcome), (Some(4), None, Outcome::Landed));
        assert_eq!(claim.missing, missing);
        let seen = output(&mut store, id);
        let of = |wanted: Stream| {
            seen.iter().filter(|(stream, _)| *stream == wanted).flat_map(|(_, data)| data.clone()).collect::<Vec<u8>>()
        };
        assert_eq!(String::from_utf8(of(Stream::Stdout)).expect("text"), wanted);
        assert_eq!(String::from_utf8(of(Stream::Stderr)).expect("text"), stderr);
        // What was printed is not lost by it, and not taken for what was stated.
        let printed = [(Stream::Stdout, b"recorded".to_vec()), (Stream::Stderr, b"err".to_vec())];
        assert_eq!(output_of(&mut store, id, Which::Printed), printed);
        assert_eq!(!output_of(&mut store, id, Which::Stated).is_empty(), wanted == "stated");
    }
}

pub(crate) fn history_is_whole_and_in_order<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (first, _) = inserted(&mut store, &call("t"));
    store.finish(first, &failed(), &[]).expect("finishing works");
    let (second, _) = inserted(&mut store, &call("t"));
    store.arrived(second, EventKind::Busy, "eve@h[2]").expect("logging works");
    store.transition(second, &hold()).expect("holding works");
    store.arrived(second, EventKind::Held, "eve@h[3]").expect("logging works");
    let events = store.events(&Key::of("t")).expect("reading works");
    assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at), "{events:?}");
    let mut told: Vec<_> = events.iter().map(|event| (event.claim, event.kind)).collect();
    let mut wanted = vec![
        (first, EventKind::Run),
        (first, EventKind::BecameReleased),
        (second, EventKind::Run),
        (second, EventKind::Busy),
        (second, EventKind::BecameHeld),
        (second, EventKind::Held),
    ];
    // Within one millisecond, logged arrivals may stand beside transitions in either order.
    told.sort_by_key(|(claim, kind)| (*claim, kind.as_str()));
    wanted.sort_by_key(|(claim, kind)| (*claim, kind.as_str()));
    assert_eq!(told, wanted);
    assert!(events.iter().any(|event| event.actor == "eve@h[3]" && event.kind == EventKind::Held));
}

pub(crate) fn arrivals_are_counted_once_whoever_takes_them_in<S: Stores + Sync>() {
    const EACH: usize = 40;
    let stores = S::new();
    let (id, _) = inserted(&mut stores.open(), &call("t"));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stores = &stores;
            scope.spawn(move || {
                let mut store = stores.open();
                for _ in 0..EACH {
                    store.arrived(id, EventKind::Replay, &format!("a b@h[{thread}]")).expect("logging works");
                    if thread == 0 {
                        store.upkeep().expect("upkeep works");
                    }
                }
            });
        }
    });
    let mut store = stores.open();
    let listed = store.list(&Filter::default()).expect("listing works");
    assert_eq!(listed[0].arrivals, i64::try_from(4 * EACH + 1).expect("small"));
    store.arrived(id, EventKind::Replay, "c@h[9]").expect("logging works");
    let listed = store.list(&Filter::default()).expect("listing works");
    assert_eq!(listed[0].arrivals, i64::try_from(4 * EACH + 2).expect("small"));
}

pub(crate) fn claims_are_found_and_listed<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    for (name, who, finish) in [("t1", "ada", landed()), ("t2", "bob", failed()), ("t3", "ada", landed())] {
        let (id, _) = inserted(&mut store, &NewClaim { who: who.into(), ..call(name) });
        store.finish(id, &finish, &[]).expect("finishing works");
    }
    let now = store.now().expect("a clock");
    let mut ids = |filter: Filter| -> Vec<ClaimId> {
        let listed = store.list(&filter).expect("listing works");
        let listed: Vec<_> = listed.into_iter().map(|listed| listed.claim).collect();
        assert_eq!(store.claims(&filter).expect("reading works"), listed, "{filter:?}");
        let all = store.list(&Filter { limit: None, ..filter.clone() }).expect("listing works").len();
        assert_eq!(
            store.count(&filter, 1000).expect("counting works"),
            all as u64,
            "the limit counts for nothing: {filter:?}"
        );
        assert_eq!(store.count(&filter, 1).expect("counting works"), all.min(1) as u64, "no further: {filter:?}");
        listed.iter().map(|claim| claim.id).collect()
    };
    assert_eq!(ids(Filter::default()), vec![3, 2, 1], "newest first");
    assert_eq!(ids(Filter { who: Some("ada".into()), ..Filter::default() }), vec![3, 1]);
    assert_eq!(ids(Filter { tool: Some("t2".into()), ..Filter::default() }), vec![2]);
    assert_eq!(ids(Filter { conv: Some("c-2".into()), ..Filter::default() }), Vec::<ClaimId>::new());
    assert_eq!(ids(Filter { states: vec![State::Released, State::Held], ..Filter::default() }), vec![2]);
    assert_eq!(ids(Filter { limit: Some(1), ..Filter::default() }), vec![3]);
    for (minutes, since, before) in [(1, 0, 3), (-1, 3, 0)] {
        let time = Some(Timestamp(now.at.0 + minutes * 60_000));
        assert_eq!(ids(Filter { since: time, ..Filter::default() }).len(), since);
        assert_eq!(ids(Filter { before: time, ..Filter::default() }).len(), before);
    }

    let (id, _) = inserted(&mut store, &call("t2"));
    let key = Key::of("t2").to_string();
    let found = |store: &mut S::Store, named| match store.find(&named).expect("finding works") {
        Found::Claim(claim) => Some(claim.id),
        Found::Nothing => None,
        Found::Ambiguous => Some(-1),
    };
    assert_eq!(found(&mut store, ClaimRef::Id(2)), Some(2));
    assert_eq!(found(&mut store, ClaimRef::Id(99)), None);
    assert_eq!(found(&mut store, ClaimRef::KeyPrefix(key[..12].into())), Some(id), "the newest of its key");
    assert_eq!(found(&mut store, ClaimRef::KeyPrefix(key.clone())), Some(id));
    assert_eq!(found(&mut store, ClaimRef::KeyPrefix("0".repeat(64))), None);
    // 17 keys: two of them begin with the same digit.
    for n in 0..17 {
        inserted(&mut store, &call(&format!("n{n}")));
    }
    let digits = "0123456789abcdef".chars().map(String::from);
    let ambiguous = digits.filter(|digit| found(&mut store, ClaimRef::KeyPrefix(digit.clone())) == Some(-1)).count();
    assert!(ambiguous > 0);
}

pub(crate) fn steps_know_what_encloses_them<S: Stores>() {
    let stores = S::new();
    let mut store = stores.open();
    let (outer, _) = inserted(&mut store, &call("outer"));
    let (step, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(outer)), ..call("step") });
    let (inner, _) = inserted(&mut store, &NewClaim { enclosing: Some(within(step)), ..call("inner") });
    let (other, _) = inserted(&mut store, &call("other"));
    let mut encloses = |a, b| store.encloses(a, b).expect("reading works");
    assert!(encloses(outer, outer) && encloses(outer, step) && encloses(outer, inner) && encloses(step, inner));
    assert!(!encloses(inner, outer) && !encloses(other, inner) && !encloses(outer, other));
}
