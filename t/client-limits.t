#!/usr/bin/env bash
# What one client may ask of a broker: the size of JSON, the number of requests without answer that
# wait, the number of connections. Who is refused hears why, and others are served.
# shellcheck disable=SC2016,SC2154 # inner shells expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start ping module event
PRESSURE=$BUILDDIR/t/pressure
[ -x "$PRESSURE" ] || skip_all "t/pressure has not been built"

rss() {
    awk '/^VmHWM/ {print $2}' "/proc/$1/status"
}

hold 1 --set=modules=log,hb,barrier,stream
pid=$("$FLUX" getattr broker.pid)

# --- JSON
# -------------------------------------------------------------------------------------------
before=$(rss "$pid")
ok "JSON of 200 MB to a module" "$PRESSURE" ask 1 log.ping any 200000000
like "$out" "sent 1 answered 1 failed 1 twice 0" "is refused"
like "$out" "JSON payload of 2000000.. bytes is too large" "with a sentence"
[ $(($(rss "$pid") - before)) -lt 50000 ]
is $? 0 "before it takes memory"
ok "JSON of 1 MB" "$PRESSURE" ask 1 log.ping any 1000000
like "$out" "sent 1 answered 1 failed 0" "is answered"

# Raw bytes are not counted on their way; nobody parses them, either.
awk 'BEGIN { printf "["; for (i = 0; i < 1400000; i++) printf "[],"; print "[]]" }' >values
before=$(rss "$pid")
ok "JSON of many values in a raw event" "$FLUX" event pub -r stream.switch <values
refused() {
    [[ $("$FLUX" dmesg) == *"stream.switch of rank 0: it has no JSON payload"* ]]
}
ok "is refused by the module that it is for" wait_until 60 refused
[ $(($(rss "$pid") - before)) -lt 50000 ]
is $? 0 "before it takes memory"

# --- requests without an answer
# ------------------------------------------------------------------------
ok "200,000 requests that want no answer, and one that does" "$PRESSURE" flood 200000 log.nothing
like "$out" "answered" "reach the module, in order"
received() {
    "$FLUX" module list | awk '$1 == "log" { print $3 }'
}
[ "$(received)" -ge 200000 ]
is $? 0 "all of them"
unlike "$("$FLUX" dmesg)" "does not keep up" "none was dropped"

# --- connections
# ---------------------------------------------------------------------------------------
mkfifo fifo
exec 9<>fifo
FEW=8000
(ulimit -n "$FEW" 2>/dev/null || ulimit -n "$(ulimit -Hn)"; exec "$PRESSURE" hoard 6000) <fifo >hoard.out 9>&- &
client=$!
ok "a process that connects without end" wait_until 60 grep -q '^refused after' hoard.out
like "$(cat hoard.out)" 'has [0-9]+ connections to the broker of rank 0, and may have no more' "is told when it has too many"
ok "others are served" "$FLUX" ping -c 3 -i 0 0
exec 9>&-
wait "$client"
is $? 0 "it ends"
release
is "$status" 0 "the session ends well"

# --- wake-ups
# -------------------------------------------------------------------------------------------- What
# a module has taken is told to the broker, which is woken for that only when a client may be held
# up.
hold 1 --set=modules=barrier --set=module.place=thread
pid=$("$FLUX" getattr broker.pid)
writes() { # by threads of modules: that wakes the broker
    local task
    for task in /proc/"$pid"/task/*; do
        [ "${task##*/}" = "$pid" ] || [ "$(cat "$task/comm")" != flux-broker ] || cat "$task/io"
    done | awk '/^syscw:/ { n += $2 } END { print n + 0 }'
}
taken() {
    [ "$("$FLUX" module list | awk '$1 == "barrier" { print $3 }')" -ge "$1" ]
}
count=$("$FLUX" module list | awk '$1 == "barrier" { print $3 }')
before=$(writes)
clients=()
for i in {1..20}; do
    "$FLUX" barrier -n 21 waiting &
    clients+=($!)
    wait_until 60 taken $((count + i))
done
ok "20 requests wait in a module" taken $((count + 20))
[ $(($(writes) - before)) -lt 10 ]
is $? 0 "their number does not wake the broker"
ok "the last one comes" run_with_timeout 60 "$FLUX" barrier -n 21 waiting
wait "${clients[@]}"
is $? 0 "and all are answered"
release
is "$status" 0 "the session ends well"

# --- few descriptors
# -------------------------------------------------------------------------------------
low() { # LIMIT COMMAND...
    local n=$1
    shift
    run_with_timeout 60 bash -c 'ulimit -n "$0" && exec "$@"' "$n" "$@"
}
for n in 12 24 32 64; do
    fails "a broker with $n descriptors" low "$n" "$FLUX" start "$FLUX" up
    like "$err" "limit on open files is $n.*at least [0-9]+" "is refused with a sentence"
done
rm -f hoard.out # what is waited for is in it
cat >many.sh <<END
#!/bin/bash
"$PRESSURE" hoard 300 <fifo >hoard.out 9>&- &
hoard=\$!
until grep -q refused hoard.out; do sleep 0.05; done
"$FLUX" up 2>up.err
echo "up \$?"
kill "\$hoard"
wait "\$hoard" 2>/dev/null
until "$FLUX" up 2>/dev/null; do sleep 0.05; done
END
exec 9<>fifo
ok "a broker with 128 descriptors" run_with_timeout 60 bash -c 'ulimit -n 128 && exec "$@"' bash \
    "$FLUX" start bash many.sh
exec 9>&-
like "$out" 'up [01]' "a command that finds no room ends"
like "$(cat hoard.out)" 'refused after [0-9]+: .*no file descriptors for more clients' "and hears why"

finish
