#!/bin/bash
# What others wait while a hostile client attacks the session: see bench_attack.c.
. "$(dirname "$0")/bench_lib.sh"

if [ "$(nproc)" -lt 2 ]; then
    echo "# one processor: what would be measured is who gets it"
    exit 0
fi
grep -rhoE 'FLUX_MSG_REQUEST, *"[a-z-]+\.[a-z-]+"' "$SRCDIR"/src/modules "$SRCDIR"/src/broker --include='*.c' \
    --exclude-dir=test | cut -d'"' -f2 | sort -u >"$TMPDIR/topics"
# A session for each attack: the jobs that are submitted in one are not there in the next.
for rank in 0 3; do
    echo "# at rank 0, the attackers at rank $rank"
    for attack in all shapes flood lie stall cut leave deaf large crowd watch; do
        in_session 4 -- "$BENCH_DIR/bench_attack" $rank "$BUILDDIR/t/attack/attack" "$TMPDIR/topics" $attack \
            2>"$TMPDIR/err" || {
            tail -n 5 "$TMPDIR/err" >&2 # not the complaints of brokers about what the attackers send
            exit 1
        }
    done
done
