#!/usr/bin/env bash
# Sessions whose brokers another launcher started: hydra's PMI, over UNIX sockets and TCP.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start up getattr
need mpiexec.hydra

M=--set=modules=log
hydra() {
    local n=$1
    shift
    run_with_timeout 60 mpiexec.hydra -n "$n" "$FLUX" start "$M" "$@"
}

# hydra kills with SIGKILL who is left when one fails: those cannot tidy up, and hydra may not pass on
# what the others have said.  What each says is in a file.
mkdir "$TMPDIR/killed"
failing() {
    local n=$1
    shift
    rm -f err.*
    # shellcheck disable=SC2016 # for the inner shell
    TMPDIR=$TMPDIR/killed run_with_timeout 60 mpiexec.hydra -n "$n" \
        sh -c 'exec "$@" 2>"err.$PMI_RANK"' sh "$FLUX" start "$M" "$@"
}

ok "four brokers" hydra 4 "$FLUX" up
like "$out" "0-3" "all are there"
is "$(hydra 4 "$FLUX" getattr size)" 4 "the command runs once, in a session of 4"
is "$(hydra 4 "$FLUX" getattr boot.method)" pmi "booted by PMI"
ok "one broker" hydra 1 "$FLUX" up
ok "16 brokers in a chain" hydra 16 --topology=chain "$FLUX" up
like "$out" "0-15" "all are there"
exits 7 "the command's exit code" hydra 4 sh -c 'exit 7'
Z=--set=link.transport=zmq
ok "over TCP" hydra 4 --set=tcp.address=127.0.0.1 $Z "$FLUX" up
like "$out" "0-3" "all are there"
ok "over TCP, without CURVE" hydra 3 --set=tcp.interface=lo --set=curve=no $Z "$FLUX" up
ok "with TCP for hosts that are not there" hydra 4 --set=tcp.address=127.0.0.1 "$FLUX" up
like "$out" "0-3" "all are there"
ok "... without CURVE" hydra 3 --set=tcp.address=127.0.0.1 --set=curve=no "$FLUX" up
ok "some brokers with ZeroMQ alone" run_with_timeout 60 mpiexec.hydra \
    -n 2 "$FLUX" start "$M" --set=tcp.address=127.0.0.1 "$FLUX" up : \
    -n 2 "$FLUX" start "$M" --set=tcp.address=127.0.0.1 $Z "$FLUX" up
like "$out" "0-3" "all are there"
failing 2 --set=tcp.address=127.0.0.1.1 true 2>/dev/null
isnt $? 0 "a bad address is refused"
like "$(cat err.*)" "tcp.address=127.0.0.1.1" "with a sentence"
failing 2 --set=tcp.interface=nosuch0 true 2>/dev/null
isnt $? 0 "an interface that is not there is refused"
like "$(cat err.*)" "nosuch0" "with a sentence"
# The transport is chosen by name.
is "$(hydra 2 --set=link.transport=unix "$FLUX" getattr size)" 2 "UNIX sockets, by name"
is "$(hydra 2 --set=link.transport=mixed --set=tcp.address=127.0.0.1 "$FLUX" getattr size)" 2 \
    "UNIX sockets and ZeroMQ, by name"
failing 2 --set=link.transport=unix --set=tcp.address=127.0.0.1 true 2>/dev/null
isnt $? 0 "UNIX sockets cannot connect hosts"
like "$(cat err.*)" "link.transport=unix: it cannot connect" "with a sentence"
failing 2 --set=link.transport=nosuch true 2>/dev/null
isnt $? 0 "a transport that does not exist is refused"
like "$(cat err.*)" "link.transport=nosuch: expected one of auto, unix, mixed, zmq" "with the names of all"
exits 1 "... in a session of one broker, too" "$FLUX" start --set=link.transport=nosuch true
# The launcher's variables are for the brokers, and nobody inside is to take them for his own.
is "$(hydra 2 env | grep -c '^PMI_')" 0 "the command sees no PMI of the launcher"
is "$(hydra 2 "$FLUX" start --size=3 "$M" "$FLUX" getattr size)" 3 "a session in a session"

if [[ $("$FLUX" help) == *wreckrun* ]]; then
    nested() {
        session 4 -- "$FLUX" wreckrun -N4 -n4 "$FLUX" start "$M" "$@"
    }
    ok "brokers started by a session" nested "$FLUX" up
    like "$out" "0-3" "are a session in it"
    exits 6 "which has its own exit code" nested sh -c 'exit 6'
    # One that does not come: an end, and no hanging.  (hydra's proxy itself hangs then.)
    cat >flaky <<END
#!/bin/sh
[ "\$PMI_RANK" != 1 ] || exit 9
exec "$FLUX" start $M true
END
    chmod +x flaky
    run session 4 -- "$FLUX" wreckrun -N4 -n4 ./flaky
    is "$status" 9 "a broker that does not come is an error"
    like "$err" "rank 1 left before MPI_Init" "and nobody waits for it for ever"
fi

# Malformed PMI: a sentence.
for vars in "PMI_FD=99 PMI_RANK=0 PMI_SIZE=2" "PMI_FD=x PMI_RANK=0 PMI_SIZE=2" "PMI_FD=0" \
    "PMI_FD=0 PMI_RANK=2 PMI_SIZE=2" "PMI_PORT=127.0.0.1:1 PMI_ID=0"; do
    # shellcheck disable=SC2086 # several words
    fails "environment $vars" run_with_timeout 20 env $vars "$FLUX" start "$M" true </dev/null
done
fails "PMI where there is none" "$FLUX" start --boot=config "$M" true

rm -rf "$TMPDIR/killed"
finish
