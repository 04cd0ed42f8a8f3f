# shellcheck shell=bash
# Network namespaces as hosts, for tests that have read t/lib.sh.
#
# Namespaces live as long as the process that holds them: nothing has to be removed.

holders=()
netns_new() {
    unshare -n sleep "${NETNS_SECONDS:-1800}" &
    holders+=($!)
    wait_until 5 sh -c "[ \"\$(readlink /proc/$!/ns/net)\" != \"$(readlink /proc/$$/ns/net)\" ]"
}
in_ns() { # NUMBER COMMAND...
    local pid=${holders[$1]}
    shift
    nsenter -t "$pid" -n "$@"
}
netns_possible() {
    command -v ip >/dev/null && command -v nsenter >/dev/null && unshare -n true 2>/dev/null
}
# Two hosts with a cable between them: eth0 is up in both, without an address.
netns_pair() {
    local i
    netns_new && netns_new || return 1
    in_ns 0 ip link add eth0 type veth peer name eth0 netns "${holders[1]}" 2>/dev/null || return 1
    for i in 0 1; do
        in_ns $i ip link set lo up
        in_ns $i ip link set eth0 up
    done
}
# A switch: holders[0]
netns_switch() {
    netns_new && in_ns 0 ip link add bridge type bridge 2>/dev/null && in_ns 0 ip link set bridge up
}
# netns_plug N: hosts holders[1] to holders[N] at the switch, 10.77.0.1 to 10.77.0.N; those that exist remain
netns_plug() {
    local i
    for ((i = ${#holders[@]}; i <= $1; i++)); do
        netns_new
        in_ns 0 ip link add "port$i" type veth peer name eth0 netns "${holders[$i]}"
        in_ns 0 ip link set "port$i" master bridge up
        in_ns "$i" ip link set lo up
        in_ns "$i" ip addr add "10.77.0.$i/24" dev eth0
        in_ns "$i" ip link set eth0 up
    done
}
# The switch drops the packets that match the expression of nft(8); without one, it drops nothing.
switch_drops() {
    {
        echo 'table bridge fault { }; delete table bridge fault'
        [ $# -eq 0 ] || printf '%s\n' 'table bridge fault {' 'chain forward {' \
            'type filter hook forward priority 0' "$* drop" '}' '}'
    } | in_ns 0 nft -f -
}
netns_end() {
    [ ${#holders[@]} -gt 0 ] || return 0
    kill "${holders[@]}"
    wait "${holders[@]}" 2>/dev/null
    holders=()
}
