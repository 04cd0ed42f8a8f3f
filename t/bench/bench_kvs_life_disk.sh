#!/bin/bash
# A long life of a key-value store that is kept on disk: see bench_kvs_life.c.  In a session of one.
#
#     bench_kvs_life_disk.sh [COUNT]       (300000)
. "$(dirname "$0")/bench_lib.sh"

state=$(mktemp -d "${FLUX_BENCH_DISK:-$BUILDDIR}/bench-disk.XXXXXX") || exit 1
trap 'rm -rf "$_root" "$state"' EXIT
in_session 1 --statedir="$state/flux" -- "$FLUX" kvs put probe=1 || exit 1
if [ ! -s "$state/flux/content.sqlite" ]; then
    echo "# sessions write no content.sqlite into their statedir: nothing on disk"
    exit 0
fi
in_session 1 --set=content.expire=2s --statedir="$state/flux" -- \
    "$BENCH_DIR/bench_kvs_life" "${1:-300000}"
