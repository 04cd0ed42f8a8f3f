#!/usr/bin/env bash
# flux kvs watch: what grows, what has changed below a directory, JSON.  (t/kvs-watch.t has the
# rest.)
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start kvs

# Watch with options ($2 and on) at rank 1, as client TAG; what it says is in TAG.out and TAG.err.
declare -A pid
watch() {
    local tag=$1
    shift
    : >"$tag.out"
    FLUX_URI=${FLUX_URI%/*/local}/1/local "$FLUX" kvs watch "$@" >"$tag.out" 2>"$tag.err" &
    pid[$tag]=$!
}
lines() {
    [ "$(wc -l <"$1.out")" -ge "$2" ]
}
bytes() {
    [ "$(stat -c %s "$1.out")" -ge "$2" ]
}
json() {
    python3 -c 'import json, sys
v = [json.loads(l) for l in sys.stdin]
print(eval(sys.argv[1]))' "$2" <"$1.out"
}
hold 2 --set=modules=log,hb,barrier,kvs,wrexec
kvs put log=one d.x=1 d.sub.y=2
kvs link d.x d.l
v=$(kvs version)
FLUX_URI=${FLUX_URI%/*/local}/1/local kvs wait "${v%% *}" >/dev/null

# --- a value that grows ---

watch log --append log
watch logj --append --json --count=4 log
ok "what it is" wait_until 10 bytes log 3
ok "in JSON" wait_until 10 lines logj 1
kvs put --append log=,two
ok "what was added" wait_until 10 bytes log 7
wait_until 10 lines logj 2
head -c 100000 /dev/zero | tr '\0' x | kvs put --append log=-
ok "much" wait_until 10 bytes log 100007
wait_until 10 lines logj 3
is "$(cat log.err)" "" "nothing was replaced"
kvs put log=new
ok "what was replaced" wait_until 10 bytes log 100010
like "$(cat log.err)" "log was replaced" "is told"
kill "${pid[log]}"
wait "${pid[log]}" 2>/dev/null
is "$(head -c 7 log.out)$(tail -c 4 log.out)" "one,twoxnew" "only what is new was printed"
wait "${pid[logj]}"
is $? 0 "--count ends it"
if command -v python3 >/dev/null; then
    is "$(json logj '[(e["key"], len(e["value"]), e["whole"]) for e in v]')" \
        "[('log', 3, True), ('log', 4, False), ('log', 100000, False), ('log', 3, True)]" \
        "JSON has a line for each"
else
    skip 1 "no python3"
fi

# --- what has changed below a directory ---

watch d -R d
watch dj -R --json --count=4 d
watch root -R .
ok "all of it" wait_until 10 lines d 5
is "$(sort d.out)" "$(printf '%s\n' -- '+ d.l -> d.x' '+ d.sub.' '+ d.sub.y = 2' '+ d.x = 1' | sort)" \
    "is new at first"
wait_until 10 lines dj 1
wait_until 10 lines root 4
: >d.out
kvs put d.x=one d.sub.z='3
4' other=1
ok "what was changed and added" wait_until 10 grep -q -e -- d.out
is "$(tr -d '\0' <d.out | sort)" "$(printf '%s\n' -- '* d.x = one' '+ d.sub.z = 3\n4' | sort)" \
    "and nothing else"
wait_until 10 lines dj 2
ok "the root sees all" wait_until 10 grep -qx '+ other = 1' root.out
kvs put nobodys=1
kvs unlink d.sub.y
ok "what was removed" wait_until 10 grep -aqx -e '- d.sub.y' d.out
wait_until 10 lines dj 3
kvs unlink -R d
ok "all of it" wait_until 10 grep -aq 'd is not there' d.out
wait "${pid[dj]}"
is $? 0 "--count ends it"
if command -v python3 >/dev/null; then
    is "$(json dj 'sorted((e["key"], e["change"], e["type"], e.get("value")) for e in v[1]["changes"])')" \
        "[('sub.z', 'added', 'value', '3\\n4'), ('x', 'changed', 'value', 'one')]" "JSON has the changes"
    is "$(json dj '[e["key"] for e in v[2]["changes"]], v[3]["absent"]')" "(['sub.y'], True)" \
        "and the end of all"
else
    skip 2 "no python3"
fi
kill "${pid[d]}" "${pid[root]}"
wait "${pid[d]}" "${pid[root]}" 2>/dev/null
unlike "$(cat root.out)" 'sub\.y = 2.*sub\.y = 2' "each was said once"

# --- others ---

kvs put e.a=1 e.b=2
watch e --json --count=2 e
wait_until 10 lines e 1
kvs unlink e.a
ok "entries in JSON" wait "${pid[e]}"
is "$(tr -d '\n' <e.out)" '{"key":"e","dir":{"a":"1","b":"2"}}{"key":"e","dir":{"b":"2"}}' "are an object"
watch n --json --count=2 nothing
wait_until 10 lines n 1
kvs put nothing=something
ok "what is not there" wait "${pid[n]}"
is "$(tr -d '\n' <n.out)" '{"key":"nothing","absent":true}{"key":"nothing","value":"something"}' \
    "is absent in JSON"
exits 1 "--timeout" kvs watch --timeout=0.2s e
like "$err" "nothing has changed within the timeout" "says so"
exits 1 "a bad key" kvs watch a..b
kvs namespace create gone
watch ns -N gone k
wait_until 10 lines ns 1
kvs namespace remove gone
wait "${pid[ns]}"
is $? 1 "a namespace that is removed ends it"
like "$(cat ns.err)" "^flux kvs watch: " "with a sentence"
# shellcheck disable=SC2016 # for the inner shell
run run_with_timeout 20 sh -c '"$0" kvs watch log >/dev/full' "$FLUX"
is "$status" 1 "what cannot be written ends it"
like "$err" "^flux kvs watch: cannot write to standard output: " "with a sentence"

release
is "$status" 0 "the session ends well"
finish
