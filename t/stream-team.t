#!/usr/bin/env bash
# Teams: the processes of a program that read a stream together see the same steps, although they join a running stream
# one after the other, and whatever is dropped.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"

hold 2 --set=modules=log,barrier,stream

COUNT=60 # steps that a member reads
team() { # NAME POLICY: three members, which connect one after the other, and wait; one of them by TCP
    local k
    for k in 0 1 2; do
        export FLUX_STREAM_TRANSPORT=auto
        if [ $k = 2 ]; then
            FLUX_STREAM_TRANSPORT=tcp
        fi
        FLUX_TASK_RANK=$k FLUX_JOB_SIZE=3 peer r$k $((k % 2)) read run team="$1" policy="$2" depth=5 ready=1 count=$COUNT
        opened r$k
    done
    unset FLUX_STREAM_TRANSPORT
}
steps_of() {
    grep ^step "$1.out" | cut -d ' ' -f 2
}
# How many steps are between the first and the last one of a member that it did not see.
gaps() {
    steps_of "$1" | awk 'NR == 1 {first = $1} {last = $1} END {print last - first + 1 - NR}'
}
same() { # TEXT
    for k in 0 1 2; do
        ended r$k
    done
    is "$(steps_of r0 | wc -l)" $COUNT "$1: a member reads"
    is "$(steps_of r1)" "$(steps_of r0)" "and another one sees the same steps"
    is "$(steps_of r2)" "$(steps_of r0)" "and the one that reads by TCP"
}

# Two writers that end only with the test. A reader in no team keeps them near each other.
for k in 0 1; do
    peer w$k $k write run 100000000 $k 2 wait=1
    opened w$k
done
ok "the writers are slowed down" "$FLUX" stream throttle run 500
peer plain 0 read run depth=4
opened plain

team all block
go r0
go r2
go r1
same "block"
is "$(gaps r0)" 0 "and all of them"

team third sample:3
go r1
go r0
go r2
same "sample:3"
is "$(steps_of r0 | awk '$1 % 3 != 0' | wc -l) $(gaps r0)" "0 $((2 * COUNT - 2))" "and each third one"

# A member that does not read lets all others miss what it misses.
for policy in latest drop-newest drop-oldest; do
    before=$(field run dropped)
    team $policy $policy
    go r0
    go r2
    wait_until 30 above run dropped $((before + 20))
    go r1
    same $policy
    isnt "$(gaps r0)" 0 "but not all of them"
done

# One that leaves does not stop the others, and its place is taken.
team left block
kill -9 "${pid[r1]}"
ended r1
run env FLUX_TASK_RANK=0 FLUX_JOB_SIZE=3 "$PEER" read run team=left
like "$out" "team 'left' of the stream has a reader of rank 0 already" "a rank is there once"
run "$PEER" read run team=left rank=1 size=4
like "$out" "team 'left' of the stream has another size than 4" "all members have the same size"
run "$PEER" read run team=left rank=1 size=3 policy=latest
like "$out" "or another policy" "and policy"
run "$PEER" read run rank=1 size=3
like "$out" "have the name of a team" "a reader with a rank has a team"
run "$PEER" read run team=left group=g rank=1 size=3
like "$out" "a member of a team has no group" "which shares no steps"
run "$PEER" read run rank=3 size=3 team=left
like "$out" "rank 3 of 3 readers is not possible" "ranks are below the size"
peer r1 1 read run team=left rank=1 size=3 ready=1 count=$COUNT
opened r1
for k in 0 1 2; do
    go r$k
done
for k in 0 1 2; do
    ended r$k
done
is "$(steps_of r2)" "$(steps_of r0)" "those that stay go on with the same steps"
is "$(steps_of r1 | wc -l)" $COUNT "and so does the one that comes instead"

kill "${pid[w0]}" "${pid[w1]}"
wait "${pid[w0]}" "${pid[w1]}" "${pid[plain]}"
release
is "$status" 0 "the session ends well"
finish
