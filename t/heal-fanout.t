#!/usr/bin/env bash
# overlay.fanout-max: a broker that takes over too many ranks gives some of them to its children.
# shellcheck disable=SC2016,SC2034,SC2154 # eval expands, and uses; set by hold and release
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun kvs exec ping overlay barrier topo event

pid_of() {
    "$FLUX" getattr -r "$1" broker.pid
}
# parents RANK...: their parents.
parents() {
    local rank
    for rank; do
        "$FLUX" up --long | awk -v rank="$rank" '$1 == rank { print $3 }'
    done | xargs
}
# again RANK N: its N-th broker is up.
again() {
    "$FLUX" up --long | finds -E "^ *$1 +up +[0-9]+ +[0-9]+ +$2\$"
}
# serve: each rank reaches each, and a barrier, events, and jobs include all.
serve() {
    ok "a barrier of all" run_with_timeout 60 "$FLUX" exec -r all "$FLUX" barrier -n 12 -t 50 "meeting-$1"
    ok "each reaches the last" run_with_timeout 60 "$FLUX" exec -r all "$FLUX" ping -c 1 11
    ok "a job on all" wait_until 30 "$FLUX" wreckrun -N12 -n12 true
    "$FLUX" kvs put "round=$1"
    is "$("$FLUX" exec -r 4 "$FLUX" kvs get round)" "$1" "the store is known below"
}

for max in -1 some; do
    fails "it is a number: not $max" "$FLUX" start --size=1 --set=overlay.fanout-max=$max true
done

# Ranks 2 and 3 have 3 and 2 children.
hold 12 --topology=kary:3 --restart --set=overlay.settle=0 --set=overlay.fanout-max=3
ok "the session is up" wait_until 60 up_is "12 of 12 up: 0-11"
is "$(parents 4 5 6)" "1 1 1" "all are in their places"

mapfile -t below < <(for rank in 4 5 6; do pid_of $rank; done)
kill -KILL "$(pid_of 1)"
ok "a broker with three children dies, and is started again" wait_until 60 again 1 2
ok "the session is whole" wait_until 60 up_is "12 of 12 up: 0-11"
# given: one of the three is below rank 3.
given() {
    parents 4 5 6 | finds -E "^(3 0 0|0 3 0|0 0 3)\$"
}
ok "rank 0 has given one rank to the one that has room" wait_until 30 given
"$FLUX" topo >topo.out
ok "flux topo shows it" test -s topo.out
is "$(for rank in 4 5 6; do pid_of $rank; done | xargs)" "${below[*]}" "all three live"
serve 1

"$FLUX" exec -r 4-6 "$FLUX" ping -c 400 -i 0.005 0 >ping.out 2>ping.err &
ping=$!
ok "requests from below the one that was given away" wait_until 30 test -s ping.out
run "$FLUX" overlay restore
is "$status $out" "0 moved: 4-6" "all return on request, the one below rank 3 by way of rank 0"
is "$(parents 4 5 6)" "1 1 1" "they are in their places"
ok "requests have gone on meanwhile" wait "$ping"
is "$(parents 7 8 9 10 11)" "2 2 2 3 3" "and so are the others"
serve 2
ok "nothing is left to be moved" test -z "$("$FLUX" overlay restore)"

kill -KILL "$(pid_of 1)"
ok "it dies again" wait_until 60 again 1 3
ok "the session is whole" wait_until 60 up_is "12 of 12 up: 0-11"
ok "one is given away again" wait_until 30 given
kill -KILL "$(pid_of 3)"
ok "so does the one that has taken it" wait_until 60 again 3 2
ok "the session is whole" wait_until 60 up_is "12 of 12 up: 0-11"
is "$(for rank in 4 5 6; do pid_of $rank; done | xargs)" "${below[*]}" "all three live"
serve 3
run "$FLUX" overlay restore
is "$status" 0 "all return"
is "$(parents 4 5 6 10 11)" "1 1 1 3 3" "to their places"
serve 4
release
is "$status" 0 "the session ends well"

# A rank that cannot move: what others answer is not printed as an error.
hold 7 --topology=kary:2 --restart --set=overlay.settle=0 --set=live.lost=600s
ok "the session is up" wait_until 60 up_is "7 of 7 up: 0-6"
kill -KILL "$(pid_of 1)"
ok "a broker with two children is started again" wait_until 60 again 1 2
ok "the session is whole" wait_until 60 up_is "7 of 7 up: 0-6"
stopped=$(pid_of 3)
kill -STOP "$stopped"
run run_with_timeout 60 "$FLUX" overlay restore 1
kill -CONT "$stopped"
is "$status $err" "1 flux overlay restore: rank 3 stays below rank 0: the change of its parent has taken too long" \
    "one of them stands still: that it stays is told, and nothing else"
release
is "$status" 0 "the session ends well"
finish
