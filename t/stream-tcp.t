#!/usr/bin/env bash
# Streams by TCP: forced on one host, and between two hosts, which are network namespaces.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"

# Does a peer listen for TCP?
listens() { # NAME
    local inode
    for inode in $(find "/proc/${pid[$1]}/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n'); do
        awk -v inode="$inode" '$4 == "0A" && $10 == inode { found = 1 } END { exit !found }' /proc/net/tcp /proc/net/tcp6 && return
    done
    return 1
}

# The capability of a reader does not depend on what the clocks of hosts show.
preload=$BUILDDIR/t/job/.libs/wallclock.so
[ -e "$preload" ] || bail "no $preload: make check builds it"
case ${FLUX_TEST_SANITIZERS-} in
*address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
esac
hold 2 --set=modules=log,barrier,stream
for seconds in 100000 -100000; do
    echo $seconds >clock
    LD_PRELOAD=$preload WALLCLOCK=$PWD/clock peer w 1 write clock 3 0 1 ready=1
    opened w
    FLUX_STREAM_TRANSPORT=tcp peer r 0 read clock
    opened r
    go w
    ended r
    is "$last" "0-2 3 the end " "a reader joins a writer whose clock is wrong by $seconds s"
    wait "${pid[w]}"
done
release

# One broker: nobody can be elsewhere.
hold 1 --set=modules=log,barrier,stream
peer w 0 write alone 1 0 1 ready=1
opened w
listens w
is $? 1 "a writer of a session with one broker listens for nobody elsewhere"
FLUX_STREAM_TRANSPORT=tcp exits 1 "a reader that wants TCP" "$PEER" read alone
like "$out" "only for readers there" "is told that the writer has none"
FLUX_STREAM_TRANSPORT=udp exits 1 "another transport" "$PEER" read alone
like "$out" "use auto, tcp or ring" "is refused"
FLUX_STREAM_ADDRESS=here FLUX_STREAM_TRANSPORT=tcp exits 1 "a writer with an address that is none" "$PEER" write bad 1 0 1
like "$out" "FLUX_STREAM_ADDRESS=here is not an IP address" "says so"
go w
ended w

unwritten() { # STREAM
    "$FLUX" stream ls --json "$1" | grep -q '"writers": 0'
}
# What the peers write, by both ranks, in each of 30 steps.
want=$(perl -e 'for my $s (0 .. 29) { for my $r (0, 1) {
    print pack("C*", map { $_ + 31 * $r + 7 * $s & 255 } 0 .. 99999) } }' | sha256sum)

# Forced, with and without encryption, beside a reader in shared memory.
for secure in yes no; do
    for rank in 0 1; do
        FLUX_STREAM_TRANSPORT=tcp FLUX_STREAM_SECURE=no peer w$rank 0 write heat 30 $rank 2 ready=1 wait=4
    done
    peer near 0 read heat
    FLUX_STREAM_TRANSPORT=tcp FLUX_STREAM_SECURE=$secure peer far 0 read heat
    FLUX_STREAM_TRANSPORT=tcp FLUX_STREAM_SECURE=$secure peer late 0 read heat policy=latest ready=1
    FLUX_STREAM_TRANSPORT=tcp FLUX_STREAM_SECURE=$secure "$FLUX" stream record heat $secure.rec &
    record=$!
    for name in w0 w1 near far late; do
        opened $name
    done
    listens w0
    is $? 0 "a writer that is told to listens for TCP"
    go w0
    go w1
    ended near
    is "$last" "0-29 30 the end " "a reader in shared memory sees each step of both writers"
    ended far
    is "$last" "0-29 30 the end " "so does one by TCP (encrypted: $secure)"
    wait $record
    is "$("$FLUX" stream cat --file --raw --var=data $secure.rec | sha256sum)" "$want" "a recording has all data"
    # The writers wait for what they still have for this one, and are not writers of the stream any more.
    wait_until 20 unwritten heat
    pass "the stream has no writers while they wait for a reader"
    go late
    ended late
    is "$last" "29-29 1 the end " "one that wants only the newest gets this, although the writers close the stream"
    ended w0 1
    ended w1 1
done

