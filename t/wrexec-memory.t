#!/usr/bin/env bash
# --mem: a limit where cgroups may be made, and a warning where not.
# shellcheck disable=SC2016,SC2154 # tasks expand; set by run
SESSION_LIMIT=150
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun submit wreck kvs alloc batch dmesg

# What of the eventlog of job $1 is about memory.
notes() {
    "$FLUX" kvs get "job.$1.eventlog" | grep '"note":"memory is counted'
}
# A task that takes 256 MiB, in this very process.
hog='exec tail -n 1 < <(head -c 268435456 /dev/zero) >/dev/null'

hold 2 --set=wrexec.cgroup=none
id=$("$FLUX" submit -N2 --mem=64M true)
exits 0 "without cgroups a job with --mem runs" "$FLUX" wreck wait "$id"
like "$(notes "$id")" '"severity":1.*memory is counted but not limited to 64M on [^ ]*: wrexec.cgroup is none' \
    "... and its log says that memory is only counted, and why"
is "$(notes "$id" | wc -l)" 1 "... once, not for each node"
told='memory is counted but not limited to 64M on [^ ]+: wrexec.cgroup is none'
# How often the user reads it in what was printed last, and nothing else.
is_told() { # DESCRIPTION
    is "$(grep -cE "^flux [a-z ]+: job [0-9]+: warning: $told\$" <<<"$err") of $(wc -l <<<"$err")" "1 of 1" "$1"
}
like "$("$FLUX" dmesg)" "warning.*job $id \(true\): $told" "... so does the log of the session"
like "$("$FLUX" wreck status "$id")" "warning +$told" "... and flux wreck status"
run "$FLUX" wreck attach "$id"
is_told "flux wreck attach warns"
run "$FLUX" wreck wait "$id"
is_told "flux wreck wait warns"
run "$FLUX" submit --wait --quiet -N2 --mem=64M true
is_told "flux submit --wait warns, once"
run "$FLUX" submit --watch --quiet -N2 --mem=64M true
is_told "... as with --watch"
run "$FLUX" wreckrun -N2 --mem=64M true
is_told "flux wreckrun warns, once"
is "$status" 0 "... and exits as the job does"
run "$FLUX" batch --wait --quiet -N1 --mem=64M --wrap true
is_told "flux batch --wait warns"
run "$FLUX" alloc -N1 --mem=64M true </dev/null
is_told "flux alloc warns"
id=$("$FLUX" submit -N1 true)
"$FLUX" wreck wait "$id"
is "$(notes "$id")" "" "nothing is said of a job without --mem"
id=$("$FLUX" submit -N1 -x true)
"$FLUX" wreck wait "$id"
is "$(notes "$id")" "" "nor of one that has the whole node"
release

mkdir "$TMPDIR/none"
hold 1 --set=wrexec.cgroup="$TMPDIR/none"
id=$("$FLUX" submit --mem=64M true)
exits 0 "with a directory that is not a cgroup the job runs" "$FLUX" wreck wait "$id"
like "$(notes "$id")" "$TMPDIR/none has no controller" "... and its log says what is wrong"
release
rmdir "$TMPDIR/none"

hold 2
id=$("$FLUX" submit -N1 --mem=64M bash -c 'cat /proc/self/cgroup')
out=$("$FLUX" wreck attach "$id")
why=$(notes "$id" | sed 's/.*"note":"\([^"]*\)".*/\1/')
if [ -n "$why" ]; then
    skip 9 "$why"
    release
    finish
fi
path=$(grep -m 1 -o "[^:]*/flux-$(id -u)-[^/ ]*-$id\$" <<<"$out")
isnt "$path" "" "the tasks of a job with --mem are in a cgroup of its own"
left() { find /sys/fs/cgroup -path "*$path" 2>/dev/null; }
is "$(left)" "" "... which goes with the job"
run "$FLUX" wreckrun -N1 --mem=64M bash -c "$hog"
is "$status" 137 "a task that takes more is killed"
like "$err" "job [0-9]+: task 0 was killed: the job exceeded its memory limit of 64M on [^ ]+" \
    "... and the reason is told"
run "$FLUX" submit --wait --quiet -N1 -n2 --mem=32M bash -c \
    "test \$FLUX_TASK_RANK = 0 && exec sleep 1000; $hog"
like "$err" "task 1 was killed: the job exceeded its memory limit of 64M" \
    "the tasks of a node share what all asked for; the others are ended"
run "$FLUX" wreckrun -N1 --mem=64M bash -c "($hog); exit 3"
is "$status" 3 "a task of which a process was killed"
like "$err" "task 0 failed \\(exit code 3\\) after one of its processes was killed: the job exceeded its memory limit of 64M" \
    "... and that is told"
run "$FLUX" wreckrun -N1 --mem=64M bash -c 'kill -9 $$'
unlike "$err" "memory" "a task that was killed for another reason is not reported so"
exits 0 "a job that keeps to its limit" "$FLUX" wreckrun -N1 --mem=512M bash -c "$hog"
release
finish
