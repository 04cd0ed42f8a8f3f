#!/usr/bin/env bash
# Resources by configuration: machines that do not exist, pools, and what is wrong in a file; what
# is drained outlives the session; a session in a job has its share.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start resource hwloc kvs
plan 42

MODULES=--set=modules=log,hb,barrier,kvs,resrc

# --- 1024 nodes on two brokers ---

cat >emulated.lua <<'EOL'
local n = 1024
resource {
    nodes = string.format("node[0-%d]", n - 1), cores = 16, sockets = 2, gpus = 1, memory = "64G",
    pools = { power = "1000 kW", license = 20 },
    emulate = true,
}
EOL
hold 2 "$MODULES" --set=resrc.config="$PWD/emulated.lua"
is "$("$FLUX" resource info)" \
    "1024 nodes, 16384 cores, 1024 gpus, 64.0T of memory, 20 of license, 1000 kW of power (emulated)" \
    "a configuration says what there is"
is "$(resource_cell up 3 status)" 0-1023 "all nodes are up"
is "$(resource_cell up 7 status)" "node[0-1023]" "by their names"
is "$(resource_cell free 3 list)" 16384 "and free"
is "$("$FLUX" kvs get resource.inventory | grep -o '"ranks"' | wc -l)" 1 "they are one entry"
ok "pools are listed" "$FLUX" resource list --pools
like "$out" "power +1000 +0 +1000 +kW" "with amounts and units"
like "$out" "license +20 +0 +20 +-" "and without"
ok "hosts are drained by name" "$FLUX" resource drain "node[7,100-199]" "a reason"
is "$(resource_cell drained 3 status)" 7,100-199 "which are ranks"
is "$(resource_cell drained 3 list)" $((101 * 16)) "with their cores"
ok "hwloc info of one" "$FLUX" hwloc info -r node1000
like "$out" "1000 +1 +2 +16 +0-15 +1 +64.0G +- +node1000\$" "says what it has"
ok "hwloc topology of one" "$FLUX" hwloc topology -r 1000
is "$(grep -c "^      core" <<<"$out")" 16 "has its cores"
like "$out" "power 1000 kW" "and the pools"
kill -KILL "$(broker_pid 1)"
halved() {
    [ "$(resource_cell down 2 status)" = 461 ]
}
# Odd nodes are down: 512, of which 51 are drained.
ok "a lost broker takes its nodes with it" wait_until 20 halved
release

# --- more nodes than brokers, kinds, properties ---

cat >kinds.lua <<'EOL'
resource {
    { nodes = "thin[0-1]", cores = 4, properties = "batch" },
    { nodes = "fat[0-1]", cores = 8, memory = 1024, properties = "batch,bigmem" },
}
EOL
hold 2 "$MODULES" --set=resrc.config="$PWD/kinds.lua"
is "$(resource_cell up 3 status)" 0-1 "nodes with a broker are up"
is "$(resource_cell down 3 status)" 2-3 "others are down"
is "$(resource_cell down 3 list)" 16 "with their cores"
ok "kinds of nodes are lines of hwloc info" "$FLUX" hwloc info
like "$out" "2-3 +2 +1 +8 +0-7 +0 +1.00G +batch,bigmem +fat\[0-1\]" "with properties"
release

# --- pools and a machine in XML ---

hold 1 "$MODULES"
"$FLUX" hwloc xml >machine.xml
found=$("$FLUX" hwloc info | awk 'NR == 2 { print $3, $4, $5 }')
release
echo "resource { { nodes = 'twin[0-1]', xml = '$PWD/machine.xml' }, emulate = true }" >xml.lua
hold 1 "$MODULES" --set=resrc.config="$PWD/xml.lua"
is "$("$FLUX" hwloc info | awk 'NR == 2 { print $3, $4, $5 }')" "$found" "XML of hwloc says the same"
is "$(resource_cell up 7 status)" "twin[0-1]" "of as many nodes as wanted"
release
echo 'resource { pools = { license = 3 } }' >pools.lua
hold 2 "$MODULES" --set=resrc.config="$PWD/pools.lua"
like "$("$FLUX" resource info)" "^2 nodes, .*, 3 of license\$" "pools alone add to what is found"
release

# --- beside the session's own configuration ---

cat >session.lua <<EOL
session { hosts = "127.0.0.[2-3]", address = "ipc://$TMPDIR/%h", event_address = "ipc://$TMPDIR/e%h", curve = false }
resource { pools = { bandwidth = "40 Gbit" } }
EOL
run_with_timeout 60 "$FLUX" start "$MODULES" --config=session.lua --set=boot.rank=1 >rank1 2>&1 &
ok "a session of two hosts with pools in its configuration" run_with_timeout 60 \
    "$FLUX" start "$MODULES" --config=session.lua --set=boot.rank=0 "$FLUX" resource info
like "$out" "^2 nodes, .*, 40 Gbit of bandwidth\$" "has its nodes and the pools" || cat rank1
wait
rm -f "$TMPDIR"/*127.0.0.*

# --- wrong ---

echo 'resource { nodes = "a", cores = "many" }' >wrong.lua
fails "a file that is wrong ends the start" session 2 "$MODULES" --set=resrc.config="$PWD/wrong.lua" -- true
like "$err" "wrong.lua:1: resource.cores must be a number" "with file, line and field"
fails "as does one that is not there" session 1 "$MODULES" --set=resrc.config=/nowhere.lua -- true
like "$err" "/nowhere.lua" "which is named"

# --- what is drained stays so ---

ok "a session drains a node" session 2 "$MODULES" --statedir="$PWD/state" -- \
    "$FLUX" resource drain 1 "it smokes"
hold 2 "$MODULES" --statedir="$PWD/state"
is "$(resource_cell drained 3 status)" 1 "the next one knows"
like "$("$FLUX" resource status)" " it smokes " "and why"
ok "it is undrained" "$FLUX" resource undrain 1
release
hold 2 "$MODULES" --statedir="$PWD/state"
is "$(resource_cell up 3 status)" 0-1 "and the next one knows that"
release

# --- in a job ---

export FLUX_JOB_ID=7 FLUX_TASK_CORES=1,5-7 FLUX_TASK_GPUS=3 FLUX_TASK_MEMORY=512 FLUX_NODE_NAME=node9
hold 1 "$MODULES"
ok "a session in a job" "$FLUX" hwloc info
like "$out" "0 +1 +1 +4 +1,5-7 +1 +512M +- +node9\$" "has its share, with the numbers of the machine" ||
    note "$out"
release
is "$status" 0 "and ends well"
export FLUX_TASK_CORES=1,3-5,8-9 FLUX_TASK_MEMORY=900
hold 3 "$MODULES"
is "$("$FLUX" hwloc info | awk 'NR > 1 { print $5 }' | xargs)" "1,3 4-5 8-9" \
    "several brokers of one task divide what it has"
like "$("$FLUX" resource info)" "^3 nodes, 6 cores, 1 gpu, 900M of memory\$" "and have no more in all"
is "$("$FLUX" kvs get resource.inventory | grep -c task)" 0 "nothing else is left of how it was done"
release
