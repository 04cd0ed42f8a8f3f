#!/usr/bin/env bash
# flux sim: small logs by hand, check, derive, bad input, files that are complete or not there.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux version
"$FLUX" sim --help >/dev/null 2>&1 || skip_all "flux sim has not been built"

# ID SUBMIT RUNTIME NODES ESTIMATE
job() {
    echo "$1 $2 -1 $3 $4 -1 -1 $4 $5 -1 1 -1 -1 -1 -1 -1 -1 -1"
}
starts() {
    tail -n +2 "$1" | cut -d, -f1,3,6 | tr '\n' ' '
}

# The figure machine, by hand.
{
    echo "; a comment"
    job 1 0 100 2 100
    job 2 1 100 4 100
    job 3 2 100 10 100
    job 4 3 100 4 100
    job 5 4 10 1 10
} >hand.swf
ok "interference-free by hand" "$FLUX" sim hand.swf --tree=2,3,3 --select=interference-free --schedule=hand.csv
is "$(starts hand.csv)" "1,0,0-1 2,1,3-6 3,2,2|9-17 4,101,3-6 5,4,7 " "as the rules say"
ok "no link is shared" "$FLUX" sim check hand.csv --tree=2,3,3 --trace=hand.swf
like "$out" "5 jobs: nothing is wrong, and no link was shared" "and it says so"
gzip -k hand.swf
ok "compressed" "$FLUX" sim hand.swf.gz --tree=2,3,3 --select=interference-free --schedule=hand2.csv
ok "the same" cmp hand.csv hand2.csv

# The same as a CSV.
cat >hand.sacct <<'END'
User|JobID|NNodes|Timelimit|Submit|Elapsed
a|1|2|00:01:40|1970-01-01T00:00:00|00:01:40
a|2|4|100|1970-01-01T00:00:01|100
a|3|10|0-00:01:40|2|00:01:40
a|4|4|00:01:40|3|00:01:40
a|5|1|UNLIMITED|4|00:00:10
END
ok "CSV" "$FLUX" sim hand.sacct --tree=2,3,3 --select=interference-free --schedule=hand3.csv
ok "the same" cmp hand.csv hand3.csv

# Lists multiply out; JSON is an array then.
ok "lists" "$FLUX" sim hand.swf --tree=2,3,3 --queue=fcfs,easy --select=count,first-fit --json=all.json
is "$(grep -c '"mean_wait_h":' all.json)" 4 "four results"
like "$out" "fcfs count.*easy first-fit" "a column for each"
ok "one" "$FLUX" sim hand.swf --tree=2,3,3 --json
like "$out" '^\{' "an object"

# A queue policy has the same argument as in a session.
for policy in conservative replan; do
    ok "$policy:all" "$FLUX" sim hand.swf --tree=2,3,3 --queue=$policy,$policy:all,$policy:1 --schedule=n.csv
    ok "is what $policy is" cmp n-$policy-first-fit.csv n-$policy:all-first-fit.csv
done
exits 2 "no reservation" "$FLUX" sim hand.swf --tree=2,3,3 --queue=conservative:0
like "$err" "queue policy conservative: the number of reservations is 1 to" "said"
exits 2 "an argument that there is not" "$FLUX" sim hand.swf --tree=2,3,3 --queue=fcfs:3
ok "a depth" "$FLUX" sim hand.swf --tree=2,3,3 --queue=easy:depth=1 --schedule=depth1.csv
ok "as an option" "$FLUX" sim hand.swf --tree=2,3,3 --queue=easy --depth=1 --schedule=depth2.csv
ok "is the same" cmp depth1.csv depth2.csv

