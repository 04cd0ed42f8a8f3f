#!/usr/bin/env bash
# A gateway: a stream from one cluster to another one, whose hosts cannot reach each other, by a process on a host that
# reaches both.  Hosts are network namespaces.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
if ! netns_possible; then
    skip 3 "no network namespaces without more privileges"
    finish
    exit
fi
# Hosts: 0 is the gateway, 1 and 2 are the clusters, each with a cable to it.
for i in 0 1 2; do
    netns_new
done
for i in 1 2; do
    in_ns 0 ip link add "to$i" type veth peer name eth0 netns "${holders[$i]}" || bail "no pairs of network devices"
    in_ns 0 ip addr add "10.79.$i.1/24" dev "to$i"
    in_ns 0 ip link set "to$i" up
    in_ns "$i" ip addr add "10.79.$i.2/24" dev eth0
    in_ns "$i" ip link set eth0 up
    in_ns "$i" ip link set lo up
done
in_ns 0 ip link set lo up
declare -a starters uris
for i in 1 2; do
    # shellcheck disable=SC2016 # for the inner shell
    in_ns $i "$FLUX" start --size=2 --set=modules=log,barrier,stream --set=tcp.interface=eth0 \
        sh -c 'echo $FLUX_URI >$0.new && mv $0.new $0 && exec sleep 1000' "uri$i" >"out$i" 2>&1 &
    starters[i]=$!
done
for i in 1 2; do
    wait_until 30 test -e "uri$i" || bail "session $i did not come up: $(cat "out$i")"
    uris[i]=$(cat "uri$i")
done
is "$(in_ns 1 ip route get 10.79.2.2 2>/dev/null)" "" "the clusters do not reach each other"
host_peer() { # NAME HOST ARGUMENT...
    local name=$1 host=$2
    shift 2
    mkfifo "$name.in"
    in_ns "$host" env FLUX_URI="${uris[$host]}" "$PEER" "$@" <>"$name.in" >"$name.out" &
    # shellcheck disable=SC2004 # an associative array
    pid[$name]=$!
}
host_peer w0 1 write heat 30 0 2 ready=1
host_peer w1 1 write heat 30 1 2 ready=1
opened w0
opened w1
# The brokers' interface, eth0, is none of the gateway.
in_ns 0 env FLUX_STREAM_ADDRESS=10.79.2.1 "$FLUX" stream export --from="${uris[1]}" --to="${uris[2]}" heat >up.out 2>&1 &
export=$!
host_peer r 2 read heat
opened r
go w0
go w1
ended r
is "$last" "0-29 30 the end " "a reader in one cluster gets all steps of the writers in the other one, by the gateway"
wait $export
is $? 0 "which ends with the stream"
wait "${pid[w0]}" "${pid[w1]}"
for i in 1 2; do
    FLUX_URI=${uris[i]} "$FLUX" getattr broker.pid | xargs -r kill
    wait "${starters[i]}"
done
netns_end
finish
