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
values() { # NAME: wait for it, and print the values of its only step
    wait "${pid[$1]}"
    echo "$?/$(sed 's/.*"values"://; s/}$//' "$1.out")$(cat "$1.err")"
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
    is "$(values "$2-atom")" "0/$atom" "$1, records are filtered, with all that they point to"
    is "$(values "$2-mark")" "0/$mark" "$1, they are made: nested, optional, of variable size"
    is "$(values "$2-name")" "0/$name" "$1, they are projected"
    is "$(values "$2-warm")" "0/$3" "$1, those without pointers are a global array"
}
readers() { # PREFIX STREAM [ARGUMENT...]
    local prefix=$1 stream=$2 var
    shift 2
    for var in atom mark name warm; do
        reads "$prefix-$var" "$stream" $var "$@"
    done
}
for transport in ring tcp; do
    export FLUX_STREAM_TRANSPORT=$transport
    readers reader-$transport reader-$transport --transforms=heavy.so
    is "$(writes reader-$transport 4)" 0/ "records are written ($transport)"
    all "at a reader ($transport)" reader-$transport "$warm"

    config writer-$transport "at-writer='$PWD/heavy.so'"
    readers writer-$transport writer-$transport
    is "$(writes writer-$transport 4)" 0/ "records are transformed as they are written ($transport)"
    unset FLUX_STREAM_CONFIG
    all "at a writer ($transport)" writer-$transport "$warm"

    config result-$transport "readers='4'" # which are waited for
    "$FLUX" stream transform own-$transport --out=result-$transport --so=heavy.so &
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
reads pieces pieces mark
"$FLUX" stream cat --var=warm --slice=1:7 --json pieces >slice.out &
slice=$!
"$RECORDS" atoms pieces 2 1 2 &
other=$!
"$RECORDS" atoms pieces 2 0 2
is $? 0 "the first of two writers"
wait $other
is $? 0 "and the second one"
unset FLUX_STREAM_CONFIG
is "$(values pieces)" "0/$mark"$'\n'"$mark" "each has its records"
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
6 variable 'atom' of stream 'wrong6': field atom.id is of type i8, and of type u64 at the writer
7 .*no variable 'number'
8 variable 'mark': its format: format r is not one of structs of this host
9 variable 'mark': field mark.near is NULL, but has elements
10 variable 'mark': type 'record' with 17 dimensions is not possible
END
config detached "at-writer='$PWD/heavy.so:wrong=3'"
reads detached detached atom
is "$(writes detached 1)" 0/ "a writer goes on without a transform that puts records that are wrong"
unset FLUX_STREAM_CONFIG
like "$(values detached)" '"name":"Cu"' "readers see what it has put"
logged() { # PATTERN
    "$FLUX" dmesg | grep -q "$1"
}
ok "the log says why" wait_until 20 logged "step 0 of stream 'detached': .*variable 'mark': field mark.name"

release
is "$status" 0 "the session ends well"
finish
