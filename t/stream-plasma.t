#!/usr/bin/env bash
# The application of streams in examples/plasma: four tasks simulate electrons, and others make histograms
# of what they write in two streams; NumPy makes the same of the data in files. Through files it all comes
# to the same.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux start stream wreckrun resource
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || skip_all "Python cannot load a package with sanitizers"
[ -e "$BUILDDIR/src/bindings/python/lib/flux/_libflux.so" ] || skip_all "the Python package has not been built"
/usr/bin/python3 -c '
from importlib.util import find_spec
raise SystemExit(not all(map(find_spec, ("numpy", "_cffi_backend"))))' || skip_all "Debian's Python has no numpy or cffi"
plasma=$SRCDIR/examples/plasma/plasma
options=(--particles=8001 "--mesh=32,18" --steps=200 --every=20 --mesh-every=5)

# What does not depend on the time that a run took.
results() {
    sed -n 's/ steps in .*/ steps/; /^\(simulate\|particles\|mesh\): /p' | sort
}

hold 10 # a core for each task of the stages, whatever the host has
run "$FLUX" env "$plasma" "${options[@]}" --histograms=2 --check --record=rec
is "$status" 0 "a plasma is simulated, with histograms in two processes of each kind"
note "$out $err"
streams=$(results <<<"$out")
like "$out" "check: 11 steps of particles: 0 bins differ" "those of the particles are what NumPy makes of the data in files"
like "$out" "check: 41 steps of mesh: 0 bins differ" "those of the mesh, which is written more often, too"
like "$streams" "particles: time [0-9]+: the beams mix" "the electrons fill the gap between the beams"
read -r from to change < <(sed -n 's/^simulate: .* from \(.*\) to \(.*\); .* by \(.*\)%$/\1 \2 \3/p' <<<"$out")
ok "as the wave has grown, from $from to $to" awk "BEGIN { exit !($to > 5 * $from) }"
ok "while energy is kept: it changes by $change%" awk "BEGIN { exit !($change < 2) }"
is "$("$FLUX" stream ls | wc -l)" 1 "no stream is left"

run "$FLUX" env "$plasma" "${options[@]}" --histograms=3 --check --files=files
is "$status" 0 "the same through files, with three processes of each kind"
is "$(results <<<"$out")" "$streams" "has the same result"
made=(files/plasma.mesh.40.*)
is "${#made[@]}" 4 "from as many writers, and steps"
run "$FLUX" env "$plasma" "${options[@]}" --ranks=3 --histograms=1 --seed=2 --check --files=files
is "$status/$(grep -c ' 0 bins differ' <<<"$out")" 0/2 "other shares, and another seed, are right, too"
isnt "$(results <<<"$out")" "$streams" "and another run"
printf '\1' | dd of=files/plasma.particles.counts.3.0 bs=1 seek=4096 conv=notrunc status=none
exits 1 "a count that was changed" "$FLUX" env /usr/bin/python3 -B "$SRCDIR/examples/plasma/check.py" files
like "$out" "11 steps of particles: [1-9][0-9]* bins differ" "is found"

exits 2 "an option that there is not" "$plasma" --cells=3
like "$err" "'--cells=3' is not an option" "is told"
exits 2 "a number of tasks that is not one" "$plasma" --ranks=many
like "$err" "'many' is not a number" "is told"
exits 2 "a mesh of one dimension" "$plasma" --mesh=64
like "$err" "--mesh=64: it has columns and rows" "is told"
exits 2 "a stage without tasks" "$plasma" --histograms=0
exits 1 "more tasks than cores" "$FLUX" env "$plasma" --ranks=1000
like "$err" "cores are free, and the stages, which run together, need 1006" "are not begun"
exits 2 "a text that is not a number" "$FLUX" env /usr/bin/python3 -B "$SRCDIR/examples/plasma/histogram.py" mesh --readers=x
like "$err" "--readers=x: not a number from 0 on" "is told"
release
is "$status" 0 "the session ends well"
finish
