#!/usr/bin/env bash
# flux sim on logs of the Parallel Workloads Archive, whose contributors are to be thanked:
# KTH-SP2 (Lars Malinowsky), SDSC-SP2 (Victor Hazlewood), LLNL-Thunder (Moe Jette).  They are not
# part of the sources: FLUX_TRACES names the directory that has them.
# The figures come from an independent program.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux version
"$FLUX" sim --help >/dev/null 2>&1 || skip_all "flux sim has not been built"
need python3
kth=${FLUX_TRACES:-}/KTH-SP2-1996-2.1-cln.swf.gz
sdsc=${FLUX_TRACES:-}/SDSC-SP2-1998-4.2-cln.swf.gz
thunder=${FLUX_TRACES:-}/LLNL-Thunder-2007-1.1-cln.swf.gz
for log in "$kth" "$sdsc" "$thunder"; do
    [ -r "$log" ] || skip_all "FLUX_TRACES names no directory of logs"
done

# Jobs, mean wait, sum of starts of each policy.
figures() {
    "$FLUX" sim "$@" --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
print("; ".join("%d %.5f %d" % (x["jobs"], x["mean_wait_h"], x["sum_start"])
                for x in (r if isinstance(r, list) else [r])))'
}
all=('--queue=fcfs,easy,conservative' --select=count)
is "$(figures "$kth" --nodes=100 "${all[@]}")" \
    "28467 98.31943 442870755172; 28467 1.89930 432989505143; 28467 2.03316 433003223068" "KTH"
is "$(figures "$sdsc" --nodes=128 "${all[@]}")" \
    "54034 426.77864 1576726436266; 54034 5.71562 1494820247369; 54034 6.04380 1494884086380" "SDSC"
is "$(figures "$thunder" --nodes=1002 --ppn=4 "${all[@]}")" \
    "113613 2.35863 712552991454; 113613 0.08818 711624359555; 113613 0.19079 711666329546" "Thunder"

for mult in 1 2; do
    ok "derive, sizes x $mult" "$FLUX" sim derive "$thunder" --ppn=4 --from-day=30 --days=30 \
        --max-nodes=256 --machine=1296 --load=0.83 --mult=$mult --output=month$mult.swf
done
policies=('--select=first-fit,interference-free' '--speedup=none,V2')
is "$(figures month1.swf --tree=4,18,18 "${policies[@]}")" \
    "29377 0.15259 27840417257; 29377 0.15259 27840417257; 29377 0.12169 27837149500; 29377 0.06354 27830999401" \
    "a month on 1296 nodes"
# Doubling sizes and the machine changes nothing under first-fit.
is "$(figures month2.swf --tree=8,18,18 "${policies[@]}")" \
    "29377 0.15259 27840417257; 29377 0.15259 27840417257; 29377 0.11271 27836199658; 29377 0.04288 27828814828" \
    "sizes doubled, on the double machine"
is "$(figures month2.swf --tree=4,18,18 "${policies[@]}" | sed 's/ [0-9]*\(;\|$\)/\1/g')" \
    "29377 36.55848; 29377 36.55848; 29377 12.28979; 29377 7.65826" "sizes doubled, on 1296 nodes"
is "$(figures month2.swf --tree=4,18,18 "${policies[@]}" --depth=128 | sed 's/ [0-9]*\(;\|$\)/\1/g')" \
    "29377 122.87516; 29377 122.87516; 29377 105.58276; 29377 52.54479" "the same, depth 128"

ok "a schedule" "$FLUX" sim month1.swf --tree=4,18,18 --select=interference-free --schedule=m.csv
ok "shares no link" "$FLUX" sim check m.csv --tree=4,18,18 --trace=month1.swf

ok "figures" "$FLUX" sim month1.swf --tree=4,18,18 --figures=figures
if [ -r "$SRCDIR/doc/images/sim-hops.svg" ]; then
    ok "the figure of the README is what its command makes" cmp figures/hops.svg "$SRCDIR/doc/images/sim-hops.svg"
fi

sim=$(printf '%q' "$FLUX")" sim"
ok "every start and list of a month is that of the second implementation" \
    python3 "$SRCDIR/t/sim-ref/compare.py" --sim="$sim" --trace=month1.swf --tree=4,18,18 --queue=easy \
    --select=first-fit,compact,buddy,interference-free
# and_of LOG OPTION...: all of it, on that machine
and_of() {
    ok "and of ${1##*/}" python3 "$SRCDIR/t/sim-ref/compare.py" --sim="$sim" --trace="$1" "${@:2}" \
        --queue=fcfs,easy,conservative --select=first-fit
}
and_of "$kth" --nodes=100
and_of "$sdsc" --nodes=128
and_of "$thunder" --nodes=1002 --ppn=4
finish
