#!/usr/bin/env bash
# The application of streams in examples/crack: a small crystal breaks, and is analyzed meanwhile; the
# results are compared with LAMMPS' own computes, atom by atom.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need lmp
need_flux start stream wreckrun resource
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || skip_all "LAMMPS cannot load a Python package with sanitizers"
[ -e "$BUILDDIR/src/bindings/python/lib/flux/_libflux.so" ] || skip_all "the Python package has not been built"
# The interpreter that LAMMPS has inside is Debian's.
/usr/bin/python3 -c '
from importlib.util import find_spec
raise SystemExit(not all(map(find_spec, ("lammps", "numpy", "_cffi_backend"))))' ||
    skip_all "Debian's Python has no lammps, numpy or cffi"
export CRACK_PROGRAMS=$BUILDDIR/examples/crack OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PYTHONDONTWRITEBYTECODE=1
crack=$SRCDIR/examples/crack/crack

hold 8 # a core for each task of the stages, whatever the host has
run "$FLUX" env "$crack" --size=10,10,3 --ranks=2 --helpers=2 --strain=0.13 --steps=3000 --every=10 --cna=3 --check \
    --record=rec
is "$status" 0 "a crystal is pulled until it breaks, and a little longer"
text=$out
note "$text $err"
like "$text" "check: [0-9]+ steps of csym and 3 of cna, 1197 atoms each: 0 values differ" \
    "central symmetry and common neighbors are those that LAMMPS computes"
broken=$(sed -n 's/^csym: time \([0-9]*\): the lattice breaks.*/\1/p' <<<"$text")
begun=$(sed -n 's/^cna: time \([0-9]*\): .*/\1/p' <<<"$text" | head -n 1)
ok "the costly analysis joins after the lattice has broken, at time $broken" [ "$begun" -gt "$broken" ]
left=$(sed -n 's/^csym: .* the end: .* x \([0-9]*\)\..*/\1/p' <<<"$text")
ok "the crack begins at the tip of the notch, which is at 4.6" [ "$left" -ge 4 ]
if command -v gnuplot >/dev/null; then
    ok "its recordings are drawn" "$FLUX" env "$SRCDIR/examples/crack/figure" rec crack.png
    is "$(head -c 8 crack.png | od -An -c | tr -d ' ')" '211PNG\r\n032\n' "as an image"
fi
mkdir empty
exits 1 "what was not recorded" "$FLUX" env "$SRCDIR/examples/crack/figure" empty no.png
is "$(ls no.png 2>/dev/null)" "" "is not drawn"
run "$FLUX" env "$crack" --size=10,10,3 --helpers=2 --strain=0.13 --steps=140 --every=10 --cna=15 --always --files=files
is "$status" 0 "the same through files, one stage after the other"
is "$(grep breaks <<<"$out")" "$(grep breaks <<<"$text")" "has the same result"
made=(files/crack.*.14.*)
is "${#made[@]}/$(grep -c '^cna: time' <<<"$out")" 8/15 "for all steps"
is "$("$FLUX" stream ls | wc -l)" 1 "no stream is left"
exits 1 "more tasks than cores" "$FLUX" env "$crack" --ranks=1000
like "$err" "cores are free, and the stages, which run together, need 1005" "are not begun"
exits 1 "a stage without its program" env CRACK_PROGRAMS="$PWD" "$FLUX" env "$crack"
like "$err" "/helper is not there: CRACK_PROGRAMS names" "is told before others wait for it"
exits 2 "an option that there is not" "$crack" --cells=3
like "$err" "'--cells=3' is not an option" "is told"
release
is "$status" 0 "the session ends well"
finish
