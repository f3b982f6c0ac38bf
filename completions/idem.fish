function __fish_idem_values
    command idem complete-values $argv[1] -- (commandline -opc) 2>/dev/null
end

# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_idem_global_optspecs
    string join \n store= policy= color= h/help V/version
end

function __fish_idem_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_idem_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_idem_using_subcommand
    set -l cmd (__fish_idem_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c idem -n "__fish_idem_needs_command" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_needs_command" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_needs_command" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_needs_command" -s V -l version -d 'Print version'
complete -c idem -n "__fish_idem_needs_command" -f -a "run" -d 'Run a command at most once per call; replay its result to every later arrival'
complete -c idem -n "__fish_idem_needs_command" -f -a "key" -d 'Print the key of a call'
complete -c idem -n "__fish_idem_needs_command" -f -a "list" -d 'List claims, newest first'
complete -c idem -n "__fish_idem_needs_command" -f -a "show" -d 'Show everything about one claim'
complete -c idem -n "__fish_idem_needs_command" -f -a "clear" -d 'Free a key: the next arrival runs the command'
complete -c idem -n "__fish_idem_needs_command" -f -a "resolve" -d 'Say what became of held claims'
complete -c idem -n "__fish_idem_needs_command" -f -a "reconcile" -d 'Ask the targets of held claims, by their probes, what became of them'
complete -c idem -n "__fish_idem_needs_command" -f -a "prune" -d 'Forget old claims and history: completed ones run again when they come'
complete -c idem -n "__fish_idem_needs_command" -f -a "stats" -d 'Count runs, and the arrivals that were kept from running'
complete -c idem -n "__fish_idem_needs_command" -f -a "doctor" -d 'See whether the store is well, and say what to do where it isn\'t'
complete -c idem -n "__fish_idem_needs_command" -f -a "mark" -d 'Inside a command: say what is known of its write'
complete -c idem -n "__fish_idem_needs_command" -f -a "emit" -d 'Inside a command: name something that it made, for the group that a replay gives back'
complete -c idem -n "__fish_idem_needs_command" -f -a "completions" -d 'Print the completions of a shell'
complete -c idem -n "__fish_idem_needs_command" -f -a "policy" -d 'Look at the operator\'s policy: what is wrong with it, what applies to a tool'
complete -c idem -n "__fish_idem_using_subcommand run" -l who -d 'Who calls' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand run" -l conv -d 'The conversation, run or pipeline that the call belongs to (never the number of a re-run)' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand run" -l tool -d 'The tool\'s name' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand run" -l params -d 'The call\'s parameters: JSON, @FILE, or - for idem\'s standard input (the command then gets none)' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l occurrence -d 'The same call, meant N times: 2 for the second time it is wanted [default: 1]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l bind-file -d 'Make a file\'s content part of the key (may be given again)' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l bind-env -d 'Make an environment variable part of the key (may be given again)' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l ignore-param -d 'Leave a volatile member of the params out of the key, such as /request_id (may be given again)' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l landed-exit -d 'Exit codes that mean: it landed, such as 3 or 6,7,10-19' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l not-landed-exit -d 'Exit codes that mean: it did not land, and may be run again' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l probe -d 'Ask the target whether an unknown outcome landed: a shell command that exits 0 for yes (its output is then the result), 1 for no, and anything else for "can\'t tell"' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l probe-delay -d 'Ask this long after the attempt\'s end, for targets that read behind their writes [default: at once]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l probe-timeout -d 'How long the probe may take; then the outcome stays unknown [default: 30s]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l resend-within -d 'The target dedupes on the key for this long: until then an unknown outcome may be sent again' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l ttl -d 'Let the result expire this long after its end: the next arrival then runs the command [default: never]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l timeout -d 'How long the command may run, such as 30s: then SIGTERM to all that it started, and exit 124' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l kill-after -d 'How long after SIGTERM comes SIGKILL [default: 10s]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l stdin -d 'The command\'s standard input' -r -f -a "inherit\t'idem\'s own'
null\t'Nothing'"
complete -c idem -n "__fish_idem_using_subcommand run" -l wait -d 'How long to wait for a running owner, such as 90s, 5m or 2h [default: until it ends]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l record-wait -d 'How long to try again where the outcome can\'t be recorded; then it is kept on this host, and the next idem here records it [default: 30s]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l seen-every -d 'How often the owner shows itself to a store that many hosts share; unseen for three times as long it is lost, and its claim is held [default: 5s]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l max-output -d 'How much output is recorded, both streams together; more passes through unrecorded [default: 64MiB]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l redact -d 'Hide a member of the params in the record, such as /card/number (may be given again)' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l status-file -d 'Write the same JSON to a file; standard output stays the command\'s' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand run" -l bind-stdin -d 'Make all of standard input part of the key, and give it to the command (at most 1 GiB)'
complete -c idem -n "__fish_idem_using_subcommand run" -l bind-cwd -d 'Make the current folder part of the key'
complete -c idem -n "__fish_idem_using_subcommand run" -l external -d 'The write goes to a target of its own: a failure may come after it landed, and is held'
complete -c idem -n "__fish_idem_using_subcommand run" -l local -d 'A failure means that nothing was written [default, unless the policy says external]'
complete -c idem -n "__fish_idem_using_subcommand run" -l keep-failure -d 'A failure of a local command is final too, and is replayed'
complete -c idem -n "__fish_idem_using_subcommand run" -l rerun-if-interrupted -d 'Run again, instead of holding, what a dead owner left without an outcome; for local commands that bear it'
complete -c idem -n "__fish_idem_using_subcommand run" -l marks -d 'The command says `idem mark sending` before it sends: without it nothing has landed'
complete -c idem -n "__fish_idem_using_subcommand run" -l subst -d 'Replace {idem.key}, {idem.uuid}, {idem.short}, {idem.id} and {idem.attempt} in the command\'s arguments'
complete -c idem -n "__fish_idem_using_subcommand run" -l no-wait -d 'Don\'t wait for a running owner: exit 120 at once'
complete -c idem -n "__fish_idem_using_subcommand run" -l allow-command-change -d 'Answer for this key whatever its command line; for commands that carry a temporary file\'s name, say'
complete -c idem -n "__fish_idem_using_subcommand run" -l no-record-output -d 'Record no output: a replay then gives the exit status alone'
complete -c idem -n "__fish_idem_using_subcommand run" -l json -d 'Print one line of JSON instead of the command\'s output'
complete -c idem -n "__fish_idem_using_subcommand run" -l quiet -d 'No notes on standard error, replay marks included; errors are still said'
complete -c idem -n "__fish_idem_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand key" -l who -d 'Who calls' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand key" -l conv -d 'The conversation, run or pipeline that the call belongs to (never the number of a re-run)' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand key" -l tool -d 'The tool\'s name' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand key" -l params -d 'The call\'s parameters: JSON, @FILE, or - for idem\'s standard input (the command then gets none)' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l occurrence -d 'The same call, meant N times: 2 for the second time it is wanted [default: 1]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l bind-file -d 'Make a file\'s content part of the key (may be given again)' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l bind-env -d 'Make an environment variable part of the key (may be given again)' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l ignore-param -d 'Leave a volatile member of the params out of the key, such as /request_id (may be given again)' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand key" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand key" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand key" -l bind-stdin -d 'Make all of standard input part of the key, and give it to the command (at most 1 GiB)'
complete -c idem -n "__fish_idem_using_subcommand key" -l bind-cwd -d 'Make the current folder part of the key'
complete -c idem -n "__fish_idem_using_subcommand key" -l explain -d 'Print the canonical text that is hashed, too'
complete -c idem -n "__fish_idem_using_subcommand key" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand list" -l state -d 'Only claims in this state (may be given again)' -r -f -a "running\t''
completed\t''
held\t''
released\t''
cleared\t''
expired\t''"
complete -c idem -n "__fish_idem_using_subcommand list" -l who -d 'Only claims of this who' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand list" -l conv -d 'Only claims of this conversation' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand list" -l tool -d 'Only claims of this tool' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand list" -l since -d 'Only claims made since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)' -r
complete -c idem -n "__fish_idem_using_subcommand list" -l older-than -d 'Only claims made longer ago than this, such as 1h or 30d' -r
complete -c idem -n "__fish_idem_using_subcommand list" -l limit -d 'At most this many; 0 for all' -r
complete -c idem -n "__fish_idem_using_subcommand list" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand list" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand list" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand list" -l steps -d 'Steps of other calls too; those that are held are always there'
complete -c idem -n "__fish_idem_using_subcommand list" -l all -d 'History too: claims that were released, cleared or have expired'
complete -c idem -n "__fish_idem_using_subcommand list" -l json -d 'One JSON object a line'
complete -c idem -n "__fish_idem_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand show" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand show" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand show" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand show" -l stdout -d 'Only the recorded standard output, as it was'
complete -c idem -n "__fish_idem_using_subcommand show" -l stderr -d 'Only the recorded standard error, as it was'
complete -c idem -n "__fish_idem_using_subcommand show" -l json -d 'One line of JSON: the claim, its attempts and its events'
complete -c idem -n "__fish_idem_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand clear" -l state -d 'Only claims in this state (may be given again)' -r -f -a "running\t''
completed\t''
held\t''
released\t''
cleared\t''
expired\t''"
complete -c idem -n "__fish_idem_using_subcommand clear" -l who -d 'Only claims of this who' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand clear" -l conv -d 'Only claims of this conversation' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand clear" -l tool -d 'Only claims of this tool' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand clear" -l note -d 'Say why; kept in the history' -r
complete -c idem -n "__fish_idem_using_subcommand clear" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand clear" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand clear" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand clear" -l group -d 'Clear the steps below the claims too, with their own steps'
complete -c idem -n "__fish_idem_using_subcommand clear" -l force -d 'Clear a running claim too, though its owner lives: its command is not stopped'
complete -c idem -n "__fish_idem_using_subcommand clear" -l yes -d 'Don\'t ask'
complete -c idem -n "__fish_idem_using_subcommand clear" -l dry-run -d 'Say what would be changed, and change nothing'
complete -c idem -n "__fish_idem_using_subcommand clear" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand resolve" -l who -d 'Instead of ids: every claim of this who whose outcome is unknown' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand resolve" -l conv -d 'Instead of ids: every claim of this conversation whose outcome is unknown' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand resolve" -l tool -d 'Instead of ids: every claim of this tool whose outcome is unknown' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand resolve" -l stdout -d 'What later arrivals get as standard output, instead of what was recorded (landed only)' -r -F
complete -c idem -n "__fish_idem_using_subcommand resolve" -l exit -d 'What later arrivals get as exit code (landed only) [default: 0]' -r
complete -c idem -n "__fish_idem_using_subcommand resolve" -l note -d 'Say how you know; kept in the history' -r
complete -c idem -n "__fish_idem_using_subcommand resolve" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand resolve" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand resolve" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand resolve" -l force -d 'Resolve a running claim too, though its owner lives, or against the mark of its command; nothing is stopped'
complete -c idem -n "__fish_idem_using_subcommand resolve" -l yes -d 'Don\'t ask'
complete -c idem -n "__fish_idem_using_subcommand resolve" -l dry-run -d 'Say what would be changed, and change nothing'
complete -c idem -n "__fish_idem_using_subcommand resolve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l who -d 'Only claims of this who' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l conv -d 'Only claims of this conversation' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l tool -d 'Only claims of this tool' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l probe -d 'Ask with this shell command, instead of the one that was stored with the claim' -r
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l probe-timeout -d 'How long a probe may take [default: as stored with it, else 30s]' -r
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l all -d 'Every claim whose outcome is unknown'
complete -c idem -n "__fish_idem_using_subcommand reconcile" -l json -d 'One JSON object a line'
complete -c idem -n "__fish_idem_using_subcommand reconcile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand prune" -l older-than -d 'Only claims that ended longer ago than this, such as 30d' -r
complete -c idem -n "__fish_idem_using_subcommand prune" -l who -d 'Only claims of this who' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand prune" -l conv -d 'Only claims of this conversation' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand prune" -l tool -d 'Only claims of this tool' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand prune" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand prune" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand prune" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand prune" -l dry-run -d 'Say what would go, and change nothing'
complete -c idem -n "__fish_idem_using_subcommand prune" -l yes -d 'Don\'t ask'
complete -c idem -n "__fish_idem_using_subcommand prune" -l json -d 'One line of JSON'
complete -c idem -n "__fish_idem_using_subcommand prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand stats" -l since -d 'Only what happened since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)' -r
complete -c idem -n "__fish_idem_using_subcommand stats" -l who -d 'Only claims of this who' -r -f -a "(__fish_idem_values who)"
complete -c idem -n "__fish_idem_using_subcommand stats" -l conv -d 'Only claims of this conversation' -r -f -a "(__fish_idem_values conv)"
complete -c idem -n "__fish_idem_using_subcommand stats" -l tool -d 'Only claims of this tool' -r -f -a "(__fish_idem_values tool)"
complete -c idem -n "__fish_idem_using_subcommand stats" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand stats" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand stats" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand stats" -l json -d 'One line of JSON'
complete -c idem -n "__fish_idem_using_subcommand stats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand doctor" -l integrity -d 'How much of the store\'s file is read to see whether it is whole [default: all of it up to 64 MiB, else quick]' -r -f -a "full\t'Every page and every index entry against its row'
quick\t'Every page, but not the indexes against their rows'
none\t'Not at all'"
complete -c idem -n "__fish_idem_using_subcommand doctor" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand doctor" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand doctor" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand doctor" -l json -d 'One line of JSON'
complete -c idem -n "__fish_idem_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand mark" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand mark" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand mark" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand mark" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand emit" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand emit" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand emit" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand emit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand completions" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand completions" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand completions" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand policy; and not __fish_seen_subcommand_from check show" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand policy; and not __fish_seen_subcommand_from check show" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand policy; and not __fish_seen_subcommand_from check show" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand policy; and not __fish_seen_subcommand_from check show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand policy; and not __fish_seen_subcommand_from check show" -f -a "check" -d 'Say all that is wrong with a policy, each with its line; exit 1 where something is'
complete -c idem -n "__fish_idem_using_subcommand policy; and not __fish_seen_subcommand_from check show" -f -a "show" -d 'Say what applies to a tool, and from which line'
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from check" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from check" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from check" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from show" -l store -d 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]' -r -F
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from show" -l policy -d 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]' -r -F
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from show" -l color -d 'When to colour idem\'s own output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from show" -l json -d 'One line of JSON'
complete -c idem -n "__fish_idem_using_subcommand policy; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand show" -k -f -a "(__fish_idem_values show)"
complete -c idem -n "__fish_idem_using_subcommand clear" -k -f -a "(__fish_idem_values clear)"
complete -c idem -n "__fish_idem_using_subcommand resolve" -k -f -a "(__fish_idem_values resolve)"
complete -c idem -n "__fish_idem_using_subcommand reconcile" -k -f -a "(__fish_idem_values reconcile)"
complete -c idem -n "__fish_idem_using_subcommand mark" -k -f -a "sending landed not-landed"
complete -c idem -n "__fish_idem_using_subcommand completions" -k -f -a "bash zsh fish powershell elvish"
