#!/usr/bin/env bash
# flux kvs: every command with its options, what is a usage error, exit codes, JSON.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start kvs

# $out is JSON, and of it, v, the Python expression $1 is true.
json() {
    if ! command -v python3 >/dev/null; then
        skip 1 "no python3"
    elif [ "$(python3 -c 'import json, sys; v = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" \
        <<<"$out" 2>&1)" = True ]; then
        pass "$2"
    else
        note "not true: $1 of: $(head -c 1000 <<<"$out")" >&2
        fail "$2"
    fi
}

# --- without a session ---

exits 2 "no command" kvs
exits 2 "a command that does not exist" kvs nonsense
for name in get put dir ls unlink mkdir link readlink copy move watch version wait stats dropcache \
    gc dump restore "namespace create" "namespace remove" "namespace list"; do
    # shellcheck disable=SC2086 # two words are meant
    ok "$name --help" kvs $name --help
    like "$out" "Usage: +flux kvs $name" "shows its use"
    # shellcheck disable=SC2086
    exits 2 "$name with an option that it does not have" kvs $name --nonsense
done
ok "namespace --help" kvs namespace --help
for args in get put unlink mkdir "link a" "link a b c" readlink "copy a" "copy a b c" "move a" watch \
    "watch a b" wait "wait 1 2" "version 1" "stats 1" "dropcache 1" "gc 1" "ls a b" "dir a b" dump \
    "dump a b" restore "restore a b" namespace "namespace nonsense" "namespace create" \
    "namespace remove" "namespace list x"; do
    # shellcheck disable=SC2086
    exits 2 "the operands of '$args'" kvs $args
done
for args in "put a" "put =1" "put a=1 b" "put a=- b=-" "wait x" "wait -1" \
    "wait 18446744073709551615" "wait -t x 1" "watch -c 0 a" "watch -c x a" "watch -t x a" \
    "watch -R --append a" "get -N a/b x" "put --if-tag=t a=1 b=2" "copy --if-tag=t a b" \
    "namespace create a/b" "namespace remove a/b" "namespace create --rank=x a" \
    "namespace create --owner=no/body a" "restore --at-key=a..b x"; do
    # shellcheck disable=SC2086
    exits 2 "wrong: $args" kvs $args
    like "$err" "^flux kvs [a-z ]*: .*; try 'flux kvs [a-z ]*--help'" "with a sentence"
done
FLUX_KVS_NAMESPACE='a b' exits 2 "a bad name in the environment" kvs ls
like "$err" FLUX_KVS_NAMESPACE "is told from where it comes"
for args in "get a" "put a=1" "ls" "dir" "version" "namespace list" "dump -" "watch a" "gc"; do
    # shellcheck disable=SC2086
    exits 1 "$args without a session" kvs $args
    like "$err" 'not inside a session' "says so"
done

hold 2 --set=modules=log,hb,barrier,kvs,wrexec

# --- put and get ---

ok "put of several" kvs put a=1 b.c=two b.d='x=y' e=
is "$out" "" "says nothing"
is "$(kvs get a b.c b.d)" "1
two
x=y" "get of several"
is "$(kvs get --raw a b.c)" 1two "get --raw"
is "$(kvs get e | wc -c)" 1 "an empty value"
ok "put --json" kvs put --json a=2
json 'v["version"] > 0 and v["rootref"].startswith("sha256-")' "is version and root"
ok "get --json" kvs get -j a b.c
json 'v == {"a": "2", "b.c": "two"}' "is an object by key"
printf 'a\0\377' >bytes
ok "put --raw of standard input" sh -c "'$FLUX' kvs put --raw n=- m=1 <bytes"
ok "get --raw" sh -c "'$FLUX' kvs get --raw n | cmp - bytes"
ok "get --json of bytes" kvs get --json n
json 'v == {"n": [97, 0, 255]}' "is their numbers"
exits 1 "get of what is not there" kvs get nothing
like "$err" "^flux kvs get: .*nothing" "is a sentence"
run kvs get nothing a
is "$status $out" "1 2" "what is there is printed"
exits 1 "get --json of one that is not there" kvs get --json a nothing
is "$out" "" "prints nothing at all"
exits 1 "get of a directory" kvs get b
exits 1 "get of a bad key" kvs get a..b
exits 1 "get --json of a bad key" kvs get --json a..b
exits 1 "put to a bad key" kvs put a..b=1

# --- append ---

ok "append to nothing" kvs put --append log=one
ok "append" kvs put --append log=,two log=,three
is "$(kvs get log)" "one,two,three" "adds up"
ok "append standard input" sh -c "printf ,four | '$FLUX' kvs put --append log=-"
is "$(kvs get log)" "one,two,three,four" "too"
ok "append nothing to nothing" sh -c "'$FLUX' kvs put --append none=- </dev/null"
is "$(kvs get none)" "" "makes it"
exits 1 "append to a directory" kvs put --append b=x

