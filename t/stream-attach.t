#!/usr/bin/env bash
# Transforms in the programs that read and write streams: at a reader, at a writer, chained; what fails, and what does
# not fail with it.
# shellcheck disable=SC2154 # set by run, and by the files that are sourced
. "$(dirname "$0")/lib.sh"
need cc
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"

mkdir -p include/flux
cp "$SRCDIR/src/common/libstream/stream_transform.h" include/flux/
ok "a transform in C is built" cc -shared -fPIC -Iinclude -o decimate.so "$SRCDIR/t/stream/decimate.c"

cat >narrow.lua <<'END'
-- Numbers in half of the bytes; what else there is stays.
transform(function(s)
    s:keep()
    s:put("T", s:get("T"):convert("f32"))
end)
END
cat >mean.lua <<'END'
-- The mean alone, of odd steps.
transform(function(s)
    if s.number % 2 == 0 then return false end
    s:keep("n")
    s:put("mean", s:get("T"):mean())
    s:put("type", s:get("T").type)
end)
END
cat >odd.lua <<'END'
transform(function(s)
    if s.number % 2 == 1 then return false end
    s:keep()
end)
END
cat >fail.lua <<'END'
transform(function(s)
    s:keep()
    if s.number == 1 then
        s:get("none")
    end
    s:put("extra", 1)
end)
END

hold 1
declare -A pid
read_bg() { # NAME ARGUMENT...: flux stream cat in the background
    local name=$1
    shift
    "$FLUX" stream cat "$@" >"$name.out" 2>"$name.err" &
    pid[$name]=$!
}
wait_for() { # NAME: its exit code in $status
    wait "${pid[$1]}"
    status=$?
}

# A reader with transforms, beside one without them.
peer w 0 write src 4 0 1 ready=1 wait=3
opened w
read_bg plain src
read_bg narrow src --transforms=narrow.lua
read_bg chain src --transforms="narrow.lua | mean.lua"
go w
wait_for narrow
is "$status/$(cat narrow.err)" 0/ "a reader transforms a stream until its end"
is "$(grep -c . narrow.out)/$(sed -n 1,3p narrow.out | cut -f 3-5 | tr '\n\t' ' ;')" \
    "12/T;384;f32[8,12] at 0,0 of 8,12 n;8 data;100000 " "it sees what was put in place of what was there, and what was kept"
wait_for chain
is "$status/$(cat chain.err)" 0/ "a chain of transforms"
is "$(cut -f 1,3-5 chain.out | tr '\n\t' ' ;')" \
    "1;mean;8;f64[] 1;type;3;char[3] at 0 of 3 1;n;8 3;mean;8;f64[] 3;type;3;char[3] at 0 of 3 3;n;8 " \
    "has the results of the last one, and drops steps"
wait_for plain
is "$(cut -f 3-5 plain.out | sort | uniq -c | tr -s ' \t' ' ')" \
    $' 4 T 768 f64[8,12] at 0,0 of 8,12\n 4 data 100000\n 4 n 8' "another reader sees the stream as it is"
ended w
is "$?" 0 "the writer ends well"

# Several writers: an array is seen as a whole, and each keeps what is its own.
peer a 0 write two 3 0 2 ready=1 wait=2
peer b 0 write two 3 1 2 ready=1 wait=2
opened a
opened b
read_bg all two --transforms=narrow.lua
read_bg slice two --transforms=narrow.lua --var=T --slice=7:9,0:2
go a
go b
wait_for all
is "$status/$(cut -f 2-5 all.out | sort | uniq -c | tr -s ' \t' ' ')" \
    $'0/ 3 0 T 768 f32[16,12] at 0,0 of 16,12\n 3 0 data 100000\n 3 0 n 8\n 3 1 data 100000\n 3 1 n 8' \
    "of two writers, the whole array"
wait_for slice
is "$status/$(tail -n 1 slice.out)" $'0/2\t2007000.0 2007001.0 2008000.0 2008001.0' "a slice of it"
ended a
ended b

# By the settings of the stream, without touching the program.
cat >settings.xml <<END
<streams>
  <stream name="set" at-writer="$PWD/narrow.lua" at-reader="$PWD/mean.lua"/>
  <stream name="half" at-writer="$PWD/decimate.so:2"/>
  <stream name="bad" at-writer="$PWD/fail.lua"/>
  <stream name="none" at-reader="$PWD/nothing.lua"/>
