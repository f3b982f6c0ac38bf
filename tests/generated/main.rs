//! Man pages and completions: generated from the one definition of the command line, committed, and compared here.
//!
//! `IDEM_WRITE_GENERATED=1 cargo test --test generated` writes them anew.

mod completions;
mod flags;
mod package;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The definition with all that clap adds to it.
fn built() -> Command {
    let mut definition = definition();
    definition.build();
    definition
}

/// The command line's definition without what is hidden: that is for idem's own completions.
fn definition() -> Command {
    let whole = idem::cli::command();
    let shown = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("idem")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .args(whole.get_arguments().cloned())
        .subcommands(shown)
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
