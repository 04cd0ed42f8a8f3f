#!/usr/bin/env bash
# A session under load accuses nobody, and neither does one of whose brokers some stand still for
# less than the limit. `make soak`: 64 brokers for SOAK_TIME seconds.
#
# The pauses come from SOAK_SEED. The load is fences of the store, tasks on all nodes that print, jobs
# in bulk, and events; how much of it is done is noted.
. "$(dirname "$0")/lib.sh"
need_flux start up live kap submit wreckrun event
n=16 limit=5
[ -z "${SOAK_TIME-}" ] || n=64 limit=$SOAK_TIME
seed=${SOAK_SEED:-8}
RANDOM=$((seed % 32768))
note "SOAK_SEED=$seed"
export SESSION_LIMIT=$((limit + 600))

hold "$n" --topology=binary
pids=()
uris=()
for ((i = 0; i < n; i++)); do
    pids+=("$("$FLUX" getattr -r "$i" broker.pid)")
    uris+=("$("$FLUX" getattr -r "$i" uri)")
done

# load NAME COMMAND...: repeat it, each time as a client of another broker.
load() {
    local name=$1 i=0 code
    shift
    : >"did.$name"
    while [ ! -e stop ]; do
        i=$(((i + 7) % n))
        FLUX_URI=${uris[$i]} run_with_timeout 300 "$FLUX" "$@" >"out.$name" 2>"err.$name"
        code=$?
        echo "$code" >>"did.$name"
        [ "$code" = 0 ] || cp "err.$name" "failed.$name"
    done
}
loads=()
load store kap --producers=$n --consumers=$n --value-size=512 &
loads+=($!)
load output wreckrun -N$n -n$n seq 5000 &
loads+=($!)
load jobs submit --quiet --wait --cc=1-64 true &
loads+=($!)
load events event pub --async a.test '{"a":1}' &
loads+=($!)

# A broker is stopped for up to 2.7 s of the 3 s of live.lost. What counts is how long that was.
lost=
stops=0
until_then=$((SECONDS + limit))
while [ "$SECONDS" -lt "$until_then" ] && [ -z "$lost" ]; do
    rank=$((RANDOM % n)) pause=$((RANDOM % 27 + 1))
    begin=${EPOCHREALTIME/./}
    kill -STOP "${pids[$rank]}"
    sleep "$((pause / 10)).$((pause % 10))"
    kill -CONT "${pids[$rank]}"
    took=$(((${EPOCHREALTIME/./} - begin) / 1000))
    stops=$((stops + 1))
    if [ "$took" -lt 2950 ] && ! run_with_timeout 90 "$FLUX" ping -c 1 -t 60 "$rank" >out 2>&1; then
        lost="rank $rank was stopped for $took ms, stop $stops: $(cat out)"
    fi
done
is "$lost" "" "who is stopped for less than live.lost is not lost"
[ -z "$lost" ] || "$FLUX" cancel --quiet --all # what waits for nodes that are lost
touch stop
wait "${loads[@]}"
note "$stops stops; $(for i in store output jobs events; do echo "$i: $(wc -l <"did.$i")"; done | paste -sd,)"
for i in store output jobs events; do
    is "$(sort did.$i | uniq -c | awk '{print $2}' | xargs) $(cat failed.$i 2>/dev/null)" "0 " "load goes on: $i"
done
all_up() { # and not slow any more
    [ "$("$FLUX" up)" = "$n of $n up: 0-$((n - 1))" ]
}
ok "all are up" wait_until 30 all_up
"$FLUX" live history >verdicts
is "$(awk '$4 == "lost"' verdicts)" "" "nobody was lost"
is "$("$FLUX" up --long | awk 'NR > 1 && $5 != 1')" "" "nobody has joined again"
release
is "$status" 0 "the session ends well"
finish
