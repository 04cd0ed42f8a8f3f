#!/usr/bin/env bash
# The whole session killed with SIGKILL, under load: every commit that was acknowledged is there
# after the next start, and what is on disk is sound.  It is killed at each of the hold points of
# the store (libutil/holdpoint.h), at a count that comes from the seed; in `make soak`, and in
# builds without hold points, at random moments.  CRASH_ROUNDS and CRASH_SEED choose how often, and
# which ones.
. "$(dirname "$0")/lib.sh"
need_flux start kvs
need setsid

# NAME:MOST: the count is at most so large.
points=(storage-opened:1 storage-written:300 storage-committed:60 storage-tidied:12 change-durable:150
    checkpoint-piece:8 checkpoint-written:8 checkpoint-recorded:8 checkpoint-deleted:8)
at_points=1
rounds=$((3 * ${#points[@]}))
if [ -n "${SOAK_SEED:-}" ] || ! has_hold_points; then
    at_points=0
    rounds=$((200 / TIME_SCALE))
fi
rounds=${CRASH_ROUNDS:-$rounds}
seed=${CRASH_SEED:-${SOAK_SEED:-8}} # make soak takes another each time
RANDOM=$((seed % 32768))
note "seed $seed"
durable=$BUILDDIR/t/kvs/kvs_durable
fsck=$BUILDDIR/src/modules/flux-kvs-fsck
mkdir record

# Checkpoints all the time, from every few rows on, in some rounds; in others hardly any.
options() {
    local bytes=(1k 16k 200k 16M) interval=(5ms 20ms 100ms 10s)
    if [ -n "$hold_point" ] && [[ $hold_point != storage-* ]]; then
        bytes=(1k 2k 4k 8k) # else few of its points are passed
    fi
    echo "--set=kvs.checkpoint-bytes=${bytes[RANDOM % 4]}" \
        "--set=kvs.checkpoint-interval=${interval[RANDOM % 4]}"
}

# While it starts and comes back, or while it works.
random_moment() {
    local ms=$((RANDOM % 160))
    if [ $((RANDOM % 4)) -gt 0 ]; then
        until [ -e record/working ] || ! kill -0 "$1"; do
            sleep 0.02
        done
    fi
    sleep "0.$(printf %03d $ms)"
}

crash() {
    local size=1 opts sid hold_point=''
    if [ $((RANDOM % 10)) -eq 0 ]; then
        size=3
    fi
    if [ $at_points = 1 ]; then
        hold_point=${points[round % ${#points[@]}]}
        hold_point=${hold_point%:*}:$((1 + RANDOM % ${hold_point#*:}))
        hold_point_arm
    fi
    read -ra opts <<<"$(options)"
    rm -f record/working
    FLUX_HOLD_POINT=${hold_point:+$hold_point:$TEST_DIR/$HOLD_FILE} setsid "$FLUX" start --size=$size --set=modules=kvs \
        --statedir="$TEST_DIR/state" "${opts[@]}" \
        "$durable" run "$TEST_DIR/record" "$seed" 4 >out 2>err &
    sid=$!
    if [ $at_points = 1 ]; then
        wait_until 30 hold_point_reached "$sid"
    else
        random_moment "$sid"
    fi
    if ! kill -0 $sid || { [ $at_points = 1 ] && [ -e "$HOLD_FILE" ]; }; then
        kill_setsid $sid
        cat err >&2
        return 1
    fi
    kill_setsid $sid
    wait $sid
    rm -rf "$TMPDIR"/flux-*
    if [ -s record/failed ]; then
        cat record/failed >&2
        return 1
    fi
    if [ -s state/content.sqlite ] && ! "$fsck" state >fsck.out 2>&1; then
        cat fsck.out >&2
        return 1
    fi
}

good=0
for ((round = 1; round <= rounds; round++)); do
    if ! crash 2>crash.err; then
        note "round $round: $(cat crash.err)" >&2
        break
    fi
    good=$((good + 1))
done
is $good "$rounds" "$rounds times killed, checked, started again"
ok "all that was acknowledged is there" session 1 --set=modules=kvs --statedir="$TEST_DIR/state" -- \
    "$durable" check "$TEST_DIR/record" "$seed" 4
ok "flux-kvs-fsck agrees" "$fsck" state
# shellcheck disable=SC2154 # set by ok
note "$out"
note "commits acknowledged: $(for f in record/[0-9]; do od -An -tu8 -j8 -N8 "$f"; done | tr -s ' \n' ' ')"
finish
