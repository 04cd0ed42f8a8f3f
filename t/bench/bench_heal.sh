#!/bin/bash
# Brokers inside the tree are killed or stopped, and the session heals: see bench_heal.c.
#
#     bench_heal.sh [SEED]
#
# 100 brokers of four sessions of 64 die one after the other, six are stopped, and five of 512 die
# at once, three times.
. "$(dirname "$0")/bench_lib.sh"

seed=${1:-1}
# heal SIZE HOW COUNT: add to $TMPDIR/times.  What brokers report of the dead is expected.
heal() {
    if ! in_session "$1" --topology=kary:2 --restart --set=modules=log -- \
        "$BENCH_DIR/bench_heal" "$2" "$3" "$seed" >>"$TMPDIR/times" 2>"$TMPDIR/err"; then
        cat "$TMPDIR/err" >&2
        exit 1
    fi
    seed=$((seed + 1))
}
# times WORD PERCENT: of those measured, in milliseconds.
times() {
    awk -v word="$1" '$1 == word { print $2 }' "$TMPDIR/times" | sort -n |
        awk -v p="$2" '{ v[NR] = $1 } END { i = int(NR * p / 100 + 0.999); print v[i < 1 ? 1 : i] }'
}

echo "# brokers inside the tree die"
for _ in 1 2 3 4; do
    heal 64 kill 25
done
figure "a kill, until an orphan is answered p50" "$(times answered 50)" ms '' '' '<=200'
figure "a kill, until an orphan is answered p99" "$(times answered 99)" ms
figure "a kill, until an orphan is answered, max" "$(times answered 100)" ms '' '' '<=1000'
figure "a kill, until it is back p50" "$(times back 50)" ms
figure "a kill, until it is back, max" "$(times back 100)" ms '' '' '<=1000'
: >"$TMPDIR/times"
heal 64 stop 6
figure "a stop, until it is declared lost, max" "$(times verdict 100)" ms '' '' '<=3500'
figure "then, until an orphan is answered, max" "$(times answered 100)" ms '' '' '<=1000'
: >"$TMPDIR/times"
for _ in 1 2 3; do
    heal 512 many 5
done
figure "5 kills in 512, until it is whole p50" "$(times whole 50)" ms
figure "5 kills in 512, until it is whole, max" "$(times whole 100)" ms '' '' '<=3000'
