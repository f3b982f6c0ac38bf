//! The reference implementation that docs/key.md publishes gives the same keys, and refuses the same params.

use std::io::Write;
use std::process::{Command, Stdio};

use idem::domain::canonical::Json;
use idem::domain::key::{Bound, Call};

use crate::drive::{corpus, full, told};
use crate::mutate::mutate;
use crate::params::{JSON, vectors};
use crate::rng::{Rng, seed};

/// Reads a line of hex digits for each params, and answers with the key or a word.
const LOOP: &str = r#"
import sys
for line in sys.stdin:
    try:
        print(key("u", "c", "t", bytes.fromhex(line)))
    except Refused:
        print("refused")
"#;

#[test]
fn the_published_reference_gives_the_same_keys() {
    let page = include_str!("../../docs/key.md");
    let (_, code) = page.split_once("```python\n").expect("the reference implementation");
    let program = code.split("```").next().expect("its end").to_owned() + LOOP;

    let seed = seed();
    let mut rng = Rng::new(seed);
    let pool = [corpus("params"), vectors()].concat();
    let more = if full() { 500_000 } else { 5_000 };
    let mut inputs = pool.clone();
    inputs.extend((0..more).map(|_| mutate(&pool, JSON, &mut rng)));
    let ours: Vec<String> = inputs.iter().map(|params| key(params)).collect();

    let mut python = Command::new("python3");
    python.args(["-c", &program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3 runs");
    let mut stdin = python.stdin.take().expect("a pipe");
    let writer = std::thread::spawn({
        let lines: String = inputs.iter().map(|params| hex(params) + "\n").collect();
        move || stdin.write_all(lines.as_bytes())
    });
    let output = python.wait_with_output().expect("python3 ends");
    writer.join().expect("no panic").expect("python3 reads all");
    let theirs = String::from_utf8(output.stdout).expect("a text");

    let mut keys = 0;
    assert_eq!(theirs.lines().count(), inputs.len());
    for ((params, ours), theirs) in inputs.iter().zip(&ours).zip(theirs.lines()) {
        assert_eq!(ours, theirs, "{} (IDEM_TEST_SEED={seed})", params.escape_ascii());
        keys += usize::from(ours != "refused");
    }
    told(&format!("reference: seed {seed}, {} inputs, {keys} keys", inputs.len()));
    assert!((inputs.len() / 50..inputs.len()).contains(&keys));
}

fn key(params: &[u8]) -> String {
    let bound = &Bound::default();
    let key = |params: Json<'_>| Call { who: "u", conv: "c", tool: "t", params: &params, bound }.key().to_string();
    Json::parse(params).map_or_else(|_| "refused".to_owned(), key)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
