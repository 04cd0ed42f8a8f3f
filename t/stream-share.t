#!/usr/bin/env bash
# Streams between two hosts, which are network namespaces, by one TCP connection.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
if ! netns_possible; then
    skip 54 "no network namespaces without more privileges"
    finish
    exit
fi
hosts 80.1 --share-connections
export FLUX_STREAM_IDLE=1s
# shellcheck disable=SC2016 # for awk
connections() { # TCP connections of the second host that are not those of brokers
    in_ns 1 awk '$4 == "01"' /proc/self/net/tcp /proc/self/net/tcp6 | wc -l
}
# shellcheck disable=SC2016 # for awk
relays() { # HOST: how many listen there
    in_ns "$1" awk '$8 == "@flux-stream-relay-'"$UID"'" && $4 == "00010000" { n++ } END { print n + 0 }' /proc/self/net/unix
}
relayed() { # HOST
    [ "$(relays "$1")" = 1 ]
}
unrelayed() { # HOST
    [ "$(relays "$1")" = 0 ]
}
relay() { # HOST
    in_ns "$1" "$FLUX" stream relay --interface=eth0 2>"relay$1.err" &
    relays[$1]=$!
    wait_until 20 relayed "$1"
}
declare -a relays

FLUX_STREAM_IDLE=soon host_peer w 0 write lonely 1 0 1
wait "${pid[w]}"
like "$(cat w.out)" "no relay can run on this host: try 'flux stream relay'" "a host on which no relay can run is an error"
FLUX_STREAM_SHARE=maybe host_peer w 0 write lonely 1 0 1
wait "${pid[w]}"
like "$(cat w.out)" "yes or no: not 'maybe'" "so is a wrong setting"
exits 2 "flux stream relay with an argument" "$FLUX" stream relay now
exits 1 "one on an interface that does not exist" in_ns 0 "$FLUX" stream relay --interface=none
FLUX_STREAM_SHARE=no host_peer w 0 write lonely 1 0 1 ready=1
opened w
unrelayed 0
is $? 0 "FLUX_STREAM_SHARE=no overrules the session"
go w
ended w 1

none=$(connections)
before=$none
for i in 0 1 2 3 4 5 6 7; do
    host_peer w$i 0 write heat 30 $i 8 ready=1 wait=5
done
for i in 0 1 2 3 4 5 6 7; do
    opened w$i
done
for i in 0 1 2 3; do
    host_peer r$i 1 read heat
done
host_peer near 0 read heat
for i in r0 r1 r2 r3 near; do
    opened $i
done
is $(($(connections) - before)) 1 "8 writers and 4 readers on another host have one connection"
is "$(relays 0) $(relays 1)" "1 1" "each host has one relay, which nobody has started by hand"
for i in 0 1 2 3 4 5 6 7; do
    go w$i
done
for i in r0 r1 r2 r3 near; do
    ended $i
    is "$last" "0-29 30 the end " "reader $i has all steps of all writers"
done
for i in 0 1 2 3 4 5 6 7; do
    wait "${pid[w$i]}"
done
unshared() {
    [ "$(connections)" = "$none" ]
}
wait_until 20 unshared
pass "the connection ends with the last reader"
wait_until 20 unrelayed 0
wait_until 20 unrelayed 1
pass "and the relays when nobody has used them for a while"

# Relays that are started by hand.
relay 0
relay 1
exits 1 "a second relay" in_ns 1 "$FLUX" stream relay --interface=eth0
like "$err" "has one of this user already" "is refused"

one_connection() {
    [ "$(connections)" = "$((none + 1))" ]
}

# A reader that has stopped does not hold up those of another stream.
host_peer w 0 write stuck 3000 0 1 ready=1
host_peer v 0 write flows 300 0 1 ready=1
opened w
opened v
host_peer stopped 1 read stuck
host_peer r 1 read flows
opened stopped
opened r
in_peer() { # the process that nsenter has become, or has started
    pgrep -P "$1" || echo "$1"
}
kill -STOP "$(in_peer "${pid[stopped]}")"
go w
wait_until 20 blocked stuck
go v
ended r
is "$last" "0-299 300 the end " "a reader that has stopped holds up nobody else"

