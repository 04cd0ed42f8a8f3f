# shellcheck shell=bash
# A broker that is counted as lost while it runs, and then goes on: what it does from then on.
#
#     zombie_begin RANK    a job gets a task on its node, which writes numbers to the store without end
#     zombie_lost          wait until the others count the rank as lost; then a client asks it to write
#     zombie_end           after it can go on: wait for its end.  Fails when it did what it must not, and says so
#
# File: `zombies` (t/fault/check.sh)
# shellcheck disable=SC2034,SC2154 # of t/lib.sh, lib.sh and load.sh

zombies=0

zombie_begin() {
    local told uri=${uris[0]}
    zombie=$1
    zombies=$((zombies + 1))
    zombie_key=fault.zombie.$zombies
    zombie_pid=${pids[$zombie]}
    zombie_log=$(wc -l <"log.$life")
    # shellcheck disable=SC2016 # for the task
    submit_one zombie endless 1 --ranks="$zombie" -- \
        'while i=$((i + 1)); do '"$FLUX kvs put $zombie_key.task="'$i 2>/dev/null; sleep 0.1; done'
    [ -n "$told" ] || return 1
    wait_until 60 at 0 "$FLUX" kvs get "$zombie_key.task" || return 1
    descendants "$zombie_pid" >zombie.processes
}
# The ids of those below a process, level by level.
descendants() {
    local level=$1
    while level=$(pgrep -d , -P "$level"); do
        echo "$level"
    done | tr , '\n'
}

zombie_is_lost() {
    at 0 "$FLUX" up --long >ranks # which fails then
    awk -v rank="$zombie" '$1 == rank { found = $2 } END { exit found != "lost" }' ranks
}
# What is in the store, after all that came before this question.
zombie_wrote() { # task|client
    wait_until 60 at 0 "$FLUX" kvs put "$zombie_key.asked=$1"
    at 0 "$FLUX" kvs get "$zombie_key.$1" 2>/dev/null || echo none
}
zombie_lost() {
    session_lose "$zombie"
    wait_until $((60 + ROOT_STOPS)) zombie_is_lost || return 1
    zombie_before=$(zombie_wrote task)
    descendants "$zombie_pid" >>zombie.processes
    at "$zombie" "$FLUX" kvs put "$zombie_key.client=1" 2>>refused.zombie &
    zombie_client=$!
}

zombie_left() {
    session_processes | grep -cxFf zombie.processes
}
zombie_alone() {
    [ "$(zombie_left)" = 0 ]
}
# The exit code of its broker: of a child, or as flux start says.
zombie_code() {
    if [ "$where" = hosts ]; then
        wait "$zombie_pid"
        code=$?
    else
        wait_until 10 zombie_code_told
        code=$(zombie_code_told)
    fi
    # Where nobody starts it again it ends with 0 (src/broker/broker.c), which counts like 1 elsewhere.
    if [ "$where" = local ]; then
        code=$((code == 0 ? 1 : 255))
    fi
}
zombie_code_told() {
    tail -n "+$((zombie_log + 1))" "log.$life" | sed -n "s/^flux start: broker $zombie ended with exit code //p" | grep .
}
zombie_end() {
    local code=- told
    ! wait_until 60 all_dead "$zombie_pid" || zombie_code
    wait_until 60 zombie_alone
    wait "$zombie_client"
    told=$?
    echo "$zombie ${code:-?} $zombie_before $(zombie_wrote task) $(zombie_left) $told $(zombie_wrote client)" |
        tee -a zombies >zombie.now
    zombies_violations zombie.now >violations
    cat violations
    [ ! -s violations ]
}
