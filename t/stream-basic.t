#!/usr/bin/env bash
# Streams: writers and readers that come, go and die, policies, and flux stream.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
. "$SRCDIR/t/stream/lib.sh"

hold 2 --set=modules=log,barrier,stream

# Has a writer of a stream waited for a reader?
blocked() {
    above "$1" blocked 0
}

# Two writers, two readers, at two brokers.
peer w0 0 write heat 50 0 2 ready=1
peer w1 1 write heat 50 1 2 ready=1 place=1
peer r0 0 read heat
peer r1 1 read heat
for name in w0 w1 r0 r1; do
    opened $name
done
run "$FLUX" stream ls --json
like "$out" '"name": "heat"' "flux stream ls shows the stream"
like "$out" '"writers": 2' "and its writers"
like "$out" '"readers": 2' "and its readers"
run "$FLUX" stream format heat
is "$out" "n u64, data bytes" "flux stream format prints what its variables are"
run "$FLUX" stream format --json heat
like "$(tr -d ' \n' <<<"$out")" '^\{"name":"heat","definition":"nu64,databytes","formats":\[\]\}$' "so does --json"
run "$FLUX" stream stat --count=2 --interval=10ms heat
is "$status/$(grep -c '^heat ' <<<"$out")" 0/2 "flux stream stat prints a line each time"
exits 1 "another writer of the same rank" "$PEER" write heat 1 0 2
like "$out" "is being written already: it has a writer of rank 0; wait .*'flux stream rm'" "is refused, with what to do"
exits 1 "a writer of another group" "$PEER" write heat 1 0 3
like "$out" "written by a group of size 2" "is refused"
exits 1 "a writer of a group that is too large" "$PEER" write many 1 0 65537
like "$out" "at most 65536 writers" "is refused"
go w0
go w1
ended r0
is "$last" "0-49 50 the end " "a reader sees each step of both writers"
ended r1
is "$last" "0-49 50 the end " "so does one at another broker"
ended w0 1
is "$last" "open " "a writer ends well"
ended w1 1
is "$last" "open " "the other one too"
wait_until 10 has heat writers ""
pass "the stream is gone with its last process"

# Data do not cross brokers: their counters of messages do not rise with the number of steps.  Writers and readers tell
# their progress at most once a second, which is allowed for.
messages() {
    "$FLUX" module stats --all broker |
        awk '$2 ~ /^(tree_up|tree_down|ring|event_down|requests|responses|events)$/ {n += $3} END {print n}'
}
peer w0 0 write quiet 3000 0 1 ready=1
peer r0 1 read quiet
opened w0
opened r0
before=$(messages) began=$SECONDS
go w0
ended r0
passed=$(($(messages) - before))
is "$last" "0-2999 3000 the end " "a reader at another broker sees 3000 steps"
note "$passed messages"
ok "for which the brokers pass no messages" test "$passed" -lt $((300 + 20 * (SECONDS - began)))
ended w0
before=$(messages)
"$FLUX" ping --quiet --interval=0 --count=300 1 >ping.out
ok "messages of others are counted" test $(($(messages) - before)) -ge 600

# A process of another user, to which only root can change.
as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" = 0 ] && "${as[@]}" "$FLUX" version >/dev/null 2>&1 && "${as[@]}" test -x "$PEER"; then
    peer w0 0 write private 3 0 1 ready=1 keep=3
    opened w0
    exits 1 "a reader of another user" "${as[@]}" "$FLUX" stream cat --timeout=10s private
    like "$out|$err" "^\\|.*Permission denied$" "gets nothing, and is told why"
    exits 1 "a writer of another user" "${as[@]}" "$PEER" write private 1 0 1
    exits 1 "flux stream rm of another user" "${as[@]}" "$FLUX" stream rm private
    peer r0 1 read private
    opened r0
    go w0
    ended r0
    is "$last" "0-2 3 the end " "and the stream goes on"
    ended w0
else
    skip 5 "processes of another user need root, and programs that others can run"
fi

