#!/usr/bin/env bash
# The job module is reloaded by force repeatedly while the disk below the statedir is full and
# clients submit: whatever is acknowledged is there afterwards, and no id is given out twice.
# What is mounted is seen by this test alone, and gone with it.
# shellcheck disable=SC2154 # set by run and jobs/lib.sh
if [ -z "${JOB_RELOAD_NAMESPACE-}" ] && unshare -m true 2>/dev/null; then
    JOB_RELOAD_NAMESPACE=1 exec unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck queue module
. "$SRCDIR/t/jobs/lib.sh"

# Large enough for all that the clients can submit meanwhile, on a fast host, too: it is the filler that makes it full.
mkdir small
mount -t tmpfs -o size=64m tmpfs small 2>/dev/null || skip_all "no file system can be mounted here"

hold 1 --statedir="$TEST_DIR/small/state"
ok "the queue is stopped" "$FLUX" queue stop
# Each client submits batches until it is told to stop, and keeps what was acknowledged and refused.
submitter() {
    local pad
    pad=$(head -c 2000 /dev/urandom | base64 -w 0)
    while [ ! -e stop ]; do
        "$FLUX" submit --cc=1-5 --env=PAD="$pad" true >>"acked.$1" 2>>"refused.$1"
    done
}
for who in 1 2 3 4; do
    submitter $who &
    pids[who]=$!
done
for round in $(seq 24); do
    [ $((round % 4)) -eq 3 ] && rm -f small/filler
    [ $((round % 4)) -eq 1 ] && fill_disk small 100
    before=$(cat acked.* refused.* 2>/dev/null | wc -l)
    wait_until 20 sh -c "[ \$(cat acked.* refused.* 2>/dev/null | wc -l) -gt $((before + 4)) ]" ||
        fail "round $round: nobody is answered"
    "$FLUX" module reload --force job || fail "round $round: the job module is not reloaded"
done
touch stop
for who in 1 2 3 4; do
    wait "${pids[who]}"
done
rm -f small/filler
ok "there is room again" wait_until 30 "$FLUX" submit true
cat acked.* | sort -n >acked
note "$(wc -l <acked) jobs were acknowledged, $(cat refused.* | wc -l) lines of refusals"
is "$(uniq -d <acked | head -20 | tr '\n' ' ')" "" "no id was given out twice"
there() {
    "$FLUX" kvs ls job | tr -s ' ' '\n' | sed 's,\.$,,' | sort >there
}
there
is "$(sort acked | comm -23 - there | head -20 | tr '\n' ' ')" "" "all that was acknowledged is on record"
"$FLUX" jobs -a -n --count=0 -o '{id}' | sort >listed
is "$(sort acked | comm -23 - listed | head -20 | tr '\n' ' ')" "" "... and listed"
is "$(sort listed | comm -3 - there | head -20 | tr '\n' ' ')" "" "... as is all that is on record"
ok "the queue is started" "$FLUX" queue start
ok "all jobs end" "$FLUX" queue idle -t $((120 * PATIENCE))s
release
is "$status" 0 "the session ends well"
hold 1 --statedir="$TEST_DIR/small/state"
submit true
is "$(grep -cx "$id" acked)" 0 "after a restart a new job has a new id"
release
umount -l small
finish
