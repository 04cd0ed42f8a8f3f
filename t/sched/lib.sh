# shellcheck shell=bash
# For tests of the scheduler: a program in the place of the job module, and questions.
#
#     peer_start [JSON]     attach; feeds are written by `feed`, what comes back is in peer.out
#     feed JSON             send a feed, and wait until it was answered
#     peer_end              end it
#     seen REGEX            has a line like that come?  (waits up to 5 s)
#     ask TOPIC [JSON]      sets $out or fails with the sentence in $err, as `run` does

PEER=$BUILDDIR/t/sched/sched_peer
[ -x "$PEER" ] || skip_all "t/sched/sched_peer has not been built"
_fed=0

peer_start() {
    rm -f peer.in
    mkfifo peer.in
    : >peer.out
    _fed=0
    "$PEER" job "$@" <peer.in >>peer.out 2>peer.err &
    peer=$!
    exec 9>peer.in
    seen '^attached'
}

feed() {
    _fed=$((_fed + 1))
    printf '%s\n' "$1" >&9
    wait_until 5 _answered "$_fed"
}

_answered() {
    [ "$(grep -cE '^(fed|refused)' peer.out)" -ge "$1" ]
}

_line_like() {
    grep -Eq -e "$1" peer.out
}

seen() {
    wait_until 5 _line_like "$1"
}

never() {
    ! grep -Eq -e "$1" peer.out
}

peer_end() {
    exec 9>&-
    wait "$peer"
}

ask() {
    run "$PEER" ask "$@"
}
