#!/bin/bash
# What a session costs: up and down, in memory, in threads, and when nothing happens.
#
#     bench_session.sh [SIZE...]      (64 256 512)
#
# Time and CPU are of `flux start --size=N true`, all processes together: medians of five runs.  The
# reference is the same number of processes of /bin/true, started by this shell and waited for.
#
# Memory: the median of all brokers of the session, leaves nearly all of them, by proportional set
# size (a page shared by n processes counts 1/n for each).  Idle time: CPU of all processes of the
# session, by the scheduler's own clock, while nobody asks them for anything.
. "$(dirname "$0")/bench_lib.sh"

IDLE_SECONDS=6
RUNS=5

# Runs inside a session whose processes carry FLUX_BENCH_ID in their environment.
if [ "${1-}" = --inside ]; then
    brokers=()
    others=()
    mapfile -t pids < <(grep -lazxsF "FLUX_BENCH_ID=$FLUX_BENCH_ID" /proc/[0-9]*/environ)
    for pid in "${pids[@]//[!0-9]/}"; do
        exe=$(readlink "/proc/$pid/exe") || continue
        case $exe in
        */flux-broker) brokers+=("$pid") ;;
        */bash | */env) ;;
        *) others+=("$pid") ;;
        esac
    done
    # The process that starts the brokers, and the one that keeps the initial program, are the same
    # program, and none of them.
    ppid() {
        awk '/^PPid:/ { print $2 }' "/proc/$1/status"
    }
    parent=$(for pid in "${brokers[@]}"; do
        ppid "$pid"
    done | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
    for i in "${!brokers[@]}"; do
        if [ "$(ppid "${brokers[i]}")" != "$parent" ]; then
            others+=("${brokers[i]}")
            unset "brokers[i]"
        fi
    done
    pss() {
        local pid
        for pid; do
            awk '/^Pss:/ { print $2 / 1024 }' "/proc/$pid/smaps_rollup"
        done | median
    }
    threads() {
        local pid
        for pid; do
            awk '/^Threads:/ { print $2 }' "/proc/$pid/status"
        done | median
    }
    cpu_ms() {
        local pid
        for pid in "${brokers[@]}" ${others[@]+"${others[@]}"}; do
            cat "/proc/$pid"/task/*/schedstat
        done 2>/dev/null | awk '{ t += $1 } END { printf "%.3f\n", t / 1e6 }'
    }
    figure "PSS of a broker of ${#brokers[@]}" "$(pss "${brokers[@]}")" MiB "" "" "<=1.0"
    figure "threads of a broker of ${#brokers[@]}" "$(threads "${brokers[@]}")" "" "" "" "<=5"
    if [ ${#others[@]} -gt 0 ]; then
        figure "PSS of other processes (${#others[@]})" "$(pss "${others[@]}")" MiB
    fi
    sleep 2
    before=$(cpu_ms)
    begin=$EPOCHREALTIME
    sleep $IDLE_SECONDS
    after=$(cpu_ms)
    end=$EPOCHREALTIME
    figure "idle session of ${#brokers[@]}" \
        "$(awk -v a="$before" -v b="$after" -v t="$begin" -v u="$end" \
            'BEGIN { print (b - a) / 10 / (u - t) }')" "%core" "" "" "<=1"
    exit
fi

TIMEFORMAT='%R %U %S'

# Leaves wall and CPU seconds in $wall and $cpu: medians of $1 runs of the rest.
measure() {
    local runs=$1 i
    shift
    : >"$TMPDIR/wall"
    : >"$TMPDIR/cpu"
    for ((i = 0; i < runs; i++)); do
        { time "$@" >/dev/null 2>"$TMPDIR/err" || echo failed >"$TMPDIR/failed"; } 2>"$TMPDIR/time"
        if [ -e "$TMPDIR/failed" ]; then
            cat "$TMPDIR/err" >&2
            echo "bench: failed: $*" >&2
            rm -f "$TMPDIR/failed"
            return 1
        fi
        awk '{ print $1 }' "$TMPDIR/time" >>"$TMPDIR/wall"
        awk '{ print $2 + $3 }' "$TMPDIR/time" >>"$TMPDIR/cpu"
    done
    wall=$(median <"$TMPDIR/wall")
    cpu=$(median <"$TMPDIR/cpu")
}

# shellcheck disable=SC2317 # called by measure
many_true() {
    local i
    for ((i = 0; i < $1; i++)); do
        /bin/true &
    done
    wait
}

status=0
echo "# sessions on $(nproc) cores"
[ $# -gt 0 ] || set -- 64 256 512
for size; do
    measure $RUNS many_true "$size"
    ref_wall=$wall
    ref_cpu=$cpu
    wall_aim=
    cpu_aim=
    case $size in
    64)
        wall_aim='<=x6'
        cpu_aim='<=4'
        ;;
    256) wall_aim='<=12' ;;
    esac
    if measure $RUNS in_session "$size" -- true; then
        figure "$size brokers up and down" "$wall" s "$size x /bin/true" "$ref_wall" "$wall_aim"
        figure "$size brokers up and down, CPU" "$cpu" s "$size x /bin/true" "$ref_cpu" "$cpu_aim"
    else
        status=1
    fi
done
export FLUX_BENCH_ID=$TMPDIR
in_session 64 -- bash "$0" --inside || status=1
exit $status
