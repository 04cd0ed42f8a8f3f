#!/bin/bash
# What others wait while a hostile client attacks the session: see bench_attack.c.
. "$(dirname "$0")/bench_lib.sh"

if [ "$(nproc)" -lt 2 ]; then
    echo "# one processor: what would be measured is who gets it"
    exit 0
fi
grep -rhoE 'FLUX_MSG_REQUEST, *"[a-z-]+\.[a-z-]+"' "$SRCDIR"/src/modules "$SRCDIR"/src/broker --include='*.c' \
    --exclude-dir=test | cut -d'"' -f2 | sort -u >"$TMPDIR/topics"
for rank in 0 3; do
    in_session 4 -- "$BENCH_DIR/bench_attack" $rank "$BUILDDIR/t/attack/attack" "$TMPDIR/topics" || exit 1
done
