# shellcheck shell=bash
# A session for faults: it is started, killed, and started again from its statedir, on this host or with
# each broker in a network namespace of its own.
#
#     session_new N TOPOLOGY SYNC WHERE OPTION...
#                                          what the session is to be; WHERE is local, restart (the same, with
#                                          --restart: what fails is started again) or hosts
#     session_start                        it comes up, as a whole
#     session_end                          orderly; the exit code in $status
#     session_crash [PID]                  SIGKILL for all brokers and `flux start` at once, or only for this one
#                                          of them, without which the others have to end
#     session_lose RANK [left]             it is lost; those below it are not
#     session_revive                       those that `flux start --restart` starts again are up
#     session_return RANK...               other brokers of these ranks are started, and join (hosts only)
#     session_gone                         has every process of it gone?  (and every task)
#     at RANK COMMAND...                   a client of that broker, for at most a minute; says `hung` in
#                                          the file of this name when it has not ended by then
#
# Set: $up (ranks), $n, ${pids[RANK]}, ${uris[RANK]}; and in the directory of the test `where`, for
# the load: a line "RANK URI" for each rank that is up, while the session is.
# shellcheck disable=SC2034,SC2154 # some are for the test to read; TEST_DIR and others are of t/lib.sh

life=0
up=()
pids=()
uris=()
starts=()
returned=0
awaited=() # ranks whose next broker is started by `flux start --restart`
failures=0 # of brokers, in this life
abandoned=() # directories of brokers that were killed
# Seconds of silence after which a broker is lost.
lost_after=$((6 * TIME_SCALE))
# Seconds for which the broker of rank 0 may be stopped.
ROOT_STOPS=${FAULT_ROOT_STOPS:-2}
LIMIT=$((60 * PATIENCE + ROOT_STOPS))
FAULT_PRELOAD=

at() {
    local uri=${uris[$1]}
    shift
    bounded "$uri" "$@"
}
# bounded URI COMMAND...
bounded() {
    local uri=$1 code
    shift
    FLUX_URI=$uri timeout -k 5 "$LIMIT" "$@"
    code=$?
    [ "$code" != 124 ] || echo "$*" >>"$TEST_DIR/hung"
    return "$code"
}

# --- hosts ---

# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck disable=SC2034 # of netns.sh: a soak takes long
NETNS_SECONDS=1000000
# Is there a way to have hosts?  Makes the switch that connects them.
hosts_possible() {
    [ ${#holders[@]} -gt 0 ] || { netns_possible && netns_switch; }
}
link() { # RANK up|down
    in_ns 0 ip link set "port$(($1 + 1))" "$2"
}

# --- its ranks ---

# Those below it connect to the next broker above.
session_lose() {
    local r left=()
    echo "$1" >>gone
    if [ "$where$#" = restart1 ]; then
        awaited+=("$1")
        failures=$((failures + 1))
    fi
    for r in "${up[@]}"; do
        [ "$r" -eq "$1" ] || left+=("$r")
    done
    up=("${left[@]}")
    say_where
}
session_revive() {
    local r
    for r in ${awaited[@]+"${awaited[@]}"}; do
        wait_until 60 is_another "$r" || return 1
        know "$r" "${uris[0]}" || return 1
        up+=("$r")
    done
    [ ${#awaited[@]} -eq 0 ] || mapfile -t up < <(printf '%s\n' "${up[@]}" | sort -n)
    awaited=()
    say_where
}
is_another() {
    local pid
    pid=$(at 0 "$FLUX" getattr -r "$1" broker.pid) && [ "$pid" != "${pids[$1]}" ]
}
# know RANK URI: another broker of this rank has joined the session that has this address.
know() {
    pids[$1]=$(bounded "$2" "$FLUX" getattr -r "$1" broker.pid) &&
        uris[$1]=$(bounded "$2" "$FLUX" getattr -r "$1" uri) &&
        subscribe_anew "$1"
}
# Has nothing been started again but what was made to fail?
nobody_else_failed() {
    local again
    [ "$where" = restart ] || return 0
    again=$(grep -c ' is started again in ' "log.$life")
    [ "$again" -le "$failures" ] || {
        echo "brokers were started again $again times after $failures failures"
        return 1
    }
}
# For the load.
say_where() {
    local r
    for r in "${up[@]}"; do
        echo "$r ${uris[$r]}"
    done >where.new
    mv where.new where
}

# --- its life ---

session_new() {
    n=$1 topology=$2 sync=$3 where=$4
    settings=(--set=kvs.sync="$sync" --set=orphan.timeout=2s --set=live.lost="$lost_after"s
        --set=live.patience=$((6 * TIME_SCALE + ROOT_STOPS - 2))s
        --set=kvs.checkpoint-bytes=500k --set=kvs.checkpoint-interval=200ms "${@:5}")
    if [ "$where" = hosts ]; then
        netns_plug "$n"
        [ -e key ] || "$FLUX" keygen key
        echo "session { hosts = '10.77.0.[1-$n]', keyfile = '$TEST_DIR/key', topology = '$topology' }" >conf.lua
    fi
}

# The program of the session: it says where the session is, and ends when it is told to.
# shellcheck disable=SC2016 # for the inner shell
PROGRAM='echo "$FLUX_URI" >uri.new && mv uri.new uri && exec cat end'

# start_one LOG PREFIX... -- OPTION...
start_one() {
    local log=$1 prefix=()
    shift
    while [ "$1" != -- ]; do
        prefix+=("$1")
        shift
    done
    shift
    FAULT_LIFE=$FLUX_TEST_ID.$life LD_PRELOAD=$FAULT_PRELOAD ${prefix[@]+"${prefix[@]}"} "$FLUX" start \
        "${settings[@]}" "$@" sh -c "$PROGRAM" >"$log" 2>&1 </dev/null &
    starts+=($!)
}

all_up() {
    [[ $(FLUX_URI=$(cat uri) "$FLUX" up) == "$n of $n up"* ]]
}

start_rank() { # RANK LOG
    start_one "$2" nsenter -t "${holders[$(($1 + 1))]}" -n -- --config=conf.lua --set=boot.rank="$1"
}

# That of rank 0 stays the last one in `starts`.
session_return() {
    local r root=${starts[-1]} uri
    unset 'starts[-1]'
    for r in "$@"; do
        start_rank "$r" "log.$life.$r.$((++returned))"
    done
    starts+=("$root")
    wait_until 60 all_up || return 1
    uri=$(cat uri)
    for r in "$@"; do
        know "$r" "$uri" || return 1
    done
    mapfile -t up < <(seq 0 $((n - 1)))
    say_where
}

session_start() {
    local r uri again=()
    life=$((life + 1))
    starts=() pids=() uris=() up=() abandoned=() awaited=() failures=0
    rm -f uri end
    mkfifo end
    if [ "$where" != hosts ]; then
        [ "$where" = local ] || again=(--restart)
        # With --verbose it tells each exit code.
        start_one "log.$life" -- --size="$n" --topology="$topology" --statedir="$STATE" --verbose \
            ${again[@]+"${again[@]}"}
    else
        for ((r = n - 1; r > 0; r--)); do
            start_rank "$r" "log.$life.$r"
        done
        start_one "log.$life" nsenter -t "${holders[1]}" -n -- --config=conf.lua --set=boot.rank=0 \
            --statedir="$STATE"
    fi
    wait_until 60 test -s uri || return 1
    wait_until 30 all_up || return 1
    uri=$(cat uri)
    for ((r = 0; r < n; r++)); do
        pids[r]=$(FLUX_URI=$uri "$FLUX" getattr -r "$r" broker.pid) || return 1
        uris[r]=$(FLUX_URI=$uri "$FLUX" getattr -r "$r" uri) || return 1
        up+=("$r")
    done
    say_where
}

# Leaves in $status the exit code of the one with rank 0; others may have been cut off.
session_end() {
    rm -f where
    : >end
    wait "${starts[-1]}"
    status=$?
    if ! wait_until 60 session_gone; then
        session_processes | while read -r r; do
            note "still there: $r $(tr '\0' ' ' <"/proc/$r/cmdline")"
        done >&2
        return 1
    fi
    wait "${starts[@]}" 2>/dev/null
    [ ${#abandoned[@]} -eq 0 ] || rm -rf "${abandoned[@]}"
}

session_crash() {
    rm -f where
    local r victims=("$@")
    if [ $# -eq 0 ]; then
        victims=("${starts[@]}")
        for r in "${up[@]}"; do
            victims+=("${pids[$r]}")
        done
    fi
    kill -KILL "${victims[@]}" 2>/dev/null
    wait_until 60 session_gone || return 1
    wait "${starts[@]}" 2>/dev/null
    rm -rf "$TMPDIR"/flux-*
}

# Processes that carry the mark of this life, or that of a task.  grep is started without.
session_processes() {
    env -u FAULT_LIFE grep -lazxE "FAULT_(LIFE=$FLUX_TEST_ID\.$life|TASK=$FLUX_TEST_ID)" /proc/[0-9]*/environ \
        2>/dev/null | tr -dc '0-9\n'
}
session_gone() {
    [ -z "$(session_processes)" ]
}
