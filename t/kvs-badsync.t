#!/usr/bin/env bash
# A disk on which commits cannot be made durable: what was refused is not there after the session
# was killed, or its outcome was said to be not known; and nobody is told of a success that was
# undone.
# shellcheck disable=SC2154 # set by fails
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"
need_flux start kvs keygen
need setsid
preload=$BUILDDIR/t/kvs/.libs/badsync.so
[ -e "$preload" ] || skip_all "no $preload: make check builds it"
# The runtime of a sanitizer has to come before all that is preloaded.
case ${FLUX_TEST_SANITIZERS-} in
*address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
esac
export BADSYNC=$TEST_DIR/badsync
order() {
    echo "$*" >badsync.new && mv badsync.new badsync
}
: >badsync

start() { # as hold does, in a session of processes of its own, to be killed at once
    rm -f uri
    # shellcheck disable=SC2016 # to be expanded inside the session
    LD_PRELOAD=$preload setsid "$FLUX" start --size=1 --set=modules=kvs --statedir="$TEST_DIR/state" \
        -- sh -c 'unset LD_PRELOAD; echo "$FLUX_URI" >uri.tmp && mv uri.tmp uri && exec sleep 1000' \
        >out 2>err.session &
    sid=$!
    wait_until 30 test -s uri || bail "the session did not start: $(cat err.session)"
    FLUX_URI=$(cat uri)
    export FLUX_URI
}
crash() {
    {
        kill_setsid $sid
        wait $sid
    } 2>/dev/null
    rm -rf "$TMPDIR"/flux-*
    : >badsync
}

start
ok "a commit" "$FLUX" kvs put a=1
order fail 1
fails "a commit that cannot be made durable" "$FLUX" kvs put b=2
like "$err" 'disk fails.*Input/output error' "... with a sentence"
is "$(cat badsync)" "" "... once: then the disk works"
unlike "$err" 'not known' "... is refused for good"
crash
start
is "$("$FLUX" kvs get a)" 1 "after a crash what was acknowledged is there"
fails "... and what was refused is not" "$FLUX" kvs get b

order fail -1
fails "a commit when nothing can be made durable" "$FLUX" kvs put b=2
like "$err" 'whether it is there after a crash is not known' "... may be there after all, and this is said"
fails "... it is not in effect" "$FLUX" kvs get b
order fail 0
ok "a commit when the disk works again" "$FLUX" kvs put c=3
crash
start
is "$("$FLUX" kvs get c)" 3 "... is there after a crash"
fails "... and settles that the other is not" "$FLUX" kvs get b

# A commit that finds what it wants put there by another, whose fate is open.
commits=$(counter 0 commits)
order hold
"$FLUX" kvs put d=4 2>first.err &
first=$!
ok "a commit is being made durable" wait_until 20 test -e badsync.held
"$FLUX" kvs put d=4 2>second.err &
second=$!
another() {
    [ "$(counter 0 commits)" -ge $((commits + 2)) ]
}
ok "another one wants the same" wait_until 20 another
another # the store has looked at it when it answers the next request
order fail 1
wait $first
is $? 1 "the first fails"
wait $second
is $? 1 "... and so does the other"
fails "neither is in effect" "$FLUX" kvs get d
ok "... and it can be done again" "$FLUX" kvs put d=4
crash
start
is "$("$FLUX" kvs get d)" 4 "... for good"

# Files that are written beside their names, and renamed or linked: the name must be durable, too.
order dirs
fails "a dump whose name cannot be made durable" env LD_PRELOAD="$preload" "$FLUX" kvs dump archive
like "$err" 'archive may be lost after a power failure: Input/output error' "... with a sentence"
fails "... and a certificate" env LD_PRELOAD="$preload" "$FLUX" keygen key
like "$err" 'key may be lost after a power failure: Input/output error' "... with a sentence"
: >badsync
ok "a dump that can" env LD_PRELOAD="$preload" "$FLUX" kvs dump archive
crash
finish
