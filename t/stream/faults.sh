# shellcheck shell=bash disable=SC2154 # pid, wrong, round: of the tests
# What tests of streams under faults share, after lib.sh.  ${pid[NAME]} are their peers: two writers, w0 and w1,
# and three readers, r0 to r2.
#
#     killed NAME      kill a peer, and wait for it
#     members FIRST LAST NAME ARGUMENT...   start members of a group; ${ways[@]} are their transports in turn
#     wrong_steps N FILE...   what is wrong with the steps that they have done
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
ways=(auto tcp)
members() {
    local k first=$1 last=$2 name=$3
    shift 3
    for ((k = first; k <= last; k++)); do
        export FLUX_STREAM_TRANSPORT=${ways[k % ${#ways[@]}]}
        peer r$k $((k % 2)) read "$name" group=g "$@"
    done
    unset FLUX_STREAM_TRANSPORT
}
# What is wrong with the steps 0 to N - 1 of a group, whose members have printed FILE...: one that nobody has done, and
# one that was done twice, unless it is the last that a member has done which did not come to its end.
wrong_steps() { # N FILE...
    local n=$1 file
    shift
    for file in "$@"; do
        awk -v f="$file" '/^step/ {if (last != "") print last, "whole"; last = $2} /the end/ {whole = 1}
             END {if (last != "") print last, whole ? "whole" : "part"}' "$file"
    done | awk -v n="$n" '{did[$1]++; if ($2 == "whole") whole[$1]++}
         END {for (i = 0; i < n; i++) {if (!did[i]) printf "step %d is missing. ", i
                                       if (whole[i] > 1) printf "step %d was done twice. ", i}}'
}
