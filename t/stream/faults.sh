# shellcheck shell=bash disable=SC2154 # pid, wrong, round: of the tests
# What tests of streams under faults share, after lib.sh.  ${pid[NAME]} are their peers: two writers, w0 and w1,
# and three readers, r0 to r2.
#
#     killed NAME      kill a peer, and wait for it
#     round_over       kill one of the writers: each reader has to end, and to name it; then the other one.
#                      Counts in $faults and $wrong

killed() {
    kill -KILL "${pid[$1]}"
    wait "${pid[$1]}" 2>/dev/null
}
round_over() {
    local victim=$((RANDOM % 2)) name
    killed w$victim
    faults=$((faults + 1))
    for name in r0 r1 r2; do
        wait "${pid[$name]}"
        if ! tail -n 1 $name.out | grep -q "rank $victim of the writers has died"; then
            wrong=$((wrong + 1))
            note "round $round, reader $name: $(tail -n 1 $name.out)"
        fi
    done
    killed w$((1 - victim))
}
