#!/bin/bash
# flux wreckrun: standard streams, much of them, and readers that stand still.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
hold 4

run "$FLUX" wreckrun -n1 cat <<<"through task 0"
is "$out" "through task 0" "standard input goes to task 0"
run "$FLUX" wreckrun -N4 -l cat <<<"only 0"
is "$out" "0: only 0" "... and to no other"
run "$FLUX" wreckrun -N4 --stdin=all -l cat <<<"all"
is "$(sort <<<"$out" | tr '\n' ' ')" "0: all 1: all 2: all 3: all " "--stdin=all"
run "$FLUX" wreckrun -N2 --stdin=none cat <<<"nobody"
is "$out" "" "--stdin=none"
ok "no standard input at all" "$FLUX" wreckrun -N2 cat <&-
ok "standard input from /dev/null" "$FLUX" wreckrun -N2 cat </dev/null
run "$FLUX" wreckrun -N4 head -c 5 < <(seq 1 100000)
is "$out" "$(printf '1\n2\n3')" "a task that does not read to the end"

head -c 20000000 /dev/urandom >big
"$FLUX" wreckrun -n1 cat <big >big.out
ok "20 MB of random bytes in and out" cmp big big.out
"$FLUX" wreckrun -N4 --stdin=all sha256sum <big >sums
is "$(sort sums | uniq -c | tr -s ' ')" " 4 $(sha256sum <big | tr -s ' ')" "20 MB to each of 4 tasks"
rm -f big big.out

is "$("$FLUX" wreckrun -N4 -n8 head -c 10000000 /dev/zero | wc -c)" 80000000 "80 MB from 8 tasks"
is "$("$FLUX" wreckrun -n1 sh -c 'head -c 10000000 /dev/zero | tr "\0" x' | wc -c)" 10000000 \
    "a line of 10 MB"
is "$("$FLUX" wreckrun -N2 -l sh -c 'seq 1 100000' | sort | uniq | wc -l)" 200000 \
    "200,000 labeled lines, whole"
run "$FLUX" wreckrun -l -n1 printf 'no newline'
is "$out" "0: no newline" "a last line without newline is labeled"
run "$FLUX" wreckrun -n2 sh -c 'echo out; echo err >&2'
is "$out/$err" "$(printf 'out\nout')/$(printf 'err\nerr')" "the two streams stay apart"
run "$FLUX" wreckrun -n1 sh -c 'echo early; exec >&- 2>&-; sleep 0.2; exit 4'
is "$status/$out" "4/early" "a task that closes its output"

# rss PID: resident memory in KiB
rss() {
    awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"
}
brokers() {
    local environ pid
    # shellcheck disable=SC2013 # such names have no blanks
    for environ in $(grep -lazxsF "FLUX_TEST_ID=$FLUX_TEST_ID" /proc/[0-9]*/environ); do
        pid=${environ//[!0-9]/}
        case $(readlink "/proc/$pid/exe") in
        */flux-broker | */flux-launcher) echo "$pid" ;;
        esac
    done
}
total() {
    local pid kb sum=0
    for pid in $(brokers); do
        kb=$(rss "$pid" 2>/dev/null)
        sum=$((sum + ${kb:-0}))
    done
    echo $sum
}

# A reader that stands still: the tasks stand still too, and nobody grows.
mkfifo fifo
before=$(total)
"$FLUX" wreckrun -N4 --env=MARK=still.$$ yes >fifo 2>err.txt &
pid=$!
exec 9<fifo
tasks() {
    local file
    # shellcheck disable=SC2013 # such names have no blanks
    for file in $(grep -lazxsF "MARK=still.$$" /proc/[0-9]*/environ); do
        if [ "$(cat "${file%environ}comm" 2>/dev/null)" = yes ]; then
            basename "${file%/environ}"
        fi
    done
}
# Print how many bytes the four tasks have written, once all four have begun.
written() {
    local pids
    mapfile -t pids < <(tasks)
    # shellcheck disable=SC2046 # one word for each
    [ ${#pids[@]} -eq 4 ] && awk '/^wchar:/ { sum += $2; if ($2 > 0) n++ } END { if (n == 4) print sum }' \
        $(printf "/proc/%s/io " "${pids[@]}")
}
# Do all these processes sleep?  A process that waits for a processor does not.
asleep() {
    local pid
    for pid in "$@"; do
        case $(sed -n 's/^State:\t//p' "/proc/$pid/status") in
        S*) ;;
        *) return 1 ;;
        esac
    done
}
# They stand still when no further byte was written between two moments at which everything sleeps
# that could move one: the tasks, the launchers, the brokers and the command.
last=none
still() {
    local now pids
    mapfile -t pids < <(brokers; tasks)
    asleep "$pid" "${pids[@]}" || return
    now=$(written)
    [ -n "$now" ] && [ "$now" = "$last" ] && asleep "$pid" "${pids[@]}" && return
    last=$now
    return 1
}
ok "the tasks write, and then no more" wait_until 20 still
after=$(total)
note "brokers and launchers: $before KiB before, $after when tasks stand still after $last bytes"
ok "... what they wrote is held in windows only" test "$last" -lt 64000000
ok "... and no memory grows beyond these" test $((after - before)) -lt 64000
# Two that come before it looks are one, and on a busy host it may be longer than 2 s between two.
ok "it can be interrupted" wait_until 10 interrupted $pid
exec 9<&-
wait $pid
status=$?
ok "... while its output stood still" test $status -ge 128
"$FLUX" wreckrun -n1 --env=MARK=reader.$$ yes 2>/dev/null | head -n 3 >three
is "$(tr '\n' ' ' <three)" "y y y " "a reader that leaves"
ok "... ends the job" wait_until 10 sh -c "! grep -lazxsqF MARK=reader.$$ /proc/[0-9]*/environ"
run "$FLUX" wreckrun -n1 echo still there
is "$out" "still there" "the session goes on"

release
finish
