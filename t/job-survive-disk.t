#!/usr/bin/env bash
# The disk below the statedir is full: submissions are refused with a sentence, accepted jobs still
# run and are on record when there is room again.
# What is mounted is seen by this test alone, and gone with it.
# shellcheck disable=SC2154 # set by run and jobs/lib.sh
if [ -z "${JOB_DISKFULL_NAMESPACE-}" ] && unshare -m true 2>/dev/null; then
    JOB_DISKFULL_NAMESPACE=1 exec unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck queue
. "$SRCDIR/t/jobs/lib.sh"

mkdir small
mount -t tmpfs -o size=12m tmpfs small 2>/dev/null || skip_all "no file system can be mounted here"

hold 2 --statedir="$TEST_DIR/small/state"
ok "jobs with room" submit --cc=1-20 true
for one in $ids; do
    expect "$one" completed 0
done
ok "end" "$FLUX" queue idle -t $((30 * PATIENCE))s
# Some wait and some run while the disk becomes full.
ok "jobs that run" submit --cc=1-2 sh -c 'while [ ! -e small/go ]; do sleep 0.05; done'
running=$ids
ok "jobs that wait" submit --cc=1-10 --hold true
waiting=$ids
for one in $running $waiting; do
    expect "$one" completed 0
done
wait_until 20 sh -c "[ \$('$FLUX' jobs -n -s run -o '{id}' | wc -l) -eq 2 ]"
ok "the disk is full" fill_disk small 200
# Submit until it is refused; what was accepted is remembered.
n=0
while [ $n -lt 300 ] && submit --env=PAD="$(head -c 3000 /dev/urandom | base64 -w 0)" --quiet true \
    2>refused && n=$((n + 1)); do
    :
done
like "$(cat refused)" 'room|space' "a submission that does not fit says so"
note "$n jobs were accepted on the full disk"
ok "the list of jobs works" "$FLUX" jobs
rm small/filler
touch small/go
ok "there is room again" wait_until 30 "$FLUX" submit --wait true
# shellcheck disable=SC2086 # ids are words
ok "jobs that waited are released" "$FLUX" wreck release $waiting
ok "all jobs end" "$FLUX" queue idle -t $((60 * PATIENCE))s
jobs_proved "the event logs prove it"
count=$("$FLUX" kvs ls job | wc -w)
release
is "$status" 0 "the session ends well"
hold 2 --statedir="$TEST_DIR/small/state"
jobs_proved "and all of it after a restart" --count="$count"
ok "jobs run after that" submit --wait true
release
umount -l small
finish
