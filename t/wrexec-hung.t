#!/bin/bash
# A task whose directory, program or file lies on a file system that hangs keeps nobody waiting but
# its own job: others of the node start, run, end and get signals, and that job can be canceled.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit wreckrun cancel wreck jobs
preload=$BUILDDIR/t/job/.libs/hangfs.so
[ -e "$preload" ] || skip_all "no $preload: make check builds it"
# The runtime of a sanitizer has to come before all that is preloaded.
case ${FLUX_TEST_SANITIZERS-} in
*address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
esac
export HANGFS=$TEST_DIR/hung
mkdir -p "$HANGFS"/{chdir,open,stat,execve}
cp /bin/sleep "$HANGFS/stat/"
cp /bin/sleep "$HANGFS/execve/"
echo hello >"$HANGFS/open/in"

gone() { # PID
    ! kill -0 "$1" 2>/dev/null || [[ $(ps -o stat= -p "$1") = [ZX]* ]]
}
hangs() { # CALL ARG...: submit a job and wait until it does; its id in $id, the process in $pid
    local call=$1
    shift
    rm -f "$HANGFS/$call.pid"
    id=$("$FLUX" submit -n1 "$@") && wait_until 60 test -s "$HANGFS/$call.pid" &&
        pid=$(cat "$HANGFS/$call.pid")
}
result() { # ID
    "$FLUX" jobs -a -n -o '{result}' "$1" | tr -d ' '
}
others() { # DESCRIPTION: what the rest of the node does meanwhile
    local sleeper
    run run_with_timeout 60 "$FLUX" wreckrun -n4 echo here
    is "$status-$(sort -u <<<"$out")" 0-here "$1: another job starts and ends"
    rm -f ready
    sleeper=$("$FLUX" submit -n1 sh -c 'trap "exit 3" USR1; >ready; while :; do sleep 0.05; done')
    ok "... and another" wait_until 60 test -e ready
    ok "... gets a signal" "$FLUX" wreck kill --signal=USR1 "$sleeper"
    run run_with_timeout 60 "$FLUX" wreck wait "$sleeper"
    is "$status" 3 "... and ends by that"
}

cat >node.lua <<'END'
resource { { nodes = "node0", cores = 16 }, emulate = true }
END
export LD_PRELOAD=$preload
hold 1 --set resrc.config="$TEST_DIR/node.lua"
unset LD_PRELOAD

for call in chdir open stat execve; do
    case $call in
    chdir) args=(--chdir="$HANGFS/chdir" sleep 600) desc="enters its directory" ;;
    open) args=(--output="$HANGFS/open/out" sleep 600) desc="opens its output" ;;
    stat) args=("$HANGFS/stat/sleep" 600) desc="looks for its program" ;;
    execve) args=("$HANGFS/execve/sleep" 600) desc="executes its program" ;;
    esac
    # A name below a directory: what has that as prefix.
    [ $call != chdir ] || args[0]="--chdir=$HANGFS/chdir/."
    ok "a job hangs as it $desc" hangs "$call" "${args[@]}"
    others "a job hangs as it $desc"
    ok "the job that hangs is canceled" "$FLUX" cancel "$id"
    run run_with_timeout 60 "$FLUX" wreck wait "$id"
    isnt "$status" 124 "... and ends"
    is "$(result "$id")" canceled "... as canceled"
    ok "... and what hung is gone" wait_until 60 gone "$pid"
done
ok "standard input from a file that hangs" hangs open --input="$HANGFS/open/in" --output=read cat
others "standard input hangs"
: >"$HANGFS/open.open"
run run_with_timeout 60 "$FLUX" wreck wait "$id"
is "$status" 0 "when it comes back the job goes on"
is "$(cat read)" hello "... and has read it"

# More of them than threads serve at a time.
all=()
for _ in 1 2 3 4 5 6; do
    hangs chdir --chdir="$HANGFS/chdir/." sh -c 'echo done'
    all+=("$id")
done
is "${#all[@]}" 6 "six jobs hang"
others "six jobs hang"
: >"$HANGFS/chdir.open"
good=0
for id in "${all[@]}"; do
    run_with_timeout 60 "$FLUX" wreck wait "$id" >/dev/null && good=$((good + 1))
done
is $good 6 "they end well when it comes back"
rm "$HANGFS"/*.open

# One that no signal ends.
ok "a job hangs where no signal is looked at" hangs execve "$HANGFS/execve/sleep" 600
echo "$pid" >"$HANGFS/immortal"
"$FLUX" cancel "$id"
run run_with_timeout 60 "$FLUX" wreck wait "$id"
isnt "$status" 124 "it is canceled and ends"
is "$(result "$id")" canceled "... as canceled"
like "$("$FLUX" kvs get "job.$id.eventlog")" "process $pid, which was to become task 0 .* is left behind" \
    "... and it is on record what is left behind"
others "something is left behind"
rm "$HANGFS/immortal"
: >"$HANGFS/execve.open"
ok "it goes when it comes back" wait_until 60 gone "$pid"
others "it has come back"
rm "$HANGFS"/*.open

ok "a job hangs, and will not be killed" hangs execve "$HANGFS/execve/sleep" 600
echo "$pid" >"$HANGFS/immortal"
release
is "$status" 0 "the session ends all the same"
rm "$HANGFS/immortal"
: >"$HANGFS/execve.open"
ok "... and what hung goes when it comes back" wait_until 60 gone "$pid"
finish
