#!/usr/bin/env bash
# The Lua module: the key-value store; and the examples that come with the module.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/lua/lib.sh
. "$SRCDIR/t/lua/lib.sh"
examples=$SRCDIR/src/bindings/lua/examples

# Nobody else commits: versions are counted.
# shellcheck disable=SC2034 # for lua_script
LUA_SESSION=("--set=modules=log,hb,barrier,kvs")
lua_script 2 kvs

run session 3 -- "$LUA" "$examples/ping.lua" 2
is "$(grep -cE '^rank [0-2]: round [12], [0-9.]+ ms$' <<<"$out")" 6 "ping.lua hears from every broker"

hold 2
counters=()
for _ in 1 2 3 4; do
    "$LUA" "$examples/counter.lua" example.counter 25 >>counted &
    counters+=($!)
done
wait "${counters[@]}"
is "$(sort -n counted | tail -n 1)" 100 "counter.lua counts every one of four processes"

"$LUA" "$examples/watch.lua" example 2 >watched &
watcher=$!
ok "watch.lua begins" wait_until 20 test -s watched
ok "what it watches changes" "$FLUX" kvs put example.sub.key=new
wait "$watcher"
like "$(cat watched)" "added example.counter = 100" "watch.lua says what was there"
like "$(cat watched)" "added example.sub.key = new" "and what is new"

mkfifo said
"$LUA" "$examples/chat.lua" anna <said >heard 2>&1 &
chat=$!
exec 7>said
echo hello >&7
ok "chat.lua hears itself" wait_until 20 grep -q "anna@0: hello" heard
run "$LUA" "$examples/chat.lua" bert <<<"good day"
ok "and others" wait_until 20 grep -q "bert@0: good day" heard
exec 7>&-
ok "and ends" wait "$chat"

head -c 5000001 /dev/urandom >file
ok "largefile.lua stores a file" "$LUA" "$examples/largefile.lua" put example.file "$PWD/file"
ok "and fetches it" "$LUA" "$examples/largefile.lua" get example.file "$PWD/copy"
ok "unchanged" cmp file copy
exits 2 "or says how it is used" "$LUA" "$examples/largefile.lua"
release

# A participant that is lost before its call ends a fence that says where participants are.
hold 3
"$LUA" -e 'local kv = require("flux").open():kvs()
print(kv:txn():put("lost.key", 1):fence("lua-lost", 2, {ranks = "0,2", timeout = 60}))' >lost.out 2>&1 &
waits=$!
# shellcheck disable=SC2016 # expanded by the shell that runs it
ok "a fence in Lua says where participants are" wait_until 20 sh -c \
    '"$0" kvs fences | grep -Eq "^primary +lua-lost +2 +1 .* 2$"' "$FLUX"
kill -KILL "$("$FLUX" getattr -r 2 broker.pid)"
wait "$waits"
like "$(cat lost.out)" "rank 2 is lost" "... and ends when one of these is lost"
release
finish