</streams>
END
export FLUX_STREAM_CONFIG=$PWD/settings.xml
peer w 0 write set 2 0 1 ready=1 wait=1
opened w
read_bg set set
go w
wait_for set
is "$status/$(cut -f 1,3-5 set.out | tr '\n\t' ' ;')" "0/1;mean;8;f64[] 1;type;3;char[3] at 0 of 3 1;n;8 " \
    "settings attach transforms to both sides"
ended w

# At the writer, less travels, whatever way a step is put.
for how in keep=0 place=1 async=1; do
    peer w 0 write half 4 0 1 ready=1 wait=1 $how
    opened w
    read_bg half half
    go w
    wait_for half
    is "$status/$(cut -f 1,3-5 half.out | tr '\n\t' ' ;')" \
        "0/0;n;4 0;data;50000 0;T;768;f64[8,12] at 0,0 of 8,12 2;n;4 2;data;50000 2;T;768;f64[8,12] at 0,0 of 8,12 " \
        "a writer drops half of the steps, and half of the bytes ($how)"
    ended w
    is "$?" 0 "and ends well ($how)"
done
unset FLUX_STREAM_CONFIG

# Pieces of several writers stay pieces.
peer a 0 write pieces 2 0 2 ready=1 wait=1 transforms=narrow.lua
peer b 0 write pieces 2 1 2 ready=1 wait=1 transforms=narrow.lua
opened a
opened b
read_bg pieces pieces --var=T --slice=:,5
go a
go b
wait_for pieces
is "$status/$(head -n 1 pieces.out)" \
    $'0/0\t'"$(seq -s ' ' -f '%.1f' 5 1000 15005)" "two writers convert their pieces of one array"
ended a
ended b

# A reader whose transform fails loses its subscription, and nothing else happens.
peer w 0 write fails 4 0 1 ready=1 wait=2
opened w
read_bg fails fails --transforms=fail.lua
read_bg plain fails
go w
wait_for fails
is "$status/$(cut -f 1 fails.out | sort -u)" 1/0 "a transform that fails ends the subscription"
like "$(cat fails.err)" "step 1 of stream 'fails': fail.lua:4: .*no variable 'none'" "it is told with step and line"
wait_for plain
is "$status/$(cut -f 1 plain.out | sort -u | tr '\n' ' ')" "0/0 1 2 3 " "another reader gets all steps"
ended w
is "$?" 0 "and the writer ends well"

# A writer whose transform fails goes on without it.
export FLUX_STREAM_CONFIG=$PWD/settings.xml
peer w 0 write bad 4 0 1 ready=1 wait=1
opened w
read_bg bad bad
go w
wait_for bad
is "$status/$(cut -f 1,3 bad.out | tr '\n\t' ' ;')" \
    "0/0;n 0;data 0;T 0;extra 1;n 1;data 1;T 2;n 2;data 2;T 3;n 3;data 3;T " "the stream goes on as it is put"
ended w
is "$?" 0 "with its writer"
logged() { # PATTERN
    "$FLUX" dmesg | grep -q "$1"
}
ok "the log tells step and line" wait_until 20 logged "step 1 of stream 'bad': .*fail.lua:4: .*no variable 'none'.*without its transforms"
exits 1 "a transform that is not there" "$FLUX" stream cat none
like "$err" "stream 'none': .*nothing.lua.* cannot be read" "is told"
unset FLUX_STREAM_CONFIG

# Limits hold in both places.
echo 'transform(function(s) while true do end end)' >loop.lua
peer w 0 write loop 2 0 1 ready=1 wait=1 transforms=loop.lua
opened w
read_bg loop loop --transforms=loop.lua
go w
wait_for loop
is "$status" 1 "a transform without an end ends at the reader"
like "$(cat loop.err)" "step 0 of stream 'loop': loop.lua:1: .*computes for too long" "by its limit"
ended w
ok "and at the writer" wait_until 20 logged "step 0 of stream 'loop': loop.lua:1: .*computes for too long"

# Members of a group have done the steps that a transform drops.
peer w 0 write shared 6 0 1 ready=1 wait=1 drain=1
opened w
read_bg shared shared --group=g --transforms=mean.lua
go w
ended w
is "$?" 0 "steps that are dropped are acknowledged"
wait_for shared
is "$status/$(cut -f 1 shared.out | sort -u | tr '\n' ' ')" "0/1 3 5 " "a member of a group sees the others"

