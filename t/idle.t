#!/usr/bin/env bash
# A session in which nothing happens sends nothing between its brokers but signs of life, with all
# modules and whatever number of heartbeats passes; heartbeats are sent while somebody subscribes.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up module event getattr
plan 9

beat() { # the number of the next heartbeat
    at 0 module stats hb | awk '$2 == "epoch" { print $3 }'
}
beaten() {
    [ "$(beat)" -ge "$1" ]
}
beats_pass() { # COUNT
    wait_until 30 beaten $(($(beat) + $1))
}
# What each broker has sent to others.  It is asked by a client of its own, for which nothing travels.
sent() {
    local rank
    for rank in "$@"; do
        at "$rank" module stats broker |
            awk -v r="$rank" '$2 ~ /^(tree_up|tree_down|ring|event_down)$/ { print r, $2, $3 }'
    done
}
# still RANK...: while 20 heartbeats pass, none of these ranks sends anything.
still() {
    sent "$@" >before
    beats_pass 20
    sent "$@" >after
    [ "$(wc -l <before)" -eq $((4 * $#)) ] && cmp -s before after
}
still_at_last() { # WHAT RANK...
    ok "$1" wait_until 60 still "${@:2}"
    diff before after | sed 's/^/# /'
}

hold 7 --topology=kary:2 --set=hb.period=50ms --set=module.turn-max=0
of_all 7
still_at_last "with all modules, no broker sends anything" 0 1 2 3 4 5 6

FLUX_URI=${uris[3]} "$FLUX" event sub --confirm hb >beats.out 2>beats.err &
sub=$!
wait_until 30 grep -q subscribed beats.err || bail "no subscription"
heard() { # COUNT
    [ "$(wc -l <beats.out)" -ge "$1" ]
}
ok "a subscriber at rank 3 gets heartbeats" wait_until 30 heard 5
kill -KILL "${pids[1]}"
ok "the broker above it dies: it is below rank 0" wait_until 30 below 3 0
ok "... and goes on to get them" wait_until 30 heard $(($(wc -l <beats.out) + 5))
sed -nE 's/.*"epoch": ?([0-9]+).*/\1/p' beats.out >numbers
is "$(tr '\n' ' ' <numbers)" "$(seq -s ' ' "$(head -n 1 numbers)" "$(tail -n 1 numbers)") " \
    "... all of them, in order"
kill "$sub"
wait "$sub" 2>/dev/null
still_at_last "it has ended: no broker sends anything" 0 2 3 4 5 6
run at 6 event sub --count=2 h
is "$status" 0 "a subscriber to a prefix of the topic gets heartbeats, too"
kill -KILL "${pids[6]}"
ok "... its broker dies" wait_until 30 up_is "5 of 7 up: 0,2-5; lost: 1,6"
still_at_last "... and no broker sends anything" 0 2 3 4 5
release
