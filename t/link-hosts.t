#!/usr/bin/env bash
# Several brokers on each of two hosts: UNIX sockets within a host, ZeroMQ between them.  Network
# namespaces are the hosts.
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
need_flux start up dmesg ping event wreckrun
need ip unshare nsenter

netns_possible || skip_all "no network namespaces without more privileges"
netns_pair || skip_all "no pairs of network devices in a network namespace"
for i in 0 1; do
    in_ns $i ip addr add "10.78.1.$((i + 1))/24" dev eth0
done

# Ranks 0 and 1 on one host, 2 and 3 on the other one.
begin() { # OPTION...
    rm -f uri
    # shellcheck disable=SC2016 # for the inner shell
    in_ns 0 "$FLUX" start --size=4 --topology=flat --set=modules=log --set=tcp.interface=eth0 "$@" \
        sh -c 'echo $FLUX_URI >uri.new && mv uri.new uri && exec sleep 1000' >out 2>&1 &
    starter=$!
    wait_until 30 test -e uri || bail "the session did not come up: $(cat out)"
    FLUX_URI=$(cat uri)
    export FLUX_URI
    rundir=$("$FLUX" getattr rundir)
}
two_hosts="--wrap=2-3:nsenter -t ${holders[1]} -n"
end() {
    broker_pid 0 | xargs -r kill
    wait "$starter"
}
up_is() { # RANKS
    [[ "$("$FLUX" up);" == *"up: $1;"* ]]
}
logged() { # RANK PATTERN
    "$FLUX" dmesg -b "$1" | finds -E "$2"
}
# Connections of TCP from a host to itself.
inside() { # NAMESPACE
    in_ns "$1" sh -c 'cat /proc/self/net/tcp' |
        awk '$4 == "01" { split($2, a, ":"); split($3, b, ":"); n += a[1] == b[1] } END { print n + 0 }'
}

begin "$two_hosts" --set=live.lost=600s
like "$("$FLUX" up)" "0-3" "four brokers on two hosts"
is "$(inside 0)/$(inside 1)" 0/0 "brokers of one host have no TCP between them"
ok "rank 0 logs what it uses" wait_until 20 logged 0 "on this host, by UNIX sockets: 1; others, by ZeroMQ: 2-3"
ok "... so does rank 3, whose host is another one" wait_until 20 logged 3 \
    "on this host, by UNIX sockets: 2; others, by ZeroMQ: 0"
is "$("$FLUX" dmesg | grep -c 'by UNIX sockets: ')" 1 "... once"
for rank in 1 2 3; do
    ok "rank $rank answers" "$FLUX" ping -c 2 -i 0 $rank
done
for rank in 1 3; do
    FLUX_URI=local://$rundir/$rank/local "$FLUX" event sub -c 1 news >"sub.$rank" 2>&1 &
    subs[rank]=$!
done
heard() {
    "$FLUX" event pub news '{"is":"here"}' && grep -q here sub.1 && grep -q here sub.3
}
ok "an event reaches both hosts" wait_until 20 heard
wait "${subs[1]}" "${subs[3]}"

rm "$rundir/0/tree"
ok "a socket that was removed is made again" wait_until 20 test -S "$rundir/0/tree"
up_is 0-3
is $? 0 "... and nobody was lost"

# With this live.lost nobody waits for silence: the end of a connection says it.
kill -KILL "$(broker_pid 3)"
ok "a broker of the other host that is killed is lost at once" wait_until 20 up_is 0-2
kill -KILL "$(broker_pid 1)"
ok "so is one of the same host" wait_until 20 up_is 0,2
ok "the others go on" "$FLUX" ping -c 2 -i 0 2
end

# Stopped, and cut off.
timeout=$((3 + TIME_SCALE))
begin "$two_hosts" --set=live.lost=${timeout}s --set=live.patience=${timeout}s --set=orphan.timeout=1s
pid1=$(broker_pid 1) pid2=$(broker_pid 2) pid3=$(broker_pid 3)
kill -STOP "$pid1"
ok "a broker of the same host that stands still is lost" wait_until $((2 * timeout + 10)) up_is 0,2-3
kill -CONT "$pid1"
ok "... and leaves when it wakes up" wait_until 30 all_dead "$pid1"
in_ns 1 ip link set eth0 down
ok "those behind a cut are lost" wait_until $((2 * timeout + 10)) up_is 0
ok "... and leave, though they reach each other" wait_until 60 all_dead "$pid2" "$pid3"
in_ns 1 ip link set eth0 up
end

# A broker inside the tree is killed: those below it have another parent, on whichever host.
below() { # RANK PARENT: so the root says.  While ranks are lost, flux up fails.
    "$FLUX" up --long >ranks
    grep -qE "^ *$1 +up +$2 " ranks
}
begin "$two_hosts" --topology=chain --set=live.lost=600s --set=modules=log,kvs
pid3=$(broker_pid 3) uri3=$("$FLUX" getattr -r 3 uri)
kill -KILL "$(broker_pid 2)"
ok "the parent on the same host dies: the next one is on the other" wait_until 30 below 3 1
ok "it is reached" "$FLUX" ping -c 2 -i 0 3
kill -KILL "$(broker_pid 1)"
ok "once more" wait_until 30 below 3 0
ok "only these two are lost" wait_until 30 up_is 0,3
is "$(broker_pid 3)" "$pid3" "it is the same broker"
FLUX_URI=$uri3 "$FLUX" kvs put a=1
is "$("$FLUX" kvs get a)" 1 "which serves"
end
begin "--wrap=1:nsenter -t ${holders[1]} -n" "--wrap=3:nsenter -t ${holders[1]} -n" --topology=chain --set=live.lost=600s
kill -KILL "$(broker_pid 1)"
ok "the parent on the other host dies: the next one is on the same" wait_until 30 below 2 0
ok "one below it keeps its parent" below 3 2
ok "and is reached" "$FLUX" ping -c 2 -i 0 3
end

