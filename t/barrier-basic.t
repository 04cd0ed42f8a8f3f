#!/usr/bin/env bash
# Barriers in a real session: all pass together, and when it cannot be all, everybody is told.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start barrier dmesg module
plan 30

# Run flux with the rest of the arguments as a client of broker $1.
at() {
    local rank=$1
    shift
    FLUX_URI=$(uri "$rank") "$FLUX" "$@"
}
uri() {
    echo "${FLUX_URI%/*/local}/$1/local"
}

# Enter barrier $2 of $3 from broker $1 in the background; what it says is in enter.TAG.
pids=()
enter() {
    local rank=$1 tag=$4
    FLUX_URI=$(uri "$rank") "$FLUX" barrier --nprocs="$3" "$2" >"enter.$tag" 2>&1 &
    pids[tag]=$!
}

# Does broker $1 count $2 entries of its own clients?
entered() {
    at "$1" module stats barrier | finds -E "[[:space:]]entered[[:space:]]+$2\$"
}

# A busy host makes turns long, of which the module would complain.
hold 4 --topology=chain --set=module.turn-max=0

for tag in 0 1 2; do
    enter "$tag" first 4 "$tag"
done
ok "three of four enter" wait_until 20 eval 'entered 0 1 && entered 1 1 && entered 2 1'
ok "and none is through" kill -0 "${pids[0]}" "${pids[1]}" "${pids[2]}"
ok "the last one is let through" at 3 barrier --nprocs=4 first
for tag in 0 1 2; do
    ok "and participant $tag" wait "${pids[tag]}"
done

# shellcheck disable=SC2016 # to be expanded by the inner shell
ok "a default of one process a broker, ten rounds with one name" bash -c '
    flux=$1
    for rank in 0 1 2 3; do
        (
            export FLUX_URI=${FLUX_URI%/*/local}/$rank/local
            for _ in 1 2 3 4 5 6 7 8 9 10; do "$flux" barrier again || exit 1; done
        ) &
        pids="$pids $!"
    done
    for pid in $pids; do wait "$pid" || exit 1; done' bash "$FLUX"

ok "all processes at one broker need nobody else" at 3 barrier --nprocs=1 alone
is "$(at 3 module stats barrier | awk '$2 == "joins" { print $3 }')" 11 \
    "and the instance above is not asked"

# Numbers that disagree.
enter 1 odd 2 0
wait_until 20 entered 1 12
fails "another number is refused" at 3 barrier --nprocs=3 odd
like "$err" "disagree.* 2 and 3|disagree.* 3 and 2" "with a sentence"
exits 1 "also for who was there before" wait "${pids[0]}"
like "$(cat enter.0)" "disagree" "with the same sentence"

# A participant that dies.
enter 3 broken 3 0
enter 1 broken 3 1
wait_until 20 eval 'entered 3 14 && entered 1 13'
kill -KILL "${pids[0]}"
wait "${pids[0]}" 2>/dev/null
exits 1 "a participant's death is told to the others" wait "${pids[1]}"
like "$(cat enter.1)" "'broken' was aborted: a participant of rank 3 went away" "with the reason"
ok "and the name can be used again" at 2 barrier --nprocs=1 broken
# Those who start up and those who pass on an abort have nothing to complain about.
for rank in 0 1 2 3; do
    is "$(at "$rank" dmesg --broker="$rank" --source=barrier)" "" "and rank $rank logs nothing"
done

# Names and times.
fails "an empty name is refused" at 0 barrier ''
fails "a name that is too long is refused" at 0 barrier "$(printf '%0129d' 0)"
like "$err" "1 to 128 bytes, this one has 129" "with the bound"
ok "the longest one is not" at 0 barrier --nprocs=1 "$(printf '%0128d' 0)"
fails "one that gives up says so" at 0 barrier --nprocs=2 --timeout=100ms late
# Does broker $1 have $2 unfinished barriers?
unfinished() {
    at "$1" module stats barrier | finds -E "[[:space:]]barriers[[:space:]]+$2\$"
}
ok "and nothing is left of it" wait_until 20 unfinished 0 0

# The module goes away while somebody waits.
enter 2 unloaded 2 0
wait_until 20 unfinished 2 1
at 2 module unload barrier
exits 1 "unloading the module ends those who wait" wait "${pids[0]}"

release
is "$status" 0 "the session ends well"

# A broker that dies with participants of a barrier: who entered elsewhere is told.
hold 3 --topology=chain --set=modules=log,barrier --set=orphan.timeout=$((60 * PATIENCE))s
victim=$(at 0 getattr -r 2 broker.pid)
enter 2 lost 3 0
wait_until 20 unfinished 0 1
enter 0 lost 3 1
wait_until 20 entered 0 1
kill -KILL "$victim"
exits 1 "participants that died with their broker end the barrier" wait "${pids[1]}"
like "$(cat enter.1)" "'lost' was aborted: (a participant of )?rank 2 (is lost|went away)" \
    "with the reason"
wait "${pids[0]}" 2>/dev/null
release
