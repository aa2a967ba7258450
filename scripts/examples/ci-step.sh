#!/usr/bin/env bash
# A step of a CI job: stops the target once, keeps all evidence of that stop in one core, and asserts on it.
#
#     scripts/examples/ci-step.sh DIRECTORY app.elf --remote :3333
#     scripts/examples/ci-step.sh DIRECTORY app.elf ram.bin@0x20000000
#
# DIRECTORY gets evidence.core, and where a condition fails report.txt and last.txt, which are printed as well:
# keep it as an artefact of the job. Whatever follows the ELF says where the memory is, as for `tx-trace last`.
#
# Status 0: every condition holds. 1: one does not. 2: the check was not possible (no link, no trace, an unknown event).
# Needs jq. The program is $TX_TRACE_BIN, or tx-trace on the PATH.
#
# To change: the two lines below, and the conditions at the end.
# shellcheck disable=SC2016 # the $ in single quotes are jq's
set -euo pipefail

never=${NEVER_EVENT:-APP_LATE}     # an event of the application that a good run does not insert
most=${MOST_STACK:-90}             # per cent of its stack that a thread may have used

[ $# -ge 3 ] || { sed -n '2,/^# To change/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
directory=$1 elf=$2
shift 2
tx_trace=${TX_TRACE_BIN:-tx-trace}
core=$directory/evidence.core

could_not_look() {
    echo "ci-step: $1" >&2
    exit 2
}

# The one stop. Everything after it reads the core.
mkdir -p "$directory"
rm -f "$core" "$directory/report.txt" "$directory/last.txt"
"$tx_trace" dump -o "$core" --elf "$elf" "$@" || could_not_look "no evidence of this target"

read_core() {
    "$tx_trace" "$@" --elf "$elf" --core "$core"
}

events=$(read_core list --format json) || could_not_look "no events in $core"
threads=$(read_core threads --format json) || could_not_look "no threads in $core"
# An event that is not there because its name is unknown must not pass.
"$tx_trace" events --user --elf "$elf" "$never" >/dev/null || could_not_look "$elf names no event $never"

failed=0

# condition SENTENCE JSON_LINES JQ_PROGRAM [ARGUMENT_OF_JQ...]: the program prints a line for each thing that is wrong.
condition() {
    local sentence=$1 lines=$2 program=$3 wrong
    shift 3
    wrong=$(jq -rn "$@" "$program" <<<"$lines") || could_not_look "jq failed: $sentence"
    if [ -z "$wrong" ]; then
        echo "ok    $sentence"
    else
        echo "FAIL  $sentence"
        while IFS= read -r line; do echo "      $line"; done <<<"$wrong"
        failed=1
    fi
}

condition "no event $never" "$events" '
    inputs | select(.type == "event" and .name == $never) | "seq \(.seq), by \(.context.name)"
' --arg never "$never"

condition "nothing was lost" "$events"$'\n'"$threads" '
    inputs | select(.type == "issue" and .severity == "lost") | "\(.code): \(.message)"
'

# What is not known (stacks that are not filled, for one) is no pass.
condition "no thread has used more than $most % of its stack" "$threads" '
    inputs | select(.type == "row" and .report == "threads")
    | if .stack_high == null then "\(.thread.name): not known"
      elif 100 * .stack_high > $most * .stack_size then "\(.thread.name): \(.stack_high) of \(.stack_size) bytes"
      else empty end
' --argjson most "$most"

if [ $failed = 1 ]; then
    # Status 1 of these two is an answer as well.
    read_core report --width 160 >"$directory/report.txt" || [ $? = 1 ]
    read_core last 50 --width 160 >"$directory/last.txt" || [ $? = 1 ]
    echo
    cat "$directory/report.txt"
    echo
    cat "$directory/last.txt"
    echo
    echo "ci-step: failed; the evidence is $core"
    exit 1
fi
