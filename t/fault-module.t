#!/usr/bin/env bash
# Modules that fail at every moment of their lives take down nothing but themselves, and those who
# waited for them get errors.
. "$(dirname "$0")/lib.sh"
need_flux start module ping barrier
export SESSION_LIMIT=150 # for hold in lib.sh
PRESSURE=$BUILDDIR/t/pressure
BAD=$BUILDDIR/t/.libs/module_bad.so
if [ ! -x "$PRESSURE" ] || [ ! -e "$BAD" ]; then
    skip_all "t/pressure and t/module_bad.la have not been built"
fi
# A module's name is that of its file.
for name in bad oldabi misnamed nosuch; do
    cp "$BAD" "$name.so"
done
echo "this is not a shared object" >text.so
for lib in /lib/x86_64-linux-gnu/libm.so.6 /usr/lib/x86_64-linux-gnu/libm.so.6 /lib64/libm.so.6; do
    if [ -e "$lib" ]; then
        cp "$lib" libm.so
    fi
done

load() {
    "$FLUX" module load ./bad.so "$@"
}
# What blocks, or ends its thread, would do that to the broker on its loop.
load_thread() {
    "$FLUX" module load --place=thread ./bad.so "$@"
}
is_loaded() {
    [[ $("$FLUX" module list) =~ (^|$'\n')bad\  ]]
}
is_gone() {
    ! is_loaded
}
serves() {
    ok "$1: the broker goes on" "$FLUX" ping -c 2 -i 0 0
    ok "$1: its other modules, too" "$FLUX" barrier -n 1 "after-$count"
    count=$((count + 1))
}
count=0
# Ask the module for something it does not answer; its end must be said.
got() {
    "$FLUX" module list | awk '$1 == "bad" { got = $3 } END { print got + 0 }'
}
has_got() {
    [ "$(got)" -ge "$1" ]
}
waiting() {
    local before
    before=$(got)
    "$PRESSURE" ask 3 bad.wait 0 10 >wait.out 2>wait.err &
    client=$!
    wait_until 20 has_got $((before + 3))
}
waiters_get() {
    wait "$client"
    like "$(cat wait.out)" "answered 3 failed 3 twice 0.*$1" "$2: who waited gets the error"
}

# A module that ends its thread takes its own memory with it.
ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 hold 2 --set=modules=log,hb,barrier
pid=$("$FLUX" getattr broker.pid)

fails "init returns an error" load init-fails
like "$err" 'it was told to fail at once' "its sentence is passed on"
fails "init returns an error without a sentence" load init-silent
like "$err" 'bad' "there is one nevertheless"
fails "init ends its thread" load_thread init-exits
like "$err" 'bad' "is said"
ok "nothing is loaded" is_gone
serves "after init failed"

ok "load one that will fail" load late-error
ok "it is unloaded when it has" wait_until 20 is_gone
ok "the log says why" wait_until 20 logged 'bad.*it was told to fail late'
ok "load one that will fail without a sentence" load late-silent
ok "it is unloaded when it has" wait_until 20 is_gone
ok "load one that will end its thread" load_thread late-exit
ok "it is unloaded when it has" wait_until 20 is_gone
ok "the log says so" wait_until 20 logged 'bad.*ended'
ok "load one that will end" load late-end
ok "it is unloaded when it has" wait_until 20 is_gone
serves "after they failed late"

ok "load" load_thread good
fails "it ends its thread while it handles a request" "$FLUX" ping -c 1 nosuchservice
run "$PRESSURE" ask 1 bad.exit 0 10
like "$out" 'failed 1 twice 0.*Function not implemented: .*bad' "its sender gets the error"
ok "it is unloaded" wait_until 20 is_gone
ok "load it again" load good
ok "and it serves" "$PRESSURE" ask 1 bad.echo 0 10
like "$out" 'failed 0' "as before"

waiting
ok "unload with clients that wait" "$FLUX" module unload bad
waiters_get 'Function not implemented: module bad was unloaded' "unload"
ok "load" load good
waiting
ok "reload with clients that wait" "$FLUX" module reload bad
ok "they wait on" kill -0 "$client"
ok "unload" "$FLUX" module unload bad
waiters_get 'Function not implemented: module bad was unloaded' "after a reload"
serves "after unloading"

stopping() {
    "$FLUX" module list | finds -E '^bad .*stopping'
}
# It waits for something before it ends: meanwhile the broker goes on, and requests wait.
for place in loop thread; do
    ok "load on the $place" "$FLUX" module load --place=$place ./bad.so ends-late
    : >bad.hold
    "$FLUX" module reload bad >reload.out 2>&1 &
    reload=$!
    ok "it is to be reloaded, and waits" wait_until 20 stopping
    "$PRESSURE" ask 1 bad.echo 0 10 >ask.out 2>&1 &
    client=$!
    serves "while it waits"
    ok "its successor is not there yet" stopping
    rm bad.hold
    wait "$reload"
    is $? 0 "it is reloaded"
    wait "$client"
    like "$(cat ask.out)" "answered 1 failed 0" "its successor has what came meanwhile"
    ok "unload" "$FLUX" module unload bad
