# shellcheck shell=bash
# The load under which faults happen, and what it keeps for check.sh.  All of it goes on over the end of the
# session, and stops when there is a file `stop`; an error of a command is not a fault, a command that does not
# end is.
#
#     load_begin          start all that lives as long as the test of one session
#     load_attach         ... and as long as one life of it: recorder of a history, subscribers
#     load_works          wait until each kind of it succeeds
#     load_detach how     wait for these: `dead` (the session has ended), or `calm` (it has not: then all
#                         watchers must know the newest, and subscribers have seen the last event)
#     load_end            wait for those of load_begin
#
# Files: accepted.*, runs, refused.*, hung, met, excuses, gone, unloaded, rings, outputs.* (t/fault/check.sh),
# history.ERA.LIFE, events.LIFE.RANK.NUMBER
# shellcheck disable=SC2034,SC2086,SC2154 # of t/lib.sh and lib.sh; ids are words

workers=()
subscribers=() # by rank
seen_by=() # the file of each
subscribed=0
recorder=
era=1

# One of the brokers that are up: in $rank and $uri.
anywhere() {
    local lines=() # set, or `set -u` ends the worker while there is no session
    while :; do
        mapfile -t lines 2>/dev/null <where
        if [ ${#lines[@]} -gt 0 ]; then
            read -r rank uri <<<"${lines[RANDOM % ${#lines[@]}]}"
            return 0
        fi
        [ ! -e stop ] || return 1
        sleep 0.1
    done 2>/dev/null
}
nap() { # up to this many hundredths of a second
    local t=$((RANDOM % $1 + 1))
    sleep "$((t / 100)).$(printf %02d $((t % 100)))"
}

# What a task does: say who it is, once, and then COMMAND.
# shellcheck disable=SC2016 # for the task
TASK='echo "$FLUX_JOB_ID $FLUX_TASK_RANK" >>'
# ... and count: its output must have no gap.
# shellcheck disable=SC2016 # for the task
COUNTS='k=0; while [ $k -lt 10 ]; do seq $((50 * k)) $((50 * k + 49)); k=$((k + 1)); sleep 0.05; done; echo end'
# submit_one FILE KIND TASKS OPTION... -- SCRIPT: ids that are told go to FILE, with what is known
# of the job
submit_one() {
    local file=$1 kind=$2 tasks=$3 opts=() one
    shift 3
    while [ "$1" != -- ]; do
        opts+=("$1")
        shift
    done
    shift
    told=$(bounded "$uri" "$FLUX" submit -n "$tasks" --env=FAULT_TASK="$FLUX_TEST_ID" "${opts[@]}" \
        sh -c "$TASK$TEST_DIR/runs; $1" 2>>"refused.$file")
    for one in $told; do
        echo "$one $tasks $kind" >>"accepted.$file"
    done
}

# wreckrun_one NUMBER FILE COMMAND...: as one job with two tasks, of which FILE gets what the client prints, and
# why it has failed
wreckrun_one() {
    local number=$1 file=$2 begin=$EPOCHREALTIME
    shift 2
    {
        bounded "$uri" "$FLUX" wreckrun -n2 --env=FAULT_TASK="$FLUX_TEST_ID" "$@" 2>"err.$file" |
            sed "s/^/$number says /"
        echo "$number exit ${PIPESTATUS[0]} $begin $EPOCHREALTIME"
        sed "s/^/$number err /" "err.$file"
    } >>"$file"
}
submitter() {
    local told rank uri number=0
    RANDOM=$2
    while [ ! -e stop ] && anywhere; do
        case $((RANDOM % 13)) in
        0 | 1) submit_one "$1" any 1 -- : ;;
        2) submit_one "$1" any 1 --cc=1-12 -- : ;;
        3) submit_one "$1" any 2 -N2 -- : ;;
        4) submit_one "$1" any 2 -- "sleep 0.$((RANDOM % 10))" ;;
        5) submit_one "$1" fails 1 -- "exit 3" ;;
        6) submit_one "$1" endless 1 -t 0.3s -- "exec sleep 1000" ;;
        7)
            submit_one "$1" any 1 -- "sleep 2"
            nap 30
            [ -z "$told" ] || bounded "$uri" "$FLUX" cancel --quiet $told 2>>"refused.$1"
            ;;
        8)
            submit_one "$1" any 1 -- "sleep 0.2"
            [ -z "$told" ] || submit_one "$1" any 1 --dependency="afterany:$told" -- :
            ;;
        9)
            wreckrun_one "$1.$((++number))" "outputs.$1" -l sh -c "$TASK$TEST_DIR/runs; $COUNTS"
            ;;
        10) submit_one "$1" any 2 -N2 --requeue -- "sleep 0.$((RANDOM % 10))" ;;
        11) submit_one "$1" survive 2 -N2 --survive-node-loss -- "sleep 0.$((RANDOM % 10))" ;;
        12) submit_one "$1" prints 2 -- "$COUNTS" ;;
        esac
        nap 12
    done
}

publisher() {
    local rank uri
    RANDOM=$1
    while [ ! -e stop ] && anywhere; do
        bounded "$uri" "$FLUX" event pub fault.load '{}' 2>>refused.pub
        nap 10
    done
}

