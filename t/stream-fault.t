#!/usr/bin/env bash
# Streams under faults: readers, in shared memory and by TCP, and writers that are stopped, killed and replaced at moments
# that a seed chooses.  Every reader checks that it sees whole steps, each once, and none missing; that it is told when a
# writer has died; and, if it stays, that it reads on when writers are killed, or leave, and others take their place.
# FAULT_COUNT (50) and FAULT_SEED (8) say how many faults there are, and choose which; make soak sets them.
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
writer() { # NAME OPTION...
    local name=$1
    shift
    started=$((started + 1))
    peer "$name" write "$stream" 1000000 "${name#w}" 2 note="$stream.$name.$started" "$@"
}
reader() { # NAME
    local options=()
    near[$1]=1
    export FLUX_STREAM_TRANSPORT=auto
    if [ "$stay" = 1 ]; then
        options=(stay=1)
    fi
    if [ $((RANDOM % 2)) = 0 ]; then
        FLUX_STREAM_TRANSPORT=tcp
        near[$1]=0
    else
        options+=(near=1)
    fi
    if [ $((RANDOM % 3)) = 0 ]; then
        options+=(policy=latest)
        near[$1]=0
    fi
    peer "$1" read "$stream" "${options[@]}"
    unset FLUX_STREAM_TRANSPORT
}

faults=0
started=0
wrong=0
for ((round = 0; faults < FAULT_COUNT; round++)); do
    stream=fault$round
    stay=$((RANDOM % 2))
    for name in w0 w1; do
        writer $name
    done
    for name in r0 r1 r2; do
        reader $name
    done
    for name in w0 w1 r0 r1 r2; do
        opened $name
    done
    for ((i = 0; i < 6; i++)); do
        name=r$((RANDOM % 3))
        case $((RANDOM % (4 + 2 * stay))) in
        0)
            killed $name
            reader $name
            opened $name
            ;;
        1) name=w$((RANDOM % 2)) ;&
        2 | 3)
            kill -STOP "${pid[$name]}"
            "$FLUX" stream ls "$stream" >>ls.out || wrong=$((wrong + 1))
            kill -CONT "${pid[$name]}"
            ;;
        *) replaced w$((RANDOM % 2)) || wrong=$((wrong + 1)) ;;
        esac
        faults=$((faults + 1))
    done
    round_over
done
is "$wrong" 0 "$faults faults: readers see whole steps, each once, and learn which writer has died"
release
is "$status" 0 "the session ends well"
finish