# A group: each step at one of two members, though one dies with a step.
FLUX_STREAM_TRANSPORT=tcp peer w 0 write shared 30 0 1 ready=1 drain=1
opened w
FLUX_STREAM_TRANSPORT=tcp peer m0 0 read shared group=g crash=10
FLUX_STREAM_TRANSPORT=tcp peer m1 0 read shared group=g
opened m0
opened m1
go w
ended m1
like "$last" "the end " "a member of a group that reads by TCP ends with the stream"
wait "${pid[m0]}" "${pid[w]}"
sed -n 's/^step //p' m0.out m1.out | sort -nu >steps
is "$(tr '\n' ' ' <steps)" "$(seq -s ' ' 0 29) " "the members have had all steps"

# Deaths.
FLUX_STREAM_TRANSPORT=tcp peer w0 0 write crash 20 0 2 ready=1
FLUX_STREAM_TRANSPORT=tcp peer w1 0 write crash 20 1 2 ready=1 crash=7
FLUX_STREAM_TRANSPORT=tcp peer r 0 read crash
for name in w0 w1 r; do
    opened $name
done
go w0
go w1
ended r
like "$last" "stream 'crash': rank 1 of the writers has died" "a reader is notified that a writer was killed"
ended w0 1
is "$last" "open " "... and the other writer ends"
wait "${pid[w1]}" 2>/dev/null
FLUX_STREAM_TRANSPORT=tcp peer w 0 write stuck 3000 0 1 ready=1
opened w
FLUX_STREAM_TRANSPORT=tcp peer r 0 read stuck ready=1
opened r
go w
wait_until 20 blocked stuck
counted() {
    out=$("$FLUX" stream readers --json stuck)
    [ "$(sed -n 's/.*"queue": \([0-9]*\).*/\1/p' <<<"$out")" -gt 200000 ] && ! grep -q '"blocked": 0\.0,' <<<"$out"
}
wait_until 20 counted
pass "the queue of a reader by TCP is listed, and the time that the writer waits for it"
like "$("$FLUX" stream ls --json stuck)" '"connections": 1,' "so is its connection"
kill -KILL "${pid[r]}"
ended w 1
is "$last" "open " "a writer does not wait for a reader that was killed"
wait "${pid[r]}" 2>/dev/null

# Counters of a reader that runs.
FLUX_STREAM_TRANSPORT=tcp peer w 0 write flow 100000000 0 1
FLUX_STREAM_TRANSPORT=tcp "$FLUX" stream cat --var=data --raw flow >/dev/null &
cat=$!
counter() { # KEY NUMBER: of the reader; is it above this one?
    [ "$("$FLUX" stream readers --json flow | sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p")" -gt "$2" ] 2>/dev/null
}
wait_until 20 counter received 300000
pass "flux stream readers has the bytes that a reader has received by TCP"
counter copied 200000
is $? 0 "what has come by TCP counts as copied"
sent() {
    [ "$("$FLUX" stream ls --json flow | sed -n 's/.*"sent": \([0-9]*\).*/\1/p')" -gt 300000 ]
}
wait_until 20 sent
pass "flux stream ls has the bytes that the writer has sent"
"$FLUX" stream rm flow
wait $cat
ended w
release

if ! netns_possible; then
    skip 9 "no network namespaces without more privileges"
    finish
    exit
fi
hosts 78.2
received() { # bytes by eth0 of the second host
    # shellcheck disable=SC2016 # for awk
    in_ns 1 awk '$1 == "eth0:" { print $2 }' /proc/self/net/dev
}
host_peer w 0 write far 30 0 1 ready=1
opened w
host_peer near 0 read far
host_peer far 1 read far
opened near
opened far
before=$(received)
go w
ended near
is "$last" "0-29 30 the end " "a reader on the writer's host sees all steps"
ended far
is "$last" "0-29 30 the end " "so does one on another host"
after=$(received)
ok "... to which all data went ($((after - before)) bytes)" test $((after - before)) -ge 3000000
ok "... and little more" test $((after - before)) -le 3400000
ended w 1
FLUX_STREAM_SILENCE=1 host_peer w 0 write cut 30 0 1 ready=1
opened w
exits 1 "a reader that wants shared memory" in_ns 1 env FLUX_STREAM_TRANSPORT=ring FLUX_URI="${uri_of[1]}" "$PEER" read cut
like "$out" "without shared memory" "is told that there is none"

# A cut cable: both ends find out, although nobody says anything.
FLUX_STREAM_SILENCE=1 host_peer far 1 read cut
opened far
in_ns 0 ip link set eth0 down
go w
ended far
like "$last" "the host of the writer of the stream does not answer" "a reader finds that the host of the writer is cut off"
ended w 1
is "$last" "open " "the writer that it was cut off from ends"
in_ns 0 ip link set eth0 up
hosts_end
finish
