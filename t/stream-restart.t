#!/usr/bin/env bash
# Writers that are killed and come again while a group of readers that stay reads: each step is at one member, none is
# lost, and what is published before the members are back is not either.
# FAULT_COUNT (24) and FAULT_SEED (5) say how many faults there are, and choose which; make soak sets them.
# shellcheck disable=SC2154 # set by run
SESSION_LIMIT=$((120 + 2 * ${FAULT_COUNT:-24}))
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
# shellcheck source=t/stream/faults.sh
. "$SRCDIR/t/stream/faults.sh"
FAULT_COUNT=${FAULT_COUNT:-24}
RANDOM=${FAULT_SEED:=5}
note "FAULT_SEED=$FAULT_SEED FAULT_COUNT=$FAULT_COUNT"

hold 2 --set=modules=log,barrier,stream

steps=400
writer() { # RANK ARGUMENT...: start it, or start it again
    local k=$1
    shift
    peer "w$k" $((k % 2)) write "$stream" $steps "$k" $size until=1 drain=1 hold=1 "$@"
}
did() { # COUNT: have the members done that many steps?
    [ "$(cat r[0-9].out | grep -c ^step)" -ge "$1" ]
}
# End the stream, and say what is wrong with it, of which READER... are the members that live.
over() {
    local k name
    for ((k = 0; k < size; k++)); do
        wait_until 60 grep -q "written\|error" w$k.out
    done
    for ((k = 0; k < size; k++)); do
        go w$k
        wait "${pid[w$k]}"
        grep error w$k.out
    done
    "$FLUX" stream rm "$stream"
    for name in "$@"; do
        wait "${pid[$name]}"
        tail -n 1 "$name.out" | grep -v "the end"
    done
    wrong_steps $steps r[0-9].out
}
# One of the writers ends while a member has a step; the others wait for what the next writer of this rank writes. Then
# the member dies, and its step is done by another one, which still has what the former writer had.
stream=ends
size=2
steps=20
ways=(auto)
rm -f r2.out
peer w0 0 write $stream $steps 0 2 until=1 drain=1 hold=1 ready=1
peer w1 1 write $stream 6 1 2 ready=1
opened w0
opened w1
members 0 0 $stream stay=1 stop=0
members 1 1 $stream stay=1
opened r0
opened r1
go w1
go w0
wait "${pid[w1]}"
wait_until 20 grep -q stops r0.out
wait_until 20 did 5
writer 1
wait_until 20 did 19
killed r0
over r1 >over.out
is "$(cat over.out)" "" "a writer that ends while a member has a step leaves no step undone"
steps=400

faults=0
wrong=0
for ((round = 0; faults < FAULT_COUNT; round++)); do
    stream=restart$round
    size=$((1 + round % 3))
    for ((k = 0; k < size; k++)); do
        writer $k ready=1
        opened w$k
    done
    ways=(auto auto)
    if [ $((round % 4)) = 3 ]; then
        ways=(tcp auto)
    fi
    members 0 2 $stream stay=1
    for k in 0 1 2; do
        opened r$k
    done
    for ((k = 0; k < size; k++)); do
        go w$k
    done
    for ((i = 1; i <= 4; i++)); do
        wait_until 60 did $((i * 80 + RANDOM % 40))
        victims=($((RANDOM % size)))
        if [ $((RANDOM % 3)) = 0 ]; then
            mapfile -t victims < <(seq 0 $((size - 1))) # all of them
        fi
        stopped=r$((RANDOM % 3)) # which computes all the while
        kill -STOP "${pid[$stopped]}"
        for k in "${victims[@]}"; do
            killed "w$k"
        done
        for k in "${victims[@]}"; do
            writer "$k"
        done
        if [ $((RANDOM % 2)) = 0 ]; then
            for k in "${victims[@]}"; do
                opened "w$k"
            done
        fi
        kill -CONT "${pid[$stopped]}"
        faults=$((faults + ${#victims[@]}))
    done
    over r0 r1 r2 >over.out
    why=$(tr '\n' ' ' <over.out)
    if [ "${ways[0]}" = tcp ]; then
        why=${why//step * is missing. /}
    fi
    if [ -n "$why" ]; then
        wrong=$((wrong + 1))
        note "round $round, $size writers: $why"
    fi
done
is "$wrong" 0 "$faults faults: each step is done by one member, although writers are killed and come again"
release
is "$status" 0 "the session ends well"
finish
