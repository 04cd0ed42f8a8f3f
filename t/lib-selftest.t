#!/usr/bin/env bash
# The test library's own test: small scripts that use it in right and wrong ways are run, and what
# they print is checked.  Were these to pass wrongly, no other system test would mean anything.
# shellcheck source=t/lib.sh disable=SC2016
. "$(dirname "$0")/lib.sh"
[ -z "${FLUX_TEST_SANITIZERS-}" ] || skip_all "it tests shell functions, which sanitizers do not see"

plan 58

# Run the script on standard input as a system test of its own.
inner() {
    local script=$TEST_DIR/inner.t
    {
        echo ". '$SRCDIR/t/lib.sh'"
        cat
    } >"$script"
    FLUX_TEST_GRACE=10 FLUX_TEST_PATIENCE=1 run bash "$script"
}

inner <<<'plan 2; pass one; ok two true'
is "$status" 0 "a test whose parts all pass succeeds"
like "$out" $'ok 1 - one\nok 2 - two\nok 3 - leaves nothing behind\n1..3$' "and prints TAP"

inner <<<'plan 1; ok one false'
is "$status" 1 "a failed part fails the test"
like "$out" 'not ok 1 - one' "and says so"
like "$err" 'exit code 1' "and shows what came of the command"

inner <<<'plan 3; pass one'
is "$status" 1 "too few parts are a failure"
like "$out" 'not ok 2 - does all its 3 tests' "and it says so"

inner <<<'plan 1; pass one; pass two'
is "$status" 1 "too many parts are a failure"

inner <<<'pass one; exit 0; finish'
is "$status" 1 "leaving early is a failure, whatever the exit code"
like "$out" 'not ok 2 - runs to its end' "and it says so"

inner <<<'pass one; finish'
is "$status" 0 "without a plan, finish says that all were done"

inner <<<'plan 1; echo "$undefined_name"; pass one'
is "$status" 1 "an unset variable ends the test and fails it"

inner <<<'plan 1; hold 1; kill -TERM "$("$FLUX" getattr broker.pid)"; release; is "$status" 143 "the session has ended"'
is "$status" 0 "the end of a session that has ended by itself is not waited for"
like "$out" 'ok 1 - the session has ended' "and its exit code is known"

inner <<<'RELEASE_LIMIT=1; plan 1; hold 1; kill -STOP "$("$FLUX" getattr broker.pid)"; release; is "$status" 137 "killed"'
like "$out" 'ok 1 - killed' "the end of a session that does not end is waited for within bounds"
like "$err" "does not end within [0-9]+ s.*flux-broker" "and what has not ended is named"
inner <<<'plan 1; mkfifo end; cat end & one=$!; { sleep 0.1; echo >two; } & end_reader "$one" end out $!; is "$?$(ls two)" 0two both'
is "$status" 0 "processes that belong to the session are waited for"
inner <<<'plan 1; run run_watched 1 sh -c "sleep 1000; true"; note "$err" >&2; is "$status" 124 "in time"'
is "$status" 0 "a command that is watched has a time limit"
like "$err" "does not end within [0-9]+ s.*sleep 1000" "and what it was running is told"
inner <<<'plan 1; run run_watched 9 sh -c "exit 3"; is "$status$err" 3 "its exit code"'
is "$status" 0 "one that ends in time has its exit code"

inner <<<'skip_all "no such machine"'
is "$status" 0 "a whole test can be skipped"
like "$out" '1\.\.0 # SKIP no such machine' "with its reason"

inner <<<'plan 1; seq 100000 | finds -x 1 && ! seq 100000 | finds -x none; is "$?" 0 "found or not"'
is "$status" 0 "what is searched for is found, whatever follows it"
inner <<<'plan 1; ! { echo yes; false; } | finds yes; is "$?" 0 "the failure counts"'
is "$status" 0 "and a command that fails fails, whatever it printed"

inner <<<'plan 3; pass one; skip 2 "no such device"'
is "$status" 0 "parts can be skipped"
like "$out" 'ok 3 # SKIP no such device' "with their reason"

inner <<<'plan 2; pass one; bail "the machine is gone"'
is "$status" 1 "bailing out is a failure"
like "$out" 'Bail out! the machine is gone' "with its reason"

inner <<<'plan 1; pass "issue #3 of many"'
like "$out" 'ok 1 - issue .3 of many' "a description cannot become a directive"

inner <<<'need no-such-command-anywhere; plan 1; pass one'
like "$out" '^# skip: [^'$'\n'']*'$'\n''1\.\.0 # SKIP no-such-command-anywhere' "need skips when a command is missing"

