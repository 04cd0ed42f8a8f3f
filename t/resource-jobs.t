#!/usr/bin/env bash
# Resources in use: what is allocated, nodes that are drained under a job, what can never be had.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start resource submit jobs cancel
plan 22

cat >emulated.lua <<'EOL'
resource {
    nodes = "node[0-3]", cores = 4, memory = 1024, properties = "batch",
    pools = { license = 2 }, emulate = true,
}
EOL
allocated() {
    [ "$(resource_cell allocated 3 list)" = "$1" ]
}

hold 2 --set=resrc.config="$PWD/emulated.lua"

ok "a job of two nodes" "$FLUX" submit -N2 --exclusive sleep 300
first=$out
ok "has all their cores" wait_until 20 allocated 8
is "$(resource_cell allocated 2 list)" 2 "of two nodes"
is "$(resource_cell free 2 list)" 2 "and two are free"
is "$(resource_cell free 3 list)" 8 "with the other cores"

# --- drained under a job ---

ok "a node with a job is drained" "$FLUX" resource drain 0 leaks
is "$(resource_cell draining 3 status)" 0 "it is draining"
is "$("$FLUX" resource list | awk '{ cores += $3 } END { print cores }')" 16 "each of its cores is listed once"
is "$(resource_cell drained 2 list)$(resource_cell allocated 2 list)" 02 "... as allocated, while the job has them"
ok "a free one is drained" "$FLUX" resource drain 3
is "$(resource_cell drained 3 status)" 3 "it is drained"
is "$(resource_cell free 2 list)" 1 "one is left"
ok "a job for two nodes is accepted" "$FLUX" submit -N2 sleep 300
second=$out
ok "and one for one node" "$FLUX" submit -N1 sleep 300
"$FLUX" cancel "$first"
both() {
    [ "$(resource_cell drained 3 status | xargs)" = "0 3" ]
}
ok "when the first job is gone the node is drained" wait_until 20 both
is "$(resource_cell draining 3 status)" "" "and no longer draining"
"$FLUX" resource undrain 0,3
running() {
    "$FLUX" jobs -n -o '{id} {state}' | finds -x "$1 running"
}
ok "undrained nodes get work: the job that waited runs" wait_until 20 running "$second"

# --- never ---

fails "more nodes than there are" "$FLUX" submit -N5 true
like "$err" "5 nodes; there are 4" "are refused with a sentence"
fails "more cores than a node has" "$FLUX" submit -n1 -c5 true
like "$err" "5 cores; the largest of 4 nodes has 4" "are refused, too"

"$FLUX" cancel --all >/dev/null 2>&1
release
isnt "$status" 124 "the session ends"
