# shellcheck shell=bash
# For tests of sessions in sessions, after t/lib.sh:   . "$SRCDIR/t/nest/lib.sh"
#
#     nodes N CORES       a configuration of this many nodes, each with this many cores, in res.lua
#     only_this_session   of this test no processes run but those of the held session
#     $LEAF               a job that fails when one of its cores is in use by another one of these
#     $PROOF              proves, in a session, that its jobs were treated as they should be
# shellcheck disable=SC2034 # for the test to read

JOBCHECK=$BUILDDIR/t/jobs/jobcheck
LEAF=$TEST_DIR/leaf.sh
PROOF=$TEST_DIR/proof.sh
mkdir -p "$TEST_DIR/cores"

nodes() {
    echo "resource { nodes = \"node[0-$(($1 - 1))]\", cores = $2 }" >res.lua
}

# A core in use is a directory: making it is atomic.
cat >"$LEAF" <<END
#!/bin/bash
held=()
IFS=, read -ra ranges <<<"\$FLUX_TASK_CORES"
for range in "\${ranges[@]}"; do
    for ((core = \${range%-*}; core <= \${range#*-}; core++)); do
        if mkdir "$TEST_DIR/cores/\$FLUX_NODE_NAME.\$core"; then
            held+=("$TEST_DIR/cores/\$FLUX_NODE_NAME.\$core")
        else
            echo "core \$core of \$FLUX_NODE_NAME is used twice" >>"$TEST_DIR/violations"
        fi
    done
done
echo "\$FLUX_NODE_NAME \$FLUX_TASK_CORES" >>"$TEST_DIR/used"
sleep 0.1
[ \${#held[@]} -gt 0 ] && rmdir "\${held[@]}"
END
cat >"$PROOF" <<END
#!/bin/sh
if [ -x "$JOBCHECK" ]; then
    "$JOBCHECK" && echo "level \$("$FLUX" getattr instance-level)" >>"$TEST_DIR/proved"
else
    echo "level \$("$FLUX" getattr instance-level)" >>"$TEST_DIR/proved"
fi
END
chmod +x "$LEAF" "$PROOF"

# Brokers and others of sessions within sessions have FLUX_JOB_ID in their environment, or come from
# those that do.
only_this_session() {
    local pid
    for pid in $(test_processes); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | finds '^FLUX_JOB_LEVEL='; then
            return 1
        fi
    done
    return 0
}
