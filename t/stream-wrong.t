#!/usr/bin/env bash
# What goes wrong with streams: names that are taken, parts that are not there, descriptors that run out, programs that end
# in the middle of a step. Each time there is a sentence, what runs goes on, and nothing hangs.
# shellcheck disable=SC2154 # set by run, and by the files that are sourced
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
need_flux start stream wreckrun submit
declare -A pid

hold 1
peer w 0 write heat 3 0 1 keep=3 hold=1
wait_until 20 grep -q written w.out

# A second writer, in a job, and by each command that writes a stream.
taken="stream 'heat' is being written already: it has a writer of rank 0"
run "$FLUX" wreckrun -n1 "$PEER" write heat 1 0 1
is "$status" 1 "a second job that writes a stream fails"
like "$out" "$taken" "it is told why"
echo 'transform(function(s) s:keep() end)' >keep.lua
ok "a recording" "$FLUX" stream record --count=1 heat heat.rec
for command in "tee heat heat" "transform heat --out=heat --lua=keep.lua" "replay heat.rec" "export heat"; do
    [ "$command" != "export heat" ] || command="export heat --to=$FLUX_URI"
    # shellcheck disable=SC2086 # words
    exits 1 "flux stream ${command%% *} to a name that is taken" "$FLUX" stream $command
    like "$err" "$taken" "is told why"
done
exits 1 "flux stream record to a file that is there" "$FLUX" stream record --count=1 heat heat.rec
like "$err" "heat.rec exists: --append continues it" "is told what to do"
exits 1 "a recording of another stream to be continued" "$FLUX" stream record --append --count=1 --timeout=10ms other heat.rec
like "$err" "nobody has written stream 'other'" "waits for that stream first"

# Parts that are not there, and descriptions that do not fit.
while IFS=\| read -r var slice why; do
    exits 1 "--var=$var --slice=$slice" "$FLUX" stream cat --count=1 --var="$var" --slice="$slice" heat
    like "$err" "$why" "is told with stream, variable and step"
done <<'END'
T|99,:|heat: variable 'T' in step 0: '99,:': dimension 1 of the array has 8 elements
T|0:9,:|heat: variable 'T' in step 0: '0:9,:': dimension 1 of the array has 8 elements
T|3:1,:|heat: variable 'T' in step 0: '3:1,:': dimension 1
T|0,0,0|heat: variable 'T' in step 0: '0,0,0' is not a slice of an array of 2 dimensions
T|0:2:0,:|heat: variable 'T' in step 0: .*is not a slice
data|:|step 0 of stream 'heat' has no variable 'data' that is described
none|:|step 0 of stream 'heat' has no variable 'none' that is described
END

# Options that do not go together, before anything is waited for.
exits 2 "a key without a group" "$FLUX" stream cat --key=x heat
like "$err" "--key and --by need --group" "is a usage error"
exits 2 "a key of a transform without a group" "$FLUX" stream transform --key=x --out=o --lua=keep.lua heat
exits 2 "a file whose writer is waited for" "$FLUX" stream cat --file --stay heat.rec
run "$FLUX" stream cat --file --json --count=1 heat.rec
like "$out" '"name":"T",.*"type":"f64","global":true,"shape"' "JSON says which arrays are pieces of a global one"

# A writer without descriptors cannot let readers in; they do not wait for longer than they want, and those that come later
# are let in when it has some again.
has_read() {
    "$FLUX" stream readers --json heat | grep -q "\"pid\":[ ]*${pid[r]}"
}
peer r 0 read heat
opened r
wait_until 20 has_read
prlimit --pid "${pid[w]}" --nofile="$(find "/proc/${pid[w]}/fd" -type l | wc -l):"
exits 1 "a reader of a writer without descriptors" "$FLUX" stream cat --count=1 --timeout=1s heat
like "$err" "stream 'heat': .*(timed out|Too many open files)" "is told"
prlimit --pid "${pid[w]}" --nofile=1000:
ok "it reads when the writer has some" "$FLUX" stream cat --count=1 --timeout=20s heat
go w
ended r
is "$last" "0-2 3 the end " "a reader that was there before has all steps"
ended w
is $? 0 "and so has the writer"

