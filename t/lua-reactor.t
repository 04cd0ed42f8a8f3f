#!/usr/bin/env bash
# The Lua module: the loop, its watchers, errors in callbacks, and brokers that go away.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/lua/lib.sh
. "$SRCDIR/t/lua/lib.sh"

lua_script 1 reactor

# The same beside a session that ends while it waits.
hold 1
"$LUA" "$SRCDIR/t/lua/reactor.lua" lost >lost.out 2>lost.err &
script=$!
wait_until 60 grep -q ready lost.err
release
wait "$script"
is $? 0 "a script survives the end of its session"
is "$(grep -c '^not ok' lost.out)" 0 "and hears of it"
grep -A3 '^not ok' lost.out | sed 's/^/# /'
like "$(cat lost.out)" "a loop whose handle has a function" "to its last line"
finish
