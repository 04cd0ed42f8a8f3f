#!/usr/bin/env bash
# The Lua module: handles, requests, futures, events, attributes.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/lua/lib.sh
. "$SRCDIR/t/lua/lib.sh"

lua_script 2 handle

# A script in a session finds the module with nothing set by hand.
run env -u LUA_CPATH -u LUA_CPATH_5_3 "$FLUX" env
like "$out" "LUA_CPATH='[^']*/\?\.so;;'" "flux env says where the module is"
run env LUA_CPATH='/a/?.so;;' "$FLUX" env
like "$out" "LUA_CPATH='[^']*/\?\.so;/a/\?\.so;;'" "in front of what was there"
run env LUA_CPATH='/a/?.so' LUA_CPATH_5_3='/b/?.so' "$FLUX" env
like "$out" "LUA_CPATH_5_3='[^']*/\?\.so;/b/\?\.so'" "in the variable that Lua reads"
run "$FLUX" env "$FLUX" env
is "$(grep -o 'bindings/lua' <<<"$out" | wc -l)" 1 "once, in an environment that has it"
if [ -z "${FLUX_TEST_SANITIZERS:-}" ]; then
    # shellcheck disable=SC2016 # for the shell of the session
    run session 1 -- env -u LUA_PATH lua5.3 -e 'print(require("flux").open():size())'
    is "$out" 1 "a script in a session"
    run session 2 -- "$FLUX" wreckrun -N2 lua5.3 -e 'print(require("flux").open():rank())'
    is "$(sort <<<"$out")" $'0\n1' "a script in a job"
    run env -u FLUX_URI "$FLUX" env lua5.3 -e 'print(require("flux").open())'
    like "$out" "nil.*not inside a session" "a script outside of one is told so"
fi
finish
