#!/usr/bin/env bash
# The Lua module: objects that end in any order, leaks, and calls that make no sense.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/lua/lib.sh
. "$SRCDIR/t/lua/lib.sh"

lua_script 2 gc 1

calls=20000
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || calls=5000
for seed in 1 2 3 "${SOAK_SEED:-8}"; do
    lua_script 2 torture "$seed" "$calls"
done
finish
