#!/usr/bin/env bash
# Eight hosts, one of which vanishes without a word, and returns: network namespaces as hosts.
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
need_flux start up ping kvs
need ip unshare nsenter

heal_net 8 8 'hosts = "10.77.0.[1-8]", bind = "tcp://*:8050", topology = "kary:2",' \
    "keyfile = \"$PWD/key.%r\","
begin_all
wait_until 30 up_is 0-7 || bail "the session did not come up: $(cat out.*)"
pass "eight hosts"
at 7 kvs put before=1

in_ns 0 ip link set port2 down
ok "a host vanishes: those below it have another parent" wait_until 30 tree_is 3:0 4:0 7:3
ok "only this one is lost" wait_until 30 up_is "0,2-7; lost: 1"
is "$(at 7 kvs get before)" 1 "requests are served at the end of the subtree"
ok "it is reached" "$FLUX" ping -c 2 -i 0 7
wait "${pids[1]}"
is $? 1 "the one that is cut off ends, as one that is to be started again"

in_ns 0 ip link set port2 up
begin 1
ok "the host returns: its broker joins" wait_until 30 up_is 0-7
ok "the others stay where they are" tree_is 1:0 2:0 3:0 4:0 5:2 6:2 7:3
is "$(at 1 kvs get before)" 1 "it serves"

in_ns 0 ip link set port2 down
in_ns 0 ip link set port4 down
ok "two hosts vanish, one below the other" wait_until 60 up_is "0,2,4-7; lost: 1,3"
wait "${pids[1]}" "${pids[3]}" 2>/dev/null
in_ns 0 ip link set port4 up
begin 3
ok "the lower one returns: its broker joins above" wait_until 60 up_is "0,2-7; lost: 1"
ok "where it lives" tree_is 3:0
is "$(at 3 kvs get before)" 1 "it serves"
in_ns 0 ip link set port2 up
begin 1
ok "the other one returns, too" wait_until 60 up_is 0-7

ok "the session ends" end_all
netns_end
finish