# What a stream has when its writers have defined nothing: the variables of a step.
peer w0 0 write bare 1000000 0 2 bare=1 ready=1
peer w1 1 write bare 1000000 1 2 bare=1 ready=1
opened w0
opened w1
exits 1 "the variables of a stream without steps" "$FLUX" stream format bare
like "$err" "stream 'bare' have defined nothing.*try again" "are not known yet"
exits 1 "the variables of no stream" "$FLUX" stream format nobodys
# The writers may hear of that some 0.1 s after they have begun, and be as many steps apart.
ok "its steps are slowed down" "$FLUX" stream throttle bare 1000
go w0
go w1
wait_until 20 above bare step 0
run "$FLUX" stream format --timeout=20s bare
is "$status/$(tr -s ' ' <<<"$out")" "0/VARIABLE TYPE SHAPE GLOBAL WRITERS ATTRIBUTES
n bytes - no 2 -
data bytes - no 2 -
own i32 [?] no 2 -
T f64 [16,12] yes 2 -" "flux stream format lists variables, types, shapes and writers"
run "$FLUX" stream format --timeout=20s --json bare
out=$(tr -d ' \n' <<<"$out")
like "$out" '"name":"bare","step":[0-9]+,"attributes":\{\},"variables":\[' "so does --json"
like "$out" '\{"name":"own","type":"i32","shape":\[null\],"global":false,"writers":2,"attributes":\{\}\}' "with sizes that differ as null"
like "$out" '\{"name":"T","type":"f64","shape":\[16,12\],"global":true,"writers":2,"attributes":\{\}\}' "and arrays of all writers"
ok "the stream is ended" "$FLUX" stream rm bare
ended w0
ended w1

# Faults that are planted are noticed by the checks of the readers, in memory and by TCP.
planted() { # WHERE FAULT WHY
    local w=() r=()
    [ "$1" = writer ] && w=("plant=$2:3") || r=("plant=$2:3")
    peer w0 0 write planted 5 0 1 ready=1 "${w[@]}"
    peer r0 0 read planted "${r[@]}"
    opened w0
    opened r0
    go w0
    ended r0 1
    is "$last" "error: $3 " "$FLUX_STREAM_TRANSPORT: a fault in step 3 is noticed: $2"
    ended w0
}
for FLUX_STREAM_TRANSPORT in ring tcp; do
    export FLUX_STREAM_TRANSPORT
    planted writer torn "a step has wrong data"
    planted writer offset "a box has a wrong element"
    planted reader twice "steps do not rise"
    planted reader missing "a step is missing"
done
unset FLUX_STREAM_TRANSPORT
peer w0 0 write planted 5 0 1 ready=1 place=1 hold=1 plant=changed:3
peer r0 0 read planted stop=3
opened w0
opened r0
go w0
wait_until 20 grep -q stops r0.out
go w0
wait_until 20 grep -q changed w0.out
kill -CONT "${pid[r0]}"
ended r0 1
is "$last" "error: a box has a wrong element " "memory of a step that changes while it is held is noticed"
go w0
ended w0

# A reader that waits for a stream; flux stream cat, raw and in words.
"$FLUX" stream cat --count=2 later >cat.out &
cat=$!
"$FLUX" stream cat --raw --var=n --count=3 later >raw.out &
raw=$!
"$FLUX" stream cat --var=T --slice=6:10:2,3 later >slice.out &
slice=$!
"$FLUX" stream cat --var=T --slice=1,:2 --json --count=1 later >slice.json &
json=$!
wait_until 10 has later readers 4
pass "readers can come before the writer"
peer w0 1 write later 5 0 2 ready=1 hold=1 keep=5
peer w1 0 write later 5 1 2 hold=1 keep=5
peer r 0 read later
opened w0
opened w1
opened r
go w0
wait $cat
is $? 0 "flux stream cat ends after --count steps"
like "$(cat cat.out)" $'0\t0\tdata\t100000' "and has printed variables"
like "$(cat cat.out)" $'1\t1\tT\t768\tf64\\[8,12\\] at 8,0 of 16,12' "and what they are"
wait $raw
is $? 0 "flux stream cat --raw"
is "$(wc -c <raw.out)" 48 "prints bytes, of one variable only"
wait $json
is "$(cat slice.json)" \
    '{"step":0,"name":"T","type":"f64","count":[1,2],"values":[1000.0,1001.0]}' "a slice as JSON"
go w1
go w0
ended r
is "$last" "0-4 5 the end " "a reader that came before the first step sees all"
wait $slice
is "$(tail -n 1 slice.out)" $'4\t4006003.0 4008003.0' "a slice has elements of both writers"

# Kept steps, for a reader that comes later.
peer w 0 write kept 10 0 1 keep=3 hold=1
opened w
wait_until 20 grep -q written w.out
peer r 1 read kept
opened r
go w
ended r
is "$last" "7-9 3 the end " "a late reader gets the steps that are kept"
wait "${pid[w]}"

