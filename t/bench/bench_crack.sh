#!/bin/bash
# The application of streams in examples/crack: what the pipeline costs LAMMPS, and the same
# pipeline through files.
#
# CRACK_SIZE are the cells of the crystal, CRACK_STRAIN its first strain, with which it breaks
# after half of CRACK_STEPS steps of time; CRACK_RANKS are the MPI ranks of LAMMPS, beside which
# the analysis needs a processor, and CRACK_RUNS the runs of which the median counts. What is in
# output includes waiting for readers, and what is waited for a processor.
. "$(dirname "$0")/bench_lib.sh"

size=${CRACK_SIZE:-32,32,10} steps=${CRACK_STEPS:-600} ranks=${CRACK_RANKS:-1} runs=${CRACK_RUNS:-3}
strain=${CRACK_STRAIN:-0.075} every=50 helpers=1 bonds=1
crack=$SRCDIR/examples/crack
export CRACK_PROGRAMS=$BUILDDIR/examples/crack PYTHONDONTWRITEBYTECODE=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if ! command -v lmp >/dev/null; then
    echo "bench_crack: LAMMPS is not installed: . scripts/deps.sh && deps_install check" >&2
    exit 0
fi

# LAMMPS alone, and the pipeline; their output goes to a file.
alone() { # FILE
    IFS=, read -r width height depth <<<"$size"
    in_session 4 -- "$FLUX" wreckrun --overcommit -n "$ranks" lmp -in "$crack/crack.in" -screen none -log none \
        -var source "$crack" -var width "$width" -var height "$height" -var depth "$depth" -var strain "$strain" \
        -var steps "$steps" -var every "$every" -var readers 0 >"$1" || exit 1
}
pipeline() { # FILE OPTION...
    local file=$1 begin=$EPOCHREALTIME
    shift
    in_session 4 -- "$crack/crack" --size="$size" --ranks="$ranks" --helpers="$helpers" --bonds="$bonds" \
        --strain="$strain" --steps="$steps" --every="$every" --cna=1000000 "$@" >"$file" || exit 1
    echo "total: $(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }') s" >>"$file"
}
# The time of LAMMPS, that of a whole run, that in output of a stage (of all its tasks), and the
# bytes that it has read.
simulation() { sed -n 's/^simulate: .* steps in \([0-9.]*\) s.*/\1/p' "$1"; }
total() { sed -n 's/^total: \(.*\) s/\1/p' "$1"; }
output() {
    sed -nE "s/^$2.* ([0-9.]+) s (of it )?in output/\1/p" "$1" | awk '{ sum += $1 } END { print 1000 * sum }'
}
bytes() { sed -nE "s/^$2 [0-9]+: .* ([0-9.]+) MB.*/\1/p" "$1"; }

cd "$TMPDIR" || exit 1
for ((run = 0; run < runs; run++)); do
    alone alone.$run
    pipeline streams.$run
done
pipeline always.0 --always
pipeline files.0 --always --files="$TMPDIR/steps"
median_of() { # FUNCTION FILES [ARGUMENT]
    for file in "$TMPDIR/$2".*; do
        "$1" "$file" "${@:3}"
    done | median
}

echo "$(sed -n 's/^simulate: \(.* atoms\), \(.* steps\) in.*/\1, \2/p' alone.0), $ranks rank(s):" \
    "$(sed -n 's/^csym: \(time [0-9]*: the lattice breaks\).*/\1/p' streams.0)"
figure "LAMMPS with the pipeline" "$(median_of simulation streams)" s "without output" \
    "$(median_of simulation alone)" "<=x1.03"
for stage in simulate helper bonds csym cna; do
    figure "output of $stage, all steps" "$(output always.0 "$stage")" ms "into files" "$(output files.0 "$stage")"
done
figure "the whole run, CNA in all steps" "$(total always.0)" s "through files" "$(total files.0)"
figure "read by CNA, switched on late" "$(bytes streams.0 cna)" MB "in all steps" "$(bytes always.0 cna)"
du -sm steps | awk '{ print "    the files have " $1 " MB" }'
