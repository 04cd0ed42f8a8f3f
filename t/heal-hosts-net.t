#!/usr/bin/env bash
# Hosts and their network: a rolling restart, frames that are lost, a partition that ends, and a host
# that comes back with another address.  Sixteen hosts, or eight with HOSTS=8; the other tests of hosts
# have eight.
# shellcheck source=t/lib.sh disable=SC2154 # set by ok
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
need_flux start up kvs barrier exec overlay submit wreck resource
need ip unshare nsenter nft

n=${HOSTS:-16}
last=$((n - 1))
all=0-$last
# Below rank 3 with it, and all others.
side="3,7" others="0-2,4-6" ports="port4, port8"
if [ "$n" = 16 ]; then
    side="3,7-8,15" others="0-2,4-6,9-14" ports="port4, port8, port9, port16"
fi

# Brokers find each other by the names of their hosts.
for ((host = 1; host <= n; host++)); do
    echo "10.77.0.$host h$host" >>hosts
done
echo "127.0.0.1 localhost" >>hosts
unshare -m mount --bind "$PWD/hosts" /etc/hosts 2>/dev/null || skip_all "no mount namespaces"
# shellcheck disable=SC2034 # of heal-net.sh
net_modules="" net_begin=keep
heal_net "$n" "$n" "hosts = \"h[1-$n]\", bind = \"tcp://*:8050\", topology = \"kary:2\"," \
    "keyfile = \"$PWD/key.%r\","
begin_all
wait_until 60 up_is "$all" || bail "the session did not come up: $(cat out.*)"
pass "$n hosts"

# --- rolling restart ---

# shellcheck disable=SC2016 # for the task
id=$("$FLUX" submit --ranks=2,5 -N2 -n2 sh -c \
    'n=0; while [ ! -e enough ]; do echo $FLUX_TASK_RANK $((n = n + 1)); sleep 0.02; done')
ok "a job runs on two hosts" wait_until 30 job_state_is "$id" running
ok "flux overlay restart" run_with_timeout 120 "$FLUX" overlay restart 1,6
is "$out" "rank 1 is up again
rank 6 is up again" "... one after the other"
ok "all are up" wait_until 30 up_is "$all"
like "$("$FLUX" up --long)" $'\n *1 +up +0 +1 +2' "it is the next broker of its rank"
ok "the job has gone on" job_state_is "$id" running

# --- frames are lost ---

in_ns 0 nft -f - <<END
table bridge t {
    chain c {
        type filter hook forward priority 0;
        numgen random mod 100 < 3 drop
    }
}
END
is $? 0 "three of a hundred frames are lost"
ok "a barrier of all" "$FLUX" exec -r all "$FLUX" barrier -n "$n" -t 60 lossy
ok "a change of the store" "$FLUX" kvs put lossy=1
seen_by_all() {
    [ "$("$FLUX" exec -r all "$FLUX" kvs get lossy 2>/dev/null | grep -cx 1)" = "$n" ]
}
ok "... is seen by all" wait_until 30 seen_by_all
in_ns 0 nft delete table bridge t
is "$("$FLUX" up)" "$n of $n up: $all" "nobody was lost"

# --- a partition ---

in_ns 0 nft -f - <<END
table bridge t {
    set side { type ifname; elements = { $ports }; }
    chain c {
        type filter hook forward priority 0;
        iifname @side oifname != @side drop
        iifname != @side oifname @side drop
    }
}
END
is $? 0 "hosts are cut off"
ok "they are lost" wait_until $((3 * silence + 20)) up_is "$others; lost: $side"
ok "the others go on" "$FLUX" exec -r "$others" "$FLUX" kvs get lossy
in_ns 0 nft delete table bridge t
ok "the partition ends: they join" wait_until 60 up_is "$all"
ok "and serve" "$FLUX" exec -r all "$FLUX" kvs get lossy
ok "the job has gone on" job_state_is "$id" running
: >enough
ok "it ends well" "$FLUX" wreck wait "$id"
"$FLUX" wreck attach "$id" >counts
is "$(awk '$2 != ++seen[$1] { print; exit }' counts)" "" "both tasks have counted, without a gap"

# --- another address ---

# First the name: a broker looks for its own address once, when it starts.
sed 's/^10.77.0.2 /10.77.0.202 /' hosts >hosts.new && cat hosts.new >hosts
in_ns 0 ip link set port2 down
ok "a host with others below it vanishes" wait_until $((3 * silence + 20)) tree_is 3:0 4:0
in_ns 2 ip addr del 10.77.0.2/24 dev eth0
in_ns 2 ip addr add 10.77.0.202/24 dev eth0
in_ns 0 ip link set port2 up
ok "it comes back with another address, and joins" wait_until 60 up_is "$all"
ok "those below it return to it" run_with_timeout 60 "$FLUX" overlay restore
ok "... by its new address" tree_is 1:0 3:1 4:1
like "$("$FLUX" up --addresses)" $'\n *1 +up +0 +1 +[0-9]+ +[^ ]*10\.77\.0\.202:' "which the session map has"
ok "they serve" "$FLUX" exec -r 1,3-4 "$FLUX" kvs get lossy
ok "the rank before it on the ring finds it there, too" \
    wait_until 60 run_with_timeout 30 "$FLUX" ping -R -c 1 1

: >stop
ok "the session ends" end_all
netns_end
finish
