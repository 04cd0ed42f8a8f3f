# shellcheck shell=bash
# What tests of the key-value store share, after t/lib.sh.
#
#     AT=(COMMAND...)          what `at` runs; "$FLUX" kvs unless the test says otherwise
#     need_programs NAME...    of t/kvs: $CLIENT and $PROBE; without them all is skipped
#     uri RANK                 of that broker of the session
#     at RANK ARG...           run $AT with the arguments as a client of that broker
#     client RANK ARG...       the same of $CLIENT
#     counter RANK NAME        a number of flux kvs stats

# shellcheck disable=SC2034 # for the test to read
CLIENT=$BUILDDIR/t/kvs/kvs_client PROBE=$BUILDDIR/t/kvs/kvs_probe
AT=("$FLUX" kvs)

need_programs() {
    local name
    for name; do
        [ -x "$BUILDDIR/t/kvs/$name" ] || skip_all "t/kvs/$name has not been built"
    done
}
uri() {
    echo "${FLUX_URI%/*/local}/$1/local"
}
at() {
    local rank=$1
    shift
    FLUX_URI=$(uri "$rank") "${AT[@]}" "$@"
}
client() {
    local rank=$1
    shift
    FLUX_URI=$(uri "$rank") "$CLIENT" "$@"
}
counter() {
    FLUX_URI=$(uri "$1") "$FLUX" kvs stats | sed -n "s/.*\"$2\": *\\([0-9]*\\).*/\\1/p"
}
