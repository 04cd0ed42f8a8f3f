#!/usr/bin/env bash
# Brokers that are stopped for a while: nobody is declared lost before live.lost, requests wait,
# events come in order, once, and without a gap.
. "$(dirname "$0")/lib.sh"
need_flux start up ping event
export SESSION_LIMIT=150 # for hold in lib.sh
PRESSURE=$BUILDDIR/t/pressure
[ -x "$PRESSURE" ] || skip_all "t/pressure has not been built"
EVENTS=6000

at() {
    local uri=$1
    shift
    FLUX_URI=$uri run_with_timeout 100 "$@"
}
# Number of the next heartbeat.
beats() {
    "$FLUX" module stats hb | awk '$2 == "epoch" {print $3}'
}
beats_reach() {
    [ "$(beats)" -ge "$1" ]
}
# Start a subscriber at every rank, each of which ends after this many events.
subscribe() {
    local count=$1 topic=$2 i
    subscribers=()
    rm -f sub.*
    for i in "${!uris[@]}"; do
        FLUX_URI=${uris[$i]} run_with_timeout 100 "$FLUX" event sub --confirm -c "$count" "$topic" \
            >"sub.$i" 2>"sub.$i.err" &
        subscribers+=($!)
    done
    for i in "${!uris[@]}"; do
        wait_until 30 grep -q subscribed "sub.$i.err" || bail "no subscription at rank $i"
    done
}
# Every subscriber has seen its events: all, in order, once.
complete() {
    local count=$1 desc=$2 i wrong=
    for i in "${!uris[@]}"; do
        wait "${subscribers[$i]}" || wrong="$wrong $i:ended($?)"
        awk -v n="$count" 'BEGIN { bad = 0; seq = 0 }
            $3 != "{\"i\":" (NR - 1) "}" || $1 <= seq { bad++ }
            { seq = $1 }
            END { exit bad > 0 || NR != n }' "sub.$i" || wrong="$wrong $i:order"
    done
    is "$wrong" "" "$desc"
}

hold 7 --topology=kary:2 --set=modules=log,hb,barrier --set=hb.period=50ms --set=live.lost=60s
pids=()
uris=()
for i in 0 1 2 3 4 5 6; do
    pids+=("$("$FLUX" getattr -r "$i" broker.pid)")
    uris+=("$("$FLUX" getattr -r "$i" uri)")
done

# stopped RANK NAME: stop it for many heartbeats, under load.
stopped() {
    local rank=$1 name=$2 other=5 waiting=() epoch i
    epoch=$(beats)
    subscribe "$EVENTS" test.flood
    kill -STOP "${pids[$rank]}"
    # In and through it: up, down, along the ring, and the clients of its own.
    "$FLUX" ping -c 1 -t 90 "$rank" >w.0 2>&1 &
    waiting+=($!)
    at "${uris[$other]}" "$FLUX" ping -c 1 -t 90 "$rank" >w.1 2>&1 &
    waiting+=($!)
    at "${uris[3]}" "$FLUX" ping -c 1 -t 90 0 >w.2 2>&1 &
    waiting+=($!)
    at "${uris[$other]}" "$FLUX" ping --ring -c 1 -t 90 3 >w.3 2>&1 &
    waiting+=($!)
    at "${uris[$rank]}" "$FLUX" getattr rank >w.4 2>&1 &
    waiting+=($!)
    ok "$name: thousands of events are published meanwhile" \
        at "${uris[2]}" "$PRESSURE" publish "$EVENTS" test.flood
    ok "$name: many heartbeats pass" wait_until 30 beats_reach $((epoch + 20))
    ok "$name: nobody is lost" "$FLUX" up
    ok "$name: the others go on" "$FLUX" ping -c 3 -i 0 6
    kill -CONT "${pids[$rank]}"
    status=0
    for i in "${!waiting[@]}"; do
        wait "${waiting[$i]}" || {
            status=1
            note "request $i: $(cat "w.$i")"
        }
    done
    is "$status" 0 "$name: the requests that waited are answered"
    complete "$EVENTS" "$name: every rank sees every event, in order, once"
    ok "$name: nobody is lost" "$FLUX" up
}
stopped 4 "a leaf"
stopped 1 "an interior broker"

