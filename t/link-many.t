#!/usr/bin/env bash
# Many brokers, by UNIX sockets and by ZeroMQ; and fewer descriptors than they need.
. "$(dirname "$0")/lib.sh"
need_flux start up event getattr ping

n=512
[ -z "${FLUX_TEST_SANITIZERS-}" ] || n=64 # memory
last=$((n - 1))
up_is() { # RANKS
    [[ "$("$FLUX" up);" == *"up: $1;"* ]]
}

for link in auto zmq; do
    hold $n --set=modules=log --set=link.transport=$link --topology=kary:8 --set=live.lost=60s
    ok "$link: $n brokers" up_is "0-$last"
    rundir=$("$FLUX" getattr rundir)
    FLUX_URI=local://$rundir/$last/local "$FLUX" event sub -c 1 news >told 2>&1 &
    sub=$!
    heard() { "$FLUX" event pub news '{"is":"here"}' && grep -q here told; }
    ok "$link: an event reaches the last of them" wait_until 30 heard
    wait "$sub"
    pid=$("$FLUX" getattr -r $last broker.pid)
    kill -KILL "$pid"
    ok "$link: the last one is killed, and lost" wait_until 30 up_is "0-$((last - 1))"
    pid=$("$FLUX" getattr -r $((last - 1)) broker.pid)
    kill -STOP "$pid"
    ok "$link: the others go on while one stands still" "$FLUX" ping -c 1 $((last - 2))
    kill -CONT "$pid"
    ok "$link: ... which answers when it goes on" wait_until 30 "$FLUX" ping -c 1 $((last - 1))
    release
    is "$status" 0 "$link: the session ends well"

    # 96 are enough for a broker with few children.
    fails "$link: too few descriptors for the children" run_with_timeout 60 "$FLUX" start --size=100 \
        --topology=flat --wrap="0:prlimit --nofile=96:96" --set=link.transport=$link true
    like "$err" "limit on open files is 96: rank 0 with its 99 children needs at least [0-9]+ \(ulimit -n\)" \
        "$link: ... are an error at once"
    ok "$link: and enough for 16 children" run_with_timeout 60 "$FLUX" start --size=17 --topology=flat \
        --wrap="0-16:prlimit --nofile=96:96" --set=link.transport=$link true
done
finish
