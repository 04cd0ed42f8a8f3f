#!/bin/bash
# Brokers inside the tree are killed or stopped, and the session heals: see bench_heal.c.
#
#     bench_heal.sh [SEED]
#
# 100 brokers of four sessions of 64 with all modules die one after the other, 24 are stopped, 24
# leave, 24 die and 24 are stopped under a job of theirs, and five of 512 die at once, three times.
#
# The reference of what follows a kill, measured after each of them, are bare UNIX sockets: a
# process kills the one to which it is connected, connects to a third one, and has its answer.
# That of a broker that is started again is a process of /bin/true, and that of the verdict on a
# stopped one the limit `live.lost`.
. "$(dirname "$0")/bench_lib.sh"

seed=${1:-1}
# heal SIZE HOW COUNT: add to $TMPDIR/times.  What brokers report of the dead is expected.
heal() {
    if ! in_session "$1" --topology=kary:2 --restart -- \
        "$BENCH_DIR/bench_heal" "$2" "$3" "$seed" >>"$TMPDIR/times" 2>"$TMPDIR/err"; then
        cat "$TMPDIR/err" >&2
        exit 1
    fi
    seed=$((seed + 1))
}
# times WORD PERCENT: of those measured, in milliseconds.
times() {
    awk -v word="$1" '$1 == word { print $2 }' "$TMPDIR/times" | sort -n |
        awk -v p="$2" '{ v[NR] = $1 } END { i = int(NR * p / 100 + 0.999); print v[i < 1 ? 1 : i] }'
}
# The events that subscribers below those victims have not got.
lost() { # NAME
    figure "$1, events lost" "$(awk '$1 == "lost" { n += $2 } END { print n }' "$TMPDIR/times")" "" "" "" '<=0'
}
# spread NAME WORD REFERENCE REF_WORD [AIM_P50 [AIM_MAX]]: the distribution, each value beside that
# of the reference.
spread() {
    figure "$1 p50" "$(times "$2" 50)" ms "$3 p50" "$(times "$4" 50)" "${5-}"
    figure "$1 p99" "$(times "$2" 99)" ms "$3 p99" "$(times "$4" 99)"
    figure "$1, max" "$(times "$2" 100)" ms "$3, max" "$(times "$4" 100)" "${6-}"
}

echo "# brokers inside the tree die"
for _ in 1 2 3 4; do
    heal 64 kill 25
done
spread "a kill, until an orphan is answered" answered "bare sockets" bare '<=200' '<=1000'
spread "a kill, until all others answer" whole "bare sockets" bare
spread "a kill, until it is back" back "/bin/true" exec '' '<=1000'
lost "100 kills"

echo "# they are stopped"
: >"$TMPDIR/times"
heal 64 stop 24
live_lost=$(in_session 1 -- "$FLUX" config get live.lost |
    awk '$1 == "live.lost" && sub(/s$/, "", $2) { print $2 * 1000 }')
verdict() { # NAME PERCENT
    figure "a stop, until it is declared lost$1" "$(times verdict "$2")" ms live.lost "$live_lost" '<=3500'
}
verdict " p50" 50
verdict " p99" 99
verdict ", max" 100
spread "then, until an orphan is answered" answered "bare sockets" bare '' '<=1000'
spread "then, until all others answer" whole "bare sockets" bare '' '<=1000'
lost "24 stops"

echo "# they leave, on SIGTERM"
: >"$TMPDIR/times"
heal 64 leave 24
spread "a SIGTERM, until it has left" left "/bin/true" exec
spread "a SIGTERM, until all others answer" whole "bare sockets" bare

echo "# they die under a job"
: >"$TMPDIR/times"
heal 64 job 24
spread "a kill, until the job has node-lost" exception "bare sockets" bare '' '<=1000'

echo "# they are stopped under a job"
: >"$TMPDIR/times"
heal 64 jobstop 24
spread "declared lost, until the job has node-lost" exception "bare sockets" bare '' '<=1000'

echo "# five of 512 die at once"
: >"$TMPDIR/times"
for _ in 1 2 3; do
    heal 512 many 5
done
spread "5 kills in 512, until it is whole" whole "bare sockets" bare '' '<=3000'
