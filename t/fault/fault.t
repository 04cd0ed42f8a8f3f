#!/usr/bin/env bash
# Faults of all kinds, one after the other, in a session that works: which ones comes from a seed.
# In the end nothing that anybody was told is untrue: the history of the key-value store keeps all
# promises, no commit that was acknowledged is lost; each job that was accepted ended, once, no task
# ran twice, no id was given twice; subscribers saw each event, or were told which ones they did
# not; the session ends, and leaves nothing.
#
# A run is a session with a statedir of its own: 4 to 7 brokers (with more than 100 faults, now and
# then 16 or 64), on this host or on hosts made of
# network namespaces, with kvs.sync=commit or interval; it meets up to 15 faults (inject.sh), each
# kind once before the first comes again, while clients are at work (load.sh).  After each fault
# (but a third of them, which the next one follows at once) the session must have the state that
# follows from it: the ranks that are not lost are up, a commit is acknowledged and seen at another
# rank, and a job over all of them runs.
#
#     FAULT_SEED=N     where chance comes from; printed (default 3; `make soak` takes another each time)
#     FAULT_COUNT=N    this many faults (default 50)
#     FAULT_RUN=R      only run R of those: what happens in it does not depend on the others
#     FAULT_ROOT_STOPS=S   stop the broker of rank 0 for up to S seconds (default 2; `make soak` 60)
#     FAULT_KIND=K     only faults of that kind, which is one of inject.sh
#     FAULT_KEEP=DIR   what a run that failed left (histories, logs, statedir) is copied there
#
# A failure says how to meet the same faults again: FAULT_SEED=.. FAULT_COUNT=.. FAULT_RUN=.. (the
# moments in which they meet the load are never the same).  doc/testing-faults.rst tells more.
#
# What is mounted is seen by this test alone, and gone with it.
if [ -z "${FAULT_NAMESPACE-}" ] && unshare -m true 2>/dev/null; then
    FAULT_NAMESPACE=1 exec unshare -m bash "$0"
fi
# shellcheck source=t/mpi/own_shm.sh
. "$(dirname "$0")/../mpi/own_shm.sh"
# shellcheck source=t/lib.sh
. "$(dirname "$0")/../lib.sh"
need_flux start kvs submit wreckrun queue event module
need prlimit pgrep fallocate
RECORD=$BUILDDIR/t/history/record
CHECK=$BUILDDIR/t/history/history-check
JOBCHECK=$BUILDDIR/t/jobs/jobcheck
FSCK=$BUILDDIR/src/modules/flux-kvs-fsck
for program in "$RECORD" "$CHECK" "$JOBCHECK"; do
    [ -x "$program" ] || skip_all "$program has not been built: make check builds it"
done
# shellcheck source=t/fault/lib.sh
. "$SRCDIR/t/fault/lib.sh"
# shellcheck source=t/fault/load.sh
. "$SRCDIR/t/fault/load.sh"
# shellcheck source=t/fault/check.sh
. "$SRCDIR/t/fault/check.sh"
# shellcheck source=t/fault/zombie.sh
. "$SRCDIR/t/fault/zombie.sh"
# shellcheck source=t/fault/inject.sh
. "$SRCDIR/t/fault/inject.sh"
seed=${FAULT_SEED:-3}
count=${FAULT_COUNT:-50}
A_RUN=15
note "FAULT_SEED=$seed FAULT_COUNT=$count"

# --- what this host allows ---

mkdir disk
mount -t tmpfs -o size=192m tmpfs disk 2>/dev/null
can_disk=$((!$?))
hosts_possible
can_cut=$((!$?))
preload=$BUILDDIR/t/job/.libs/wallclock.so
can_clock=0
if [ -e "$preload" ]; then
    can_clock=1
    # The runtime of a sanitizer has to come before all that is preloaded.
    case ${FLUX_TEST_SANITIZERS-} in
    *address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
    esac
    FAULT_PRELOAD=$preload
    export WALLCLOCK=$TEST_DIR/clock
fi
# A program that was built without a sanitizer does not load a library with one.
for library in mpich openmpi; do
    if [ -z "${FLUX_TEST_SANITIZERS:-}" ] && command -v mpicc.$library >/dev/null; then
        mpicc.$library -O1 -o mpi_ring.$library "$SRCDIR/t/mpi/mpi_ring.c" >cc.log 2>&1 || true
    fi
done
can_drop=0
[ "$can_cut" = 0 ] || ! switch_drops 2>/dev/null || can_drop=1
[ "$can_disk$can_cut$can_clock$can_drop" = 1111 ] || note "not here: $([ $can_disk = 1 ] || echo full disks \
    )$([ $can_cut = 1 ] || echo ' hosts')$([ $can_clock = 1 ] || echo ' clocks')$([ $can_drop = 1 ] || echo ' lost packets')"
