# shellcheck shell=bash
# What every system test begins with:   . "$(dirname "$0")/lib.sh"
#
# A test is a bash script that prints TAP.  It runs in a private directory, may be run by hand from
# anywhere (t/NAME.t), beside any other test, and leaves nothing behind: when it ends, the library
# looks for processes that still carry the test's mark in their environment, for sockets, and for
# anything in the temporary directory, counts them as a failed test and removes them.  A test that
# has a /dev/shm of its own (t/mpi/own_shm.sh) must leave nothing there, either.
#
#     plan N                      N tests will follow; a different number is a failure
#     finish                      instead of `plan`, as the last line: as many as there were
#     skip_all REASON             this test cannot run here; ends it
#     bail REASON                 nothing more can be tested; ends it with a failure
#
#     ok DESC COMMAND...          passes if COMMAND succeeds
#     exits N DESC COMMAND...     passes if COMMAND's exit code is N
#     fails DESC COMMAND...       passes if COMMAND says an error: exit code 1..123 and a sentence on
#                                 standard error (so not when it is killed, crashes or times out)
#     is GOT WANT DESC            strings are equal             isnt GOT UNWANTED DESC
#     like GOT REGEX DESC         bash regex matches            unlike GOT REGEX DESC
#     pass DESC    fail DESC      a test that you decided yourself
#     skip N REASON               N tests that cannot be done here
#     note TEXT                   a line of explanation in the log
#
#     run COMMAND...              run it; leaves $status, $out, $err (all trailing newlines cut)
#     run_with_timeout S CMD...   run it for at most S seconds (times FLUX_TEST_TIME_SCALE and
#                                 FLUX_TEST_PATIENCE), 124
#     run_watched S CMD...        the same; if the time is over, says on standard error what the test was running,
#                                 and where the processes of the commands ${WATCHED[@]} wait
#     what_runs                   what the test is running, a line of explanation for each process
#     wait_until S COMMAND...     try COMMAND until it succeeds, for at most S seconds (likewise)
#     COMMAND | finds GREP-ARGS   like grep -q, but reads all input: with pipefail, a command that prints more than
#                                 `grep -q` reads would fail by SIGPIPE
#     start_bg COMMAND...         start it in the background; its id is left in $bg
#     session N [OPT...] -- CMD   run CMD in a session of N brokers, at most SESSION_LIMIT seconds
#     hold N [OPT...]             start such a session in the background; FLUX_URI leads to it
#     release                     end it; leaves its exit code in $status.  If it does not end, what it still runs is
#                                 printed and killed after RELEASE_LIMIT seconds (times as above; default 60)
#     end_reader PID FIFO LOG [PID...]
#                                 end the session of the first process, whose initial program reads FIFO, as `release`
#                                 does, and wait for the others; exit code of the first.  LOG is what it has said
#     kill_frozen                 end all processes of the test with SIGKILL, as if at one moment
#     all_dead PID...             are these processes dead, though nobody may have waited for them?
#     kill_setsid PID             end with SIGKILL all that `setsid COMMAND &` of that id started
#     has_hold_points             does this build have them (libutil/holdpoint.h)?
#     hold_point_arm              the count of FLUX_HOLD_POINT=NAME:N:$TEST_DIR/$HOLD_FILE begins
#     hold_point_reached PID      has the session come there, or process PID ended before?
#     free_ports N [FIRST]        print the first of N ports in a row at which nobody listens, at or above FIRST
#     kvs ARG...                  flux kvs ARG...
#     job_state_is ID STATE       is the job in this state?
#     no_active_jobs              have all jobs of the session ended?
#     logged PATTERN              does a line of the session's log match (grep -E)?
#     resource_cell STATE N CMD   field N of the line of STATE that `flux resource CMD` prints
#     broker_pid RANK             the process id of a broker
#     no_processes                has the test no processes (but itself)?
#     marked MARK                 the ids of the processes that have MARK=MARK.$$ in their environment
#     marked_count MARK N         are there at least N of them?     unmarked MARK: are there none?
#     interrupted PID             send SIGINT; has the process ended?  For wait_until
#     has_lines FILE N            has the file at least N lines?
#     fill_disk DIR KB            fill a small file system with DIR/filler, except for KB KiB
#     need COMMAND...             skip_all unless all these commands exist
#     need_flux [SUBCOMMAND...]   skip_all unless flux (and these subcommands) have been built
#     allow_left GLOB...          names in $TMPDIR that somebody else's program may leave there
#     shm_left                    print what is left in a /dev/shm of the test's own; nothing if it has none
#
# Each of ok/exits/fails leaves $status, $out and $err as `run` does, and shows them on failure. Set
# for the test: $SRCDIR, $BUILDDIR, $FLUX (the built command), $TEST_DIR (its current directory),
# $TMPDIR (where sessions put their sockets; short, since a socket's path has at most 107 bytes), $NET (127.X.Y: no
# other test has the addresses of the loopback interface that begin with it).

