#!/usr/bin/env bash
# The whole session killed with SIGKILL at random moments, under load: every commit that was
# acknowledged is there after the next start, and what is on disk is sound.  CRASH_ROUNDS and
# CRASH_SEED choose how often, and which moments.
. "$(dirname "$0")/lib.sh"
need_flux start kvs
need setsid

rounds=${CRASH_ROUNDS:-$((200 / TIME_SCALE))}
seed=${CRASH_SEED:-${SOAK_SEED:-8}} # make soak takes another each time
RANDOM=$((seed % 32768))
note "seed $seed"
durable=$BUILDDIR/t/kvs/kvs_durable
fsck=$BUILDDIR/src/modules/flux-kvs-fsck
mkdir record

# Checkpoints all the time, from every few rows on, in some rounds; in others hardly any.
options() {
    local bytes=(1k 16k 200k 16M) interval=(5ms 20ms 100ms 10s)
    echo "--set=kvs.checkpoint-bytes=${bytes[RANDOM % 4]}" \
        "--set=kvs.checkpoint-interval=${interval[RANDOM % 4]}"
}

crash() {
    local size=1 ms=$((RANDOM % 160)) opts sid
    if [ $((RANDOM % 10)) -eq 0 ]; then
        size=3
    fi
    read -ra opts <<<"$(options)"
    rm -f record/working
    setsid "$FLUX" start --size=$size --set=modules=kvs --statedir="$TEST_DIR/state" "${opts[@]}" \
        "$durable" run "$TEST_DIR/record" "$seed" 4 >out 2>err &
    sid=$!
    # While it starts and comes back, or while it works.
    if [ $((RANDOM % 4)) -gt 0 ]; then
        until [ -e record/working ] || ! kill -0 $sid; do
            sleep 0.02
        done
    fi
    sleep "0.$(printf %03d $ms)"
    if ! kill -0 $sid; then
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
