#!/usr/bin/env bash
# scripts/stream-figures: from small runs come values of everything that it measures, and figures of them.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux start stream wreckrun resource
figures=$SRCDIR/scripts/stream-figures
measures='join throughput sizes' drawn='join pieces throughput sizes'
# LAMMPS and Python load no package with sanitizers.
if [ -z "${FLUX_TEST_SANITIZERS:-}" ] && [ -e "$BUILDDIR/src/bindings/python/lib/flux/_libflux.so" ] &&
    /usr/bin/python3 -c 'import numpy, _cffi_backend' 2>/dev/null; then
    measures="plasma $measures" drawn="output total $drawn"
    if command -v lmp >/dev/null && /usr/bin/python3 -c 'import lammps' 2>/dev/null; then
        measures="crack $measures" drawn="bytes $drawn"
    fi
fi

run "$figures" -q -b "$BUILDDIR" -m "$measures" -o made
is "$status" 0 "small runs of: $measures"
[ "$status" -eq 0 ] || note "$out $err"
is "$(head -n 1 made/stream-figures.csv)" what,way,n,name,unit,value "give a table"
is "$(grep -cvE '^([a-z]+,[a-zA-Z]+,[0-9]+,[a-z. 0-9]+,(s|ms|us|MB|GB/s|steps),[-+e.0-9]+|what,.*)$' made/stream-figures.csv)" 0 \
    "of which each line is a value"
# values WHAT WAY NAME [LEAST]: for how many ranks or writers it has a value, of at least this.
values() {
    awk -F, -v a="$1" -v b="$2" -v c="$3" -v d="${4:-0}" '$1 == a && $2 == b && $4 == c && $6 >= d' made/stream-figures.csv | wc -l
}
for way in memory TCP; do
    is "$(values join $way join)/$(values join $way "tell new pieces")/$(values join $way "read new pieces")" 2/2/2 \
        "with late readers and pieces, over writers, by $way"
    is "$(values throughput $way "to 1")" 2 "with the throughput over writers, by $way"
    is "$(values sizes $way stream)/$(values sizes $way floor)" 2/2 "with the rate of steps over their size, and its floor, by $way"
done
is "$(values join memory "read new pieces by 8")" 2 "with the pieces of writers to 8 readers"
for name in plasma crack; do
    [[ " $measures " == *" $name "* ]] || continue
    is "$(values $name streams total)/$(values $name files total)" 2/2 "with times of $name, by streams and by files"
    is "$(values $name streams "output simulate")/$(values $name files "output simulate")" 2/2 "also of its output"
    [ $name = plasma ] || {
        # In so short a run, the switch may be turned on when the last step is over.
        late=$(values crack late "read cna") always=$(values crack always "read cna" 0.1)
        is "$late/$always" 1/1 "with what the analysis of crack reads, switched on late and in all steps"
        like "$out" "CNA switched on late reads [1-9][0-9]{0,2}% less, and all stages together [1-9][0-9]?% less" "and how much is saved"
    }
done
if command -v gnuplot >/dev/null; then
    for name in $drawn; do
        ok "there is a figure: $name" grep -q '</svg>' "made/stream-$name.svg"
    done
    rm made/*.svg
    run "$figures" -d -o made -b "$BUILDDIR"
    is "$status/$(find made -name "*.svg" | wc -l)" "0/$(wc -w <<<"$drawn")" "they are drawn anew from the table"
fi
exits 2 "an option that there is not" "$figures" -x
exits 1 "no runs" "$figures" -n 0 -b "$BUILDDIR"
like "$err" "'0' is not a number of runs" "are told"
exits 1 "a measurement that there is not" "$figures" -b "$BUILDDIR" -m weather
like "$err" "'weather' is not one of crack, plasma, join, throughput and sizes" "is told"
exits 1 "what was not measured" "$figures" -b "$BUILDDIR" -d -o none
like "$err" "none/stream-figures.csv is not there" "is not drawn"
finish
