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
finish
