#!/usr/bin/env bash
# Streams: records of random formats, from C through shared memory, TCP and recordings.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
. "$SRCDIR/t/stream/lib.sh"

RECORDS=$BUILDDIR/t/stream/records
SEED=${SEED:-20261126}
STEPS=20
note "SEED=$SEED"

hold 2 --set=modules=log,barrier,stream
uri1=$("$FLUX" getattr --rank=1 uri)

for transport in ring tcp; do
    FLUX_STREAM_TRANSPORT=$transport FLUX_URI=$uri1 "$RECORDS" write "live-$transport" "$SEED" $STEPS &
    writer=$!
    ok "records of a writer are read by $transport" \
        env FLUX_STREAM_TRANSPORT=$transport "$RECORDS" read "live-$transport" "$SEED" $STEPS
    wait $writer
    is $? 0 "the writer ends well"
done

# A recording in both byte orders, with pointers of both sizes; replayed, passed on, and recorded again.
ok "records in both byte orders are recorded" "$RECORDS" record random.rec "$SEED" $STEPS
for transport in ring tcp; do
    "$FLUX" stream record --count=$STEPS copy-$transport "$transport.rec" &
    record=$!
    "$FLUX" stream tee --count=$STEPS --readers=1 random copy-$transport &
    tee=$!
    FLUX_STREAM_TRANSPORT=$transport "$RECORDS" read random "$SEED" $STEPS &
    reader=$!
    wait_until 20 has random readers 2
    ok "a recording is replayed by $transport" \
        env FLUX_STREAM_TRANSPORT=$transport "$FLUX" stream replay --rate=max --readers=2 random.rec
    wait $reader
    is $? 0 "its records are read as structs of this host"
    wait $tee
    is $? 0 "they are passed on"
    wait $record
    is $? 0 "and recorded again"
    for var in r0 r1 r2 r3; do
        "$FLUX" stream cat --json --file --var=$var random.rec >random.json
        "$FLUX" stream cat --json --file --var=$var $transport.rec >$transport.json
        ok "$var is the same" cmp random.json $transport.json
    done
    is "$(wc -l <$transport.json)" $STEPS "in all steps"
done

# Python reads the same, and writes it again.
if [ -e "$BUILDDIR/src/bindings/python/lib/flux/_libflux.so" ]; then
    # shellcheck source=t/python/lib.sh
    . "$SRCDIR/t/python/lib.sh"
    "$RECORDS" print "$SEED" $STEPS >expected.json
    ok "Python reads all values" "$PYTHON" "$SRCDIR/t/stream/records.py" check random.rec expected.json
    for transport in ring tcp; do
        "$PYTHON" "$SRCDIR/t/stream/records.py" copy random.rec python-$transport &
        writer=$!
        ok "what Python writes is read in C by $transport" \
            env FLUX_STREAM_TRANSPORT=$transport "$RECORDS" read python-$transport "$SEED" $STEPS
        wait $writer
        is $? 0 "and has been written"
    done
fi

# So does Lua.
if [ -e "$BUILDDIR/src/bindings/lua/.libs/flux.so" ]; then
    # shellcheck source=t/lua/lib.sh
    . "$SRCDIR/t/lua/lib.sh"
    mkfifo lua.in
    "$LUA" "$SRCDIR/t/stream/records.lua" lua-from lua-to <>lua.in &
    writer=$!
    wait_until 20 has lua-from readers 1
    ok "a recording is replayed for Lua" "$FLUX" stream replay --rate=max --name=lua-from random.rec
    ok "what Lua writes is read in C" "$RECORDS" read lua-to "$SEED" $STEPS
    echo 1<>lua.in
    wait $writer
    is $? 0 "and has been written"
fi

# The formats of a stream, which a reader that comes late asks for.
mkfifo held.in
"$RECORDS" write held "$SEED" 1 hold <>held.in >held.out &
writer=$!
ok "a reader reads the first step" "$RECORDS" read held "$SEED" 1
run "$FLUX" stream format held
is "$status/$(grep -c '^flux-format 1 pointers 8$' <<<"$out")" 0/4 "flux stream format prints the formats of all variables"
ids=$(sed -n 's/^\([0-9a-f]\{16\}\):$/\1/p' <<<"$out")
for id in $ids; do
    text=$(sed -n "/^$id:/,/^[0-9a-f]\{16\}:/p" <<<"$out" | sed '/^[0-9a-f]\{16\}:$/d')
    is "$(sha256sum <<<"$text" | cut -c 1-16)" "$id" "and their ids"