# Strangers.
port_of() { # PID: where it listens
    local inode
    for inode in $(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n'); do
        awk -v inode="$inode" '$4 == "0A" && $10 == inode { sub(/.*:/, "", $2); print "0x" $2 }' \
            "/proc/$1/net/tcp" "/proc/$1/net/tcp6"
    done
}
port=$(($(port_of "$(in_peer "${relays[0]}")")))
# shellcheck disable=SC2016 # for the inner shell
stranger() { # BYTES: says them to the relay of the first host, and waits until it is disconnected
    in_ns 1 timeout 20 bash -c 'exec 3<>"/dev/tcp/10.80.1.1/$0" && printf "$1" >&3 && cat <&3 >/dev/null' "$port" "$1"
    [ $? != 124 ]
}
ok "a stranger that says garbage is disconnected" stranger "$(printf '%0200d' 7)"
greeting() { # ADDRESS: that of a relay
    printf 'FLUXSHAR\1'
    head -c 15 /dev/zero
    printf %s "$1"
    head -c $((256 - ${#1})) /dev/zero
}
hello=$(greeting '' | od -An -v -to1 | sed 's/ /\\/g' | tr -d '\n')
zeros='\0\0\0\0\0\0\0\0'
ok "one that sends data of a channel that is too large" stranger "$hello"'\2\0\0\0\1\0\0\0\1\0\1\0\0\0\0\0'"$zeros"
ok "one that opens channel 0" stranger "$hello"'\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'"$zeros"
ok "one with an unknown type" stranger "$hello"'\11\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0'"$zeros"
# shellcheck disable=SC2016 # for the inner shell
is "$(in_ns 1 timeout 20 bash -c 'exec 3<>"/dev/tcp/10.80.1.1/$0" && printf "$1" >&3 && head -c 24 <&3' "$port" \
    "$hello"'\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\1\2\3\4\5\6\7\10' | od -An -tx1 | tr -d ' \n')" \
    "04000000010000000000000000000000""0000000000000000" "a channel to an unknown writer is closed"
kill -CONT "$(in_peer "${pid[stopped]}")"
ended stopped
is "$last" "0-2999 3000 the end " "the stopped reader goes on"
wait "${pid[w]}" "${pid[v]}"

# One that says that it is the relay of the second host, as which it gets no reader.
greeting "tcp://10.80.1.2:$(printf %d "$(port_of "$(in_peer "${relays[1]}")")")" >claim
wait_until 20 unshared
# shellcheck disable=SC2016 # for the inner shell
in_ns 1 bash -c 'exec 3<>"/dev/tcp/10.80.1.1/$0" && cat claim >&3 && exec cat <&3 >claimed' "$port" &
stranger=$!
wait_until 20 one_connection
host_peer v 1 write true 5 0 1 ready=1
opened v
host_peer r 0 read true
opened r
go v
ended r
is "$last" "0-4 5 the end " "a stranger that claims to be a relay does not keep readers from it"
is "$(od -An -tx1 -v -N8 claimed)" " 05 00 00 00 00 00 00 00" "it is only asked to prove that"
kill "$(in_peer $stranger)"
wait $stranger 2>/dev/null
wait "${pid[v]}"
kill -TERM "$(in_peer "${relays[0]}")" "$(in_peer "${relays[1]}")"
wait "${relays[0]}"
is $? 0 "SIGTERM ends a relay"
wait "${relays[1]}"
is "$(cat relay0.err)" "" "without a message"

# The end of relays: readers and writers go on through the next ones, which they start, and no step is lost, or comes
# twice (peer.c looks at that).
kill_relays() { # HOST...
    local host p
    for host in "$@"; do
        for p in $(pgrep -f 'flux-stream relay'); do
            [ "$(readlink "/proc/$p/ns/net")" != "$(readlink "/proc/${holders[$host]}/ns/net")" ] ||
                kill -KILL "$p" 2>/dev/null
        done
    done
}
beyond() { # STEP
    above flows step "$1"
}
wait_until 20 unshared
for victims in 1 0 "0 1"; do
    host_peer w 0 write flows 400 0 1 ready=1
    host_peer v 1 write back 400 0 1 ready=1
    opened w
    opened v
    host_peer block 1 read flows depth=8
    host_peer newest 1 read flows policy=drop-oldest depth=4
    FLUX_STREAM_SECURE=no host_peer plain 1 read flows
    host_peer member 1 read flows group=g
    host_peer r 0 read back
    for i in block newest plain member r; do
        opened $i
    done
    # Both relays may have connected to the other one.
    wait_until 20 one_connection
    pass "streams in both directions have one connection"
    "$FLUX" stream throttle flows 100
    "$FLUX" stream throttle back 100
    go w
    go v
    for step in 20 120 220; do
        wait_until 20 beyond $step
        # shellcheck disable=SC2086 # one or two
        kill_relays $victims
    done
    for i in block plain r; do
        ended $i
        is "$last" "0-399 400 the end " "reader $i has all steps, though relays have ended (host $victims)"
    done
    ended newest
    like "$last" "-399 [0-9]* the end" "one that drops steps has the last one"
    ended member
    is "$(sed -n 's/^step //p' member.out | tr '\n' ' ')" "$(seq -s ' ' 0 399) " "a member of a group has each step once"
    ended w 1
    ended v 1
done
# A group of a stream with two writers: claims, and what is said about them, are not lost with relays.
for i in 0 1; do
    host_peer w$i 0 write pair 300 $i 2 ready=1 drain=1
    opened w$i
done
for i in 0 1; do
    host_peer m$i 1 read pair group=g
    opened m$i
done
"$FLUX" stream throttle pair 100
go w0
go w1
for step in 20 80 140 200; do
    wait_until 20 above pair step $step
    kill_relays $((step / 20 % 4 / 2))
done
for i in w0 w1; do
    ended $i 1
    is "$last" "open " "a writer has a group whose members have done all, though relays have ended: $i"
done
wait "${pid[m0]}" "${pid[m1]}"
is "$(sed -n 's/^step //p' m0.out m1.out | sort -n | tr '\n' ' ')" "$(seq -s ' ' 0 299) " "each step is at one member"
# Now without any for a while: the host of the writer can start none, and the reader connects without relays.
wait_until 20 unrelayed 0
relay 0
FLUX_STREAM_IDLE=soon host_peer w 0 write flows 400 0 1 ready=1 2>/dev/null
opened w
host_peer r 1 read flows
opened r
"$FLUX" stream throttle flows 100
go w
wait_until 20 beyond 20
kill_relays 0
wait "${relays[0]}" 2>/dev/null
ended r
is "$last" "0-399 400 the end " "a reader goes on without relays if there can be none"
wait "${pid[w]}"
# A writer whose relay has ended is found by the next one; or without one.
relay 0
for idle in 1s soon; do
    FLUX_STREAM_IDLE=$idle host_peer w 0 write again 5 0 1 ready=1 2>/dev/null
    opened w
    kill_relays 0
    wait "${relays[0]}" 2>/dev/null
    if [ $idle = 1s ]; then
        wait_until 20 relayed 0
    fi
    before=$(connections)
    host_peer r 1 read again
    opened r
    is $(($(connections) - before)) 1 "a reader connects to a writer whose relay has ended (FLUX_STREAM_IDLE=$idle)"
    go w
    ended r
    is "$last" "0-4 5 the end " "and has all steps"
    wait "${pid[w]}"
    wait_until 20 unrelayed 0
    relay 0
done
# The writer ends with its relay: the reader is told so.
host_peer w 0 write again 400 0 1 ready=1
opened w
FLUX_STREAM_SILENCE=1 host_peer r 1 read again depth=4
opened r
"$FLUX" stream throttle again 100
go w
wait_until 20 above again step 10
kill_relays 0
kill -KILL "$(in_peer "${pid[w]}")"
wait "${pid[w]}" "${relays[0]}" 2>/dev/null
ended r
like "$last" "stream 'again': .*rank 0 of the writers has died" "a reader is told if the writer has ended, too"
wait_until 20 unrelayed 0
wait_until 20 unrelayed 1
hosts_end
finish