# A step of a recording has what its reader sees.
export FLUX_STREAM_CONFIG=$PWD/rec.xml
echo "<streams><stream name='rec' at-reader='$PWD/narrow.lua'/></streams>" >rec.xml
peer w 0 write rec 2 0 1 ready=1 wait=1
opened w
"$FLUX" stream record rec rec.file &
rec=$!
go w
wait $rec
is "$?" 0 "a subscription with transforms is recorded"
ended w
"$FLUX" stream cat --file rec.file | cut -f 1,3-5 | tr '\n\t' ' ;' >rec.out
is "$(cat rec.out)" \
    "0;T;384;f32[8,12] at 0,0 of 8,12 0;n;8 0;data;100000 1;T;384;f32[8,12] at 0,0 of 8,12 1;n;8 1;data;100000 " \
    "as it is seen"
unset FLUX_STREAM_CONFIG

# In a process of its own, what is kept goes to the new stream.
peer w 0 write own 2 0 1 ready=1 wait=1
opened w
"$FLUX" stream transform own --out=own2 --lua=narrow.lua &
own=$!
read_bg own own2
wait_until 20 grep -q flux-stream-lane "/proc/${pid[own]}/maps"
go w
wait $own
wait_for own
is "$status/$(cut -f 3-5 own.out | sort | uniq -c | tr -s ' \t' ' ')" \
    $'0/ 2 T 384 f32[8,12] at 0,0 of 8,12\n 2 data 100000\n 2 n 8' "flux stream transform keeps variables"
ended w

# While programs run: to the writers, and to one of the readers.
number() { # FIELD OF THE LIST OF READERS: of the reader with a process
    "$FLUX" stream readers --json late | tr -d ' \n' | grep -o "{[^}]*\"pid\":${pid[$1]}[,}][^}]*" | sed 's/.*"reader":\([0-9]*\).*/\1/'
}
peer w 0 write late 1000000 0 1 ready=1 wait=2
opened w
read_bg one late --var=T
read_bg two late
joined() {
    [ -n "$(number "$1")" ]
}
wait_until 20 joined one
wait_until 20 joined two
go w
"$FLUX" stream throttle late 200
ok "transforms are attached to a writer that runs" "$FLUX" stream transform late --at=writer --lua=narrow.lua
ok "its next steps are transformed" wait_until 20 grep -q f32 one.out
is "$("$FLUX" stream ls --json late | grep -c '"transforms": ".*/narrow.lua"')" 1 "the list of streams has them"
ok "others to one of its readers" "$FLUX" stream transform late --at="$(number two)" --lua=mean.lua
ok "which sees what they make" wait_until 20 grep -q mean two.out
ok "the writer goes on without transforms" "$FLUX" stream transform late --at=writer --detach
ok "as it was" wait_until 20 eval 'tail -n 1 one.out | grep -q f64'
is "$(grep -c mean one.out)" 0 "the other reader has seen none of it"
is "$("$FLUX" stream ls --json late | grep -c '"transforms": null')" 1 "nor does the list have any"
cp fail.lua wrong.lua
sed -i 's/s.number == 1/true/' wrong.lua
ok "a transform that fails is attached" "$FLUX" stream transform late --at=writer --lua=wrong.lua
ok "the stream goes on, and counts it" wait_until 20 has late faults 1
ok "the log says why" wait_until 20 logged "of stream 'late': .*wrong.lua:4: .*no variable 'none'"
rm wrong.lua
exits 1 "a file that is not there" "$FLUX" stream transform late --at=writer --lua=wrong.lua
like "$err" "wrong.lua: No such file.*named by its whole path" "is told"
exits 1 "a reader that is not there" "$FLUX" stream transform late --at=7 --lua=narrow.lua
like "$err" "stream 'late' has no reader 7" "is told"
exits 1 "a stream that is not there" "$FLUX" stream transform nothing --at=writer --lua=narrow.lua
exits 2 "nothing to attach" "$FLUX" stream transform late --at=writer
exits 2 "a place and an output" "$FLUX" stream transform late --at=writer --out=x --lua=narrow.lua
exits 2 "a place that is not there" "$FLUX" stream transform late --at=nowhere --lua=narrow.lua
cp narrow.lua narrow.txt
exits 1 "a name that other programs would not take for one in Lua" "$FLUX" stream transform late --at=writer --lua=narrow.txt
like "$err" "narrow.txt cannot be attached" "is told"

"$FLUX" stream rm late
ended w
wait_for one
wait_for two

