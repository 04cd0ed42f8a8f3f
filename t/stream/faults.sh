# shellcheck shell=bash disable=SC2154 # pid, wrong, round: of the tests
# What tests of streams under faults share, after lib.sh.  ${pid[NAME]} are their peers: two writers,
# w0 and w1, and three readers, r0 to r2, of the stream $stream, which `writer NAME OPTION...` and
# `reader NAME` start.  The readers stay if $stay is 1; the writers then note their steps in
# $stream.NAME.*, and ${near[NAME]} is 1 for a reader that has to see all of them.
#
#     killed NAME      kill a peer, and wait for it
#     replaced NAME    kill a writer, or let it leave; start the next one in its place
#     members FIRST LAST NAME ARGUMENT...   start members of a group; ${ways[@]} are their transports in turn
#     wrong_steps N FILE...   what is wrong with the steps that they have done
#     round_over       end the stream.  Readers that stay have to read on, and to end when it is removed.  Others:
#                      kill one of the writers; each reader has to end, and to name it; then the other one.
#                      Counts in $faults and $wrong

declare -A near
killed() {
    kill -KILL "${pid[$1]}"
    wait "${pid[$1]}" 2>/dev/null
}
replaced() {
    if [ $((RANDOM % 2)) = 0 ]; then
        killed "$1"
    else
        kill -TERM "${pid[$1]}"
        wait "${pid[$1]}" || return
    fi
    writer "$1" readers=3
    opened "$1"
}
# Write of which steps both writers, the former ones too, have ended theirs, and that a reader has missed, though it has
# had earlier and later ones.
missed() { # NAME
    awk -F'[ -]' -v f="$1.out" '
        FILENAME == f {if ($1 == "read") {if (n++ == 0) first = $2 + 0; last = $3 + 0
                                         for (i = $2 + 0; i <= last; i++) did[i] = 1}; next}
        {r = FILENAME ~ /w0/ ? 0 : 1; for (i = $1 + 0; i <= $2 + 0; i++) ended[r, i] = 1}
        END {for (i = first; i <= last; i++) if (!did[i] && ended[0, i] && ended[1, i]) print "missed step", i}
    ' "$1.out" "$stream".w[01].* | head -n 3
}
lives_on() {
    local name
    for name in r0 r1 r2; do
        kill -USR1 "${pid[$name]}"
    done
    for name in r0 r1 r2; do
        wait_until 60 grep -q "reads on\|error" $name.out && continue
        wrong=$((wrong + 1))
        note "round $round, reader $name does not read on: $("$FLUX" stream readers "$stream")"
    done
}
# What the last line of each reader has to say.
ends_with() {
    local name
    for name in r0 r1 r2; do
        wait "${pid[$name]}"
        if ! tail -n 1 $name.out | grep -q "$1"; then
            wrong=$((wrong + 1))
            note "round $round, reader $name: $(tail -n 1 $name.out)"
        fi
    done
}
round_over() {
    local victim=$((RANDOM % 2)) name
    faults=$((faults + 1))
    if [ "$stay" = 1 ]; then
        lives_on
        "$FLUX" stream rm "$stream"
        ends_with "^the end"
        wait "${pid[w0]}" "${pid[w1]}"
        for name in r0 r1 r2; do
            [ "${near[$name]:-0}" = 0 ] || [ -z "$(missed "$name")" ] && continue
            wrong=$((wrong + 1))
            note "round $round, reader $name: $(missed "$name" | xargs)"
        done
    else
        killed w$victim
        ends_with "rank $victim of the writers${unsure:-} has died"
        killed w$((1 - victim))
    fi
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
