#!/usr/bin/env bash
# A short session under valgrind: no error of memory, and nothing definitely lost, in any broker.
. "$(dirname "$0")/lib.sh"
need_flux start kvs
need valgrind
[ -z "${FLUX_TEST_SANITIZERS-}" ] || skip_all "a sanitized build does not run under valgrind"

cat >work.sh <<'END'
set -e
flux=$1
"$flux" up
"$flux" kvs put a=1 b.c=2
"$flux" kvs get a
"$flux" barrier -n 1 one
"$flux" event pub ev.1
"$flux" module reload barrier
"$flux" logger hello
"$flux" ping -c 1 0
END
broker=$BUILDDIR/src/broker/flux-broker
for size in 1 2; do
    run_with_timeout 200 valgrind -q --trace-children=no --leak-check=full \
        --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=99 \
        --suppressions="$SRCDIR/t/valgrind.supp" --log-file="vg.$size.%p" \
        "$broker" --nursery=$size --set=modules=log,hb,barrier,kvs --set=live.lost=5m -- sh work.sh "$FLUX" >out 2>err
    is $? 0 "size $size: all works"
    is "$(cat vg."$size".*)" "" "size $size: valgrind has nothing to say"
done
finish
