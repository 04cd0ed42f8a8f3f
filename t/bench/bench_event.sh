#!/bin/bash
# Events to 16 ranks: see bench_event.c.
. "$(dirname "$0")/bench_lib.sh"

# No heartbeat: its events would take numbers between those that are counted.
in_session 16 --set=modules=log -- "$BENCH_DIR/bench_event"
