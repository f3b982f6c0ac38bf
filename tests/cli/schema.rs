//! The published schema of the envelope, `docs/envelope.schema.json`: exactly the program's words, and strict.
//!
//! That what idem prints fits it is held by every test that reads an envelope.

use std::collections::BTreeSet;

use idem::domain::canonical::ErrorClass;
use idem::domain::claim::{Effect, Mark, Outcome, Reason, State};
use idem::domain::event::EventKind;
use idem::domain::store::StoreError;
use idem::exit::{Kind, NoResult};
use serde_json::{Value, json};

use crate::env::{TestEnv, envelope_schema, fits_schema, objections};

/// The words of an enumeration in the schema, null left out.
fn enumerated(at: &str) -> BTreeSet<String> {
    let schema = envelope_schema();
    let words = schema.pointer(at).and_then(Value::as_array).unwrap_or_else(|| panic!("no enumeration at {at}"));
    let texts: Vec<String> = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let set: BTreeSet<String> = texts.iter().cloned().collect();
    assert_eq!(set.len(), texts.len(), "a word is there twice at {at}");
    set
}

fn words<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> BTreeSet<String> {
    all.iter().map(|&variant| word(variant).to_owned()).collect()
}

/// One of each; a variant that is missing here doesn't compile in `is_listed`.
fn store_errors() -> Vec<StoreError> {
    let path = || "/s".into();
    vec![
        StoreError::NoHome,
        StoreError::UnknownUrl(String::new()),
        StoreError::FolderMissing(path()),
        StoreError::NotAFile(path()),
        StoreError::OtherNames(path()),
        StoreError::ForeignOwner(path()),
        StoreError::WritableByOthers(path()),
        StoreError::NetworkFileSystem(path(), "nfs"),
        StoreError::Empty(path()),
        StoreError::LogWithoutStore(path()),
        StoreError::NotAStore(path()),
        StoreError::Newer { path: path(), found: 2, known: 1 },
        StoreError::Damaged(path(), String::new()),
        StoreError::Full(path()),
        StoreError::ReadOnly(path()),
        StoreError::Busy(path()),
        StoreError::Pruned(path(), 1),
        StoreError::BadUrl(String::new()),
        StoreError::Unreachable(path(), String::new()),
        StoreError::LoginRefused(path(), String::new()),
        StoreError::Tls(path(), String::new()),
        StoreError::NoRights(path(), String::new()),
        StoreError::ReadOnlyServer(path(), String::new()),
        StoreError::ClaimUncertain(path(), String::new()),
        StoreError::Other(path(), String::new()),
    ]
}

/// Whoever comes here since it doesn't compile any more: add the new variant to the list that is meant too.
fn is_listed(error: &StoreError, class: ErrorClass, kind: Kind) {
    match error {
        StoreError::NoHome
        | StoreError::UnknownUrl(_)
        | StoreError::FolderMissing(_)
        | StoreError::NotAFile(_)
        | StoreError::OtherNames(_)
        | StoreError::ForeignOwner(_)
        | StoreError::WritableByOthers(_)
        | StoreError::NetworkFileSystem(..)
        | StoreError::Empty(_)
        | StoreError::LogWithoutStore(_)
        | StoreError::NotAStore(_)
        | StoreError::Newer { .. }
        | StoreError::Damaged(..)
        | StoreError::Full(_)
        | StoreError::ReadOnly(_)
        | StoreError::Busy(_)
        | StoreError::Pruned(..)
        | StoreError::BadUrl(_)
        | StoreError::Unreachable(..)
        | StoreError::LoginRefused(..)
        | StoreError::Tls(..)
        | StoreError::NoRights(..)
        | StoreError::ReadOnlyServer(..)
        | StoreError::ClaimUncertain(..)
        | StoreError::Other(..) => {}
    }
    match class {
        ErrorClass::Utf8
        | ErrorClass::Syntax
        | ErrorClass::Surrogate
        | ErrorClass::Duplicate
        | ErrorClass::Depth
        | ErrorClass::Exponent => {}
    }
    match kind {
        Kind::Usage
        | Kind::Params(_)
        | Kind::Store(_)
        | Kind::Policy
        | Kind::PolicyFile
        | Kind::InsideItself
        | Kind::Nothing
        | Kind::Refused
        | Kind::System => {}
    }
}

/// Every word that `error.kind` can be.
fn error_kinds() -> BTreeSet<String> {
    use ErrorClass::{Depth, Duplicate, Exponent, Surrogate, Syntax, Utf8};
    let classes = [Utf8, Syntax, Surrogate, Duplicate, Depth, Exponent];
    let kinds =
        [Kind::Usage, Kind::Policy, Kind::PolicyFile, Kind::InsideItself, Kind::Nothing, Kind::Refused, Kind::System];
    let mut all = words(NoResult::ALL, NoResult::as_str);
    all.extend(words(&classes, ErrorClass::as_str));
    all.extend(words(&kinds, Kind::as_str));
    for error in store_errors() {
        is_listed(&error, Utf8, Kind::Usage);
        all.insert(error.kind().to_owned());
    }
    all
}

#[test]
fn its_words_are_the_programs() {
    for (at, wanted) in [
        ("/$defs/envelope/properties/state/enum", words(State::ALL, State::as_str)),
        ("/$defs/envelope/properties/reason/enum", words(Reason::ALL, Reason::as_str)),
        ("/$defs/envelope/properties/outcome/enum", words(Outcome::ALL, Outcome::as_str)),
        ("/$defs/envelope/properties/effect/enum", words(Effect::ALL, Effect::as_str)),
        ("/$defs/terms/properties/mark/enum", words(Mark::ALL, Mark::as_str)),
        ("/$defs/event/properties/kind/enum", words(EventKind::ALL, EventKind::as_str)),
        ("/$defs/error/properties/kind/enum", error_kinds()),
    ] {
        assert_eq!(enumerated(at), wanted, "{at}");
    }
}