threads_of() { # RANK
    find "/proc/$(broker_pid "$1")/task" -mindepth 1 -maxdepth 1 | wc -l
}
begin "$two_hosts"
many=$(threads_of 1)
end
begin
like "$("$FLUX" up)" "0-3" "four brokers that could be on several hosts are on one"
has_fewer() { # its last neighbor may connect when the session runs already
    [ "$(threads_of 1)" -lt "$many" ]
}
ok "... and have no threads of ZeroMQ then" wait_until 20 has_fewer
end
begin "$two_hosts" --set=link.transport=zmq
isnt "$(inside 0)" 0 "without UNIX sockets there is TCP within a host, too"
is "$("$FLUX" dmesg | grep -c "by UNIX sockets")" 0 "... and no word in the log"
end

# A broker that does not reach its parent: the session ends instead of waiting for it for ever.
fails "a broker in a network of its own" run_with_timeout 60 "$FLUX" start --size=3 --wrap="1:unshare -n" \
    --set=modules=log --set=tcp.address=127.0.0.1 --set=link.transport=zmq --set=join.timeout=2s true
like "$err" "rank 1 got no welcome from its parent, rank 0" "... ends the session, with a sentence"

# By configuration file; any address can be bound, also that of the other host.
for i in 0 1; do
    in_ns $i sh -c 'echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind' 2>/dev/null || bindable=no
done
if [ "${bindable:-yes}" = yes ]; then
    "$FLUX" keygen shared.key
    cat >conf.lua <<END
session {
    hosts = "10.78.1.[1-2]", address = "tcp://%h:9700", keyfile = "$PWD/shared.key",
    attrs = { modules = "log", ["join.timeout"] = "10s", ["boot.timeout"] = "10s", quorum = 1 },
}
END
    mkdir -m 700 conf
    in_ns 1 "$FLUX" start --config=conf.lua --rundir="$PWD/conf" --set=boot.rank=1 >conf.1 2>&1 &
    other=$!
    # shellcheck disable=SC2016 # for the inner shell
    ok "a session by configuration file on hosts that can bind any address" run_with_timeout 60 \
        nsenter -t "${holders[0]}" -n "$FLUX" start --config=conf.lua --rundir="$PWD/conf" --set=boot.rank=0 \
        sh -c '"$0" ping -c 1 1 && "$0" dmesg -b 0 && "$0" dmesg -b 1 && "$0" up' "$FLUX"
    like "$out" "2 of 2 up" "... has both brokers"
    unlike "$out" "on the same host" "... none of which takes the other one's host for its own"
    wait "$other"
    is $? 0 "... and the other one ends with it"
else
    skip 4 "the settings of a network namespace cannot be changed"
fi

# A session that a job of another one starts, with two brokers on each of its hosts.
# shellcheck disable=SC2016 # for the inner shell
ok "a session in a job on two hosts" run_with_timeout 120 nsenter -t "${holders[0]}" -n "$FLUX" start --size=2 \
    --wrap="1:nsenter -t ${holders[1]} -n" --set=tcp.interface=eth0 "$FLUX" wreckrun -N2 -n4 --overcommit \
    "$FLUX" start --topology=flat --set=modules=log sh -c '"$0" up
        for r in 0 3; do until "$0" dmesg -b $r | grep "by UNIX"; do sleep 0.1; done; done' "$FLUX"
like "$out" "up: 0-3" "... has all its brokers"
like "$out" "by UNIX sockets: 1; others, by ZeroMQ: 2-3" "... those of one host by UNIX sockets"
like "$out" "by UNIX sockets: 2; others, by ZeroMQ: 0" "... on the other one, too"

# Rank 1 has directories of its own, as in a container that has only the network of its host.
mkdir rd
cat >own <<END
#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs -o mode=700 none "\$0" && exec "\$@"' "$PWD/rd" "\$@"
END
chmod +x own
if ./own true 2>/dev/null; then
    begin --wrap="1:$PWD/own" --rundir="$PWD/rd"
    like "$("$FLUX" up)" "0-3" "a broker whose sockets cannot be reached joins"
    ok "... by ZeroMQ, and the log says why" wait_until 20 logged 0 \
        "rank 1 is on the same host, but is reached by ZeroMQ: .*cannot be reached: No such file"
    ok "... while others use UNIX sockets" wait_until 20 logged 0 "by UNIX sockets: 2-3; others, by ZeroMQ: 1"
    ok "it answers" "$FLUX" ping -c 2 -i 0 1
    end
else
    skip 4 "no file system can be mounted"
fi

netns_end
finish
