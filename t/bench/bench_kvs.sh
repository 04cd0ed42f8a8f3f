#!/bin/bash
# The key-value store beside a UNIX socket: see bench_kvs.c.
. "$(dirname "$0")/bench_lib.sh"

in_session 4 -- "$BENCH_DIR/bench_kvs"
