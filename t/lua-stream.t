#!/usr/bin/env bash
# The Lua module: streams.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/lua/lib.sh
. "$SRCDIR/t/lua/lib.sh"

# shellcheck disable=SC2034 # for lua_script
LUA_SESSION=("--set=modules=log,barrier,stream")
lua_script 2 stream
finish
