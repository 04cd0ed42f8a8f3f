#!/usr/bin/env bash
# A session that knows its switches: where jobs are placed, and what users are told of it.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start resource module submit jobs job

states() {
    "$FLUX" jobs -a -n -o id,state "$@" | tr -s ' \n' ' '
}
is_state() {
    [ "$(states "$1")" = " $1 $2 " ] || [ "$(states "$1")" = "$1 $2 " ]
}
column() {
    "$FLUX" jobs -a -n -o "$2" "$1"
}

# --- two pods of three leaves of three nodes ---

cat >figure.lua <<'END'
resource { nodes = "n[0-17]", cores = 2, emulate = true }
END
hold 2 --set=resrc.config="$PWD/figure.lua" --set=resource.topology=2,3,3 \
    --set=sched.node-policy=interference-free
for n in 2 4 10 4 1; do
    "$FLUX" submit -N "$n" --exclusive sleep 1000 >/dev/null
done
for id in 1 2 3 5; do
    ok "job $id runs" wait_until 20 is_state "$id" running
done
is "$("$FLUX" jobs -n -o ranks 1-3 5 | tr '\n' ' ')" "0-1 3-6 2,9-17 7 " \
    "each job has the nodes that the policy is to choose"
is_state 4 pending
is $? 0 "a job that would share a link waits"

# --- where they are ---

is "$(column 2 switches,hops | tr -s ' ')" "leaf[1-2] 1.00" "columns say which leaves, and how far apart"
is "$(column 3 switches,hops | tr -s ' ')" "leaf[0,3-5] 2.00" "also over pods"
is "$(column 1 switches,hops | tr -s ' ')" "leaf0 0.00" "within a leaf there are no hops"
is "$(column 4 switches,hops | tr -s ' ')" "- -" "a job that waits is nowhere"
like "$("$FLUX" jobs --json 3)" '"switches": "leaf\[0,3-5\]",[[:space:]]+"hops": 2.0' "JSON has both"
unlike "$("$FLUX" jobs --json 4)" '"switches"|"hops"' "but not of a job that waits"
like "$("$FLUX" job info 3 eventlog)" '"name":"alloc","context":\{"switches":"leaf\[0,3-5\]","hops":2.0\}' \
    "it is recorded with the start"
ok "nodes are listed by switch" "$FLUX" resource list --by-switch
like "$out" "pod0 +leaf0 +3 +- +0-2 +- +1:0-1 3:2" "with the jobs on each"
like "$out" "pod0 +leaf2 +3 +8 +6-7 +- +2:6 5:7" "and what is free"
ok "and by pod" "$FLUX" resource list --by=pod
like "$out" "core +pod0 +9 +8 +0-7 +- +1:0-1 2:3-6 3:2 5:7" "with all jobs in it"
ok "the same as JSON" "$FLUX" resource list --by=pod --json
like "$(tr -d ' \n' <<<"$out")" '"name":"pod1","nnodes":9,"free":null,"allocated":"9-17","unusable":null,"pools":null,"jobs":\[\{"id":3,"ranks":"9-17"\}\]' \
    "has lists of jobs"
fails "by a level that there is not" "$FLUX" resource list --by=rack
like "$err" "no level 'rack' above its nodes; its levels are: core, pod, leaf" "it says which there are"
ok "the job module is reloaded" "$FLUX" module reload job
ok "a job that runs goes on" wait_until 20 is_state 3 running
is "$(column 3 switches,hops | tr -s ' ')" "leaf[0,3-5] 2.00" "where it is was read back"
ok "a job is canceled" "$FLUX" cancel 3
ok "the job that waited starts" wait_until 20 is_state 4 running
is "$(column 4 switches,ranks | tr -s ' ')" "leaf[3-4] 9-12" "on leaves that no other job crosses"
is "$(column 3 switches,hops | tr -s ' ')" "leaf[0,3-5] 2.00" "where an ended job was is still told"
ok "the job module is reloaded again" "$FLUX" module reload job
ok "the ended job is known" wait_until 20 is_state 3 canceled
is "$(column 3 switches,hops | tr -s ' ')" "leaf[0,3-5] 2.00" "and where it was"
release

