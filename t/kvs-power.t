#!/usr/bin/env bash
# The power fails while clients use the key-value store and submit jobs: the disk has what was
# synced, and of the rest some writes, in any order, and parts of some.  What was acknowledged is
# there in the next session: all that clients of the store were told is one history, and each
# accepted job is on record.  A disk that lies about what it has synced is noticed.
# FLUX_TEST_SEED=N repeats the choices of the disk (not the timing).
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start kvs submit jobs
need setsid
RECORD=$BUILDDIR/t/history/record
CHECK=$BUILDDIR/t/history/history-check
preload=$BUILDDIR/t/kvs/.libs/losedisk.so
for file in "$RECORD" "$CHECK" "$preload"; do
    [ -e "$file" ] || skip_all "no $file: make check builds it"
done
# The runtime of a sanitizer has to come before all that is preloaded.
case ${FLUX_TEST_SANITIZERS-} in
*address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
esac
seed=${FLUX_TEST_SEED:-${SOAK_SEED:-5}} # make soak takes another each time
RANDOM=$seed
note "seed $seed"
export LOSEDISK=$TEST_DIR/disk
mkdir disk

start() {
    local rank
    rm -f uri
    # shellcheck disable=SC2016 # for the inner shell
    LOSEDISK_SEED=$RANDOM LD_PRELOAD=$preload setsid "$FLUX" start --size=2 \
        --statedir="$TEST_DIR/state" --set=kvs.checkpoint-bytes=200k \
        --set=kvs.checkpoint-interval=100ms -- sh -c \
        'unset LD_PRELOAD; echo $FLUX_URI >uri.new && mv uri.new uri && exec sleep 1000' \
        >out 2>err.session &
    sid=$!
    wait_until 30 test -s uri || bail "the session did not start: $(cat err.session)"
    FLUX_URI=$(cat uri)
    export FLUX_URI
    uris=()
    for rank in 0 1; do
        uris+=("$("$FLUX" getattr -r $rank uri)")
    done
}
# Bash would say of the job that it was killed.
power_fails() {
    {
        kill_setsid "$sid"
        wait "$sid"
    } 2>/dev/null
    rm -rf "$TMPDIR"/flux-* state/content.sqlite*
    cp disk/* state
}
# submit FILE: one job after the other, as long as the session is there; the ids of those accepted.
submit() {
    while "$FLUX" submit -n1 true >>"$1" 2>submit.err; do :; done
}

# rounds N LOG: N sessions, of which all but the last lose the power.
rounds() {
    local n=$1 log=$2 round seconds recorder submitter
    for ((round = 1; round <= n; round++)); do
        unset LOSEDISK_LIES
        [ "$log$round" != lies2 ] || export LOSEDISK_LIES=1
        start
        seconds=60
        if [ "$round" = "$n" ]; then
            seconds=1
            "$FLUX" jobs -a -n -c 100000 -o '{id}' >"$log.jobs" 2>&1
        fi
        rm -f rec.out
        run_with_timeout 120 "$RECORD" --seed="$((seed + round))" --seconds=$seconds --clients=4 \
            --first="$((round * 1000))" "$log.$round" "${uris[@]}" >rec.out 2>rec.err &
        recorder=$!
        wait_until 20 grep -q recording rec.out || bail "nothing is recorded: $(cat rec.err)"
        if [ "$round" -lt "$n" ]; then
            submit "$log.ids" &
            submitter=$!
            wait_until 60 has_lines "$log.$round" $((300 + RANDOM % 1500))
            power_fails
            wait $submitter
        fi
        wait $recorder
        is $? 0 "$log, round $round: every client comes to its end"
    done
    {
        kill_setsid "$sid"
        wait "$sid"
    } 2>/dev/null
    rm -rf "$TMPDIR"/flux-*
}

rounds 4 durable
ok "what was told before and after each loss of power is one history that keeps all promises" \
    "$CHECK" durable.[0-9]*
note "$out"
ok "jobs were accepted" test -s durable.ids
is "$(sort durable.ids | comm -23 - <(sort durable.jobs))" "" "each accepted job is on record"
ok "the store is sound" "$BUILDDIR/src/modules/flux-kvs-fsck" state

# Of the second session nothing reaches the disk.
rm -rf state disk
mkdir disk
rounds 3 lies
exits 1 "that a disk has lied is noticed" "$CHECK" lies.[0-9]*
finish
