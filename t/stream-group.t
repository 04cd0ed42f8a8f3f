#!/usr/bin/env bash
# Groups of readers at streams with several writers: each step at one member, with what all writers have put into it;
# those of members that are killed, stopped or evicted at another one; and what becomes of a group when writers end.
# FAULT_COUNT (50) and FAULT_SEED (4) say how many faults there are, and choose which; make soak sets them.
# shellcheck disable=SC2154 # set by run
SESSION_LIMIT=$((90 + ${FAULT_COUNT:-50}))
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
# shellcheck source=t/stream/faults.sh
. "$SRCDIR/t/stream/faults.sh"
FAULT_COUNT=${FAULT_COUNT:-50}
RANDOM=${FAULT_SEED:=4}
note "FAULT_SEED=$FAULT_SEED FAULT_COUNT=$FAULT_COUNT"

hold 2 --set=modules=log,barrier,stream

# Each step once, whatever the writers do; and all of them for a reader that is in no group.
writers shared 60 3 ready=1 drain=1
members 0 3 shared
peer r 1 read shared
all_open w0 w1 w2 r r0 r1 r2 r3
go w1
go w2
go w0
ended r
is "$last" "0-59 60 the end " "a reader that is in no group sees each step"
wait_all w0 w1 w2 r0 r1 r2 r3
is "$(cat r[0-3].out | grep ^step | sort -k 2 -n)" "$(seq -f 'step %g' 0 59)" "each step of three writers is at one member"
is "$(cat r[0-3].out | grep -c 'the end')" 4 "all members learn of the end"
is "$(cat w[0-2].out | sort -u)" open "all writers wait until the group has done their steps"

# Members that are killed with a step that they have begun, one after the other.
writers killed 40 2 ready=1 drain=1
for k in 0 1 2 3; do
    members $k $k killed crash=$((5 * k + 3))
done
members 4 4 killed
all_open w0 w1 r0 r1 r2 r3 r4
go w0
go w1
wait_all w0 w1 r4
is "$(wrong_steps 40 r[0-4].out)" "" "steps of members that were killed are done by others"
is "$(cat w[01].out | sort -u)" open "and the writers know of it"

# What is planted is noticed: a member that acknowledges too early, one that does a step twice.
writers early 20 2 ready=1
members 0 0 early early=1 crash=4
members 1 1 early
all_open w0 w1 r0 r1
go w0
go w1
wait_all w0 w1 r1
like "$(wrong_steps 20 r0.out r1.out)" "^step [0-9]* is missing" "a step that is acknowledged too early is missed"
cp r1.out again.out
like "$(wrong_steps 20 r1.out again.out)" "was done twice" "a step that is done twice is noticed"

# The order of a key is that of rank 0, and its name that of all members.
writers keyed 4 2 hold=1 keep=4
wait_until 20 grep -q written w0.out
wait_until 20 grep -q written w1.out
run "$FLUX" stream cat --group=g --key=n --var=n --count=4 keyed
is "$out" "$(for k in 0 1 2 3; do printf '%d\t0\tn\t8\n%d\t1\tn\t8\n' $k $k; done)" "flux stream cat is a member, with a key"
go w0
go w1
wait_all w0 w1

# Members that are stopped are evicted, and another one does their steps, which it gets as the writers end.
writers stopped 30 2 ready=1 hold=1 evict=0.2
members 0 1 stopped bytes=1
all_open w0 w1 r0 r1
kill -STOP "${pid[r0]}" "${pid[r1]}"
go w0
go w1
wait_until 20 grep -q written w0.out # without members, nobody waits
wait_until 20 grep -q written w1.out
members 2 2 stopped bytes=1
opened r2
go w0
go w1
wait_all w0 w1 r2
is "$(wrong_steps 2 r2.out)" "" "steps of members that are evicted are done by another one"
kill -CONT "${pid[r0]}" "${pid[r1]}"
wait_all r0 r1
for k in 0 1; do
    like "$(tail -n 1 r$k.out)" "evicted this reader" "a member that was stopped is told so: $k"
done

# One of the writers ends earlier than the others; and one dies.
peer w0 0 write short 20 0 2 ready=1
peer w1 1 write short 10 1 2 ready=1
members 0 2 short
all_open w0 w1 r0 r1 r2
go w1
go w0
wait_all w0 w1 r0 r1 r2
is "$(wrong_steps 10 r[0-2].out)" "" "steps are done that a writer has left behind"
is "$(cat r[0-2].out | grep -c 'the end')" 3 "and then the stream has ended"
peer w0 0 write dies 20 0 2 ready=1
peer w1 1 write dies 20 1 2 ready=1 crash=7
members 0 1 dies
all_open w0 w1 r0 r1
go w0
go w1
wait_all w1 r0 r1
for k in 0 1; do
    like "$(tail -n 1 r$k.out)" "rank 1 of the writers has died" "a member learns which writer has died: $k"
done
wait_all w0

# Members, and writers, that are stopped and killed at any time.
faults=0
wrong=0
steps=1000
for ((round = 0; faults < FAULT_COUNT; round++)); do
    rm -f r[0-9]*.out
    size=$((2 + RANDOM % 2))
    writers fault$round $steps $size ready=1 drain=1 hold=1
    members 0 2 fault$round
    live=(0 1 2)
    next=3
    all_open r0 r1 r2
    for ((k = 0; k < size; k++)); do
        go w$k
    done
    for ((i = 0; i < 8; i++)); do
        at=$((RANDOM % 3))
        name=r${live[at]}
        case $((RANDOM % 4)) in
        0 | 1)
            members $next $next fault$round
            opened r$next
            killed "$name"
            live[at]=$next
            next=$((next + 1))
            ;;
        2) name=w$((RANDOM % size)) ;&
        *)
            kill -STOP "${pid[$name]}"
            "$FLUX" stream ls fault$round >ls.out
            kill -CONT "${pid[$name]}"
            ;;
        esac
        faults=$((faults + 1))
    done
    for ((k = 0; k < size; k++)); do
        wait_until 60 grep -q "written\|error" w$k.out
        if ! grep -q written w$k.out; then
            wrong=$((wrong + 1))
            note "round $round, writer $k: $(tail -n 1 w$k.out)"
        fi
        go w$k
    done
    for ((k = 0; k < size; k++)); do
        wait "${pid[w$k]}"
    done
    wait_all "r${live[0]}" "r${live[1]}" "r${live[2]}"
    why=$(wrong_steps $steps r[0-9]*.out)
    if [ -n "$why" ]; then
        wrong=$((wrong + 1))
        note "round $round: $why"
    fi
done
is "$wrong" 0 "$faults faults: each step is done, and again only when a member was killed with it"
release
is "$status" 0 "the session ends well"
finish
