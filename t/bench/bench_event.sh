#!/bin/bash
# Events to 16 ranks: see bench_event.c.
. "$(dirname "$0")/bench_lib.sh"

in_session 16 -- "$BENCH_DIR/bench_event"
