# shellcheck shell=bash
# What tests of sessions that heal share, after t/lib.sh.
#
#     up_is TEXT               is this what "flux up" says?
#     begin RANK OPTION...     start the broker of a rank by conf.lua; its id is left in pids[RANK]
#     begin_root OPTION...     that of rank 0, whose initial program runs until the next of these:
#     end_session              end the session, and wait for all brokers; the exit code of rank 0
#     end_in_order RANK...     the same; each of these ranks is to end with 0, as rank 0 does
#     of_all N                 the URIs and process ids of ranks 0 to N-1, in uris[] and pids[]
#     at RANK COMMAND...       as a client of that broker
#     whole FILE TASKS         the labeled output of tasks that ran COUNT has no gap up to its end
#     below RANK PARENT        so the root says; while ranks are lost, "flux up" fails

uris=() pids=()

up_is() {
    [[ "$("$FLUX" up)" == "$1" ]]
}
begin() {
    local rank=$1
    shift
    "$FLUX" start --config=conf.lua --rundir="$PWD/run" --set=boot.rank="$rank" "$@" \
        >"out.$rank" 2>&1 </dev/null &
    pids[rank]=$!
}
begin_root() {
    [ -p fifo ] || mkfifo fifo
    begin 0 "$@" sh -c 'exec cat fifo'
}
end_session() {
    end_reader "${pids[0]}" fifo out.0 "${pids[@]:1}"
}
end_in_order() {
    local rank
    end_reader "${pids[0]}" fifo out.0
    is $? 0 "rank 0 ends"
    for rank in "$@"; do
        wait "${pids[rank]}"
        is $? 0 "rank $rank ends with the session"
    done
}
# shellcheck disable=SC2034 # for the test to read
of_all() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do
        uris[rank]=$("$FLUX" getattr -r "$rank" uri)
        pids[rank]=$("$FLUX" getattr -r "$rank" broker.pid)
    done
}
at() {
    local uri=${uris[$1]}
    shift
    FLUX_URI=$uri run_with_timeout 60 "$FLUX" "$@"
}
below() {
    "$FLUX" up --long >ranks
    grep -qE "^ *$1 +up +$2 " ranks
}
# Each task counts until there is the file $1; then it exits with 10 plus its number.
# shellcheck disable=SC2016,SC2034 # for the task, and for the test to read
COUNT='i=0; while [ ! -e '$PWD'/$0 ]; do echo $i; i=$((i + 1)); sleep 0.005; done; echo end $i; exit $((10 + FLUX_TASK_RANK))'
whole() {
    local task
    for ((task = 0; task < $2; task++)); do
        sed -n "s/^$task: //p" "$1" | awk '
            /^end / { if ($2 != n) exit; ended = 1; next }
            { if (ended || $1 != n + 0) { print "gap at " n ": " $0; exit } n++ }
            END { print ended ? "whole" : "not whole after " n }'
    done | sort | uniq -c | sed 's/^ *//'
}
