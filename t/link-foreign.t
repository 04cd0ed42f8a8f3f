#!/usr/bin/env bash
# Brokers of other sessions, with the same hosts, size and addresses, connect to a session: with
# another certificate, without one, and by both transports.  They get nothing and end with a
# sentence; the session says whom it has refused, goes on, and takes the right broker.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up keygen live
need ss

mkdir -m 700 run foreign
port=$(free_ports 4)
"$FLUX" keygen shared.key
"$FLUX" keygen foreign.key
cat >conf.lua <<END
session {
    hosts = "$NET.[2-4]",
    address = "tcp://%h:$port",
    keyfile = "$PWD/shared.key",
    topology = "flat",
    attrs = { ["boot.timeout"] = "0.1s", quorum = 1, ["orphan.timeout"] = "0.1s" },
}
END
sed 's/shared.key/foreign.key/' conf.lua >foreign.lua
sed 's/keyfile = .*/curve = false,/' conf.lua >plain.lua
foreigner() { # FILE OPTION...: rank 1 of another session
    local file=$1
    shift
    run_with_timeout 60 "$FLUX" start --config="$file" --rundir="$PWD/foreign" --set=modules=log \
        --set=boot.rank=1 --set=join.timeout="$((3 * TIME_SCALE))s" "$@"
}
untouched() {
    is "$("$FLUX" up)" "1 of 3 up: 0; absent: 1-2" "$1"
}

export FLUX_URI="local://$PWD/run/0/local"
for transport in auto zmq; do
    set=--set=link.transport=$transport
    begin_root "$set" --set=modules=log
    ok "$transport: the session begins" wait_until 30 up_is "1 of 3 up: 0; absent: 1-2"
    case $transport in
    auto) other="a connection to rank 0 was refused: the key is not that of rank 1" ;;
    zmq) other="refused a connection from 127[0-9.:]*: it expects a different public key" ;;
    esac
    unlike "$(cat out.0)" "$other" "$transport: it has refused nobody yet"

    fails "$transport: a broker with a certificate of another session" foreigner foreign.lua "$set"
    like "$err" "refused" "$transport: ... ends, and says why"
    ok "$transport: ... so does the session" wait_until 30 grep -qE "$other" out.0
    untouched "$transport: ... which goes on"

    seen=$(wc -l <out.0)
    fails "$transport: one without a certificate" foreigner plain.lua "$set"
    case $transport in
    auto) like "$err" "it uses no keys .*same configuration" "auto: ... ends, and says what to do" ;;
    # The session ends the connection when it has read the greeting, at times before it has sent its own.
    zmq) like "$err" "rank 0 at [^ ]* (.*may use|uses) CURVE, and this broker does not" "zmq: ... ends, and says why" ;;
    esac
    # Over ZeroMQ, it goes of its own accord: it sees that CURVE is used.
    [ "$transport" = zmq ] ||
        like "$(tail -n +$((seen + 1)) out.0)" "rank 0 was refused: it uses no keys" "$transport: ... so does the session"
    untouched "$transport: ... which goes on"
    unlike "$("$FLUX" live history)" $'\n'" *[0-9]+ +[^ ]+ +1 +(joining|up|lost) " \
        "$transport: its rank was never counted as anything but absent"

    begin 1 "$set" --set=modules=log
    ok "$transport: the right one joins" wait_until 30 up_is "2 of 3 up: 0-1; absent: 2"
    ok "$transport: the session ends well" end_session
done
finish
