#!/usr/bin/env bash
# Somebody removes the sockets of a session, or their directories: the broker makes them again, and
# those who were connected notice nothing.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux start ping getattr dmesg event up

hold 3 --topology=kary:2
rundir=$("$FLUX" getattr rundir)
works() { # RANK
    FLUX_URI=local://$rundir/$1/local "$FLUX" ping -c1 "$1" >/dev/null 2>&1
}

"$FLUX" event sub news >sub.out 2>sub.err &
sub=$!
subscribed() { "$FLUX" event pub news '{"is":"before"}' && grep -q before sub.out; }
ok "a subscriber is connected" wait_until 10 subscribed
for rank in 0 2; do
    rm "$rundir/$rank/local"
    ok "rank $rank makes its socket again" wait_until 20 works "$rank"
done
rm -r "${rundir:?}/1"
ok "rank 1 makes its directory again" wait_until 20 works 1
mv "$rundir" "$rundir.moved"
ok "after the whole directory was moved away all ranks are reached again (0)" wait_until 20 works 0
ok "... 1" wait_until 20 works 1
ok "... 2" wait_until 20 works 2
is "$(stat -c '%a %u' "$rundir" "$rundir/0" | sort -u)" "700 $(id -u)" "the new directories are private"
rm -r "$rundir.moved"
logged() { "$FLUX" dmesg | finds "sockets in $rundir/1 had been removed; the broker created them again"; }
ok "the log tells it" wait_until 10 logged

"$FLUX" event pub news '{"is":"after"}'
heard() { grep -q after sub.out; }
ok "the subscriber from before still hears" wait_until 10 heard
kill "$sub"
wait "$sub"
like "$("$FLUX" up --json)" '"up": "0-2"' "no rank was lost"

# What peers listen at is theirs to make, and stays as it is.
unlike "$("$FLUX" dmesg)" 'cannot be created again' "each rank makes its own again, and no other's"

# One that may not be made again: somebody else's file is in the way.  It takes the place of the
# socket in one step: between two the broker would make its socket again.
touch "$rundir/2/other" && mv -f "$rundir/2/other" "$rundir/2/local"
cannot() { "$FLUX" dmesg | finds "sockets in $rundir/2 were removed and cannot be created again.*is not a socket"; }
ok "what is in the way is told" wait_until 20 cannot
release
ok "nothing is left" test ! -e "$rundir" -o -f "$rundir/2/local"
rm -rf "$rundir"

# The name by which a system session is found is made only where that was asked for.
"$FLUX" keygen key
echo "session { hosts = '127.0.0.1', keyfile = '$PWD/key', topology = 'flat' }" >one.lua
# shellcheck disable=SC2016 # for the inner shell
ok "a session of hosts in a directory of its own makes its socket again" run_with_timeout 30 "$FLUX" start \
    --config=one.lua --set=boot.rank=0 bash -c 'socket=${FLUX_URI#local://}
        rm "$socket" && until "$0" getattr rank; do sleep 0.05; done
        ls "${socket%/*/*}"' "$FLUX"
is "${out##*$'\n'}" 0 "... and no name for a system session"
finish
