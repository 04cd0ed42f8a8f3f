#!/bin/bash
# What tasks find: environment, shares of cores, limits, directory and files, layout; how they are
# bound; and what happens when one dies.
# shellcheck disable=SC2001,SC2016,SC2086,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
unset HWLOC_SYNTHETIC # the cores of this host are meant
need_flux start submit wreckrun

cat >res.lua <<'X'
resource {
    { nodes = "node[0-1]", cores = 8, gpus = 4, memory = "16G" },
    { nodes = "node2", cores = 3, memory = "4G" },
    emulate = true,
}
X
hold 3 --set=resrc.config="$PWD/res.lua"

run "$FLUX" wreckrun -l -n2 -N1 -c4 -g2 --mem=1G sh -c \
    'echo $FLUX_JOB_SIZE $FLUX_JOB_NNODES $FLUX_NODE_ID $FLUX_NODE_NAME $FLUX_TASK_LOCAL_ID \
     cores $FLUX_TASK_CORES mem $FLUX_TASK_MEMORY'
is "$(sort <<<"$out")" "0: 2 1 0 node0 0 cores 0-3 mem 1024
1: 2 1 0 node0 1 cores 4-7 mem 1024" "each task has its share of cores and memory"
run "$FLUX" wreckrun -l -n2 -N1 -c1 -g2 --gpu-affinity=per-task sh -c \
    'echo $FLUX_TASK_GPUS $CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES'
is "$(sort <<<"$out")" "0: 0-1 0,1 0,1
1: 2-3 2,3 2,3" "... and of gpus"
run env CUDA_VISIBLE_DEVICES=7 "$FLUX" wreckrun -n1 -g4 sh -c 'echo $CUDA_VISIBLE_DEVICES'
is "$out" 0,1,2,3 "what the client had is replaced"
run env CUDA_VISIBLE_DEVICES=7 "$FLUX" wreckrun -n1 -g1 --gpu-affinity=off sh -c \
    'echo $CUDA_VISIBLE_DEVICES'
is "$out" 7 "... unless that is not wanted"

run "$FLUX" wreckrun -l -N3 --tasks-per-node=2 --layout=cyclic sh -c 'echo $FLUX_NODE_ID'
is "$(sort <<<"$out" | tr '\n' ' ')" "0: 0 1: 1 2: 2 3: 0 4: 1 5: 2 " "cyclic layout"
run "$FLUX" wreckrun -l -N3 -n7 --overcommit sh -c 'echo $FLUX_NODE_ID'
is "$(sort <<<"$out" | tr '\n' ' ')" "0: 0 1: 0 2: 0 3: 1 4: 1 5: 2 6: 2 " \
    "7 tasks in blocks on 3 nodes"
run "$FLUX" wreckrun -l -N3 -n7 --overcommit --layout=cyclic sh -c 'echo $FLUX_NODE_ID'
is "$(sort <<<"$out" | tr '\n' ' ')" "0: 0 1: 1 2: 2 3: 0 4: 1 5: 2 6: 0 " "... and cyclic"

# The job's directory, one a node.
run "$FLUX" wreckrun -N2 sh -c 'test -d "$FLUX_JOB_TMPDIR" && echo $FLUX_JOB_TMPDIR && touch \
    "$FLUX_JOB_TMPDIR/left" && mkdir -p "$FLUX_JOB_TMPDIR/a/b"'
is "$status" 0 "a directory for the job"
is "$(sort -u <<<"$out" | wc -l)" 2 "... on each node"
ok "... which is gone with the job" sh -c '! ls -d "$@" 2>/dev/null' - $out
is "$("$FLUX" wreckrun -n1 echo '{{id}}-{{task}}-{{node}}-{{name}}-{{other}}')" \
    "$("$FLUX" wreckrun -n1 sh -c 'echo $((FLUX_JOB_ID - 1))')-0-0-echo-{{other}}" \
    "templates in the command"
