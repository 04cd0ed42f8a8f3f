# shellcheck shell=bash
# A second run for tests that failed in CI; to be sourced, after build.sh.
#
# Some tests stop, kill and partition what other programs on a busy host compete with.  One that fails
# once and passes by itself is a defect to be looked at, but no reason to refuse a change that has nothing
# to do with it: it is run again, alone, and named, and what it said first is kept.  A change that
# breaks something fails again, and many failures at once are no accident.

recheck_max=3

# recheck DIR: run again the tests of a build directory that failed.  Fails when one fails again, when
# there are more than recheck_max, or when something else than a test was wrong.
recheck() {
    local dir=$1 failed test
    mapfile -t failed < <(find "$dir" -path "$dir/ci" -prune -o -name '*.trs' -exec grep -l '^:recheck: yes' {} +)
    if [ ${#failed[@]} -eq 0 ] || [ ${#failed[@]} -gt "$recheck_max" ] ||
        ! grep -q '^# TOTAL' "$dir/test-suite.log"; then
        return 1
    fi
    for test in "${failed[@]%.trs}"; do
        cp "$test.log" "$test.log.first" || return 1
    done
    echo "== run again, alone: ${failed[*]%.trs}"
    VERBOSE=1 make -C "$dir" -s recheck || return 1
    for test in "${failed[@]%.trs}"; do
        echo "== failed once, passed when run again: ${test#"$dir"/}; see $test.log.first:"
        grep -aE '^not ok|^#|:[EF]:' "$test.log.first" | head -n 20
    done
}
