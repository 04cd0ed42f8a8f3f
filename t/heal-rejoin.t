#!/usr/bin/env bash
# Brokers that come back: in a session by configuration file each broker is started by itself.  One
# that was killed, left, or was not there at the start joins when it is started, and takes jobs.
# Those below a lost broker look for no other parent here (heal.timeout): they are lost with it.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up topo submit wreckrun kvs exec resource
need ss

port=$(free_ports 10)
"$FLUX" keygen shared.key
cat >conf.lua <<END
session {
    hosts = "$NET.[2-5]",
    address = "tcp://%h:$port",
    keyfile = "$PWD/shared.key",
    topology = "file:$PWD/shape",
    attrs = { ["orphan.timeout"] = "0.1s", ["heal.timeout"] = "0", ["boot.timeout"] = "1s", quorum = 3 },
}
END
printf '0: 1,3\n1: 2\n' >shape

ended() {
    wait "${pids[$1]}"
}

mkdir -m 700 run
export FLUX_URI="local://$PWD/run/0/local"
begin_root
begin 1
begin 2

# --- absent ---

ok "the session begins without a rank, after boot.timeout, and says which" \
    wait_until 30 grep -q "rank 3 has not joined within 1 s (boot.timeout):" out.0
ok "flux up shows it" wait_until 30 up_is "3 of 4 up: 0-2; absent: 3"
ok "those that are there take jobs" "$FLUX" wreckrun -N3 -n3 true
begin 3
ok "an absent rank joins when it is started" wait_until 30 up_is "4 of 4 up: 0-3"
ok "and takes jobs" wait_until 30 "$FLUX" wreckrun -N4 -n4 true

# --- killed: a leaf ---

"$FLUX" kvs put before=1
"$FLUX" wreckrun -N1 -n1 sh -c 'while [ ! -e enough ]; do sleep 0.05; done; echo whole' >job.out 2>job.err &
job=$!
kill -KILL "${pids[3]}"
wait "${pids[3]}" 2>/dev/null
ok "a killed broker is lost" wait_until 30 up_is "3 of 4 up: 0-2; lost: 3"
"$FLUX" kvs put between=2
begin 3
ok "the next one of its rank joins" wait_until 30 up_is "4 of 4 up: 0-3"
is "$(FLUX_URI=local://$PWD/run/3/local run_with_timeout 30 "$FLUX" kvs get before between | xargs)" "1 2" \
    "it knows what was stored before and meanwhile"
ok "it takes jobs" wait_until 30 "$FLUX" wreckrun -N4 -n4 true
ok "it passes on events" sh -c "FLUX_URI=local://$PWD/run/3/local '$FLUX' event pub some.thing '{}'"
ok "the ring is whole" "$FLUX" ping --ring -c 1 3
ok "all around" sh -c "FLUX_URI=local://$PWD/run/3/local '$FLUX' ping --ring -c 1 2"
ok "a barrier at all ranks" "$FLUX" exec -r all "$FLUX" barrier -n 4 -t 30 all
like "$("$FLUX" up --long)" $'\n *3 +up +0 +1 +2(\n|$)' "flux up shows its incarnation"
like "$("$FLUX" topo --json)" '"incarnation": 2' "so does flux topo"
touch enough
wait "$job"
is $? 0 "a job on another node has noticed nothing"
is "$(cat job.out)" whole "its output is whole"

# --- killed: one inside the tree ---

kill -KILL "${pids[1]}"
wait "${pids[1]}" 2>/dev/null
ok "one inside the tree is lost with those below it" wait_until 30 up_is "2 of 4 up: 0,3; lost: 1-2"
ended 2
is $? 1 "who has no parent ends, as one that is to be started again"
begin 2
begin 1
ok "both come back" wait_until 30 up_is "4 of 4 up: 0-3"
ok "and take jobs" wait_until 30 "$FLUX" wreckrun -N4 -n4 true

# --- one that leaves ---

kill -TERM "${pids[3]}"
ended 3
is $? 0 "SIGTERM for one broker: it ends well"
ok "the session goes on without it" wait_until 30 up_is "3 of 4 up: 0-2; left: 3"
like "$("$FLUX" up --json)" '"left": "3"' "flux up --json"
like "$("$FLUX" topo)" '3 \(left\)' "flux topo"

# One that has joined, and is not up yet, as a module waits in its init.
joining() { # MODULES
    rm -f go
    BAD_MODULE_WAIT=$PWD/go begin 3 --set=module.place=thread --set=modules="$1"
    wait_until 30 "$FLUX" ping -c 1 3
}
if [ -e "$BUILDDIR/t/.libs/module_bad.so" ]; then
    cp "$BUILDDIR/t/.libs/module_bad.so" bad.so
    ok "one that comes back is reached while it loads its modules" joining "$PWD/bad.so"
    kill -TERM "${pids[3]}"
    touch go
    ended 3
    is $? 0 "SIGTERM for it: it ends well"
    ok "the next one" joining "$PWD/bad.so,nonsense"
    touch go
    ended 3
    is $? 1 "a module that is not there: it fails"
    ok "the session goes on" wait_until 30 up_is "3 of 4 up: 0-2; left: 3"
else
    skip 5 "t/module_bad.la has not been built"
fi

kill -TERM "${pids[1]}"
ended 1
is $? 0 "one inside the tree leaves"
ended 2
is $? 1 "those below it end, to be started again"
ok "all that has left is known" wait_until 30 up_is "1 of 4 up: 0; left: 1-3"
for rank in 3 1 2; do
    begin $rank
done
ok "all of them come back" wait_until 30 up_is "4 of 4 up: 0-3"
ok "and take jobs" wait_until 30 "$FLUX" wreckrun -N4 -n4 true

end_in_order 1 2 3

# --- a quorum, and nothing about how long to wait for the others ---

rm -rf run
mkdir -m 700 run
sed -i 's/\["boot.timeout"\] = "1s", quorum = 3/quorum = 1/' conf.lua
begin_root
ok "the session begins without the others" wait_until 60 up_is "1 of 4 up: 0; absent: 1-3"
ok "... and says that it has waited as long as a quorum implies" wait_until 30 grep -qF \
    "ranks 1-3 have not joined within 10 s (the default of boot.timeout with a quorum):" out.0
ok "it ends" end_session
unset FLUX_URI
finish
