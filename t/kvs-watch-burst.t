#!/usr/bin/env bash
# flux kvs watch: after a burst of commits every watcher is told the last one, at every rank.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_client

told() {
    [ "$(tail -n 1 "watch.$1")" = "$want" ]
}

hold 4 --topology=chain

at 0 put a=none
pids=()
for rank in 0 1 2 3; do
    FLUX_URI=$(uri "$rank") "$FLUX" kvs watch a >"watch.$rank" 2>&1 &
    pids+=($!)
done
want=none
for rank in 0 1 2 3; do
    ok "rank $rank: what it is" wait_until 10 told "$rank"
done

stale=0
for ((i = 0; i < 300; i++)); do
    "$CLIENT" overwrite a 5 >/dev/null
    "$CLIENT" overwrite a $((20 + i % 5)) >/dev/null
    want=$(at 0 get a)
    for rank in 0 1 2 3; do
        wait_until 3 told "$rank" || stale=$((stale + 1))
    done
done
is "$stale" 0 "after each of 300 bursts all were told the last value"
kill "${pids[@]}" 2>/dev/null
wait "${pids[@]}" 2>/dev/null

release
finish
