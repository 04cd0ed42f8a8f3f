# shellcheck shell=bash
# For tests of jobs, after t/lib.sh:   . "$SRCDIR/t/jobs/lib.sh"
#
#     expect ID RESULT CODE       remember how that job is to end ("-": in any way); see jobcheck.c
#     jobs_proved DESC [OPT...]   a test: the event logs of the session prove that each job that is
#                                 there was treated as it should be, and those expected ended so
#     submit ARG...               flux submit ARG...; the ids in $ids, one in $id
#     ended ID...                 wait (60 s) until these jobs have ended
#
# Every test that puts the job service under stress ends with jobs_proved.
# shellcheck disable=SC2034,SC2154 # some variables are for the test to read; TEST_DIR and others are of t/lib.sh

JOBCHECK=$BUILDDIR/t/jobs/jobcheck
[ -x "$JOBCHECK" ] || skip_all "t/jobs/jobcheck has not been built: make check builds it"
EXPECTED=$TEST_DIR/expected-jobs
: >"$EXPECTED"

expect() {
    echo "$1 ${2:--} ${3:--}" >>"$EXPECTED"
}

jobs_proved() {
    local desc=$1
    shift
    ok "$desc" "$JOBCHECK" --expect="$EXPECTED" "$@"
    note "$out"
}

submit() {
    ids=$("$FLUX" submit "$@") || return 1
    id=${ids##*$'\n'}
}

ended() {
    local one
    for one in "$@"; do
        run_with_timeout 60 "$FLUX" wreck wait "$one" >/dev/null 2>&1
        [ $? -ne 124 ] || return 1
    done
}