# One participant of a barrier: when its rank was chosen, when it began to enter, and when it was let
# through or not.
participant() { # CHOSEN RANK URI NAME TASKS OPTION...
    local chosen=$1 rank=$2 uri=$3 name=$4 tasks=$5 entered=$EPOCHREALTIME left code
    shift 5
    bounded "$uri" "$FLUX" barrier -n "$tasks" -t "$((15 * PATIENCE + ROOT_STOPS))" "$@" "$name" 2>>refused.barrier
    code=$? left=$EPOCHREALTIME
    echo "$name $tasks $entered $left $code $rank $chosen" >>met
}
# Half of the barriers name the ranks of their participants, and so fail at once when one of these is lost.
meeter() {
    local rank uri i number=0 tasks waiting chosen options ranks all
    RANDOM=$1
    while [ ! -e stop ]; do
        number=$((number + 1))
        tasks=$((RANDOM % 3 + 2))
        waiting=() ranks=() all=() options=()
        chosen=$EPOCHREALTIME
        for ((i = 0; i < tasks; i++)); do
            anywhere || return
            ranks+=("$rank") all+=("$uri")
        done
        [ $((RANDOM % 2)) = 0 ] || options=(--ranks="$(IFS=, && echo "${ranks[*]}")")
        for ((i = 0; i < tasks; i++)); do
            participant "$chosen" "${ranks[i]}" "${all[i]}" "load.$1.$number" "$tasks" ${options[@]+"${options[@]}"} &
            waiting+=($!)
        done
        wait "${waiting[@]}"
        nap 10
    done
}

# Programs of MPICH and Open MPI in turn, whose ranks exchange messages and say whether those were
# right.
ringer() {
    local rank uri number=0 programs=(./mpi_ring.*)
    RANDOM=$1
    while [ ! -e stop ] && anywhere; do
        number=$((number + 1))
        wreckrun_one "$number" rings -N2 sh -c \
            "exec 2>&1; $TASK$TEST_DIR/runs; exec ${programs[number % ${#programs[@]}]} 2"
        nap 50
    done
}

load_begin() {
    local i
    rm -f stop hung
    : >runs
    : >gone
    : >unloaded
    : >met
    : >rings
    : >excuses
    for i in 1 2 3; do
        : >"outputs.$i"
    done
    meeter "$1" &
    workers+=($!)
    if compgen -G './mpi_ring.*' >/dev/null; then
        ringer "$1" &
        workers+=($!)
    fi
    publisher "$1" &
    workers+=($!)
    for i in 1 2 3; do
        submitter "$i" $(($1 + i)) &
        workers+=($!)
    done
}

subscribe() { # RANK...
    local r file
    for r; do
        file=events.$life.$r.$((++subscribed))
        FLUX_URI=${uris[$r]} "$FLUX" event sub --json --confirm >"$file" 2>"$file.err" &
        subscribers[r]=$!
        seen_by[r]=$file
    done
    for r; do
        wait_until 30 grep -q subscribed "${seen_by[$r]}.err" || return 1
    done
}
# Its broker is gone, and another one takes its place: what did the subscriber of the first see?
subscribe_anew() { # RANK
    local code=0
    wait_until 30 all_dead "${subscribers[$1]}" || kill -KILL "${subscribers[$1]}"
    wait "${subscribers[$1]}" 2>/dev/null
    events_violations "${seen_by[$1]}" >violations || code=1
    [ ! -s violations ] || code=1
    cat violations
    subscribe "$1" && [ $code = 0 ]
}
# After the last fault, everything that the load does must succeed again.
load_works() {
    local told rank=0 uri=${uris[0]} i begin=$EPOCHREALTIME
    submit_one probe prints 2 --wait -- "$COUNTS" || return 1
    wait_until 60 succeeds met 5 4 "$begin" || return 1
    ! compgen -G './mpi_ring.*' >/dev/null || wait_until 60 succeeds rings 3 5 "$begin" || return 1
    for i in 1 2 3; do
        wait_until 60 succeeds "outputs.$i" 3 5 "$begin" || return 1
    done
}
# Is there a line with the code 0 in that field, and a later time in that other one?
succeeds() { # FILE CODE TIME BEGIN
    awk -v code="$2" -v time="$3" -v begin="$4" '
        $code == "0" && $time >= begin && ($2 != "says") { found = 1 }
        END { exit !found }' "$1"
}

load_attach() {
    subscribers=() seen_by=()
    "$RECORD" --seed="$(($1 + life))" --seconds=100000 --clients=2 --pause=0.03 --first=$((life * 1000)) \
        --dir="h$era" "history.$era.$life" "${uris[@]}" >"record.$life" 2>&1 &
    recorder=$!
    subscribe "${up[@]}" || return 1
    wait_until 30 grep -q recording "record.$life"
}

# Prints what is wrong, and fails then.
load_detach() {
    local r bad=0 last=
    if [ "$1" = calm ]; then
        kill -TERM "$recorder"
        last=$(at 0 "$FLUX" event pub -s fault.last '{}')
        for r in "${up[@]}"; do
            wait_until 60 grep -q fault.last "${seen_by[$r]}" || bad=1
        done
        kill "${subscribers[@]}" 2>/dev/null
    fi
    wait_until 90 sh -c "! kill -0 $recorder 2>/dev/null" || kill -KILL "$recorder"
    if ! wait "$recorder"; then
        echo "history: $(cat "record.$life")"
        bad=1
    fi
    for r in "${!subscribers[@]}"; do
        wait_until 30 sh -c "! kill -0 ${subscribers[$r]} 2>/dev/null" || {
            echo "a subscriber of rank $r does not end"
            kill -KILL "${subscribers[$r]}"
            bad=1
        }
        wait "${subscribers[$r]}" 2>/dev/null
        if [[ " ${up[*]} " != *" $r "* ]]; then
            events_violations "${seen_by[$r]}"
        else
            events_violations "${seen_by[$r]}" "$last" none
        fi >violations
        [ ! -s violations ] || bad=1
        cat violations
    done
    [ $bad = 0 ]
}

load_end() {
    touch stop
    [ ${#workers[@]} -eq 0 ] || wait "${workers[@]}" 2>/dev/null
    workers=()
}