js=$("$FLUX" submit --dry-run cat '{{tmpdir}}/words' | python3 -c '
import json, sys
js = json.load(sys.stdin)
js["attributes"]["system"]["files"] = {"words": "these words\n", "run": "#!/bin/sh\necho ran $0\n"}
print(json.dumps(js))')
id=$(echo "$js" | "$FLUX" submit --wait --from=-)
is "$("$FLUX" kvs get --raw "job.$id.output" | tail -n 1)" "these words" \
    "files of the jobspec are in the directory"
id=$(sed 's:"cat", *"{{tmpdir}}/words":"{{tmpdir}}/run":' <<<"$js" | "$FLUX" submit --wait --from=-)
like "$("$FLUX" kvs get --raw "job.$id.output" | tail -n 1)" "^ran .*/$id/run$" "... and a script can be run"

# Limits.
is "$("$FLUX" wreckrun -n1 --rlimit=nofile=77 sh -c 'ulimit -n')" 77 "a limit of open files"
is "$("$FLUX" wreckrun -n1 --rlimit=core=0 sh -c 'ulimit -c')" 0 "... of core files"
# What the submitter's shell has set.
is "$(umask 037 && "$FLUX" wreckrun -n1 --output=mask.out sh -c 'umask; : >mask.file')" "" "a mask"
is "$(stat -c %a mask.out mask.file | tr '\n' ' ')" "640 640 " "... holds for files of the task, and those opened for it"
like "$(cat mask.out)" '^0?037$' "... and the task has it"
id=$(umask 077 && "$FLUX" submit touch mask.queued)
"$FLUX" wreck wait "$id"
is "$(stat -c %a mask.queued)" 600 "... also when the job was queued"
limits=$(ulimit -S -n 123 -s 5000 && "$FLUX" wreckrun -n1 sh -c 'echo $(ulimit -S -n) $(ulimit -S -s)')
is "$limits" "123 5000" "soft limits of the submitter"
is "$(ulimit -S -n 123 && "$FLUX" wreckrun -n1 sh -c 'ulimit -H -n')" "$(ulimit -H -n)" "... leave the hard ones"
is "$(ulimit -S -n 123 && "$FLUX" wreckrun -n1 --rlimit=nofile=99 sh -c 'ulimit -n')" 99 "... yield to an option"
is "$(ulimit -S -n 123 && "$FLUX" wreckrun -n1 --rlimit=none sh -c 'ulimit -S -n')" "$(ulimit -S -n)" \
    "... and stay away when they are not wanted"
run sh -c "ulimit -n >/dev/null; exec '$FLUX' wreckrun -n1 --rlimit=nofile=99999999999 true"
is "$status" 126 "more than the node allows is refused"
like "$err" "above what this node allows" "... with a sentence"

# Ten thousand arguments.
is "$("$FLUX" wreckrun -n1 sh -c 'echo $#' - $(seq 10000))" 10000 "10,000 arguments"

# The death of a task.
run "$FLUX" wreckrun -n2 --kill-on-bad-exit sh -c \
    'test $FLUX_TASK_RANK = 1 && exit 3; exec sleep 100'
is "$status" 3 "--kill-on-bad-exit: the first failure ends the job, its code counts"
like "$err" "task 1 failed \(exit code 3\), which ends the job" "... with a sentence"
run "$FLUX" wreckrun -N3 --kill-on-bad-exit sh -c \
    'test $FLUX_TASK_RANK = 2 && kill -SEGV $$; exec sleep 100'
is "$status" 139 "... also by a signal, on another node"
run "$FLUX" wreckrun -n2 sh -c 'test $FLUX_TASK_RANK = 1 && exit 3; sleep 0.3; echo on'
is "$status $out" "3 on" "without it the others go on"
start=$SECONDS
run "$FLUX" wreckrun -n2 --kill-on-bad-exit --grace=1s sh -c \
    'test $FLUX_TASK_RANK = 1 && { until [ -e trapped ]; do sleep 0.05; done; exit 3; }
    trap "echo told; sleep 100" TERM; touch trapped; sleep 100 & wait'
is "$status $out" "3 told" "the others get SIGTERM first"
ok "... and SIGKILL after the grace" test $((SECONDS - start)) -lt 90

release

# Binding, on the machine's own cores.
hold 1
if [ "$(nproc --all)" -ge 2 ] && [ "$(nproc)" -ge 2 ]; then
    run "$FLUX" wreckrun -l -n2 --cpu-affinity=per-task sh -c 'grep Cpus_allowed_list /proc/self/status'
    is "$(cut -f 2 <<<"$out" | sort -u | wc -l)" 2 "each task is bound to its own core"
    a=$("$FLUX" wreckrun -n1 -c1 env -u OMP_NUM_THREADS nproc)
    b=$("$FLUX" wreckrun -n1 -c2 env -u OMP_NUM_THREADS nproc)
    is "$((a < b))" 1 "a task is bound to the cores of its job"
    is "$("$FLUX" wreckrun -n1 -c1 --cpu-affinity=off env -u OMP_NUM_THREADS nproc)" "$(nproc)" "... unless that is off"
else
    skip 3 "one processor"
fi
exits 0 "a task leads a session" "$FLUX" wreckrun -n1 sh -c 'test "$(cut -d " " -f 6 /proc/$$/stat)" = $$'
launcher=$("$FLUX" exec sh -c 'echo $PPID')
ok "a launcher does not keep hwloc" sh -c "! grep -q hwloc /proc/$launcher/maps"
release

# hwloc cannot be loaded: a launcher without the object that has it beside it.
mkdir bare
cp "$BUILDDIR/src/launcher/flux-launcher" bare/
FLUX_EXEC_PATH=$PWD/bare hold 1
run "$FLUX" wreckrun -n2 --overcommit env -u OMP_NUM_THREADS nproc
is "$status $(sort -u <<<"$out")" "0 $(nproc)" "without hwloc tasks run, but are not bound"
is "$("$FLUX" kvs get job.1.eventlog | grep -c "not bound to cores on .*launcher-hwloc.so does not exist in ")" 1 \
    "... which is told once"
release

# Two brokers have the same cores here: to be bound to the first of each would be to share one.
hold 2
is "$("$FLUX" wreckrun -N2 -n2 env | grep -E '^(OMPI_MCA_mpi_yield|OMP_WAIT|MPIR_CVAR_CH4|I_MPI_T)' | sort | uniq -c | tr -s ' \n' ' ')" \
    " 2 I_MPI_THREAD_YIELD=2 2 MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 2 MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=100 2 OMPI_MCA_mpi_yield_when_idle=1 2 OMP_WAIT_POLICY=passive " \
    "tasks of brokers that share a machine yield its cores"
EXCHANGE=$BUILDDIR/src/common/libpmi/test/pmi_exchange
is "$("$FLUX" wreckrun -N2 -n6 --overcommit "$EXCHANGE" | grep -c 'size 6 clique 6 sum 15')" 6 \
    "... and are on one node for MPI"
is "$("$FLUX" wreckrun -N2 -n4 --overcommit --layout=cyclic "$EXCHANGE" | grep -c 'clique 4 sum 6')" 4 "... in turns, too"
is "$("$FLUX" wreckrun -N2 -n4 --overcommit sh -c 'ps -o sid= $$' | sort -u | wc -l)" 1 \
    "... and stay in one session, since yielding reaches no other"
is "$("$FLUX" wreckrun -N2 -n2 -c1 env -u OMP_NUM_THREADS nproc)" "$(nproc; nproc)" "brokers that share a machine bind nothing"
if [ "$(nproc --all)" -ge 2 ] && [ "$(nproc)" -ge 2 ]; then
    is "$("$FLUX" wreckrun -N2 -n2 -c1 --cpu-affinity=per-task env -u OMP_NUM_THREADS nproc)" $'1\n1' "... unless it is asked for"
else
    skip 1 "one processor"
fi
release
if command -v script >/dev/null; then
    run run_with_timeout 30 script -qec "$FLUX start --size=2 $FLUX wreckrun -N2 -n4 --overcommit sh -c 'ps -o tty= \$\$'" /dev/null
    is "$(tr -d '\r ' <<<"$out" | sort | uniq -c | tr -d ' ')" "4?" "... and none has the terminal of the brokers"
else
    skip 1 "there is no script command"
fi
hold 2 --set=wrexec.share-hosts=no
is "$("$FLUX" wreckrun -N2 -n6 --overcommit "$EXCHANGE" | grep -c 'size 6 clique 3 sum 15')" 6 \
    "wrexec.share-hosts=no keeps brokers apart"
release

# More tasks than cores must not wait for each other in a loop.
said() {
    env -u OMP_NUM_THREADS "$FLUX" wreckrun "$@" | grep -E '^OMP_|yield' | sort -u | tr '\n' ' '
}
hold 1
cores=$(nproc)
is "$(said -n1 -c"$cores" env)" "OMP_NUM_THREADS=$cores " "a task has as many threads as cores"
is "$(said -N1 -n$((cores + 1)) --overcommit env)" \
    "OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive " "tasks that share cores yield them"
is "$(I_MPI_THREAD_YIELD=0 "$FLUX" wreckrun -N1 -n$((cores + 1)) --overcommit env | grep THREAD_YIELD | sort -u)" \
    I_MPI_THREAD_YIELD=0 "... Intel MPI keeps what it was told"
is "$(OMP_WAIT_POLICY=active "$FLUX" wreckrun -N1 -n$((cores + 1)) --overcommit env | grep WAIT | sort -u)" \
    OMP_WAIT_POLICY=active "... unless something else was asked for"
is "$(OMP_NUM_THREADS=9 FLUX_TASK_THREADS=9 "$FLUX" wreckrun -n1 -c"$cores" env | grep ^OMP_)" \
    "OMP_NUM_THREADS=$cores" "what was said of a task does not count for jobs that it submits"
is "$(OMP_NUM_THREADS=7 "$FLUX" wreckrun -n1 env | grep ^OMP_NUM)" OMP_NUM_THREADS=7 "a number that was chosen stays"
release
finish
