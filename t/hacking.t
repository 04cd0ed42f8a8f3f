#!/usr/bin/env bash
# The programs of doc/hacking.rst: compiled with the public headers alone, and run as the page says.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need cc
need_flux start module event queue stream

# As installed: public headers in the directories where an installation has them.
mkdir -p include/libflux include/libschema include/libstream include/libutil include/flux bin
cp "$SRCDIR"/src/common/libstream/stream.h include/flux/
cp "$SRCDIR"/src/common/libflux/{attr,dispatch,event,flux,future,handle,handover,log,module,msg,reactor}.h include/libflux/
cp "$SRCDIR"/src/common/libschema/schema.h include/libschema/
cp "$SRCDIR"/src/common/libutil/errmsg.h include/libutil/
cp "$SRCDIR"/src/common/libstream/{convert,elem,encode,format}.h include/libstream/
source=$SRCDIR/doc/hacking
strict=(-Wall -Wextra -Wno-unused-parameter -Werror -std=gnu11 -Iinclude)

ok "the module compiles" cc "${strict[@]}" -shared -fPIC -o greet.so "$source/greet.c" "$source/greet_wire.c"
# An instrumented library needs its run-time library in each program that uses it.
extra=()
if ldd "$BUILDDIR/src/.libs/libflux.so" | finds -E 'lib(a|ub|t)san'; then
    extra=("-fsanitize=address,undefined")
fi
ok "the command compiles" cc "${strict[@]}" "${extra[@]}" -o bin/flux-greet "$source/flux-greet.c" \
    "$source/greet_wire.c" -L"$BUILDDIR/src/.libs" -lflux -ljansson
for name in heat_write heat_read atoms; do
    ok "$name compiles" cc "${strict[@]}" "${extra[@]}" -o bin/$name "$source/$name.c" \
        -L"$BUILDDIR/src/.libs" -lflux -ljansson
done
export LD_LIBRARY_PATH=$BUILDDIR/src/.libs PATH=$PWD/bin:$PATH

hold 2
ok "the module is loaded" "$FLUX" module load --all ./greet.so
"$FLUX" event sub --count=1 greet. >said &
sub=$!
greeted() {
    "$FLUX" greet Ada >greeting && [ -s said ]
}
ok "its event is heard" wait_until 20 greeted
wait "$sub"
like "$(cat said)" 'greet\.said.*"text":"good day, Ada, from rank 0"' "with the greeting"
is "$(cat greeting)" "good day, Ada, from rank 0" "the command prints it, too"
exits 1 "an empty name" "$FLUX" greet ""
like "$err" 'the name is empty: say whom to greet' "is refused with the sentence of the module"
exits 2 "the command without a name" "$FLUX" greet
ok "the module is unloaded" "$FLUX" module unload --all greet
exits 1 "then the command" "$FLUX" greet Ada
like "$err" "service 'greet'" "says that there is no such service"
exits 1 "an argument" "$FLUX" module load ./greet.so loudly
like "$err" "no argument|NAME=VALUE" "is refused"

heat_write &
writer=$!
run heat_read
wait "$writer"
is "$?$status" 00 "a stream is written and read"
is "$(wc -l <<<"$out") $(tail -n 1 <<<"$out")" "10 9 25.00" "with all of its steps"
readers() {
    "$FLUX" stream ls --json hot | grep -q '"readers": 1'
}
"$FLUX" stream transform heat --out=hot --lua="$source/hot.lua" &
transform=$!
"$FLUX" stream cat --var=mean hot >hot.out &
cat=$!
wait_until 20 readers
ok "a stream is written" heat_write
wait "$transform"
is "$?" 0 "a transform in Lua"
wait "$cat"
is "$(wc -l <hot.out)" 4 "makes another stream of it"
atoms write &
writer=$!
run atoms read
wait "$writer"
is "$?$status" 00 "records are written and read"
is "$out" "atom 1: Cu, charge 0,
atom 2: Cu, charge 0, 0.5
atom 3: Cu, charge 0, 0.5 1.5" "by a program with another struct"
"$FLUX" stream cat --var=crowded --transforms="$source/crowded.lua" atoms >crowded.out &
crowded=$!
atoms write
wait "$crowded"
is "$?/$(cut -f 6 crowded.out | tr '\n' ' ')" '0/ [{"id":2,"n":1,"near":[0.5]}] [{"id":3,"n":2,"near":[0.5,1.5]}] ' \
    "a transform in Lua filters and projects them"
"$FLUX" stream cat --var=summary --transforms="$source/crowded.lua" atoms >crowded.out &
crowded=$!
atoms write
wait "$crowded"
is "$?/$(cut -f 6 crowded.out | tr '\n' ' ')" \
    '0/[{"atoms":0,"nearest":null}] [{"atoms":1,"nearest":0.5}] [{"atoms":1,"nearest":0.5}] ' "and makes others"

ok "the policy is taken" "$FLUX" queue policy --queue="$source/narrow.lua" --nodes="$source/narrow.lua"
"$FLUX" queue policy >policies
like "$(cat policies)" 'queue +narrow' "and used"

release
is "$status" 0 "the session ends in order"
finish
