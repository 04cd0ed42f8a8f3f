#!/usr/bin/env bash
# Brokers on hosts of one name: only those that share a network namespace and /dev/shm are one host
# for MPI.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
need_flux start up wreckrun
need ip unshare nsenter
EXCHANGE=$BUILDDIR/src/common/libpmi/test/pmi_exchange
CLIENT=$BUILDDIR/t/mpi/pmix_client
[ -x "$EXCHANGE" ] || skip_all "pmi_exchange is not built"

netns_possible || skip_all "no network namespaces without more privileges"
netns_pair || skip_all "no pairs of network devices in a network namespace"
in_ns 0 ip addr add 10.77.1.1/24 dev eth0
in_ns 0 ip addr add 10.77.1.2/24 dev eth0
in_ns 1 ip addr add 10.77.1.3/24 dev eth0

"$FLUX" keygen key
cat >conf.lua <<END
session { hosts = "10.77.1.[1-3]", keyfile = "$PWD/key", topology = "flat" }
END
pids=()
start_all() { # NAMESPACE-OF-RANK-2 SETTING...
    local of=(0 0 "$1")
    shift
    rm -f uri
    for rank in 2 1 0; do
        # Not by a function: the process id is to be the broker's.
        # shellcheck disable=SC2016 # for the inner shell
        nsenter -t "${holders[of[rank]]}" -n -m sh -c 'cd "$0" && exec "$@"' "$PWD" \
            "$FLUX" start --config=conf.lua --set=boot.rank="$rank" "$@" sh -c 'echo $FLUX_URI >uri.new && mv uri.new uri &&
                exec sleep 1000' >"out.$rank" 2>&1 &
        pids[rank]=$!
    done
    wait_until 30 test -e uri || bail "the session did not come up: $(cat out.*)"
    FLUX_URI=$(cat uri)
    export FLUX_URI
    wait_until 30 sh -c '[ "$("$0" resource list | awk "\$1 == \"free\" { print \$2 }")" = 3 ]' "$FLUX" ||
        bail "the resources are not there: $("$FLUX" resource list)"
}
stop_all() {
    kill "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
}
# cliques OPTION...: on how many hosts are the tasks of whom: "SIZE-OF-HOST..." by task
cliques() {
    run_with_timeout 60 "$FLUX" wreckrun "$@" --overcommit --mpi=pmi -l "$EXCHANGE" |
        sed -n 's/^\([0-9]*\): .*clique \([0-9]*\) .*/\1 \2/p' | sort -n | cut -d' ' -f2 | tr '\n' ' '
}

start_all 1
is "$(cliques -N3 -n6)" "4 4 4 4 2 2 " "PMI: brokers in one network namespace are one host, another one of that name is not"
is "$(cliques -N3 -n6 --layout=cyclic)" "4 4 2 4 4 2 " "... in turns"
is "$(cliques -N2 -n4 --ranks=1-2)" "2 2 2 2 " "... also with one broker of each"
if [ -x "$CLIENT" ] && [ -x "$BUILDDIR/src/pmixd/flux-pmixd" ]; then
    for by in both pmix; do
        run run_with_timeout 60 "$FLUX" wreckrun --overcommit --mpi=$by -N3 -n6 "$CLIENT" hello 6
        is "$status/$(grep -c ': right$' <<<"$out")" 0/6 "$by: tasks on both find each other"
        is "$(grep -c '^local size 4$' <<<"$out")/$(grep -c '^local size 2$' <<<"$out")" 4/2 \
            "... and are told which of them share memory"
    done
else
    skip 4 "built without libpmix"
fi
ok "the module is loaded anew at rank 0" "$FLUX" module reload -r 0 wrexec
is "$(cliques -N3 -n6)" "4 4 4 4 2 2 " "... and knows it as well"
stop_all

# In one network namespace, but with /dev/shm of its own.
in_ns 1 ip addr del 10.77.1.3/24 dev eth0
in_ns 0 ip addr add 10.77.1.3/24 dev eth0
nsenter -t "${holders[0]}" -n unshare -m sh -c \
    'mount -t tmpfs shm /dev/shm && : >ready && exec sleep 1800' 2>/dev/null &
holders+=($!)
if wait_until 5 test -e ready; then
    start_all 2
    is "$(cliques -N3 -n6)" "4 4 4 4 2 2 " "a broker with a /dev/shm of its own is another host"
    stop_all
    start_all 0
    is "$(cliques -N3 -n6)" "6 6 6 6 6 6 " "brokers that share both are one host"
    stop_all
else
    skip 2 "no file system can be mounted"
fi

netns_end
finish
