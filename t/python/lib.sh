# shellcheck shell=bash disable=SC2154 # status, out and err are set by lib.sh
# What the tests of the Python package begin with, after lib.sh:   . "$SRCDIR/t/python/lib.sh"
#
#     python_tests SIZE MODULE...    run the unittest modules t/python/MODULE.py in a session of SIZE
#                                    brokers; each test method is a test, and so is that all ends well
#     $PYTHON                        the interpreter: finds the package and the modules of the tests, and
#                                    has the sanitizer's library loaded when the package was built with it
need_flux env start
_package=$BUILDDIR/src/bindings/python/lib
[ -e "$_package/flux/_libflux.so" ] || skip_all "the Python package has not been built"

PYTHON=$TEST_DIR/python
PYTHON_PROGRAM=$(sed -n 's/^PYTHON = //p' "$BUILDDIR/Makefile")
_preload=
if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
    _preload=$(ldd "$_package/flux/_libflux.so" | sed -n 's/.*lib\(clang_rt\.\)\?asan[^ ]* => \([^ ]*\).*/\2/p')
    [ -n "$_preload" ] || skip_all "the sanitizer cannot be loaded into the interpreter"
fi
# The interpreter is not in the build tree, where libstream looks for what runs transforms in Lua.
export FLUX_MODULE_PATH=$BUILDDIR/src/modules/.libs
# Python keeps memory until it exits: leaks are looked for by the tests themselves.
cat >"$PYTHON" <<END
#!/bin/sh
export PYTHONPATH='$_package:$SRCDIR/t/python' PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
ASAN_OPTIONS="\$ASAN_OPTIONS:detect_leaks=0" LD_PRELOAD='$_preload' exec '$PYTHON_PROGRAM' "\$@"
END
chmod +x "$PYTHON"

python_tests() {
    local size=$1 line
    shift
    run session "$size" -- "$PYTHON" "$SRCDIR/t/python/tap.py" "$@"
    while read -r line; do
        case $line in
        ok\ *) pass "${line#ok }" ;;
        not\ ok\ *) fail "${line#not ok }" ;;
        *) note "$line" ;;
        esac
    done <<<"$out"
    if [ "$status" -ne 0 ]; then
        note "$err" >&2
    fi
    is "$status" 0 "the tests end well"
}
