#!/usr/bin/env bash
# With kvs.sync=interval a session that is killed forgets commits, but no job that was acknowledged
# or started: no job runs twice, and no id is given again.
# shellcheck disable=SC2016,SC2154 # the jobs expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck queue kvs
export FLUX

# Nothing is written by itself in the time of this test.
state=$TEST_DIR/state
slow=(--size=1 --statedir="$state" --set=kvs.sync=interval --set=kvs.sync-interval=900000
    --set=kvs.checkpoint-interval=900000)

# until FILE SCRIPT: a session in which the script runs, killed when FILE is there
until_file() {
    local file=$1 sid status
    rm -f "$file"
    DIR=$TEST_DIR setsid "$FLUX" start "${slow[@]}" sh -c "$2; exec sleep 100" \
        >out 2>err </dev/null &
    sid=$!
    disown $sid
    wait_until 30 test -e "$file"
    status=$?
    kill_setsid $sid
    rm -rf "$TMPDIR"/flux-*
    return $status
}

ok "a session is killed while a job runs, and others wait" until_file ids '
    "$FLUX" submit --env=DIR="$DIR" sh -c "echo ran >>$DIR/runs; exec sleep 1000" >"$DIR/first"
    while [ ! -e "$DIR/runs" ]; do sleep 0.05; done
    "$FLUX" submit --hold --cc=1-3 --env=DIR="$DIR" sh -c "echo held >>$DIR/runs" >"$DIR/held"
    "$FLUX" kvs namespace create job-1 job-1000 job-x
    mv "$DIR/held" "$DIR/ids"'
first=$(cat first)
held=$(cat ids)
is "$(cat runs)" ran "one job has run"

hold 1 "${slow[@]:1}"
ok "the namespace that it left is removed" wait_until 30 sh -c \
    '! "$FLUX" kvs namespace list | grep -q "^job-1 "'
is "$("$FLUX" kvs namespace list | grep -o '^job-[^ ]*' | sort | tr '\n' ' ')" "job-1000 job-x " \
    "others are not"
ok "the job that ran ends" wait_until 30 sh -c "\"$FLUX\" jobs -n -o \"{result}\" $first | grep -E \"failed|lost\""
is "$(cat runs)" ran "and does not run again"
# shellcheck disable=SC2086 # ids are words
is "$("$FLUX" jobs -n -o '{id}' $held | wc -l)" 3 "those that waited are there"
next=$("$FLUX" submit true)
is "$(printf '%s\n' "$first" "$held" "$next" | sort | uniq -d)" "" "the next id is a new one"
# shellcheck disable=SC2086 # ids are words
ok "those that waited are released" "$FLUX" wreck release $held
ok "and run" "$FLUX" queue idle -t $((60 * PATIENCE))s
is "$(sort runs | uniq -c | tr -s ' \n' ' ')" " 3 held 1 ran " "once each"
release
is "$status" 0 "the session ends well"
finish
