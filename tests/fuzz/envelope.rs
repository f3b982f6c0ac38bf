//! A claim as others see it: whatever is in it, the JSON is one line that says it all, and nothing gets at a terminal.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use idem::domain::arrival::Liveness;
use idem::domain::canonical::{Json, write_string};
use idem::domain::claim::{
    Claim, CommandLine, Effect, LockPlace, Mark, Means, Outcome, Owner, Probe, Reason, State, Stream,
};
use idem::domain::event::{Event, EventKind};
use idem::domain::key::Key;
use idem::domain::moment::{Moment, Uptime};
use idem::domain::store::Listed;
use idem::domain::timestamp::Timestamp;
use idem::exit::{Failure, Kind};
use idem::view::envelope::{Envelope, EventFields, Output, Story, TermsFields};
use idem::view::group::{MemberFields, Node, tree};
use idem::view::history::history;
use idem::view::story::{self, story};
use idem::view::table::{Look, table};
use idem::view::words::{self, OpenStep, Unknown};
use jsonschema::Validator;
use serde_json::Value;

use crate::drive::{Fuzz, Seen};
use crate::mutate::Language;
use crate::rng::Rng;
use crate::tame::tame;
use crate::value::doubles_only;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("../../docs/envelope.schema.json")).expect("JSON");
    jsonschema::draft202012::new(&schema).expect("a schema that can be used")
});

const WORDS: [&[u8]; 20] = [
    b"\x1b[2J",
    b"\x1b]0;title\x07",
    b"\xc2\x9b31m",
    b"\x7f",
    b"\x00",
    b"\r",
    b"\n",
    b"\t",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"\xe2\x81\xa6",
    b"\xe2\x80\xa8",
    b"\xd8\x9c",
    b"\"",
    b"\\",
    b"'",
    b"\nwhat to do now\n",
    "שלום".as_bytes(),
    "漢字👩‍👩‍👧".as_bytes(),
];

const TEXT: Language<'_> = Language { breaks: b" \n", parts: &WORDS, words: &WORDS };

#[test]
fn any_claim_as_others_see_it() {
    let mut number = 0;
    Fuzz { corpus: "envelope", more: Vec::new(), language: TEXT, inputs: 1_500 }.run(|bytes, rng| {
        number += 1;
        let attempts: Vec<Claim> = (0..1 + rng.below(3)).map(|_| claim(bytes, rng)).collect();
        let events: Vec<Event> = (0..rng.below(6)).map(|_| event(bytes, rng)).collect();
        let output = Output { stdout: piece(bytes, rng), stderr: piece(bytes, rng) };
        let members: Vec<Node> = (0..rng.below(3)).map(|_| member(bytes, rng, 2)).collect();
        let claim = &attempts[0];
        for_people(&attempts, &events, &output, &members, rng);
        sentences(claim, bytes, rng);
        for_programs(&attempts, &events, &output, members, rng, number % 4 == 0);
        let text = str::from_utf8(bytes);
        let wild = text.is_ok_and(|text| text.contains(|char: char| char.is_control()));
        Seen::new(text.is_ok(), (wild, claim.state, claim.reason, bytes.len().min(5)))
    });
}

/// Some of the input, most often all of it.
fn piece(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let start = if rng.one_in(3) { rng.below(bytes.len() + 1) } else { 0 };
    if rng.one_in(8) { Vec::new() } else { bytes[start..].to_vec() }
}

fn text(bytes: &[u8], rng: &mut Rng) -> String {
    String::from_utf8_lossy(&piece(bytes, rng)).into_owned()
}

/// The same where it can't be empty, nor is there a NUL in a command line.
fn arg(bytes: &[u8], rng: &mut Rng) -> OsString {
    OsString::from_vec(piece(bytes, rng).into_iter().filter(|&byte| byte != 0).collect())
}

