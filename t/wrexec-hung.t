#!/bin/bash
# A task whose directory, program or file lies on a file system that hangs, and a job whose
# directory or hooks do, keep nobody waiting but that job: others of the node start, run, end and
# get signals, and that job can be canceled.
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
mkdir -p "$HANGFS"/{chdir,open,stat,execve,any}
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
site() { # SETTING...: a session in which calls hang; what hangs notices no SIGTERM, so the grace period is short
    local args=()
    for s; do args+=(--set="$s"); done
    export LD_PRELOAD=$preload
    hold 1 --set resrc.config="$TEST_DIR/node.lua" --set=job.grace=0.3s "${args[@]}"
    unset LD_PRELOAD
}
site
nothing_hangs() { # what hung has come back, and the next thing hangs again
    rm -f "$HANGFS"/*.open
}

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
nothing_hangs

# One that no signal ends.
ok "a job hangs where no signal is noticed" hangs execve "$HANGFS/execve/sleep" 600
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
nothing_hangs

ok "a job hangs, and will not be killed" hangs execve "$HANGFS/execve/sleep" 600
echo "$pid" >"$HANGFS/immortal"
release
is "$status" 0 "the session ends all the same"
rm "$HANGFS/immortal"
: >"$HANGFS/execve.open"
ok "... and what hung goes when it comes back" wait_until 60 gone "$pid"
nothing_hangs

# What the launcher does around the tasks of a job.
cat >"$HANGFS/any/hook" <<'END'
#!/bin/sh
echo "$0" "$FLUX_JOB_ID" >>"$HANGFS/hooks"
END
chmod 755 "$HANGFS/any/hook"
ln "$HANGFS/any/hook" "$HANGFS/any/prolog"
ln "$HANGFS/any/hook" "$HANGFS/any/epilog"
eventlog() {
    "$FLUX" kvs get "job.$1.eventlog"
}
come_back() { # CALL
    : >"$HANGFS/$1.open"
}

site wrexec.tmpdir="$HANGFS/any" wrexec.prolog="$HANGFS/any/prolog" wrexec.epilog="$HANGFS/any/epilog"
others "nothing hangs"
begins() { # CALL DESCRIPTION ARG...: a job that hangs as it begins
    local call=$1 desc=$2
    shift 2
    : >"$HANGFS/$call.next"
    ok "a job hangs as $desc" hangs "$call" "$@" sleep 600
    others "a job hangs as $desc"
    ok "the job that hangs is canceled" "$FLUX" cancel "$id"
    run run_with_timeout 60 "$FLUX" wreck wait "$id"
    isnt "$status" 124 "... and ends"
    is "$(result "$id")" canceled "... as canceled"
    [ "$call" != mkdir ] || like "$(eventlog "$id")" "the start of the job hangs on .* is left behind" \
        "... and it is on record what is left behind"
    come_back "$call"
    others "it has come back"
    nothing_hangs
}
begins mkdir "its directory is made"
begins open "its file of labeled lines is opened" --label-io --output="$HANGFS/any/out"
begins execve "its prolog is executed"
at_end() { # CALL DESCRIPTION: a job that hangs when its tasks have ended
    rm -f go began "$HANGFS/$1.pid"
    id=$("$FLUX" submit -n1 sh -c '>began; until [ -e go ]; do sleep 0.05; done')
    wait_until 60 test -e began # its prolog is over
    : >"$HANGFS/$1.next"
    : >go
    ok "a job hangs as $2" wait_until 60 test -s "$HANGFS/$1.pid"
}
ends() { # CALL DESCRIPTION
    at_end "$1" "$2"
    others "a job hangs as $2"
    come_back "$1"
    run run_with_timeout 60 "$FLUX" wreck wait "$id"
    is "$status" 0 "it ends well when it comes back"
    nothing_hangs
    at_end "$1" "$2"
    ok "... is canceled" "$FLUX" cancel "$id"
    run run_with_timeout 60 "$FLUX" wreck wait "$id"
    isnt "$status" 124 "... and ends"
    like "$(eventlog "$id")" "the end of the job hangs on .* is left behind" \
        "... and it is on record what is left behind"
    come_back "$1"
    others "it has come back"
    nothing_hangs
}
label_io() { # a job whose labeled line hangs as it is written
    rm -f go "$HANGFS/any/out" "$HANGFS/write.pid"
    : >"$HANGFS/write.next"
    id=$("$FLUX" submit -n2 --label-io --output="$HANGFS/any/out" sh -c 'echo one; until [ -e go ]; do sleep 0.05; done; echo two')
    ok "a job hangs as a labeled line is written" wait_until 60 test -s "$HANGFS/write.pid"
}
label_io
others "a labeled line hangs"
: >go
come_back write
run run_with_timeout 60 "$FLUX" wreck wait "$id"
is "$status" 0 "it ends well when it comes back"
is "$(sort "$HANGFS/any/out" | tr '\n' ' ')" "0: one 0: two 1: one 1: two " "... with all lines"
nothing_hangs
label_io
ok "another is canceled" "$FLUX" cancel "$id"
run run_with_timeout 60 "$FLUX" wreck wait "$id"
isnt "$status" 124 "... and ends"
is "$(result "$id")" canceled "... as canceled"
come_back write
others "it has come back"
nothing_hangs
ends execve "its epilog is executed"
ends rmdir "its directory is removed"
: >"$HANGFS/rmdir.next"
ok "a job hangs as its directory is removed" hangs rmdir true
release
is "$status" 0 "the session ends all the same"
come_back rmdir
nothing_hangs

site wrexec.prolog="$HANGFS/any/prolog" wrexec.hook-timeout=0.5s
rm "$HANGFS/any/prolog"
ln "$HANGFS/any/hook" "$HANGFS/any/prolog"
: >"$HANGFS/execve.next"
run run_with_timeout 60 "$FLUX" wreckrun true
is "$status" 126 "a prolog that hangs for longer than it may fails its job"
like "$err" "the prolog .* failed on .*: it was not started within 0.5 s" "... with a sentence"
others "the prolog was killed"
: >"$HANGFS/execve.next"
rm -f "$HANGFS/execve.pid"
id=$("$FLUX" submit true)
wait_until 60 test -s "$HANGFS/execve.pid"
cp "$HANGFS/execve.pid" "$HANGFS/immortal"
run run_with_timeout 60 "$FLUX" wreck wait "$id"
isnt "$status" 124 "one that cannot be killed, too"
others "it is left behind"
rm "$HANGFS/immortal"
come_back execve
release
nothing_hangs

# As much hangs as may.
site wrexec.hung-max=2
[ ! -x "$BUILDDIR/src/pmixd/flux-pmixd" ] || begins execve "its PMIx server is started" --mpi=pmix
all=()
for _ in 1 2; do
    hangs chdir --chdir="$HANGFS/chdir/." sleep 600
    all+=("$id")
done
is "${#all[@]}" 2 "as many jobs hang as may"
run run_with_timeout 60 "$FLUX" wreckrun true
is "$status" 126 "another is refused"
like "$err" "2 calls to file systems that do not answer hang on .*wrexec.hung-max" "... with a sentence"
"$FLUX" cancel "${all[0]}"
run run_with_timeout 60 "$FLUX" wreck wait "${all[0]}"
others "one was canceled"
"$FLUX" cancel "${all[1]}"
run run_with_timeout 60 "$FLUX" wreck wait "${all[1]}"
release

# A hook that waits is ended by whichever thread has the loop.
mkdir lua.d
mkfifo fifo
cat >lua.d/x.lua <<END
return { init = function(job) if job:getenv("WAIT") then io.open("$PWD/fifo") end end }
END
site wrexec.lua-path="$PWD/lua.d" wrexec.hook-timeout=0.8s
ok "a job hangs" hangs chdir --chdir="$HANGFS/chdir/." sleep 600
run run_with_timeout 60 env WAIT=1 "$FLUX" wreckrun -n1 true
is "$status" 126 "a plugin that waits for ever is ended"
like "$err" "plugin x.lua, init: .*it takes longer than 0.8 s" "... with a sentence"
others "a plugin was ended"
"$FLUX" cancel "$id"
run run_with_timeout 60 "$FLUX" wreck wait "$id"
release
finish
