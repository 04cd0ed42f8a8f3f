#!/usr/bin/env bash
# flux kvs watch: the first watcher of a broker comes just when the store begins to change.
. "$(dirname "$0")/lib.sh"
need_flux start kvs

cat >work.sh <<'END'
dir=$("$1" getattr rundir)
rm -f watch.* # of the session before, which have the word that is waited for
"$1" kvs put b=first &
for rank in 1 2 3; do
    FLUX_URI=local://$dir/$rank/local "$1" kvs watch a >"watch.$rank" 2>&1 &
done
for i in 1 2 3 4 last; do
    "$1" kvs put a=$i
done
for rank in 1 2 3; do
    for try in $(seq 800); do
        [ "$(tail -n 1 "watch.$rank")" = last ] && break
        sleep 0.1
    done
    tail -n 1 "watch.$rank"
done
kill $(jobs -p)
END
for i in 1 2 3 4 5; do
    is "$(run_with_timeout 100 "$FLUX" start --size=4 --topology=chain bash work.sh "$FLUX" 2>err | tr '\n' ' ')" \
        "last last last " "session $i: all are told the last value"
done
finish
