# shellcheck shell=bash disable=SC2154 # status, out and err are set by lib.sh
# What the tests of the Lua module begin with, after lib.sh:   . "$SRCDIR/t/lua/lib.sh"
#
#     lua_script SIZE SCRIPT [ARG...]    run t/lua/SCRIPT.lua in a session of SIZE brokers (0: in
#                                        none); each line "ok ..." or "not ok ..." that it prints is
#                                        a test, and so is that it ends well
#     LUA_SESSION=(OPTION...)            options of these sessions
#     $LUA                               the interpreter: finds the module, and has the sanitizer's
#                                        library loaded when the module was built with it
need lua5.3
need_flux env start
_module=$BUILDDIR/src/bindings/lua/.libs/flux.so
[ -e "$_module" ] || skip_all "the Lua module has not been built"

# The interpreter is not in the build tree, where libstream looks for what runs transforms in Lua.
export FLUX_MODULE_PATH=$BUILDDIR/src/modules/.libs
LUA=$TEST_DIR/lua
LUA_SESSION=()
_preload=
if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
    _preload=$(ldd "$_module" | sed -n 's/.*lib\(clang_rt\.\)\?asan[^ ]* => \([^ ]*\).*/\2/p')
    [ -n "$_preload" ] || skip_all "the sanitizer cannot be loaded into the interpreter"
fi
cat >"$LUA" <<END
#!/bin/sh
LUA_PATH='$SRCDIR/t/lua/?.lua;;' LD_PRELOAD='$_preload' exec '$FLUX' env lua5.3 "\$@"
END
if [ -n "$_preload" ]; then
    # flux itself has the sanitizer already: only the interpreter needs it loaded first.
    cat >"$LUA" <<END
#!/bin/sh
eval "\$('$FLUX' env)"
LUA_PATH='$SRCDIR/t/lua/?.lua;;' LD_PRELOAD='$_preload' exec lua5.3 "\$@"
END
fi
chmod +x "$LUA"

lua_script() {
    local size=$1 script=$2 command=(run_with_timeout "$SESSION_LIMIT") line
    shift 2
    [ "$size" -eq 0 ] || command=(session "$size" ${LUA_SESSION[@]+"${LUA_SESSION[@]}"} --)
    run "${command[@]}" "$LUA" "$SRCDIR/t/lua/$script.lua" "$@"
    while read -r line; do
        case $line in
        ok\ *) pass "$script: ${line#ok }" ;;
        not\ ok\ *) fail "$script: ${line#not ok }" ;;
        *) note "$line" ;;
        esac
    done <<<"$out"
    if [ "$status" -ne 0 ]; then
        note "$err" >&2
    fi
    is "$status" 0 "$script: ends well"
}