# When a job has ended, a second one continues its stream, or begins it anew, only if it says so.
stays() {
    "$FLUX" stream ls --json later | grep -q '"readers": 1'
}
later() { # OPTION...
    "$FLUX" wreckrun -n1 "$PEER" write later 2 0 1 readers=1 "$@"
}
seen() {
    [ "$(cut -f 1 later.out | tr '\n' ' ')" = "$1 " ]
}
echo '<streams><stream name="later" start="append"/></streams>' >append.xml
for transport in auto tcp; do
    export FLUX_STREAM_TRANSPORT=$transport
    "$FLUX" stream cat --stay --var=n later >later.out &
    later=$!
    wait_until 20 stays
    ok "$transport: a job writes a stream" later
    exits 1 "another job is refused" later
    like "$out$err" "'later' was written by job [0-9]+, and has readers that stay: open it with start=append" \
        "and told how it can write the stream"
    FLUX_STREAM_CONFIG="$PWD/append.xml" ok "with start=append it writes" later
    ok "the numbers of its steps go on" wait_until 20 seen "0 1 2 3"
    ok "with start=anew the next one writes" later start=anew
    ok "and the numbers begin again" wait_until 20 seen "0 1 2 3 0 1"
    "$FLUX" stream rm later
    wait $later
done
unset FLUX_STREAM_TRANSPORT

# A job of several writers, one of which is killed before it ends its step: readers see the steps before, and are told.
broken() { # TRANSPORT STEP
    # shellcheck disable=SC2016 # for the tasks
    FLUX_STREAM_TRANSPORT=$1 "$FLUX" wreckrun -n2 sh -c 'crash=99; [ "$FLUX_TASK_RANK" = 0 ] || crash=$2
        exec "$0" write "$1" 24 "$FLUX_TASK_RANK" 2 readers=1 keep=1 crash=$crash' "$PEER" "$1" "$2" >job.out 2>&1 &
    job=$!
    FLUX_STREAM_TRANSPORT=$1 run "$PEER" read "$1" depth=2
    wait $job
}
broken ring 2
is "$(grep -c '^0-1 2$' <<<"$out")" 1 "a step that a writer has not ended is not seen"
like "$out" "stream 'ring': rank 1 of writer job [0-9]+ ended by signal 9 in step 2" "its reader is told which writer that was"
# By TCP, what was on its way when the writer was killed is lost, and the other writer waits for the reader, at the
# latest at its end; but the cause is on record when the job has ended.  In step 20, the reader has joined both.
broken tcp 20
like "$out" "stream 'tcp': rank 1 of writer job [0-9]+ ended by signal 9" "so is a reader by TCP"

# The same of a writer that has died before the others have come.
peer r 0 read early
early() {
    [ "$(field early readers)" = 1 ]
}
wait_until 20 early
"$PEER" write early 4 1 2 readers=1 crash=2 >/dev/null &
wait $!
is $? 137 "a writer is killed before the other one has come"
ok "which writes all of its steps" "$PEER" write early 4 0 2 readers=1
ended r
is "$last" "0-1 2 stream 'early': rank 1 of the writers has died in step 2 " "the reader has the steps of both, and is told"

# What is given to commands.
exits 1 "a name with a control character" "$PEER" write $'a\e[31mb' 1 0 1
like "$out" "the name of a stream has 1 to 128 bytes, without blanks and control characters" "is told why"
exits 2 "a switch with a blank" "$FLUX" stream switch "a b" on
like "$err" "'a b' is not the name of a switch" "is told why"
exits 2 "a relay at an address that is none" "$FLUX" stream relay --address=foo
like "$err" "--address=foo is not an IP address" "is told why"
exits 2 "a sample of none" "$FLUX" stream cat --policy=sample:0 heat
like "$err" "'sample:0' is not a policy" "is told why"
exits 2 "a file, with a policy" "$FLUX" stream cat --file --policy=latest heat.rec
like "$err" "a file has no readers" "is told why"
exits 1 "a variable that no step has" "$FLUX" stream cat --file --var=typo heat.rec
like "$err" "no step of stream 'heat.rec' had a variable 'typo'" "is told"

release
is "$status" 0 "the session ends well"
finish