fn json(bytes: &[u8], rng: &mut Rng) -> String {
    let mut text = String::new();
    match Json::parse(bytes) {
        // serde_json's own value, which the test reads lines into, has doubles only.
        Ok(json) if doubles_only(&json) && rng.one_in(2) => json.write_compact(&mut text),
        _ => {
            text.push_str("{\"note\":");
            write_string(&String::from_utf8_lossy(bytes), &mut text);
            text.push_str(",\"outcome\":\"landed\",\"exit_code\":7,\"stdout\":");
            write_string(&String::from_utf8_lossy(&piece(bytes, rng)), &mut text);
            text.push('}');
        }
    }
    text
}

fn time(rng: &mut Rng) -> Timestamp {
    Timestamp(rng.pick(&[0, 1, 1_700_000_000_005, 253_402_300_799_999, i64::MAX, -1]))
}

fn long(rng: &mut Rng) -> Duration {
    rng.pick(&[Duration::ZERO, Duration::from_millis(1), Duration::from_hours(24), Duration::MAX])
}

/// A claim as a store could give it.
fn claim(bytes: &[u8], rng: &mut Rng) -> Claim {
    let state = rng.pick(State::ALL);
    let over = state != State::Running;
    let signal = rng.maybe(|rng| 1 + rng.below(64) as i32).filter(|_| over);
    let exit_code = match signal {
        Some(_) => rng.maybe(|_| 124),
        None => rng.maybe(|rng| rng.below(256) as i32).filter(|_| over),
    };
    let probe = Probe {
        command: arg(bytes, rng),
        folder: arg(bytes, rng),
        delay: long(rng),
        timeout: long(rng),
        max_output: rng.next(),
    };
    Claim {
        id: 1 + (rng.next() >> 1) as i64 % 1000,
        key: Key::of(&rng.next().to_string()),
        state,
        reason: over.then(|| rng.pick(Reason::ALL)),
        outcome: if matches!(state, State::Held | State::Running) { Outcome::Unknown } else { rng.pick(Outcome::ALL) },
        who: text(bytes, rng),
        conv: text(bytes, rng),
        tool: text(bytes, rng),
        params: json(bytes, rng),
        effect: rng.pick(Effect::ALL),
        attempt: 1 + rng.below(9) as i64,
        command: CommandLine::new(&(0..1 + rng.below(3)).map(|_| arg(bytes, rng)).collect::<Vec<_>>()),
        parent: rng.maybe(|_| 7),
        exit_code,
        signal,
        missing: rng.pick(&[0, 1, i64::MAX]),
        created_at: time(rng),
        uptime: Uptime { boot: text(bytes, rng), millis: 5 },
        finished_at: over.then(|| time(rng)),
        lock: LockPlace { offset: 1, inode: 1 },
        owner: Owner { actor: text(bytes, rng), process: text(bytes, rng) },
        means: Means {
            probe: rng.maybe(|_| probe),
            marks: rng.one_in(2),
            resend_within: rng.maybe(long),
            ttl: rng.maybe(long),
        },
        mark: rng.maybe(|rng| rng.pick(Mark::ALL)),
        seen_lately: rng.one_in(2),
    }
}

fn event(bytes: &[u8], rng: &mut Rng) -> Event {
    // What a later version, or a damaged store, has in the detail needn't be JSON.
    let detail = rng.maybe(|rng| json(bytes, rng));
    let detail = if rng.one_in(8) { Some(text(bytes, rng)) } else { detail };
    Event {
        claim: 1 + rng.below(2) as i64,
        at: time(rng),
        kind: rng.pick(EventKind::ALL),
        actor: text(bytes, rng),
        detail,
    }
}

fn member(bytes: &[u8], rng: &mut Rng, deep: usize) -> Node {
    if deep == 0 || rng.one_in(2) {
        let name = format!("n{}", text(bytes, rng));
        return Node::Member { name, data: rng.maybe(|rng| json(bytes, rng)) };
    }
    let output = rng.maybe(|rng| Output { stdout: piece(bytes, rng), stderr: piece(bytes, rng) });
    let members = (0..rng.below(3)).map(|_| member(bytes, rng, deep - 1)).collect();
    Node::Step { claim: Box::new(claim(bytes, rng)), output, members }
}