# A writer that comes later has what is attached.
read_bg later later
listed() {
    "$FLUX" stream ls "$1" >/dev/null 2>&1
}
wait_until 20 listed later
ok "transforms are attached to a stream without writers" "$FLUX" stream transform later --at=writer --so=decimate.so:4
peer w 0 write later 2 0 1 ready=1 wait=1
opened w
go w
wait_for later
is "$status/$(cut -f 3-4 later.out | tr '\n\t' ' ;')" "0/n;2 data;25000 T;768 " "a writer that comes later has them"
ended w

# A path may be one that only the hosts of the programs have: here, the file comes when it has been attached.
read_bg there there
wait_until 20 listed there
ok "the path of a file that is not here is attached" "$FLUX" stream transform there --at=writer --lua="$PWD/there.lua"
cp narrow.lua there.lua
peer w 0 write there 2 0 1 ready=1 wait=1
opened w
go w
wait_for there
is "$status/$(grep -c f32 there.out)" 0/2 "the program that has it loads it"
ended w

# Several readers, by number, process, rank, host or job; and all of them.
cat >tag.lua <<'END'
transform(function(s)
    s:keep("n")
    s:put("tag", TAG)
end)
END
for tag in a b c d e f g; do
    sed "s/TAG/'$tag'/" tag.lua >$tag.lua
done
peer w 0 write many 1000000 0 1 ready=1 wait=3
opened w
read_bg one many
read_bg two many
"$FLUX" wreckrun -n1 "$FLUX" stream cat many >three.out 2>&1 &
pid[three]=$!
job_of() {
    "$FLUX" stream readers --json many | tr -d ' \n' | grep -o '"job":[0-9][0-9]*' | sed 's/.*://'
}
here() {
    [ "$("$FLUX" stream readers --json many | grep -c '"reader":')" = "$1" ] && [ -n "$(job_of)" ]
}
wait_until 20 here 3
go w
"$FLUX" stream throttle many 200
number() {
    "$FLUX" stream readers --json many | tr -d ' \n' | grep -o "{[^}]*\"pid\":${pid[$1]}[,}][^}]*" | sed 's/.*"reader":\([0-9]*\).*/\1/'
}
has_tags() { # TAG NUMBER: readers that have these transforms, as many
    [ "$("$FLUX" stream readers --json many | grep -c "\"transforms\": \".*/$1.lua\"")" = "$2" ]
}
ok "transforms are attached to two readers by number" \
    "$FLUX" stream transform many --at="$(number one),$(number two)" --lua=a.lua
ok "the list of readers has them" has_tags a 2
ok "both see what they make" wait_until 20 grep -q tag one.out two.out
wait_until 20 grep -q tag two.out
is "$(grep -c tag three.out)" 0 "another reader does not"
ok "to the reader that is a task of a job" "$FLUX" stream transform many --at="job:$(job_of)" --lua=b.lua
ok "which the list names" has_tags b 1
wait_until 20 grep -q tag three.out
ok "to one by its process" "$FLUX" stream transform many --at="pid:1,${pid[one]}" --lua=c.lua
ok "and no other one" has_tags c 1
ok "to all readers of a broker" "$FLUX" stream transform many --at=rank:0-3 --lua=d.lua
ok "which are three" has_tags d 3
ok "to all readers of a host" "$FLUX" stream transform many --at=host:"$(uname -n)" --lua=e.lua
ok "which are the same" has_tags e 3
ok "to all readers" "$FLUX" stream transform many --at=readers --lua=f.lua
ok "which are told in turn" wait_until 20 has_tags f 3
read_bg four many
ok "one that comes later has them, too" wait_until 20 has_tags f 4
ok "from its first step on" wait_until 20 grep -q tag four.out
is "$(grep -c "T.*f64" four.out)" 0 "and nothing else"
ok "all readers go on without transforms" "$FLUX" stream transform many --at=readers --detach
without() {
    [ "$("$FLUX" stream readers --json many | grep -c '"transforms": null')" = 4 ]
}
ok "which the list says" wait_until 20 without
ok "and they see" wait_until 20 eval 'tail -n 1 four.out | grep -q f64'
for at in 7,8 job:9999 rank:5 host:nowhere pid:1; do
    exits 1 "--at=$at" "$FLUX" stream transform many --at=$at --lua=a.lua
    like "$err" "stream 'many' has no reader $at" "is told"
