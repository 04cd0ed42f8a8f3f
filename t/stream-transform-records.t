#!/usr/bin/env bash
# Transforms that make, filter and project records: in C and in Lua, at a reader, at a writer, and in a process of its own.
# shellcheck disable=SC2154 # set by run, and by the files that are sourced
. "$(dirname "$0")/lib.sh"
need cc
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
RECORDS=$BUILDDIR/t/stream/records

mkdir -p include/flux
cp "$SRCDIR/src/common/libstream/stream_transform.h" include/flux/
ok "a transform in C is built" cc -Wall -Wextra -Werror -shared -fPIC -Iinclude -o heavy.so "$SRCDIR/t/stream/heavy.c"

hold 1 --set=modules=log,barrier,stream
declare -A pid

reads() { # NAME STREAM VARIABLE ARGUMENT...: print the records of a variable, in the background
    local name=$1 stream=$2 var=$3
    shift 3
    "$FLUX" stream cat --var="$var" --json "$stream" "$@" >"$name.out" 2>"$name.err" &
    pid[$name]=$!
}
values() { # NAME: wait for it; $values are its exit code, and the values of its only step
    wait "${pid[$1]}" # a subshell could not wait for it
    values="$?/$(sed 's/.*"values"://; s/}$//' "$1.out")$(cat "$1.err")"
}
writes() { # STREAM READERS: a step of atoms
    "$RECORDS" atoms "$1" "$2" >"$1.writer" 2>&1
    echo "$?/$(cat "$1.writer")"
}
config() { # STREAM ATTRIBUTE...: settings
    local stream=$1
    shift
    echo "<streams><stream name='$stream' $*/></streams>" >settings.xml
    export FLUX_STREAM_CONFIG=$PWD/settings.xml
}