possible() { # KIND
    case $1 in
    disk) [ $can_disk = 1 ] ;;
    clock) [ "$ticks" = 0 ] ;;
    cut | return) [ "$where" = hosts ] ;;
    deaf | loss) [ "$where$can_drop" = hosts1 ] ;;
    esac
}

# --- after a fault ---

up_is() {
    [[ $(at 0 "$FLUX" up) == "${#up[@]} of $n up"* ]]
}
# The nodes of brokers that have left are drained.
down_is() {
    [ "$(at 0 "$FLUX" resource list | awk '$1 == "down" || $1 == "drained" { n += $2 } END { print n }')" = \
        $((n - ${#up[@]})) ]
}
acknowledged() {
    at 0 "$FLUX" kvs put "fault.probe=$probe"
}
seen() {
    [ "$(at "${up[-1]}" "$FLUX" kvs get fault.probe)" = "$probe" ]
}
probe=0
recovered() {
    local told uri=${uris[0]}
    probe=$((probe + 1))
    session_revive || return 1
    wait_until 60 up_is || return 1
    wait_until 60 down_is || return 1
    wait_until 60 acknowledged || return 1
    wait_until 60 seen || return 1
    submit_one probe any ${#up[@]} --wait -N ${#up[@]} -- : || {
        cat refused.probe
        return 1
    }
    [ ! -e hung ] || {
        echo "commands that did not end: $(cat hung)"
        return 1
    }
    nobody_else_failed
}
# In a third of the cases the next fault comes at once.
injected() { # KIND
    local hurry
    draw 3
    hurry=$drawn
    fault_begin=$EPOCHREALTIME
    "fault_$1" || return 1
    fault_end=$EPOCHREALTIME
    [ "$hurry" = 0 ] || recovered
}

# For check.sh: what that fault may have broken.
excuse() { # LIFE LOST OUTPUT: before it, the life of the session, and how many ranks had been lost
    {
        [ "$life" = "$1" ] || echo all
        [[ "$3" != *"reload module barrier"* ]] || echo all
        ! grep -qE '^(kill a launcher|reload module|fill the disk|allow rank)' <<<"$3" || echo jobs
        sed -n 's/^allow rank \([0-9]*\) .* descriptors .*/\1/p' <<<"$3"
        tail -n "+$(($2 + 1))" gone
    } | sed "s/^/$fault_begin $fault_end /" >>excuses
}

# --- at the end of a run ---

idle() {
    at 0 "$FLUX" queue idle
}
history_kept() {
    local e
    for ((e = 1; e <= era; e++)); do
        "$CHECK" history.$e.* || return 1
    done
}
jobs_kept() {
    local bad=0 id
    cat accepted.* >accepted
    at 0 "$FLUX" jobs -a -n --count=0 -o '{id} {result} {ntasks}' >listed
    # Whoever submitted a job may have been killed, so nobody else knows that it runs again.
    sort runs | uniq -d | cut -d ' ' -f 1 | uniq | while read -r id; do
        echo "$id $(at 0 "$FLUX" kvs get "job.$id.eventlog" </dev/null | grep -c '"name":"start"')"
    done >starts
    jobs_violations accepted runs listed starts >violations
    at 0 "$FLUX" jobs -a -n --count=0 -o '{id} {note}' >reasons
    # Tasks are lost with a module that has no say, too.
    cat gone unloaded >without
    losses_violations reasons without >>violations
    awk 'FILENAME == ARGV[1] { kind[$1] = $3; next } $2 == "failed" && $1 in kind && kind[$1] != "fails" { print $1 }' \
        accepted listed | while read -r id; do
        exceptions "$id" | grep -qv '"type":"output"' && echo "$id"
    done >causes
    failures_violations accepted listed causes >>violations
    echo "$(grep -c 'lost rank' reasons) jobs lost nodes, $(awk '$2 > 1' starts | wc -l) ran again"
    echo "$(wc -l <accepted) jobs accepted, $(wc -l <listed) on record, $(wc -l <runs) tasks ran"
    [ ! -s violations ] || bad=1
    cat violations
    [ "$ticks" = 1 ] || set -- --clock-set
    at 0 "$JOBCHECK" "$@" || bad=1
    return $bad
}
exceptions() { # ID
    at 0 "$FLUX" kvs get "job.$1.eventlog" </dev/null | grep '"name":"exception"'
}
# What jobs printed, by way of their clients and by that of the store.  The event log says when the disk
# had no room for some.
outputs_kept() {
    local id code
    awk '$3 == "prints" { print $1 }' accepted | while read -r id; do
        at 0 "$FLUX" job attach -l -q "$id" </dev/null 2>>attach.err | sed "s/^/$id says /"
        code=${PIPESTATUS[0]}
        ! exceptions "$id" | grep -q '"type":"output".*: no room on the disk' || code=told
        echo "$id exit $code"
    done >outputs.stored
    cat outputs.[0-9]* outputs.stored >outputs
    outputs_violations outputs >violations
    echo "$(grep -c ' exit 0' outputs.stored) of $(grep -c ' exit ' outputs.stored) jobs printed all to the store," \
        "$(cat outputs.[0-9]* | grep -c ' exit 0') of $(cat outputs.[0-9]* | grep -c ' exit ') to their clients"
    [ ! -s violations ] || {
        cat violations
        sed 's/^job \([0-9]*\):.*/\1/p;d' violations | sort -u | while read -r id; do
            at 0 "$FLUX" wreck eventlog "$id" </dev/null
        done
        return 1
    }
}
# What launchers that were killed have left is removed by the next one of their user.
shm_clean() {
    [ -z "$(shm_left)" ] || run_with_timeout 60 "$FLUX" start --size=1 "$FLUX" wreckrun true
    wait_until 10 shm_empty || {
        shm_left
        return 1
    }
}
shm_empty() {
    [ -z "$(shm_left)" ]
}
# What has been done so far.
declare -A met=()
total_faults=0 total_runs=0 total_jobs=0
figures() {
    local kind by=()
    for kind in "${KINDS[@]}"; do
        by+=("${met[$kind]:-0} $kind")
    done
    note "seed $seed: $total_faults faults in $total_runs runs ($(printf '%s\n' "${by[@]}" | paste -sd, | sed 's/,/, /g'))," \
        "$total_jobs jobs accepted, $_failed checks failed"
}
# Of the jobs that have not ended, five, with their event logs, and the nodes.
unended() {
    local id
    note "$(at 0 "$FLUX" resource list 2>&1)"
    at 0 "$FLUX" jobs -n --count=5 -o '{id} {state} {note} {ranks}' 2>&1 </dev/null | while read -r id rest; do
        note "job $id: $rest"
        note "$(at 0 "$FLUX" kvs get "job.$id.eventlog" 2>&1 </dev/null)"
    done
}
# What to do to meet it again; what is left of the session is ended, so that the test can.
give_up() {
    note "again: FAULT_SEED=$seed FAULT_COUNT=$count FAULT_RUN=$run" >&2
    if [ ${#up[@]} -gt 0 ]; then
        unended >&2
        note "$(at 0 "$FLUX" dmesg 2>&1 | tail -n 40)" >&2
    fi
    note "$(tail -n 20 "log.$life")" >&2
    if [ -n "${FAULT_KEEP:-}" ]; then
        mkdir -p "$FAULT_KEEP/run.$seed.$run"
        cp -r -- * "$FAULT_KEEP/run.$seed.$run" 2>/dev/null
    fi
    touch stop
    session_crash
    load_end
    kill -KILL "$recorder" "${subscribers[@]}" 2>/dev/null
    wait 2>/dev/null &
    netns_end
    umount -l disk 2>/dev/null
    rm -rf "$TMPDIR"/flux-*
    figures
    bail "seed $seed, run $run: what comes after that would mean nothing"
}

# The kinds of faults of a run: shuffled, and shuffled again when all have had their turn.
shuffled() {
    local i last
    deck=()
    for kind in "${KINDS[@]}"; do
        ! possible "$kind" || [ "${FAULT_KIND:-$kind}" != "$kind" ] || deck+=("$kind")
    done
    [ ${#deck[@]} -gt 0 ] || bail "no such fault here"
    for ((i = ${#deck[@]}; i > 1; i--)); do
        draw "$i"
        last=${deck[i - 1]} deck[i - 1]=${deck[drawn]} deck[drawn]=$last
    done
}

# A long test has other shapes, too.  Sets $size and $tree.
larger() { # RUN
    local shapes=(kary:2 chain kary:16)
    size=$(($1 % 10 ? 16 : 64))
    draw ${#shapes[@]}
    tree=${shapes[$drawn]}
}

one_run() { # RUN FAULTS
    local run=$1 faults=$2 i plan=() deck lost lived
    local trees=(kary:2 flat chain kary:3) way=$(((seed + $1) & 3))
    draw_from "$seed" "$run" 0
    draw 4
    local size=$((drawn + 4))
    draw ${#trees[@]}
    local tree=${trees[$drawn]} place=local how=commit
    [ "$count" -le 100 ] || [ $(($1 % 5)) != 0 ] || larger "$1"
    # Subtrees return to their places at once, while there is load, or not within a run.
    local settles=(0.5s 0.5s 30s) fanouts=(0 2 3) overlay
    draw ${#settles[@]}
    overlay=(--set=overlay.settle="${settles[$drawn]}")
    draw ${#fanouts[@]}
    overlay+=(--set=overlay.fanout-max="${fanouts[$drawn]}")
    case $way in
    1 | 3) [ "$can_cut" = 0 ] || place=hosts ;;
    esac
    # Every other one of those on this host.
    # Brokers that are connected by ZeroMQ are not started again by `flux start`.
    [ "$place" = hosts ] || [ "${FLUX_TEST_LINK-}" = zmq ] || [ $(((seed + $1 / 2) & 1)) = 0 ] || place=restart
    case $way in
    1 | 2) how=interval ;;
    esac
    # Where the clock is set, times on record prove nothing: only in every other run.
    ticks=$(((seed / 4 + run + 1) & 1))
    [ "$can_clock" = 1 ] || ticks=1
    # The default limit of silence in every other run, where times are not scaled.
    lost_after=$((6 * TIME_SCALE))
    [ "$TIME_SCALE" != 1 ] || [ $(((seed + $1 / 2) & 1)) = 0 ] || lost_after=3
    rm -rf history.* events.* record.* accepted* refused* log.* err.* outputs* where disk/*
    STATE=$TEST_DIR/disk/state
    clock=0 era=1 life=0
    echo 0 >clock
    note "run $run: $size brokers ($tree, $place), kvs.sync=$how live.lost=$lost_after ${overlay[*]}"
    session_new "$size" "$tree" "$how" "$place" "${overlay[@]}"
    while [ ${#plan[@]} -lt "$faults" ]; do
        shuffled
        plan+=("${deck[@]}")
    done
    note "run $run: ${plan[*]:0:$faults}"
    total_runs=$((total_runs + 1))
    ok "run $run: the session comes up" session_start || give_up
    load_begin "$((seed + run))"
    ok "run $run: clients are at work" load_attach "$seed" || give_up
    for ((i = 1; i <= faults; i++)); do
        draw_from "$seed" "$run" "$i"
        draw_pause 0 40
        sleep "$drawn"
        total_faults=$((total_faults + 1)) met[${plan[i - 1]}]=$((${met[${plan[i - 1]}]:-0} + 1))
        lost=$(wc -l <gone) lived=$life
        ok "run $run, fault $i: ${plan[i - 1]}" injected "${plan[i - 1]}" || give_up
        excuse "$lived" "$lost" "$out"
        note "$out"
    done
    ok "run $run: the session is well" recovered || give_up
    ok "run $run: all of the load succeeds again" load_works || give_up
    load_end
    ok "run $run: all jobs end" idle || give_up
    ok "run $run: each job that was accepted ended, once" jobs_kept || give_up
    note "$out"
    ok "run $run: what jobs printed is whole" outputs_kept || give_up
    note "$out"
    total_jobs=$((total_jobs + $(wc -l <accepted)))
    ok "run $run: recorder and subscribers were told all" load_detach calm || give_up
    session_end
    is $? 0 "run $run: nothing is left of the session"
    is "$status" 0 "run $run: it ended well" || give_up
    ok "run $run: its history keeps all promises" history_kept || give_up
    note "$out"
    cat refused.* >refused
    is "$(refusals_violations refused)" "" "run $run: refusals are sentences"
    is "$(barriers_violations met excuses)" "" \
        "run $run: nobody left a barrier before all had entered, and none failed for others"
    is "$(rings_violations rings)" "" "run $run: programs of MPI were right"
    is "$(cat rings outputs.[0-9]* >programs && wreckruns_violations programs excuses)" "" \
        "run $run: no program failed without a fault"
    note "$(cut -d ' ' -f 1 met | sort -u | wc -l) barriers, $(grep -c ' exit 0 ' rings) of $(grep -c ' exit ' rings) programs of MPI succeeded"
    is "$(cat hung 2>/dev/null)" "" "run $run: no command hung"
    ok "run $run: nothing is left in /dev/shm" shm_clean || give_up
    ok "run $run: the store is sound" "$FSCK" "$STATE" || give_up
}

for ((run = 1; count > (run - 1) * A_RUN; run++)); do
    faults=$((count - (run - 1) * A_RUN))
    [ "$faults" -le "$A_RUN" ] || faults=$A_RUN
    [ "${FAULT_RUN:-$run}" != "$run" ] || one_run "$run" "$faults"
done
netns_end
umount -l disk 2>/dev/null
figures
finish
