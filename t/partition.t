#!/usr/bin/env bash
# Hosts that cannot reach each other any more, and brokers that pause: network namespaces as hosts.
# Those below a broker that dies, or is cut off, go on below another one.
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
need_flux start up wreckrun kvs barrier
need ip unshare nsenter

netns_possible || skip_all "no network namespaces without more privileges"
netns_switch || skip_all "no bridge in a network namespace"
netns_plug 3

"$FLUX" keygen key
cat >conf.lua <<END
session { hosts = "10.77.0.[1-3]", keyfile = "$PWD/key", topology = "flat" }
END
pids=() last=2
start_all() { # SETTING...
    rm -f uri
    pids=()
    for ((rank = last; rank >= 0; rank--)); do
        # Not by a function: the process id is to be the broker's.
        # shellcheck disable=SC2016 # for the inner shell
        nsenter -t "${holders[rank + 1]}" -n "$FLUX" start --config=conf.lua \
            --set=boot.rank="$rank" "$@" sh -c 'echo $FLUX_URI >uri.new && mv uri.new uri &&
                exec sleep 100' >"out.$rank" 2>&1 &
        pids[rank]=$!
    done
    wait_until 20 test -e uri || bail "the session did not come up: $(cat out.*)"
    FLUX_URI=$(cat uri)
    export FLUX_URI
}
up_is() { # RANKS
    [[ "$("$FLUX" up);" == *"up: $1;"* ]]
}
stop_all() {
    kill "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
}

# Long enough that a busy host does not make a pause of its own of it.
timeout=$((5 + TIME_SCALE))
start_all --set=modules=log --set=live.lost=${timeout}s --set=live.patience=${timeout}s --set=orphan.timeout=1s
ok "three hosts" up_is 0-2
# A pause that is two seconds shorter than live.lost, of a leaf and of the root.
for rank in 1 0; do
    kill -STOP "${pids[rank]}"
    sleep $((timeout - 2))
    kill -CONT "${pids[rank]}"
    # Its answer comes after all that was said while it stood still.
    ok "rank $rank answers again" wait_until 20 in_ns $((1 - rank)) "$FLUX" ping -c 1 $rank
    ok "rank $rank: a pause shorter than live.lost is not a loss" up_is 0-2
done

# Events fill all queues towards the host that is cut off: that does not hide that it is gone.
head -c 100000 /dev/zero >payload
(while [ ! -e enough ] && in_ns 1 "$FLUX" event pub -r load <payload; do :; done) &
load=$!
in_ns 0 ip link set port3 down
ok "a host that is cut off is lost, also under a load of events" \
    wait_until $((2 * timeout + 10)) up_is 0-1
touch enough
wait "$load"
ok "for itself it is, too" wait_until 30 sh -c "! kill -0 ${pids[2]}"
in_ns 0 ip link set port3 up
ok "and it does not come back" up_is 0-1
kill -STOP "${pids[1]}"
ok "a longer pause is a loss" wait_until 10 up_is 0
kill -CONT "${pids[1]}"
ok "who wakes up after it, leaves" wait_until 30 sh -c "! kill -0 ${pids[1]}"
ok "the root is still there" wait_until 10 up_is 0
stop_all

# Cut while the brokers look for each other.
in_ns 0 ip link set port2 down
in_ns 2 "$FLUX" start --config=conf.lua --set=modules=log --set=boot.rank=1 \
    --set=join.timeout=2s >out.1 2>&1
isnt $? 0 "a broker that cannot reach its parent gives up"
like "$(cat out.1)" "rank 0" "and says whom it did not reach"

# --- those below

# Four hosts in a chain, each with a key of its own.
in_ns 0 ip link set port2 up
netns_plug 4
for rank in 0 1 2 3; do
    "$FLUX" keygen "key.$rank"
done
cat >conf.lua <<END
session { hosts = "10.77.0.[1-4]", keyfile = "$PWD/key.%r", topology = "chain", bind = "tcp://*:8050" }
END
below() { # RANK PARENT: so the root says.  While ranks are lost, flux up fails.
    "$FLUX" up --long >ranks
    grep -qE "^ *$1 +up +$2 " ranks
}
at3() {
    FLUX_URI=$uri3 run_with_timeout 60 "$FLUX" "$@"
}
last=3
start_all --set=live.lost=${timeout}s --set=live.patience=${timeout}s --set=orphan.timeout=1s
ok "four hosts in a chain" up_is 0-3
uri3=$("$FLUX" getattr -r 3 uri)
killed=$("$FLUX" getattr -r 1 rundir)
at3 kvs put before=1
kill -KILL "${pids[1]}"
ok "a broker inside is killed: the one below it has another parent" wait_until 20 below 2 0
ok "and that one its own" below 3 2
ok "only one is lost" up_is 0,2-3
is "$(at3 kvs get before)" 1 "requests are served"
rm -r "$killed"
in_ns 0 ip link set port3 down
ok "a host inside is cut off: the one below it has another parent" wait_until $((2 * timeout + 10)) below 3 0
ok "and the one that was cut off is lost" wait_until $((2 * timeout + 10)) up_is 0,3
is "$(at3 kvs get before)" 1 "requests are served"
ok "also from there" at3 kvs put after=2
at3 barrier -n 2 -t 60 meeting >barrier.3 2>&1 &
barrier=$!
ok "a barrier" "$FLUX" barrier -n 2 -t 60 meeting
ok "for both" wait "$barrier"
is "$("$FLUX" wreckrun --ranks=3 -n1 echo here)" here "a job on the last host"
stop_all

netns_end
finish
