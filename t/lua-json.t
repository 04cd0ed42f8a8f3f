#!/usr/bin/env bash
# The Lua module: JSON text from Lua values, and back.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/lua/lib.sh
. "$SRCDIR/t/lua/lib.sh"

lua_script 0 json 1
run "$LUA" -e 'print(require("flux").version)'
like "$out" '^[0-9]+\.[0-9]' "the module says its version"
finish
