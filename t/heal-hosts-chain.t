#!/usr/bin/env bash
# A chain, where no third broker hears both ends of a link: one whose parent does not hear it says by
# the broker above that it lives, and is not lost.  Four hosts.
# shellcheck source=t/lib.sh disable=SC2154 # set by ok
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
need_flux start up live ping kvs overlay
need ip unshare nsenter nft

heal_net 4 4 'hosts = "10.77.0.[1-4]", bind = "tcp://*:8050", topology = "chain",' \
    "keyfile = \"$PWD/key.%r\","
begin_all
wait_until 30 up_is 0-3 || bail "the session did not come up: $(cat out.*)"
pass "four hosts"

# Rank r is on host r + 1, at port r + 1 of the switch.
at 2 kvs put mine=1
nobody_was_lost() {
    ! "$FLUX" live history | grep -w lost
}
moves_without_loss() {
    ok "it has another one" wait_until $((3 * silence + 20)) tree_is 2:0 3:2
    ok "nobody is lost" up_is 0-3
    ok "it is still there" kill -0 "${pids[2]}"
    is "$(at 3 kvs get mine)" 1 "a rank below it is served"
    ok "... and reached" "$FLUX" ping -c 2 -i 0 3
    ok "nobody was lost meanwhile" nobody_was_lost
}

ok "rank 2 is not heard by its parent" switch_drops iifname port3 oifname port2
moves_without_loss

ok "all links are as before" switch_drops
ok "it returns to its place" wait_until 60 run_with_timeout 60 "$FLUX" overlay restore
ok "... and is there" wait_until 30 tree_is 2:1 3:2

ok "rank 2 and its parent do not hear each other" \
    switch_drops 'iifname { port2, port3 } oifname { port2, port3 }'
moves_without_loss

ok "the session ends" end_all
netns_end
finish
