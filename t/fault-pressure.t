#!/usr/bin/env bash
# Clients that do not behave, and floods: the memory of a broker stays bounded, the others are
# served, and what was asked is answered, once.
# shellcheck disable=SC2016 # programs for awk and sh are quoted as they are
. "$(dirname "$0")/lib.sh"
need_flux start up ping event
export SESSION_LIMIT=200 # for hold in lib.sh
PRESSURE=$BUILDDIR/t/pressure
[ -x "$PRESSURE" ] || skip_all "t/pressure has not been built"

COUNT=1000000
CROWD=2000
if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
    COUNT=100000 CROWD=500
fi

# Bounds of a broker (connector_limits.c, core.c, core_route.c, ulink_io.c).  A client is not read while more than 1 MiB
# waits for it, or 32768 of its requests have no answer, but for a batch now and then, up to inflight.max: UNREAD bytes
# may wait for it.  It is disconnected at CUT.  Requests for a neighbor that does not keep up wait in its queue (LINK
# bytes; answers and events may exceed 16 MiB), then in the core (HELD).  Each bound may be exceeded by one message.
UNREAD=$((1024 * 1024 + 65536 * 160))
CUT=$((64 * 1024 * 1024 + 1100000))
LINK=$((17 * 1024 * 1024))
HELD=$((64 * 1024 * 1024))
HELD_COUNT=$((65536 + 1000))
# Two clients, one of which asks 500 times; what is held is counted when it is sent.
INFLIGHT=$((65536 + 500 + 5000))

# counter RANK SERVICE NAME: ask the broker of RANK.
counter() {
    "$FLUX" module stats -r "$1" "$2" | awk -v name="$3" '$2 == name { print $3 }'
}
# bounded RANK SERVICE NAME BOUND DESC: what has been counted is at most BOUND.
bounded() {
    local n
    n=$(counter "$1" "$2" "$3")
    if [ -n "$n" ] && [ "$n" -le "$4" ]; then
        pass "$5"
    else
        fail "$5 ($2 of rank $1: $3 is ${n:-unknown}, more than $4)"
    fi
}
# The memory of a process, for the log: how much of it is in use depends on the allocator and on the host, too.
memory() {
    note "rank $1 uses $(awk '/^VmRSS/ {print $2}' "/proc/$2/status") KiB $3"
}
at() {
    local uri=$1
    shift
    FLUX_URI=$uri run_with_timeout 100 "$@"
}
# Let `pressure` go on, whose standard input is the fifo on descriptor 9.
new_fifo() {
    rm -f fifo
    mkfifo fifo
    exec 9<>fifo
}

hold 4 --topology=kary:2 --set=modules=log,hb,barrier --set=live.lost=5m
pid0=$("$FLUX" getattr broker.pid)
pid1=$("$FLUX" getattr -r 1 broker.pid)
pid3=$("$FLUX" getattr -r 3 broker.pid)
uri1=$("$FLUX" getattr -r 1 uri)
ok "warm up" "$PRESSURE" ask 20000 broker.ping 0 10
ok "warm up rank 3" "$PRESSURE" ask 20000 broker.ping 3 10

# --- a client that asks and does not read
# ------------------------------------------------------------

deaf() {
    local topic=$1 rank=$2 pad=$3 desc=$4
    : >deaf.out
    mkfifo end
    run_with_timeout 150 "$PRESSURE" ask "$COUNT" "$topic" "$rank" "$pad" deaf <end >deaf.out 2>deaf.err &
    local client=$!
    exec 8>end
    wait_until 60 grep -q blocked deaf.out
    ok "$desc: it is not read any more" \
        awk -v n="$COUNT" '{ exit !($3 > 0 && $3 < n) }' deaf.out
    ok "$desc: others are served" "$FLUX" ping -c 5 -i 0 "$rank"
    bounded 0 connector queued_max $UNREAD "$desc: little waits for it"
    bounded 0 broker held_max $HELD_COUNT "$desc: ... and few of its requests are held"
    memory 0 "$pid0" "while $desc wait"
    pkill -KILL -P "$client"
    exec 8>&-
    wait "$client" 2>/dev/null
    rm -f end
    ok "$desc: and when it is killed all goes on" "$FLUX" ping -c 5 -i 0 "$rank"
}
deaf broker.ping 0 10 "a million pings that nobody reads"
deaf log.ping 0 10 "a million requests to a module"
deaf broker.ping 3 10 "a million pings to another rank"

