#!/usr/bin/env bash
# A broker that gets SIGTERM leaves the session in order: its node is drained, jobs there end or are
# ended, and the drain is lifted when it returns, unless an operator drained the node.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up submit wreckrun resource jobs dmesg
need ss

port=$(free_ports 10)
cat >conf.lua <<END
session { hosts = "$NET.[2-4]", address = "tcp://%h:$port", curve = false, topology = "flat" }
END

# drained REGEX: so a line of what is drained looks.
drained() {
    "$FLUX" resource drain | finds -E "$1"
}
not_drained() {
    ! "$FLUX" resource drain | finds -E "$1"
}
runs() {
    "$FLUX" jobs -n -o state "$1" | finds running
}

mkdir -m 700 run
export FLUX_URI="local://$PWD/run/0/local"
begin_root
begin 1
begin 2 --set=leave.grace=0.1s
ok "a session of three" wait_until 30 up_is "3 of 3 up: 0-2"

# --- jobs are ended ---

"$FLUX" submit -N3 sleep 1000 >id
ok "a job on all nodes runs" wait_until 30 runs "$(cat id)"
kill -TERM "${pids[2]}"
wait "${pids[2]}"
is $? 0 "SIGTERM: the broker exits with 0"
ok "its rank has left" wait_until 30 up_is "2 of 3 up: 0-1; left: 2"
exits 143 "the job was ended" "$FLUX" wreck wait "$(cat id)"
like "$("$FLUX" jobs -n -o exception,note "$(cat id)")" \
    "^node-left +rank 2: leaving, by SIGTERM from .*user $(id -u)" "it says why"
like "$("$FLUX" resource drain)" "drained .* 2 .*leaving, by SIGTERM from .*user $(id -u)" \
    "the node is drained, and who asked is known"
like "$("$FLUX" dmesg)" "drained .*\(rank 2\): leaving, by SIGTERM from" "the log has it, too"
begin 2 --set=leave.jobs=wait
ok "it returns" wait_until 30 up_is "3 of 3 up: 0-2"
ok "the drain is lifted" wait_until 30 not_drained leaving
ok "the node takes jobs" wait_until 30 "$FLUX" wreckrun -N3 -n3 true

# --- jobs are waited for ---

for next in leave.grace=inf leave.grace=5s; do
    rm -f enough
    "$FLUX" submit -N3 sh -c 'while [ ! -e enough ]; do sleep 0.05; done' >id
    ok "a job on all nodes runs" wait_until 30 runs "$(cat id)"
    kill -TERM "${pids[2]}"
    ok "SIGTERM: the node is draining" wait_until 30 drained "draining .* 2 .*leaving"
    ok "flux up shows it, too" wait_until 30 up_is "3 of 3 up: 0-2; draining: 2"
    touch enough
    ok "the job ends by itself" "$FLUX" wreck wait "$(cat id)"
    wait "${pids[2]}"
    is $? 0 "then the broker exits with 0"
    begin 2 --set="$next"
    ok "it returns" wait_until 30 up_is "3 of 3 up: 0-2"
done

# --- a return that resrc does not hear of ---

kill -TERM "${pids[2]}"
wait "${pids[2]}"
is $? 0 "a broker leaves"
ok "its node is drained" wait_until 30 drained "drained .* 2 .*leaving"
"$FLUX" module unload resrc
begin 2
ok "it returns while the module is away" wait_until 30 "$FLUX" getattr -r 2 rank
"$FLUX" module load resrc
ok "the drain is lifted" wait_until 30 not_drained leaving

# --- an operator's drain ---

"$FLUX" resource drain 1 fan is broken
kill -TERM "${pids[1]}"
wait "${pids[1]}"
is $? 0 "the broker of a drained node leaves"
begin 1
ok "it returns" wait_until 30 up_is "3 of 3 up: 0-2"
ok "all that left is usable again" wait_until 30 not_drained leaving
ok "what an operator drained stays drained" drained "1 .*fan is broken"

end_in_order 1 2

# --- with others below it ---

sed -i 's/2-4/2-6/; s/flat/chain/' conf.lua
begin_root
for rank in 1 2 3 4; do
    begin $rank
done
ok "a chain of five" wait_until 30 up_is "5 of 5 up: 0-4"
of_all 5
# shellcheck disable=SC2016 # for the task
"$FLUX" wreckrun --ranks=2,4 -N2 -n2 --label-io \
    sh -c 'i=0; while [ ! -e over ]; do i=$((i + 1)); echo $i; sleep 0.01; done' >count &
job=$!
wait_until 30 test -s count
for rank in 1 3; do
    kill -TERM "${pids[rank]}"
    wait "${pids[rank]}"
    is $? 0 "SIGTERM for rank $rank, inside the tree: it exits with 0"
done
ok "only these have left" wait_until 30 up_is "3 of 5 up: 0,2,4; left: 1,3"
ok "those below connect to the next above" below 2 0
ok "both" below 4 2
is "$("$FLUX" resource drain | awk '$1 == "drained" { print $3 }' | paste -sd ,)" 1,3 "only the nodes that have left are drained"
exits 1 "a request from the end of the chain is answered" at 4 kvs get none
begin 1
begin 3
ok "they return" wait_until 30 up_is "5 of 5 up: 0-4"
touch over
ok "a job below has noticed nothing" wait "$job"
is "$(awk -F '[: ]+' '$2 != ++n[$1]' count)" "" "its output is whole"
end_in_order 1 2 3 4
unset FLUX_URI

# --- on one host, without --restart, and as a job in another session ---

export PATH="$BUILDDIR/src/cmd:$PATH"
cat >leaves.sh <<'END'
# Rank 1 gets SIGTERM, and a job above and below it goes on.
[ "$(flux getattr size)" = 3 ] || exit 2
flux wreckrun --ranks=0,2 -N2 -n2 sh -c 'while [ ! -e over ]; do sleep 0.01; done' &
kill -TERM "$(flux getattr -r 1 broker.pid)"
until [ "$(flux up)" = "2 of 3 up: 0,2; left: 1" ]; do sleep 0.02; done
touch over
wait $! && flux exec -r 0,2 flux ping -c 1 2 >/dev/null
END
run run_with_timeout 60 "$FLUX" start --size=3 --topology=chain sh leaves.sh
is "$status" 0 "SIGTERM for one of the brokers of a host: it leaves, and the session goes on"
rm over
run run_with_timeout 60 "$FLUX" start --size=3 "$FLUX" alloc -N3 sh leaves.sh </dev/null
is "$status" 0 "so it does in a session that is a job"
finish
