#!/usr/bin/env bash
# What a session has: found, reduced to the root, committed once, shown; nodes drained and lost.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start resource hwloc module kvs
plan 70

counter() {
    "$FLUX" module stats resrc | awk -v name="$1" '$2 == name { print $3 }'
}
nodes() {
    [ "$(resource_cell "$1" 3 status)" = "$2" ]
}

hold 6 --topology=kary:2 --set=modules=log,hb,barrier,kvs,resrc

# --- found ---

# It is committed when it is complete, which is a moment after the session begins.
wait_until 20 "$FLUX" kvs get resource.inventory
n=$("$FLUX" resource info -r 0 | sed 's/.*, \([0-9]*\) core.*/\1/')
cores=$("$FLUX" kvs get resource.inventory | sed 's/.*"cores":"\([^"]*\)".*/\1/')
is "$(resource_cell up 3 status)" 0-5 "all nodes are up"
is "$(resource_cell free 2 list)" 6 "and free"
is "$(resource_cell free 3 list)" "$((6 * n))" "with all their cores"
is "$(counter commits)" 1 "the inventory was committed once"
[ "$(counter joins)" -le 6 ]
is $? 0 "and reached the root in few messages"
is "$("$FLUX" kvs get resource.inventory | grep -o '"ranks"' | wc -l)" 1 "equal nodes are one entry"
like "$("$FLUX" resource info)" "^6 nodes, [0-9]+ cores?, [0-9]+ gpus?, .* of memory\$" "info is one line"
ok "info as JSON" "$FLUX" resource info --json
is "$(tr -d ' \n' <<<"$out")" "$("$FLUX" kvs get resource.inventory)" "is the inventory"
ok "info of some nodes" "$FLUX" resource info -r 0-2
like "$out" "^3 nodes" "tells of these"
fails "of nodes that are not there, it fails" "$FLUX" resource info -r 3-9

# --- hwloc ---

ok "hwloc info" "$FLUX" hwloc info
like "$out" "0-5 +6 +[0-9]+ +$n +$cores " "has one line for all"
ok "hwloc info as JSON" "$FLUX" hwloc info --json -r 1
like "$out" '"ranks": "1"' "of one node"
ok "hwloc topology" "$FLUX" hwloc topology -r 2-3
is "$(grep -c '^  node' <<<"$out")" 2 "has two nodes"
is "$(grep -c '^      core' <<<"$out")" "$((2 * n))" "and their cores"
ok "hwloc topology as JSON" "$FLUX" hwloc topology -r 2 --json
like "$out" '"type": "socket"' "has typed vertices"
ok "hwloc xml of another rank" "$FLUX" hwloc xml -r 5
like "$out" "<topology version" "is XML of hwloc"
fails "of a rank that is not there, it fails" "$FLUX" hwloc xml -r 6

# --- a request that only modules send ---

cp "$BUILDDIR/t/.libs/module_keep1.so" keep.so
ok "a module that sends resrc.find" "$FLUX" module load ./keep.so
if [ -z "${FLUX_TEST_SANITIZERS:-}" ]; then
    ask() { # LOST
        run_with_timeout 60 "$FLUX" env lua5.3 -e "r, e = require('flux').open():rpc('keep.find', {lost = '$1'})
            print(r and 'answered' or e)"
    }
    is "$(ask "")" answered "... is answered"
    like "$(ask 3-x)" "'3-x' is not a set of ranks" "... also when it cannot be read"
else
    skip 2 "the interpreter has no sanitizers"
fi

# --- drained ---

ok "two nodes are drained" "$FLUX" resource drain 1,3 bad disk
is "$(resource_cell drained 3 status)" 1,3 "and told to be"
like "$("$FLUX" resource status)" "drained +2 +1,3 +- +20[0-9-]+ [0-9:]+ +bad disk " "with time and reason"
is "$(resource_cell up 3 status)" 0,2,4-5 "the others are up"
is "$(resource_cell free 2 list)" 4 "and free"
is "$(resource_cell drained 2 list)" 2 "drained ones are not free"
is "$("$FLUX" resource drain)" "$("$FLUX" resource status -s drained,draining)" "drain alone lists them"
like "$("$FLUX" kvs get resource.drained)" '"ranks":"1,3","reason":"bad disk"' "it is on record"
fails "one of them is not drained twice" "$FLUX" resource drain 2-3 again
like "$err" "3: drained already; use force" "with a sentence"
is "$(resource_cell drained 3 status)" 1,3 "and nothing was changed"
ok "but with force" "$FLUX" resource drain --force 3 new reason
like "$("$FLUX" resource status --json -s drained)" '"reason": "new reason"' "the reason is new"
fails "what is not drained cannot be undrained" "$FLUX" resource undrain 0-1
like "$err" "0: not drained" "with a sentence"
ok "one is undrained" "$FLUX" resource undrain --json 1
like "$out" '"ranks": "1"' "and named"
is "$(resource_cell drained 3 status)" 3 "the other one stays"
fails "a host that is not there" "$FLUX" resource drain nohost
fails "an empty set" "$FLUX" resource drain ""
fails "a reason that is too long" "$FLUX" resource drain 0 "$(printf '%0300d' 0)"
exits 2 "a state that there is not" "$FLUX" resource list --states=broken

# What cannot be committed is tried again: here the directory is a value for a while.
"$FLUX" kvs unlink -R resource
"$FLUX" kvs put resource=in-the-way
fails "a drain that cannot be put on record" "$FLUX" resource drain 0 kept
like "$err" "not on record" "says so"
is "$(resource_cell drained 3 status | sort | xargs)" "0 3" "the node is drained"
"$FLUX" kvs unlink resource
on_record() {
    "$FLUX" kvs get resource.drained | finds '"reason":"kept"'
}
ok "and it is put on record without another change" wait_until 60 on_record
ok "it is undrained" "$FLUX" resource undrain 0

# --- reloaded and lost ---

"$FLUX" module reload resrc
ok "after a reload the nodes come again" wait_until 20 nodes up 0-2,4-5
is "$(resource_cell drained 3 status)" 3 "and what is drained is"
kill -KILL "$(broker_pid 4)"
ok "a lost node is down" wait_until 20 nodes down 4
is "$(resource_cell down 5 list)" 4 "also in the list"
for how in '' --force; do
    ok "resrc is reloaded ($how)" "$FLUX" module reload $how resrc
    ok "... the nodes come again" wait_until 20 nodes up 0-2,5
    is "$(resource_cell down 5 list)" 4 "... and the lost one is a node still"
done
ok "a node that is down can be drained" "$FLUX" resource drain 4
is "$("$FLUX" resource status | awk '$1 == "drained" && $3 == 4 { print $4 }')" 4 "and is both"
is "$(resource_cell up 3 status)" 0-2,5 "the others are up"

# What is in the store is counted before it is parsed, which takes 80 times its size.
awk 'BEGIN { printf "{\"nodes\":["; for (i = 0; i < 500000; i++) printf "[],"; print "[]]}" }' >values
"$FLUX" kvs put resource.drained=- <values
ok "resrc is reloaded with a record of many values" "$FLUX" module reload resrc
unreadable() {
    "$FLUX" dmesg | finds "resource.drained cannot be read.* there are more than 65536 records"
}
ok "... which is not read" wait_until 60 unreadable

release
isnt "$status" 124 "the session ends"