# --- guards ---

exits 3 "put --if-absent of what is there" kvs put --if-absent new=1 a=3
like "$err" "'a'" "names the key"
exits 1 "and changes nothing" kvs get new
ok "put --if-absent" kvs put --if-absent new=1
tag=$(kvs get --tag a)
like "$tag" '^value-[0-9a-f]{64}$' "a tag"
ok "put --if-tag" kvs put --if-tag="$tag" a=3
exits 3 "not twice" kvs put --if-tag="$tag" a=4
is "$(kvs get a)" 3 "the value stays"
tag=$(kvs get --tag a)
ok "put --if-tag of several keys" kvs put --if-tag=a="$tag" --if-tag="b=$(kvs get --tag b)" x=1 y=1
exits 3 "one that has changed" kvs put --if-tag=a="$tag" --if-tag=b=value-"${tag#value-}" x=2
exits 1 "a tag that is none" kvs put --if-tag=nonsense a=1
exits 3 "unlink --if-tag" kvs unlink --if-tag="$tag" b
ok "unlink --if-tag" kvs unlink --if-tag="$tag" a
exits 3 "of what is gone" kvs unlink --if-tag="$tag" a
ok "mkdir --if-absent" kvs mkdir --if-absent lock
exits 3 "a lock" kvs mkdir --if-absent lock
exits 3 "link --if-absent" kvs link --if-absent b lock
exits 3 "copy --if-absent" kvs copy --if-absent b new
exits 3 "move --if-absent" kvs move --if-absent b new
ok "get --info" kvs get --info b b.c log
like "$out" $'KEY +TYPE +SIZE +VERSION +TAG\nb +dir +2 .* dir-.*\nb.c +value +3' "is a table"
ok "get --info --json" kvs get --info --json b b.c
json '[e["type"] for e in v] == ["dir", "value"] and v[1]["size"] == 3' "also in JSON"
ok "get --tag --json" kvs get --tag --json b.c
json 'v["b.c"].startswith("value-")' "is an object by key"

# --- directories ---

ok "mkdir" kvs mkdir d.empty d.full
ok "put below" kvs put d.full.z=1 d.full.a=2 d.v="line
two" d.bs='a\b'
ok "link" kvs link b.c d.l
is "$(kvs ls d)" "bs
empty.
full.
l
v" "ls, sorted"
is "$(kvs ls -R d)" "bs
empty.
full.
full.a
full.z
l
v" "ls -R"
is "$(kvs ls -l d | tr -s ' ')" "TYPE SIZE NAME
value 3 bs
dir - empty
dir - full
link 3 l -> b.c
value 8 v" "ls -l"
is "$(kvs ls -lR d | grep -c '^dir ')" 2 "ls -lR"
like "$(kvs ls -lR d)" 'dir +2  full' "with sizes of directories"
ok "ls --json" kvs ls --json d
json '[(e["name"], e["type"], e["size"], e.get("target")) for e in v] == [("bs", "value", 3, None),
    ("empty", "dir", None, None), ("full", "dir", None, None), ("l", "link", 3, "b.c"),
    ("v", "value", 8, None)]' "is an array"
ok "ls -R --json" kvs ls -R --json d
json '[e["name"] for e in v].index("full.z") == 4' "with all"
ok "ls --json of an empty one" kvs ls --json d.empty
is "$out" "[]" "is empty"
is "$(kvs ls d.empty)" "" "as is ls"
is "$(kvs dir d)" 'd.bs = a\\b
d.empty.
d.full.
d.l -> b.c
d.v = line\ntwo' "dir"
is "$(kvs dir -R d)" 'd.bs = a\\b
d.empty.
d.full.a = 2
d.full.z = 1
d.l -> b.c
d.v = line\ntwo' "dir -R"
ok "dir --json" kvs dir --json d
json 'v == {"bs": "a\\b", "empty": {}, "full": {}, "l": ["b.c"], "v": "line\ntwo"}' "is an object"
ok "dir -R --json" kvs dir -R --json d
json 'v["full"] == {"a": "2", "z": "1"} and v["empty"] == {}' "with all"
ok "dir -R --json of the root" kvs dir -R --json
json 'v["d"]["full"]["z"] == "1" and v["n"] == [97, 0, 255]' "too"
ok "dir --json of an empty one" kvs dir --json d.empty
is "$out" "{}" "is empty"
is "$(kvs dir . | head -n 1)" "b." "the root has a name"
for cmd in ls dir "dir --json" "ls --json" "ls -R" "dir -R"; do
    # shellcheck disable=SC2086
    exits 1 "$cmd of what is not there" kvs $cmd nothing
    is "$out" "" "prints nothing"
    # shellcheck disable=SC2086
    exits 1 "$cmd of a value" kvs $cmd d.v
    like "$err" 'not a directory' "says so"