# One that begins to read after all gets each answer, once.
new_fifo
rm -f deaf.out # what is waited for is in it
run_with_timeout 150 "$PRESSURE" ask 200000 broker.ping 1 10 deaf <fifo >deaf.out 9>&- &
client=$!
wait_until 60 grep -q blocked deaf.out
exec 9>&-
wait "$client"
is $? 0 "a client that reads late"
is "$(sed -n 2p deaf.out)" "sent 200000 answered 200000 failed 0 twice 0" "gets all its answers, once"

# --- a subscriber that does not read
# -----------------------------------------------------------------

at "$uri1" "$PRESSURE" listen test. >cut.out &
listener=$!
at "$uri1" "$FLUX" event sub --confirm -c 3 last. >sub.out 2>sub.err &
subscriber=$!
wait_until 30 grep -q subscribed cut.out
wait_until 30 grep -q subscribed sub.err
head -c 1000000 /dev/zero >big
for _ in $(seq 80); do
    "$FLUX" event pub --raw test.big <big || break
done
ok "a subscriber that never reads is cut off" wait_until 60 grep -qx cut cut.out
wait "$listener"
ok "with a line in the log" wait_until 30 logged 'client [0-9]+ is disconnected: it has not read'
bounded 1 connector queued_max $CUT "the broker has held no more for it than it may"
memory 1 "$pid1" "after events that nobody read"
for i in 1 2 3; do
    "$FLUX" event pub "last.$i"
done
wait "$subscriber"
is $? 0 "others see their events"
is "$(awk '{print $2}' sub.out | tr '\n' ' ')" "last.1 last.2 last.3 " "all of them, in order"

# --- bytes
# ----------------------------------------------------------------------------------------------

new_fifo
"$PRESSURE" half <fifo >half.out 9>&- &
client=$!
wait_until 30 grep -q half half.out
ok "half a request holds nobody up" "$FLUX" ping -c 3 -i 0 3
exec 9>&-
wait "$client"
like "$(cat half.out)" 'broker.ping 0 ' "and with its other half it is answered"

head -c 100000 /dev/urandom | run_with_timeout 20 "$PRESSURE" send >bytes.out
like "$(cat bytes.out)" 'error 0 .*"text":' "garbage: the client is told, and disconnected"
printf 'GET / HTTP/1.0\r\n\r\n                                    ' |
    run_with_timeout 20 "$PRESSURE" send >bytes.out
like "$(cat bytes.out)" 'error 0 .*"text":' "another protocol: likewise"
# A header like that of a request, with 0xffffffff bytes of payload.
printf '\xf1\x02\x01\x00\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\xff\xff\xff\xff\0\0\0\0test' |
    run_with_timeout 20 "$PRESSURE" send >bytes.out
like "$(cat bytes.out)" 'error 0 .*"text":' "a message that is too large: likewise"
# 200 MiB announced, little sent, by many: what is not there takes no memory.
printf '\xf1\x02\x01\x00\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\x80\x0c\0\0\0\0test{' >large
hanging=()
for i in 1 2 3 4 5 6 7 8; do
    "$PRESSURE" send hang <large >"hang.$i" &
    hanging+=($!)
done
for i in 1 2 3 4 5 6 7 8; do
    wait_until 30 grep -q hanging "hang.$i"
done
ok "large messages of which little has come hold nobody up" "$FLUX" ping -c 3 -i 0 0
bounded 0 connector reading 1000000 "and take no memory"
memory 0 "$pid0" "while large messages come in"
for i in "${hanging[@]}"; do
    kill -KILL "$i"
    wait "$i"
