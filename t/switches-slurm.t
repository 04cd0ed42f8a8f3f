#!/usr/bin/env bash
# The same topology.conf as Debian's Slurm and a session read it: switches, what they hold, and who
# is above whom.  A private slurmctld on the loopback interface; its nodes need not exist.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start resource
need scontrol slurmctld munged
[ "$(id -u)" = 0 ] || skip_all "slurmctld needs root here"

# shellcheck source=t/slurm.sh
. "$SRCDIR/t/slurm.sh"

cat >"$slurm/topology.conf" <<'END'
# Leaves of unequal size, keywords in any case, a continued line, a comment behind a line.
switchname=s0 Nodes=n[0-2] LinkSpeed=100
SwitchName=s1 \
    NODES=n[3,5]
SwitchName=s2 Nodes=n4,n[6-8]  # not in order

SWITCHNAME=s3 nodes=n[9-11]
SwitchName=p0 Switches=s[0-1]
SwitchName=p1 switches=s2,s3
SwitchName=top Switches=p[0-1]
END
slurm_up() {
    scontrol show topology >"$TEST_DIR/slurm-topology" 2>/dev/null && grep -q SwitchName "$TEST_DIR/slurm-topology"
}
slurm_start slurm_up <<'END'
TopologyPlugin=topology/tree
NodeName=n[0-11] NodeAddr=127.0.0.1 CPUs=2 RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
slurm_stop

# Numbers of the nodes n0... of a hostlist, with blanks between them.
numbers() {
    scontrol show hostnames "$1" | sed 's/^n//' | sort -n | tr '\n' ' '
}
# "NAME NUMBER..." for each switch of a level, as Slurm says it.
slurm_level() {
    local name nodes
    sed -n "s/^SwitchName=\([^ ]*\) Level=$1 .*Nodes=\([^ ]*\).*/\1 \2/p" "$TEST_DIR/slurm-topology" |
        while read -r name nodes; do
            echo "$name $(numbers "$nodes")"
        done | sort
}
# The same, as the session says it.
flux_level() {
    local name ranks
    "$FLUX" resource list --by="$1" | tail -n +2 | while read -r _ name _ ranks _; do
        echo "$name $(numbers "n[$ranks]")"
    done | sort
}

echo 'resource { nodes = "n[0-11]", cores = 2, emulate = true }' >nodes.lua
hold 1 --set=resrc.config="$PWD/nodes.lua" --set=resource.topology="$slurm/topology.conf"
is "$(flux_level leaf)" "$(slurm_level 0)" "leaves have the same nodes"
is "$(flux_level pod)" "$(slurm_level 1)" "and so have the switches above them"
is "$(flux_level core)" "$(slurm_level 2)" "and the root"
is "$(slurm_level 0 | wc -l) $(slurm_level 1 | wc -l) $(slurm_level 2 | wc -l)" "4 2 1" "which are all that there are"
# Which leaves are below a switch.
below() {
    sed -n "s/^SwitchName=$1 .*Switches=\([^ ]*\).*/\1/p" "$TEST_DIR/slurm-topology" |
        xargs scontrol show hostnames | sort
}
for pod in p0 p1; do
    is "$("$FLUX" resource list --by=leaf | awk -v pod=$pod '$1 == pod { print $2 }' | sort)" "$(below $pod)" \
        "the same leaves are below $pod"
done
release
finish