# Known overlaps, nodes numbered from 0 here.
schedule() {
    local n=0 list
    echo "job,submit,start,end,nodes,nodelist"
    for list in "$@"; do
        n=$((n + 1))
        echo "$n,0,$n,100,$(tr '|' '\n' <<<"$list" | awk -F- '{n += NF > 1 ? $2 - $1 + 1 : 1} END {print n}'),$list"
    done
}
schedule '0|3' '1-2|4|9-10' '6|12-13' >a.csv
exits 1 "overlaps" "$FLUX" sim check a.csv --tree=2,3,3
is "$(cut -d' ' -f2,4,10-11 <<<"$out" | sort)" "1 2 leaf 0
1 2 leaf 1
2 3 pod 0
2 3 pod 1" "leaves 0 and 1, pods 0 and 1"
schedule 0-1 '2|9-17' '3-4|6-7' >b.csv
ok "no overlap" "$FLUX" sim check b.csv --tree=2,3,3
schedule '0|6' '2|9-17' '3-4|1|7' >c.csv
exits 1 "with two nodes exchanged" "$FLUX" sim check c.csv --tree=2,3,3
is "$(cut -d' ' -f2,4,10-11 <<<"$out" | sort)" "1 2 leaf 0
1 3 leaf 0
1 3 leaf 2
2 3 leaf 0" "leaf 0 by each pair, leaf 2 by the first and the third"
schedule 0-3 3-4 >d.csv
exits 1 "a node twice" "$FLUX" sim check d.csv --tree=2,3,3
like "$out" "jobs 1 and 2 both hold node 3 from 2 to 100 \(d.csv, lines 2 and 3\)" "said"
exits 1 "a tree of another size" "$FLUX" sim check b.csv --tree=1,3,3
like "$out" "b.csv, line 3: job 2: a node of its list is not of this machine" "said"
sed 2p hand.csv >twice.csv
exits 1 "a job twice" "$FLUX" sim check twice.csv --nodes=18
like "$out" "twice.csv, line 3: job 1: it occurs more than once" "said"
sed 2d hand.csv >less.csv
exits 1 "a job less" "$FLUX" sim check less.csv --tree=2,3,3 --trace=hand.swf
like "$out" "hand.swf, line 2: job 1: it is in the log and not in the schedule" "said"

# derive
ok "derive" "$FLUX" sim derive hand.swf --machine=18 --load=0.5 --mult=2
is "$(grep -v '^;' <<<"$out" | cut -d' ' -f1,2,5,9 | tr '\n' ' ')" \
    "1 0 4 100 2 55 8 100 3 111 20 100 4 167 8 100 5 223 2 10 " "stretched, doubled, renumbered"

# Bad input: a sentence with file and line, exit code 1, and no output.
bad() {
    local desc=$1 want=$2
    exits 1 "$desc" "$FLUX" sim bad.swf --tree=2,3,3 --schedule=bad.csv --json=bad.json
    like "$err" "$want" "$desc: said"
    ok "$desc: nothing is left" sh -c '! ls bad.csv* bad.json* 2>/dev/null'
}
{ cat hand.swf; echo "6 5 -1 10"; } >bad.swf
bad "a short line" "bad.swf, line 7 is too short"
{ job 1 0 10 1 10; job 2 99999999999999 10 1 10; } >bad.swf
bad "out of range" "bad.swf, line 2: the submit time '99999999999999' is out of range"
{ job 1 0 10 1 10; job x 1 10 1 10; } >bad.swf
bad "not a number" "bad.swf, line 2: the id 'x' is not a number"
head -c 100 hand.swf.gz >bad.swf
bad "a broken .gz" "bad.swf, line [0-9]*: the compressed file is broken"
: >bad.swf
bad "an empty file" "bad.swf holds no job"
exits 1 "no such file" "$FLUX" sim none.swf --nodes=1
echo "JobID,NNodes,Submit,Elapsed" >bad.swf
bad "a CSV without limits" "line 1: there is no column Timelimit"
printf 'JobID,NNodes,Timelimit,Submit,Elapsed\n1,1,10,2020-02-30T00:00:00,5\n' >bad.swf
bad "a day that is not" "line 2: Submit '2020-02-30T00:00:00' is not a time"
if [ -c /dev/full ]; then
    exits 1 "a full disk" "$FLUX" sim hand.swf --tree=2,3,3 --schedule=/dev/full
    like "$err" "cannot write /dev/full: No space left" "said"
fi
echo old >kept.csv
exits 1 "a file-size limit" bash -c "trap '' XFSZ; ulimit -f 0; exec '$FLUX' sim hand.swf --tree=2,3,3 --schedule=kept.csv"
is "$(cat kept.csv)" old "the old file is as it was"
ok "and nothing lies beside it" sh -c '! ls kept.csv.* 2>/dev/null'

# Usage errors.
exits 2 "no machine" "$FLUX" sim hand.swf
exits 2 "two machines" "$FLUX" sim hand.swf --nodes=3 --tree=1,1,1
exits 2 "an unknown policy" "$FLUX" sim hand.swf --nodes=18 --select=best
exits 2 "conservative and a topology policy" \
    "$FLUX" sim hand.swf --tree=2,3,3 --queue=conservative --select=interference-free
exits 2 "an unknown speedup" "$FLUX" sim hand.swf --nodes=18 --speedup=V3
finish
