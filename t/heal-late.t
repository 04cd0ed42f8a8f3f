#!/usr/bin/env bash
# A broker that is started while the broker above it is dead joins at the next ancestor that lives,
# and returns to its place when that broker is back: at the start of a session, by configuration
# file, and with flux start --restart.
# shellcheck disable=SC2016,SC2154 # for another shell to expand; set by hold
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up topo wreckrun kvs exec ping overlay event keygen
need ss flock

mkdir -m 700 run
port=$(free_ports 2)

# configure KEYFILE SETTING...
configure() {
    local key=$1
    shift
    cat >conf.lua <<END
session {
    hosts = "$NET.[2-9]",
    address = "tcp://%h:$port",
    keyfile = "$key",
    topology = "kary:2",
    attrs = { ["orphan.timeout"] = "0.1s", ["overlay.settle"] = "0", $* },
}
END
}
# incarnation RANK PARENT NUMBER: so the root says
incarnation() {
    "$FLUX" up --long >ranks
    grep -qE "^ *$1 +up +$2 +[0-9]+ +$3\$" ranks
}
# begin_all RANK...: the session, with these ranks besides rank 0
begin_all() {
    local rank
    export FLUX_URI="local://$PWD/run/0/local"
    for rank in "$@"; do
        begin "$rank"
    done
    begin_root
}
end_all() {
    ok "the session ends well" end_session
    unset FLUX_URI
}
murder() {
    local rank
    for rank in "$@"; do
        kill -KILL "${pids[rank]}"
    done
    for rank in "$@"; do
        wait "${pids[rank]}" 2>/dev/null
    done
}

# --- by configuration file, the same key for all ---

"$FLUX" keygen shared.key
configure "$PWD/shared.key"
begin_all 7 6 5 4 3 2 1
ok "the session is up" wait_until 30 up_is "8 of 8 up: 0-7"
"$FLUX" kvs put before=1
murder 1 3
begin 3
ok "rank 3 joins below rank 0, since rank 1 is dead" wait_until 30 incarnation 3 0 2
ok "all others are up" wait_until 30 up_is "7 of 8 up: 0,2-7; lost: 1"
ok "where rank 7 is, too" below 7 0
ok "the log says so" logged "rank 3 joins below rank 0, since the brokers between are not up"
is "$(FLUX_URI=local://$PWD/run/3/local run_with_timeout 60 "$FLUX" kvs get before)" 1 "it serves"
ok "it takes jobs" wait_until 30 "$FLUX" wreckrun -N7 -n7 true
ok "it is reached from everywhere" "$FLUX" exec -r 0,2-7 "$FLUX" ping -c 1 3
ok "and reaches all" "$FLUX" exec -r 3 sh -c 'for rank in 0 2 4 5 6 7; do "$0" ping -c 1 "$rank" || exit 1; done' "$FLUX"
ok "a barrier with it" "$FLUX" exec -r 0,2-7 "$FLUX" barrier -n 7 -t 60 some
murder 3
ok "it is lost again" wait_until 30 up_is "6 of 8 up: 0,2,4-7; lost: 1,3"
begin 3
ok "and joins again" wait_until 30 up_is "7 of 8 up: 0,2-7; lost: 1"
kill -TERM "${pids[3]}"
wait "${pids[3]}"
is $? 0 "it leaves in order"
ok "the session goes on" wait_until 30 up_is "6 of 8 up: 0,2,4-7; lost: 1; left: 3"
murder 7
begin 7
ok "two dead brokers above are passed over" wait_until 30 incarnation 7 0 2
begin 1
ok "rank 1 is back" wait_until 30 up_is "7 of 8 up: 0-2,4-7; left: 3"
begin 3
ok "rank 3 joins at its place, as its parent is there" wait_until 30 up_is "8 of 8 up: 0-7"
ok "below rank 1" below 3 1
ok "all take jobs" wait_until 30 "$FLUX" wreckrun -N8 -n8 true
end_all

# --- absent from the start, with a key for each rank ---

