#!/usr/bin/env bash
# Streams in files: flux stream record, replay, tee, and what reads a recording without a session.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
. "$SRCDIR/t/stream/lib.sh"

hold 1 --set=modules=log,barrier,stream

# The numbers of the steps of a file.
steps() {
    "$FLUX" stream cat --file --var=n "$1" | cut -f 1 | uniq | tr '\n' ' '
}

# Two writers are recorded, as a reader sees them.
peer w0 0 write heat 5 0 2 ready=1 wait=2
peer w1 0 write heat 5 1 2 ready=1 wait=2
opened w0
opened w1
"$FLUX" stream record heat heat.rec &
record=$!
"$FLUX" stream cat heat >cat.out &
cat=$!
go w0
go w1
wait $record
is $? 0 "flux stream record ends with its stream"
wait $cat
ended w0
ended w1
(
    unset FLUX_URI
    "$FLUX" stream cat --file heat.rec
) >file.out
is $? 0 "flux stream cat --file needs no session"
ok "and prints what a reader of the stream has printed" cmp cat.out file.out
run "$FLUX" stream cat --file --json --var=T --slice=9,:2 --count=1 heat.rec
is "$out" '{"step":0,"name":"T","type":"f64","count":[1,2],"values":[9000.0,9001.0]}' \
    "a slice of it has elements of the second writer"
exits 1 "flux stream record to a file that exists" "$FLUX" stream record nobody heat.rec
like "$err" "heat.rec exists" "says so"
exits 1 "flux stream cat --file of what is not a recording" "$FLUX" stream cat --file cat.out
like "$err" "cat.out is not a recording" "says so"

# A writer that fails is not the end of its stream: neither for a recording, nor for what is made of it.
peer w 0 write broken 9 0 1 ready=1 wait=3 fail=4
opened w
"$FLUX" stream record broken broken.rec 2>record.err &
record=$!
"$FLUX" stream tee broken copy 2>tee.err &
tee=$!
peer r 0 read copy
echo 'transform(function(s) s:keep() end)' >keep.lua
"$FLUX" stream transform broken --out=kept --lua=keep.lua 2>transform.err &
transform=$!
peer k 0 read kept
opened r
opened k
go w
ended w
failed="stream 'broken': rank 0 of the writers has failed in step 4"
wait $record
is "$? $(cat record.err)" "1 flux stream record: $failed" "a recording is told that a writer fails"
is "$(steps broken.rec)" "0 1 2 3 " "and has the steps that were ended"
wait $tee
is "$? $(cat tee.err)" "1 flux stream tee: $failed" "so is a tee"
ended r
is "$last" "0-3 4 stream 'copy': rank 0 of the writers has failed in step 4 " "and its readers"
wait $transform
is "$? $(cat transform.err)" "1 flux stream transform: $failed" "so are transforms"
ended k
is "$last" "0-3 4 stream 'kept': rank 0 of the writers has failed in step 4 " "and their readers"

# The recording becomes a stream again.
"$FLUX" stream replay --rate=max --readers=1 heat.rec &
replay=$!
peer r 0 read heat
ended r
is "$last" "0-4 5 the end " "flux stream replay writes the same steps"
wait $replay
is $? 0 "and ends well"
"$FLUX" stream replay --name=cold --rate=1000 --count=3 heat.rec &
replay=$!
wait_until 20 has cold size 2
is "$("$FLUX" stream format cold)" "n u64, data bytes" "with the format that was recorded"
peer r 0 read cold
ended r
is "$last" "0-2 3 the end " "flux stream replay --name, --rate, --count"
wait $replay

# A stream that others have written is continued, or begun anew.
"$FLUX" stream cat --stay --var=n run >run.out &
cat=$!
for start in append append anew; do
    ok "flux stream replay --$start" "$FLUX" stream replay --name=run --rate=max --readers=1 --count=2 --$start heat.rec
done
seen() {
    [ "$(cut -f 1 run.out | uniq | tr '\n' ' ')" = "0 1 2 3 0 1 " ]
}
ok "goes on with the numbers, or begins with 0" wait_until 20 seen
"$FLUX" stream rm run
wait $cat
exits 2 "a rate that is none" "$FLUX" stream replay --rate=0 heat.rec

# A recording that is killed is whole up to its last step, and can be continued.
peer w 0 write long 6 0 1 ready=1 hold=1 keep=6
opened w
go w
wait_until 20 grep -q written w.out
"$FLUX" stream record long long.rec &
record=$!
whole() {
    [ "$(steps long.rec)" = "0 1 2 3 4 5 " ]
}
wait_until 20 whole
pass "a recording is read while it is being written"
exits 1 "a second recording of one file" "$FLUX" stream record --append long long.rec
like "$err" "another process" "is refused"
kill -KILL $record
wait $record
is "$(steps long.rec)" "0 1 2 3 4 5 " "a recording that was killed is readable"
truncate --size=-100 long.rec
is "$(steps long.rec)" "0 1 2 3 4 " "a step that was cut off is not seen"
"$FLUX" stream record --append --policy=sample:5 long long.rec 2>append.err
is $? 1 "steps that are in the file already"
like "$(cat append.err)" "long.rec has step 4 already: step 0" "are refused"
peer r 0 read long ready=1
opened r
go w
ended w
peer w 0 write long 3 0 1 wait=1
opened w
"$FLUX" stream record --append --count=2 long long.rec &
record=$!
wait $record
is $? 0 "flux stream record --append, --count"
ended w
is "$(steps long.rec)" "0 1 2 3 4 6 7 " "continues the file behind its last step"
go r
ended r

# A signal ends a recording well.
peer w 0 write stop 2 0 1 keep=2 hold=1
opened w
"$FLUX" stream record stop stop.rec &
record=$!
stop_whole() {
    [ "$(steps stop.rec)" = "0 1 " ]
}
wait_until 20 stop_whole
kill -TERM $record
wait $record
is $? 0 "SIGTERM ends a recording well"
is "$(tail -c 64 stop.rec | head -c 4)" $'FSC\4' "with its index"

# Another stream with the same steps.
"$FLUX" stream tee stop copy &
tee=$!
wait_until 20 has copy writers 1
go w
wait $tee
is $? 0 "flux stream tee ends with its stream"
ended w
peer w0 0 write two 20 0 2 ready=1
peer w1 0 write two 20 1 2 ready=1
opened w0
opened w1
"$FLUX" stream tee two copy &
tee=$!
peer r 0 read copy
opened r
go w0
go w1
ended r
is "$last" "0-19 20 the end " "flux stream tee writes another stream with the same steps"
wait $tee
ended w0
ended w1
exits 2 "flux stream tee of one stream" "$FLUX" stream tee two

release
is "$status" 0 "the session ends well"
finish
