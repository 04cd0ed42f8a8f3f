#!/usr/bin/env bash
# Brokers between a client and the root are killed: its job goes on, and ends only with the client;
# a client whose end cannot be reported is missed.
# shellcheck disable=SC2016 # the tasks expand
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun jobs wreck

lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
state_is() {
    [ "$("$FLUX" jobs -a -n -o '{state} {result}' | grep -c "$1")" = "$2" ]
}
running() {
    [ "$("$FLUX" jobs -n -s running -o '{id}' | wc -l)" = "$1" ]
}
# Each task counts until there is the file $1; then it exits with 10 plus its number.
COUNT='i=0; while [ ! -e '$PWD'/$0 ]; do echo $i; i=$((i + 1)); sleep 0.005; done; echo end $i; exit $((10 + FLUX_TASK_RANK))'

# Rank 7 is below rank 3, rank 3 below rank 1.
hold 8 --topology=kary:2
of_all 8
at 7 wreckrun --ranks=0,5 -N2 -n2 -l sh -c "$COUNT" stop.1 >count.out 2>count.err &
job=$!
wait_until 30 lines count.out 20 || bail "the job does not run"
kill -KILL "${pids[1]}"
ok "the client's broker has another way to the root" wait_until 30 below 3 0
ok "the job goes on" running 1
kill -KILL "${pids[3]}"
ok "its broker has another parent" wait_until 30 below 7 0
ok "the job goes on, again" running 1
touch stop.1
wait "$job"
is $? 11 "the exit code arrives"
release

# The notice of the client's end is lost with a broker that has stopped.
hold 8 --topology=kary:2
of_all 8
FLUX_URI=${uris[7]} "$FLUX" wreckrun --ranks=0 -n1 -l sh -c "$COUNT" stop.2 >killed.out 2>killed.err &
client=$!
wait_until 30 lines killed.out 20 || bail "the job does not run"
kill -STOP "${pids[1]}"
kill -KILL "$client"
{ wait "$client"; } 2>/dev/null
kill -KILL "${pids[1]}"
ok "a job whose client has ended unheard is ended" wait_until 30 running 0
like "$("$FLUX" jobs -a -n -o '{id}' | head -n 1 | xargs "$FLUX" wreck status 2>&1)" "client went away" \
    "it says why"
# A client that is killed when all is well.
FLUX_URI=${uris[7]} "$FLUX" wreckrun --ranks=0 -n1 -l sh -c "$COUNT" stop.2 >killed.out 2>killed.err &
client=$!
wait_until 30 running 1
kill -KILL "$client"
{ wait "$client"; } 2>/dev/null
ok "so is one whose client is killed later" wait_until 30 running 0
release
is "$status" 0 "the session ends well"
finish
