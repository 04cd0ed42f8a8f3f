#!/bin/bash
# The key-value store beside a UNIX socket: see bench_kvs.c.  In a session of one, and in one of
# four, where three more brokers hear of every commit on the processors of the same machine.
. "$(dirname "$0")/bench_lib.sh"

in_session 1 -- "$BENCH_DIR/bench_kvs" || exit 1
in_session 4 -- "$BENCH_DIR/bench_kvs"
