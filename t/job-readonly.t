#!/usr/bin/env bash
# A store that becomes read-only while a job runs: its end waits until it can be put on record, and
# who waits for it is told why.
# shellcheck disable=SC2154 # set by fails
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun jobs
preload=$BUILDDIR/t/kvs/.libs/badsync.so
[ -e "$preload" ] || skip_all "no $preload: make check builds it"
# The runtime of a sanitizer has to come before all that is preloaded.
case ${FLUX_TEST_SANITIZERS-} in
*address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
esac
export BADSYNC=$TEST_DIR/badsync
order() {
    echo "$*" >badsync.new && mv badsync.new badsync
}
: >badsync

export LD_PRELOAD=$preload
hold 2 --statedir="$TEST_DIR/state"
unset LD_PRELOAD

"$FLUX" wreckrun sh -c 'echo >started; until [ -e go ]; do sleep 0.05; done; echo over; exit 3' \
    >out.run 2>err.run &
run=$!
ok "a job runs" wait_until 30 test -e started
order readonly
fails "the store is read-only: a commit fails" "$FLUX" kvs put a=1
like "$err" 'Read-only file system' "with the reason"
fails "a job is not accepted" "$FLUX" wreckrun true
like "$err" 'not accepted, since the store refused it: .*Read-only file system' "with the reason"
touch go
ok "the task of the job that runs ends" wait_until 30 grep -q over out.run
ok "who waits for the job hears why nothing goes on" \
    wait_until 60 grep -q 'job 1 cannot be put on record: .*Read-only file system' err.run
like "$("$FLUX" jobs -a -n -o '{id} {info}')" '^1 cannot be put on record: ' "so does who lists jobs"
like "$("$FLUX" dmesg)" 'jobs cannot be put on record: .*Read-only file system' "and the log"
ok "nobody was told an end that may be lost" kill -0 "$run"
order
wait "$run"
is $? 3 "the end is told when the store can be written again"
is "$(grep -c 'cannot be put on record' err.run)" 1 "the reason was told once"
unlike "$("$FLUX" jobs -a -n -o '{id} {info}')" 'on record' "and is no longer in the list"
ok "the next job runs" "$FLUX" wreckrun true
release
is "$status" 0 "the session ends well"
finish
