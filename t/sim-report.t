#!/usr/bin/env bash
# flux sim --report and --figures: pages that parsers of XML and HTML understand, with the values
# that the table and --json give.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux version
need python3
"$FLUX" sim --help >/dev/null 2>&1 || skip_all "flux sim has not been built"

need gnuplot
page() {
    python3 "$SRCDIR/t/sim-ref/report.py" "$@"
}
# values FIGURE [BLOCK]: the rows of one data block of its script, or of all
values() {
    sed -n "/^\$${2:-} *.*<< EOD/,/^EOD/p" "figs/$1.gp" | grep -vE '^(\$|#|EOD)'
}
# ID SUBMIT RUNTIME NODES ESTIMATE
job() {
    echo "$1 $2 -1 $3 $4 -1 -1 $4 $5 -1 1 -1 -1 -1 -1 -1 -1 -1"
}
{
    job 1 0 7200 2 7200
    job 2 1 7200 4 7200
    job 3 2 7200 10 7200
    job 4 3600 3600 4 7200
    job 5 3601 1800 1 3600
    job 6 7200 3600 20 3600
} >hand.swf

ok "a report" "$FLUX" sim hand.swf --tree=2,3,3 --select=first-fit,interference-free,count \
    --report=out.html --figures=figs --json=out.json
is "$(page out.html outside)" "" "it needs nothing from elsewhere"
is "$(page out.html ids)" \
    "asked gantt-1 gantt-2 hops makespan metrics sizes utilization waits workloads" "its tables and figures"
want=$(python3 -c '
import json
for r in json.load(open("out.json")):
    print("%s %s|%.5f|%d|%d" % (r["queue"], r["select"], r["mean_wait_h"], r["jobs_sharing_links"], r["sum_start"]))')
is "$(page out.html table metrics | tail -n +2 | cut -d'|' -f1,2,10,11)" "$want" "the metrics are those of --json"
is "$(page out.html repeated)" "" "no id stands for two elements"
# Job 4 waits for leaves of its own until job 2 ends.
is "$(values waits waits1 | grep '^1-4 ' | cut -d' ' -f3)" 0.25007 "mean wait by size"
is "$(values waits | grep -c .)" 9 "sizes that no job has, have no bar"
is "$(values asked)" "0 16
1 5" "nodes asked for per hour"
is "$(values sizes)" "1 1 0 1
2 2 1 1
4 4 3 2
10 10 9 1" "sizes"
is "$(values gantt-2 | sort -n)" "1 2 0 1 0.00 2.00
2 4 3 6 0.00 2.00
3 10 2 2 0.00 2.00
3 10 9 17 0.00 2.00
4 4 3 6 2.00 3.00
5 1 7 7 1.00 1.50" "who was where"
is "$(values gantt-2 jobs2 | cut -d' ' -f1 | uniq)" 3 "the job in both pods has a color of its own"
is "$(page out.html table workloads | cut -d'|' -f1,2 | tail -n +2)" "this workload on this machine|5
sizes doubled, on this machine|4
sizes doubled, on a machine of twice as many pods|5" "workloads of the comparison"
is "$(values utilization | cut -d'"' -f2 | tr '\n' ,)" \
    "TO,TA,TA 5%,TA 10%,TA 20%,TA V1,TA V2," "a box for each policy"
is "$(values makespan makespan0)" '"TO" 0.5 3.000' "makespan"
is "$(values hops hops1 | grep '^.5-18' | cut -d' ' -f3-)" "2.0000 2.0000 2.0000 2.0000 2.0000" "hops by size"
for f in figs/*.svg; do
    ok "$f is the figure of the page" python3 -c '
import sys
page, figure = open("out.html").read(), open(sys.argv[1]).read()
sys.exit(figure not in page)' "$f"
done
is "$(cd figs && echo *.svg)" \
    "asked.svg gantt-1.svg gantt-2.svg hops.svg makespan.svg sizes.svg utilization.svg waits.svg" "all figures"
gnuplot figs/hops.gp >hops.svg 2>err
like "$(cat hops.svg)" "TA, 18 nodes" "a script draws its figure again"
mkdir bin
printf '#!/bin/sh\necho "no such terminal" >&2\nexit 3\n' >bin/gnuplot
chmod +x bin/gnuplot
exits 1 "a gnuplot that fails" env PATH="$PWD/bin:$PATH" "$FLUX" sim hand.swf --nodes=18 --report=fail.html
like "$err" "gnuplot failed with exit code 3: no such terminal" "said"
rm bin/gnuplot
exits 1 "no gnuplot" env PATH="$PWD/bin" "$FLUX" sim hand.swf --nodes=18 --report=fail.html
like "$err" "gnuplot does not start: No such file or directory .Debian: apt-get install gnuplot-nox." "said"
ok "no page then" test ! -e fail.html

# Names are text, whatever they hold.
name=$'<script>alert(1)</script> & "q" \001\xff\xc3\xa9.swf'
mkdir names
cp hand.swf "names/${name//\//-}"
ok "a name with markup" "$FLUX" sim "names/${name//\//-}" --nodes=18 --report=name.html
is "$(page name.html outside)" "" "makes no element"
is "$(page name.html title)" 'flux sim: <script>alert(1)<-script> & "q" ??é.swf' "and is seen as it is"
is "$(page name.html ids)" "asked gantt-1 makespan metrics sizes utilization waits" "a machine without switches"

# A machine from a file: nothing is doubled.
printf 'SwitchName=a Nodes=n[0-8]\nSwitchName=b Nodes=n[9-17]\nSwitchName=c Switches=a,b\n' >topology.conf
ok "a machine from a file" "$FLUX" sim hand.swf --topology=topology.conf --report=file.html
is "$(page file.html table workloads | tail -n +2 | cut -d'|' -f1)" "this workload on this machine" "one workload"

if [ -c /dev/full ]; then
    exits 1 "a full disk" "$FLUX" sim hand.swf --tree=2,3,3 --report=/dev/full
    like "$err" "cannot write /dev/full: No space left" "said"
fi
exits 1 "no such directory" "$FLUX" sim hand.swf --tree=2,3,3 --report=none/out.html
like "$err" "cannot write none/out.html" "said"
exits 1 "figures in place of a file" "$FLUX" sim hand.swf --tree=2,3,3 --figures=hand.swf
like "$err" "hand.swf" "said"
finish
