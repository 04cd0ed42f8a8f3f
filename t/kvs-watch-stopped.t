#!/usr/bin/env bash
# A leaf that watches a key stops (SIGSTOP) while the key changes all the time: no broker keeps the
# changes for it, and when it goes on, it gets the last one.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start kvs
CLIENT=$BUILDDIR/t/kvs/kvs_client
[ -x "$CLIENT" ] || skip_all "t/kvs/kvs_client has not been built"
SMALL=100000 LARGE=300 BOUND=$((32 * 1024))
if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
    skip_all "sanitizers keep what was freed"
fi

peak() {
    awk '/^VmHWM/ {print $2}' "/proc/$1/status"
}
told() {
    [ "$(tail -n 1 watch.out)" = "$1" ]
}

# A chain, so that brokers above the leaf pass on what is for it; it is not lost while it is stopped.
hold 4 --topology=chain --set=live.lost=600s
of_all 4
"$FLUX" kvs put hot=begin
at 3 kvs watch hot >watch.out 2>watch.err &
watch=$!
wait_until 30 told begin || bail "the key is not watched"
large=$(head -c 100000 /dev/zero | tr '\0' x)
# What commits take anyway is not what this test is about.
"$CLIENT" overwrite hot 5000
"$FLUX" kvs put hot="$large"
before=()
for rank in 0 1 2; do
    before[rank]=$(peak "${pids[rank]}")
done

kill -STOP "${pids[3]}"
"$CLIENT" overwrite hot "$SMALL"
for ((i = 0; i < LARGE; i++)); do
    "$FLUX" kvs put hot="$i$large"
done
for rank in 0 1 2; do
    grown=$(($(peak "${pids[rank]}") - before[rank]))
    note "rank $rank has grown by $grown KiB"
    ok "rank $rank does not keep the changes" test "$grown" -lt "$BOUND"
done
"$FLUX" kvs put hot=end
kill -CONT "${pids[3]}"
ok "who watches at the leaf gets the last change" wait_until 30 told end
is "$(cat watch.err)" "" "without complaint"
kill "$watch"
wait "$watch" 2>/dev/null
release
is "$status" 0 "the session ends well"
finish
