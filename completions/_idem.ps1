
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'idem' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'idem'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'idem' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a command at most once per call; replay its result to every later arrival')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Print the key of a call')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List claims, newest first')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show everything about one claim')
            [CompletionResult]::new('clear', 'clear', [CompletionResultType]::ParameterValue, 'Free a key: the next arrival runs the command')
            [CompletionResult]::new('resolve', 'resolve', [CompletionResultType]::ParameterValue, 'Say what became of held claims')
            [CompletionResult]::new('reconcile', 'reconcile', [CompletionResultType]::ParameterValue, 'Ask the targets of held claims, by their probes, what became of them')
            [CompletionResult]::new('prune', 'prune', [CompletionResultType]::ParameterValue, 'Forget old claims and history: completed ones run again when they come')
            [CompletionResult]::new('stats', 'stats', [CompletionResultType]::ParameterValue, 'Count runs, and the arrivals that were kept from running')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'See whether the store is well, and say what to do where it isn''t')
            [CompletionResult]::new('mark', 'mark', [CompletionResultType]::ParameterValue, 'Inside a command: say what is known of its write')
            [CompletionResult]::new('emit', 'emit', [CompletionResultType]::ParameterValue, 'Inside a command: name something that it made, for the group that a replay gives back')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completions of a shell')
            [CompletionResult]::new('policy', 'policy', [CompletionResultType]::ParameterValue, 'Look at the operator''s policy: what is wrong with it, what applies to a tool')
            break
        }
        'idem;run' {
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Who calls')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'The conversation, run or pipeline that the call belongs to (never the number of a re-run)')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'The tool''s name')
            [CompletionResult]::new('--params', '--params', [CompletionResultType]::ParameterName, 'The call''s parameters: JSON, @FILE, or - for idem''s standard input (the command then gets none)')
            [CompletionResult]::new('--occurrence', '--occurrence', [CompletionResultType]::ParameterName, 'The same call, meant N times: 2 for the second time it is wanted [default: 1]')
            [CompletionResult]::new('--bind-file', '--bind-file', [CompletionResultType]::ParameterName, 'Make a file''s content part of the key (may be given again)')
            [CompletionResult]::new('--bind-env', '--bind-env', [CompletionResultType]::ParameterName, 'Make an environment variable part of the key (may be given again)')
            [CompletionResult]::new('--ignore-param', '--ignore-param', [CompletionResultType]::ParameterName, 'Leave a volatile member of the params out of the key, such as /request_id (may be given again)')
            [CompletionResult]::new('--landed-exit', '--landed-exit', [CompletionResultType]::ParameterName, 'Exit codes that mean: it landed, such as 3 or 6,7,10-19')
            [CompletionResult]::new('--not-landed-exit', '--not-landed-exit', [CompletionResultType]::ParameterName, 'Exit codes that mean: it did not land, and may be run again')
            [CompletionResult]::new('--probe', '--probe', [CompletionResultType]::ParameterName, 'Ask the target whether an unknown outcome landed: a shell command that exits 0 for yes (its output is then the result), 1 for no, and anything else for "can''t tell"')
            [CompletionResult]::new('--probe-delay', '--probe-delay', [CompletionResultType]::ParameterName, 'Ask this long after the attempt''s end, for targets that read behind their writes [default: at once]')
            [CompletionResult]::new('--probe-timeout', '--probe-timeout', [CompletionResultType]::ParameterName, 'How long the probe may take; then the outcome stays unknown [default: 30s]')
            [CompletionResult]::new('--resend-within', '--resend-within', [CompletionResultType]::ParameterName, 'The target dedupes on the key for this long: until then an unknown outcome may be sent again')
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'Let the result expire this long after its end: the next arrival then runs the command [default: never]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'How long the command may run, such as 30s: then SIGTERM to all that it started, and exit 124')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'How long after SIGTERM comes SIGKILL [default: 10s]')
            [CompletionResult]::new('--stdin', '--stdin', [CompletionResultType]::ParameterName, 'The command''s standard input')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'How long to wait for a running owner, such as 90s, 5m or 2h [default: until it ends]')
            [CompletionResult]::new('--record-wait', '--record-wait', [CompletionResultType]::ParameterName, 'How long to try again where the outcome can''t be recorded; then it is kept on this host, and the next idem here records it [default: 30s]')
            [CompletionResult]::new('--seen-every', '--seen-every', [CompletionResultType]::ParameterName, 'How often the owner shows itself to a store that many hosts share; unseen for three times as long it is lost, and its claim is held [default: 5s]')
            [CompletionResult]::new('--max-output', '--max-output', [CompletionResultType]::ParameterName, 'How much output is recorded, both streams together; more passes through unrecorded [default: 64MiB]')
            [CompletionResult]::new('--redact', '--redact', [CompletionResultType]::ParameterName, 'Hide a member of the params in the record, such as /card/number (may be given again)')
            [CompletionResult]::new('--status-file', '--status-file', [CompletionResultType]::ParameterName, 'Write the same JSON to a file; standard output stays the command''s')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--bind-stdin', '--bind-stdin', [CompletionResultType]::ParameterName, 'Make all of standard input part of the key, and give it to the command (at most 1 GiB)')
            [CompletionResult]::new('--bind-cwd', '--bind-cwd', [CompletionResultType]::ParameterName, 'Make the current folder part of the key')
            [CompletionResult]::new('--external', '--external', [CompletionResultType]::ParameterName, 'The write goes to a target of its own: a failure may come after it landed, and is held')
            [CompletionResult]::new('--local', '--local', [CompletionResultType]::ParameterName, 'A failure means that nothing was written [default, unless the policy says external]')
            [CompletionResult]::new('--keep-failure', '--keep-failure', [CompletionResultType]::ParameterName, 'A failure of a local command is final too, and is replayed')
            [CompletionResult]::new('--rerun-if-interrupted', '--rerun-if-interrupted', [CompletionResultType]::ParameterName, 'Run again, instead of holding, what a dead owner left without an outcome; for local commands that bear it')
            [CompletionResult]::new('--marks', '--marks', [CompletionResultType]::ParameterName, 'The command says `idem mark sending` before it sends: without it nothing has landed')
            [CompletionResult]::new('--subst', '--subst', [CompletionResultType]::ParameterName, 'Replace {idem.key}, {idem.uuid}, {idem.short}, {idem.id} and {idem.attempt} in the command''s arguments')
            [CompletionResult]::new('--no-wait', '--no-wait', [CompletionResultType]::ParameterName, 'Don''t wait for a running owner: exit 120 at once')
            [CompletionResult]::new('--allow-command-change', '--allow-command-change', [CompletionResultType]::ParameterName, 'Answer for this key whatever its command line; for commands that carry a temporary file''s name, say')
            [CompletionResult]::new('--no-record-output', '--no-record-output', [CompletionResultType]::ParameterName, 'Record no output: a replay then gives the exit status alone')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one line of JSON instead of the command''s output')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No notes on standard error, replay marks included; errors are still said')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;key' {
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Who calls')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'The conversation, run or pipeline that the call belongs to (never the number of a re-run)')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'The tool''s name')
            [CompletionResult]::new('--params', '--params', [CompletionResultType]::ParameterName, 'The call''s parameters: JSON, @FILE, or - for idem''s standard input (the command then gets none)')
            [CompletionResult]::new('--occurrence', '--occurrence', [CompletionResultType]::ParameterName, 'The same call, meant N times: 2 for the second time it is wanted [default: 1]')
            [CompletionResult]::new('--bind-file', '--bind-file', [CompletionResultType]::ParameterName, 'Make a file''s content part of the key (may be given again)')
            [CompletionResult]::new('--bind-env', '--bind-env', [CompletionResultType]::ParameterName, 'Make an environment variable part of the key (may be given again)')
            [CompletionResult]::new('--ignore-param', '--ignore-param', [CompletionResultType]::ParameterName, 'Leave a volatile member of the params out of the key, such as /request_id (may be given again)')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--bind-stdin', '--bind-stdin', [CompletionResultType]::ParameterName, 'Make all of standard input part of the key, and give it to the command (at most 1 GiB)')
            [CompletionResult]::new('--bind-cwd', '--bind-cwd', [CompletionResultType]::ParameterName, 'Make the current folder part of the key')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Print the canonical text that is hashed, too')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;list' {
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'Only claims in this state (may be given again)')
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Only claims of this who')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'Only claims of this conversation')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'Only claims of this tool')
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only claims made since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)')
            [CompletionResult]::new('--older-than', '--older-than', [CompletionResultType]::ParameterName, 'Only claims made longer ago than this, such as 1h or 30d')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'At most this many; 0 for all')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--steps', '--steps', [CompletionResultType]::ParameterName, 'Steps of other calls too; those that are held are always there')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'History too: claims that were released, cleared or have expired')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object a line')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;show' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--stdout', '--stdout', [CompletionResultType]::ParameterName, 'Only the recorded standard output, as it was')
            [CompletionResult]::new('--stderr', '--stderr', [CompletionResultType]::ParameterName, 'Only the recorded standard error, as it was')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One line of JSON: the claim, its attempts and its events')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;clear' {
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'Only claims in this state (may be given again)')
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Only claims of this who')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'Only claims of this conversation')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'Only claims of this tool')
            [CompletionResult]::new('--note', '--note', [CompletionResultType]::ParameterName, 'Say why; kept in the history')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Clear the steps below the claims too, with their own steps')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Clear a running claim too, though its owner lives: its command is not stopped')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Don''t ask')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be changed, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;resolve' {
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Instead of ids: every claim of this who whose outcome is unknown')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'Instead of ids: every claim of this conversation whose outcome is unknown')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'Instead of ids: every claim of this tool whose outcome is unknown')
            [CompletionResult]::new('--stdout', '--stdout', [CompletionResultType]::ParameterName, 'What later arrivals get as standard output, instead of what was recorded (landed only)')
            [CompletionResult]::new('--exit', '--exit', [CompletionResultType]::ParameterName, 'What later arrivals get as exit code (landed only) [default: 0]')
            [CompletionResult]::new('--note', '--note', [CompletionResultType]::ParameterName, 'Say how you know; kept in the history')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Resolve a running claim too, though its owner lives, or against the mark of its command; nothing is stopped')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Don''t ask')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be changed, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;reconcile' {
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Only claims of this who')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'Only claims of this conversation')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'Only claims of this tool')
            [CompletionResult]::new('--probe', '--probe', [CompletionResultType]::ParameterName, 'Ask with this shell command, instead of the one that was stored with the claim')
            [CompletionResult]::new('--probe-timeout', '--probe-timeout', [CompletionResultType]::ParameterName, 'How long a probe may take [default: as stored with it, else 30s]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Every claim whose outcome is unknown')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object a line')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;prune' {
            [CompletionResult]::new('--older-than', '--older-than', [CompletionResultType]::ParameterName, 'Only claims that ended longer ago than this, such as 30d')
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Only claims of this who')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'Only claims of this conversation')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'Only claims of this tool')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would go, and change nothing')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Don''t ask')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One line of JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;stats' {
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only what happened since then: a duration back from now (24h) or a time (2026-01-31T12:00:00Z)')
            [CompletionResult]::new('--who', '--who', [CompletionResultType]::ParameterName, 'Only claims of this who')
            [CompletionResult]::new('--conv', '--conv', [CompletionResultType]::ParameterName, 'Only claims of this conversation')
            [CompletionResult]::new('--tool', '--tool', [CompletionResultType]::ParameterName, 'Only claims of this tool')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One line of JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;doctor' {
            [CompletionResult]::new('--integrity', '--integrity', [CompletionResultType]::ParameterName, 'How much of the store''s file is read to see whether it is whole [default: all of it up to 64 MiB, else quick]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One line of JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;mark' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;emit' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;completions' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;policy' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Say all that is wrong with a policy, each with its line; exit 1 where something is')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Say what applies to a tool, and from which line')
            break
        }
        'idem;policy;check' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;policy;show' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store of claims: a file on a local file system, or postgres://USER@HOST/DATABASE for many machines [default: $XDG_STATE_HOME/idem/idem.db]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'What the operator knows of each tool: a policy file [default: $XDG_CONFIG_HOME/idem/policy.toml, if it is there]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to colour idem''s own output')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One line of JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
