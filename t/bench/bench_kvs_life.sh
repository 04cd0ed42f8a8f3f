#!/bin/bash
# A long life of the key-value store in little time: see bench_kvs_life.c.  In a session of four;
# bench_kvs_life_disk.sh does it on disk.
#
#     bench_kvs_life.sh [COUNT]       (1000000)
. "$(dirname "$0")/bench_lib.sh"

# What is only cached goes after minutes, by default.
in_session 4 --set=content.expire=2s -- "$BENCH_DIR/bench_kvs_life" "$@"
