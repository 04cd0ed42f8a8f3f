#!/usr/bin/env bash
# A command sends its environment, input and jobs to whoever listens at FLUX_URI: the process there
# must run as the same user, or as root.
# shellcheck disable=SC2016,SC2154 # inner shells expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start up proxy exec
PRESSURE=$BUILDDIR/t/pressure
[ -x "$PRESSURE" ] || skip_all "t/pressure has not been built"
[ "$(id -u)" = 0 ] || skip_all "only root can run a process as another user"

serve() { # NAME UID
    "$PRESSURE" serve "$TMPDIR/$1" "$2" >"$1.out" &
    pids+=($!)
    wait_until 30 grep -q ready "$1.out"
}
pids=()
serve other 65534
serve own 0

FLUX_URI=local://$TMPDIR/other fails "a server of another user is refused" run_with_timeout 20 "$FLUX" up
like "$err" 'runs as user 65534, not as user 0' "with a sentence that names the user"
ok "the server saw the end of the connection" wait_until 30 grep -q got other.out
is "$(sed -n 2p other.out)" "got 0" "nothing was sent to it"

fails "the far end of a relay refuses it" run_with_timeout 20 sh -c \
    'echo secret | "$0" proxy --connect="$1"' "$FLUX" "$TMPDIR/other"
like "$err" 'runs as user 65534, not as user 0' "with a sentence that names the user"
twice() {
    [ "$(grep -c got "$1.out")" = 2 ]
}
ok "the server saw the end of the connection" wait_until 30 twice other
is "$(sed -n 3p other.out)" "got 0" "nothing was sent to it"

# The same programs send to a server of their own user: the lines above can fail.
ok "a server of the same user is spoken to" run_with_timeout 20 sh -c \
    'echo secret | "$0" proxy --connect="$1" >hello' "$FLUX" "$TMPDIR/own"
ok "and gets what is sent" wait_until 30 grep -qx 'got 7' own.out
for pid in "${pids[@]}"; do
    kill "$pid"
    wait "$pid"
done 2>/dev/null
rm -f "$TMPDIR/own" "$TMPDIR/other"

finish
