#!/usr/bin/env bash
# flux module: loading, unloading, reloading, listing, on chosen ranks.
. "$(dirname "$0")/lib.sh"
need_flux start module

hold 7 --topology=kary:2 --set=modules=log,hb,barrier

ok "list" "$FLUX" module list
like "$out" 'barrier +running' "shows what is loaded"
ok "list --all" "$FLUX" module list --all
like "$out" 'barrier +running.* 0-6' "shows where"
ok "list --json" "$FLUX" module list --json
like "$out" '"name": "barrier"' "has it too"
ok "list to a depth" "$FLUX" module list --depth=1
like "$out" 'barrier +running.* 0-2' "is about the ranks down to there"

ok "unload" "$FLUX" module unload --ranks=3-6 barrier
ok "list" "$FLUX" module list -a
like "$out" 'barrier +running.* 0-2' "shows where it is left"
exits 1 "unload where it is not" "$FLUX" module unload -r 3 barrier
like "$err" 'not loaded' "is an error"
exits 1 "unload at some ranks where it is not" "$FLUX" module unload -r 2-3 barrier
like "$err" 'not loaded at rank 3' "says where"
FLUX_URI=$("$FLUX" getattr -r 6 uri) ok "a service that is not here is found up the tree" \
    "$FLUX" ping --count=1 barrier
like "$out" '0!barrier ' "at the nearest that has it"
ok "load" "$FLUX" module load --ranks=2-6 barrier
ok "list" "$FLUX" module list -a
like "$out" 'barrier +running.* 0-6' "shows it everywhere"
exits 1 "load what is loaded" "$FLUX" module load barrier
exits 1 "load what does not exist" "$FLUX" module load --all nonsense
like "$err" 'ranks 0-6: there is no module nonsense: nonsense.so is not in ' "says it once for all ranks"
exits 1 "load a file that does not exist" "$FLUX" module load ./nonsense.so
like "$err" 'No such file' "says so"
cp /dev/null empty.so
exits 1 "load a file that is not a module" "$FLUX" module load ./empty.so
for arg in "kvs foo=bar:has no setting 'foo'" "sched queue-polcy=fcfs:has no setting 'queue-polcy'; did you mean queue-policy" \
    "kvs sync=never:kvs.sync=never" "kvs sync=commit:takes no argument" "resrc config=x:takes no argument" \
    "wrexec tmpdir=/tmp:takes no argument" "wrexec tmpdr=/tmp:did you mean tmpdir" "job graze=5:did you mean grace" \
    "job grace=soon:job.grace=soon" "sched fcfs:an argument is NAME=VALUE, not 'fcfs'"; do
    read -r -a words <<<"${arg%%:*}"
    exits 1 "load ${words[*]}" "$FLUX" module load -r 1 "${words[@]}"
    like "$err" "${arg#*:}" "says what is wrong"
done
exits 2 "reload with an argument" "$FLUX" module reload hb period=1s
like "$err" "one NAME and no other argument is expected, not 'period=1s'" "says so"
exits 2 "load nothing" "$FLUX" module load
exits 2 "load at a rank that does not exist" "$FLUX" module load -r 7 barrier
like "$err" 'rank 7 is not in the session' "says so"
exits 2 "ranks and depth both" "$FLUX" module list -r 0 -d 1
ok "unload to a depth" "$FLUX" module unload -d 0 barrier
ok "list" "$FLUX" module list -a
like "$out" 'barrier +running.* 1-6' "shows where it is left"
ok "load to a depth" "$FLUX" module load -d 0 barrier

ok "reload" "$FLUX" module reload -a barrier
ok "and it serves" "$FLUX" barrier -n 1 after-reload
# Clients that wait go on waiting, whichever instances of the barrier are reloaded meanwhile: their
# own, one on the way, the root's.
"$FLUX" barrier -n 3 -t 200 waiting &
pid=$!
FLUX_URI=local://$("$FLUX" getattr rundir)/5/local "$FLUX" barrier -n 3 -t 200 waiting &
pid2=$!
wait_until 20 sh -c "'$FLUX' barrier --list | grep -Eq 'waiting +3 +2 '" || fail "somebody waits at both ranks"
ok "reload with clients waiting" "$FLUX" module reload barrier
ok "reload another instance" "$FLUX" module reload -r 5 barrier
ok "reload all" "$FLUX" module reload -a barrier
ok "the last one comes" "$FLUX" barrier -n 3 -t 200 waiting
wait "$pid"
is $? 0 "who waited at the root has passed"
wait "$pid2"
is $? 0 "who waited at rank 5 has passed"

ok "stats" "$FLUX" module stats log
like "$out" 'appended' "are counters"
ok "stats of all" "$FLUX" module stats --all --json broker
is "$(grep -c '"requests"' <<<"$out")" 7 "are one object for each rank"
ok "stats of the connector" "$FLUX" module stats connector
like "$out" 'accepted[[:space:]]+[1-9]' "count clients"
exits 1 "stats of nothing" "$FLUX" module stats nonsense

release
is "$status" 0 "the session ends well"
finish
