#!/usr/bin/env bash
# Streams between hosts whose links lose packets, are cut, or carry them one way only, while the
# broker between them is killed and started again, and readers are stopped and killed: which fault
# comes when, a seed chooses.  Every reader checks that it sees whole steps, each once, and none
# missing, and that it is told when a writer has died; in every other round the readers stay, and
# read on when writers are killed, or leave, and others take their places.  FAULT_COUNT (16) and
# FAULT_SEED (8) say how many, and choose which; make soak sets them.
# shellcheck disable=SC2034,SC2154 # for or of what is included
NETNS_SECONDS=$((1800 + 10 * ${FAULT_COUNT:-0}))
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
# shellcheck source=t/stream/faults.sh
. "$SRCDIR/t/stream/faults.sh"
need_flux start stream up
need ip unshare nsenter nft
PEER=$BUILDDIR/t/stream/peer
FAULT_COUNT=${FAULT_COUNT:-16}
RANDOM=${FAULT_SEED:=8}
note "FAULT_SEED=$FAULT_SEED FAULT_COUNT=$FAULT_COUNT"

# Rank 1 is between the others, and has no peers.
heal_net 3 3 'hosts = "10.77.0.[1-3]", topology = "chain",' "keyfile = \"$PWD/key.%r\","
switch_drops 2>/dev/null || skip_all "no nft for bridges here"
begin_all --set=modules=log,stream
wait_until 30 up_is 0-2 || bail "the session does not come up"

declare -A pid
peer() { # NAME RANK ARGUMENT...
    local name=$1 rank=$2
    shift 2
    : >"$name.out"
    FLUX_URI=local://$PWD/run/$rank/local nsenter -t "${holders[rank + 1]}" -n "$PEER" "$@" \
        </dev/null >"$name.out" 2>&1 &
    pid[$name]=$!
}
opened() {
    wait_until 30 grep -q open "$1.out" || bail "$1: $(cat "$1.out"); $(tail -n 3 out.*)"
}
writer() { # NAME OPTION...
    local name=$1
    shift
    peer "$name" $((2 * ${name#w})) write "$stream" 1000000 "${name#w}" 2 "$@"
}
reader() { # NAME
    local options=()
    [ "$stay" = 0 ] || options=(stay=1)
    peer "$1" "$((RANDOM % 2 * 2))" read "$stream" "${options[@]}" || return
    opened "$1"
}
# A pause of less than 1 s: since TCP doubles the time until it sends again, nothing comes for up to three times as
# long, which must be shorter than what makes a broker accuse another one.
pause() {
    sleep "0.$((RANDOM % 9 + 1))"
}
# Two pauses, one after the other, would not be.
reached() {
    wait_until 30 "$FLUX" ping -c 1 -t 30 2
}
broker() {
    kill -KILL "$("$FLUX" getattr -r 1 broker.pid)"
    wait "${pids[1]}" 2>/dev/null
    wait_until 30 up_is "0,2; lost: 1" || return
    begin 1
    wait_until 30 up_is 0-2
}
fault() {
    case $((RANDOM % (6 + 2 * stay))) in
    0) broker || return ;;
    1)
        switch_drops "numgen random mod 100 < $((RANDOM % 2 * 4 + 1))" || return
        pause
        switch_drops
        reached
        ;;
    2)
        in_ns 0 ip link set port3 down
        pause
        in_ns 0 ip link set port3 up
        reached
        ;;
    3)
        local ways=(iifname oifname)
        switch_drops "${ways[RANDOM % 2]} \"port3\"" || return
        pause
        switch_drops
        reached
        ;;
    4)
        local name=r$((RANDOM % 3))
        killed $name
        reader $name
        ;;
    5)
        local name=r$((RANDOM % 3))
        kill -STOP "${pid[$name]}"
        "$FLUX" stream ls "$stream" >>ls.out || return
        kill -CONT "${pid[$name]}"
        ;;
    *) replaced w$((RANDOM % 2)) || return ;;
    esac
}

# A broker that has died may have had the notice that a writer has ended.
unsure='\(: the writer of the stream\)\?'
wrong=0
for ((round = 0, faults = 0; faults < FAULT_COUNT; round++)); do
    stream=hosts$round
    stay=$((round % 2))
    # Otherwise one is far ahead before the other one begins.
    for name in w0 w1; do
        writer $name wait=3
    done
    for name in w0 w1; do
        opened $name
    done
    "$FLUX" stream throttle "$stream" 200
    for name in r0 r1 r2; do
        reader $name
    done
    for ((i = 0; i < 7; i++)); do
        fault || wrong=$((wrong + 1))
        faults=$((faults + 1))
    done
    round_over
done
is "$wrong" 0 "$faults faults: readers see whole steps, each once, and learn which writer has died"
ok "the session ends" end_all
netns_end
finish
