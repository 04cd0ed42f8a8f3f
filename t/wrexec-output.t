#!/bin/bash
# Output of jobs: in the key-value store, in files, labeled; long lines, binary, limits.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start submit wreckrun

# records ID STREAM: what the store keeps of a job's stream, heads taken off
records() {
    "$FLUX" kvs get --raw "job.$1.output" | python3 -c '
import sys
data, want, at = sys.stdin.buffer.read(), int(sys.argv[1]), 0
while at < len(data):
    end = data.index(b"\n", at)
    task, stream, length = map(int, data[at:end].split())
    if stream == want:
        sys.stdout.buffer.write(data[end + 1 : end + 1 + length])
    at = end + 1 + length
' "$2"
}
# submit ARG...: run it to its end; its id is left in $id
submit() {
    id=$("$FLUX" submit --wait "$@" | head -n 1)
}

hold 2 --set=wrexec.output-limit=2M

submit sh -c 'echo out; echo err >&2'
is "$(records "$id" 1)" out "standard output is in the store"
is "$(records "$id" 2)" err "... and standard error"
submit true
fails "a job that writes nothing has no output" "$FLUX" kvs get "job.$id.output"
submit printf 'no newline'
is "$(records "$id" 1)" "no newline" "output without a newline at its end"
head -c 300000 /dev/urandom >binary
submit cat binary
records "$id" 1 | cmp -s - binary
is $? 0 "binary output"
submit -N2 --tasks-per-node=1 sh -c 'for i in 1 2 3; do echo $FLUX_TASK_RANK$i; done'
is "$(records "$id" 1 | sort | tr '\n' ' ')" "01 02 03 11 12 13 " "two tasks on two nodes"

submit sh -c 'head -c 3000000 /dev/zero; echo end'
is "$(test "$(records "$id" 1 | wc -c)" -le $((2 << 20)) && echo yes)" yes \
    "no more is kept than the session's limit"
like "$("$FLUX" kvs get "job.$id.eventlog")" "limit of 2097152 bytes" "... which is in its event log"
run "$FLUX" submit --wait --output-limit=0 sh -c 'echo kept'
id=$out
run "$FLUX" wreck attach "$id"
is "$out" "" "a limit of 0 keeps nothing"
like "$err" "its limit of 0 bytes is reached" "... which is told"
submit --output-limit=8M sh -c 'head -c 3000000 /dev/zero'
is "$(records "$id" 1 | wc -c)" 3000000 "a job's own limit overrides it"
# Not all at once, which would be one record.
id=$("$FLUX" submit --output-limit=100 sh -c \
    'echo first; until [ -e goes.on ]; do sleep 0.02; done; head -c 200 /dev/zero; sleep 0.2; echo x')
kept() {
    [ "$(records "$id" 1)" = first ]
}
wait_until 10 kept
touch goes.on
"$FLUX" wreck wait "$id"
is "$(records "$id" 1 | tr -d '\0')" first "what comes after the limit was reached is not kept"

# A line of 64 MiB through a client: nothing is added, lost, or cut.
"$FLUX" wreckrun -n1 sh -c 'head -c 67108864 /dev/zero | tr "\0" x' >long
is "$(wc -c <long)" 67108864 "64 MiB in one line come whole"
is "$(tr -d x <long | wc -c)" 0 "... and nothing else"
rm long
is "$("$FLUX" wreckrun -n1 sh -c 'head -c 67108864 /dev/zero | tr "\0" x' | head -c 100 | wc -c)" 100 \
    "a reader that has had enough"

# Files.
ok "to a file" "$FLUX" submit --wait --quiet --output='o-{{id}}-{{task}}' -N2 sh -c 'echo $FLUX_TASK_RANK'
is "$(cat o-*-0 o-*-1 | tr '\n' ' ')" "0 1 " "a file for each task"
"$FLUX" submit --wait --quiet --output=both -n1 sh -c 'echo a; echo b >&2; echo c'
is "$(tr '\n' ' ' <both)" "a b c " "without --error both go into one file, in order"
"$FLUX" submit --wait --quiet --output=both --error=err -n1 sh -c 'echo a; echo b >&2'
is "$(tr '\n' ' ' <both)$(cat err)" "a b" "a file that is there is emptied"
"$FLUX" submit --wait --quiet --label-io --output=lab -N2 sh -c \
    'for i in 1 2 3; do echo line $i; done; printf rest'
is "$(sort lab | tr '\n' '|')" \
    "0: line 1|0: line 2|0: line 3|0: rest|1: line 1|1: line 2|1: line 3|1: rest|" \
    "labeled lines of two nodes in one file"
"$FLUX" submit --wait --quiet --output='{{name}}.{{node}}' --name=abc -n1 echo x
is "$(cat abc.0)" x "{{name}} and {{node}}"
run "$FLUX" submit --wait --output='/nonexistent/{{id}}' true
is "$status" 126 "a file that cannot be opened: exit code 126"
mkfifo fifo.0
run run_with_timeout 20 "$FLUX" submit --wait --quiet --output='fifo.{{node}}' echo x
is "$status" 126 "a fifo that nobody reads stops nothing"
mkfifo slow
exec 3<>slow
run run_with_timeout 20 "$FLUX" submit --wait --quiet --label --output=slow seq 1000000
is "$status" 126 "... nor does one that is read too slowly, for labeled output"
exec 3>&-
ok "the session goes on" "$FLUX" submit --wait --quiet true

# Input.
echo "from a file" >in
is "$("$FLUX" wreckrun -n1 --input=in cat)" "from a file" "standard input from a file"
is "$(seq 100000 | "$FLUX" wreckrun -n1 sh -c 'sleep 0.1; md5sum')" "$(seq 100000 | md5sum)" \
    "standard input to the first task"
is "$(seq 10 | "$FLUX" wreckrun -N2 --stdin=all md5sum | sort -u)" "$(seq 10 | md5sum)" \
    "... to all"
is "$(echo x | "$FLUX" wreckrun -n1 --stdin=none cat)" "" "... to none"

# A client that takes no output, and does not go away either.
full() {
    "$FLUX" jobs -n -s ending -o '{id}' | finds -x "$id"
}
start_bg "$FLUX" wreckrun -n1 --grace=0.1s --name=full sh -c 'touch full; exec yes' >/dev/null
wait_until 10 test -e full
kill -STOP "$bg"
id=$("$FLUX" jobs -n --name=full -o '{id}')
"$FLUX" cancel -q "$id"
wait_until 5 full
"$FLUX" wreck kill -s KILL "$id"
"$FLUX" wreck kill -s KILL "$id" 2>/dev/null
run run_with_timeout 30 "$FLUX" wreck wait "$id"
is "$status" 143 "a job whose client is stopped ends all the same"
kill -CONT "$bg"
{ wait "$bg"; } 2>/dev/null
release
finish
