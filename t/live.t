#!/usr/bin/env bash
# States of ranks between up and lost: flux up, flux topo and flux live show them, and how they changed.
# shellcheck disable=SC2154 # set by hold and run
. "$(dirname "$0")/lib.sh"
need_flux start up topo live event

in_state() { # STATE RANKS
    "$FLUX" live status | awk -v state="$1" -v ranks="$2" '
        $1 == state { found = $3 }
        END { exit found != ranks }'
}
# What was said of rank 3, in order.
verdicts() {
    "$FLUX" live history | awk '$3 == 3 { print $4 }' | xargs
}

# Slow soon; lost never, however busy the host is.
hold 4 --topology=kary:2 --set=modules=log --set=live.probe=100ms --set=live.slow=400ms --set=live.lost=60s
pid3=$("$FLUX" getattr -r 3 broker.pid)
"$FLUX" event sub --confirm overlay.state >events 2>&1 &
sub=$!
wait_until 30 grep -q subscribed events
ok "all are up" wait_until 30 in_state up 0-3
kill -STOP "$pid3"
ok "a leaf that stands still is slow" wait_until 30 in_state slow 3
ok "it is up" "$FLUX" up
like "$out" '^4 of 4 up: 0-3; slow: ([0-9],)*3$' "flux up"
like "$("$FLUX" up --json)" '"slow": "([0-9],)*3"' "flux up --json"
like "$("$FLUX" up --long)" $'\n *3 +slow +1 ' "flux up --long"
like "$("$FLUX" topo)" '3 \(slow\)' "flux topo"
kill -CONT "$pid3"
ok "when it goes on it is up" wait_until 30 in_state up 0-3
like "$(verdicts)" 'slow' "the history has it"
unlike "$(verdicts)" 'lost' "... and no loss"
like "$("$FLUX" live history)" ' 3 +slow +1 +nothing is heard from it' "... with the rank that said so, and why"
like "$("$FLUX" live history --json)" '"state": "slow"' "... in JSON"
like "$("$FLUX" live status --json)" '"state": "joining"' "flux live status --json has all states"
ok "an event tells it" wait_until 30 grep -qE '"ranks":"([0-9],)*3","state":"slow","map":[0-9]+' events
kill "$sub"
wait "$sub"

# What waits for it plays no part.
head -c 100000 /dev/zero >payload
(while [ ! -e enough ] && "$FLUX" event pub -r load <payload; do :; done) &
load=$!
kill -STOP "$pid3"
ok "a flood of events does not hide that it is silent" wait_until 30 in_state slow 3
touch enough
wait "$load"
kill -CONT "$pid3"
ok "... and it catches up" wait_until 30 in_state up 0-3

fails "limits in disorder" "$FLUX" start --size=2 --set=live.slow=4s true
like "$err" "live.slow=4s, live.lost=3s" "... are named"
fails "an argument" "$FLUX" live status all
fails "a command that there is not" "$FLUX" live long
release
is "$status" 0 "the session ends well"
finish
