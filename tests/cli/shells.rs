//! The completions in the shells that they are for: loaded as a user loads them, asked as a user asks.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::env::TestEnv;

/// Claims 1, held, and 2, completed; names with spaces, quotes and control characters among them.
fn claims(env: &TestEnv) {
    let run = |who: &str, conv: &str, tool: &str, command: &str| {
        env.idem(["run", "--external", "--who", who, "--conv", conv, "--tool", tool]).script(command).answer();
    };
    run("ann lee", "job:81", "mail.send", "exit 1");
    run("bob", "it's", "mail.read", "true");
    run("evil\u{1b}[2J", "c\u{202e}", "t\n", "true");
}

/// Runs a script in a shell whose `idem` is the program of this build, and gives what it prints.
#[track_caller]
fn in_shell(env: &TestEnv, shell: &[&str], script: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_idem")).parent().expect("its folder").display();
    let path = std::env::var("PATH").expect("a PATH");
    let output = Command::new(shell[0])
        .args(&shell[1..])
        .arg(script)
        .env_clear()
        .env("PATH", format!("{folder}:{path}"))
        .env("HOME", env.home())
        .env("XDG_STATE_HOME", env.state_home())
        .env("TERM", "dumb")
        .env("LC_ALL", "C.UTF-8")
        .current_dir(env.work())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("these tests need the {} program: {error}", shell[0]));
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(complaint.is_empty(), "{} complains: {complaint}\nand says: {said}", shell[0]);
    said.into_owned()
}

