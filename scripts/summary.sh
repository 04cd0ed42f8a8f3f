#!/bin/sh
# Add up the test results that `make check` left in build directories and print them as one line,
# "N passed, N failed" (", N skipped" when there were any).
#
# A TAP test counts by its own lines and a Check program by its checks; any other test counts as
# one.  An expected failure counts as passed, an unexpected success as failed.  The status is 1
# when something failed or nothing was run.  DIR/ci, where .ci/run builds, is not looked into.
#
# Usage: summary.sh [--add PASSED FAILED SKIPPED]... BUILD_DIR...
set -eu
passed=0 failed=0 skipped=0
while [ "${1:-}" = --add ]; do
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    shift 4
done

for dir in "$@"; do
    for trs in $(find "$dir" -path "$dir/ci" -prune -o -name '*.trs' -type f -print | sort); do
        # Check's own closing line: "97%: Checks: 40, Failures: 1, Errors: 0".
        counts=$(awk -v log_file="${trs%.trs}.log" '
            /^:test-result: (PASS|XFAIL)/ { good++ }
            /^:test-result: (FAIL|XPASS|ERROR)/ { bad++ }
            /^:test-result: SKIP/ { skip++ }
            END {
                results = good + bad + skip
                while (results == 1 && !skip && (getline line < log_file) > 0) {
                    if (line ~ /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/) {
                        split(line, f, /[^0-9]+/)
                        checks += f[2]; broken += f[3] + f[4]
                    }
                }
                if (checks > 0 && (broken > 0 || !bad)) {
                    good = checks - broken
                    bad = broken
                }
                printf "%d %d %d\n", good, bad, skip
            }' "$trs")
        # shellcheck disable=SC2086 # three numbers are wanted as three words
        set -- $counts
        passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    done
done

if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
