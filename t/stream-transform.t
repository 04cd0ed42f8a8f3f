#!/usr/bin/env bash
# Transforms of streams: Lua and shared objects, chained and joined; what fails, and what does not fail with it.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need cc
need_flux start stream
PEER=$BUILDDIR/t/stream/peer

mkdir -p include/flux
cp "$SRCDIR/src/common/libstream/stream_transform.h" include/flux/
for std in c99 c11; do
    ok "a transform is built with the installed header alone, as $std" cc -Wall -Wextra -Werror -std=$std -shared -fPIC \
        -Iinclude -o decimate.so "$SRCDIR/t/stream/decimate.c"
done
sed 's/FLUX_TRANSFORM_ABI, /99, /' "$SRCDIR/t/stream/decimate.c" >other.c
cc -shared -fPIC -Iinclude -o other.so other.c
echo 'const int nothing = 1;' >empty.c
cc -shared -fPIC -o empty.so empty.c
crystal=$SRCDIR/t/stream/crystal.lua
# What crystal.lua makes of the steps of a peer: element (i, k) of T is 1000000 * step + 1000 * i + k.
cat >check.lua <<'END'
local function equal(a, ...)
    local want = { ... }
    assert(#a == #want, #a .. " elements")
    for i, value in ipairs(want) do
        assert(a[i - 1] == value, tostring(a[i - 1]) .. " and not " .. tostring(value))
    end
end
transform(function(s)
    local n = s:get("number")[0]
    local T = 1000000 * n
    assert(n == s.number and #s:names() == 15 and s.inputs == 1)
    equal(s:get("mean"), T + 3505.5)
    equal(s:get("range"), T, T + 7011)
    equal(s:get("histogram"), 24, 24, 24, 24)
    equal(s:get("hot"), T + 7010, T + 7011)
    equal(s:get("where"), 94, 95)
    assert(s:get("where").type == "i32" and s:get("hot").type == "f64")
    equal(s:get("part"), T, T + 3, T + 6, T + 9, T + 4000, T + 4003, T + 4006, T + 4009)
    local shape = s:get("turned").shape
    assert(#shape == 2 and shape[1] == 3 and shape[2] == 2)
    equal(s:get("turned"), T + 1000, T + 2000, T + 1001, T + 2001, T + 1002, T + 2002)
    equal(s:get("columns"), T, T + 1000, T + 1, T + 1001)
    equal(s:get("columns"):rows(), T, T + 1, T + 1000, T + 1001)
    equal(s:get("sum"), 96 * (1000000 * n * (n + 1) / 2 + 3505.5 * (n + 1)))
    equal(s:get("scaled"), T / 2 - 1, T / 2 - 0.5)
    equal(s:get("from"), 0, 1, 3, 4)
    equal(s:get("near"), 1, 0, 2, 1)
    assert(table.concat(s:get("names"):table()) == "n data T")
    assert(s:get("last")[0] == true and s:get("last").type == "bool")
    s:put("checked", s:get("number"))
    s:put("columns", s:get("columns"))
    s:put("none", array("u8", {}))
end)
END

hold 1 --set=modules=log,barrier,stream
declare -A pid
peer() { # NAME ARGUMENT...: in the background, with a FIFO as its input
    local name=$1
    shift
    rm -f "$name.in"
    mkfifo "$name.in"
    "$PEER" "$@" <>"$name.in" >"$name.out" &
    pid[$name]=$!
    wait_until 20 grep -q open "$name.out"
}
transform() { # NAME ARGUMENT...: in the background
    local name=$1
    shift
    "$FLUX" stream transform "$@" 2>"$name.err" &
    pid[$name]=$!
}
ended() {
    wait "${pid[$1]}"
    status=$?
}
joined() { # PID: a reader in shared memory is joined when it has a lane
    wait_until 20 grep -q flux-stream-lane "/proc/$1/maps"
}

# Two files in Lua, and what they make.
peer w write src 4 0 1 ready=1 wait=1
transform t src --out=result --lua="$crystal" --lua=check.lua
"$FLUX" stream cat result >result.out &
cat=$!
"$FLUX" stream cat --var=columns --slice=0,: result >slice.out &
slice=$!
joined $cat
joined $slice
echo go >w.in
ended t
is "$status/$(cat t.err)" 0/ "a chain of transforms in Lua ends with its input"
wait $cat
is "$(grep -c checked result.out)" 3 "each step has a result but the one that is dropped"
like "$(cat result.out)" $'0\t0\tchecked\t8\ti64\\[\\]' "values keep their type"
like "$(cat result.out)" $'2\t0\tcolumns\t32\tf64\\[2,2\\] at 0,0 of 2,2' "arrays are global ones"
like "$(cat result.out)" $'2\t0\tnone\t0' "an array may be empty"
wait $slice
is "$(head -n 1 slice.out)" $'0\t1000000.0 1000001.0' "a slice of them"
ended w
is "$status" 0 "the writer ends well"

# Steps that two inputs have.
cat >join.lua <<'END'
transform(function(s)
    assert(s.inputs == 2 and s:get("n", 1)[0] == s:get("n", 2)[0])
    s:put("sum", s:get("T"):sum() + s:get("T", 2):sum())
    s:put("n", s:get("n", 2, 0))
end)
END
peer a write a 6 0 1 keep=2 hold=1
wait_until 20 grep -q written a.out
peer b write b 6 0 1 ready=1 wait=1
transform t a b --out=joined --lua=join.lua
"$FLUX" stream cat --var=n --raw joined >joined.out &
cat=$!
joined $cat
echo go >b.in
echo go >a.in
wait $cat
is "$(od -An -tu8 joined.out | tr -s ' \n' ' ')" " 4 5 " "two streams are joined by step"
ended t
is "$status" 0 "until one of them ends"
ended a
ended b

# A shared object, in a group.
peer w write src 5 0 1 ready=1 wait=2 drain=1
transform t1 src --out=less1 --so=decimate.so:3 --group=g
transform t2 src --out=less2 --so="$PWD/decimate.so:3" --group=g
"$FLUX" stream cat less1 >less1.out &
cat1=$!
"$FLUX" stream cat less2 >less2.out &
cat2=$!
joined $cat1
joined $cat2
echo go >w.in
ended w
is "$status" 0 "members of a group have done all steps of a writer"
ended t1
is "$status" 0 "a transform in C"
ended t2
wait $cat1 $cat2
is "$(cut -f 3-5 less1.out less2.out | sort | uniq -c | tr -s ' \t' ' ')" \
    $' 3 T 768 f64[8,12] at 0,0 of 8,12\n 3 data 33334\n 3 n 3' "makes a smaller stream, of even steps"

# The output continues a stream that others have written, or begins it anew.
echo 'transform(function(s) s:put("n", s:get("n")) end)' >same.lua
"$FLUX" stream cat --stay --var=n run >run.out &
cat=$!
lanes() { # COUNT: of the reader; those of former writers stay
    [ "$(grep -c flux-stream-lane /proc/$cat/maps)" -ge "$1" ]
}
n=0
for start in append append anew; do
    peer w write src 2 0 1 ready=1 wait=1
    transform t src --out=run --$start --lua=same.lua
    n=$((n + 1))
    wait_until 20 lanes $n
    echo go >w.in
    ended t
    is "$status/$(cat t.err)" 0/ "flux stream transform --$start"
    ended w
done
seen() {
    [ "$(cut -f 1 run.out | tr '\n' ' ')" = "0 1 2 3 0 1 " ]
}
ok "goes on with the numbers, or begins with 0" wait_until 20 seen
"$FLUX" stream rm run
wait $cat

# What fails is told with step and line; the stream goes on.
peer w write three 3 0 1 keep=3 hold=1
wait_until 20 grep -q written w.out
failing() { # WHAT PATTERN: the file is standard input
    cat >fail.lua
    exits 1 "$1" "$FLUX" stream transform three --out=failed --lua=fail.lua
    like "$err" "$2" "is told with step and line"
}
failing "a variable that is not there" "step 1 of stream 'three': fail.lua:2: .*no variable 'none'" <<'END'
transform(function(s)
    if s.number == 1 then s:get("none") end
end)
END
failing "a transform without an end" "step 0 of stream 'three': fail.lua:1: .*computes for too long" <<'END'
transform(function(s) while true do end end)
END
failing "a transform that wants too much memory" "step 0 of stream 'three': .*not enough memory" <<'END'
transform(function(s) s:put("text", ("x"):rep(1 << 30)) end)
END
failing "an array of a step that has ended" "step 1 of .*: fail.lua:4: the array belongs to an earlier step" <<'END'
local T
transform(function(s)
    if not T then T = s:get("T") return end
    s:put("T", T)
end)
END
failing "a step that has ended" "step 1 of .*: fail.lua:3: the step has ended" <<'END'
local first
transform(function(s)
    if first then first:put("a", 1) end
    first = s
end)
END
failing "a name twice" "fail.lua:1: variable 'a' was put before" <<'END'
transform(function(s) s:put("a", 1) s:put("a", 2) end)
END
failing "numbers of bytes" "fail.lua:1: an array of bytes has no numbers" <<'END'
transform(function(s) return s:get("data"):max() end)
END
failing "a box outside of the array" "fail.lua:1: dimension 1 has 12 elements" <<'END'
transform(function(s) return s:get("T"):box({0, 0}, {1, 13}) end)
END
failing "a value that does not fit" "fail.lua:1: number 2: element 0 is 256, which is not a value of u8" <<'END'
transform(function(s) return array("u8", {1, 256}) end)
END
failing "another shape than elements" "fail.lua:1: the table has 3 elements" <<'END'
transform(function(s) return array("u8", {1, 2, 3}, {2, 2}) end)
END
failing "a file without a function" "does not call transform" <<'END'
local x = 1
END
failing "a file with an error" "transform fail.lua: fail.lua:3:.*expected" <<'END'
transform(function(s)
end
END
failing "no files for a transform" "fail.lua:1: .*io" <<'END'
io.open("/etc/passwd")
END
echo 'transform(function(s) s:get("none") end)' >fail.lua
exits 1 "a variable that the transform before has not made" \
    "$FLUX" stream transform three --out=failed --lua="$crystal" --lua=fail.lua
like "$err" "step 1 of stream 'three': fail.lua:1: .*crystal.lua has made no variable 'none'" "says which one"
exits 1 "a transform in C that fails" "$FLUX" stream transform three --out=failed --lua="$crystal" --so=decimate.so:2
like "$err" "step 2 of stream 'three': ./decimate.so: step 2 has too many variables" "says which one and why"
echo go >w.in
ended w
is "$status" 0 "the writer has not noticed"

exits 1 "an argument that is wrong" "$FLUX" stream transform x --out=y --so=decimate.so:0
like "$err" "transform ./decimate.so: it needs a number" "is told"
exits 1 "a shared object that is not a transform" "$FLUX" stream transform x --out=y --so=empty.so
like "$err" "does not export flux_transform" "is refused"
exits 1 "a transform of another interface" "$FLUX" stream transform x --out=y --so=other.so
like "$err" "built for version 99" "is refused"
chmod 777 empty.so
exits 1 "a shared object that others can write" "$FLUX" stream transform x --out=y --so=empty.so
like "$err" "transform .*empty.so" "is refused"
exits 1 "a file that is not there" "$FLUX" stream transform x --out=y --lua=nothing.lua
like "$err" "cannot be read" "is told"
exits 2 "no output" "$FLUX" stream transform x --lua=check.lua
exits 2 "no transform" "$FLUX" stream transform x --out=y
exits 2 "no input" "$FLUX" stream transform --out=y --lua=check.lua
exits 2 "a group of two inputs" "$FLUX" stream transform x y --out=z --group=g --lua=check.lua
exits 1 "an input that nobody writes" "$FLUX" stream transform x --out=y --lua=check.lua --timeout=10ms
like "$err" "nobody has written stream 'x'" "is told"

release
is "$status" 0 "the session ends well"
finish
