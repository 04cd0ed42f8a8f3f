#!/usr/bin/env bash
# Jobs are submitted and waited for by clients below brokers that are killed: each submission is
# accepted once, and those who wait go on.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up submit jobs wreck queue

hold 8 --topology=kary:2
of_all 8

# Ranks 3 and 7 are below rank 1; rank 5 is below rank 2.  Jobs run at other ranks than these two: this
# test is about their submission.
submits() {
    while [ ! -e "enough.$1" ]; do
        at 7 submit -n1 --ranks=0,3-7 true >>"ids.$1" 2>>"submits.err" || return 1
    done
}
at_least() {
    sum=$(cat ids.? | wc -l)
    ((sum >= $1))
}
loops=()
for i in 1 2 3 4; do
    : >"ids.$i"
    submits "$i" &
    loops+=($!)
done
long=$(at 7 submit -n1 --ranks=0 sh -c 'while [ ! -e enough ]; do sleep 0.05; done')
at 7 wreck wait "$long" >wait.out 2>&1 &
waits=$!
wait_until 30 at_least 20 || bail "nothing is submitted"

kill -KILL "${pids[1]}"
ok "those below the one that was killed have another parent" wait_until 30 below 3 0
at_least 0
ok "and submit" wait_until 30 at_least $((sum + 60))
touch enough.1 enough.2 enough.3 enough.4
ok "none of them got an error" wait "${loops[@]}"
is "$(cat submits.err)" "" "or complained"
touch enough
ok "who waits there hears of the end" wait "$waits"

# Another broker stops before it dies: a large submission is on its way through it.
under_way() {
    local stats
    stats=$(at 5 module stats -r 5 broker 2>&1) || return
    inflight=$(sed -n 's/.*[[:space:]]inflight[[:space:]]*//p' <<<"$stats")
    [ "${inflight:-0}" -ge "$1" ]
}
wait_until 30 under_way 0 || bail "requests that are under way are not counted"
before=$inflight
kill -STOP "${pids[2]}"
at 5 submit -n1 --ranks=0,3-7 --cc=1-300 true >ids.large 2>large.err &
large=$!
wait_until 30 under_way $((before + 1))
kill -KILL "${pids[2]}"
ok "a large submission that was on its way is accepted" wait "$large"
is "$(cat large.err)" "" "without complaint"

cat ids.* | sort -n >ids
is "$(uniq -d ids | wc -l)" 0 "no id was given twice"
"$FLUX" queue idle -t 60 >/dev/null || "$FLUX" jobs >&2
"$FLUX" jobs -a -n -c 1000000 -o '{id} {name}' >jobs.all
is "$(grep -c ' true$' jobs.all)" "$(wc -l <ids)" "each submission was accepted once"

release
is "$status" 0 "the session ends well"
finish
