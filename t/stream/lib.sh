# shellcheck shell=bash disable=SC2034 # variables are for the tests
# What tests of streams begin with, after lib.sh:   . "$SRCDIR/t/stream/lib.sh"
#
#     peer NAME RANK ARGUMENT...   start t/stream/peer in the background, at the broker of a rank, with a FIFO as
#                                  its input; ${pid[NAME]} is its process. The session is there (hold).
#     opened NAME                  wait until it has opened its stream
#     go NAME                      let one go on that waits for a line
#     ended NAME [N]               wait until it ends; $last is what it printed last, N (2) lines in one
#     field STREAM KEY             a value of a stream, as flux stream ls --json has it
#     has STREAM KEY VALUE         is it this one?
#     above STREAM KEY NUMBER      is it above this one?
need_flux start stream
PEER=$BUILDDIR/t/stream/peer

declare -A pid
declare -A uri_of
peer() {
    local name=$1 uri=$FLUX_URI
    if [ "$2" != 0 ]; then
        uri=${uri_of[$2]:=$("$FLUX" getattr --rank="$2" uri)}
    fi
    shift 2
    rm -f "$name.in" "$name.out"
    mkfifo "$name.in"
    FLUX_URI=$uri "$PEER" "$@" <>"$name.in" >"$name.out" &
    pid[$name]=$!
}
opened() {
    wait_until 20 grep -q open "$1.out"
}
go() {
    echo go >"$1.in"
}
ended() {
    wait "${pid[$1]}"
    last=$(tail -n "${2-2}" "$1.out" | tr '\n' ' ')
}
field() {
    "$FLUX" stream ls --json "$1" 2>/dev/null | sed -n "s/.*\"$2\": \([0-9.a-z]*\).*/\1/p"
}
has() {
    [ "$(field "$1" "$2")" = "$3" ]
}
above() {
    awk -v a="$(field "$1" "$2")" -v b="$3" 'BEGIN {exit !(a + 0 > b + 0)}'
}
