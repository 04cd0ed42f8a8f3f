#!/bin/bash
# Requests to a broker while modules on its loop do what takes long: see bench_rpc.c.
uri=${FLUX_URI-} # of the session it runs in: bench_lib.sh starts without
. "$(dirname "$0")/bench_lib.sh"

if [ "${1-}" = --inside ]; then
    export FLUX_URI=$uri
    beside() { # WHAT COMMAND
        "$BENCH_DIR/bench_rpc" beside "$1" sh -c "$2" || exit 1
    }
    echo '# requests to the broker beside'
    beside 'commits of 100,000 keys' "$BENCH_DIR/bench_kvs fill all 100000 10"
    beside 'a million entries listed' "$FLUX kvs ls all >/dev/null"
    beside 'an archive written' "$FLUX kvs dump $TMPDIR/archive 2>/dev/null"
    beside 'a removal, with gc' "$FLUX kvs unlink -R all && $FLUX kvs gc >/dev/null"
    beside 'an archive restored' "$FLUX kvs restore $TMPDIR/archive 2>/dev/null"
    beside 'fences of 1024 processes' "$FLUX kap --nprocs=1024 --repeat=5 >/dev/null"
    "$FLUX" submit --hold --cc=1-100000 true >/dev/null || exit 1
    beside '100,000 jobs listed' "$FLUX jobs -a >/dev/null"
    exit
fi
in_session 1 -- bash "$0" --inside
