#!/bin/bash
# Local requests beside a UNIX socket, hops of the tree beside ZeroMQ; then wake-ups and system calls
# where modules have threads of their own, and where ZeroMQ connects brokers: see bench_rpc.c.
. "$(dirname "$0")/bench_lib.sh"

in_session 1 -- "$BENCH_DIR/bench_rpc" local || exit 1
in_session 4 --topology=chain -- "$BENCH_DIR/bench_rpc" hops || exit 1
in_session 1 --set=module.place=thread -- "$BENCH_DIR/bench_rpc" count thread local || exit 1
in_session 4 --topology=chain --set=link.transport=zmq -- "$BENCH_DIR/bench_rpc" count zmq hops
