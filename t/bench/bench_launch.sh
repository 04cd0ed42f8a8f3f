#!/bin/bash
# Starting jobs: the whole command `flux wreckrun` beside mpiexec.hydra and bare fork/exec.
#
#     bench_launch.sh
#
# Tasks of /bin/true in a session of one broker and of four, timed, and counted: the threads that
# are woken, the system calls and the requests of one launch; then the PMI exchange of 64 and 256
# processes over four brokers, beside the same program under hydra on this host; then 100 MB of
# output through the session, beside cat through a pipe.
uri=${FLUX_URI-} # of the session it runs in: bench_lib.sh starts without
. "$(dirname "$0")/bench_lib.sh"
export FLUX

if [ "${1-}" = --output ]; then
    export FLUX_URI=$uri
    mb=100
    megabytes() { # COMMAND...: MB/s of its standard output
        local begin=$EPOCHREALTIME bytes
        bytes=$("$@" | wc -c)
        [ "$bytes" -eq $((mb * 1000000)) ] || echo "bench_launch: $* wrote $bytes bytes" >&2
        awk -v a="$begin" -v b="$EPOCHREALTIME" -v n="$bytes" 'BEGIN { print n / 1e6 / (b - a) }'
    }
    rss() {
        local environ
        # shellcheck disable=SC2013 # such names have no blanks
        for environ in $(grep -lazxsF "FLUX_BENCH_ID=$FLUX_BENCH_ID" /proc/[0-9]*/environ); do
            case $(readlink "${environ%environ}exe") in
            */flux-broker | */flux-launcher)
                awk '/^VmHWM:/ { print $2 / 1024 }' "${environ%environ}status" ;;
            esac
        done | sort -n | tail -n 1
    }
    for _ in 1 2 3 4 5; do
        megabytes "$FLUX" wreckrun -n1 head -c ${mb}000000 /dev/zero >>"$TMPDIR/one"
        megabytes "$FLUX" wreckrun -N4 -n4 head -c $((mb / 4))000000 /dev/zero >>"$TMPDIR/four"
        megabytes sh -c "head -c ${mb}000000 /dev/zero | cat" >>"$TMPDIR/cat"
    done
    cat=$(median <"$TMPDIR/cat")
    figure "output of one task" "$(median <"$TMPDIR/one")" MB/s "cat in a pipe" "$cat"
    figure "output of tasks on 4 nodes" "$(median <"$TMPDIR/four")" MB/s "cat in a pipe" "$cat"
    figure "largest peak of a broker or launcher" "$(rss)" MiB
    exit
fi

export FLUX_BENCH_ID=$$-$RANDOM
for size in 1 4; do
    echo "-- $size broker(s)"
    in_session $size -- env BENCH_NODES=$size "$BENCH_DIR/bench_launch" true
    in_session $size -- env BENCH_NODES=$size "$BENCH_DIR/bench_launch" count $size
done
in_session 4 -- env BENCH_NODES=4 "$BENCH_DIR/bench_launch" pmi "$BENCH_DIR/pmi_exchange"
in_session 4 -- bash "$SRCDIR/t/bench/bench_launch.sh" --output
