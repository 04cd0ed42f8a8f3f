#!/usr/bin/env bash
# Two hosts that do not hear each other, in one direction or both, or but for the events, while all
# others hear both: the link between them is lost, and no broker is.  Eight hosts.
# shellcheck source=t/lib.sh disable=SC2154 # set by ok
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
need_flux start up live ping kvs overlay
need ip unshare nsenter nft

heal_net 8 8 'hosts = "10.77.0.[1-8]", bind = "tcp://*:8050", topology = "kary:2",' \
    "keyfile = \"$PWD/key.%r\","
begin_all
wait_until 30 up_is 0-7 || bail "the session did not come up: $(cat out.*)"
pass "eight hosts"

# Rank r is on host r + 1, at port r + 1 of the switch.
lives() { # RANK: it is the broker that it was
    kill -0 "${pids[$1]}" && [ "$(at "$1" kvs get "mine.$1")" = 1 ]
}
nobody_was_lost() {
    ! "$FLUX" live history | grep -w lost
}
for rank in 3 4 5; do
    at "$rank" kvs put "mine.$rank=1"
done

ok "rank 3 is not heard by its parent" switch_drops iifname port4 oifname port2
ok "it has another one" wait_until $((3 * silence + 20)) tree_is 3:0 7:3
ok "nobody is lost" up_is 0-7
ok "it is still there" lives 3
is "$(at 7 kvs get mine.3)" 1 "a rank below it is served"
ok "... and reached" "$FLUX" ping -c 2 -i 0 7

ok "rank 5 does not hear its parent" switch_drops iifname port3 oifname port6
ok "it has another one" wait_until $((3 * silence + 20)) tree_is 5:0
ok "nobody is lost" up_is 0-7
ok "it is still there" lives 5

ok "rank 4 and its parent do not hear each other" \
    switch_drops 'iifname { port2, port5 } oifname { port2, port5 }'
ok "it has another one" wait_until $((3 * silence + 20)) tree_is 4:0
ok "nobody is lost" up_is 0-7
ok "it is still there" lives 4
ok "nobody was lost meanwhile" nobody_was_lost

ok "all links are as before" switch_drops
ok "all return to their places" wait_until 60 run_with_timeout 60 "$FLUX" overlay restore
ok "... and are there" wait_until 30 tree_is 3:1 4:1 5:2 7:3
ok "nobody was lost" nobody_was_lost

# The tree and its signs of life go on: the events have a port of their own.
ok "rank 6 gets no events from its parent" \
    switch_drops iifname port3 oifname port7 tcp sport 8051
ok "it has another one" wait_until $((3 * silence + 20)) tree_is 6:0
ok "it said why" grep -q "no event and no sign of life came for" out.6
ok "nobody is lost" up_is 0-7
ok "nobody was lost meanwhile" nobody_was_lost

ok "the session ends" end_all
netns_end
finish
