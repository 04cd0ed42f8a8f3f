#!/usr/bin/env bash
# Where modules run: in threads of their own or on the broker's loop; and turns that take too long.
. "$(dirname "$0")/lib.sh"
need_flux start module ping barrier dmesg
export SESSION_LIMIT=150 # for hold in lib.sh
PRESSURE=$BUILDDIR/t/pressure
BAD=$BUILDDIR/t/.libs/module_bad.so
if [ ! -x "$PRESSURE" ] || [ ! -e "$BAD" ]; then
    skip_all "t/pressure and t/module_bad.la have not been built"
fi
cp "$BAD" bad.so # a module's name is that of its file

place_of() { # MODULE [RANK]
    "$FLUX" module list -r "${2:-0}" | awk -v name="$1" '$1 == name { print $6 }'
}
is_gone() {
    [ -z "$(place_of bad)" ]
}
stat_of() { # KEY
    "$FLUX" module list --json | python3 -c 'import json, sys
print(next(m[sys.argv[1]] for m in json.load(sys.stdin) if m["name"] == "bad"))' "$1"
}
longer() {
    [ "$(stat_of longer)" -ge "$1" ]
}
serves() {
    ok "$1: the broker goes on" "$FLUX" ping -c 2 -i 0 0
    ok "$1: its other modules, too" "$FLUX" barrier -n 1 "after-$1"
}

unset FLUX_TEST_PLACE
FLUX=$BUILDDIR/src/cmd/flux
hold 2 --set=modules=log,hb,barrier --set=module.turn-max=10ms --set=module.place=thread,hb:loop
is "$(place_of barrier)$(place_of barrier 1)" threadthread "a session says where its modules run"
is "$(place_of hb)" loop "... and where one of them does"
ok "load a module where the session says" "$FLUX" module load ./bad.so
is "$(place_of bad)" thread "... it runs there"
ok "unload it" "$FLUX" module unload bad
ok "load it on the loop" "$FLUX" module load --place=loop ./bad.so
is "$(place_of bad)" loop "... it runs there"
ok "it serves" "$PRESSURE" ask 100 bad.echo 0 10
like "$out" "answered 100 failed 0 twice 0" "... every request once"
ok "reload it" "$FLUX" module reload bad
is "$(place_of bad)" loop "... it stays there"

# Turns that take too long.
ok "a module that blocks the loop" "$PRESSURE" ask 1 bad.slow 0 10
like "$out" "answered 1 failed 0" "... answers"
ok "... is counted" longer 1
ok "... and logged, by topic" wait_until 20 logged \
    "\bbad\b.*the request bad\.slow took [0-9.]+ ms of the broker's loop, more than module.turn-max \(10 ms\)"
like "$(stat_of longest)" '^0\.0[3-9]|^0\.[1-9]|^[1-9]' "the longest turn is known"
serves "after a long turn"
# A callback of a watcher is found by the offset of its function in the file.
slow_at() { # KIND
    "$FLUX" dmesg | sed -nE "s/.*\bbad\b.*: $1 bad\.so\+0x([0-9a-f]+) took [0-9.]+ ms of the broker's loop,.*/\1/p"
}
is_slow() { [ -n "$(slow_at "$1")" ]; }
finds_slow() { # TOPIC KIND
    ok "reload it" "$FLUX" module reload bad # at most one turn in a while is logged
    ok "block the loop in $2" "$PRESSURE" ask 1 "$1" 0 10
    ok "... it is logged" wait_until 20 is_slow "$2"
    like "$(nm --defined-only bad.so | grep -i "^0*$(slow_at "$2") ")" ' slow_watcher_cb$' "... with the place of the function"
}
finds_slow bad.slow-timer 'a timer'
finds_slow bad.slow-defer 'deferred work'

# Requests wait when it is unloaded, and when it is reloaded.
"$PRESSURE" ask 30 bad.slow 0 10 >slow.out &
client=$!
wait_until 20 longer 3
ok "unload it with requests in its queue" "$FLUX" module unload bad
wait "$client"
like "$(cat slow.out)" "sent 30 answered 30 failed [0-9]+ twice 0" "... all are answered"
ok "load it again" "$FLUX" module load --place=loop ./bad.so
"$PRESSURE" ask 20000 bad.echo 0 10 >echo.out &
client=$!
for i in 1 2 3 4 5; do
    ok "reload it under load ($i)" "$FLUX" module reload bad
done
wait "$client"
like "$(cat echo.out)" "sent 20000 answered 20000 failed 0 twice 0" "no request is lost"
is "$(place_of bad)" loop "it is still on the loop"
ok "unload it" "$FLUX" module unload bad
serves "after unloading"

# Failures.
fails "init returns an error" "$FLUX" module load --place=loop ./bad.so init-fails
like "$err" 'it was told to fail at once' "... which is passed on"
for what in late-error late-silent late-end; do
    ok "load one that will end by itself ($what)" "$FLUX" module load --place=loop ./bad.so "$what"
    ok "... it is unloaded when it has" wait_until 20 is_gone
done
ok "load one that forgets to destroy a timer" "$FLUX" module load --place=loop ./bad.so leaves-timer
ok "... and unload it" "$FLUX" module unload bad
serves "after a timer was left"
ok "the log says why" wait_until 20 logged 'bad.*it was told to fail late'
serves "after it failed"

# In a thread a turn is timed, too.
ok "load it in a thread" "$FLUX" module load --place=thread ./bad.so
ok "let it block" "$PRESSURE" ask 1 bad.slow 0 10
ok "... it is logged" wait_until 20 logged "the request bad\.slow took [0-9.]+ ms of the module's thread"

exits 2 "a place that does not exist" "$FLUX" module load --place=nowhere ./bad.so
like "$err" "place=nowhere: loop or thread is expected" "... is a usage error"
release
is "$status" 0 "the session ends well"
fails "a session with such a place" run_with_timeout 60 "$FLUX" start --set=module.place=hb:nowhere true
like "$err" "module.place=hb:nowhere: declared, loop or thread is expected" "... does not start"
finish
