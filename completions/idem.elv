
use builtin;
use str;

set edit:completion:arg-completer[idem] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'idem'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'idem'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand run 'Run a command at most once per call; replay its result to every later arrival'
            cand key 'Print the key of a call'
            cand list 'List claims, newest first'
            cand show 'Show everything about one claim'
            cand clear 'Free a key: the next arrival runs the command'
            cand resolve 'Say what became of held claims'
            cand reconcile 'Ask the targets of held claims, by their probes, what became of them'
            cand prune 'Forget old claims and history: completed ones run again when they come'
            cand stats 'Count runs, and the arrivals that were kept from running'
            cand doctor 'See whether the store is well, and say what to do where it isn''t'
            cand mark 'Inside a command: say what is known of its write'
            cand emit 'Inside a command: name something that it made, for the group that a replay gives back'
            cand completions 'Print the completions of a shell'
            cand policy 'Look at the operator''s policy: what is wrong with it, what applies to a tool'
        }
        &'idem;run'= {
            cand --who 'Who calls'
            cand --conv 'The conversation, run or pipeline that the call belongs to (never the number of a re-run)'
            cand --tool 'The tool''s name'
            cand --params 'The call''s parameters: JSON, @FILE, or - for idem''s standard input (the command then gets none)'
            cand --occurrence 'The same call, meant N times: 2 for the second time it is wanted [default: 1]'
            cand --bind-file 'Make a file''s content part of the key (may be given again)'
            cand --bind-env 'Make an environment variable part of the key (may be given again)'
            cand --ignore-param 'Leave a volatile member of the params out of the key, such as /request_id (may be given again)'
            cand --landed-exit 'Exit codes that mean: it landed, such as 3 or 6,7,10-19'
            cand --not-landed-exit 'Exit codes that mean: it did not land, and may be run again'
            cand --probe 'Ask the target whether an unknown outcome landed: a shell command that exits 0 for yes (its output is then the result), 1 for no, and anything else for "can''t tell"'
            cand --probe-delay 'Ask this long after the attempt''s end, for targets that read behind their writes [default: at once]'
            cand --probe-timeout 'How long the probe may take; then the outcome stays unknown [default: 30s]'
            cand --resend-within 'The target dedupes on the key for this long: until then an unknown outcome may be sent again'
            cand --ttl 'Let the result expire this long after its end: the next arrival then runs the command [default: never]'
            cand --timeout 'How long the command may run, such as 30s: then SIGTERM to all that it started, and exit 124'
            cand --kill-after 'How long after SIGTERM comes SIGKILL [default: 10s]'
            cand --stdin 'The command''s standard input'
            cand --wait 'How long to wait for a running owner, such as 90s, 5m or 2h [default: until it ends]'
            cand --record-wait 'How long to try again where the outcome can''t be recorded; then it is kept on this host, and the next idem here records it [default: 30s]'
            cand --seen-every 'How often the owner shows itself to a store that many hosts share; unseen for three times as long it is lost, and its claim is held [default: 5s]'
            cand --max-output 'How much output is recorded, both streams together; more passes through unrecorded [default: 64MiB]'
            cand --redact 'Hide a member of the params in the record, such as /card/number (may be given again)'
            cand --status-file 'Write the same JSON to a file; standard output stays the command''s'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --bind-stdin 'Make all of standard input part of the key, and give it to the command (at most 1 GiB)'
            cand --bind-cwd 'Make the current folder part of the key'
            cand --external 'The write goes to a target of its own: a failure may come after it landed, and is held'
            cand --local 'A failure means that nothing was written [default, unless the policy says external]'
            cand --keep-failure 'A failure of a local command is final too, and is replayed'
            cand --rerun-if-interrupted 'Run again, instead of holding, what a dead owner left without an outcome; for local commands that bear it'
            cand --marks 'The command says `idem mark sending` before it sends: without it nothing has landed'
            cand --subst 'Replace {idem.key}, {idem.uuid}, {idem.short}, {idem.id} and {idem.attempt} in the command''s arguments'
            cand --no-wait 'Don''t wait for a running owner: exit 120 at once'
            cand --allow-command-change 'Answer for this key whatever its command line; for commands that carry a temporary file''s name, say'
            cand --no-record-output 'Record no output: a replay then gives the exit status alone'
            cand --json 'Print one line of JSON instead of the command''s output'
            cand --quiet 'No notes on standard error, replay marks included; errors are still said'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;key'= {
            cand --who 'Who calls'
            cand --conv 'The conversation, run or pipeline that the call belongs to (never the number of a re-run)'
            cand --tool 'The tool''s name'
            cand --params 'The call''s parameters: JSON, @FILE, or - for idem''s standard input (the command then gets none)'
            cand --occurrence 'The same call, meant N times: 2 for the second time it is wanted [default: 1]'
            cand --bind-file 'Make a file''s content part of the key (may be given again)'
            cand --bind-env 'Make an environment variable part of the key (may be given again)'
            cand --ignore-param 'Leave a volatile member of the params out of the key, such as /request_id (may be given again)'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --bind-stdin 'Make all of standard input part of the key, and give it to the command (at most 1 GiB)'
            cand --bind-cwd 'Make the current folder part of the key'
            cand --explain 'Print the canonical text that is hashed, too'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;list'= {
            cand --state 'Only claims in this state (may be given again)'
            cand --who 'Only claims of this who'
            cand --conv 'Only claims of this conversation'
            cand --tool 'Only claims of this tool'
            cand --since 'Only claims made since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)'
            cand --older-than 'Only claims made longer ago than this, such as 1h or 30d'
            cand --limit 'At most this many; 0 for all'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --steps 'Steps of other calls too; those that are held are always there'
            cand --all 'History too: claims that were released, cleared or have expired'
            cand --json 'One JSON object a line'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;show'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --stdout 'Only the recorded standard output, as it was'
            cand --stderr 'Only the recorded standard error, as it was'
            cand --json 'One line of JSON: the claim, its attempts and its events'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;clear'= {
            cand --state 'Only claims in this state (may be given again)'
            cand --who 'Only claims of this who'
            cand --conv 'Only claims of this conversation'
            cand --tool 'Only claims of this tool'
            cand --note 'Say why; kept in the history'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --group 'Clear the steps below the claims too, with their own steps'
            cand --force 'Clear a running claim too, though its owner lives: its command is not stopped'
            cand --yes 'Don''t ask'
            cand --dry-run 'Say what would be changed, and change nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;resolve'= {
            cand --who 'Instead of ids: every claim of this who whose outcome is unknown'
            cand --conv 'Instead of ids: every claim of this conversation whose outcome is unknown'
            cand --tool 'Instead of ids: every claim of this tool whose outcome is unknown'
            cand --stdout 'What later arrivals get as standard output, instead of what was recorded (landed only)'
            cand --exit 'What later arrivals get as exit code (landed only) [default: 0]'
            cand --note 'Say how you know; kept in the history'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --force 'Resolve a running claim too, though its owner lives, or against the mark of its command; nothing is stopped'
            cand --yes 'Don''t ask'
            cand --dry-run 'Say what would be changed, and change nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;reconcile'= {
            cand --who 'Only claims of this who'
            cand --conv 'Only claims of this conversation'
            cand --tool 'Only claims of this tool'
            cand --probe 'Ask with this shell command, instead of the one that was stored with the claim'
            cand --probe-timeout 'How long a probe may take [default: as stored with it, else 30s]'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --all 'Every claim whose outcome is unknown'
            cand --json 'One JSON object a line'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;prune'= {
            cand --older-than 'Only claims that ended longer ago than this, such as 30d'
            cand --who 'Only claims of this who'
            cand --conv 'Only claims of this conversation'
            cand --tool 'Only claims of this tool'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --dry-run 'Say what would go, and change nothing'
            cand --yes 'Don''t ask'
            cand --json 'One line of JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;stats'= {
            cand --since 'Only what happened since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)'
            cand --who 'Only claims of this who'
            cand --conv 'Only claims of this conversation'
            cand --tool 'Only claims of this tool'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --json 'One line of JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;doctor'= {
            cand --integrity 'How much of the store''s file is read to see whether it is whole [default: all of it up to 64 MiB, else quick]'
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --json 'One line of JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;mark'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;emit'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;completions'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;policy'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand check 'Say all that is wrong with a policy, each with its line; exit 1 where something is'
            cand show 'Say what applies to a tool, and from which line'
        }
        &'idem;policy;check'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;policy;show'= {
            cand --store 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --policy 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]'
            cand --color 'When to colour idem''s own output'
            cand --json 'One line of JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
    ]
    $completions[$command]
}
