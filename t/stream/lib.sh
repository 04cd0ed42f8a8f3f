# shellcheck shell=bash disable=SC2034,SC2154 # variables are for the tests, holders comes from t/netns.sh
# What tests of streams begin with, after lib.sh:   . "$SRCDIR/t/stream/lib.sh"
#
#     peer NAME RANK ARGUMENT...   start t/stream/peer in the background, at the broker of a rank, with a FIFO as
#                                  its input; ${pid[NAME]} is its process. The session is there (hold).
#     opened NAME                  wait until it has opened its stream
#     go NAME                      let one go on that waits for a line
#     writers STREAM STEPS SIZE ARGUMENT...
#                                  start SIZE writers w0, w1... of a stream, by turns at ranks 0 and 1
#     all_open NAME...             wait until each of them has opened its stream
#     wait_all NAME...             wait until each of them has ended
#     ended NAME [N]               wait until it ends; $last is what it printed last, N (2) lines in one
#     field STREAM KEY             a value of a stream, as flux stream ls --json has it
#     has STREAM KEY VALUE         is it this one?
#     above STREAM KEY NUMBER      is it above this one?
#     blocked STREAM               has its writer waited for a reader?
#     hosts NET [OPTION...]        start a session with a broker on each of two hosts, which are network namespaces (t/netns.sh)
#                                  with addresses 10.NET.1 and 10.NET.2; with options of flux start. hosts_end ends it
#     host_peer NAME HOST ARG...   peer, at host 0 or 1 of these
need_flux start stream
PEER=$BUILDDIR/t/stream/peer

declare -A pid
declare -A uri_of
peer() {
    local name=$1 uri=$FLUX_URI
    if [ "$2" != 0 ]; then
        uri=${uri_of[$2]:=$("$FLUX" getattr --rank="$2" uri)}
    fi
    shift 2
    rm -f "$name.in" "$name.out"
    mkfifo "$name.in"
    FLUX_URI=$uri "$PEER" "$@" <>"$name.in" >"$name.out" &
    pid[$name]=$!
}
opened() {
    wait_until 20 grep -q open "$1.out"
}
go() {
    echo go >"$1.in"
}
writers() {
    local k name=$1 steps=$2 size=$3
    shift 3
    for ((k = 0; k < size; k++)); do
        peer w$k $((k % 2)) write "$name" "$steps" $k "$size" "$@"
    done
}
all_open() {
    local name
    for name in "$@"; do
        opened "$name"
    done
}
wait_all() {
    local name
    for name in "$@"; do
        wait "${pid[$name]}" 2>/dev/null
    done
}
ended() {
    wait "${pid[$1]}"
    last=$(tail -n "${2-2}" "$1.out" | tr '\n' ' ')
}
field() {
    "$FLUX" stream ls --json "$1" 2>/dev/null | sed -n "s/.*\"$2\": \([0-9.a-z]*\).*/\1/p"
}
has() {
    [ "$(field "$1" "$2")" = "$3" ]
}
blocked() {
    "$FLUX" stream ls --json "$1" | grep -q '"blocked": [0.]*[1-9]'
}
above() {
    awk -v a="$(field "$1" "$2")" -v b="$3" 'BEGIN {exit !(a + 0 > b + 0)}'
}

hosts() {
    local net=$1 i
    shift
    netns_pair || bail "no pairs of network devices in a network namespace"
    for i in 0 1; do
        in_ns $i ip addr add "10.$net.$((i + 1))/24" dev eth0
    done
    # shellcheck disable=SC2016 # for the inner shell
    in_ns 0 "$FLUX" start --size=2 --set=modules=log,barrier,stream --set=tcp.interface=eth0 --set=live.lost=60s \
        "--wrap=1:nsenter -t ${holders[1]} -n" "$@" \
        sh -c 'echo $FLUX_URI >uri.new && mv uri.new uri && exec sleep 1000' >hosts.out 2>&1 &
    hosts_starter=$!
    wait_until 30 test -e uri || bail "the session did not come up: $(cat hosts.out)"
    FLUX_URI=$(cat uri)
    export FLUX_URI
    uri_of[1]="local://$("$FLUX" getattr rundir)/1/local"
}
hosts_end() {
    "$FLUX" getattr broker.pid | xargs -r kill
    wait "$hosts_starter"
    netns_end
}
host_peer() {
    local name=$1 host=$2 uri=$FLUX_URI
    [ "$host" = 0 ] || uri=${uri_of[$host]}
    shift 2
    rm -f "$name.in" "$name.out"
    mkfifo "$name.in"
    in_ns "$host" env FLUX_URI="$uri" "$PEER" "$@" <>"$name.in" >"$name.out" &
    pid[$name]=$!
}
