#!/bin/bash
# Streams: bench_stream.c measures one writer and one reader in shared memory, bench_stream_tcp.c by TCP,
# both of steps of all sizes, bench_stream_api.c what programs pay for small steps in a session, bench_streams.c
# groups of them, in both ways, and by TCP beside bare TCP, and bench_stream_join.c a reader that comes late to
# many writers, and 8 readers of 1024.
. "$(dirname "$0")/bench_lib.sh"

"$BENCH_DIR/bench_stream" || exit 1
"$BENCH_DIR/bench_stream_tcp" || exit 1
"$BENCH_DIR/bench_stream" sizes || exit 1
"$BENCH_DIR/bench_stream_tcp" sizes || exit 1
in_session 1 --set=modules=log,stream -- "$BENCH_DIR/bench_stream_api" || exit 1
in_session 1 --set=modules=log,stream -- "$BENCH_DIR/bench_streams" || exit 1
in_session 1 --set=modules=log,stream -- "$BENCH_DIR/bench_stream_join" || exit 1
in_session 1 --set=modules=log,stream -- "$BENCH_DIR/bench_stream_join" 1024x8 || exit 1
export FLUX_STREAM_TRANSPORT=tcp FLUX_STREAM_SECURE=no
in_session 1 --set=modules=log,stream -- "$BENCH_DIR/bench_streams" || exit 1
in_session 1 --set=modules=log,stream -- "$BENCH_DIR/bench_stream_join"
