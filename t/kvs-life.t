#!/bin/bash
# What was overwritten and deleted is given back, on every rank; a large directory costs little; who
# watches something else costs nothing.  By counters: t/bench/bench_kvs_life.sh looks at the
# process.
# shellcheck disable=SC2154 # set by run, ok and exits
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"
need_flux start kvs
need_programs kvs_client kvs_probe
AT=()
RANKS=(0 1 2 3)
KEYS=50000
SLACK=4096 # bytes that may be needed more than before: directories on the way, new versions

# Every rank has seen all that was committed.
settle() {
    local v rank
    v=$("$PROBE" version) || return 1
    for rank in "${RANKS[@]}"; do
        at "$rank" "$FLUX" kvs wait "$v" >/dev/null || return 1
    done
}
# Rank $1 needs at most $2 bytes; what it keeps only because there is room is dropped first.
needs_at_most() {
    at "$1" "$FLUX" kvs dropcache >/dev/null && [ "$(counter "$1" bytes)" -le "$2" ]
}
declare -A base
remember() {
    local rank
    settle
    for rank in "${RANKS[@]}"; do
        at "$rank" "$FLUX" kvs dropcache >/dev/null
        base[$rank]=$(counter "$rank" bytes)
    done
}
returns() {
    local rank
    settle
    for rank in "${RANKS[@]}"; do
        ok "rank $rank: $1" wait_until 30 needs_at_most "$rank" $((base[$rank] + SLACK))
    done
}

hold 4
"$CLIENT" overwrite hot.key 100
remember

ok "20000 overwrites of one key" "$CLIENT" overwrite hot.key 20000
returns "memory is what it was"

ok "$KEYS keys in one directory" "$CLIENT" fill big $KEYS
settle
is "$(at 3 "$PROBE" get big.k$((KEYS / 2)))" "v$((KEYS / 2))" "one of them, from a leaf"
bytes=$(counter 0 bytes)
at 0 "$FLUX" kvs dropcache >/dev/null
bytes=$(counter 0 bytes)
ok "they take 200 bytes each at most ($bytes)" test "$bytes" -le $((KEYS * 200))
ok "... and are there" test "$bytes" -ge $((KEYS * 10))
is "$(at 2 "$PROBE" pages big 1000)" "$KEYS $((KEYS / 1000))" "all of them, in pages"
ok "one more" "$FLUX" kvs put big.more=1
ok "one less" "$FLUX" kvs unlink big.k7
is "$("$PROBE" pages big 1000 | cut -d ' ' -f 1)" $KEYS "counted again"
ok "they are deleted" "$FLUX" kvs unlink -R big
returns "memory is what it was, and a leaf that read has nothing left"

failed=0
for i in {1..100}; do
    "$FLUX" kvs put "job.$i.state=submitted" "job.$i.command=true" "job.$i.ranks=0-3" &&
        "$FLUX" kvs put "job.$i.state=running" &&
        "$FLUX" kvs put "job.$i.state=complete" "job.$i.result=0" &&
        "$FLUX" kvs unlink -R "job.$i" || failed=$((failed + 1))
done
is $failed 0 "records of 100 jobs come and go"
ok "... and so does their directory" "$FLUX" kvs unlink -R job
returns "memory is what it was"

start_bg env FLUX_URI="$(uri 3)" "$PROBE" watchers cold 1000 >watchers.out 2>&1
watching() {
    [ "$(counter 3 watchers)" = 1000 ]
}
ok "1000 watchers" wait_until 30 watching
looked=$(counter 3 watch_looked)
sent=$(counter 3 watch_sent)
ok "2000 overwrites of another key" "$CLIENT" overwrite hot.key 2000
settle
is "$(counter 3 watch_looked)" "$looked" "cost them no look"
is "$(counter 3 watch_sent)" "$sent" "... and they heard nothing"
kill "$bg"
gone() {
    [ "$(counter 3 watchers)" = 0 ]
}
ok "they go" wait_until 10 gone
returns "memory is what it was"
release
finish
