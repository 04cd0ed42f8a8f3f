#!/usr/bin/env bash
# flux sim starts the jobs of a log under FCFS when AccaSim does.  (What AccaSim calls EASY is
# another policy.)  AccaSim comes from PyPI: it is installed only where FLUX_TEST_PYPI is set, as a
# stage of CI does; without it this is skipped.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux version
need python3
"$FLUX" sim --help >/dev/null 2>&1 || skip_all "flux sim has not been built"
python=python3
if ! python3 -c 'import accasim' 2>/dev/null; then
    [ -n "${FLUX_TEST_PYPI-}" ] || skip_all "AccaSim is not installed, and FLUX_TEST_PYPI is not set"
    if ! python3 -m venv venv >/dev/null 2>&1 || ! timeout 300 venv/bin/pip install -q accasim==1.1.3 >/dev/null 2>&1; then
        skip_all "AccaSim is not there, and pip cannot install it"
    fi
    python=venv/bin/python
fi

# log SEED JOBS: more work than 18 nodes can do, so that most jobs wait; some come at the same time.
log() {
    python3 -c '
import random, sys
r, at = random.Random(int(sys.argv[1])), 1000
print("; UnixStartTime: 0\n; MaxNodes: 18\n; MaxProcs: 18")
for i in range(1, int(sys.argv[2]) + 1):
    nodes, runtime = r.randint(1, 18), r.randint(1, 300)
    estimate = runtime + r.randint(0, 100)
    print(i, at, -1, runtime, nodes, -1, -1, nodes, estimate, -1, 1, 1, 1, 1, 1, 1, -1, -1)
    at += r.choice((0, 1, r.randint(1, 150)))' "$@"
}
for seed in 1 2 3; do
    log "$seed" 300 >log.swf
    ok "AccaSim replays log $seed" sh -c "$python '$SRCDIR/t/sim-ref/accasim_fcfs.py' log.swf 18 >theirs 2>/dev/null"
    ok "flux sim does" "$FLUX" sim log.swf --nodes=18 --queue=fcfs --schedule=ours.csv
    tail -n +2 ours.csv | cut -d, -f1,3 | sort -t, -n >ours
    is "$(wc -l <theirs)" 300 "all of its jobs have started"
    ok "and each start is the same" cmp ours theirs
done
# The comparison can fail.
"$FLUX" sim log.swf --nodes=18 --queue=easy --schedule=easy.csv >/dev/null
ok "under EASY they differ" sh -c 'tail -n +2 easy.csv | cut -d, -f1,3 | sort -t, -n | cmp -s - theirs; test $? -eq 1'
finish
