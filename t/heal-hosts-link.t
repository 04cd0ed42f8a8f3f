#!/usr/bin/env bash
# The connection between rank 0 and a child is cut, and both brokers live: rank 0 counts the child as
# lost, which the child learns when it connects again.  It ends, is started again, and joins; a job
# elsewhere goes on.  The connection leads through a relay on a host of its own, which is killed.
# shellcheck source=t/lib.sh disable=SC2154 # set by ok
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
need_flux start up live submit wreck kvs
need ip unshare nsenter nft python3

# Nobody gives up before the link is there again.
# shellcheck disable=SC2034 # of heal-net.sh
net_modules="" net_attrs='["orphan.timeout"] = "2m", ["heal.timeout"] = "2m",'
heal_net 5 4 'hosts = "10.77.0.[1-4]", bind = "tcp://*:8050", topology = "kary:2",' \
    "keyfile = \"$PWD/key.%r\","

# Relay these ports to the same ones of a host.
cat >relay.py <<'END'
import os, socket, sys, threading

def copy(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(listener, to):
    while True:
        near = listener.accept()[0]
        try:
            far = socket.create_connection(to)
        except OSError:
            near.close()
            continue
        os.write(1, b"relayed %d\n" % to[1])  # at once: the other thread writes there, too
        for pair in (near, far), (far, near):
            threading.Thread(target=copy, args=pair, daemon=True).start()

servers = []
for port in map(int, sys.argv[2:]):
    listener = socket.create_server(("", port))
    servers.append(threading.Thread(target=serve, args=(listener, (sys.argv[1], port))))
    servers[-1].start()
os.write(1, b"ready\n")
END
nsenter -t "${holders[5]}" -n python3 relay.py 10.77.0.1 8050 8051 >relayed &
relay=$!
wait_until 30 grep -q ready relayed || bail "the relay does not start"
# What rank 1, on host 2, sends to rank 0 goes there.
in_ns 2 nft -f - <<'END' || skip_all "no translation of addresses in a network namespace"
table ip detour {
    chain out {
        type nat hook output priority -100
        ip daddr 10.77.0.1 tcp dport { 8050, 8051 } dnat to 10.77.0.5
    }
}
END
begin_all
wait_until 30 up_is 0-3 || bail "the session did not come up: $(cat out.*)"
pass "four hosts"
is "$(sort -u relayed)" "ready
relayed 8050
relayed 8051" "rank 1 is connected through the relay"

# shellcheck disable=SC2016 # for the task
id=$("$FLUX" submit --ranks=2-3 -N2 -n2 sh -c \
    'n=0; while [ ! -e enough ]; do echo $FLUX_TASK_RANK $((n = n + 1)); sleep 0.02; done')
ok "a job runs on two others, one of them below rank 1" wait_until 30 job_state_is "$id" running

{ kill -KILL "$relay" && wait "$relay"; } 2>/dev/null
ok "the relay is killed: rank 0 has lost rank 1 alone" wait_until 30 up_is "0,2-3; lost: 1"
ok "... whose broker looks for rank 0" kill -0 "${pids[1]}"
ok "the way is free" in_ns 2 nft delete table ip detour
wait "${pids[1]}"
is $? 1 "rank 1 learns that it is lost, and ends as one that is to be started again"
ok "... and says why" grep -q "rank 1 was refused by its parent, rank 0: the session counts it as lost" out.1
ok "rank 3, below it, has another parent" wait_until 30 tree_is 3:0
begin 1
ok "it is started again, and joins" wait_until 30 up_is 0-3
ok "... at its place" tree_is 1:0
ok "it serves" at 1 kvs put mine=1
ok "the job has gone on" job_state_is "$id" running
: >enough
ok "it ends" run_with_timeout 60 "$FLUX" wreck wait "$id"
"$FLUX" wreck attach "$id" >counts
is "$(awk '$2 != ++seen[$1] { print; exit }' counts)" "" "both tasks have counted, without a gap"
is "$("$FLUX" live history | grep -cw lost)" 1 "nobody else was lost"

ok "the session ends" end_all
netns_end
finish