# --- enough nodes are free, but not as the policy wants them ---

hold 1 --set=resrc.config="$PWD/figure.lua" --set=resource.topology=2,3,3 \
    --set=sched.node-policy=interference-free
why() {
    "$FLUX" jobs -n -o '{why}' "$1"
}
for n in 4 4 4 10; do
    "$FLUX" submit -N "$n" --exclusive -t 1h sleep 1000 >/dev/null
done
for id in 1 2; do
    ok "job $id runs" wait_until 20 is_state "$id" running
done
is "$("$FLUX" jobs -n -o ranks 1-2 | tr '\n' ' ')" "0-3 9-12 " "each has two leaves of a pod"
like "$(why 3)" "^waits for 4 nodes on leaves that no other job crosses: pod 0 has 3" "a third one waits, though ten are free"
like "$(why 4)" "^waits for 10 nodes in pods and on leaves that no other job crosses: there are 6" "as does one over pods"
ok "another policy is chosen" "$FLUX" queue policy --nodes=buddy
ok "which finds a block for the third one" wait_until 20 is_state 3 running
is "$(column 3 ranks)" "4-7" "that is aligned"
"$FLUX" submit -N 5 --exclusive -t 1h sleep 1000 >/dev/null
like "$(why 5)" "^waits for a block of 8 nodes that are all free: the largest has 2" "and none for another"
ok "then one that takes any nodes" "$FLUX" queue policy --nodes=first-fit
like "$(why 4)" "^waits for 10 whole nodes: 6 are free" "now only nodes are missing"
delayed() {
    [[ $(why 5) == "would delay job 4, "* ]]
}
ok "another job would take them" wait_until 20 delayed
like "$(why 5)" "^would delay job 4, which is to start at [0-9:-]+ ?[0-9:]* on any 10 nodes" "which are counted"
release

# --- a job that has waited for long enough is placed by compact ---

hold 1 --set=resrc.config="$PWD/figure.lua" --set=resource.topology=2,3,3 \
    --set=sched.node-policy=interference-free
for n in 4 4 4; do
    "$FLUX" submit -N "$n" --exclusive sleep 1000 >/dev/null
done
for id in 1 2; do
    ok "job $id runs" wait_until 20 is_state "$id" running
done
ok "a third one waits" is_state 3 pending
fails "no reservations beside it" "$FLUX" queue policy --queue=conservative
like "$err" "conservative does not go with the node policy interference-free" "the sentence says why"
ok "it may wait for less than it has" "$FLUX" queue policy --nodes=interference-free:wait=0.001
ok "so it runs" wait_until 20 is_state 3 running
is "$(column 3 ranks,switches | tr -s ' ')" "4,6-8 leaf[1-2]" "on a leaf that another job crosses"
release

# --- places that a configuration describes ---

cat >racks.lua <<'END'
resource { nodes = "n[0-3]", cores = 2, emulate = true, pools = { power = "10 kW" } }
places {
    { level = "row", name = "row0" },
    { level = "rack", name = "rack0", within = "row0", nodes = "n[0-1]", pools = "power" },
    { level = "rack", name = "rack1", within = "row0", nodes = "n[2-3]" },
    { level = "leaf", name = "s0", nodes = "n[0-2]" },
    { level = "leaf", name = "s1", nodes = "n3" },
}
END
hold 1 --set=resrc.config="$PWD/racks.lua"
ok "a node is drained" "$FLUX" resource drain 3 fan
ok "a job runs" "$FLUX" submit -N 3 --exclusive sleep 1000
ok "and gets its nodes" wait_until 20 is_state 1 running
is "$(column 1 switches,hops | tr -s ' ')" "s0 0.00" "leaves may come from the configuration"
ok "nodes are listed by rack" "$FLUX" resource list --by=rack
is "$(tr -s ' ' <<<"$out")" "ROW RACK NNODES FREE ALLOCATED UNUSABLE POOLS JOBS
row0 rack0 2 - 0-1 - power 1:0-1
row0 rack1 2 - 2 3 - 1:2" "with pools, drained nodes and jobs"
ok "and by row" "$FLUX" resource list --by=row
like "$out" "row0 +4 +- +0-2 +3 +1:0-2" "likewise"
release