/// What bash would offer for the last of these words.
#[track_caller]
fn bash(env: &TestEnv, words: &str) -> Vec<String> {
    let script = format!(
        "source <(idem completions bash)
         COMP_WORDS=({words})
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
         $(complete -p idem | sed 's/.*-F \\([^ ]*\\) .*/\\1/') idem \"${{COMP_WORDS[COMP_CWORD]}}\" \
         \"${{COMP_WORDS[COMP_CWORD - 1]}}\"
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    lines(&in_shell(env, &["bash", "--norc", "-c"], &script))
}

/// What fish would offer at the end of a line, without the descriptions.
#[track_caller]
fn fish(env: &TestEnv, line: &str) -> Vec<String> {
    let script = format!("idem completions fish | source; complete -C '{line}'");
    let offered = in_shell(env, &["fish", "--no-config", "-c"], &script);
    offered.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

/// What zsh would offer at the end of a line: a shell on a terminal of its own, whose completion ends with a list of what
/// was found.
#[track_caller]
fn zsh(env: &TestEnv, line: &str) -> Vec<String> {
    let script = format!(
        "zmodload zsh/zpty
         zpty z zsh -f -i
         tell() {{ zpty -w z \"$1\" }}
         tell 'PS1=; fpath=(~/functions $fpath); autoload -Uz compinit; compinit -u -D'
         tell 'found() {{ local IFS=$'\\''\\n'\\''; print -rl -- $offered > ~/offered; : > ~/done; exit }}'
         tell 'compadd() {{ local -a all; builtin compadd -O all \"$@\"; offered+=($all); builtin compadd \"$@\" }}'
         tell 'typeset -ga offered; listed() {{ _main_complete; found }}; zle -C listed list-choices listed; bindkey \"^T\" listed'
         zpty -w -n z {line}$'\\x14'
         while zpty -r z rest; do :; done
         cat ~/offered",
        line = quoted(line),
    );
    let functions = env.home().join("functions");
    std::fs::create_dir_all(&functions).expect("a folder for functions");
    let file = in_shell(env, &["sh", "-c"], "idem completions zsh");
    std::fs::write(functions.join("_idem"), file).expect("the completions");
    let mut offered = lines(&in_shell(env, &["zsh", "-f", "-c"], &script));
    // Each is looked at again where its description is printed.
    let mut seen = std::collections::HashSet::new();
    offered.retain(|offer| seen.insert(offer.clone()));
    offered
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_offers_commands_options_and_what_the_store_has() {
    let env = TestEnv::new();
    claims(&env);
    assert!(bash(&env, "idem re").iter().eq(["resolve", "reconcile"]));
    assert_eq!(bash(&env, "idem list --older"), ["--older-than"]);
    assert_eq!(bash(&env, "idem list --state h"), ["held"]);
    assert_eq!(bash(&env, "idem show ''"), ["3", "2", "1"]);
    assert_eq!(bash(&env, "idem clear 1 ''"), ["3", "2", "1"]);
    assert_eq!(bash(&env, "idem resolve ''"), ["1", "landed", "not-landed"]);
    assert_eq!(bash(&env, "idem resolve 1 l"), ["landed"]);
    assert_eq!(bash(&env, "idem reconcile ''"), ["1"]);
    assert_eq!(bash(&env, "idem list --tool mail"), ["mail.read", "mail.send"]);
    assert_eq!(bash(&env, "idem clear --who ann"), ["ann\\ lee"], "ready to stand in the line");
    assert_eq!(bash(&env, "idem run --conv it"), ["it\\'s"]);
    assert_eq!(bash(&env, "idem list --who ''"), ["bob", "ann\\ lee"], "nothing that would steer the terminal");
    assert_eq!(bash(&env, "idem completions z"), ["zsh"]);
}

#[test]
fn fish_offers_commands_options_and_what_the_store_has() {
    let env = TestEnv::new();
    claims(&env);
    assert_eq!(fish(&env, "idem res"), ["resolve"]);
    assert_eq!(fish(&env, "idem list --older"), ["--older-than"]);
    assert_eq!(fish(&env, "idem list --state h"), ["held"]);
    assert_eq!(fish(&env, "idem show "), ["3", "2", "1"]);
    assert_eq!(fish(&env, "idem clear 1 "), ["3", "2", "1"]);
    assert_eq!(fish(&env, "idem resolve "), ["1", "landed", "not-landed"]);
    assert_eq!(fish(&env, "idem resolve 1 l"), ["landed"]);
    assert_eq!(fish(&env, "idem reconcile "), ["1"]);
    assert_eq!(fish(&env, "idem list --tool mail"), ["mail.read", "mail.send"]);
    assert_eq!(fish(&env, "idem list --who "), ["ann lee", "bob"], "nothing that would steer the terminal");
    assert_eq!(fish(&env, "idem mark s"), ["sending"]);
    assert_eq!(fish(&env, "idem completions z"), ["zsh"]);
}

#[test]
fn zsh_offers_commands_options_and_what_the_store_has() {
    let env = TestEnv::new();
    claims(&env);
    assert_eq!(zsh(&env, "idem res"), ["resolve"]);
    assert_eq!(zsh(&env, "idem list --older"), ["--older-than"]);
    assert_eq!(zsh(&env, "idem list --state h"), ["held"]);
    assert_eq!(zsh(&env, "idem show "), ["3", "2", "1"]);
    assert_eq!(zsh(&env, "idem clear 1 "), ["3", "2", "1"]);
    assert_eq!(zsh(&env, "idem resolve 1 l"), ["landed"]);
    assert_eq!(zsh(&env, "idem list --tool mail"), ["mail.read", "mail.send"]);
    assert_eq!(zsh(&env, "idem list --conv job"), ["job:81"], "a colon is no end of the value");
    assert_eq!(zsh(&env, "idem list --who "), ["bob", "ann lee"], "nothing that would steer the terminal");
    assert_eq!(zsh(&env, "idem completions z"), ["zsh"]);
}

#[test]
fn completion_looks_into_the_store_that_the_line_names() {
    let env = TestEnv::new();
    claims(&env);
    let other = env.file("other store.db");
    let other = other.to_str().expect("a path");
    env.run("other.tool").args(["--store", other]).script("true").answer().exits(0);
    let named = quoted(other);
    // bash gives its words as they were typed.
    for typed in [named.clone(), other.replace(' ', "\\ "), format!("\"{other}\"")] {
        let line = format!("idem list --store {} --tool ''", quoted(&typed));
        assert_eq!(bash(&env, &line), ["other.tool"], "{typed}");
    }
    let escaped = other.replace(' ', "\\ ");
    assert_eq!(fish(&env, &format!("idem --store {} list --tool ", escaped.replace('\\', "\\\\"))), ["other.tool"]);
    assert_eq!(zsh(&env, &format!("idem --store {named} list --tool ")), ["other.tool"]);
}

#[test]
fn completion_makes_no_store_and_complains_of_none() {
    let env = TestEnv::new();
    assert_eq!(bash(&env, "idem resolve ''"), ["landed", "not-landed"]);
    assert!(fish(&env, "idem list --tool ").is_empty());
    assert!(!env.store().exists());
    env.write("idem.db", "no store");
    assert!(bash(&env, "idem list --store idem.db --tool ''").is_empty());
}

#[test]
fn each_shells_completions_are_the_committed_ones() {
    let env = TestEnv::new();
    for (shell, file) in [
        ("bash", "idem.bash"),
        ("zsh", "_idem"),
        ("fish", "idem.fish"),
        ("powershell", "_idem.ps1"),
        ("elvish", "idem.elv"),
    ] {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions").join(file);
        env.idem(["completions", shell]).answer().exits(0).prints(std::fs::read(committed).expect("committed"));
    }
    env.idem(["completions", "tcsh"]).answer().exits(2).prints("");
}
