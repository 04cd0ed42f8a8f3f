#!/bin/bash
# flux sim: CPU time of replays beside reading the log, and memory.  With FLUX_TRACES also logs of
# the Parallel Workloads Archive.
. "$(dirname "$0")/bench_lib.sh"

# jobs NUMBER NODES: a log whose jobs ask for 9 tenths of the machine; most are small.
jobs() {
    awk -v count="$1" -v nodes="$2" 'BEGIN {
        srand(7)
        for (i = 1; i <= count; i++) {
            n = int(exp(rand() * log(512)))
            runtime = 60 + int(-log(1 - rand()) * 3000)
            estimate = int(runtime * (1 + 3 * rand()))
            printf "%d %d -1 %d %d -1 -1 %d %d -1 1 -1 -1 -1 -1 -1 -1 -1\n", i, t, runtime, n, n, estimate
            t += n * runtime / (0.9 * nodes)
        }
    }'
}
# cpu COMMAND...: seconds of CPU.
cpu() {
    local TIMEFORMAT='%U %S'
    { time "$@" >/dev/null; } 2>&1 | awk '{print $1 + $2}'
}
# replay LOG OPTION...: CPU time, less that of a replay of one job, which reads all of the log.
replay() {
    local log=$1 all reading
    shift
    all=$(cpu "$FLUX" sim "$log" "$@")
    reading=$(cpu "$FLUX" sim "$log" "$@" --first=1)
    awk -v all="$all" -v reading="$reading" 'BEGIN {print all - reading}'
}

jobs 300000 5832 >"$TMPDIR/300k.swf"
figure "EASY with lists of nodes, 300,000 jobs on 5832 nodes" \
    "$(replay "$TMPDIR/300k.swf" --tree=18,18,18)" s "" "" "<=0.5"
jobs 1000000 5832 >"$TMPDIR/1m.swf"
# The kernel's figure of the largest resident set of a child.
peak=$(python3 - "$FLUX" sim "$TMPDIR/1m.swf" --tree=18,18,18 --select=first-fit,interference-free <<'END'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
END
)
figure "memory for 1,000,000 jobs, first-fit and interference-free" "$peak" MiB "" "" "<=1024"

thunder=${FLUX_TRACES:-}/LLNL-Thunder-2007-1.1-cln.swf.gz
[ -r "$thunder" ] || exit 0
figure "conservative, LLNL-Thunder, 113,613 jobs" \
    "$(replay "$thunder" --nodes=1002 --ppn=4 --queue=conservative)" s "" "" "<=1"
"$FLUX" sim derive "$thunder" --ppn=4 --from-day=30 --days=30 --max-nodes=256 --machine=1296 --load=0.83 \
    --output="$TMPDIR/month.swf"
figure "a month on 1296 nodes, 29,377 jobs, interference-free" \
    "$(replay "$TMPDIR/month.swf" --tree=4,18,18 --select=interference-free)" s "" "" "<=0.4"