# Pieces that overlap.
peer w0 0 write over 1 0 2 ready=1 overlap=1
peer w1 0 write over 1 1 2 ready=1 overlap=1
peer r 1 read over
for name in w0 w1 r; do
    opened $name
done
go w0
go w1
ended r 1
like "$last" "error: .*'T'.* overlap" "pieces of an array that overlap are an error of the reader"
ended w0 1
ended w1 1

# A group: each step at one member, and those of a member that is killed at another.
peer w 0 write shared 60 0 1 ready=1 drain=1
opened w
peer r0 0 read shared group=g
opened r0 # so that its members have no key
peer r1 1 read shared group=g key=n
peer r2 1 read shared group=g crash=5
peer r 1 read shared
opened r2
opened r
ended r1 1
like "$last" "group 'g' of the stream has another key than 'n'" "members of a group have one key"
peer r3 0 read shared group=g crash=20
opened r3
go w
ended w 1
is "$last" "open " "a writer waits until a group has done its steps"
ended r
is "$last" "0-59 60 the end " "a reader that is in no group sees each step"
wait "${pid[r0]}" "${pid[r2]}" "${pid[r3]}"
is "$(sort -k 2 -n r0.out r2.out r3.out | grep ^step)" "$(seq -f 'step %g' 0 59)" \
    "each step was done by one member, also those of members that were killed"
exits 2 "a key without a group" "$FLUX" stream cat --key=n x
like "$err" "--key and --by need --group" "is refused"
peer w 1 write grouped 2 0 1 keep=2 hold=1
opened w
run "$FLUX" stream cat --group=g --key=n --var=n --count=2 grouped
is "$out" $'0\t0\tn\t8\n1\t0\tn\t8' "flux stream cat is a member of a group"
go w
wait "${pid[w]}"

# A file of settings, which comes before what programs say.
cat >settings.xml <<'END'
<streams>
  <stream name="set.*" keep="2" policy="sample:4"/>
</streams>
END
export FLUX_STREAM_CONFIG=$PWD/settings.xml
peer w 0 write set.a 10 0 1 keep=9 hold=1
opened w
wait_until 20 grep -q written w.out
run "$FLUX" stream cat --var=n --count=1 set.a
is "$out" $'8\t0\tn\t8' "a file of settings is for writers and readers"
is "$status" 0 "whatever they say"
go w
wait "${pid[w]}"
echo '<streams><stream name="a" deep="1"/></streams>' >settings.xml
exits 1 "a mistake in the settings" "$FLUX" stream cat any
like "$err" "the settings of streams, .*settings.xml: line 1: a stream has no attribute deep" "is told"
unset FLUX_STREAM_CONFIG

# A reader that wants only the newest.
peer w 0 write new 40 0 1 ready=1
opened w
peer r 1 read new policy=latest ready=1
opened r
go w
ended w 1
is "$last" "open " "a reader that does not read does not block a writer with its policy"
go r
ended r
is "$last" "39-39 1 the end " "it gets the newest step when it reads"

# A writer that comes again goes on behind the steps of the first, while somebody reads.
peer r 0 read again ready=1 timeout=60
peer w 0 write again 3 0 1 ready=1
opened w
opened r
go w
ended w 1
wait_until 10 has again step 3
pass "the next step is known when a writer has closed its end"
peer w 1 write again 2 0 1
ended w 1
wait_until 10 has again step 5
pass "another writer continues with it"
go r
ended r
is "$last" "0-2 3 the end " "a reader sees the steps of the writers that it joined"

# A reader that stays goes on with the writer that takes the place of one that has died.
peer r 0 read stays stay=1 policy=block
peer w0 0 write stays 3 0 2 ready=1
peer w1 0 write stays 3 1 2 ready=1 crash=2
opened w0
opened w1
opened r
go w0
go w1
ended w0 1
ended w1 1
wait_until 10 has stays step 3
peer w0 1 write stays 2 0 2 ready=1 wait=1
peer w1 0 write stays 2 1 2 ready=1 wait=1
opened w0
opened w1
go w0
go w1
ended w0 1
ended w1 1
wait_until 10 has stays step 5
has_read() { # STREAM STEPS
    [ "$("$FLUX" stream readers --json "$1" | sed -n 's/.*"steps": \([0-9]*\).*/\1/p')" -ge "$2" ]
}
wait_until 10 has_read stays 4
"$FLUX" stream rm stays
ended r
like "$last" "0-4 4 the end" "a reader stays while writers die and others take their place"

