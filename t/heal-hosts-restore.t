#!/usr/bin/env bash
# A broker inside the tree dies, is started again on its host, and gets its subtree back from other
# hosts, three times: no event is lost or repeated, and no request fails while its subtree returns.
# First each broker has a host and a key of its own (ZeroMQ); then some share a host, and all share a
# key (UNIX sockets within a host).
# shellcheck source=t/lib.sh disable=SC2154 # set by ok
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
need_flux start up ping kvs event overlay
need ip unshare nsenter

shape='topology = "kary:2",'

# --- the load ---

# Events with numbers, one after the other.
publish() {
    local n=0
    while [ ! -e stop ]; do
        at 0 event pub heal.n "{\"n\":$((++n))}" || return
        echo "$n" >published
    done
}
# Requests from a rank to another one, as long as there is the file `calm`; `troubled` if one fails.
ask() { # FROM TO
    while [ -e calm ]; do
        at "$1" ping -c 10 -i 0 "$2" >"ping.$1.$2" 2>&1 || { cat "ping.$1.$2" >>troubled; }
    done
}
load_begin() {
    local rank
    rm -f stop published
    for rank in 3 4 7; do
        FLUX_URI=local://$PWD/run/$rank/local "$FLUX" event sub --confirm heal. >"sub.$rank" 2>"sub.$rank.err" &
        subs[rank]=$!
        wait_until 30 grep -q . "sub.$rank.err"
    done
    publish &
    publisher=$!
    wait_until 30 test -s published
}
load_end() {
    local rank last
    : >stop
    wait "$publisher"
    last=$(cat published)
    for rank in 3 4 7; do
        ok "rank $rank has got the last event" wait_until 30 grep -q "\"n\": *$last}" "sub.$rank"
        grep -o '"n": *[0-9]*' "sub.$rank" | grep -o '[0-9]*$' >numbers
        is "$(awk 'NR > 1 && $1 != last + 1 { print last " then " $1 } { last = $1 }' numbers)" "" \
            "... and all before it in order, each once"
        kill "${subs[rank]}"
        wait "${subs[rank]}" 2>/dev/null
    done
}

# --- what happens ---

cycle() { # NUMBER
    local askers=()
    kill_broker 1
    ok "$1: the orphans connect to rank 0" wait_until 30 tree_is 3:0 4:0 7:3
    begin 1
    ok "rank 1 joins, as a leaf" wait_until 30 up_is 0-7
    : >calm
    ask 0 7 &
    askers+=($!)
    ask 7 1 &
    askers+=($!)
    ask 4 0 &
    askers+=($!)
    ok "flux overlay restore" "$FLUX" overlay restore
    is "$out" "moved: 3-4" "... says what has moved"
    ok "they are at their places" tree_is 1:0 2:0 3:1 4:1 5:2 6:2 7:3
    is "$(at 7 kvs get before)" 1 "rank 7 is served"
    rm calm
    wait "${askers[@]}"
    is "$(cat troubled 2>/dev/null)" "" "no request has failed meanwhile"
    is "$("$FLUX" up)" "8 of 8 up: 0-7" "nobody was lost"
}
whole() { # DESCRIPTION
    begin_all
    wait_until 30 up_is 0-7 || bail "the session did not come up: $(cat out.*)"
    pass "$1"
    at 7 kvs put before=1
    load_begin
    for n in 1 2 3; do
        cycle $n
    done
    load_end
    ok "the session ends" end_all
    netns_end
    rm -rf run fifo out.* sub.* conf.lua key.*
}

heal_net 8 8 'hosts = "10.77.0.[1-8]",' "keyfile = \"$PWD/key.%r\"," "$shape"
whole "eight hosts"

# The orphans 3 and 4 share a host with rank 0 and rank 1.
host_of=(1 2 3 1 2 3 4 1)
heal_net 4 8 'hosts = "10.77.0.1,10.77.0.2,10.77.0.3,10.77.0.1,10.77.0.2,10.77.0.3,10.77.0.4,10.77.0.1",' \
    'address = function (rank, host) return "tcp://" .. host .. ":" .. 8050 + 2 * rank end,' \
    "keyfile = \"$PWD/key.0\"," "$shape"
whole "eight brokers on four hosts"
finish
