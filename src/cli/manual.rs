//! What the man pages and `--help` say beyond options: examples, exit status, environment, files. Said here, once.

/// What a command's page has of its own.
#[derive(Debug)]
pub struct Page {
    /// The command; `idem` for the page of the whole.
    pub verb: &'static str,
    /// What it does, a paragraph each, beyond the line that `--help` has.
    pub description: &'static [&'static str],
    /// What it is called like, and what that does.
    pub examples: &'static [(&'static str, &'static str)],
    /// Its exit codes.
    pub statuses: &'static [(&'static str, &'static str)],
}

/// The exit codes of `run`: the command's own go through, so idem's are in the range that `env` and `timeout` leave.
const RUN: &[(&str, &str)] = &[
    ("the command's own", "on the first run and on each replay; 128+N for signal N"),
    ("120", "busy: the owner is still running (--no-wait, or the wait ran out)"),
    ("121", "held: the outcome is unknown, nothing was run"),
    ("122", "mismatch: this key was claimed by another command, nothing was run"),
    ("124", "--timeout ended the command; on a replay too"),
    ("125", "idem's own error or wrong usage; nothing was run (or, said loudly: it ran and could not be recorded)"),
    ("126", "the command can't be executed; the claim is released (a resend of an unknown attempt: held again)"),
    ("127", "the command was not found; the claim is released (a resend of an unknown attempt: held again)"),
];

const OTHERS: &[(&str, &str)] = &[
    ("0", "done"),
    ("1", "no such claim, nothing matched, or refused; nothing was changed"),
    ("2", "wrong usage; nothing was changed"),
    ("125", "the store can't be used"),
];

