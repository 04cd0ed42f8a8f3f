#!/usr/bin/env bash
# Sixty-four nodes on a fat tree, with jobs within a leaf, within a pod and over pods, jobs of some
# cores, nodes that are drained and lost, and a scheduler that is reloaded meanwhile: event logs
# prove that no two jobs could ever send over one link.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start submit jobs resource module
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"

export SESSION_LIMIT=300 # for hold in lib.sh
RANDOM=${FLUX_TEST_SEED:-1107}
cat >tree.lua <<'END'
resource { nodes = "n[0-63]", cores = 2, emulate = true }
END
hold 4 --set=resrc.config="$PWD/tree.lua" --set=resource.topology=4,4,4 \
    --set=sched.node-policy=interference-free

# $1 jobs of up to $2 nodes: half of them within a leaf, most others within a pod; a fifth are of
# some cores of nodes that others may have, too.  They take less than a tenth of a second, or $3
# seconds and a part of one.
some_jobs() {
    local i n
    for ((i = 0; i < $1; i++)); do
        case $((RANDOM % 10)) in
        [0-2]) n=$((RANDOM % 4 + 1)) ;;
        [3-5]) n=$((RANDOM % 12 + 5)) ;;
        [6-7]) n=$((RANDOM % ($2 - 16) + 17)) ;;
        *)
            "$FLUX" submit -n $((RANDOM % 12 + 1)) -c 1 -t 1m sleep "${3:-0.0}$((RANDOM % 10))" >/dev/null
            continue
            ;;
        esac
        "$FLUX" submit -N "$n" -n "$n" --exclusive -t 1m sleep "${3:-0.0}$((RANDOM % 10))" >/dev/null
    done
}
running() {
    [ "$("$FLUX" jobs -A -n -s running -o id | wc -l)" -ge "$1" ]
}
none_left() {
    [ -z "$("$FLUX" jobs -A -n -o id)" ]
}
ended() {
    [ "$("$FLUX" jobs -A -a -n -s inactive -o id | wc -l)" -ge "$1" ]
}

# 46 nodes are left in the end.  Jobs begin when all have been submitted: one by one they might have
# ended before the next one came.
"$FLUX" queue stop >/dev/null
"$FLUX" submit -N 64 --exclusive -t 1m true >/dev/null
some_jobs 59 46
ok "the queue is started" "$FLUX" queue start
ok "a job has ended" wait_until 60 ended 1
for i in 5 15 25; do
    ok "$i jobs have ended" wait_until 60 ended "$i"
    ok "the scheduler is reloaded while others run" "$FLUX" module reload sched
done
ok "nodes are drained" "$FLUX" resource drain 5,17-20,62 fan
ok "jobs go on" wait_until 60 ended 40
ok "nodes are used again" "$FLUX" resource undrain 17-20
some_jobs 18 40
"$FLUX" queue stop >/dev/null
some_jobs 12 40 2.
ok "the queue is started again" "$FLUX" queue start
ok "jobs run" wait_until 60 running 2
kill -KILL "$(FLUX_URI=${FLUX_URI%/*/local}/3/local "$FLUX" getattr broker.pid)"
halved() {
    [ "$("$FLUX" resource status | awk '$1 == "down" { print $2 }')" = 16 ]
}
ok "a broker and its 16 nodes are lost" wait_until 30 halved
ok "the scheduler is reloaded again" "$FLUX" module reload sched
some_jobs 20 40
ok "in the end no job is left" wait_until 120 none_left
jobs_proved "no two jobs could send over one link" --tree=4,4,4 --count=110
like "$out" "within a leaf [1-9][0-9]+, within a pod [1-9][0-9]+, over pods [1-9][0-9]+" \
    "and there were many of each kind"
release
finish
