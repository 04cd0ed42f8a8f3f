#!/usr/bin/env bash
# Streams under faults: readers, in shared memory and by TCP, and writers that are stopped and killed at moments that a
# seed chooses.  Every reader checks that it sees whole steps, each once, and none missing; and that it is told when a
# writer has died.  FAULT_COUNT (50) and FAULT_SEED (8) say how many, and choose which; make soak sets them.
# shellcheck disable=SC2154 # set by run
SESSION_LIMIT=$((60 + ${FAULT_COUNT:-50}))
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/faults.sh
. "$SRCDIR/t/stream/faults.sh"
need_flux start stream
PEER=$BUILDDIR/t/stream/peer
FAULT_COUNT=${FAULT_COUNT:-50}
RANDOM=${FAULT_SEED:=8}
note "FAULT_SEED=$FAULT_SEED FAULT_COUNT=$FAULT_COUNT"

hold 2 --set=modules=log,barrier,stream
uris=("$FLUX_URI" "$("$FLUX" getattr --rank=1 uri)")

declare -A pid
peer() { # NAME ARGUMENT...
    local name=$1
    shift
    : >"$name.out"
    FLUX_URI=${uris[RANDOM % 2]} "$PEER" "$@" </dev/null >"$name.out" 2>&1 &
    pid[$name]=$!
}
opened() {
    wait_until 20 grep -q open "$1.out"
}
reader() { # NAME ROUND
    export FLUX_STREAM_TRANSPORT=auto
    if [ $((RANDOM % 2)) = 0 ]; then
        FLUX_STREAM_TRANSPORT=tcp
    fi
    if [ $((RANDOM % 3)) = 0 ]; then
        peer "$1" read "fault$2" policy=latest
    else
        peer "$1" read "fault$2"
    fi
}

faults=0
wrong=0
for ((round = 0; faults < FAULT_COUNT; round++)); do
    for name in w0 w1; do
        peer $name write "fault$round" 1000000 "${name#w}" 2
    done
    for name in r0 r1 r2; do
        reader $name $round
    done
    for name in w0 w1 r0 r1 r2; do
        opened $name
    done
    for ((i = 0; i < 6; i++)); do
        name=r$((RANDOM % 3))
        case $((RANDOM % 4)) in
        0)
            killed $name
            reader $name $round
            opened $name
            ;;
        1) name=w$((RANDOM % 2)) ;&
        *)
            kill -STOP "${pid[$name]}"
            "$FLUX" stream ls "fault$round" >>ls.out || wrong=$((wrong + 1))
            kill -CONT "${pid[$name]}"
            ;;
        esac
        faults=$((faults + 1))
    done
    round_over
done
is "$wrong" 0 "$faults faults: readers see whole steps, each once, and learn which writer has died"
release
is "$status" 0 "the session ends well"
finish