/// Every page.
pub const PAGES: &[Page] = &[
    Page {
        verb: "idem",
        description: &[
            "A call is who, conversation, tool and params; their SHA-256 is its key. idem run claims the key on disk before \
             it starts the command, so that of any number of arrivals of one call one runs it. Every later arrival is given \
             the first result: the same output, the same exit status.",
            "What a failure leaves behind is decided by what is known of the write. Landed: it is replayed. Not landed: the \
             next arrival runs the command. Unknown: the claim is held, and nothing runs until somebody who knows says what \
             became of it.",
        ],
        examples: &[
            (
                "idem run --who ada --conv job-81 --tool greet --params '{\"to\":\"bob\"}' -- echo 'hello bob'",
                "Run a command once; called again, this prints the same and starts nothing",
            ),
            ("idem list --state held", "See what waits for a person"),
            ("idem resolve 4 landed", "Say that what claim 4 sent has arrived: repeats get its result"),
            ("idem help run", "Every option of a command; the same as idem run --help"),
        ],
        statuses: &[
            ("the command's own", "of idem run, on the first run and on each replay"),
            ("0", "done, of the other commands"),
            ("1", "no such claim, nothing matched, or refused"),
            ("2", "wrong usage; of idem run it is 125"),
            ("120-127", "of idem run: see idem-run(1)"),
            ("125", "idem's own error, such as a store that can't be used"),
        ],
    },
    Page {
        verb: "run",
        description: &[
            "A call that somebody else runs at this moment is waited for. Signals that end idem, such as that of Ctrl-C, go to \
             the command.",
            "The command finds in its environment: IDEM_KEY, 64 hex digits, for the target, where it dedupes; IDEM_KEY_UUID \
             and IDEM_KEY_SHORT, the same for targets that cap the length; IDEM_CLAIM, IDEM_ATTEMPT, IDEM_WHO, IDEM_CONV, \
             IDEM_TOOL, IDEM_STORE; and IDEM_TOKEN, for idem mark and idem emit.",
        ],
        examples: &[
            (
                "idem run --who ada --conv job-81 --tool mail.send --params @mail.json --external -- ./send-mail",
                "Send a mail once; a failure is held, as it may have been sent",
            ),
            (
                "idem run --who ci --conv \"$RUN_ID\" --tool deploy --params @call.json --json -- ./deploy.sh",
                "Deploy once for a pipeline, its re-runs included, and answer in JSON",
            ),
            (
                "idem run --tool order --params @order.json --external --probe './ask.sh \"$IDEM_KEY\"' -- ./order.sh",
                "Ask the target when nobody knows; who and conv come from IDEM_WHO and IDEM_CONV",
            ),
        ],
        statuses: RUN,
    },
    Page {
        verb: "key",
        description: &["Reads no store and runs nothing."],
        examples: &[
            (
                "idem key --who ada --conv job-81 --tool greet --params '{\"to\":\"bob\"}'",
                "Print the key, 64 hex digits",
            ),
            (
                "idem key --who ada --conv job-81 --tool greet --params '{\"n\":1.0}' --explain",
                "Print the text that is hashed as well",
            ),
        ],
        statuses: &[("0", "done"), ("2", "wrong usage, or params that have no key"), ("125", "an input can't be read")],
    },
    Page {
        verb: "list",
        description: &[
            "Claims that hold a key, newest first; history with --all or --state. Held claims end in an arrow. On a terminal \
             long names are cut to its width; elsewhere nothing is.",
        ],
        examples: &[
            ("idem list", "The 50 newest claims"),
            ("idem list --state held --older-than 1h", "What has waited for a person for more than an hour"),
            ("idem list --all --tool deploy --since 24h --json", "A day of one tool, with history, for a program"),
        ],
        statuses: OTHERS,
    },
    Page {
        verb: "show",
        description: &[],
        examples: &[
            ("idem show 4", "Everything about claim 4, with what was printed so far"),
            ("idem show key:7ac2a0c8 --json", "The newest claim of a key, for a program"),
            ("idem show 4 --stdout > out", "The recorded output, byte for byte"),
        ],
        statuses: OTHERS,
    },
    Page {
        verb: "clear",
        description: &[
            "The row stays as history. On a terminal it shows what it will change and asks; elsewhere claims that are named \
             are cleared at once, and those of a filter only with --yes.",
        ],
        examples: &[
            ("idem clear 4 7", "Free the keys of two claims"),
            ("idem clear --tool deploy --state completed --dry-run", "Say what would be cleared, and change nothing"),
            ("idem clear --conv job-81 --yes --note 'wrong account'", "Clear all of a conversation, in a script"),
        ],
        statuses: OTHERS,
    },
    Page {
        verb: "resolve",
        description: &[
            "Ask the target first: idem believes what it is told. On a terminal it shows what it will change and asks; \
             elsewhere claims that are named are resolved at once, and those of a filter only with --yes. Where one claim \
             can't be resolved, none is.",
        ],
        examples: &[
            ("idem resolve 4 landed", "It arrived: repeats get exit 0 and what was recorded of its output"),
            ("idem resolve 4 not-landed --note 'not in the outbox'", "It did not: the next arrival runs the command"),
            ("idem resolve landed --tool mail.send --dry-run", "Say what would become of all of a tool's held claims"),
        ],
        statuses: OTHERS,
    },
    Page {
        verb: "reconcile",
        description: &[
            "Never runs a command, only probes. Outcomes that were kept on this host since the store could not take them are \
             recorded first, as by every command.",
        ],
        examples: &[
            ("idem reconcile --all", "Ask about every claim whose outcome is unknown"),
            (
                "idem reconcile 4 --probe './ask.sh \"$IDEM_KEY\"'",
                "Ask about claim 4 with a probe that it was not given",
            ),
        ],
        statuses: &[
            ("0", "each is known now"),
            ("1", "some are still unknown, there is no such claim, or nothing matched"),
            ("2", "wrong usage"),
            ("125", "the store can't be used"),
        ],
    },
    Page {
        verb: "mark",
        description: &["The mark is on disk when this returns. It works inside a command that idem run started."],
        examples: &[(
            "idem mark sending || exit 1",
            "From here on it may have landed; what dies before has not, with --marks on the run",
        )],
        statuses: OTHERS,
    },
    Page {
        verb: "prune",
        description: &[
            "Completed claims and history whose end is older go, with their events, their output and their groups, in small \
             transactions. A call whose completed claim is gone runs again when it comes, and what is gone is no longer counted by \
             idem stats.",
            "What is held or running stays, and so does all that it needs: every attempt of its key, and the steps of a group \
             that stays.",
        ],
        examples: &[
            ("idem prune --older-than 90d --dry-run", "Count what would go"),
            ("idem prune --older-than 90d --yes", "Let it go, in a script"),
        ],
        statuses: &[
            ("0", "done"),
            ("1", "nothing is that old, or the person said no; nothing was changed"),
            ("2", "wrong usage, or no --yes where nobody can be asked; nothing was changed"),
            ("125", "the store can't be used"),
        ],
    },
    Page {
        verb: "stats",
        description: &[
            "Arrivals that ran nothing because their call had run, was running, was held or had another command. Held counts \
             arrivals that were told so, held now the claims that are. What was pruned is not counted any more.",
        ],
        examples: &[("idem stats --since 30d", "See what idem has kept from running twice in a month")],
        statuses: OTHERS,
    },
    Page {
        verb: "doctor",
        description: &["Each finding says what to do. Looking never makes a store."],
        examples: &[("idem doctor", "See whether the store is well")],
        statuses: &[
            ("0", "all is well"),
            ("1", "something needs attention"),
            ("2", "wrong usage"),
            ("125", "the store can't be used"),
        ],
    },
    Page {
        verb: "policy",
        description: &[
            "The policy is a TOML file in which an operator writes down what is known of each tool: its effect, its exit codes, \
             its probe, its time limits. A call's own options add to it and can't weaken it.",
            "idem policy check [PATH] says all that is wrong with a file, each with its line. idem policy show TOOL says what \
             applies to a tool, and from which line.",
        ],
        examples: &[
            ("idem policy check", "Check the policy that a run would use"),
            ("idem policy show mail.send", "See what applies to a tool"),
        ],
        statuses: &[
            ("0", "done"),
            ("1", "something is wrong with the policy"),
            ("2", "wrong usage"),
            ("125", "the policy can't be read"),
        ],
    },
    Page {
        verb: "emit",
        description: &["It works inside a command that idem run started."],
        examples: &[("idem emit core '{\"version\":\"1.4.0\"}'", "Name something that was made, with its value")],
        statuses: OTHERS,
    },
    Page {
        verb: "completions",
        description: &[
            "In bash, zsh and fish it completes ids of claims, who, conversations and tools too, from the store at hand.",
        ],
        examples: &[
            ("source <(idem completions bash)", "In ~/.bashrc"),
            ("idem completions zsh > ~/.zfunc/_idem", "In a folder of zsh's fpath, before compinit"),
            ("idem completions fish > ~/.config/fish/completions/idem.fish", "Where fish looks for it"),
        ],
        statuses: &[("0", "done"), ("2", "wrong usage")],
    },
];

