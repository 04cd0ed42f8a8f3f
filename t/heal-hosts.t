#!/usr/bin/env bash
# Eight hosts, one of which vanishes without a word, and returns: network namespaces as hosts.
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
need_flux start up ping kvs
need ip unshare nsenter

netns_possible || skip_all "no network namespaces without more privileges"
netns_switch || skip_all "no bridge in a network namespace"
netns_plug 8

for rank in 0 1 2 3 4 5 6 7; do
    "$FLUX" keygen "key.$rank"
done
# Longer than a pause on a busy host.
silence=$((3 + TIME_SCALE))
cat >conf.lua <<END
session {
    hosts = "10.77.0.[1-8]",
    keyfile = "$PWD/key.%r",
    topology = "kary:2",
    bind = "tcp://*:8050",
    attrs = {
        ["live.lost"] = "${silence}s", ["live.patience"] = "${silence}s", ["orphan.timeout"] = "0.1s",
        modules = "log,kvs",
    },
}
END
pids=()
begin() { # RANK COMMAND...
    local rank=$1
    shift
    nsenter -t "${holders[rank + 1]}" -n "$FLUX" start --config=conf.lua --rundir="$PWD/run" \
        --set=boot.rank="$rank" "$@" >"out.$rank" 2>&1 </dev/null &
    pids[rank]=$!
}
up_is() { # TEXT: so "flux up" ends, and no rank is between its states
    [[ "$("$FLUX" up)" == *" of 8 up: $1" ]]
}
below() { # RANK PARENT: so the root says.  While ranks are lost, flux up fails.
    "$FLUX" up --long >ranks
    grep -qE "^ *$1 +up +$2 " ranks
}
tree_is() { # RANK:PARENT...
    local pair
    for pair in "$@"; do
        below "${pair%:*}" "${pair#*:}" || return 1
    done
}
at() { # RANK COMMAND...
    local uri=local://$PWD/run/$1/local
    shift
    FLUX_URI=$uri run_with_timeout 60 "$FLUX" "$@"
}

mkdir -m 700 run
export FLUX_URI="local://$PWD/run/0/local"
mkfifo fifo
for rank in 7 6 5 4 3 2 1; do
    begin $rank
done
begin 0 sh -c 'exec cat fifo'
ok "eight hosts" wait_until 30 up_is 0-7
at 7 kvs put before=1

in_ns 0 ip link set port2 down
ok "a host vanishes: those below it have another parent" wait_until 30 tree_is 3:0 4:0 7:3
ok "only this one is lost" wait_until 30 up_is "0,2-7; lost: 1"
is "$(at 7 kvs get before)" 1 "requests are served at the end of the subtree"
ok "it is reached" "$FLUX" ping -c 2 -i 0 7
wait "${pids[1]}"
is $? 1 "the one that is cut off ends, as one that is to be started again"

in_ns 0 ip link set port2 up
begin 1
ok "the host returns: its broker joins" wait_until 30 up_is 0-7
ok "the others stay where they are" tree_is 1:0 2:0 3:0 4:0 5:2 6:2 7:3
is "$(at 1 kvs get before)" 1 "it serves"

: >fifo
ok "the session ends" wait "${pids[0]}"
wait "${pids[@]}" 2>/dev/null
netns_end
finish
