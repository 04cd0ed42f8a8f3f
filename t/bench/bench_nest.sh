#!/bin/bash
# Sessions in sessions: what one costs beside a session that is nobody's job, three within each
# other, and the way into one, straight and by a relay.
#
#     bench_nest.sh [SIZE...]      brokers of a session (1 4 64)
uri=${FLUX_URI-} # of the session it runs in: bench_lib.sh starts without
. "$(dirname "$0")/bench_lib.sh"
export FLUX

# seconds RUNS COMMAND...: the median
seconds() {
    local runs=$1 i begin
    shift
    for ((i = 0; i < runs; i++)); do
        begin=$EPOCHREALTIME
        "$@" >/dev/null || echo "bench_nest: failed: $*" >&2
        awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
    done | median
}

milliseconds() {
    awk -v t="$(seconds "$@")" 'BEGIN { print t * 1000 }'
}

if [ "${1-}" = --inside ]; then
    export FLUX_URI=$uri
    size=$2 alone=$3
    runs=$((size > 4 ? 3 : 7))
    figure "flux batch --wait, $size nodes: true" \
        "$(milliseconds $runs "$FLUX" batch --wait --quiet -O /dev/null -N"$size" --wrap true)" ms \
        "flux start, $size brokers" "$alone"
    figure "flux alloc, $size nodes: true" "$(milliseconds $runs "$FLUX" alloc -N"$size" true)" ms \
        "flux start, $size brokers" "$alone"
    echo "exec '$FLUX' batch --wait --quiet -O /dev/null -N$size --wrap true" >"$TMPDIR/middle"
    begin=$EPOCHREALTIME
    "$FLUX" batch --wait --quiet -O /dev/null -N"$size" "$TMPDIR/middle"
    figure "two within each other, $size nodes" \
        "$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print (b - a) * 1000 }')" ms
    [ "$size" -le 4 ] || exit 0

    id=$("$FLUX" batch -N1 -O /dev/null --wrap 'exec sleep 1000')
    "$FLUX" proxy --wait "$id" true
    here=$(milliseconds 15 "$FLUX" getattr size)
    figure "flux proxy ID flux getattr" "$(milliseconds 15 "$FLUX" proxy "$id" "$FLUX" getattr size)" \
        ms "flux getattr here" "$here"
    figure "the same, by a relay" \
        "$(milliseconds 15 "$FLUX" proxy --relay "$id" "$FLUX" getattr size)" ms \
        "flux getattr here" "$here"
    head -c 50000000 /dev/urandom >"$TMPDIR/data"
    # shellcheck disable=SC2016 # to be expanded there
    put=(sh -c '"$0" kvs put --raw big=- <"$1"' "$FLUX" "$TMPDIR/data")
    rate() {
        awk -v t="$(seconds 1 "$@")" 'BEGIN { print 50 / t }'
    }
    direct=$(rate "$FLUX" proxy "$id" "${put[@]}")
    "$FLUX" proxy "$id" "$FLUX" kvs unlink big
    figure "50 MB into the store by a relay" "$(rate "$FLUX" proxy --relay "$id" "${put[@]}")" MB/s \
        "straight" "$direct"
    "$FLUX" cancel "$id"
    "$FLUX" queue idle >/dev/null
    exit
fi

[ $# -gt 0 ] || set -- 1 4 64
for size; do
    alone=$(milliseconds $((size > 4 ? 3 : 7)) in_session "$size" -- true)
    echo "resource { nodes = \"node[0-$((size - 1))]\", cores = 2 }" >"$TMPDIR/res.lua"
    in_session "$size" --set=resrc.config="$TMPDIR/res.lua" -- \
        bash "$0" --inside "$size" "$alone" || exit 1
done