done
echo 1<>held.in
wait $writer
exits 1 "the format of a stream that is gone" "$FLUX" stream format held

# The formats outlive the module.
"$RECORDS" write reloaded "$SEED" 2 hold 1 <>held.in >reloaded.out &
writer=$!
ok "a reader has its first step" "$FLUX" stream cat --count=1 --timeout=20s reloaded
"$FLUX" module reload stream
echo 1<>held.in
wait $writer
is $? 0 "a writer goes on when the module is reloaded"

# JSON.
atoms='[{"id":1,"n":2,"near":[0.5,1.5],"name":"Cu","mass":null},{"id":2,"n":0,"near":[],"name":"Zn","mass":3.25}]'
"$FLUX" stream cat --var=atom atoms >atoms.out &
cat=$!
"$FLUX" stream cat --var=atom --json atoms >atoms.json &
json=$!
"$FLUX" stream cat --var=cell --slice=1:3 atoms >cell.json &
slice=$!
"$FLUX" stream cat atoms >lines.out &
lines=$!
wait_until 20 has atoms readers 4
ok "atoms are written" "$RECORDS" atoms atoms 4
wait $cat $json $slice $lines
like "$(cat atoms.out)" $'^0\t0\tatom\t[0-9]+\trecord\\[2\\]\t' "flux stream cat --var says that a variable has records"
is "$(cut -f 6 atoms.out)" "$atoms" "and prints them as JSON"
like "$(cat atoms.json)" '"id":"[0-9a-f]{16}","format":"atom","values":' "so does --json"
is "$(cat cell.json)" '{"step":0,"name":"cell","format":"cell","values":[{"x":1,"hot":false},{"x":2,"hot":true}]}' \
    "and a slice of a global array"
is "$(cut -f 1-3,5 lines.out)" $'0\t0\tatom\trecord[2]\n0\t0\tcell\trecord[4] at 0 of 4' \
    "without --var they are described"

# Projections of records in a transform.
cat >project.lua <<'END'
transform(function(s)
    s:put("id", s:get("atom.id", 1, 0))
    s:put("mass", s:get("atom.mass"))
    s:put("x", s:get("cell.x"):scale(0.5))
    s:put("hot", s:get("cell.hot"))
end)
END
"$FLUX" stream transform projected --out=fields --lua=project.lua &
transform=$!
for var in id mass x hot; do
    "$FLUX" stream cat --var=$var --slice=: fields >$var.out &
    cats="${cats-} $!"
done
wait_until 20 has projected readers 1
wait_until 20 has fields readers 4
"$FLUX" stream record --count=1 projected atoms.rec &
record=$!
wait_until 20 has projected readers 2
ok "records are written for a transform" "$RECORDS" atoms projected 2
wait $record
wait $transform
is $? 0 "a transform takes fields of records"
# shellcheck disable=SC2086 # numbers
wait $cats
is "$(cut -f 2 id.out)/$(cut -f 2 mass.out)" "1 2/0.0 3.25" "of a local array"
is "$(cut -f 2 x.out)/$(cut -f 2 hot.out)" "0.0 0.5 1.0 1.5/false false true true" "and of a global one"
while read -r name why; do
    echo "transform(function(s) s:get('$name') end)" >bad.lua
    "$FLUX" stream replay --name="bad.$name" atoms.rec &
    replay=$!
    exits 1 "a transform that gets $name" "$FLUX" stream transform "bad.$name" --out=bad.out --lua=bad.lua
    like "$err" "step 0 of stream 'bad.$name': .*$why" "fails: $why"
    wait $replay
done <<'END'
atom.near not a number
atom.none no field 'none'
atom.id.x field atom.id is not a record
none.id no variable 'none.id'
END

release
finish
