//! The man pages: a page for idem and one for each command, options from the definition, the rest from `cli::manual`.

use std::fs;
use std::path::Path;
use std::process::Command as Process;

use clap::Command;
use clap_mangen::Man;
use idem::cli::manual::{ENVIRONMENT, FILES, PAGES, Page};
use roff::{Inline, Roff, bold, roman};

use super::{built, check, project};

/// The pages' date: that of their last change in substance. Not the build's, so that two builds give the same pages.
const DATE: &str = "2026-11-30";

/// A page for each command, named as `man` looks for it: idem-run.
fn pages() -> Vec<(String, &'static Page, Command)> {
    let whole = built();
    let verbs = whole.get_subcommands().map(|verb| {
        let name = format!("idem-{}", verb.get_name());
        let page = verb
            .clone()
            .bin_name(name.replacen('-', " ", 1))
            .display_name(name.clone())
            .version(env!("CARGO_PKG_VERSION"));
        (name, manual(verb.get_name()), page)
    });
    let mut pages: Vec<_> = verbs.collect();
    pages.insert(0, ("idem".to_owned(), manual("idem"), whole));
    pages
}

fn manual(verb: &str) -> &'static Page {
    let page = PAGES.iter().find(|page| page.verb == verb);
    page.unwrap_or_else(|| panic!("src/cli/manual.rs says nothing about idem {verb}"))
}

fn render(name: &str, page: &Page, command: &Command) -> Vec<u8> {
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .date(DATE)
        .source(concat!("idem ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut text = Vec::new();
    man.render_title(&mut text).expect("a title");
    man.render_name_section(&mut text).expect("a name");
    man.render_synopsis_section(&mut text).expect("a synopsis");
    man.render_description_section(&mut text).expect("a description");
    let mut more = Roff::new();
    for paragraph in page.description {
        more.control("PP", []);
        more.text([roman(*paragraph)]);
    }
    more.to_writer(&mut text).expect("a description");
    man.render_options_section(&mut text).expect("options");
    if name == "idem" {
        man.render_subcommands_section(&mut text).expect("commands");
    }
    rest(page).to_writer(&mut text).expect("the rest");
    tidy(&String::from_utf8(text).expect("text")).into_bytes()
}

fn rest(page: &Page) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in page.statuses {
        entry(&mut roff, vec![bold(*code)], meaning);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (names, meaning) in ENVIRONMENT {
        entry(&mut roff, vec![bold(*names)], meaning);
    }
    roff.control("SH", ["FILES"]);
    for (names, meaning) in FILES {
        entry(&mut roff, vec![bold(*names)], meaning);
    }
    roff.control("SH", ["EXAMPLES"]);
    for (index, (line, does)) in page.examples.iter().enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(format!("{does}:"))]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([roman(*line)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff.control("SH", ["SEE ALSO"]);
    let mut others: Vec<String> =
        PAGES.iter().map(|other| other.verb).filter(|verb| *verb != page.verb).map(full_name).collect();
    others.sort();
    let mut line: Vec<Inline> = Vec::new();
    for (index, name) in others.iter().enumerate() {
        let comma = if index + 1 < others.len() { "(1), " } else { "(1)" };
        line.extend([bold(name.as_str()), roman(comma)]);
    }
    roff.text(line);
    roff
}

fn full_name(verb: &str) -> String {
    if verb == "idem" { verb.to_owned() } else { format!("idem-{verb}") }
}

fn entry(roff: &mut Roff, head: Vec<Inline>, body: &str) {
    roff.control("TP", []);
    roff.text(head);
    roff.text([roman(body)]);
}

/// Takes out what mandoc complains of and no reader sees: empty lines, blanks at the ends of lines, what is said twice, long
/// lines.
fn tidy(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (mut as_it_is, mut begun) = (false, false);
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        // Each section brings its own definition of the apostrophe.
        let is_preamble = line.starts_with(".ie ") || line.starts_with(".el ");
        begun |= line.starts_with(".TH");
        let is_twice = line == ".br" && lines.last().is_some_and(|last| last == ".br");
        if (is_preamble && begun) || is_twice {
            continue;
        }
        as_it_is = (as_it_is || line == ".nf") && line != ".fi";
        if as_it_is || line.starts_with('.') { lines.push(line.to_owned()) } else { wrap(line, &mut lines) }
    }
    lines.join("\n") + "\n"
}

fn wrap(line: &str, lines: &mut Vec<String>) {
    let mut now = String::new();
    for word in line.split(' ') {
        // A line that begins like this would be taken for a request.
        let is_safe = !word.starts_with(['.', '\'']);
        if now.len() + 1 + word.len() > 78 && !now.is_empty() && is_safe && !word.is_empty() {
            lines.push(std::mem::take(&mut now));
        } else if !now.is_empty() {
            now.push(' ');
        }
        now.push_str(word);
    }
    lines.push(now);
}

#[test]
fn the_man_pages_are_up_to_date() {
    let pages = pages();
    for (name, page, command) in &pages {
        check(&Path::new("man").join(format!("{name}.1")), &render(name, page, command));
    }
    let committed = fs::read_dir(project().join("man")).expect("the folder").count();
    assert_eq!(committed, pages.len(), "man/ has pages of commands that are gone");
    assert_eq!(PAGES.len(), pages.len(), "src/cli/manual.rs has pages of commands that are gone");
}

#[test]
fn mandoc_finds_nothing_to_complain_of() {
    for (name, page, command) in pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(format!("{name}.1"));
        fs::write(&file, render(&name, page, &command)).expect("a page");
        let lint = Process::new("mandoc").args(["-Tlint", "-Wstyle"]).arg(&file).output();
        let lint = lint.unwrap_or_else(|error| panic!("these tests need the mandoc program: {error}"));
        let said = String::from_utf8_lossy(&lint.stdout);
        assert!(lint.status.success() && said.is_empty(), "mandoc -Tlint of {name}.1:\n{said}");
    }
}

#[test]
fn each_page_has_every_section() {
    for (name, page, command) in pages() {
        let text = String::from_utf8(render(&name, page, &command)).expect("text");
        for section in
            ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"]
        {
            let heading = |line: &str| line == format!(".SH {section}") || line == format!(".SH \"{section}\"");
            assert!(text.lines().any(heading), "{name}.1 has no {section}");
        }
        assert!(!page.examples.is_empty(), "{name}.1 has no example");
    }
}
