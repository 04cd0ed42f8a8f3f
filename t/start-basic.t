#!/usr/bin/env bash
# flux start on one host: sizes, shapes, exit codes, signals, mistakes, and what is left behind.
. "$(dirname "$0")/lib.sh"
need_flux start up getattr

M=--set=modules=log
# `exec` where a signal is to come from the command itself and not from a shell around it.
start() {
    run_with_timeout 60 "$FLUX" start "$M" "$@"
}

# --- sizes ---

for size in 1 4 16; do
    ok "a session of $size" session $size "$M" -- "$FLUX" up
    like "$out" "${size//16/0-15}|0-3|0" "flux up tells its ranks"
    is "$(session $size "$M" -- "$FLUX" getattr size)" "$size" "the size is known in it"
done
for shape in flat chain binary kary:3; do
    is "$(session 5 "$M" "--topology=$shape" -- "$FLUX" getattr topology)" "$shape" "shape $shape"
done
printf '0: 1,3\n1: 2\n3: 4\n' >tree
ok "a tree from a file" session 5 "$M" --topology=tree -- "$FLUX" up
ok "no size: one broker" start sh -c "test \$('$FLUX' getattr size) = 1"
is "$(session 3 "$M" --set=user.name=value -- "$FLUX" getattr user.name)" value "--set"
is "$(echo input | session 2 "$M" -- cat)" input "the command has standard input"

# --- exit codes ---

exits 0 "exit code 0" session 2 "$M" -- true
exits 42 "exit code 42" session 2 "$M" -- sh -c 'exit 42'
# shellcheck disable=SC2016 # the inner shell expands it
exits 137 "killed by signal 9" session 2 "$M" -- sh -c 'kill -9 $$'
# shellcheck disable=SC2016
exits 143 "killed by signal 15" session 1 "$M" -- sh -c 'kill -15 $$'
exits 127 "no such command" session 2 "$M" -- /nonexistent/command
exits 127 "also when other brokers hear of it before they hear that the session runs" \
    session 8 "$M" --topology=flat -- /nonexistent/command
unlike "$err" 'broker [0-9]+ ended' "which is not a failure of theirs"
like "$err" "cannot start /nonexistent/command: No such file or directory" "with a sentence"
exits 126 "a command that cannot be run" session 2 "$M" -- /etc/passwd

# --- mistakes ---

exits 2 "size 0" "$FLUX" start --size=0 true
exits 2 "size none" "$FLUX" start --size=many true
exits 2 "an attribute without value" "$FLUX" start --size=2 --set=name true
exits 2 "an unknown option" "$FLUX" start --frobnicate true
exits 2 "an unknown way to boot" "$FLUX" start --boot=stork true
fails "an unknown shape" start --size=3 --topology=pretzel true
like "$err" pretzel "the sentence names it"
is "$(wc -l <<<"$err")" 1 "once, not once for each broker"
printf '0: 1\n2: 3\n' >tree
fails "a tree that does not hang together" start --size=4 --topology=tree true
like "$err" tree "the sentence names the file"
fails "an unknown shape, one broker" start --topology=pretzel true
fails "a bad attribute" start --size=2 --set=curve=perhaps true
like "$err" "curve=perhaps" "the sentence names it"
fails "a bad duration" start --size=2 --set=live.lost=soon true
like "$err" "live.lost=soon" "the sentence names it"
fails "a module that is not there" start --size=3 --set=modules=log,nonesuch true
like "$err" nonesuch "the sentence names it"

# --- directories ---

mkdir -m 700 run
ok "a directory that is there" start --size=2 --rundir="$PWD/run" true
is "$(ls run 2>/dev/null)" "" "is empty afterwards"
ok "a directory that is not there" start --size=2 --rundir="$TEST_DIR/fresh" true
[ ! -e fresh ]
is $? 0 "is removed afterwards"
mkdir -p -m 777 open
chmod 777 open
fails "a directory that others can write to" start --size=2 --rundir="$PWD/open" true
like "$err" "$PWD/open" "the sentence names it"
fails "a relative directory" start --size=2 --rundir=run true
fails "a directory with a long name" start --size=2 --rundir="$PWD/$(printf '%0120d' 1)" true
echo file >file
fails "a file" start --size=2 --rundir="$PWD/file" true
if [ "$(id -u)" != 0 ]; then
    mkdir -m 500 closed
    fails "no permission" start --size=2 --rundir="$PWD/closed" true