done
for at in 7,,8 job: job:x rank:3-1 rank: host:a[ pid:-1 reader writers; do
    exits 2 "--at=$at" "$FLUX" stream transform many --at="$at" --lua=a.lua
done
"$FLUX" stream rm many
ended w
for name in one two three four; do
    wait_for $name
done

# A reader that waits for a writer has them when it comes.
waits() {
    "$FLUX" stream readers --json "$name" 2>/dev/null | grep -q '"reader"'
}
for name in all one; do
    read_bg early $name
    wait_until 20 waits
    at=readers
    [ $name = all ] || at=pid:${pid[early]}
    ok "transforms are attached to readers of what nobody writes yet ($name)" \
        "$FLUX" stream transform $name --at="$at" --lua=g.lua
    peer w 0 write $name 2 0 1 ready=1 wait=1
    opened w
    go w
    wait_for early
    is "$status/$(cut -f 1,3-4 early.out | tr '\n\t' ' ;')" "0/0;tag;1 0;n;8 1;tag;1 1;n;8 " "a reader has them from the first step on"
    ended w
done

# A second stream, joined by step, in the reader.
cat >join.lua <<'END'
transform(function(s)
    assert(s.inputs == 2 and s:get("n", 1)[0] == s:get("n", 2)[0] and #s:names(2) == 3)
    s:keep("n")
    s:put("sum", s:get("T"):sum() + s:get("T", 2):sum())
    s:put("other", s:get("data", 2))
end)
END
joins() { # NAME OPTION...: two writers, NAME.a of 6 steps and NAME.b of 4, and a reader of both, of those that both have
    local name=$1
    shift
    peer a 0 write "$name.a" 6 0 1 ready=1 wait=1
    peer b 0 write "$name.b" 4 0 1 ready=1 wait=1 "$@"
    opened a
    opened b
    read_bg joined "$name.a" --join="$name.b" --transforms=join.lua
    go a
    go b
    wait_for joined
    ended a
    ended b
}
for transport in ring tcp; do
    export FLUX_STREAM_TRANSPORT=$transport
    joins $transport
    is "$status/$(cut -f 1,3-4 joined.out | tr '\n\t' ' ;')" \
        "0/$(printf '%d;sum;8 %d;other;100000 %d;n;8 ' 0 0 0 1 1 1 2 2 2 3 3 3)" \
        "a reader joins two streams by step, until one of them ends ($transport)"
    is "$(cat joined.err)" "" "without an error ($transport)"
    joins odd.$transport transforms="$PWD/odd.lua"
    is "$status/$(cut -f 1 joined.out | uniq | tr '\n' ' ')" "0/0 2 " "steps that one of them does not have are passed over ($transport)"
done
unset FLUX_STREAM_TRANSPORT
peer a 0 write wait.a 2 0 1 ready=1 wait=2
peer b 0 write wait.b 2 0 1 ready=1 wait=2
opened a
opened b
read_bg joined wait.a --join=wait.b --transforms=join.lua
read_bg late wait.a --join=wait.b --transforms=join.lua --timeout=100ms
go a
wait_for late
is "$status" 1 "a reader does not wait for the other stream for longer than it wants to"
like "$(cat late.err)" "stream 'wait.b' has had no step within" "and is told which one that is"
read_bg second wait.b
go b
wait_for joined
wait_for second
is "$(cut -f 1 joined.out | uniq | tr '\n' ' ')" "0 1 " "another reader has waited"
ended a
ended b
peer a 0 write dies.a 4 0 1 ready=1 wait=1
peer b 0 write dies.b 4 0 1 ready=1 wait=1 crash=2
opened a
opened b
read_bg joined dies.a --join=dies.b --transforms=join.lua
go a
go b
wait_for joined
is "$status/$(cut -f 1 joined.out | uniq | tr '\n' ' ')" "1/0 1 " "a writer of the other stream dies"
like "$(cat joined.err)" "stream 'dies.b': rank 0 of the writers has died in step 2" "the reader is told"
ended a
is $? 0 "the first stream goes on without it"
wait "${pid[b]}"
exits 1 "a member of a group" "$FLUX" stream cat dies.a --group=g --join=dies.a --timeout=10ms
exits 2 "a recording and a stream" "$FLUX" stream cat --file rec.file --join=x

exits 2 "a recording has no transforms" "$FLUX" stream cat --file rec.file --transforms=narrow.lua
exits 1 "an empty name in a chain" "$FLUX" stream cat x --transforms="narrow.lua||mean.lua"
like "$err" "empty name of a file" "is told"
release
is "$status" 0 "the session ends well"
finish