# So does one that reads alone, and those that read as a team or share the steps as a group, when a job has more writers,
# or fewer.
for transport in ring tcp; do
    export FLUX_STREAM_TRANSPORT=$transport
    name=sized.$transport
    peer r 0 read "$name" stay=1
    peer t0 0 read "$name" stay=1 team=all rank=0 size=2
    peer t1 1 read "$name" stay=1 team=all rank=1 size=2
    peer g0 0 read "$name" stay=1 group=each
    peer g1 1 read "$name" stay=1 group=each
    steps=0
    for size in 1 2 3 1; do
        writers "$name" 4 $size wait=5 ready=1 drain=1
        for ((k = 0; k < size; k++)); do
            opened w$k
            go w$k
        done
        for ((k = 0; k < size; k++)); do
            ended w$k 1
        done
        steps=$((steps + 4))
        wait_until 10 has "$name" step $steps
    done
    "$FLUX" stream rm "$name"
    ended r
    is "$last" "0-15 16 the end " "a reader goes on with other numbers of writers, by $transport"
    for name in t0 t1; do
        ended $name
        is "$(grep -c ^step $name.out) $last" "16 0-15 16 the end " "... and so does each of a team"
    done
    ended g0 1
    ended g1 1
    is "$(cat g[01].out | grep ^step | sort -u | wc -l) $(cat g[01].out | grep -c ^step)" "16 16" \
        "... and a group has each step once"
done
unset FLUX_STREAM_TRANSPORT

# A reader that was stopped is the only one that knows how far a writer had come when it was killed.
peer r 1 read exact stay=1
peer w 0 write exact 20 0 1 ready=1 wait=1 crash=7
opened w
opened r
kill -STOP "${pid[r]}"
go w
ended w 1
peer w 0 write exact 3 0 1 readers=1
wait_until 20 has exact writers 1
kill -CONT "${pid[r]}"
ended w 1
wait_until 20 has_read exact 10
"$FLUX" stream rm exact
ended r
is "$last" "0-9 10 the end " "a restarted writer that waits for its readers begins with the step after the last one"

# The only writer of a stream need not wait for its readers to go on with the next number, nor over TCP.
for transport in ring tcp; do
    export FLUX_STREAM_TRANSPORT=$transport
    name=exact.$transport
    peer r 1 read "$name" stay=1
    peer w 0 write "$name" 20 0 1 ready=1 wait=1 crash=7
    opened w
    opened r
    kill -STOP "${pid[r]}"
    go w
    ended w 1
    peer w 0 write "$name" 3 0 1 wait=1
    wait_until 20 has "$name" writers 1
    kill -CONT "${pid[r]}"
    ended w 1
    is "$last" "open " "a writer that does not know the readers of the one before it, by $transport"
    "$FLUX" stream rm "$name"
    ended r
    if [ $transport = ring ]; then
        is "$last" "0-9 10 the end " "goes on with the next number"
    else # a reader that was stopped has lost what it had not got
        like "$last" "^[0-9]+-[0-9]+ 3 the end" "goes on with a number that was not read"
    fi
done
unset FLUX_STREAM_TRANSPORT

# A reader is told that the stream was removed when it reports its position, which it does when its last report is old:
# the writer, which reports as often, has done so twice.
peer r 0 read away stay=1 policy=latest stop=1
peer w 0 write away 1000000 0 1
opened w
opened r
wait_until 20 grep -q stops r.out
for ((i = 0; i < 3; i++)); do
    before=$(field away step)
    wait_until 20 above away step "${before:-0}"
done
"$FLUX" stream rm away
ended w 1
kill -CONT "${pid[r]}"
ended r 1
is "$last" "the end " "a reader that stays takes the removal of the stream for its end, whenever it is told of it"

# A writer is killed in a step.
peer w0 0 write crash 20 0 2 ready=1
peer w1 1 write crash 20 1 2 ready=1 crash=7
peer r 0 read crash
for name in w0 w1 r; do
    opened $name
done
go w0
go w1
ended r
like "$last" "0-6 7 stream 'crash': rank 1 of the writers has died in step 7 " \
    "a reader sees the steps before the death of a writer, and is told of it"
wait "${pid[w0]}" "${pid[w1]}"

