#!/usr/bin/env bash
# flux kvs with what is large: values that are streamed, in bounded memory, and directories of
# 100,000 keys.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"
need_flux start kvs
need_programs kvs_client

# Run flux kvs so that the most memory it had, in KiB, is in $rss; standard input and output as
# said.
cat >peak.py <<'END'
import os, resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as f:
    f.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
END
peak() {
    if ! command -v python3 >/dev/null; then
        rss=0
        "$FLUX" kvs "$@"
        return
    fi
    python3 peak.py rss "$FLUX" kvs "$@"
    local status=$?
    rss=$(cat rss)
    return "$status"
}
below() {
    if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
        skip 1 "sanitizers need memory themselves"
    elif [ "$rss" -lt "$1" ]; then
        pass "$2 ($rss KiB)"
    else
        fail "$2: $rss KiB"
    fi
}

# Nothing but the store, so that all there is in it is ours.
hold 2 --set=modules=log,hb,barrier,kvs

# --- values of all sizes where something changes ---

head -c $((5 * 1048576 + 1)) /dev/urandom >random
for size in 0 1 256 257 32767 32768 32769 65536 1048575 1048576 1048577 1081344 4194304 4194305 \
    5242880 5242881; do
    head -c "$size" random >value
    ok "put of $size bytes" at 1 put v=- <value
    at 1 get --raw v >back
    ok "come back" cmp value back
    tag=$(at 1 get --tag v)
    # The same by appending: what is stored depends on the bytes only.
    at 1 unlink v
    head -c $((size / 2)) value | at 1 put --append v=-
    tail -c +$((size / 2 + 1)) value | at 1 put --append v=-
    is "$(at 1 get --tag v)" "${tag}" "appending it makes the same"
done
at 1 unlink v

# --- streaming ---

head -c 100000000 /dev/urandom >large
ok "put of 100 MB" peak put l=- <large
below 40000 "takes little memory"
v=$(kvs version)
ok "is seen at the other rank" at 1 wait "${v%% *}"
peak get --raw l >back
ok "get of it" cmp large back
below 40000 "takes little memory"
at 1 get --raw l >back
ok "get of it at the other rank" cmp large back
peak dump archive
is $? 0 "dump of it"
below 40000 "takes little memory"
kvs namespace create copy
peak restore -N copy archive
is $? 0 "restore of it"
below 40000 "takes little memory"
is "$(kvs get -N copy --tag l)" "$(kvs get --tag l)" "makes the same"
rm archive
exits 1 "get --json of it" kvs get --json l
like "$err" 'more than the 16 MiB' "is refused"
is "$(kvs dir)" "l = <100000000 bytes>" "dir"
is "$(kvs dir --json | tr -d ' \n')" '{"l":100000000}' "dir --json"
like "$(kvs get --info l)" ' 100000000 ' "get --info"
peak put --append a=- <large
is $? 0 "append of 100 MB"
below 80000 "takes little memory"
is "$(kvs get --tag a)" "$(kvs get --tag l)" "makes the same"
exits 1 "append of so much together with another" sh -c "'$FLUX' kvs put --append b=1 a=- <large"
exits 1 "changes nothing" kvs get b

# A value that is replaced while it is read is still one value.
mkfifo slow
at 1 get --raw l >slow &
pid=$!
exec 3<slow
head -c 100000 <&3 >back
head -c 50000000 /dev/zero | kvs put l=-
kvs gc >/dev/null 2>&1
cat <&3 >>back
exec 3<&-
ok "a reader whose value is replaced" wait "$pid"
ok "reads what it began with" cmp -n 100000 large back
is "$(stat -c %s back)" 100000000 "to its end"
kvs unlink l a
# Who reads no further is not waited for.
kvs put l=- <large
kvs get --raw l | head -c 10 >/dev/null
is "${PIPESTATUS[1]}" 0 "a reader that has enough"
rm large back
kvs unlink l

# --- many large values in one directory: more than fits in an answer ---

head -c 5000000 random | kvs put m.v1=-
for i in {2..40}; do
    kvs copy m.v1 "m.v$i"
done
kvs put m.small=here
ok "dir" peak dir m
below 60000 "takes little memory"
is "$(kvs dir m | head -n 2)" "m.small = here
m.v1 = <5000000 bytes>" "shows sizes, and what is small"
is "$(kvs dump --at-key=m - | grep -ac '^v.* =$')" 40 "dump has all"
kvs unlink -R m

# --- 100,000 keys ---

ok "100000 keys" "$CLIENT" fill many 100000
v=$(kvs version)
at 1 wait "${v%% *}" >/dev/null
SECONDS=0
peak ls many >list
is $? 0 "ls"
below 60000 "takes little memory"
is "$(wc -l <list)" 100000 "prints all"
ok "sorted" sort -c list
at 1 ls many >list1
ok "ls at the other rank" cmp list list1
kvs dir many >listing
is "$(wc -l <listing)" 100000 "dir"
ok "with values" grep -qx 'many.k77777 = v77777' listing
kvs ls -l many >long
is "$(grep -c '^value ' long)" 100000 "ls -l"
kvs ls -R >rec
is "$(wc -l <rec)" 100001 "ls -R"
if command -v python3 >/dev/null; then
    kvs ls --json many >json
    is "$(python3 -c 'import json; print(len(json.load(open("json"))))')" 100000 "ls --json"
    kvs dir --json -R >json
    is "$(python3 -c 'import json; print(json.load(open("json"))["many"]["k99999"])')" v99999 "dir --json"
else
    skip 2 "no python3"
fi
note "listings of 100000 keys took $SECONDS s"
# While they change, a listing is of one root.
ref=${v##* }
kvs copy many other
v=$(kvs version)
at 1 wait "${v%% *}" >/dev/null
for i in {1..20}; do
    kvs move many m2
    kvs move m2 many
done &
pid=$!
for i in 1 2 3; do
    at 1 dir other >listing2
    ok "a listing while others write" bash -c "sed s/^other/many/ listing2 | cmp listing"
done
wait "$pid"
kvs ls --at="$ref" many >list1
ok "ls --at" cmp list list1
ok "unlink -R" kvs unlink -R many other
is "$(kvs ls)" "" "all is gone"

release
is "$status" 0 "the session ends well"
finish