done

# --- without standard descriptors ---

# shellcheck disable=SC2016 # for the inner shell
exits 1 "get with standard output closed" sh -c '"$0" kvs get d.v >&-' "$FLUX"
is "$err" "flux kvs get: cannot write to standard output: Bad file descriptor" "nothing goes elsewhere"
# shellcheck disable=SC2016
exits 1 "put with standard input closed" sh -c '"$0" kvs put closed=- <&-' "$FLUX"
like "$err" "cannot read the value of closed from standard input: Bad file descriptor" "reads nothing else"

# --- links, copies, moves ---

is "$(kvs readlink d.l)" b.c "readlink"
is "$(kvs get d.l)" two "get goes where it leads"
ok "readlink --json" kvs readlink --json d.l
json 'v == {"d.l": "b.c"}' "is an object"
ok "readlink --info" kvs readlink --info d.l
like "$out" 'd.l +link +3 .* link-' "is about the link"
exits 1 "readlink of what is not there" kvs readlink nothing
exits 1 "readlink of a value is refused in JSON, too" kvs readlink --json d.l d.v
is "$out" "" "with nothing on standard output"
ok "copy of a directory" kvs copy d copied
is "$(kvs dir -R copied | sed 's/^copied/d/')" "$(kvs dir -R d)" "is the same"
ok "copy of a value" kvs copy d.v copied.w
is "$(kvs get copied.w)" "line
two" "too"
ok "move" kvs move copied moved.here
exits 1 "what was moved is not there" kvs ls copied
is "$(kvs get moved.here.full.z)" 1 "but where it went"
exits 1 "move of what is not there" kvs move nothing there
exits 1 "move into itself" kvs move moved moved.here.too
exits 1 "copy over a directory" kvs copy b moved

# --- unlink ---

exits 1 "unlink of a directory with something in it" kvs unlink moved
ok "unlink -R" kvs unlink -R moved
exits 1 "is gone" kvs ls moved
ok "unlink of what is not there" kvs unlink moved
exits 1 "unlink -e" kvs unlink -e moved
ok "unlink of several" kvs unlink x y
exits 1 "all are gone" kvs get x
ok "unlink --json" kvs unlink --json none
json 'v["version"] > 0' "is version and root"

# --- the past ---

old=$(kvs version | cut -d ' ' -f 2)
kvs put past=2 d.full.new=1
kvs put past=3
is "$(kvs get --at="$old" new)" 1 "get --at"
exits 1 "what came later" kvs get --at="$old" past
is "$(kvs ls --at="$old" d.full)" "a
z" "ls --at"
is "$(kvs ls -R --at="$old" d | grep full)" "full.
full.a
full.z" "ls -R --at"
is "$(kvs dir --at="$old" d.full)" "d.full.a = 2
d.full.z = 1" "dir --at"
is "$(kvs readlink --at="$old" d.l)" b.c "readlink --at"
for cmd in get ls dir "ls -R"; do
    # shellcheck disable=SC2086
    exits 1 "$cmd at no root" kvs $cmd --at=nonsense d
    # shellcheck disable=SC2086
    exits 1 "$cmd at a root that is none" kvs $cmd --at="sha256-$(printf '%064d' 0)" d
done

# --- versions ---

ok "version" kvs version
like "$out" '^[0-9]+ sha256-[0-9a-f]{64}$' "is a number and a root"
now=${out%% *}
ok "version --json" kvs version --json
json "v['version'] == $now" "is an object"
ok "wait for a version that is there" kvs wait "$now"
is "${out%% *}" "$now" "prints it"
ok "wait --json" kvs wait -j 1
json "v['version'] == $now" "is an object"
exits 1 "wait --timeout" kvs wait --timeout=0.1s $((now + 1))
like "$err" "version $((now + 1)) has not come yet: no response within" "says what for"
kvs wait -t 20 $((now + 1)) >waited &
pid=$!
kvs put past=4
ok "who waits" wait "$pid"
is "$(cut -d ' ' -f 1 waited)" $((now + 1)) "is told"

# --- namespaces ---

