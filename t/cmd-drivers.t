#!/bin/bash
# The words with which drivers of workflows (Nextflow's executor) submit, look at and end jobs.
# shellcheck disable=SC2154 # set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start submit jobs job cancel
hold 1

flux() {
    "$FLUX" "$@"
}
mkdir work
ok "a task is submitted" flux submit --setattr=cwd="$PWD/work" --job-name="nf-one" \
    --output="$PWD/work/log" --cores-per-task=1 --time-limit=30 --queue=default \
    /bin/sh -c 'pwd; while [ ! -e go ]; do sleep 0.05; done'
one=$out
like "$one" "^[0-9]+\$" "... and its id printed"
is "$(flux jobs -n -o '{name} {limit}' "$one")" "nf-one 30m" "its name, and its limit in minutes"

look() { # ID: its line of the table
    flux jobs --suppress-header --format="{id.f58} {status_abbrev}" --since="-15m" --user="$(id -un)" >table
    grep "^$1 " table
}
shows() { # ID ABBREVIATION
    [ "$(look "$1")" = "$1 $2" ]
}
ok "while it runs" wait_until 20 shows "$one" R
flux submit --urgency=hold true >held.id
held=$(cat held.id)
ok "... another one that waits" wait_until 20 shows "$held" PD
flux submit sh -c 'exit 3' >failed.id
failed=$(cat failed.id)
ok "... and one that has failed" wait_until 20 shows "$failed" F
flux submit true >well.id
well=$(cat well.id)
ok "... and one that has ended well" wait_until 20 shows "$well" CD
touch work/go
ok "it ends" wait_until 20 shows "$one" CD
is "$(cat work/log)" "$PWD/work" "it has run in its directory"

like "$(flux job info "$one")" "nf-one" "everything about it"
like "$(flux job info -j "$one")" '"id": *'"$one" "... as JSON"
flux job info "$one" jobspec | python3 -c 'import json, sys
assert json.load(sys.stdin)["attributes"]["system"]["duration"] == 1800' 2>bad
is "$?" 0 "its jobspec"
like "$(flux job info "$one" R)" '"R_lite"' "... its resources"
like "$(flux job info "$one" eventlog | tail -1)" '"clean"' "... its events"
exits 2 "another word is not a value of the record" flux job info "$one" nothing
exits 1 "neither has a job that is not there one" flux job info 999999 R

flux submit sleep 600 >long.id
long=$(cat long.id)
ok "one is ended" flux job cancel "$long"
ok "... is canceled" wait_until 20 shows "$long" CA
flux submit -t 1s sleep 600 >late.id
late=$(cat late.id)
ok "one whose time is over" wait_until 40 shows "$late" TO
flux submit sleep 600 >other.id
other=$(cat other.id)
exits 1 "several are ended, one of which has ended already" flux cancel "$one" "$held" "$other"
like "$err" "job $one has ended already" "... which is said"
unlike "$err" "job $held|job $other" "... and of no other one"
ok "... the others are canceled" wait_until 20 shows "$other" CA
ok "... all of them" wait_until 20 shows "$held" CA
exits 1 "... nor is there one more than once" flux job cancel "$one"
release
is "$status" 0 "the session ends"
finish