done

# It fails when its reload has been asked for, before it has seen that.
ok "load" load_thread good
: >bad.hold
"$PRESSURE" ask 1 bad.fail 0 10 >fail.out 2>fail.err &
client=$!
wait_until 20 has_got 1
"$FLUX" module reload bad >reload.out 2>&1 &
reload=$!
ok "a module is to be reloaded while it works" wait_until 20 stopping
rm bad.hold
wait "$reload"
is $? 1 "its reload fails when it fails before"
like "$(cat reload.out)" "module bad failed: it was told to fail" "with the reason"
wait "$client"
ok "it is gone" wait_until 20 is_gone

# Participants of a barrier wait on while it is reloaded, here and there.
"$FLUX" barrier -n 3 -t 60 reloaded >b0.out 2>&1 &
b0=$!
FLUX_URI=$("$FLUX" getattr -r 1 uri) "$FLUX" barrier -n 3 -t 60 reloaded >b1.out 2>&1 &
b1=$!
wait_until 20 sh -c "'$FLUX' barrier --list | grep -Eq 'reloaded +3 +2 '"
for i in 1 2 3; do
    ok "reload barrier ($i)" "$FLUX" module reload --all barrier
done
ok "a barrier completes after reloads" "$FLUX" barrier -n 3 -t 60 reloaded
wait "$b0"
is $? 0 "for those who waited at the root"
wait "$b1"
is $? 0 "and elsewhere"

# A module that hands over: requests that only the old instance has seen are answered by the new
# one.
keep_has() { # COUNT [FORM]
    [ "$("$FLUX" module stats -j keep | grep -oE '"(count|form)": ?[0-9]+' | tr -dc '0-9\n' | tr '\n' ' ')" = \
        "$1 ${2:-1} " ]
}
keep_waiting() { # N [ARGUMENT]
    "$FLUX" module load ./keep.so "${@:2}" || return
    "$PRESSURE" ask "$1" keep.wait 0 60 >wait.out 2>wait.err &
    client=$!
    wait_until 20 keep_has "$1"
}
install_keep() { # as an installation does: another file of that name
    cp "$BUILDDIR/t/.libs/module_keep$1.so" keep.new && mv keep.new keep.so
}
install_keep 1
ok "a module that hands over" keep_waiting 3
for i in 1 2 3; do
    ok "reload it ($i)" "$FLUX" module reload keep
done
ok "... it knows what it knew" keep_has 3
mv keep.so away.so
fails "reload without its file is refused" "$FLUX" module reload keep
like "$err" "keep" "... by name"
install_keep 2
fails "reload by a version that cannot read what it leaves is refused" "$FLUX" module reload keep
like "$err" "module keep stays loaded: the new version of module keep cannot continue.*--force" "... with what to do"
ok "... it goes on" keep_has 3
install_keep 1
ok "... and is reloaded by its own" "$FLUX" module reload keep
"$PRESSURE" ask 1 keep.go 0 10 >go.out
like "$(cat go.out)" "answered 1 failed 0" "the last instance is told to answer"
wait "$client"
like "$(cat wait.out)" "answered 3 failed 0 twice 0" "... and those that the first had seen are"
ok "unload" "$FLUX" module unload keep
ok "one that refuses" keep_waiting 1 refuses
fails "... to hand over" "$FLUX" module reload keep
like "$err" "module keep stays loaded: it was told not to hand over" "... says why"
ok "... and goes on" keep_has 1
ok "with force nobody asks" "$FLUX" module reload --force keep
wait "$client"
like "$(cat wait.out)" "answered 1 failed 1 twice 0.*it was ended" "... who waited gets the error"
ok "... and the new one knows nothing" keep_has 0
install_keep 2
ok "a forced reload by another version" "$FLUX" module reload --force keep
ok "... loads that" keep_has 0 2
install_keep 1
ok "unload" "$FLUX" module unload keep
ok "one whose successor cannot begin" keep_waiting 2 unreadable
fails "... is gone with its reload" "$FLUX" module reload keep
like "$err" "form that this one does not expect" "... which says why"
wait "$client"
like "$(cat wait.out)" "answered 2 failed 2 twice 0.*form that this one does not expect" "... as do those who waited"
serves "after handing over"

