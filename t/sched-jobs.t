#!/usr/bin/env bash
# Real jobs on eight emulated nodes: who passes whom, why jobs wait, pools, whole nodes, another
# policy.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start submit jobs wreck resource queue

cat >res.lua <<'END'
resource { nodes = "node[0-7]", cores = 4, emulate = true, pools = { power = 10 } }
END
hold 2 --set=resrc.config="$PWD/res.lua"

# Submit; the id is left in $id.  `until FILE` is a job that runs until that file is there.
submit() {
    run "$FLUX" submit "$@"
    id=$out
}
waiter() {
    local file=$1
    shift
    submit "$@" sh -c 'until [ -e '"$PWD/$file"' ]; do sleep 0.05; done'
}
state() {
    "$FLUX" jobs -a -n -o '{state}' "$1"
}
is_state() {
    [ "$(state "$1")" = "$2" ]
}
why() {
    run "$FLUX" jobs -n -o '{why}' "$1"
}

waiter go1 -N6 --exclusive -t 1h
first=$id
wait_until 10 is_state "$first" running
submit -N4 --exclusive -t 1h true
second=$id
submit -N2 --exclusive -t 30m true
ok "a job passes that ends in time" "$FLUX" wreck wait "$id"
waiter go2 -N2 --exclusive -t 10h
spare=$id
ok "... and one that takes what is to spare" wait_until 10 is_state "$spare" running
submit -N1 --exclusive -t 10h true
third=$id
is "$(state "$second") $(state "$third")" "pending pending" "the others wait"
why "$second"
like "$out" "^waits for 4 whole nodes: 0 are free; job $first holds the rest until ([0-9-]+[T ])?[0-9:]+$" \
    "... and it is said for whom"
run "$FLUX" resource list
like "$out" "allocated +8 +32" "all nodes are allocated"
touch go2
ok "a job on spare nodes ends" "$FLUX" wreck wait "$spare"
touch go1
ok "then the others start" "$FLUX" wreck wait "$first,$second,$third"
run "$FLUX" resource list
like "$out" "free +8 +32" "at the end all is free"

rm -f go1 go2
waiter go1 -N1 --pool=power=7 -t 1h
first=$id
wait_until 10 is_state "$first" running
submit -N1 --pool=power=4 -t 1h true
second=$id
submit -N1 --pool=power=3 -t 1h true
third=$id
ok "an amount of a pool that is free suffices" "$FLUX" wreck wait "$third"
is "$(state "$second")" pending "... another does not"
why "$second"
like "$out" "^waits for 4 of power: 3 are free; job $first holds the rest until" "... which is said"
touch go1
ok "... until it is given back" "$FLUX" wreck wait "$second"
fails "more than there is is refused" "$FLUX" submit --pool=power=11 true

"$FLUX" module unload sched && "$FLUX" module load sched queue-policy=fcfs node-policy=spread
rm -f go1
waiter go1 -N7 --exclusive -t 1h
first=$id
ok "jobs start with another policy" wait_until 10 is_state "$first" running
submit -N2 -t 1h true
second=$id
submit -N1 -t 1m true
third=$id
why "$third"
like "$out" "^waits behind job $second: nobody passes it \(fcfs\)" "with fcfs nobody passes"
"$FLUX" module reload sched
ok "after a reload of the scheduler the job still has its nodes" is_state "$first" running
submit --urgency=31 -N1 -t 1h true
ok "a more urgent job comes first" "$FLUX" wreck wait "$id"
touch go1
ok "... and all end" "$FLUX" wreck wait "$first,$second,$third"

# What was drained meanwhile would not be known.
"$FLUX" module unload --force resrc
submit -N1 true
why "$id"
like "$out" "^waits until it is known which nodes are up: the module resrc does not answer$" "a job waits while nobody tells what is up"
is "$(state "$id")" pending "... and is not started"
"$FLUX" module load resrc
ok "... until somebody does" "$FLUX" wreck wait "$id"
release
is "$status" 0 "the session ends well"
finish