hold 1
fails "without places" "$FLUX" resource list --by-switch
like "$err" "no description of what is above its nodes: set resource.topology" "the sentence says how to have some"
release

# --- what does not fit ends the start ---

refused() {
    fails "$1" session "$2" "${@:4}" -- true
    like "$err" "module resrc failed: $3" "with a sentence"
}
cat >short.conf <<'END'
SwitchName=s0 Nodes=n[0-9]
SwitchName=s1 Nodes=n[10-16]
SwitchName=top Switches=s[0-1]
END
echo "SwitchName=s0 Nodes=$(hostname),elsewhere[0-2]" >more.conf
sed 's/Nodes=n/Nodes=m/' short.conf >other.conf
printf '%s\n' 'SwitchName=s0 Nodes=n[0-17]' '# again' 'SwitchName=s1 Nodes=n3' 'SwitchName=t Switches=s[0-1]' \
    >twice.conf
refused "a tree of another size than the configuration" 1 \
    "resource.topology=2,3,4: this tree has 24 nodes, but the configuration has 18$" \
    --set=resrc.config="$PWD/figure.lua" --set=resource.topology=2,3,4
refused "a tree of another size than the session" 1 \
    "resource.topology=1,1,3: this tree has 3 nodes, but the number of brokers is 1$" \
    --set=resource.topology=1,1,3
refused "a file without one of the nodes" 1 "$PWD/short.conf: node n17 \(rank 17\) is not connected to a switch$" \
    --set=resrc.config="$PWD/figure.lua" --set=resource.topology="$PWD/short.conf"
refused "a file of other hosts" 1 "$PWD/other.conf: node .* \(rank 0\) is not connected to a switch$" \
    --set=resource.topology="$PWD/other.conf"
refused "a file with an error" 1 "$PWD/twice.conf line 3: .*n3" \
    --set=resrc.config="$PWD/figure.lua" --set=resource.topology="$PWD/twice.conf"
refused "a file that is not there" 1 "resource.topology: $PWD/none.conf cannot be read: No such file" \
    --set=resource.topology="$PWD/none.conf"
refused "a tree of nothing" 1 "a tree of 0 pods" --set=resource.topology=0,1,1

hold 2 --set=resource.topology="$PWD/more.conf"
like "$("$FLUX" resource list --by-switch)" "s0 +2 +0-1 " "hosts that are not in the session are passed over"
like "$("$FLUX" dmesg)" "more.conf: 3 of its 4 nodes are not in this session" "which is logged"
ok "the module is reloaded" "$FLUX" module reload resrc
like "$("$FLUX" resource list --by-switch)" "s0 +2 +0-1 " "and finds the switches again"
release

# --- racks of nodes that the brokers find ---

cat >found.lua <<END
places {
    { level = "rack", name = "rack0", nodes = "$(hostname),elsewhere[0-3]" },
    { level = "rack", name = "rack1", nodes = "elsewhere[4-7]" },
}
END
hold 2 --set=resrc.config="$PWD/found.lua" --set=resource.topology=1,2,1
is "$("$FLUX" resource list --by=rack | tr -s ' ')" "IN RACK NNODES FREE ALLOCATED UNUSABLE JOBS
- rack0 2 0-1 - - -
- rack1 0 - - - -" "a configuration of places alone holds the nodes that are found"
like "$("$FLUX" resource list --by-switch)" "leaf1 +1 +1 " "beside the switches"
ok "the module is reloaded" "$FLUX" module reload resrc
like "$("$FLUX" resource list --by=rack)" "rack0 +2 +0-1 " "and finds the racks again"
release
finish