/// The story, the table, the history and the tree.
fn for_people(attempts: &[Claim], events: &[Event], printed: &Output, members: &[Node], rng: &mut Rng) {
    let claim = &attempts[0];
    let steps = (0..rng.below(11)).map(|id| OpenStep { id: 1 + id as i64, runs: rng.one_in(2) }).collect();
    let now = Moment { at: time(rng), uptime: claim.uptime.clone() };
    let facts = story::Facts {
        claim,
        attempts,
        events,
        printed,
        stated: rng.maybe(|_| printed),
        owner: rng.maybe(|rng| rng.pick(&[Liveness::Alive, Liveness::Dead, Liveness::Unprovable])),
        members,
        open_steps: steps,
        first_start: rng.maybe(|_| claim.claimed()),
        now: now.clone(),
    };
    let told = story(&facts);
    tame(&told);
    // A line at the margin is idem's own: what a call says stands behind a name or is set in.
    let own = [
        "claim ",
        "asked ",
        "params ",
        "command ",
        "effect ",
        "attempt ",
        "claimed ",
        "owner ",
        "ended ",
        "outcome ",
        "probe ",
        "resend ",
        "expires ",
        "output ",
        "step of ",
        "key ",
        "history",
        "group",
        "stdout: ",
        "stderr: ",
        "repeats get this as stdout: ",
        "what to do now",
        "  ",
    ];
    let forged = told.lines().find(|line| !line.is_empty() && !own.iter().any(|own| line.starts_with(own)));
    assert_eq!(forged, None, "{told}");
    assert!(told.lines().filter(|line| *line == "what to do now").count() <= 1, "{told}");
    // What can be shown as it is, is: nobody has to guess.
    let shown = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let printed = [&printed.stdout, &printed.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    for text in printed.iter().map(AsRef::as_ref).chain([&*claim.who, &claim.conv, &claim.tool, &claim.owner.actor]) {
        assert!(!shown(text) || told.contains(text), "{text} in {told}");
    }

    let lines = history(events, attempts);
    lines.iter().chain(&tree(members)).for_each(|line| {
        tame(line);
        assert!(!line.contains('\n'), "{line}");
    });

    let listed: Vec<_> = attempts.iter().map(|claim| Listed { claim: claim.clone(), arrivals: 3 }).collect();
    for (colored, width) in [(false, None), (true, None), (false, Some(60)), (true, Some(rng.below(300)))] {
        let shown = table(&listed, now.at, Look { colored, width });
        assert_eq!(shown.lines().count(), 1 + listed.len(), "{shown}");
        // The table's own: colours, and isolates around names that run from right to left.
        let mut plain = shown.clone();
        if colored {
            for own in ["\x1b[0m", "\x1b[1;97;41m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[36m", "\x1b[90m"] {
                plain = plain.replace(own, "");
            }
        }
        for line in plain.lines().filter(|_| width.is_some()) {
            let isolates: String = line.chars().filter(|char| matches!(char, '\u{2068}' | '\u{2069}')).collect();
            assert_eq!(isolates, "\u{2068}\u{2069}".repeat(isolates.chars().count() / 2), "{line:?}");
        }
        tame(&if width.is_some() { plain.replace(['\u{2068}', '\u{2069}'], "") } else { plain });
    }
}

/// The sentences about a claim. Those with another's words in them are escaped by whoever says them.
fn sentences(claim: &Claim, bytes: &[u8], rng: &mut Rng) {
    let unknown = Unknown {
        probe: rng.maybe(|_| "exited with 2".to_owned()),
        window_end: rng.maybe(time),
        steps: vec![OpenStep { id: 3, runs: rng.one_in(2) }],
    };
    let program = text(bytes, rng);
    let refused = rng.one_in(2);
    let ran = words::Ran { claim, how: "exited with 7", refused, unknown: unknown.clone() };
    for words in [
        words::ran(&ran),
        words::ran_late(claim, "exited with 7"),
        words::replay(claim),
        words::held(claim, &unknown),
        words::stopped_while_asking(claim, 15),
        words::busy(claim, rng.one_in(2)),
        words::mismatch(claim),
        words::inside_itself(claim),
        words::not_started(claim, &words::could_not_start(&program, "was not found"), &unknown),
    ] {
        for text in [Some(words.message), words.hint].into_iter().flatten() {
            tame(&text);
            assert!(!text.contains('\n') && !text.is_empty(), "{text}");
        }
    }
    for text in [words::call(claim), words::command(claim), words::end_of(claim)] {
        tame(&text);
        assert!(!text.contains('\n'), "{text}");
    }
}

/// The envelope and the story as JSON.
fn for_programs(attempts: &[Claim], events: &[Event], output: &Output, members: Vec<Node>, rng: &mut Rng, fits: bool) {
    let claim = &attempts[0];
    let message = words::replay(claim).message;
    let mut envelope = Envelope::of_claim(claim, message.clone(), Some(output.clone()));
    envelope.members = members.into_iter().map(MemberFields::from).collect();
    envelope.idempotent = rng.one_in(2);
    let value = checked(&envelope.line(), fits);
    for (stream, bytes) in [(Stream::Stdout, &output.stdout), (Stream::Stderr, &output.stderr)] {
        let name = if stream == Stream::Stdout { "stdout" } else { "stderr" };
        let there = match (&value[name], value.get(format!("{name}_base64"))) {
            (Value::String(text), None) => text.clone().into_bytes(),
            (Value::Null, Some(coded)) => STANDARD.decode(coded.as_str().expect("a text")).expect("base64"),
            other => panic!("{other:?}"),
        };
        assert_eq!(&there, bytes, "{name}");
    }
    for (name, text) in [("who", &claim.who), ("conv", &claim.conv), ("tool", &claim.tool), ("message", &message)] {
        assert_eq!(value[name].as_str(), Some(&**text), "{name}");
    }
    assert_eq!(value["command"].as_array().map(Vec::len), Some(claim.command.args().len()));
    // The params' text is in the line as it is: numbers keep their digits.
    assert!(envelope.line().contains(&format!("\"params\":{},", claim.params)));

    let story = Story {
        claim: envelope,
        owner: claim.owner.actor.clone(),
        parent: claim.parent,
        terms: TermsFields::from(claim),
        events: events.iter().map(EventFields::from).collect(),
        attempts: attempts.iter().map(|claim| Envelope::of_claim(claim, message.clone(), None)).collect(),
    };
    checked(&story.line(), fits && events.iter().all(is_whole));
    let failure = Failure::new(Kind::System, format!("x{}", claim.who)).hint(format!("y{}", claim.conv));
    let told = checked(&Envelope::of_failure(&failure).line(), fits);
    assert_eq!(told["error"]["hint"].as_str(), failure.hint.as_deref());
}

/// Tells whether an event's detail is an object, as idem writes it.
fn is_whole(event: &Event) -> bool {
    event.detail.as_ref().is_none_or(|detail| detail.starts_with('{'))
}

/// Reads a line as a program would.
#[track_caller]
fn checked(line: &str, fits: bool) -> Value {
    let one = line.strip_suffix('\n').expect("a line break at the end");
    assert!(!one.contains(|char| char < ' '), "{one:?}");
    let value = serde_json::from_str(one).unwrap_or_else(|error| panic!("{error}: {one}"));
    if fits {
        let objections: Vec<_> = SCHEMA.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(objections.is_empty(), "{}\n{one}", objections.join("\n"));
    }
    value
}
