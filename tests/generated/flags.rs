//! Every option is in `--help`, in the man page and in the completions of bash, zsh and fish.

use std::fs;

use super::{built, project};

#[test]
fn every_option_is_in_help_man_page_and_completions() {
    if std::env::var_os("IDEM_WRITE_GENERATED").is_some() {
        // The files are just being written.
        return;
    }
    let read = |file: &str| fs::read_to_string(project().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (bash, zsh, fish) = (read("completions/idem.bash"), read("completions/_idem"), read("completions/idem.fish"));
    let mut options = 0;
    for verb in built().get_subcommands() {
        let name = verb.get_name();
        let help = verb.clone().render_long_help().to_string();
        let man = read(&format!("man/idem-{name}.1"));
        let bash = between(&bash, &format!("idem__subcmd__{name})\n            opts="), ";;");
        let zsh = between(&zsh, &format!("({name})\n"), "\n;;");
        for option in verb.get_arguments().filter_map(|arg| arg.get_long()) {
            let long = format!("--{option}");
            let word = |text: &str, by: fn(char) -> bool| text.split(by).any(|word| word == long);
            assert!(word(&help, |char| char.is_whitespace() || char == ','), "{long} is not in idem {name} --help");
            assert!(man.contains(&format!("\\fB{}\\fR", long.replace('-', "\\-"))), "{long} is not in idem-{name}.1");
            assert!(word(bash, |char| char == ' ' || char == '"'), "{long} of {name} is not completed in bash");
            assert!(zsh.contains(&format!("{long}=[")) || zsh.contains(&format!("{long}[")), "{long} of {name}: zsh");
            let fish_line = |line: &str| {
                // Behind the name of one with verbs of its own comes "and not seen any of these".
                let of_verb = [format!("using_subcommand {name}\""), format!("using_subcommand {name};")];
                of_verb.iter().any(|of| line.contains(of)) && line.contains(&format!(" -l {option} "))
            };
            assert!(fish.lines().any(fish_line), "{long} of {name} is not completed in fish");
            options += 1;
        }
    }
    assert!(options > 80, "only {options} options were looked for");
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let from = text.find(start).unwrap_or_else(|| panic!("no {start:?}")) + start.len();
    let length = text[from..].find(end).unwrap_or_else(|| panic!("no {end:?} after {start:?}"));
    &text[from..from + length]
}