elif [ -d /proc/sys ]; then
    fails "no permission" start --size=2 --rundir=/proc/sys/flux true
fi

# --- an address in use, a socket left behind ---

mkdir -m 700 shared
mkfifo up1 go1
start --size=2 --rundir="$PWD/shared" sh -c 'echo up >up1; read -r line <go1' &
first=$!
read -r _ <up1
fails "a directory that a session uses" start --size=2 --rundir="$PWD/shared" true
like "$err" "in use" "the sentence says so"
is "$(wc -l <<<"$err")" 1 "once"
ok "the first session still works" env FLUX_URI="local://$PWD/shared/0/local" "$FLUX" up
echo >go1
wait "$first"
is $? 0 "and ends well"

start --size=2 --rundir="$PWD/shared" sh -c 'echo up >up1; exec sleep 100' &
first=$!
read -r _ <up1
kill_frozen
wait "$first" 2>/dev/null
[ -S shared/0/local ]
is $? 0 "killed brokers leave their sockets"
ok "a new session takes the directory over" start --size=2 --rundir="$PWD/shared" "$FLUX" up
is "$(ls shared 2>/dev/null)" "" "and cleans it"

# --- signals ---

begin() { # SIZE COMMAND...: in the background, until its command runs
    local size=$1
    shift
    "$FLUX" start "$M" --size="$size" sh -c "echo up >up1; $*" 2>begin.err &
    session=$!
    read -r _ <up1
}
end_is() { # CODE DESC
    local code
    wait "$session"
    code=$?
    is "$code" "$1" "$2"
    [ "$code" = "$1" ] || cat begin.err >&2
}

for sig in TERM:143 HUP:129 INT:130; do
    # Background jobs of a script ignore SIGINT, and so do their children.
    begin 4 'exec sleep 100'
    if [ "$sig" = INT:130 ] && grep -q '^SigIgn:.*[2367abef]$' "/proc/$session/status"; then
        kill -TERM "$session"
        wait "$session"
        skip 2 "SIGINT is ignored in background jobs"
    else
        kill "-${sig%:*}" "$session"
        end_is "${sig#*:}" "SIG${sig%:*} ends the session in order"
        like "$(cat begin.err)" "the session ends: SIG[A-Z]+ from .*\(process [0-9]+, user $(id -u)\)" \
            "it says who sent the signal"
    fi
    ok "and nobody is left" wait_until 5 no_processes
done
"$FLUX" start "$M" --size=4 \
    sh -c "trap 'touch asked' TERM HUP; echo up >up1; while :; do sleep 1; done" 2>begin.err &
session=$!
read -r _ <up1
kill -TERM "$session"
wait_until 20 test -e asked # else both signals may come as one
kill -TERM "$session"
end_is 143 "the second SIGTERM kills"
ok "and nobody is left" wait_until 5 no_processes

exits 7 "flux shutdown ends the session, with an exit code" \
    session 2 "$M" -- sh -c "'$FLUX' shutdown --exit-code=7 it is late; exec sleep 100"
like "$err" "the session ends: flux shutdown: it is late, asked for by user $(id -u) on rank 0" "it says who asked"
fails "flux shutdown: a code that cannot be" session 1 "$M" -- "$FLUX" shutdown --exit-code=256

for size in 1 4; do
    begin $size 'exec sleep 100'
    kill -KILL "$session"
    wait "$session" 2>/dev/null
    ok "flux start of $size is killed: brokers and their tasks are gone" wait_until 10 no_processes
done
# A broker that was started in place is the one that was killed, and cannot tidy up.
rm -rf "$TMPDIR"/flux-*/0
rmdir "$TMPDIR"/flux-* 2>/dev/null

begin 4 'sleep 2; exec sleep 100'
read -r -a pids <"/proc/$session/task/$session/children" # in the order of their ranks
kill -KILL "${pids[3]}"
noticed() { # its parent has waited for it
    ! kill -0 "${pids[3]}" 2>/dev/null
}
wait_until 20 noticed
kill -0 "$session" 2>/dev/null
is $? 0 "a session outlives a broker that is killed"
kill -KILL "${pids[0]}"
end_is 137 "but not rank 0"
ok "and nobody is left" wait_until 5 no_processes

finish
