#!/usr/bin/env bash
# Clients use the key-value store at random while the whole session is killed with SIGKILL, and
# started again from what is on disk: all that they were told, before and after, is one history that
# keeps the promises of the store.  And when the disk forgets, that is noticed. FLUX_TEST_SEED=N
# repeats the random choices of a run (not its timing); FLUX_TEST_KEEP=DIR keeps the histories
# there.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start kvs
need setsid
RECORD=$BUILDDIR/t/history/record
CHECK=$BUILDDIR/t/history/history-check
if [ ! -x "$RECORD" ] || [ ! -x "$CHECK" ]; then
    skip_all "t/history has not been built"
fi
seed=${FLUX_TEST_SEED:-${SOAK_SEED:-8}} # make soak takes another each time
RANDOM=$seed
note "seed $seed"

# Bash would say of the job that it was killed.
kill_all() {
    {
        kill_setsid "$sid"
        wait "$sid"
    } 2>/dev/null
}
# start OPTION...: start the session; its brokers' URIs are in `uris`, its process session is `sid`.
start() {
    local uri rank
    rm -f uri
    # shellcheck disable=SC2016 # for the inner shell
    setsid "$FLUX" start --size=4 --topology=kary:2 --set=modules=log,hb,kvs \
        --statedir="$TEST_DIR/state" "$@" sh -c 'echo $FLUX_URI >uri.new && mv uri.new uri &&
            exec sleep 100' >out 2>err &
    sid=$!
    wait_until 30 test -s uri || bail "the session did not start: $(cat err)"
    uri=$(cat uri)
    uris=()
    for rank in 0 1 2 3; do
        uris+=("$(FLUX_URI=$uri "$FLUX" getattr -r $rank uri)")
    done
}

# rounds N LOG OPTION...: start a session with these options N times, and kill it after all but the
# last.
rounds() {
    local n=$1 log=$2 round seconds recorder least
    shift 2
    for ((round = 1; round <= n; round++)); do
        start "$@"
        seconds=60
        if [ "$round" = "$n" ]; then
            seconds=1
        fi
        rm -f rec.out
        run_with_timeout 120 "$RECORD" --seed="$((seed + round))" --seconds=$seconds --clients=6 \
            --first="$((round * 1000))" "$log.$round" "${uris[@]}" >rec.out 2>rec.err &
        recorder=$!
        wait_until 20 grep -q recording rec.out || bail "nothing is recorded: $(cat rec.err)"
        if [ "$round" -lt "$n" ]; then
            # What is to be forgotten has to be there.
            least=100
            [ "$log" != old ] || least=1500
            wait_until 60 has_lines "$log.$round" $((least + RANDOM % 3000)) # two an operation
            kill_all
            if [ "$log$round" = old1 ]; then
                cp -r state state.old
            elif [ "$log$round" = old2 ]; then
                rm -rf state
                mv state.old state
            fi
        fi
        wait $recorder
        is $? 0 "$log, round $round: every client comes to its end"
        note "$(cat rec.out rec.err)"
    done
    kill_all
    rm -rf "$TMPDIR"/flux-*
    if [ -n "${FLUX_TEST_KEEP:-}" ]; then
        cp -- "$log".* "$FLUX_TEST_KEEP"
    fi
}

# Checkpoints at all times, too.
rounds 4 durable --set=kvs.checkpoint-bytes=200k --set=kvs.checkpoint-interval=100ms
ok "what was told before and after each start is one history that keeps all promises" \
    "$CHECK" durable.*
note "$out"

# With a long interval nothing that is refused may wait for it.
rm -rf state
rounds 1 interval --set=kvs.sync=interval --set=kvs.sync-interval=60s
ok "with kvs.sync=interval all promises are kept, too" "$CHECK" interval.*
note "$out"

# A disk that comes back with what was on it a session ago: acknowledged commits are gone.
rm -rf state
rounds 3 old
exits 1 "that acknowledged commits are lost is noticed" "$CHECK" old.*
note "$(grep -A 9 '^[0-9]* violations' <<<"$out")"
finish
