//! Man pages and completions: generated from the one definition of the command line, committed, and compared here.
//!
//! `IDEM_WRITE_GENERATED=1 cargo test --test generated` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Compares a committed file with what it should be, or writes it.
fn check(file: &Path, wanted: &[u8]) {
    let path = project().join(file);
    if std::env::var_os("IDEM_WRITE_GENERATED").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(&path, wanted).expect("the file can be written");
        return;
    }
    let found = fs::read(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is out of date; run IDEM_WRITE_GENERATED=1 cargo test --test generated",
        file.display()
    );
}

/// A page of its own for each command, named as `man` looks for it: idem-run.
fn pages() -> Vec<(String, Command)> {
    let mut whole = idem::cli::command();
    whole.build();
    let mut pages: Vec<_> = whole
        .get_subcommands()
        .map(|verb| {
            let name = format!("idem-{}", verb.get_name());
            let page = verb
                .clone()
                .bin_name(name.replace('-', " "))
                .display_name(name.clone())
                .version(env!("CARGO_PKG_VERSION"));
            (name, page)
        })
        .collect();
    pages.insert(0, ("idem".to_owned(), whole));
    pages
}

#[test]
fn the_man_pages_are_up_to_date() {
    let pages = pages();
    for (name, page) in &pages {
        let mut text = Vec::new();
        clap_mangen::Man::new(page.clone())
            .title(name.to_uppercase())
            .date("")
            .source(concat!("idem ", env!("CARGO_PKG_VERSION")))
            .manual("idem")
            .render(&mut text)
            .expect("a page");
        check(&Path::new("man").join(format!("{name}.1")), &text);
    }
    let committed = fs::read_dir(project().join("man")).expect("the folder").count();
    assert_eq!(committed, pages.len(), "man/ has pages of commands that are gone");
}

#[test]
fn the_completions_are_up_to_date() {
    let names = [
        (Shell::Bash, "idem.bash"),
        (Shell::Zsh, "_idem"),
        (Shell::Fish, "idem.fish"),
        (Shell::PowerShell, "_idem.ps1"),
        (Shell::Elvish, "idem.elv"),
    ];
    for (shell, name) in names {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut idem::cli::command(), "idem", &mut text);
        check(&Path::new("completions").join(name), &text);
    }
    assert_eq!(fs::read_dir(project().join("completions")).expect("the folder").count(), names.len());
}
