#!/usr/bin/env bash
# flux event: publishing, and subscribers at several ranks.
. "$(dirname "$0")/lib.sh"
need_flux start event

# No heartbeat: its events would take numbers between those that are counted here.
hold 4 --topology=kary:2 --set=modules=log,barrier
uri_of() {
    "$FLUX" getattr --rank="$1" uri
}

# A subscriber in the background, ready when this returns; its id is pid[NAME].
declare -A pid
subscribe() {
    local name=$1 rank=$2
    shift 2
    rm -f "$name.err"
    FLUX_URI=$(uri_of "$rank") "$FLUX" event sub --confirm "$@" >"$name.out" 2>"$name.err" &
    pid[$name]=$!
    wait_until 10 grep -q subscribed "$name.err"
}

subscribe here 0 --count=4 --timeout=$((20 * PATIENCE)) test.
subscribe far 3 --count=4 --timeout=$((20 * PATIENCE)) test. test.a
subscribe json 1 --count=4 --timeout=$((20 * PATIENCE)) --json test.
subscribe late 2 --timeout=0.3 other.

ok "pub" "$FLUX" event pub test.a
ok "pub with a payload" "$FLUX" event pub test.b '{"x": [1, 2]}'
ok "pub of something else" "$FLUX" event pub tes.c
run "$FLUX" event pub --seq test.d
first=$out
FLUX_URI=$(uri_of 2) run "$FLUX" event pub --seq nothing.e
is "$out" $((first + 1)) "sequence numbers are those of the session"
printf 'by\0tes' >raw
ok "pub of bytes" sh -c "'$FLUX' event pub --raw test.e <raw"
wait "${pid[here]}" "${pid[far]}" "${pid[json]}"
is $? 0 "subscribers have seen what they wanted"
is "$(cut -f2 here.out | tr '\n' ' ')" "test.a test.b test.d test.e " "in order"
is "$(cat far.out)" "$(cat here.out)" "the same at another rank, once each"
like "$(cat here.out)" $'\ttest.b\t\\{"x": \\[1, 2\\]\\}' "with payload"
like "$(cat here.out)" '<6 bytes>' "or its length"
is "$(wc -l <json.out)" 4 "JSON: one object a line"
like "$(cat json.out)" '"term":1,"topic":"test.b".*"payload":\{"x":\[1,2\]\}' "with all in it"
wait "${pid[late]}"
is $? 1 "a subscriber that sees nothing in time fails"
like "$(cat late.err)" 'no event arrived' "and says so"

exits 2 "a payload that is not JSON" "$FLUX" event pub test.x '{'
exits 1 "a topic that is none" "$FLUX" event pub 'with blank'
exits 2 "no topic" "$FLUX" event pub
exits 1 "a reserved topic" "$FLUX" event pub overlay.down '{}'
like "$err" 'reserved' "is refused"

# Many, from all ranks at once: every subscriber sees the same, without gap or double.
for rank in 0 1 2 3; do
    subscribe "s$rank" "$rank" --count=400 --timeout=$((60 * PATIENCE)) many
done
for rank in 0 1 2 3; do
    (
        FLUX_URI=$(uri_of $rank)
        export FLUX_URI
        for ((i = 0; i < 100; i++)); do
            "$FLUX" event pub --async "many.$rank.$i" || exit 1
        done
    ) &
    publishers[rank]=$!
done
wait "${publishers[@]}"
is $? 0 "400 events are published from 4 ranks"
wait "${pid[s0]}" "${pid[s1]}" "${pid[s2]}" "${pid[s3]}"
is $? 0 "and seen at all"
for rank in 1 2 3; do
    ok "rank $rank sees what rank 0 sees" cmp s0.out "s$rank.out"
done
# shellcheck disable=SC2016 # awk's own variables
ok "in the order of their numbers, without gap" awk -F'\t' \
    'NR > 1 && $1 != last + 1 {exit 1} {last = $1} END {exit NR != 400}' s0.out

release
is "$status" 0 "the session ends well"
finish