ok "namespace create" kvs namespace create one
ok "namespace create on a rank" kvs namespace create --rank=1 --owner="$(id -u)" two three
exits 1 "twice" kvs namespace create one
exits 2 "on a rank that does not exist" kvs namespace create --rank=2 four
ok "namespace list" kvs namespace list
like "$out" $'NAMESPACE +OWNER +RANK +STATE\n' "has titles"
like "$out" "two +$(id -u) +1 +up" "and all of them"
ok "namespace list --json" kvs namespace list --json
json 'sorted(e["namespace"] for e in v) == ["one", "primary", "three", "two"]' "is an array"
ok "put -N" kvs put -N two a=in-two
is "$(kvs get -N two a)" in-two "get -N"
exits 1 "is in no other" kvs get -N one a
exits 1 "is in no other" kvs get a
is "$(FLUX_KVS_NAMESPACE=two kvs get a)" in-two "FLUX_KVS_NAMESPACE"
is "$(FLUX_KVS_NAMESPACE=one kvs get -N two a)" in-two "-N goes before it"
FLUX_KVS_NAMESPACE='' ok "an empty one is none" kvs get b.c
export FLUX_KVS_NAMESPACE=three
ok "put" kvs put k.v=1
ok "mkdir" kvs mkdir m
ok "link" kvs link k l
ok "copy" kvs copy k c
ok "move" kvs move c c2
ok "append" kvs put --append k.v=2
is "$(kvs dir -R)" "c2.v = 1
k.v = 12
l -> k
m." "dir -R"
is "$(kvs ls)" "c2.
k.
l
m." "ls"
is "$(kvs readlink l)" k "readlink"
is "$(kvs watch -c 1 k.v)" 12 "watch"
v=$(kvs version)
is "$(kvs wait "${v%% *}")" "$v" "version and wait"
ok "stats" kvs stats
json "v['version'] == ${v%% *}" "are of that namespace"
ok "dropcache" kvs dropcache
ok "gc" kvs gc
ok "unlink" kvs unlink -R c2 k l m
is "$(kvs ls)" "" "all is gone"
unset FLUX_KVS_NAMESPACE
isnt "$(kvs version)" "$v" "another has its own versions"
ok "namespace remove" kvs namespace remove one three
exits 1 "twice" kvs namespace remove one
exits 1 "of primary" kvs namespace remove primary
exits 1 "in one that is gone" kvs get -N three k.v
like "$err" three "names it"

# --- what the manual shows ---

kvs put --if-absent counter=0
for who in 1 2 3; do
    for i in 1 2 3 4 5; do
        code=3
        while [ "$code" -eq 3 ]; do
            tag=$(kvs get --tag counter) n=$(kvs get counter)
            kvs put --if-tag="$tag" counter=$((n + 1)) 2>>"counter.$who"
            code=$?
        done
    done &
    pids[who]=$!
done
wait "${pids[@]}"
is "$(kvs get counter)" 15 "a counter that three add to"

# --- completion ---

# What bash would offer for the words of a command line.
complete_words() {
    # shellcheck disable=SC2016 # for the inner shell
    PATH=$(dirname "$FLUX"):$PATH bash -c '. "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) &&
        _flux; echo "${COMPREPLY[*]}"' "$SRCDIR/etc/flux.bash-completion" "$@"
}
is "$(complete_words flux kvs wa)" "watch wait" "commands are completed"
is "$(complete_words flux kvs get --i)" "--info" "options of a command"
is "$(complete_words flux kvs get d.)" "d.bs d.empty. d.full. d.l d.v" "keys in a directory"
is "$(complete_words flux kvs dir d.fu)" "d.full." "a directory"
is "$(complete_words flux kvs ls d.full.z)" "d.full.z" "keys deeper"
is "$(complete_words flux kvs get -N tw)" "two" "namespaces"

# --- the rest ---

ok "stats" kvs stats
json 'v["version"] > 0 and v["commits"] > 0' "are JSON"
ok "dropcache" kvs dropcache
ok "dropcache --json" kvs dropcache --json
json 'v["dropped"] >= 0' "says how many"
ok "gc" kvs gc
ok "gc --json" kvs gc --json
json 'type(v) is dict' "is an object"

release
is "$status" 0 "the session ends well"

# fsck needs no session.
if [ -x "$BUILDDIR/src/modules/flux-kvs-fsck" ]; then
    ok "fsck --help" kvs fsck --help
    exits 2 "fsck of nothing" kvs fsck
    exits 1 "fsck of what is not there" kvs fsck nowhere
    like "$err" "^flux kvs fsck: .*nowhere" "says so"
    mkdir state
    ok "a session with a directory" session 1 --statedir=state -- "$FLUX" kvs put a=1 b.c=2
    ok "fsck of it" kvs fsck state
    like "$out" 'sound' "finds it sound"
else
    skip 7 "flux-kvs-fsck has not been built"
fi
finish