# Without the root there are no events and no beats, but nothing is lost either.
subscribe 200 test.root
kill -STOP "${pids[0]}"
at "${uris[2]}" "$PRESSURE" publish 200 test.root &
publisher=$!
at "${uris[3]}" "$FLUX" ping -c 1 -t 90 6 >w.0 2>&1 &
across=$!
ok "the root: below it requests are answered" at "${uris[2]}" "$FLUX" ping -c 3 -i 0.2 5
ok "the root: for some time" at "${uris[1]}" "$FLUX" ping -c 6 -i 0.2 4
kill -CONT "${pids[0]}"
wait "$publisher"
is $? 0 "the root: events that were published meanwhile are accepted"
wait "$across"
is $? 0 "the root: a request through it is answered"
complete 200 "the root: every rank sees every event, in order, once"
ok "the root: nobody is lost" "$FLUX" up
release
is "$status" 0 "the session ends well"

# --- all at once, longer than live.lost: a host or its virtual machine is suspended
# --------------------

# Far longer, and several times, so that connections are met in each of their states.  Sanitizers make it long: once.
suspensions=(1 2 3)
[ -z "${FLUX_TEST_SANITIZERS-}" ] || suspensions=(1)
hold 12 --topology=flat --set=live.lost=$((1 + TIME_SCALE))s
pids=()
for i in {0..11}; do
    pids+=("$("$FLUX" getattr -r "$i" broker.pid)")
done
for i in "${suspensions[@]}"; do
    # Meanwhile each connection has seen some signs of life.
    ok "suspension $i: the session runs for some time" "$FLUX" ping -c 10 -i 0.25 "$i"
    kill -STOP "${pids[@]}"
    sleep $((3 * (1 + TIME_SCALE)))
    kill -CONT "${pids[@]}"
    silent=''
    for rank in {1..11}; do
        "$FLUX" ping -c 1 -t 60 "$rank" >/dev/null || silent="$silent $rank"
    done
    is "$silent" "" "... after it all ranks answer"
    ok "... nobody is lost" "$FLUX" up
done
release
is "$status" 0 "the session ends well"

# --- longer than live.lost
# -------------------------------------------------------------------------

# Not so short that a busy host loses others.
hold 4 --topology=kary:2 --set=modules=log,hb,barrier --set=live.lost=$((2 + TIME_SCALE))s \
    --set=orphan.timeout=1s --set=shutdown.grace=1s
pid3=$("$FLUX" getattr -r 3 broker.pid)
pid2=$("$FLUX" getattr -r 2 broker.pid)
lost_is() {
    [[ $("$FLUX" up) == *"lost: $1" ]]
}
verdicts() { # STATE: of which ranks it was said, in order
    "$FLUX" live history | awk -v state="$1" '$4 == state { print $3 }' | xargs
}
# Nobody can replace rank 0: it is waited for, and accuses nobody when it goes on.
pid0=$("$FLUX" getattr broker.pid)
uri1=$("$FLUX" getattr -r 1 uri)
kill -STOP "$pid0"
ok "the root stands still for longer: the others go on" \
    at "$uri1" "$FLUX" ping -c $((3 + TIME_SCALE)) -i 1 3
kill -CONT "$pid0"
ok "... and it serves them again" at "$uri1" "$FLUX" ping -c 1 -t 60 0
is "$("$FLUX" up)" "4 of 4 up: 0-3" "... nobody was lost"
is "$(verdicts slow)$(verdicts lost)" "" "... or accused"
"$FLUX" ping -c 1 -t 60 3 >w.0 2>w.err &
waits=$!
kill -STOP "$pid3"
ok "with a short live.lost a stopped leaf is lost" wait_until 30 lost_is 3
is "$(verdicts slow) $(verdicts lost)" "3 3" "it was slow before"
like "$("$FLUX" live history)" ' 3 +lost +1 +it sent nothing for [0-9.]+ s' "the one above has said so"
wait "$waits"
is $? 1 "what waited for it ends"
like "$(cat w.err)" 'rank 3 was lost' "with a sentence"
exits 1 "and cannot be reached" "$FLUX" ping -c 1 3
like "$err" "rank 3 (cannot be reached|was lost)" "with a sentence"
kill -CONT "$pid3"
ok "when it goes on it finds itself cut off, and ends" \
    wait_until 30 sh -c "! kill -0 $pid3"
# Events fill all queues towards the next one: that does not hide that it is silent.
head -c 100000 /dev/zero >payload
(while [ ! -e enough ] && "$FLUX" event pub -r load <payload; do :; done) &
load=$!
kill -STOP "$pid2"
ok "the next one, under a load of events" wait_until 30 lost_is 2-3
touch enough
wait "$load"
ok "the rest goes on" "$FLUX" ping -c 1 1
release
is "$status" 0 "the session ends well, though one is still stopped"
ok "and that one is gone, too" wait_until 30 sh -c "! kill -0 $pid2"
finish
