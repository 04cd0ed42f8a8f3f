# shellcheck shell=bash
# Sessions on several hosts that heal, for tests that have read t/lib.sh and t/netns.sh: hosts are
# network namespaces, and a broker is started on its host by conf.lua, as systemd does it.
#
#     heal_net HOSTS SIZE [FIELD...]   hosts, a key for each rank, and conf.lua with these fields;
#                                      skips the test where that cannot be
#     begin RANK COMMAND...            start the broker of a rank; its id is left in pids[RANK]
#     begin_all OPTION...              those of all ranks; the initial program runs until end_all
#     end_all                          end the session, and wait for all brokers
#     up_is TEXT                       is this what "flux up" says, after "N of SIZE up: "?
#     below RANK PARENT                so the root says.  While ranks are lost, "flux up" fails
#     tree_is RANK:PARENT...           all of these
#     at RANK COMMAND...               as a client of that broker
#     kill_broker RANK                 end it with SIGKILL
#
# shellcheck disable=SC2154 # holders: of t/netns.sh
# The host of a rank is the one of its number, or ${host_of[RANK]}, beginning with 1.

# The modules are $net_modules (empty: all), further attributes $net_attrs.  If there is a file
# `hosts`, it is /etc/hosts of the brokers.  With `keep` instead of `begin`, a broker that fails is
# started again, as by systemd, until there is a file `stop`.

pids=() host_of=() net_size=0 net_modules=log,kvs net_attrs=

heal_net() {
    local rank hosts=$1 modules=
    [ -z "$net_modules" ] || modules="modules = \"$net_modules\","
    net_size=$2
    shift 2
    netns_possible || skip_all "no network namespaces without more privileges"
    netns_switch || skip_all "no bridge in a network namespace"
    netns_plug "$hosts"
    for ((rank = 0; rank < net_size; rank++)); do
        "$FLUX" keygen "key.$rank"
    done
    # Longer than a pause on a busy host.
    silence=$((3 + TIME_SCALE))
    printf '%s\n' 'session {' "$@" >conf.lua
    cat >>conf.lua <<END
    attrs = {
        ["live.lost"] = "${silence}s", ["live.patience"] = "${silence}s", ["orphan.timeout"] = "0.1s",
        $modules $net_attrs
    },
}
END
    mkdir -m 700 run
    export FLUX_URI="local://$PWD/run/0/local"
    mkfifo fifo
}
broker_command() { # RANK COMMAND...: in command[]
    local rank=$1 host
    shift
    host=${host_of[rank]:-$((rank + 1))}
    command=(nsenter -t "${holders[host]}" -n)
    # shellcheck disable=SC2016 # for the inner shell
    [ ! -e hosts ] ||
        command+=(unshare -m sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$PWD/hosts")
    command+=("$FLUX" start --config=conf.lua --rundir="$PWD/run" --set=boot.rank="$rank" "$@")
}
begin() {
    local rank=$1 command
    broker_command "$@"
    "${command[@]}" >>"out.$rank" 2>&1 </dev/null &
    pids[rank]=$!
}
keep() {
    local rank=$1 command
    broker_command "$@"
    while ! "${command[@]}" >>"out.$rank" 2>&1 </dev/null && [ ! -e stop ]; do
        sleep 0.1
    done &
    pids[rank]=$!
}
begin_all() {
    local rank
    for ((rank = net_size - 1; rank > 0; rank--)); do
        ${net_begin:-begin} "$rank"
    done
    begin 0 "$@" sh -c 'exec cat fifo'
}
end_all() {
    end_reader "${pids[0]}" fifo out.0 "${pids[@]:1}"
}
up_is() {
    [[ "$("$FLUX" up)" == *" of $net_size up: $1" ]]
}
below() {
    "$FLUX" up --long >ranks
    grep -qE "^ *$1 +up +$2 " ranks
}
tree_is() {
    local pair
    for pair in "$@"; do
        below "${pair%:*}" "${pair#*:}" || return 1
    done
}
at() {
    local uri=local://$PWD/run/$1/local
    shift
    FLUX_URI=$uri run_with_timeout 60 "$FLUX" "$@"
}
kill_broker() {
    kill -KILL "${pids[$1]}"
    wait "${pids[$1]}" 2>/dev/null
}
