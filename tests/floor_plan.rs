//! Holds the floor plan true: who may know whom, read from the `use crate::` lines (docs/architecture.md).

use std::fs;
use std::path::{Path, PathBuf};

/// A room, and the rooms that it may know. Rooms that aren't named may be known by nobody but those that name them.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("domain", &["domain"]),
    ("lock", &[]),
    ("host", &["domain"]),
    ("liveness", &["domain", "host", "lock"]),
    ("store", &["domain", "host", "lock", "store"]),
    ("process", &["domain", "process"]),
    ("policy", &["domain"]),
    ("exit", &["domain", "policy"]),
    ("view", &["domain", "exit", "view"]),
    ("cli", &["domain", "cli"]),
    ("ui", &["cli", "view"]),
    ("settings", &["cli", "domain", "exit", "policy", "store"]),
    (
        "commands",
        &["cli", "commands", "domain", "exit", "liveness", "policy", "process", "settings", "store", "ui", "view"],
    ),
];

#[test]
fn every_room_knows_only_what_it_may() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked_at = 0;
    for file in files(&source) {
        let relative = file.strip_prefix(&source).expect("below src").to_owned();
        let room = room(&relative);
        if room == "main" || room == "lib" {
            continue;
        }
        let (_, allowed) = MAY_KNOW.iter().find(|(name, _)| *name == room).unwrap_or_else(|| {
            panic!("src/{} is in a room that the floor plan doesn't have", relative.display());
        });
        let text = fs::read_to_string(&file).expect("readable");
        for known in known_rooms(&text) {
            assert!(allowed.contains(&known.as_str()), "src/{} knows {known}", relative.display());
            looked_at += 1;
        }
    }
    assert!(looked_at > 50, "the test looked at {looked_at} uses only: has the way of writing them changed?");
}

#[test]
fn every_file_can_be_read_in_one_sitting() {
    for file in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let lines = fs::read_to_string(&file).expect("readable").lines().count();
        assert!(lines <= 560, "{} has {lines} lines", file.display());
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn room(relative: &Path) -> String {
    let first = relative.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

/// Every `crate::room` in the text, wherever it stands.
fn known_rooms(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| {
        line.split("crate::")
            .skip(1)
            .map(|rest| rest.chars().take_while(|char| char.is_ascii_lowercase() || *char == '_').collect::<String>())
    })
    .filter(|room| !room.is_empty())
    .collect()
}