for rank in 0 1 2 3 4 5 6 7; do
    "$FLUX" keygen "key.$rank"
done
configure "$PWD/key.%r" '["boot.timeout"] = "1s"'
begin_all 2
ok "without a quorum, the session begins with whoever is there at boot.timeout" \
    wait_until 60 up_is "2 of 8 up: 0,2; absent: 1,3-7"
end_all

configure "$PWD/key.%r" '["boot.timeout"] = "1s", quorum = 5'
begin_all 7 6 5 2
wait_until 60 up_is "5 of 8 up: 0,2,5-7; absent: 1,3-4" || bail "the session did not come up: $(cat out.*)"
pass "ranks 1 and 3 are absent: rank 7, below them, joins at rank 0"
ok "it is below rank 0" below 7 0
# As if rank 1 had been the first to look for resources, and had died at once.
ln -sfn 1 run/0/inventory-*
begin 3
ok "rank 3, which was never up, joins there, too" wait_until 60 up_is "6 of 8 up: 0,2-3,5-7; absent: 1,4"
ok "below rank 0, as its first incarnation" incarnation 3 0 1
ok "they take jobs" wait_until 30 "$FLUX" wreckrun -N6 -n6 true
begin 1
begin 4
ok "the others come" wait_until 60 up_is "8 of 8 up: 0-7"
ok "those that were early stay where they are" below 3 0
run "$FLUX" overlay restore 1
is "$status $out" "0 moved: 3,7" "until they are to return to their places"
ok "rank 3 has returned" below 3 1
run "$FLUX" overlay restore 3
is "$status $out$err" "0 moved: 7" "and those whose place is below it"
ok "rank 7 has returned" below 7 3
ok "all take jobs" wait_until 30 "$FLUX" wreckrun -N8 -n8 true
end_all

# --- hosts for later ---

configure "$PWD/key.%r" '["boot.hosts"] = 3'
begin_all 2 1
ok "the session does not wait for ranks that are to come later" \
    wait_until 30 up_is "3 of 8 up: 0-2; absent: 3-7"
begin 7
begin 5
ok "they join when their brokers are started" wait_until 60 up_is "5 of 8 up: 0-2,5,7; absent: 3-4,6"
ok "below the brokers that are there" below 7 1
begin 3
begin 4
begin 6
ok "in any order" wait_until 60 up_is "8 of 8 up: 0-7"
ok "all take jobs" wait_until 30 "$FLUX" wreckrun -N8 -n8 true
end_all

# --- flux start --restart ---

hold 8 --topology=kary:2 --restart --set=orphan.timeout=0.1s --set=overlay.settle=0
ok "the session is up" wait_until 30 up_is "8 of 8 up: 0-7"
of_all 8
dir=$("$FLUX" getattr rundir)
# It gets the lock of the dead broker.
(exec 9<"$dir/1" && flock -x 9 && echo >taken && exec sleep 1000) &
holder=$!
kill -KILL "${pids[1]}"
ok "rank 1 cannot be started again" wait_until 30 test -e taken
ok "as its directory is in use" wait_until 30 grep -q "broker 1 is started again in 0.2 s" "$_held/err"
kill -KILL "${pids[3]}"
ok "rank 3 can, and joins below rank 0" wait_until 60 incarnation 3 0 2
ok "it takes jobs" wait_until 30 "$FLUX" wreckrun -N7 -n7 true
"$FLUX" exec -r 3 "$FLUX" ping -c 300 -i 0.005 0 >ping.out 2>ping.err &
ping=$!
kill "$holder"
wait "$holder" 2>/dev/null
ok "rank 1 is back" wait_until 60 incarnation 1 0 2
run "$FLUX" overlay restore 1
is "$status" 0 "its subtree returns to it"
ok "with rank 3" below 3 1
ok "requests go on meanwhile" wait "$ping"
ok "all take jobs" wait_until 30 "$FLUX" wreckrun -N8 -n8 true
ok "and meet" "$FLUX" exec -r all "$FLUX" barrier -n 8 -t 60 all
release
is "$status" 0 "the session ends well"
finish
