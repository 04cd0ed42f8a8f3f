#!/usr/bin/env bash
# flux kvs on several ranks: values, directories, links, versions, old roots, and a large directory.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_client

# The version that broker $1 has seen.
version() {
    at "$1" version | awk '{ print $1 }'
}

hold 4 --topology=chain

# Values.
ok "put" at 3 put a=1 b.c.d='two words' empty=
is "$(at 3 get a)" 1 "a client reads what it wrote"
is "$(at 3 get b.c.d)" "two words" "also in a directory that was made for it"
is "$(at 3 get empty | od -An -c | tr -d ' ')" '\n' "an empty value is a value"
v=$(version 3)
for rank in 0 1 2; do
    ok "rank $rank reaches that version" at "$rank" wait --timeout=20s "$v"
    is "$(at "$rank" get a b.c.d)" "1
two words" "and has it"
done
ok "put again, from above" at 0 put a=one
v=$(version 0)
ok "seen below after a wait" at 3 wait "$v"
is "$(at 3 get a)" one "with its new value"
is "$(at 1 get --json a | tr -d ' \n')" '{"a":"one"}' "as JSON"
printf 'no newline' >text
from_stdin() {
    "$FLUX" kvs put "$1=-" <"$2"
}
ok "a value from standard input" from_stdin s text
is "$(at 0 get --raw s | wc -c)" 10 "--raw adds nothing"
head -c 1000000 /dev/urandom >binary
ok "any bytes" from_stdin bin binary
v=$(version 0)
at 2 wait "$v" >/dev/null
at 2 get --raw bin >binary.2
ok "come back as they were" cmp binary binary.2
printf 'a\0b' >nul
"$FLUX" kvs put nul=- <nul
like "$(at 0 get --json nul | tr -d ' \n')" '\[97,0,98\]' "as JSON they are numbers"
is "$(at 0 dir | grep '^nul ')" "nul = <3 bytes>" "in a listing their number"

# What is not there.
exits 1 "a key that is not there" at 2 get nothing
like "$err" "nothing" "is named"
exits 1 "one below a value, too" at 2 get a.b
exits 1 "a directory is not a value" at 2 get b
like "$err" "directory" "it says so"
exits 1 "a value is not a directory" at 2 dir a
like "$err" "'a' is not a directory" "it says so, too"
exits 2 "put without a value" at 0 put a
exits 1 "a key with an empty name" at 0 put a..b=1
exits 1 "a key that is too long" at 0 put "$(printf 'k%.0s' {1..300})=1"
ok "with a sentence" [ -n "$err" ]
head -c 16777217 /dev/zero >big
ok "a value that is too long for one piece" from_stdin big big
exits 1 "is not read in one piece" at 0 get --json big
like "$err" "16 MiB" "with the bound"
head -c 16777216 /dev/zero >big
ok "the longest one" from_stdin big big
v=$(version 0)
ok "is seen at the far end" at 3 wait "$v"
is "$(at 3 get --raw big | wc -c)" 16777216 "as long as it was"
ok "and can go" at 3 unlink big

# Directories and links.
ok "mkdir" at 1 mkdir d.e f
ok "ls of an empty one" at 1 ls f
ok "put into one" at 1 put d.x=1 d.y=2
is "$(at 1 dir d)" "d.e.
d.x = 1
d.y = 2" "dir"
ok "deeper" at 1 put d.e.deep=3
is "$(at 1 dir -R d)" "d.e.deep = 3
d.x = 1
d.y = 2" "dir -R"
like "$(at 1 ls -l d | tr -s ' ')" "dir - e.*value 1 x" "ls -l"
is "$(at 1 dir --json -R d | tr -d ' \n')" '{"e":{"deep":"3"},"x":"1","y":"2"}' "dir --json"
exits 1 "put over a directory" at 1 put d=1
exits 1 "put below a value" at 1 put a.b=1
is "$(at 1 get a)" one "which stays"
exits 1 "a commit takes effect as a whole" at 1 put whole=1 a.b=1
exits 1 "or not at all" at 1 get whole
exits 1 "unlink of a directory with something in it" at 1 unlink d
ok "unlink -R" at 1 unlink -R d
exits 1 "is gone" at 1 dir d
ok "unlink of what is not there" at 1 unlink d
exits 1 "unlink -e of what is not there" at 1 unlink -e d
ok "link" at 1 link b.c lnk
is "$(at 1 readlink lnk)" b.c "readlink"
is "$(at 1 get lnk.d)" "two words" "is followed"
ok "a link to nowhere" at 1 link no.where dangling
exits 1 "leads nowhere" at 1 get dangling
ok "a link to itself" at 1 link loop loop
exits 1 "is found out" at 1 get loop
like "$err" "^flux kvs get: 'loop': .{10}" "with a sentence"
exits 1 "readlink of what is not there" at 1 readlink nothing
exits 1 "readlink of a value" at 1 readlink b.c.d
like "$err" "^flux kvs readlink: 'b.c.d' is a value, not a link: .{10}" "with a sentence"
exits 1 "readlink of a directory" at 1 readlink b.c
like "$err" "^flux kvs readlink: 'b.c' is a directory, not a link: .{10}" "with a sentence"

# The past.
at 2 put old=before >/dev/null
ref=$(at 2 version | awk '{ print $2 }')
at 2 put old=after >/dev/null
is "$(at 2 get --at "$ref" old)" before "a root of the past"
is "$(at 2 get old)" after "does not touch the present"
is "$(at 2 dir --at "$ref" | grep '^old ')" "old = before" "dir --at"
fails "a root that never was" at 2 get --at "sha256-$(printf '%064d' 0)" old
fails "no root at all" at 2 get --at nonsense old
exits 1 "a version that does not come" at 2 wait --timeout=100ms 1000000

# A large directory, read at a rank that has nothing of it.
ok "5000 keys in one commit" client 0 fill many 5000
v=$out
ok "are seen at rank 3" at 3 wait "$v"
is "$(at 3 ls many | wc -l)" 5000 "all of them"
is "$(at 3 get many.k4999)" v4999 "with their values"
ok "one more" at 3 put many.k5000=last
is "$(at 3 dir many | wc -l)" 5001 "makes 5001"
ok "dropcache" at 3 dropcache
before=$(counter 3 loads)
is "$(at 3 get many.k17)" v17 "what was dropped is loaded again"
ok "from above" [ "$(counter 3 loads)" -gt "$before" ]
# A cache that is too small for what is read makes it slow, not wrong; so do others who read.
release
hold 4 --topology=chain --set=content.cache-limit=0
client 0 fill many 2000 >v
for rank in 1 2 3; do
    at "$rank" wait "$(cat v)" >/dev/null
done
pids=()
for rank in 1 2 3 3 2 1; do
    (for i in 1 2 3; do at "$rank" dir many || exit 1; done >"list.${#pids[@]}" 2>&1) &
    pids+=($!)
done
for i in "${!pids[@]}"; do
    ok "reader $i without a cache" wait "${pids[i]}"
    is "$(grep -c ' = v' "list.$i")" 6000 "finds all"
done

# The master gives back what no root needs.
ok "20000 overwrites" client 2 overwrite once 20000
bytes=$(counter 0 bytes)
note "bytes at the master: $bytes in $(counter 0 objects) objects"
ok "do not fill the memory of the master" [ "$bytes" -lt 2000000 ]
release
is "$status" 0 "the sessions end well"
finish