set -u
set -o pipefail
TEST_NAME=$(basename "$0" .t)
SRCDIR=${FLUX_TEST_SRCDIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}

# The build directory, when nobody said it: the current one or one above it, else build/.
_find_builddir() {
    local dir=$PWD
    while [ "$dir" != / ]; do
        if [ -x "$dir/config.status" ]; then
            echo "$dir"
            return
        fi
        dir=$(dirname "$dir")
    done
    echo "$SRCDIR/build"
}
BUILDDIR=${FLUX_TEST_BUILDDIR:-$(_find_builddir)}
FLUX=$BUILDDIR/src/cmd/flux
# How much slower than usual this build is: for times that a test chooses (limits of jobs, periods).
TIME_SCALE=${FLUX_TEST_TIME_SCALE:-1}
# Seconds to wait are what a quiet host would hardly need; a busy one gets this many times as much.
# Nobody waits longer for that, but where something is broken.
PATIENCE=$((${FLUX_TEST_PATIENCE:-4} * TIME_SCALE))
SESSION_LIMIT=${SESSION_LIMIT:-60}

# shellcheck disable=SC2034 # for the test to read
NET=127.$(($$ / 256 % 256)).$(($$ % 256))

# A session or launcher around the test must not be taken for the test's own.
unset FLUX_URI XDG_RUNTIME_DIR
for _name in $(compgen -v); do
    case $_name in
    PMI_* | PMIX_* | OMPI_* | SLURM_* | FLUX_JOB_* | FLUX_PMI_*) unset "$_name" ;;
    esac
done

# Many jobs of tests have two tasks on a node: a host with a single core has two for sessions.
[ "$(nproc)" -gt 1 ] || export HWLOC_SYNTHETIC=${HWLOC_SYNTHETIC-package:1 core:2 pu:1}

