//! The completions: what clap makes of the definition, with the places where it has no values filled by `idem
//! complete-values`.
//!
//! Why not clap's own engine for values at run time: it is marked unstable, would answer from inside every start of idem,
//! and leaves nothing to commit and to read. Here the scripts are plain files that ask idem for values only.
//!
//! How: an argument whose values the store knows is given one possible value, a mark such as `@tool@`; wherever a
//! generator has put that, the shell's own way of asking goes.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

use super::{check, definition, project};

/// What is asked for an argument of a command, by the names of both.
fn values(verb: &str, arg: &Arg) -> Option<String> {
    match arg.get_id().as_str() {
        name @ ("who" | "conv" | "tool") => Some(name.to_owned()),
        "id" | "ids" | "told" => Some(verb.to_owned()),
        _ => None,
    }
}

/// The definition with a mark for each argument that the store has values for.
fn marked() -> Command {
    let mut whole = definition();
    let verbs: Vec<String> = whole.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in verbs {
        whole = whole.mut_subcommand(&name, |verb| {
            verb.mut_args(|arg| match values(&name, &arg) {
                Some(values) => arg.value_parser(PossibleValuesParser::new([&*format!("@{values}@").leak()])),
                None if arg.get_id().as_str() == "command" => arg.value_hint(ValueHint::CommandWithArguments),
                None => arg,
            })
        });
    }
    whole
}

fn generated(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut marked(), "idem", &mut text);
    let text = String::from_utf8(text).expect("text");
    match shell {
        Shell::Bash => bash(&text),
        Shell::Zsh => zsh(&text),
        Shell::Fish => fish(&text),
        // They get no values, only options.
        _ => text,
    }
}

const BASH: &str = r#"# What the store has, for the word at hand: whole lines, so that values with spaces stay whole.
_idem_values() {
    local value
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        [[ ${value} == "${cur}"* ]] && COMPREPLY+=("$(printf '%q' "${value}")")
    done < <(command idem complete-values "$1" -- "${COMP_WORDS[@]:0:COMP_CWORD}" 2>/dev/null)
    return 0
}

# An option where one is begun, else what the store has.
_idem_words() {
    if [[ ${cur} == -* ]]; then
        COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
    else
        _idem_values "$1"
    fi
}

"#;

fn bash(text: &str) -> String {
    let mut script = BASH.to_owned();
    let words = r#"COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )"#;
    // The values of the words without option, of the command whose lines these are.
    let mut of_words = None;
    for line in text.lines() {
        let place = line.trim_start();
        let indent = &line[..line.len() - place.len()];
        if let Some(opts) = place.strip_prefix("opts=") {
            of_words = mark(opts);
            let without = of_words.as_ref().map_or(line.to_owned(), |of| line.replace(&format!(" @{of}@"), ""));
            let _ = writeln!(script, "{without}");
        } else if let (true, Some(values)) = (place == words, &of_words) {
            let _ = writeln!(script, "{indent}_idem_words {values}");
        } else if let Some(values) = mark(place) {
            let _ = writeln!(script, "{indent}_idem_values {values}");
        } else {
            let _ = writeln!(script, "{line}");
        }
    }
    script
}

const ZSH: &str = r#"
(( $+functions[_idem_values] )) ||
_idem_values() {
    local value about
    local -a found
    while IFS=$'\t' read -r value about; do
        found+=("${value//:/\\:}:${about}")
    done < <(_call_program values idem complete-values $1 -- ${(Qq)${(z)LBUFFER}} 2>/dev/null)
    _describe -V $1 found
}
"#;

fn zsh(text: &str) -> String {
    let mut script = String::new();
    for line in text.lines() {
        let line = match mark(line) {
            // The blank: without it zsh puts options of its own between the words.
            Some(values) => line.replace(&format!("(@{values}@)"), &format!(" _idem_values {values}")),
            None => line.to_owned(),
        };
        let _ = writeln!(script, "{line}");
        if line == "autoload -U is-at-least" {
            script += ZSH;
        }
    }
    assert!(script.contains(ZSH));
    script
}

const FISH: &str = "function __fish_idem_values
    command idem complete-values $argv[1] -- (commandline -opc) 2>/dev/null
end

";

fn fish(text: &str) -> String {
    let mut script = FISH.to_owned();
    for line in text.lines() {
        let line = match mark(line) {
            Some(values) => line.replace(&format!("@{values}@\\t''"), &format!("(__fish_idem_values {values})")),
            None => line.to_owned(),
        };
        let _ = writeln!(script, "{line}");
    }
    // The generator for fish knows options only.
    for verb in definition().get_subcommands() {
        let name = verb.get_name();
        for arg in verb.get_positionals() {
            let fixed: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            let values = match values(name, arg) {
                Some(values) => format!("(__fish_idem_values {values})"),
                None if !fixed.is_empty() => fixed.join(" "),
                None => continue,
            };
            let _ =
                writeln!(script, "complete -c idem -n \"__fish_idem_using_subcommand {name}\" -k -f -a \"{values}\"");
        }
    }
    script
}

/// The mark in a line, without its signs.
fn mark(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('@')?;
    let (values, _) = rest.split_once('@')?;
    let is_word = !values.is_empty() && values.bytes().all(|byte| byte.is_ascii_lowercase());
    is_word.then(|| values.to_owned())
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
        let text = generated(shell);
        assert!(!text.lines().any(|line| mark(line).is_some()), "a mark is left in {name}");
        check(&Path::new("completions").join(name), text.as_bytes());
    }
    assert_eq!(fs::read_dir(project().join("completions")).expect("the folder").count(), names.len());
}
