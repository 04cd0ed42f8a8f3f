#!/usr/bin/env bash
# A reader that is started again goes on after the last step that it has ended: the only member of a group that is held.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"

hold 2 --set=modules=log,barrier,stream

reader() { # NAME TRANSPORT ARGUMENT...
    local name=$1
    export FLUX_STREAM_TRANSPORT=$2
    shift 2
    peer "$name" 1 read run group=me resume=600 "$@"
    opened "$name"
    unset FLUX_STREAM_TRANSPORT
}
for way in auto tcp; do
    for k in 0 1; do
        peer w$k $k write run 60 $k 2 ready=1 drain=1
        opened w$k
    done
    # It is killed before the first step, while it waits; all steps are written before it comes again.
    reader r0 $way ready=1
    kill -9 "${pid[r0]}"
    ended r0
    wait_until 20 has run readers 0
    go w0
    go w1
    wait_until 20 has run step 60
    # It is killed in a step; and once it ends by itself.
    reader r1 $way crash=20
    ended r1
    reader r2 $way count=15
    ended r2
    reader r3 $way
    ended r3
    is "$(cat r[0-3].out | grep ^step)" "$(seq -f 'step %g' 0 59)" "$way: each step once, whenever the reader was started"
    like "$last" "the end" "and the last one sees the end"
    wait "${pid[w0]}" "${pid[w1]}"
    is "$(cat w[01].out | sort -u)" open "the writers know that all is done"
done

run "$PEER" read run resume=5
like "$out" "of a member of a group" "a reader that resumes is a member of a group"
run "$PEER" read run group=g resume=65536
like "$out" "a time of at most 65535 s" "and not after any time"
release
is "$status" 0 "the session ends well"
finish
