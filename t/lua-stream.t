#!/usr/bin/env bash
# The Lua module: streams.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/lua/lib.sh
. "$SRCDIR/t/lua/lib.sh"

# A box that is too large is refused with the sanitizer, too, which else ends the interpreter.
export ASAN_OPTIONS="${ASAN_OPTIONS-}:allocator_may_return_null=1"
# shellcheck disable=SC2034 # for lua_script
LUA_SESSION=("--set=modules=log,barrier,stream")
lua_script 2 stream

# A program that may fail says so to readers; else its stream, which it leaves open, ends.
cat >fails.lua <<'END'
local h = require("flux").open()
local w = h:stream_writer("lua.fails", {readers = 1})
local function write()
  assert(w:put("n", 1))
  assert(w:end_step())
  error("it has failed")
end
if arg[1] == "catch" and not pcall(write) then
  w:fail()
  os.exit(1)
end
write()
END
for how in catch leave; do
    # shellcheck disable=SC2016 # for the session's shell
    run session 1 "${LUA_SESSION[@]}" -- sh -c '"$0" fails.lua "$1" & "$2" stream cat --timeout=30s lua.fails' \
        "$LUA" $how "$FLUX"
    is "$(grep -c $'\tn\t' <<<"$out")" 1 "$how: a reader gets the step of a program that fails"
    if [ $how = catch ]; then
        is "$status" 1 "and is told so"
        like "$err" "rank 0 of the writers has failed in step 1" "with a sentence"
    else
        is "$status" 0 "and the end of the stream"
    fi
done
finish
