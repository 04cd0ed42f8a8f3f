#!/usr/bin/env bash
# The initial program and what descends from it: its exit code, and that nothing of it outlives a
# broker that was killed.
. "$(dirname "$0")/lib.sh"
need_flux start

mods=--set=modules=log
exits 7 "its exit code is that of flux start" "$FLUX" start $mods sh -c 'exit 7'
# shellcheck disable=SC2016 # for the inner shell
exits 137 "128 + signal when a signal ended it" "$FLUX" start $mods sh -c 'kill -9 $$'
exits 127 "127 when it does not exist" "$FLUX" start $mods no-such-program
# shellcheck disable=SC2154 # set by exits
like "$err" 'cannot start no-such-program' "says so"
exits 0 "flux itself is found, wherever it is" env PATH=/usr/bin:/bin "$FLUX" start $mods flux getattr size
echo text >in
is "$("$FLUX" start $mods cat <in)" text "standard input is that of flux start"

# A grandchild that does not mind that its parent is gone.
cat >parent.sh <<'END'
sh -c 'trap "" HUP TERM INT; echo $$ >pid; while :; do sleep 100; done' &
wait
END
for size in 1 2; do
    for signal in KILL TERM; do
        rm -f pid
        "$FLUX" start --size=$size $mods sh parent.sh >/dev/null 2>&1 &
        session=$!
        wait_until 20 test -s pid
        child=$(cat pid)
        ok "size $size: the grandchild runs" kill -0 "$child"
        kill -$signal "$session"
        wait "$session" 2>/dev/null
        ok "size $size: SIG$signal: and is gone soon after" \
            wait_until 20 sh -c "! kill -0 $child 2>/dev/null"
        # A broker that is flux start itself cannot remove its directory when it is killed.
        [ "$size$signal" = 1KILL ] && rm -rf "${TMPDIR:?}"/flux-*
    done
done
finish
