#!/bin/bash
# Streams on one host: bench_stream.c measures one writer and one reader, bench_streams.c groups of them in a session.
. "$(dirname "$0")/bench_lib.sh"

"$BENCH_DIR/bench_stream" || exit 1
in_session 1 --set=modules=log,stream -- "$BENCH_DIR/bench_streams"
