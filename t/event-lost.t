#!/usr/bin/env bash
# A rank that is stopped while events are published: each number reaches its subscribers, or is
# named in their stream as lost.
. "$(dirname "$0")/lib.sh"
need_flux start event getattr overlay wreckrun resource up
PRESSURE=$BUILDDIR/t/pressure
[ -x "$PRESSURE" ] || skip_all "t/pressure has not been built"
export SESSION_LIMIT=200 # for hold in lib.sh
# Of 70 KB: an event each is a message of its own between brokers, of which 256 wait for a child.
head -c 70000 /dev/zero >payload
EVENTS=450

publish() { # COUNT
    local i
    for ((i = 0; i < $1; i++)); do
        "$FLUX" event pub -r load <payload || return 1
    done
}
stat_of() { # RANK NAME
    FLUX_URI=${uris[$1]} "$FLUX" module stats broker | awk -v name="$2" '$1 == name || $2 == name {print $NF}'
}
# stopped NAME: a subscriber at rank 2, below rank 1, which is stopped while events are published.
stopped() {
    rm -f seen seen.err
    FLUX_URI=${uris[2]} run_with_timeout 150 "$FLUX" event sub --confirm load end >seen 2>seen.err &
    subscriber=$!
    wait_until 30 grep -q subscribed seen.err || bail "no subscription"
    kill -STOP "$pid"
    ok "$1: events are published beside a stopped rank" publish $EVENTS
    kill -CONT "$pid"
    # No further event may be needed to see that some are missing: none is published here.
    ok "$1: the subscriber hears of the last" wait_until 60 accounted "$((first + EVENTS - 1))"
    kill "$subscriber"
    wait "$subscriber" 2>/dev/null
}
# The number of the last event that the subscriber saw, or that was named, is $1.
accounted() {
    [ "$(tail -n 1 seen | cut -f 1)" = "$1" ]
}
# Numbers that the stream neither has nor names, and those that it names; from $first on.
account() {
    awk -F '\t' -v first="$first" -v n="$EVENTS" '
        $2 == "event.lost" {
            match($3, /"from":[0-9]+/); from = substr($3, RSTART + 7, RLENGTH - 7) + 0
            match($3, /"to":[0-9]+/); to = substr($3, RSTART + 5, RLENGTH - 5) + 0
            for (i = from; i <= to; i++) { named++; seen[i]++ }
            next
        }
        { seen[$1]++ }
        END {
            for (i = first; i < first + n; i++) bad += seen[i] != 1
            print bad + 0, named + 0
        }' seen
}
begin() { # SETTING...
    hold 3 --topology=chain --set=modules=log --set=live.slow=4m --set=live.lost=5m "$@"
    uris=()
    for i in 0 1 2; do
        uris+=("$("$FLUX" getattr -r "$i" uri)")
    done
    pid=$("$FLUX" getattr -r 1 broker.pid)
    first=$(("$("$FLUX" event pub -s before)" + 1))
}

begin
stopped "replayed"
is "$(account)" "0 0" "every number reached the subscriber, once"
release

begin --set=event.buffer=1M --set=event.backlog=1M
stopped "lost"
read -r bad named < <(account)
is "$bad" 0 "every number reached the subscriber, or was named as lost, once"
isnt "$named" 0 "and some were named"
is "$(stat_of 2 events_lost)" "$named" "the broker counted them"
release

# A rank without a parent: its subscribers hear of it long before it ends.
begin --set=orphan.timeout=5m --set=heal.timeout=0
rm -f seen seen.err # which have the words that are waited for
FLUX_URI=${uris[2]} run_with_timeout 100 "$FLUX" event sub --confirm load >seen 2>seen.err &
subscriber=$!
wait_until 30 grep -q subscribed seen.err || bail "no subscription"
kill -KILL "$pid"
ok "who is below a broker that is lost is told at once" wait_until 60 grep -q event.lost seen
like "$(cat seen)" '"to":0' "that nothing comes any more"
kill "$subscriber"
wait "$subscriber" 2>/dev/null
orphan=$(FLUX_URI=${uris[2]} "$FLUX" getattr broker.pid)
kill "$orphan"
ok "the orphan ends when it is asked to" wait_until 30 sh -c "! kill -0 $orphan"
release

# A command that waits for what an event says, at a rank that does not get it.
if [ "${FLUX_TEST_LINK:-}" = zmq ]; then
    skip 8 "brokers are started again in sessions on UNIX sockets only"
    finish
    exit
fi
hold 3 --topology=kary:2 --restart --set=live.slow=4m --set=live.lost=5m \
    --set=event.buffer=1M --set=event.backlog=1M --set=leave.jobs=wait
uris=([1]="$("$FLUX" getattr -r 1 uri)")
pid=$("$FLUX" getattr -r 1 broker.pid)
"$FLUX" wreckrun -N1 -n1 --ranks=2 sh -c 'echo; while [ ! -e enough ]; do sleep 0.05; done' >job.out 2>&1 &
job=$!
ok "a job runs on rank 2" wait_until 60 test -s job.out
asked=$(stat_of 1 inflight)
FLUX_URI=${uris[1]} run_with_timeout 60 "$FLUX" overlay restart --timeout=1h 2 >restart.out 2>&1 &
restart=$!
leaving() {
    "$FLUX" resource drain | finds leaving.*restart
}
ok "its restart waits for the job" wait_until 60 leaving
silent() { # all that the command has asked is answered: it waits for events
    [ "$(stat_of 1 inflight)" -le "$asked" ]
}
ok "... and only for events" wait_until 60 silent
kill -STOP "$pid"
ok "more events than wait for the rank of the command" "$PRESSURE" publish 450 load 70000
touch enough
wait "$job"
again() {
    "$FLUX" up --long | finds -E "^ *2 +up +[0-9]+ +[0-9]+ +2\$"
}
ok "rank 2 is up again" wait_until 60 again
ok "its events are too old to be sent again" "$PRESSURE" publish 40 load 70000
kill -CONT "$pid"
wait "$restart"
is "$? $(cat restart.out)" "0 rank 2 is up again" "the command has noticed"
isnt "$(stat_of 1 events_lost)" 0 "although events were lost"
release
finish
