#!/usr/bin/env bash
# Hundreds of brokers in one tree of sessions.
# shellcheck disable=SC2016,SC2154 # the scripts expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start batch submit pstree
# shellcheck source=t/nest/lib.sh
. "$SRCDIR/t/nest/lib.sh"

N=64
# A slow build, with sanitizers, takes ten times the memory, too.
[ "$TIME_SCALE" = 1 ] || N=16
nodes $N 2
hold $N --set=resrc.config="$PWD/res.lua"
# All nodes, one core of each; within it the same once more.
cat >inner.sh <<END
#!/bin/sh
"$FLUX" getattr size >size2
"$FLUX" pstree >/dev/null
"$FLUX" submit --quiet --wait -n$N "$FLUX" version >jobs2
END
cat >outer.sh <<END
#!/bin/sh
"$FLUX" getattr size >size1
"$FLUX" batch --wait --quiet -O inner -N$N inner.sh
END
begin=$EPOCHREALTIME
exits 0 "two sessions of $N brokers within one of $N" \
    run_with_timeout 60 "$FLUX" batch --wait --quiet -O outer -N$N outer.sh
note "$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f s", b - a }')"
is "$(cat size1 2>/dev/null)" $N "all nodes at level 1" || note "$(cat outer)"
is "$(cat size2 2>/dev/null)" $N "all nodes at level 2" || note "$(cat inner)"
ok "nobody is left" wait_until 10 only_this_session
release
finish