# What heavy.c makes of the two atoms, of which the second one has a mass.
atom='[{"id":2,"n":0,"near":[],"name":"Zn","mass":3.25}]'
first='{"id":1,"n":2,"near":[0.5,1.5],"name":"Cu","mass":null,"at":{"x":0.0,"y":0.0},"next":null}'
mark='[{"id":2,"n":0,"near":[],"name":"Zn","mass":3.25,"at":{"x":2.0,"y":-1.0},"next":'$first'}]'
name='[{"name":"Cu"},{"name":"Zn"}]'
warm='[{"x":0,"hot":true},{"x":1,"hot":true},{"x":2,"hot":true},{"x":3,"hot":true}]'
all() { # WHERE PREFIX WARM: the results of four readers
    values "$2-atom"
    is "$values" "0/$atom" "$1, records are filtered, with all that they point to"
    values "$2-mark"
    is "$values" "0/$mark" "$1, they are made: nested, optional, of variable size"
    values "$2-name"
    is "$values" "0/$name" "$1, they are projected"
    values "$2-warm"
    is "$values" "0/$3" "$1, those without pointers are a global array"
}
readers() { # PREFIX STREAM [ARGUMENT...]
    local prefix=$1 stream=$2 var
    shift 2
    for var in atom mark name warm; do
        reads "$prefix-$var" "$stream" $var "$@"
    done
}
# The same in Lua.
cat >heavy.lua <<'END'
local mark = [[
    record place
      field x f64
      field y f64
    record near
      attr code "heavy"
      field id u64
      field n u32
      field near f64[n]
      field name string
      field mass f64 optional
      field at place
      field next *near
    record mark
      field id u64
      field n u32
      field near f64[n]
      field name string
      field mass f64 optional
      field at place
      field next *near
]]
transform(function(s)
    local atoms = s:get("atom")
    assert(#atoms == 2 and atoms.shape[1] == 2 and atoms.format:find("field near f64%[n%] at"))
    assert(atoms[0].name == "Cu" and atoms[0].near[2] == 1.5 and not atoms[0].mass and atoms[2] == nil)
    local heavy = atoms:select(function(a, i) assert(a.id == i + 1) return a.mass and a.mass > 3 end)
    assert(#heavy == 1 and heavy[0].id == 2)
    s:put("atom", heavy)
    local marks = {}
    for i, a in ipairs(heavy:table()) do
        a.at = { x = a.id, y = -1 }
        a.next = atoms[0]
        a.next.at = { x = 0, y = 0 }
        marks[i] = a
    end
    s:put("mark", records(mark, marks))
    s:put("name", atoms:fields("name"))
    local cells = s:get("cell"):table()
    for _, c in ipairs(cells) do
        c.hot = true
    end
    s:put("warm", records("record cell\nfield x i16\nfield hot bool\n", cells))
end)
END
for transport in ring tcp lua; do
    object=heavy.so option=--so=heavy.so
    [ $transport != lua ] || object=heavy.lua option=--lua=heavy.lua
    export FLUX_STREAM_TRANSPORT=${transport/lua/auto}
    readers reader-$transport reader-$transport --transforms=$object
    is "$(writes reader-$transport 4)" 0/ "records are written ($transport)"
    all "at a reader ($transport)" reader-$transport "$warm"

    config writer-$transport "at-writer='$PWD/$object'"
    readers writer-$transport writer-$transport
    is "$(writes writer-$transport 4)" 0/ "records are transformed as they are written ($transport)"
    unset FLUX_STREAM_CONFIG
    all "at a writer ($transport)" writer-$transport "$warm"

    config result-$transport "readers='4'" # which are waited for
    "$FLUX" stream transform own-$transport --out=result-$transport $option &
    transform=$!
    unset FLUX_STREAM_CONFIG
    readers own-$transport result-$transport
    is "$(writes own-$transport 1)" 0/ "records are written for a process ($transport)"
    wait $transform
    is $? 0 "it ends well ($transport)"
    all "in a process ($transport)" own-$transport "$warm"
done
unset FLUX_STREAM_TRANSPORT

# Of several writers, each transforms what it has: its piece of a global array, and records of its own.
config pieces "at-writer='$PWD/heavy.so'"
"$RECORDS" atoms pieces 2 0 2 &
one=$!
"$RECORDS" atoms pieces 2 1 2 &
other=$!
# One that came alone, with its readers, could be done with its step before the other one is there.
wait_until 20 has pieces writers 2
reads pieces pieces mark
"$FLUX" stream cat --var=warm --slice=1:7 --json pieces >slice.out &
slice=$!
wait $one
is $? 0 "the first of two writers"
wait $other
is $? 0 "and the second one"
unset FLUX_STREAM_CONFIG
values pieces
is "$values" "0/$mark"$'\n'"$mark" "each has its records"
wait $slice
is "$(sed 's/.*"values"://' slice.out)" "[$(printf ',{"x":%d,"hot":true}' 1 2 3 0 1 2 | cut -c 2-)]}" "and its piece of a global array"

# The format of the result is known: it is told once.
config format "at-writer='$PWD/heavy.so'"
"$FLUX" stream tee --count=1 --readers=1 format copy &
tee=$!
wait_until 20 has format readers 1
"$FLUX" stream record --count=1 copy copy.rec &
record=$!
is "$(writes format 1)" 0/ "records of a transform are passed on"
unset FLUX_STREAM_CONFIG
wait $tee
wait $record
is "$("$FLUX" stream cat --json --file --var=mark copy.rec | sed 's/.*"values"://; s/}$//')" "$mark" "and recorded"
config view "at-reader='$PWD/heavy.so'"
"$FLUX" stream record --count=1 view view.rec &
record=$!
wait_until 20 has view readers 1
is "$(writes view 1)" 0/ "records that a reader makes"
unset FLUX_STREAM_CONFIG
wait $record
for var in atom mark name warm; do
    is "$("$FLUX" stream cat --json --file --var=$var view.rec | sed 's/.*"values"://; s/}$//')" "${!var}" "are recorded: $var"
done

# What Lua can do with records.
cat >all.lua <<'END'
local kept
local function equal(a, b)
    assert(#a == #b, #a .. " and not " .. #b)
    for i, record in ipairs(b) do
        for name, value in pairs(record) do
            assert(a[i - 1][name] == value, name)
        end
    end
end
transform(function(s)
    local atoms, cells = s:get("atom", 1, 0), s:get("cell")
    -- A part by the positions of a threshold, or of a table, with repetitions.
    local _, where = s:get("cell.x"):threshold(2)
    local hot = cells:select(where)
    assert(#hot == 2 and hot[0].x == 2 and hot[1].hot and #cells:select({}) == 0)
    equal(cells:select({ 3, 0, 3 }), { cells[3], cells[0], cells[3] })
    -- Another format: wider, with defaults, without a field.
    local wide = cells:convert("record cell\nfield x i64\nfield heat f64\nattr default \"1.5\"\n")
    assert(wide[3].x == 3 and wide[3].heat == 1.5 and wide[3].hot == nil)
    assert(wide.shape[1] == 4 and atoms.offset == nil)
    -- Arrays bring their sizes; names are nested as they were.
    local near = atoms:fields("near")
    assert(near[0].n == 2 and near[0].near[1] == 0.5 and near[0].id == nil and #near[1].near == 0)
    assert(atoms:fields("mass", "id").format == atoms:fields("id", "mass").format)
    -- A copy stays; so do records that were made.
    if s.number == 0 then
        kept = atoms:copy():select({ 1 })
    end
    assert(kept[0].name == "Zn" and kept[0].mass == 3.25)
    local ok = records("record r\nfield n u8\nfield a string[n]\n", { { a = { "x", "yz" } }, { a = {} } })
    assert(#ok == 2 and ok[0].n == 2 and ok[0].a[2] == "yz" and #ok[1].a == 0)
    s:put("hot", hot)
    s:put("wide", wide)
    s:put("near", near)
    s:put("kept", kept)
    s:put("both", atoms:select({ 1, 0 }))
    s:put("made", ok)
    s:put("one", records("record one\nfield x f32\n", { x = 0.5 }))
    s:put("none", records("record one\nfield x f32\n", {}))
end)
END
cat >more.lua <<'END'
transform(function(s)
    s:keep()
    assert(s:get("made")[1].n == 0 and s:get("kept.mass")[0] == 3.25 and s:get("wide.heat"):sum() == 6)
    s:put("again", s:get("made"):select({ 0 }))
end)
END
for var in hot wide near kept both made one none again; do
    reads lua-$var lua $var --transforms="all.lua | more.lua"
done
is "$(writes lua 9)" 0/ "records are written for Lua"
values lua-hot
is "$values" '0/[{"x":2,"hot":true},{"x":3,"hot":true}]' "records at the positions of a threshold"
values lua-wide
is "$values" "0/[$(printf ',{"x":%d,"heat":1.5}' 0 1 2 3 | cut -c 2-)]" "records of another format"
values lua-near
is "$values" '0/[{"n":2,"near":[0.5,1.5]},{"n":0,"near":[]}]' "a projection has the sizes of its arrays"
values lua-kept
is "$values" "0/$atom" "a copy"
values lua-both
is "$values" "0/[${atom:1:-1},${first%,\"at\"*}}]" "records in another order"
values lua-made
is "$values" '0/[{"n":2,"a":["x","yz"]},{"n":0,"a":[]}]' "records that Lua has made"
values lua-one
is "$values" '0/[{"x":0.5}]' "one record"
values lua-none
like "$values" '^0/.*"bytes":0$' "no records"
values lua-again
is "$values" '0/[{"n":2,"a":["x","yz"]}]' "those of the transform before"

# What is wrong in Lua is told with its line.
n=0
while IFS=\| read -r code why; do
    n=$((n + 1))
    printf 'local old\ntransform(function(s)\n%s\nend)\n' "$code" >bad.lua
    "$FLUX" stream cat --transforms=bad.lua "bad$n" >bad.out 2>&1 &
    bad=$!
    is "$(writes "bad$n" 1)" 0/ "a writer does not notice: $why"
    wait $bad
    is $? 1 "that ends the subscription"
    like "$(cat bad.out)" "step 0 of stream 'bad$n': bad.lua:3: .*$why" "it is told"
done <<'END'
s:get("atom"):fields()|no field of format atom is picked
s:get("atom"):fields("none")|records of format atom have no field 'none'
s:get("atom"):fields("id.x")|field atom.id is not a record
s:get("atom"):convert("record atom\nfield id u8\n")|field atom.id is of type u8, and of type u64 at the writer
s:get("atom"):convert("record atom\nfield id u65\n")|line 2 of the text of a format
s:get("atom"):select({ 2 })|position 1 is 2.0+, and there are 2 records
s:get("atom"):select({ 0, -1 })|position 2 is -1.0+, and
s:get("atom"):select({ 0.5 })|position 1 is 0.5, and
s:get("atom"):select(s:get("cell.x"))|position 3 is 2.0+, and
s:get("atom"):select(7)|table expected
s:get("atom"):select(function(a) return a.none.x end)|attempt to index
s:put("r", records("record r\nfield x u8\n", { { x = 256 } }))|field r.x of type u8: element 0 is 256
s:put("r", records("record r\nfield x u8\n", { {} }))|field r.x has no value
s:put("r", records("record r\nfield x u8\n", { 1 }))|record 1 is not a table
s:put("r", records("record r\nfield x *r\n", { x = 1 }))|field r.x is not a table
local t = {} t.x = t s:put("r", records("record r\nfield x *r\n", t))|more than 256 inside each other
records("flux-format 1 pointers 4\nrecord r size 4 align 4\nfield s string at 0\n", {})|not one of structs of this host
for i = 1, 1 << 20 do s:get("atom"):convert("record r" .. i .. "\nfield id u64\n") end|computes for too long
END
# Records of an input are gone with their step.
cat >stale.lua <<'END'
local old
transform(function(s)
    if old then return old[0] == nil end
    old = s:get("r0")
    s:keep()
end)
END
"$FLUX" stream cat --transforms=stale.lua stale >stale.out 2>&1 &
stale=$!
ok "two steps of records" "$RECORDS" write stale 1 2
wait $stale
is "$?/$(tail -n 1 stale.out)" \
    "1/flux stream cat: step 1 of stream 'stale': stale.lua:3: the records belong to an earlier step: keep a copy of them" \
    "records of an earlier step are refused"

# Fields of records that another transform has made.
cat >fields.lua <<'END'
transform(function(s)
    s:put("x", s:get("mark.at.x"))
    s:put("id", s:get("atom.id"))
end)
END
"$FLUX" stream cat --var=x --slice=: fields --transforms="heavy.so | fields.lua" >x.out &
x=$!
"$FLUX" stream cat --var=id --slice=: fields --transforms="heavy.so | fields.lua" >id.out &
id=$!
is "$(writes fields 2)" 0/ "records for two transforms"
wait $x $id
is "$(cat x.out)/$(cat id.out)" $'0\t2.0/0\t2' "a transform gets fields of records that the one before has made"

# What is wrong with records is told, with the variable.
while read -r n why; do
    "$FLUX" stream cat --transforms="heavy.so:wrong=$n" "wrong$n" >"wrong$n.out" 2>&1 &
    wrong=$!
    is "$(writes "wrong$n" 1)" 0/ "a writer does not notice mistake $n of a transform"
    wait $wrong
    is $? 1 "that ends the subscription"
    like "$(cat "wrong$n.out")" "step 0 of stream 'wrong$n': ./heavy.so: $why" "it is told"
done <<'END'
1 variable 'mark': records without a format
2 variable 'mark': its format: line 2
3 variable 'mark': field mark.name is or has a string that is NULL
4 variable 'mark': field mark.next points to a struct .*: records are trees
5 variable 'mark': records of format mark have pointers, and cannot be elements of a global array
6 variable 'atom' in step 0 of stream 'wrong6': field atom.id is of type i8, and of type u64 at the writer
7 .*no variable 'number'
8 variable 'mark': its format: format r is not one of structs of this host
9 variable 'mark': field mark.near is NULL, but has elements
10 variable 'mark': type 'record' with 17 dimensions is not possible
END
config detached "at-writer='$PWD/heavy.so:wrong=3'"
reads detached detached atom
is "$(writes detached 1)" 0/ "a writer goes on without a transform that puts records that are wrong"
unset FLUX_STREAM_CONFIG
values detached
like "$values" '"name":"Cu"' "readers see what it has put"
logged() { # PATTERN
    "$FLUX" dmesg | grep -q "$1"
}
ok "the log says why" wait_until 20 logged "step 0 of stream 'detached': .*variable 'mark': field mark.name"

release
is "$status" 0 "the session ends well"
finish