_base=${TMPDIR:-/tmp}
if [ ${#_base} -gt 40 ] || [ ! -w "$_base" ]; then
    _base=/tmp
fi
_root=$(mktemp -d "$_base/ft.XXXXXX") || {
    echo "Bail out! cannot make a directory in $_base"
    exit 1
}
mkdir "$_root/w" "$_root/t" "$_root/.io"
TEST_DIR=$_root/w
export TMPDIR=$_root/t
export FLUX_TEST_ID=$TEST_NAME-${_root##*/}-$$
export LC_ALL=C.UTF-8
export FLUX_COMPLETION_TIMEOUT=$((60 * PATIENCE)) # a busy host completes slowly, too
cd "$TEST_DIR" || exit 1
# FLUX_TEST_PLACE=loop|thread: the modules of all sessions run there, whatever they declare.
# FLUX_TEST_LINK=zmq: the brokers of all sessions are connected by ZeroMQ.
if [ -n "${FLUX_TEST_PLACE:-}${FLUX_TEST_LINK:-}" ]; then
    # Not by sh, which drops the functions that a test exports.
    # shellcheck disable=SC2016 # for the shell that runs the file
    printf '#!/bin/bash\ncase $1 in start) shift; set -- start %s %s "$@";; esac\nexec %s "$@"\n' \
        "${FLUX_TEST_PLACE:+--set=module.place=$FLUX_TEST_PLACE}" \
        "${FLUX_TEST_LINK:+--set=link.transport=$FLUX_TEST_LINK}" "$FLUX" >"$_root/flux"
    chmod +x "$_root/flux"
    FLUX=$_root/flux
fi

_held='' _held_pid='' _commands=''
_planned='' _count=0 _failed=0 _finished='' _signal='' _allowed=()
# shellcheck disable=SC2034 # these are for the test to read
status=0 out='' err='' bg=''

# --- results ---------------------------------------------------------------------------------

note() {
    printf '%s\n' "$*" | sed 's/^/# /'
}

# Print one result line.  A '#' in a description would begin a TAP directive.
_result() {
    local verdict=$1
    shift
    _count=$((_count + 1))
    if [ "$verdict" = "not ok" ]; then
        _failed=$((_failed + 1))
    fi
    printf '%s %d - %s\n' "$verdict" "$_count" "$(printf '%s' "$*" | tr '#\n' '. ')"
}

pass() {
    _result ok "$@"
}

fail() {
    _result "not ok" "$@"
    return 1
}

plan() {
    _planned=$1
}

finish() {
    _finished=1
}

skip_all() {
    _planned=skip
    note "skip: $*"
    echo "1..0 # SKIP $*"
    exit 0
}

bail() {
    echo "Bail out! $*"
    _planned=bail
    exit 1
}

skip() {
    local n=$1
    shift
    while [ "$n" -gt 0 ]; do
        _count=$((_count + 1)) n=$((n - 1))
        echo "ok $_count # SKIP $*"
    done
}

is() {
    if [ "$1" = "$2" ]; then
        pass "$3"
    else
        note "got:  '$1'" >&2
        note "want: '$2'" >&2
        fail "$3"
    fi
}

isnt() {
    if [ "$1" != "$2" ]; then
        pass "$3"
    else
        note "got what it must not be: '$1'" >&2
        fail "$3"
    fi
}

like() {
    if [[ $1 =~ $2 ]]; then
        pass "$3"
    else
        note "got: '$1'" >&2
        note "does not match: '$2'" >&2
        fail "$3"
    fi
}

unlike() {
    if [[ ! $1 =~ $2 ]]; then
        pass "$3"
    else
        note "got: '$1'" >&2
        note "matches: '$2'" >&2
        fail "$3"
    fi
}

# --- running things --------------------------------------------------------------------------

run() {
    local io
    io=$(mktemp -d "$_root/.io/XXXXXX")
    "$@" >"$io/out" 2>"$io/err"
    status=$?
    out=$(tr -d '\0' <"$io/out")
    err=$(tr -d '\0' <"$io/err")
    rm -rf "$io"
    return "$status"
}

# What to read when a command did not do what was expected of it.
_show() {
    note "$1: exit code $status" >&2
    note "standard output: $(head -c 4000 <<<"$out")" >&2
    note "standard error: $(head -c 4000 <<<"$err")" >&2
}

ok() {
    local desc=$1
    shift
    if run "$@"; then
        pass "$desc"
    else
        _show "$*"
        fail "$desc"
    fi
}

exits() {
    local want=$1 desc=$2
    shift 2
    run "$@"
    if [ "$status" -eq "$want" ]; then
        pass "$desc"
    else
        _show "$*"
        fail "$desc (want exit code $want)"
    fi
}

fails() {
    local desc=$1
    shift
    run "$@"
    if [ "$status" -ge 1 ] && [ "$status" -le 123 ] && [ -n "$err" ]; then
        pass "$desc"
    else
        _show "$*"
        fail "$desc (want an error, said on standard error)"
    fi
}

run_with_timeout() {
    local seconds=$1
    shift
    if [ "$(type -t "$1")" = function ]; then
        echo "run_with_timeout: $1 is a shell function: a command is needed" >&2
        return 125
    fi
    timeout -k 5 "$((seconds * PATIENCE))" "$@"
}

what_runs() {
    local pids
    mapfile -t pids < <(test_processes)
    [ ${#pids[@]} -gt 0 ] || return 0
    note "$(ps -o pid,ppid,etimes,stat,wchan:20,args -p "$(IFS=, && echo "${pids[*]}")" | cut -c1-160 | head -n 80)"
}

# what_runs, and where the processes of these programs wait, if there is gdb
where_wait() {
    local pid name
    what_runs
    command -v gdb >/dev/null || return 0
    for name in "$@"; do
        for pid in $(test_processes | xargs -r ps -o pid=,args= -p | awk -v name="$name" 'index($0, name) {print $1}'); do
            note "stacks of $pid:"
            note "$(timeout 20 gdb -p "$pid" -batch -ex 'thread apply all backtrace 14' 2>/dev/null |
                grep -E '^(Thread|#)' | cut -c1-160 | head -n 120)"
        done
    done
}

WATCHED=()
run_watched() {
    local seconds=$1 end=$((SECONDS + $1 * PATIENCE)) told='' pid
    shift
    run_with_timeout $((seconds + 5)) "$@" &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        if [ "$SECONDS" -ge "$end" ] && [ -z "$told" ]; then
            told=yes
            note "$* does not end within $((seconds * PATIENCE)) s:" >&2
            where_wait "${WATCHED[@]}" >&2
        fi
        sleep 0.02
    done
    wait "$pid"
}

wait_until() {
    local end=$((SECONDS + $1 * PATIENCE))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -gt "$end" ]; then
            note "waited in vain for: $*" >&2
            return 1
        fi
        sleep 0.05
    done
}

finds() {
    local input
    input=$(tr -d '\0')
    grep -q "$@" <<<"$input"
}

# Below the ports that the kernel gives to whoever connects (ip_local_port_range).
free_ports() {
    local first=${2:-$((20000 + ($$ * 20) % 12000))}
    while ss -Hltn 2>/dev/null | finds -E ":($(seq -s '|' "$first" $((first + $1 - 1)))) "; do
        first=$((first + 20))
    done
    echo "$first"
}

start_bg() {
    "$@" &
    # shellcheck disable=SC2034 # for the test to read
    bg=$!
}

session() {
    local size=$1 opts=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        opts+=("$1")
        shift
    done
    if [ $# -lt 2 ]; then
        echo "session: usage: session N [OPTION...] -- COMMAND..." >&2
        return 125
    fi
    shift
    # A sanitized broker may be busy for long.
    [ "$TIME_SCALE" = 1 ] || opts=(--set=live.lost=$((3 * TIME_SCALE))s "${opts[@]}")
    run_with_timeout "$SESSION_LIMIT" "$FLUX" start --size="$size" "${opts[@]}" "$@"
}

hold() {
    local size=$1
    shift
    _held=$(mktemp -d "$_root/.io/XXXXXX")
    mkfifo "$_held/end"
    # shellcheck disable=SC2016 # to be expanded inside the session
    session "$size" "$@" -- sh -c 'echo "$FLUX_URI" >"$0/uri.tmp" && mv "$0/uri.tmp" "$0/uri" &&
        exec cat "$0/end"' "$_held" >"$_held/out" 2>"$_held/err" </dev/null &
    _held_pid=$!
    if ! wait_until 30 test -s "$_held/uri"; then
        note "$(cat "$_held/err")" >&2
        bail "the session did not start"
    fi
    FLUX_URI=$(cat "$_held/uri")
    export FLUX_URI
}

release() {
    unset FLUX_URI
    end_reader "$_held_pid" "$_held/end" "$_held/err"
    # shellcheck disable=SC2034 # for the test to read
    status=$?
}

end_reader() {
    local limit=$((${RELEASE_LIMIT:-60} * PATIENCE)) end code
    end=$((SECONDS + limit))
    # Opening the FIFO waits for its reader, which does not come where the session has ended by
    # itself.
    # shellcheck disable=SC2016 # its own shell expands it
    while kill -0 "$1" 2>/dev/null && ! timeout 1 sh -c ': >"$0"' "$2"; do
        [ "$SECONDS" -lt "$end" ] || break
    done
    while kill -0 "$1" 2>/dev/null; do
        if [ "$SECONDS" -ge "$end" ]; then
            note "the session does not end within $limit s; this is killed:" >&2
            what_runs >&2
            note "$(tail -n 20 "$3")" >&2
            kill_frozen
            break
        fi
        sleep 0.02
    done
    wait "$1"
    code=$?
    [ $# -le 3 ] || wait "${@:4}" 2>/dev/null
    return "$code"
}

# Who is dead and waits for its parent counts as gone: orphans are init's, which may take its time.
kill_setsid() {
    local pids
    while mapfile -t pids < <(ps -o pid=,stat= -s "$1" | awk '$2 !~ /^[ZX]/ { print $1 }') &&
        [ -n "${pids[*]}" ]; do
        kill -KILL "${pids[@]}" 2>/dev/null
        sleep 0.01
    done
}

# shellcheck disable=SC2034 # for the test to read
HOLD_FILE=hold-point # in the directory of the test
has_hold_points() {
    grep -q '^#define WITH_INVARIANTS 1' "$BUILDDIR/config.h"
}
hold_point_arm() {
    : >"$HOLD_FILE"
}
hold_point_reached() {
    [ ! -e "$HOLD_FILE" ] || ! kill -0 "$1" 2>/dev/null
}

kvs() {
    "$FLUX" kvs "$@"
}

job_state_is() {
    [ "$("$FLUX" jobs -n -o '{state}' "$1" | tr -d ' ')" = "$2" ]
}

no_active_jobs() {
    ! "$FLUX" jobs -n -s active -o '{id}' | finds .
}

logged() {
    "$FLUX" dmesg | finds -E "$1"
}

resource_cell() {
    "$FLUX" resource "$3" | awk -v state="$1" -v n="$2" '$1 == state { print $n }'
}

broker_pid() {
    "$FLUX" getattr -r "$1" broker.pid
}

no_processes() {
    [ -z "$(test_processes)" ]
}

# grep is started without a mark that the test may have in its own environment.
marked() {
    env -u MARK grep -lazxsF "MARK=$1.$$" /proc/[0-9]*/environ | tr -dc '0-9\n'
}
marked_count() {
    [ "$(marked "$1" | wc -l)" -ge "$2" ]
}
unmarked() {
    [ -z "$(marked "$1")" ]
}

# A program that has not installed its handler yet may ignore the first signal; two that come before
# it looks are one.
interrupted() {
    kill -INT "$1" 2>/dev/null
    sleep 0.2
    ! kill -0 "$1" 2>/dev/null
}

has_lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}

fill_disk() {
    local free
    free=$(df --output=avail -k "$1" | tail -1)
    dd if=/dev/zero of="$1/filler" bs=1k count=$((free - $2)) 2>/dev/null
    [ -s "$1/filler" ]
}

need() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null || skip_all "$name is not installed"
    done
}

need_flux() {
    local name
    [ -x "$FLUX" ] || skip_all "flux has not been built in $BUILDDIR"
    _commands=$("$FLUX" help 2>/dev/null)
    for name in "$@"; do
        [[ $_commands =~ (^|[[:space:]])$name([[:space:]]|$) ]] || skip_all "this flux has no '$name'"
    done
}

allow_left() {
    _allowed+=("$@")
}

# --- the end ---------------------------------------------------------------------------------

# Print the ids of the processes that carry this test's mark.  The script itself is not among them:
# its environment as the kernel shows it is from before the mark was set.  grep is started without.
test_processes() {
    local environ pid
    for environ in $(env -u FLUX_TEST_ID grep -lazxsF "FLUX_TEST_ID=$FLUX_TEST_ID" \
        /proc/[0-9]*/environ); do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        [ "$pid" = "$$" ] || echo "$pid"
    done
}

# Stop all processes of the test and end them with SIGKILL, so that none does anything about the end
# of another.  A process that is amid an exec has no environment to be found by, and others may be
# about to fork: so they are looked for until no more are found.  Children are killed before their
# parents, since the kernel continues (and hangs up) a stopped process group whose last parent
# outside the group has gone. Returns when all are dead: a process that is ending keeps its locks
# for a while after it has lost the environment by which it is found.
kill_frozen() {
    local pid left=() frozen=() fresh parents rest
    while :; do
        fresh=()
        for pid in $(test_processes); do
            if [[ " ${left[*]} " != *" $pid "* ]] && kill -STOP "$pid" 2>/dev/null; then
                fresh+=("$pid")
            fi
        done
        [ ${#fresh[@]} -gt 0 ] || break
        left+=("${fresh[@]}")
    done
    while [ ${#left[@]} -gt 0 ]; do
        parents=" $(for pid in "${left[@]}"; do
            sed -n 's/^PPid:\t//p' "/proc/$pid/status" 2>/dev/null
        done | tr '\n' ' ')"
        rest=()
        for pid in "${left[@]}"; do
            if [[ $parents == *" $pid "* ]]; then
                rest+=("$pid")
            else
                kill -KILL "$pid" 2>/dev/null
                frozen+=("$pid")
            fi
        done
        left=("${rest[@]}")
    done
    wait_until 30 all_dead ${frozen[@]+"${frozen[@]}"}
}

# Are these processes dead, with all their threads?  Who collects them may take its time.
all_dead() {
    local pid threads
    for pid in "$@"; do
        threads=("/proc/$pid/task"/*)
        if [ ${#threads[@]} -gt 1 ] || ! grep -q '^State:.[ZX]' "/proc/$pid/status" 2>/dev/null; then
            [ ! -d "/proc/$pid" ] || return 1
        fi
    done
}

# An MPICH program that is killed while it starts leaves its mpich_shar_*, whoever launched it.
shm_left() {
    [ -z "${MPI_TEST_NAMESPACE-}" ] || [ ! -e /dev/shm/.of-this-test ] ||
        find /dev/shm -mindepth 1 -maxdepth 1 ! -name .of-this-test ! -name 'mpich_shar_*'
}

# Print what is left in the file system: any socket, and anything in $TMPDIR or a /dev/shm of its own.
_left_files() {
    local path glob
    find "$_root" -type s
    shm_left
    for path in "$TMPDIR"/* "$TMPDIR"/.[!.]*; do
        [ -e "$path" ] || [ -L "$path" ] || continue
        for glob in ${_allowed[@]+"${_allowed[@]}"}; do
            # shellcheck disable=SC2053 # a glob is meant
            [[ ${path##*/} == $glob ]] && continue 2
        done
        echo "$path"
    done
}

_nothing_left() {
    no_processes && [ -z "$(_left_files)" ]
}

_close() {
    local code=$? pid left
    trap - EXIT
    trap '' INT TERM HUP
    if [ "$_planned" != skip ] && [ "$_planned" != bail ]; then
        if [ -n "$_signal" ]; then
            _result "not ok" "ends by itself (it was ended by SIG$_signal)"
        elif [ -z "$_planned" ] && [ -z "$_finished" ]; then
            note "the script ended (status $code) before it came to its last line" >&2
            _result "not ok" "runs to its end"
        elif [ -n "$_planned" ] && [ "$_planned" -ne "$_count" ]; then
            note "planned $_planned tests, saw $_count (status $code)" >&2
            _result "not ok" "does all its $_planned tests"
        fi
    fi
    # What was killed or is shutting down may need a moment; only then is it left behind.
    for ((i = 0; i < ${FLUX_TEST_GRACE:-60} * PATIENCE; i++)); do
        _nothing_left && break
        sleep 0.05
    done
    left=$(test_processes)
    for pid in $left; do
        note "left behind: process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)" >&2
    done
    left=$left$(_left_files | while read -r path; do
        echo "$path"
        note "left behind: $path" >&2
    done)
    for pid in $(test_processes); do
        kill -KILL "$pid" 2>/dev/null
    done
    cd / || exit 1
    chmod -R u+rwx "$_root" 2>/dev/null
    rm -rf "$_root"
    if [ "$_planned" = bail ]; then
        exit 1
    fi
    if [ "$_planned" = skip ]; then
        exit 0
    fi
    if [ -n "$left" ]; then
        _result "not ok" "leaves nothing behind"
    else
        _result ok "leaves nothing behind"
    fi
    echo "1..$_count"
    exit $((_failed > 0))
}
trap _close EXIT
trap '_signal=HUP; exit 129' HUP
trap '_signal=INT; exit 130' INT
trap '_signal=TERM; exit 143' TERM
