#!/usr/bin/env bash
# scripts/bench-compare: the figures of a run beside the numbers of README.md that are written for them.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
compare=$SRCDIR/scripts/bench-compare

ok "README.md has every number that is to be compared" "$compare" --check

cat >readme.md <<'END'
Text that is not a table: a hop of 8 us.

| what | bound | measured |
| --- | --- | --- |
| a hop | 10 us | 8 us |
| the same | - | 9 us; 0.012 ms |
| a rate; a ratio | - | 1,200 a second and more; 2.0 x to 4.0 x |
| memory | 1 MiB | 512 KiB |
| memory of others | 1 MiB | 3, 4, 5 MiB |

| program | one broker | four brokers |
| --- | --- | --- |
| HPCC, 4 | 0.80 | 0.87 |
END
cat >figures.txt <<'END'
# comment

a hop | 1 | a hop
a hop > the same | 1 | # others > the same
a hop > the same | 2 | # others > the same, p99
a rate | 1 | a rate
a rate | 2 | a rate | ratio
memory > memory of others | 2 | a name that is longer than the column which it has, by far
HPCC | 2.1 | HPCC
memory of others | 1 | a figure that nobody measures
END
figure() { # NAME VALUE UNIT [REFERENCE REF RATIO [AIM]]: as bench_lib.sh prints it
    printf '%-40s %9s %-5s  %-26s %9s %-5s %8s  %-10s %s\n' "$1" "$2" "$3" "${4-}" "${5-}" "${4:+$3}" "${6-}" "${7-}" "${7:+ok}"
}
{
    echo "== t/bench/bench_x.sh"
    figure "a hop, and more" 99 us
    figure "a hop" 8.20 us "UNIX socket" 4.00 x2.05 "<= x6"
    figure "the same" 70.0 us
    echo "# others"
    figure "the same" 9.00 us
    figure "the same, p99" 12.0 us
    figure "a rate" 5000 /s "64 x /bin/true" 2000 x2.50 ">= x3"
    figure "a name that is longer than the column which it has, by far" 3.90 MiB
    figure "HPCC" 0.80 s
} >run1
all=("$compare" --readme=readme.md --figures=figures.txt)

run "${all[@]}" run1
is "$status" 0 "a run that agrees with the README"
[ "$status" -eq 0 ] || note "$out $err"
like "$out" "a hop +8 us +8\.2 us +\+2\.5%" "a number of a row, that of the run, and the difference"
like "$out" "a hop > the same +9 us +9 us +\+0\.0%" "a name that occurs twice is found after another one"
like "$out" "a hop > the same +0\.012 ms +0\.012 ms" "units are converted"
like "$out" "a rate +1,200 a second and more +5000 a second +\+0\.0%" "a number without an upper end"
like "$out" "a rate +2\.0 x to 4\.0 x +2\.5 +\+0\.0%" "a ratio, within a range, and not the aim"
like "$out" "memory of others +4 +3\.9 MiB +-2\.5%" "a long name, and a unit that the next number has"
like "$out" "HPCC +0\.80 +0\.8 s +\+0\.0%" "a column"
like "$out" "7 compared, 0 outside 5%; 1 not measured in these runs" "their number"

run "${all[@]}" --tolerance=2% run1
is "$status" 1 "a smaller tolerance is exceeded"
is "$(grep -cE '[0-9]% +outside' <<<"$out")" 2 "by two of them"
exits 0 "a larger one is not" "${all[@]}" --tolerance=2.5 run1

sed 's/8\.20 us/12.0 us/' run1 >run2
sed 's/8\.20 us/8.00 us/' run1 >run3
run "${all[@]}" run2
is "$status" 1 "a run that differs"
like "$out" "a hop +8 us +12 us +\+50\.0% +outside, worse" "is told, and that it is worse than its aim wants"
like "$("${all[@]}" --missing run2)" "not measured: a figure that nobody measures" "so is what was not measured"
exits 0 "the median of three runs counts" "${all[@]}" run1 run2 run3
run "${all[@]}" - <run2
is "$status" 1 "a run is read from standard input"
run "${all[@]}" --json run2
is "$(python3 -c 'import json, sys; print(*(r["row"] for r in json.load(sys.stdin) if r["outside"]))' <<<"$out")" "a hop" "JSON says the same"
sed 's/x2\.50/x5.00/; s/5000/1100/' run1 >run4
run "${all[@]}" run4
like "$out" "2\.0 x to 4\.0 x +5 +\+25\.0% +outside, better" "a ratio above a range, as its aim wants it"
like "$out" "and more +1100 a second +-8\.3% +outside, worse" "a rate below its lower end"

bad() { # LINE WHAT: this line of figures.txt is refused
    echo "$1" >bad.txt
    exits 2 "$2" "$compare" --readme=readme.md --figures=bad.txt --check
}
bad "no such row | 1 | x" "a row that README does not have"
like "$err" "bad.txt:1: README has no row that begins with 'no such row'" "is named"
bad "memory | 1 | x" "a row that is not unique"
like "$err" "2 rows of README begin with 'memory'" "is named"
bad "a hop | 2 | x" "a number that the row does not have"
like "$err" "'a hop' of README has no number 2 in column 3" "is named"
bad "a hop | 1" "a line without a figure"
bad "a hop | first | x" "a number that is not one"
bad "a hop | 1 | x | percent" "a word that is not known"
echo "memory of others | 1 | a hop" >bad.txt
exits 2 "units that do not measure the same" "$compare" --readme=readme.md --figures=bad.txt run1
like "$err" "README has 3, and the run has 8.2 us" "are told"
echo nothing >empty
exits 2 "a run without figures" "${all[@]}" empty
like "$err" "none of README's figures is in these runs" "is told"
exits 2 "a run that is not there" "${all[@]}" missing
like "$err" "missing: No such file" "is told"
exits 2 "no run" "${all[@]}"
exits 2 "a tolerance that is not a percentage" "${all[@]}" --tolerance=much run1
exits 0 "help" "$compare" --help
finish
