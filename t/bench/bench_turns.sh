#!/bin/bash
# Requests to a broker while modules on its loop do what takes long: see bench_rpc.c.
uri=${FLUX_URI-} # of the session it runs in: bench_lib.sh starts without
. "$(dirname "$0")/bench_lib.sh"

if [ "${1-}" = --inside ]; then
    export FLUX_URI=$uri
    beside() { # WHAT COMMAND
        "$BENCH_DIR/bench_rpc" beside "$1" sh -c "$2" || exit 1
    }
    flux=$FLUX
    seq 1 200000 | sed 's/.*/all.k&=&/' >"$TMPDIR/keys"
    echo '# requests to the broker beside'
    beside 'commits of 4,000 keys' "xargs -n 4000 $flux kvs put <$TMPDIR/keys"
    beside 'a directory of 200,000 listed' "$flux kvs ls all >/dev/null"
    beside 'an archive written' "$flux kvs dump $TMPDIR/archive 2>/dev/null"
    beside 'it is removed, and garbage collected' "$flux kvs unlink -R all && $flux kvs gc >/dev/null"
    beside 'an archive restored' "$flux kvs restore $TMPDIR/archive 2>/dev/null"
    exit
fi
in_session 1 -- bash "$0" --inside
