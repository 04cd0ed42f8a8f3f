#!/usr/bin/env bash
# Three levels of sessions: each has its share, decides about that alone, and no core is used twice.
# shellcheck disable=SC2016,SC2154 # the scripts expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start batch submit resource
# shellcheck source=t/nest/lib.sh
. "$SRCDIR/t/nest/lib.sh"

nodes 4 4
hold 4 --set=resrc.config="$PWD/res.lua"

# Level 3: one core.
cat >l3.sh <<END
#!/bin/sh
"$FLUX" getattr instance-level >level3
"$FLUX" submit --quiet --wait --cc=1-3 "$LEAF"
"$PROOF"
END
# Level 2: two cores of one node; two sessions within, and jobs beside them.
cat >l2.sh <<END
#!/bin/sh
"$FLUX" resource list >resources2.\$1
"$FLUX" batch -N1 --wait --quiet -O l3.\$1.1 l3.sh &
"$FLUX" batch -N1 --wait --quiet -O l3.\$1.2 l3.sh &
"$FLUX" submit --quiet --wait --cc=1-3 "$LEAF"
wait
"$PROOF"
END
# Level 1: two nodes with four cores each; four sessions within, and jobs beside them.
cat >l1.sh <<END
#!/bin/sh
#FLUX: -N2 -n4 -c2
"$FLUX" resource list >resources1
"$FLUX" getattr jobid >jobid1
"$FLUX" getattr parent-uri >parent1
for i in 1 2 3 4; do
    "$FLUX" batch -N1 -n2 --wait --quiet -O l2.\$i l2.sh \$i &
done
"$FLUX" submit --quiet --wait --cc=1-6 "$LEAF"
wait
"$PROOF"
exit 3
END
start_bg "$FLUX" submit --quiet --wait --cc=1-40 "$LEAF"
jobs=$bg
run run_with_timeout 60 "$FLUX" batch --wait -O l1.out l1.sh
is "$status" 3 "the exit code comes up" || note "$(cat l1.out l2.* l3.*)"
wait "$jobs"
is $? 0 "jobs beside it"
"$PROOF"
is "$(cat level3 2>/dev/null)" 3 "three levels"
is "$(cat jobid1)" "$out" "a session knows its number in the session around it"
like "$(cat parent1)" '^local:///' "and where that is"
is "$(cat violations 2>/dev/null)" "" "no core was used twice at a time"
is "$(find cores -mindepth 1 | wc -l)" 0 "all were given back"
is "$(wc -l <used)" $((40 + 6 + 4 * 3 + 8 * 3)) "all jobs ran"
is "$(sort proved | uniq -c | awk '{ print $3 "x" $1 }' | tr '\n' ' ')" "0x1 1x1 2x4 3x8 " \
    "the event logs of all thirteen sessions and of this one prove it"
like "$(cat resources1)" "2 +8 " "level 1 has two nodes, eight cores"
like "$(cat resources2.1)" "1 +2 " "level 2 has one node, two cores"
ok "nobody is left" wait_until 5 only_this_session
release
finish