fails "a file that is not there" "$FLUX" module load ./missing.so
like "$err" 'missing' "says so"
fails "a file that is not a shared object" "$FLUX" module load ./text.so
like "$err" 'text' "says so"
if [ -e libm.so ]; then
    fails "a shared object that is not a module" "$FLUX" module load ./libm.so
    like "$err" "not a module 'libm'" "says so"
else
    skip 2 "no libm.so.6 in the usual place"
fi
fails "a module under another name" "$FLUX" module load ./nosuch.so
like "$err" "not a module 'nosuch'" "says so"
fails "a module of another version" "$FLUX" module load ./oldabi.so
like "$err" "not a module 'oldabi' for this version" "says so"
fails "a module with another's description" "$FLUX" module load ./misnamed.so
like "$err" "not a module 'misnamed'" "says so"
fails "a directory" "$FLUX" module load .
like "$err" "'\\.' is not a valid name" "says so"
fails "a service of the broker" "$FLUX" module load ./broker.so
serves "after bad files"

# --- leaks
# -------------------------------------------------------------------------------------------

fds() {
    find "/proc/$pid/fd" -mindepth 1 | wc -l
}
threads() {
    awk '/^Threads/ {print $2}' "/proc/$pid/status"
}
rounds() {
    local i what
    for i in $(seq "$1"); do
        load good && "$PRESSURE" ask 1 bad.echo 0 10 && "$FLUX" module reload bad &&
            "$FLUX" module unload bad || return 1
        for what in init-fails init-exits; do
            ! load_thread "$what" 2>/dev/null || return 1
        done
        load_thread late-exit && wait_until 20 is_gone || return 1
    done
}
# The first ones may leave what is kept for good.
ok "a round of loading and unloading" rounds 2
as_before() {
    [ "$(fds)" -le "$before_fds" ] && [ "$(threads)" -le "$before_threads" ]
}
before_fds=$(fds)
before_threads=$(threads)
ok "many rounds" rounds 12
ok "50 times more" sh -c "for i in \$(seq 50); do
    '$FLUX' module load ./bad.so good && '$FLUX' module unload bad || exit 1; done"
ok "leave no descriptors and no threads behind" wait_until 20 as_before
note "descriptors $before_fds, now $(fds); threads $before_threads, now $(threads)"
release
is "$status" 0 "the session ends well"

# --- bring-up
# ----------------------------------------------------------------------------------------

# The module waits in init: the session is wired and does not run.
mkdir mods
for name in log hb barrier; do
    ln -s "$BUILDDIR/src/modules/.libs/$name.so" mods/
done
run session 1 --set=modules=log,nonsense -- true
is "$status" 1 "a session with a module that is not there fails"
like "$err" 'nonsense' "with a sentence"
BAD_MODULE_WAIT=$PWD/go
export BAD_MODULE_WAIT
"$FLUX" start --size=7 --topology=kary:2 --set=shutdown.grace=1s --set=modules="$PWD/bad.so" \
    --set=module.place=thread \
    sh -c 'exit 3' >up.out 2>up.err &
start=$!
wait_until 20 sh -c "[ \$(pgrep -c -P $start) -eq 7 ]"
# Wait until init runs in all of them: it waits in poll().
in_init() {
    local p t n=0
    for p in $(pgrep -P "$start"); do
        for t in /proc/"$p"/task/*/wchan; do
            if grep -q poll "$t" && ! grep -q epoll "$t"; then
                n=$((n + 1))
                break
            fi
        done
    done
    [ "$n" -ge 7 ]
}
wait_until 10 in_init || note "init does not show"
mapfile -t children < <(pgrep -P "$start")
kill -KILL "${children[3]}"
ok "a rank that dies while modules load ends the session" wait_until 40 sh -c "! kill -0 $start"
: >go
wait "$start"
is $? 1 "with an error"
like "$(cat up.err)" 'broker [0-9]+ was killed' "and a sentence"
"$FLUX" start --size=3 --set=modules="$PWD/bad.so" sh -c 'exit 3' >up.out 2>up.err
is $? 3 "where nobody dies it runs"

# --- a module that cannot be stopped ---

stuck() {
    BAD_MODULE_STUCK=$PWD/stuck "$FLUX" start --size=1 --set=module.stop-timeout=1 sh -c \
        "'$FLUX' module load --place=thread ./bad.so stuck; exec sleep 1000" >stuck.out 2>&1 </dev/null &
    local broker=$!
    wait_until 30 test -e stuck || return
    kill -TERM $broker
    wait_until 30 sh -c "! kill -0 $broker" || kill -KILL $broker
    wait $broker
}
exits 143 "a broker with a module that does not end: SIGTERM ends it" stuck
like "$(cat stuck.out)" "modules did not end within 1 s: bad; the broker ends" "... naming the module"
finish