/// Variables that are read: every command, then `run` and `key`.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("IDEM_STORE", "The store, unless --store names one"),
    ("IDEM_WHO, IDEM_CONV", "Who calls and in which conversation, unless --who and --conv say so (run, key)"),
    (
        "IDEM_RECORD_WAIT",
        "How long to try again where the outcome can't be recorded, unless --record-wait says so (run)",
    ),
    (
        "IDEM_SEEN_EVERY",
        "How often an owner shows itself to a store that many hosts share, unless --seen-every says so (run)",
    ),
    (
        "PGHOST, PGUSER, PGPASSWORD, PGPASSFILE, PGSSLMODE, …",
        "What the URL of a store in PostgreSQL leaves open, as libpq reads them",
    ),
    ("XDG_STATE_HOME, HOME", "Where the default store is: $XDG_STATE_HOME/idem, else ~/.local/state/idem"),
    ("NO_COLOR", "Where it is set and not empty, no colour, unless --color always"),
    ("TMPDIR", "Where --bind-stdin keeps what it has read (run, key)"),
];

/// The store's files.
pub const FILES: &[(&str, &str)] = &[
    ("$XDG_STATE_HOME/idem/idem.db", "The default store, ~/.local/state/idem/idem.db where the variable isn't set"),
    ("idem.db-wal, idem.db-shm, idem.db-lock, idem.db-arrivals", "Beside each store; they belong to it"),
    ("$XDG_STATE_HOME/idem/postgres-lock", "The locks of the owners on this host, for stores in PostgreSQL"),
    (
        "idem.db-pending/, $XDG_STATE_HOME/idem/pending/",
        "Outcomes that the store could not take yet; the next idem that opens it records them",
    ),
];

/// Returns what follows the options in a command's `--help`.
pub fn after_help(verb: &str) -> String {
    let Some(page) = PAGES.iter().find(|page| page.verb == verb) else { return String::new() };
    let mut text = String::new();
    if verb == "run" {
        text += "Exit status:\n";
        for (code, meaning) in page.statuses {
            text += &format!("  {code}  {meaning}\n");
        }
        text.push('\n');
    }
    text += "Examples:";
    for (line, does) in page.examples {
        text += &format!("\n  {line}\n      {does}");
    }
    text
}
