#!/bin/sh
# naive.sh SQLITE3 STORE KEY COMMAND [ARG]...
#
# What people write when they need this once: an insert under a unique key, the command, an update; a repeat prints what
# was recorded. It claims before it acts and it syncs, so it is a fair peer; it knows no liveness, no mismatch, no
# unknown outcome, no bytes that a shell variable can't hold, and a key with a quote breaks it.
sqlite3=$1 store=$2 key=$3
shift 3

answer=$("$sqlite3" -bail "$store" "
    INSERT OR IGNORE INTO claim (key) VALUES ('$key');
    SELECT changes(), exit, output FROM claim WHERE key = '$key';") || exit 125

case $answer in
'1|'*)
    output=$("$@")
    exit=$?
    quoted=$output
    case $output in *\'*) quoted=$(printf %s "$output" | sed "s/'/''/g") ;; esac
    "$sqlite3" -bail "$store" "UPDATE claim SET exit = $exit, output = '$quoted' WHERE key = '$key';" || exit 125
    ;;
'0||'*)
    echo "naive: $key is running, or was cut short" >&2
    exit 120
    ;;
*)
    rest=${answer#0|}
    exit=${rest%%|*}
    output=${rest#*|}
    ;;
esac
printf %s "$output"
exit "$exit"