# The module is reloaded while a stream is open.
peer w 1 write reload 20 0 1 ready=1 crash=9
peer r 0 read reload
opened w
opened r
number() { # STREAM: of its reader
    "$FLUX" stream readers --json "$1" | sed -n 's/.*"reader": \([0-9]*\),.*/\1/p'
}
before=$(number reload)
ok "flux module reload stream" "$FLUX" module reload stream
has reload writers 1 && has reload readers 1
is $? 0 "the next instance knows writers and readers"
is "$(number reload)" "$before" "the reader keeps its number"
go w
ended r
is "$last" "0-8 9 stream 'reload': rank 0 of the writers has died in step 9 " "the stream goes on"
wait "${pid[w]}"

# A reader that stays has come to a run that another instance of the module does not know, and all writers have left:
# it goes on with the next one.
run_of() { # STEPS ARGUMENT...: write them; then the reader has printed $lines
    peer w 0 write runs "$1" 0 1 wait=1 "${@:2}"
    wait "${pid[w]}"
    wait_until 20 sh -c "[ \$(grep -c . runs.out) = $lines ]"
}
"$FLUX" stream cat --stay --var=n runs >runs.out &
cat=$!
lines=3 run_of 3
lines=5 run_of 2 start=anew
ok "flux module reload stream, without writers" "$FLUX" module reload stream
lines=9 run_of 4 start=append
is "$(cut -f 1 runs.out | xargs)" "0 1 2 0 1 2 3 4 5" "a reader that stays goes on with the run after a reload"
"$FLUX" stream rm runs
wait $cat

# A reader is killed while it makes a writer wait.
peer w 0 write stuck 3000 0 1 ready=1
opened w
peer r 0 read stuck ready=1
opened r
go w
wait_until 20 blocked stuck
kill -KILL "${pid[r]}"
ended w 1
is "$last" "open " "a writer goes on when a reader that blocks it is killed"

# A writer that ends steps without waiting, beside a reader whose queue is full.
peer w 1 write later 40 0 1 async=1 wait=1
peer r 0 read later depth=1
ended r
is "$last" "0-39 40 the end " "a reader sees the steps that are ended without waiting"
ended w 1
is "$last" "open " "... and the writer waits for them in its loop"

# Removal.
peer w 0 write gone 1 0 1 hold=1
peer r 1 read gone timeout=5
opened w
opened r
ok "flux stream rm" "$FLUX" stream rm gone
go w
ended r
like "$last" "(the end|has died)" "ends a stream for its readers"
wait "${pid[w]}"
peer w 1 write removed 10000000 0 1
opened w
ok "flux stream rm of one that is being written" "$FLUX" stream rm removed
ended w 1
is "$last" "error: stream 'removed' was removed " "is an error of the writer"
peer w0 0 write twice 50 0 1 hold=1
opened w0
wait_until 20 grep -q written w0.out
ok "flux stream rm of one that is written again" "$FLUX" stream rm twice
peer w1 0 write twice 1 0 1 ready=1
opened w1
go w0
ended w0 1
has twice step 0
is $? 0 "a writer of a stream that was removed does not count for the next one of its name"
go w1
ended w1 1
peer w 0 write waits 3000 0 1 ready=1
opened w
peer r 1 read waits ready=1
opened r
go w
wait_until 20 blocked waits
pass "a writer that waits for a reader tells so"
ok "flux stream rm of one whose writer waits" "$FLUX" stream rm waits
ended w 1
is "$last" "error: stream 'waits' was removed " "is an error of the writer, too"
go r
ended r
like "$last" "(the end|has died)" "and its readers come to an end"
exits 1 "flux stream rm of what is not there" "$FLUX" stream rm gone
like "$err" "no stream 'gone'" "says so"
exits 1 "a reader of what nobody writes" "$FLUX" stream cat --timeout=10ms nothing
like "$err" "nobody has written stream 'nothing'" "says so"
exits 2 "flux stream cat of nothing" "$FLUX" stream cat
exits 2 "a policy that is none" "$FLUX" stream cat --policy=never x
like "$err" "'never' is not a policy" "is refused"
no_stream() {
    [ "$("$FLUX" stream ls --json | tr -d ' \n')" = "[]" ]
}
ok "no stream is left" wait_until 10 no_stream
exits 1 "flux stream stat of what is not there" "$FLUX" stream stat --interval=10ms nothing

release
is "$status" 0 "the session ends well"
finish
