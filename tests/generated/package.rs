//! What a package of idem has: the files of the source package, and the places of the Debian one.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::project;

/// What the package's list is made of: whole folders, and files at the top.
const FOLDERS: [&str; 7] = [".cargo/", "benches/", "completions/", "docs/", "man/", "src/", "tests/"];
const FILES: [&str; 8] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "rustfmt.toml",
];

#[track_caller]
fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(project()).output().expect("cargo");
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(project().join(folder)).expect("a folder");
    entries.map(|entry| format!("{folder}/{}", entry.expect("an entry").file_name().to_string_lossy())).collect()
}

#[test]
fn the_source_package_has_what_is_needed_and_nothing_else() {
    let list = cargo(&["package", "--list", "--offline", "--allow-dirty"]);
    // What cargo itself adds.
    let added = [".cargo_vcs_info.json", "Cargo.toml.orig"];
    let packed: BTreeSet<&str> = list.lines().filter(|file| !added.contains(file)).collect();
    for file in &packed {
        let known = FILES.contains(file) || FOLDERS.iter().any(|folder| file.starts_with(folder));
        assert!(known, "{file} is in the package");
    }
    for file in FILES {
        assert!(packed.contains(file), "{file} is not in the package");
    }
    let needed = ["man", "completions", "docs"].into_iter().flat_map(names_in).filter(|name| name.contains('.'));
    for file in needed.chain(["src/store/sqlite/schema/001.sql".to_owned(), ".cargo/config.toml".to_owned()]) {
        assert!(packed.contains(file.as_str()), "{file} is not in the package");
    }
}

#[test]
fn the_debian_package_puts_each_file_in_its_place() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"])).expect("JSON");
    let assets = metadata["packages"][0]["metadata"]["deb"]["assets"].as_array().expect("assets").clone();
    let text = |asset: &Value, index: usize| asset[index].as_str().expect("text").to_owned();
    let places: Vec<(String, String)> = assets.iter().map(|asset| (text(asset, 0), text(asset, 1))).collect();
    for (source, place) in [
        ("target/release/idem", "usr/bin/"),
        ("man/*.1", "usr/share/man/man1/"),
        ("completions/idem.bash", "usr/share/bash-completion/completions/idem"),
        ("completions/_idem", "usr/share/zsh/vendor-completions/_idem"),
        ("completions/idem.fish", "usr/share/fish/vendor_completions.d/idem.fish"),
    ] {
        assert!(places.contains(&(source.to_owned(), place.to_owned())), "{source} does not go to {place}");
    }
    for (source, _) in places.iter().filter(|(source, _)| !source.contains('*') && !source.starts_with("target/")) {
        assert!(project().join(source).is_file(), "{source} is not there");
    }
}

#[test]
fn the_manifest_says_what_a_registry_asks_for() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"])).expect("JSON");
    let package = &metadata["packages"][0];
    for field in ["description", "license", "readme", "rust_version"] {
        assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    for (field, most) in [("keywords", 5), ("categories", 5)] {
        let words = package[field].as_array().expect("a list");
        assert!((1..=most).contains(&words.len()), "{field}: {words:?}");
    }
}