done 2>/dev/null
ok "their end in the middle of it harms nobody" "$FLUX" ping -c 3 -i 0 0

# --- many
# -------------------------------------------------------------------------------------------------

new_fifo
run_with_timeout 100 "$PRESSURE" crowd "$CROWD" <fifo >crowd.out 9>&- &
client=$!
ok "thousands of clients at a time are all served" wait_until 90 grep -q "all $CROWD" crowd.out
ok "and one more" "$FLUX" up
exec 9>&-
wait "$client"
is $? 0 "they end"
no_clients() {
    [ "$(find "/proc/$pid0/fd" -lname 'socket:*' | wc -l)" -lt 100 ]
}
ok "and are forgotten" wait_until 30 no_clients

ok "large messages to a module" "$PRESSURE" ask 300 log.ping any 500000
like "$out" "sent 300 answered 300 failed [0-9]* twice 0" "are all answered, once"
case $out in
*"failed 0 "*) pass "and none is refused" ;;
*) like "$out" "more requests than it can take" "some are refused with a sentence" ;;
esac
ok "large messages to a module of another rank" "$PRESSURE" ask 100 log.ping 3 500000
like "$out" "sent 100 answered 100 failed [0-9]* twice 0" "are all answered, once"

# --- a rank that is slow
# ---------------------------------------------------------------------------------

kill -STOP "$pid3"
run_with_timeout 150 "$PRESSURE" ask 200000 broker.ping 3 10 >flood.out 2>flood.err &
client=$!
run_with_timeout 150 "$PRESSURE" ask 500 broker.ping 3 100000 >flood2.out 2>flood2.err &
client2=$!
at "$uri1" "$FLUX" ping -q -c 30 -i 0.1 0 >/dev/null
ok "while a flood waits for a rank that is stopped, others are served" "$FLUX" ping -c 5 -i 0 2
ok "also by the broker before it" "$FLUX" ping -c 5 -i 0 1
ok "also its clients" at "$uri1" "$FLUX" ping -c 5 -i 0 2
for rank in 0 1; do
    bounded $rank broker link_bytes_max $LINK "rank $rank: the queue to a neighbor is bounded"
    bounded $rank broker held_max $HELD_COUNT "... and the number of requests that are held"
    bounded $rank broker held_bytes_max $HELD "... and their size"
done
bounded 0 broker inflight $INFLIGHT "... and that of those without an answer"
isnt "$(counter 1 broker held_max)" 0 "some were held before the rank that is stopped"
memory 0 "$pid0" "while a rank is stopped"
memory 1 "$pid1" "while a rank is stopped"
kill -CONT "$pid3"
wait "$client"
is $? 0 "when the rank goes on"
like "$(head -n 1 flood.out)" 'sent 200000 answered 200000 failed [0-9]* twice 0' "all is answered, once"
note "$(cat flood.out)"
wait "$client2"
is $? 0 "the large ones, too"
like "$(head -n 1 flood2.out)" 'sent 500 answered 500 failed [0-9]* twice 0' "all of them"
note "$(cat flood2.out)"
ok "nobody is lost" "$FLUX" up
release
is "$status" 0 "the session ends well"

# --- a stale socket
# ---------------------------------------------------------------------------------------

mkdir -m 700 "$TMPDIR/rd"
"$FLUX" start --set=modules=log --rundir="$TMPDIR/rd" sleep 1000 &
start=$!
wait_until 30 test -S "$TMPDIR/rd/0/local"
fails "a directory in use is refused" "$FLUX" start --set=modules=log --rundir="$TMPDIR/rd" true
like "$err" 'in use' "with a sentence"
kill -KILL "$start"
wait "$start" 2>/dev/null
wait_until 20 sh -c "! kill -0 $start"
ok "a directory with a stale socket is used again" \
    wait_until 20 "$FLUX" start --set=modules=log --rundir="$TMPDIR/rd" "$FLUX" up
rm -rf "$TMPDIR/rd"
finish
