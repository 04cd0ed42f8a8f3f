#!/bin/bash
# The job service over four brokers: throughput beside bare vfork/exec/wait, submission alone,
# memory of the root; CPU time of the root for a job when 100,000 are kept beside that when few are;
# launch latency and MPI start beside mpiexec.hydra; output beside cat through a pipe.
#
#     bench_jobs.sh [PART...]      run submit kept launch output, mpi (default: all but mpi, which takes
#                                  minutes: bench_mpi.sh)
#     BENCH_KEPT=N                 this many jobs are kept in `kept` (default 100000: two to four minutes)
uri=${FLUX_URI-} # of the session it runs in: bench_lib.sh starts without
. "$(dirname "$0")/bench_lib.sh"
export FLUX

# broker RANK: its process id
broker() {
    # shellcheck disable=SC2016 # to be expanded there: the parent of the launcher
    "$FLUX" exec -r "$1" sh -c 'ps -o ppid= -p $PPID' | tr -d ' '
}

output() {
    local mb=100 rank
    megabytes() { # COMMAND...: MB/s of its standard output
        local begin=$EPOCHREALTIME bytes
        bytes=$("$@" | wc -c)
        [ "$bytes" -eq $((mb * 1000000)) ] || echo "bench_jobs: $* wrote $bytes bytes" >&2
        awk -v a="$begin" -v b="$EPOCHREALTIME" -v n="$bytes" 'BEGIN { print n / 1e6 / (b - a) }'
    }
    # COMMAND...: MB/s of a job that writes somewhere else
    written() {
        local begin=$EPOCHREALTIME
        "$@" >/dev/null || echo "bench_jobs: $* failed" >&2
        awk -v a="$begin" -v b="$EPOCHREALTIME" -v n="$mb" 'BEGIN { print n / (b - a) }'
    }
    # Equal chunks are stored once: bytes that are all different are what tells about memory.
    head -c ${mb}000000 /dev/urandom >"$TMPDIR/random"
    for _ in 1 2 3; do
        written "$FLUX" submit --wait --quiet --output-limit=200M cat "$TMPDIR/random" >>"$TMPDIR/kvs"
        "$FLUX" wreck purge --force >/dev/null
        written "$FLUX" submit --wait --quiet --output="$TMPDIR/file" cat "$TMPDIR/random" \
            >>"$TMPDIR/files"
        megabytes "$FLUX" wreckrun cat "$TMPDIR/random" >>"$TMPDIR/client"
        megabytes sh -c "cat $TMPDIR/random | cat" >>"$TMPDIR/cat"
    done
    [ "$(stat -c %s "$TMPDIR/file")" -eq ${mb}000000 ] || echo "bench_jobs: the file is short" >&2
    cat=$(median <"$TMPDIR/cat")
    figure "100 MB of output into the KVS" "$(median <"$TMPDIR/kvs")" MB/s "cat in a pipe" "$cat"
    figure "100 MB of output into a file" "$(median <"$TMPDIR/files")" MB/s "cat in a pipe" "$cat"
    figure "100 MB of output to wreckrun" "$(median <"$TMPDIR/client")" MB/s "cat in a pipe" "$cat"
    for rank in 0 1 2 3; do
        figure "peak memory of broker $rank" \
            "$(awk '/^VmHWM:/ { print $2 / 1024 }' "/proc/$(broker $rank)/status")" MiB
    done
}

# By turns in this session, which keeps many jobs, and in new ones: what else the machine does meanwhile costs
# both the same.
kept() {
    sample() {
        "$BENCH_DIR/bench_jobs" sample
    }
    BENCH_ROOT=$(broker 0)
    export BENCH_ROOT
    "$BENCH_DIR/bench_jobs" keep "$1"
    for _ in 1 2 3 4 5; do
        (unset FLUX_URI && in_session 4 -- bash "$0" --run sample) >>"$TMPDIR/few"
        sample >>"$TMPDIR/many"
    done
    "$FLUX" setattr job.purge-count "$1" 2>/dev/null
    "$FLUX" module reload --force job || exit # reads it
    sample >/dev/null                         # forgets those beyond that number
    for _ in 1 2 3; do
        sample >>"$TMPDIR/full"
    done
    few=$(median <"$TMPDIR/few")
    figure "root: CPU of a job, many kept" "$(median <"$TMPDIR/many")" us "few kept" "$few" "<=x1.2"
    figure "root: and another one forgotten for it" "$(median <"$TMPDIR/full")" us "few kept" "$few"
}

if [ "${1-}" = --kept ]; then
    export FLUX_URI=$uri
    kept "$2"
    exit
fi
if [ "${1-}" = --output ]; then
    export FLUX_URI=$uri
    output
    exit
fi
if [ "${1-}" = --run ]; then
    export FLUX_URI=$uri
    BENCH_ROOT=$(broker 0)
    export BENCH_ROOT
    "$BENCH_DIR/bench_jobs" "${@:2}" # no exec: $TMPDIR is removed at the end
    exit
fi

[ $# -gt 0 ] || set -- run submit kept launch output
for part in "$@"; do
    echo "-- $part"
    case $part in
    run | submit) in_session 4 -- bash "$0" --run "$part" ;;
    kept)
        n=${BENCH_KEPT:-100000}
        in_session 4 --set=job.purge-count=$((10 * n)) -- bash "$0" --kept "$n"
        ;;
    launch) in_session 4 -- env BENCH_NODES=4 "$BENCH_DIR/bench_launch" true 1 16 64 256 ;;
    output) in_session 4 -- bash "$0" --output ;;
    mpi)
        if mpicc.mpich -O1 -o "$TMPDIR/mpi_hello" "$SRCDIR/t/bench/mpi_hello.c" 2>/dev/null; then
            in_session 4 -- env BENCH_NODES=4 "$BENCH_DIR/bench_launch" mpi "$TMPDIR/mpi_hello" 16 64 256
        else
            echo "MPICH is not installed"
        fi
        ;;
    *) echo "bench_jobs: no part '$part'" >&2; exit 1 ;;
    esac
done
