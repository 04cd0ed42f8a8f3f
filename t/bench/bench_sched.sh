#!/bin/bash
# Scheduling alone, in the library and in the module: see bench_sched.c.
. "$(dirname "$0")/bench_lib.sh"

"$BENCH_DIR/bench_sched" || exit 1
cat >"$TMPDIR/resources.lua" <<'END'
resource { nodes = "node[0-4095]", cores = 16, emulate = true }
END
# shellcheck disable=SC2016 # expanded in the session
in_session 1 --set=resrc.config="$TMPDIR/resources.lua" -- bash -c '
    "$0" module unload --force job >/dev/null && "$BENCH_DIR/bench_sched" session' "$FLUX" || exit 1