# Each comparison both ways round: one that passes, one that fails.
inner <<'END'
plan 14
is a a one
is a b two
isnt a b three
isnt a a four
like "key 17" "[0-9]+$" five
like "key" "[0-9]+$" six
unlike "key" "[0-9]+$" seven
unlike "key 17" "[0-9]+$" eight
exits 3 nine sh -c 'exit 3'
exits 3 ten sh -c 'exit 4'
fails eleven sh -c 'echo no such file >&2; exit 1'
fails twelve sh -c 'exit 1'
fails thirteen sh -c 'echo dying >&2; kill -SEGV $$'
fails fourteen true
END
is "$(grep -c '^ok' <<<"$out") $(grep -c '^not ok' <<<"$out")" "7 8" "comparisons pass and fail" ||
    note "$out"
for n in 2 4 6 8 10 12 13 14; do
    like "$out" "not ok $n - " "comparison $n fails as it must"
done

run sh -c 'printf "a\nb\n\n"; echo warning >&2; exit 9'
is "$status/$out/$err" $'9/a\nb/warning' "run leaves status, output and errors"

inner <<<'plan 1; exits 124 one run_with_timeout 1 tail -f /dev/null'
is "$status" 0 "run_with_timeout ends what takes too long"

inner <<'END'
plan 2
(sleep 0.3; touch flag) &
ok one wait_until 5 test -e flag
fails two wait_until 1 test -e no-such-flag
END
is "$status" 0 "wait_until waits, but not for ever" || note "$out $err"

# Leftovers of every kind are found, told and removed.
inner <<'END'
plan 1
setsid sh -c 'exec tail -f /dev/null' >/dev/null 2>&1 &
wait_until 5 grep -q tail "/proc/$!/cmdline"
echo "pid $!"
pass one
END
is "$status" 1 "a process left behind fails the test"
like "$err" 'left behind: process [0-9]+: tail' "and is named"
pid=$(sed -n 's/^pid //p' <<<"$out")
ok "and is gone" wait_until 10 sh -c '! kill -0 "$1" 2>/dev/null' sh "$pid"

inner <<<'plan 1; pass one; kill -TERM $$'
is "$status" 1 "a test that is ended by a signal has failed, even when all its parts passed"
like "$out" 'not ok 2 - ends by itself' "and says so"

inner <<<'plan 1; mkdir "$TMPDIR/flux-left"; echo "dir $TMPDIR"; pass one'
is "$status" 1 "a directory left behind fails the test"
ok "and is gone" test ! -e "$(sed -n 's/^dir //p' <<<"$out")"

inner <<<'plan 1; mkdir "$TMPDIR/theirs.17"; allow_left "theirs.*"; pass one'
is "$status" 0 "unless it was allowed"

inner <<<'plan 1; echo "$TMPDIR" >&2; test ${#TMPDIR} -le 60; pass one'
ok "socket paths have room" test "$(head -n 1 <<<"$err" | wc -c)" -le 60

run sh "$SRCDIR/t/limit" 1 sh -c 'setsid tail -f /dev/null & echo $!; wait'
is "$status" 124 "the limit around all tests ends one that takes too long"
like "$err" 'time limit of 1 s is over' "and says so"
ok "with everything that it started" wait_until 5 sh -c '! kill -0 "$1" 2>/dev/null' sh "$out"

echo "$((100 * $(nproc))).00 1/1 1" >busy
LIMIT_LOAD=busy run sh "$SRCDIR/t/limit" 5 sleep 7
is "$status" 0 "on a busy host there is more time"
LIMIT_LOAD=busy run sh "$SRCDIR/t/limit" 1 sh -c 'trap "sleep 1; exit 1" TERM; sleep 1000 & wait'
is "$status" 124 "but not for ever, and then it can clean up"

mkdir -p fake/src/cmd
printf '#!/bin/sh\nprintf "[%%s]" "$@"\n' >fake/src/cmd/flux
chmod +x fake/src/cmd/flux
FLUX_TEST_BUILDDIR=$TEST_DIR/fake inner <<'END'
plan 2
ok "composed" session 3 --topology=chain -- prog a "b c"
echo "$out"
exits 125 "a usage error" session 3 prog
END
is "$status" 0 "session runs" || note "$out $err"
like "$out" "\[start\]\[--size=3\]\[--topology=chain\]\[prog\]\[a\]\[b c\]" "and composes the command"
