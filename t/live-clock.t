#!/usr/bin/env bash
# The wall clock of all brokers, or of one, is set forward and back: no broker is accused for that,
# heartbeats and timeouts go on, the history is in the order of its numbers, and a broker that
# stands still meanwhile is lost nevertheless.
# shellcheck disable=SC2154 # set by hold and run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up live event barrier
preload=$BUILDDIR/t/job/.libs/wallclock.so
[ -e "$preload" ] || skip_all "no $preload: make check builds it"
# The runtime of a sanitizer has to come before all that is preloaded.
case ${FLUX_TEST_SANITIZERS-} in
*address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
esac
export WALLCLOCK=$TEST_DIR/step
set_clock() { # SECONDS [PID]: of all processes, or of one, from what it really is
    echo "$1" >step.new && mv step.new "step${2:+.$2}"
}
# begin_session SIZE OPTION...
begin_session() {
    set_clock 0
    export LD_PRELOAD=$preload
    hold "$@" --set=modules=log,hb,barrier
    unset LD_PRELOAD
    of_all "$1"
}
beats() {
    awk -F '\t' '$2 == "hb"' beats.out | wc -l
}
beaten() { # COUNT
    [ "$(beats)" -ge "$1" ]
}
# Each broker sends signs of life, and judges its neighbors, several times between these beats.
beats_pass() {
    wait_until 60 beaten $(($(beats) + 3))
}
states() {
    "$FLUX" live history | awk '$4 == "slow" || $4 == "lost"'
}
numbers() {
    "$FLUX" live history | awk 'NR > 1 { print $1 }'
}
in_order() {
    is "$(numbers)" "$(seq "$("$FLUX" live history | awk 'END { print NR - 1 }')")" "$1"
}
times_go_back() {
    "$FLUX" live history --json | tr ',' '\n' |
        sed -n 's/.*"time": *\([0-9]*\).*/\1/p' |
        awk '$1 < last { back = 1 } { last = $1 } END { exit !back }'
}

# --- nobody is accused ---

# Limits that no busy host exceeds, and each step does.
begin_session 7 --topology=kary:2 --set=live.probe=1s --set=live.slow=10m --set=live.lost=20m \
    --set=live.patience=30m --set=hb.period=100ms
(at 6 event sub --count=1000 --confirm hb >beats.out 2>beats.err) &
sub=$!
wait_until 30 grep -q . beats.err || bail "no subscription"
# Its clock steps, too.
LD_PRELOAD=$preload "$FLUX" barrier -n 2 -t 30m all-clocks >barrier.out 2>&1 &
barrier=$!
is_open() {
    "$FLUX" barrier --list | grep -q all-clocks
}
wait_until 30 is_open || bail "no barrier"

for step in 7200 -7200 86400 -86400 5 -5; do
    set_clock "$step"
    ok "the clock of all is $step s from what it is: heartbeats go on" beats_pass
done
for rank in 0 1 5; do
    for step in 7200 -7200; do
        set_clock "$step" "${pids[rank]}"
        ok "the clock of rank $rank is $step s from what it is: heartbeats go on" beats_pass
    done
done
is "$("$FLUX" up)" "7 of 7 up: 0-6" "all are up"
is "$(states)" "" "none was called slow or lost"
ok "a timeout of half an hour has not passed" is_open
ok "... the barrier is complete when the other one enters it" \
    run_with_timeout 60 "$FLUX" barrier -n 2 all-clocks
ok "... for both" wait "$barrier"
LD_PRELOAD=$preload "$FLUX" barrier -n 2 -t 5s in-vain >in-vain.out 2>&1 &
barrier=$!
begun() {
    "$FLUX" barrier --list | grep -q in-vain || ! kill -0 "$barrier"
}
wait_until 30 begun || bail "no barrier"
set_clock -172800
wait "$barrier"
is $? 1 "a timeout of five seconds passes although the clock is set back by days"
like "$(cat in-vain.out)" "in-vain" "... and says of what"
kill "$sub"
wait "$sub" 2>/dev/null
release
is "$status" 0 "the session ends well"

# --- whoever stands still is lost ---

rm -f step.*
begin_session 7 --topology=kary:2 --set=live.probe=0.5s \
    --set=live.slow=$((1 + TIME_SCALE))s --set=live.lost=$((2 + 2 * TIME_SCALE))s
kill -STOP "${pids[3]}"
set_clock -86400
ok "a broker stands still when the clock of all is set back: it is lost" \
    wait_until 60 up_is "6 of 7 up: 0-2,4-6; lost: 3"
kill -STOP "${pids[1]}"
set_clock 7200 "${pids[0]}"
ok "another one does when the clock of the root is set forward: it is lost" \
    wait_until 60 up_is "5 of 7 up: 0,2,4-6; lost: 1,3"
set_clock -172800 "${pids[0]}"
ok "... and the one below it moves to the root" wait_until 30 below 4 0
kill -STOP "${pids[6]}"
ok "... while the clock of the root is two days behind, a third one is lost" \
    wait_until 60 up_is "4 of 7 up: 0,2,4-5; lost: 1,3,6"
ok "the times of the history have gone back with the clock" times_go_back
in_order "... it is in the order of its numbers"
kill -CONT "${pids[1]}" "${pids[3]}" "${pids[6]}"
release
is "$status" 0 "the session ends well"
finish