#[test]
fn it_is_a_schema_itself() {
    assert!(jsonschema::draft202012::meta::is_valid(&envelope_schema()));
}

/// Visits every object of a value, with where it is.
fn each_object(value: &mut Value, at: &str, visit: &mut dyn FnMut(&mut serde_json::Map<String, Value>, &str)) {
    match value {
        Value::Object(members) => {
            visit(members, at);
            for (name, value) in members {
                // What a caller or an event gave along has names of its own.
                if !["params", "detail", "data"].contains(&name.as_str()) {
                    each_object(value, &format!("{at}/{name}"), visit);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                each_object(item, &format!("{at}/{index}"), visit);
            }
        }
        _ => {}
    }
}

/// The story of a call with steps, members, a probe and a failed attempt: every object that the schema knows is in it.
fn rich_story(env: &TestEnv) -> Value {
    let command = "\"$IDEM\" emit note '{\"a\":1}'; \"$IDEM\" run --quiet --tool step -- echo out; test -e ready";
    let call = || {
        let call = env.run("deploy").args(["--probe", "exit 2", "--not-landed-exit", "1"]);
        call.var("IDEM", env!("CARGO_BIN_EXE_idem")).script(command)
    };
    call().answer().exits(1);
    env.write("ready", "");
    call().answer().exits(0);
    env.shown("3")
}

#[test]
fn what_is_not_in_it_is_refused_wherever_it_stands() {
    let env = TestEnv::new();
    let story = rich_story(&env);
    let mut places = Vec::new();
    each_object(&mut story.clone(), "", &mut |_, at| places.push(at.to_owned()));
    for at in ["", "/terms", "/events/0", "/attempts/1", "/members/0", "/members/1"] {
        assert!(places.iter().any(|place| place == at), "{at} in {places:?}");
    }
    for place in &places {
        let mut changed = story.clone();
        each_object(&mut changed, "", &mut |members, at| {
            if at == place {
                members.insert("more".to_owned(), json!(1));
            }
        });
        assert_ne!(objections(&changed), Vec::<String>::new(), "another name at '{place}'");
    }
}

#[test]
fn a_name_that_is_missing_is_refused_wherever_it_stands() {
    let env = TestEnv::new();
    let story = rich_story(&env);
    let mut names = Vec::new();
    each_object(&mut story.clone(), "", &mut |members, at| {
        names.extend(members.keys().map(|name| (at.to_owned(), name.clone())));
    });
    // Without these it is the envelope of `list`, or a number of members that nobody knows.
    for (place, name) in names.iter().filter(|(place, _)| !place.is_empty()) {
        let mut changed = story.clone();
        each_object(&mut changed, "", &mut |members, at| {
            if at == place {
                members.remove(name);
            }
        });
        assert_ne!(objections(&changed), Vec::<String>::new(), "{name} missing at '{place}'");
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let env = TestEnv::new();
    let ran = env.run("t").args(["--json"]).script("echo out").answer().exits(0).envelope();
    let refused = env.run("t").params("{").args(["--json"]).script("true").answer().exits(125).envelope();
    let changes = |envelope: &Value, changes: Value| {
        let mut changed = envelope.clone();
        for (name, value) in changes.as_object().expect("changes") {
            changed[name] = value.clone();
        }
        objections(&changed)
    };
    for wrong in [
        json!({"stdout_base64": "/wA="}),
        json!({"stdout": null, "stdout_base64": null}),
        json!({"state": "running"}),
        json!({"state": "held", "reason": "exit"}),
        json!({"id": null}),
        json!({"key": null}),
        json!({"key": "ABC"}),
        json!({"state": "done"}),
        json!({"signal": "SIGTERM"}),
        json!({"exit_code": 256}),
        json!({"created_at": "2026-01-31 12:00:00"}),
        json!({"error": {"kind": "oops", "message": "m", "hint": null}}),
        json!({"members": [{"kind": "member", "name": "n"}]}),
    ] {
        assert_ne!(changes(&ran, wrong.clone()), Vec::<String>::new(), "{wrong}");
    }
    assert_eq!(changes(&ran, json!({"stdout": null, "stdout_base64": "/wA="})), Vec::<String>::new());
    for wrong in [json!({"error": null}), json!({"idempotent": true}), json!({"state": "held"})] {
        assert_ne!(changes(&refused, wrong.clone()), Vec::<String>::new(), "{wrong}");
    }
    fits_schema(&ran);
}

#[test]
fn the_page_for_agents_says_what_to_do_for_every_kind_of_error() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/agents.md")).expect("the page");
    // Those of a store have one row.
    for kind in error_kinds().iter().filter(|kind| !kind.starts_with("store-")) {
        assert!(page.contains(&format!("`{kind}`")), "{kind} is not in docs/agents.md");
    }
}

#[test]
fn without_an_error_the_message_says_whether_to_call_again() {
    let env = TestEnv::new();
    let message = |answer: crate::env::Answer| {
        let envelope = answer.envelope();
        assert_eq!(envelope["error"], Value::Null);
        envelope["message"].as_str().expect("a message").to_owned()
    };
    let released = message(env.run("a").args(["--json"]).script("exit 1").answer());
    assert!(released.contains("the next arrival of this call runs the command again"), "{released}");
    let held = message(env.run("b").external().args(["--json"]).script("exit 1").answer());
    assert!(held.contains("do not retry; a person has to resolve claim 2"), "{held}");
    let done = message(env.run("c").args(["--json"]).script("true").answer());
    assert!(done.contains("repeats get this result"), "{done}");
}
