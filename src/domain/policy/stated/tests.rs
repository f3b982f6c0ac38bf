//! Tables: for each key what a call may state, and what comes of it.

use std::borrow::Borrow;

use super::*;

fn said<T>(value: T) -> Option<Said<T>> {
    Some(Said { value, text: "…".to_owned(), place: Place { line: 7, section: "defaults".to_owned() } })
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn codes(text: &str) -> Option<ExitCodes> {
    Some(if text.is_empty() { ExitCodes::default() } else { text.parse().expect(text) })
}

fn pointers(texts: &[&str]) -> Vec<Pointer> {
    texts.iter().map(|text| text.parse().expect("a pointer")).collect()
}

/// Fails unless the outcome is the expected one: what applies, or the option and key of the refusal.
#[track_caller]
fn check(rules: &Rules, stated: &Stated, expected: impl Borrow<Result<Stated, (&'static str, &'static str)>>) {
    let found = stated.clone().under(rules);
    let refusal = found.as_ref().map_err(|refused| {
        assert_eq!(refused.place.line, 7);
        (refused.option.as_str(), refused.key)
    });
    assert_eq!(refusal, expected.borrow().as_ref().map_err(|expected| *expected), "{stated:?}");
}

fn s() -> Stated {
    Stated::default()
}

#[test]
fn the_effect() {
    use Effect::{External, Local};
    let with = |effect| Stated { effect, ..s() };
    for (policy, stated, expected) in [
        (External, None, Ok(External)),
        (External, Some(External), Ok(External)),
        (External, Some(Local), Err(("--local", "effect"))),
        (Local, None, Ok(Local)),
        (Local, Some(Local), Ok(Local)),
        (Local, Some(External), Ok(External)),
    ] {
        let rules = Rules { effect: said(policy), ..Rules::default() };
        check(&rules, &with(stated), expected.map(|effect| with(Some(effect))));
    }
    check(&Rules::default(), &with(Some(Local)), Ok(with(Some(Local))));
}

#[test]
fn what_is_for_local_calls() {
    let external = Rules { effect: said(Effect::External), ..Rules::default() };
    check(&external, &Stated { keep_failure: true, ..s() }, Err(("--keep-failure", "effect")));
    check(&external, &Stated { rerun_if_interrupted: true, ..s() }, Err(("--rerun-if-interrupted", "effect")));
    let rules = Rules { keep_failure: said(true), rerun_if_interrupted: said(true), ..Rules::default() };
    check(&rules, &s(), Ok(Stated { keep_failure: true, rerun_if_interrupted: true, ..s() }));
    let stricter = Stated { effect: Some(Effect::External), ..s() };
    check(&rules, &stricter, Ok(stricter.clone()));
    let never = Rules { keep_failure: said(false), rerun_if_interrupted: said(false), ..Rules::default() };
    check(&never, &Stated { keep_failure: true, ..s() }, Ok(Stated { keep_failure: true, ..s() }));
    let rerun = Stated { rerun_if_interrupted: true, ..s() };
    check(&never, &rerun, Err(("--rerun-if-interrupted", "rerun-if-interrupted")));
}

#[test]
fn exit_codes() {
    let stated = |landed: Option<ExitCodes>, not_landed: Option<ExitCodes>| Stated {
        landed_exit: landed,
        not_landed_exit: not_landed,
        ..s()
    };
    let rules = Rules {
        landed_exit: codes("3").and_then(said),
        not_landed_exit: codes("6,7").and_then(said),
        ..Rules::default()
    };
    check(&rules, &s(), Ok(stated(codes("3"), codes("6,7"))));
    check(&rules, &stated(None, codes("6")), Ok(stated(codes("3"), codes("6,7"))));
    check(&rules, &stated(codes("4"), None), Ok(stated(codes("4,3"), codes("6,7"))));
    check(&rules, &stated(None, codes("6,9")), Err(("--not-landed-exit 9", "not-landed-exit")));
    check(&rules, &stated(None, codes("3")), Err(("--not-landed-exit 3", "landed-exit")));
    check(&rules, &stated(codes("1-6"), None), Err(("--landed-exit 6", "not-landed-exit")));
    let none = Rules { not_landed_exit: codes("").and_then(said), ..Rules::default() };
    check(&none, &s(), Ok(s()));
    check(&none, &stated(None, codes("1")), Err(("--not-landed-exit 1", "not-landed-exit")));
}

#[test]
fn probes() {
    let rules = Rules {
        probe: said("ask".to_owned()),
        probe_delay: said(secs(5)),
        probe_timeout: said(secs(9)),
        ..Rules::default()
    };
    let whole = Stated { probe: Some("ask".into()), probe_delay: Some(secs(5)), probe_timeout: Some(secs(9)), ..s() };
    check(&rules, &s(), Ok(whole.clone()));
    check(&rules, &whole, Ok(whole.clone()));
    check(&rules, &Stated { probe: Some("exit 1".into()), ..s() }, Err(("another --probe", "probe")));
    check(&rules, &Stated { probe_delay: Some(secs(4)), ..s() }, Err(("a shorter --probe-delay", "probe-delay")));
    let longer = Stated { probe_delay: Some(secs(6)), probe_timeout: Some(secs(1)), ..s() };
    check(&rules, &longer, Ok(Stated { probe: Some("ask".into()), ..longer.clone() }));
}

#[test]
fn flags_that_trust_the_caller() {
    let never = Rules { marks: said(false), allow_command_change: said(false), ..Rules::default() };
    check(&never, &s(), Ok(s()));
    check(&never, &Stated { marks: true, ..s() }, Err(("--marks", "marks")));
    let change = Stated { allow_command_change: true, ..s() };
    check(&never, &change, Err(("--allow-command-change", "allow-command-change")));
    let always = Rules { marks: said(true), allow_command_change: said(true), ..Rules::default() };
    check(&always, &s(), Ok(Stated { marks: true, ..change }));
    check(&Rules::default(), &Stated { marks: true, ..s() }, Ok(Stated { marks: true, ..s() }));
}

#[test]
fn times() {
    let rules = Rules {
        timeout: said(secs(30)),
        kill_after: said(secs(10)),
        resend_within: said(secs(60)),
        ttl: said(Ttl::For(secs(90))),
        wait: said(secs(3)),
        ..Rules::default()
    };
    let whole = Stated {
        timeout: Some(secs(30)),
        kill_after: Some(secs(10)),
        resend_within: Some(secs(60)),
        ttl: Some(secs(90)),
        wait: Some(secs(3)),
        ..s()
    };
    check(&rules, &s(), Ok(whole.clone()));
    check(&rules, &whole, Ok(whole.clone()));
    let stricter = Stated {
        timeout: Some(secs(29)),
        resend_within: Some(secs(59)),
        ttl: Some(secs(91)),
        wait: Some(secs(99)),
        ..s()
    };
    check(&rules, &stricter, Ok(Stated { kill_after: Some(secs(10)), ..stricter.clone() }));
    for (stated, option, key) in [
        (Stated { timeout: Some(secs(31)), ..s() }, "a longer --timeout", "timeout"),
        (Stated { kill_after: Some(secs(11)), ..s() }, "another --kill-after", "kill-after"),
        (Stated { kill_after: Some(secs(9)), ..s() }, "another --kill-after", "kill-after"),
        (Stated { resend_within: Some(secs(61)), ..s() }, "a longer --resend-within", "resend-within"),
        (Stated { ttl: Some(secs(89)), ..s() }, "a shorter --ttl", "ttl"),
    ] {
        check(&rules, &stated, Err((option, key)));
    }
}

#[test]
fn what_says_something_of_another_option_waits_for_that_one() {
    let rules = Rules {
        probe_delay: said(secs(5)),
        probe_timeout: said(secs(9)),
        kill_after: said(secs(1)),
        ..Rules::default()
    };
    check(&rules, &s(), Ok(s()));
    let given = Stated { probe: Some("own".into()), timeout: Some(secs(3)), ..s() };
    let whole =
        Stated { probe_delay: Some(secs(5)), probe_timeout: Some(secs(9)), kill_after: Some(secs(1)), ..given.clone() };
    check(&rules, &given, Ok(whole));
}

#[test]
fn what_is_never_so() {
    let rules = Rules { resend_within: said(secs(0)), ttl: said(Ttl::Never), ..Rules::default() };
    check(&rules, &s(), Ok(s()));
    let resend = Stated { resend_within: Some(secs(1)), ..s() };
    check(&rules, &resend, Err(("a longer --resend-within", "resend-within")));
    check(&rules, &Stated { ttl: Some(secs(1_000_000)), ..s() }, Err(("--ttl", "ttl")));
}

#[test]
fn params_and_the_record() {
    let rules = Rules {
        ignore_params: said(pointers(&["/id", "/at"])),
        redact: said(pointers(&["/card"])),
        max_output: said(Size(100)),
        ..Rules::default()
    };
    let whole = Stated {
        ignore_params: pointers(&["/id", "/at"]),
        redact: pointers(&["/card"]),
        max_output: Some(Size(100)),
        ..s()
    };
    check(&rules, &s(), Ok(whole.clone()));
    check(&rules, &whole, Ok(whole.clone()));
    let fewer = Stated { ignore_params: pointers(&["/at"]), redact: pointers(&["/pin"]), ..s() };
    check(&rules, &fewer, Ok(Stated { redact: pointers(&["/pin", "/card"]), ..whole }));
    let more = Stated { ignore_params: pointers(&["/to"]), ..s() };
    check(&rules, &more, Err(("--ignore-param /to", "ignore-params")));
    for (size, option) in [(0, "--no-record-output"), (99, "a smaller --max-output")] {
        check(&rules, &Stated { max_output: Some(Size(size)), ..s() }, Err((option, "max-output")));
    }
    let none = Rules { ignore_params: said(Vec::new()), ..Rules::default() };
    check(&none, &more, Err(("--ignore-param /to", "ignore-params")));
}
