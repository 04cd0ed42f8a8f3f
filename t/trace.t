#!/usr/bin/env bash
# Watching messages: flux module trace, flux start --trace; brokers under another program: flux
# start --wrap.
. "$(dirname "$0")/lib.sh"
need_flux start module ping kvs

hold 3 --topology=flat --trace=trace.txt --set=modules=log,hb,barrier,kvs

# A trace is on when its first line is there.
trace_of() {
    "$FLUX" module trace "$@" >traced 2>traced.err &
    tracer=$!
}
is_traced() { "$FLUX" kvs get no.such.key 2>/dev/null; [ -s traced ]; }

trace_of --topic=kvs. kvs
ok "flux module trace prints while messages pass" wait_until 20 is_traced
ok "kvs put" "$FLUX" kvs put a=1
seen() { grep -Eq "$1" traced; }
ok "a request is there with sender and receiver" \
    wait_until 20 seen '^[0-9]+\.[0-9]{6} rank 0 request kvs\.commit: client [0-9]+ -> module kvs, [0-9]+ bytes$'
ok "a response with the time since its request" \
    wait_until 20 seen 'response kvs\.commit: module kvs -> client [0-9]+, [0-9]+ bytes after 0\.[0-9]{6} s$'
error_seen() {
    "$FLUX" kvs get no.such.key 2>/dev/null
    seen 'response kvs\.[a-z]+: .* error: No such file or directory$'
}
ok "an error is named" wait_until 20 error_seen
# shellcheck disable=SC2016 # awk expands them
ok "nothing but what was asked for is printed" awk '$5 !~ /^kvs\./ || !/module kvs/ { exit 1 }' traced
kill "$tracer"
wait "$tracer"

# What goes to another rank passes at both.
rm -f traced
"$FLUX" module trace --ranks=0,2 --topic=barrier --json >traced 2>traced.err &
tracer=$!
# The traces of the two ranks do not begin at the same moment: of the first pings only a part is traced.
ping_traced() {
    "$FLUX" ping --count=1 '2!barrier' >/dev/null && grep '"rank":2' traced | finds '"type":"request".*barrier\.ping' &&
        grep '"rank":0' traced | finds '"type":"response".*barrier\.ping'
}
ok "ping at rank 2 is traced at ranks 0 and 2" wait_until 20 ping_traced
ok "each line is a JSON object" python3 -c 'import json, sys
lines = [json.loads(l) for l in open("traced")]
assert any(l["rank"] == 0 and l["to"] == "rank 2" and l["type"] == "request" for l in lines), lines
assert any(l["rank"] == 2 and l["from"] == "rank 0" and l["to"] == "module barrier" for l in lines), lines
assert any(l["rank"] == 0 and l["type"] == "response" and l["latency"] > 0 for l in lines), lines'
kill "$tracer"
wait "$tracer"

"$FLUX" module trace --count=2 --all >traced &
tracer=$!
done_tracing() { "$FLUX" ping --count=1 barrier >/dev/null; ! kill -0 "$tracer" 2>/dev/null; }
ok "--count ends the command" wait_until 20 done_tracing
wait "$tracer"
is $? 0 "with exit code 0"
is "$(wc -l <traced)" 2 "after two messages"
exits 2 "--count=0" "$FLUX" module trace --count=0
like "$err" 'at least 1' "is refused"
exits 2 "a rank that does not exist" "$FLUX" module trace -r 3 kvs
for n in $(seq 64); do
    "$FLUX" module trace barrier >"many.$n" 2>/dev/null &
    tracers[n]=$!
done
all_trace() {
    "$FLUX" ping --count=1 barrier >/dev/null
    for n in $(seq 64); do
        [ -s "many.$n" ] || return 1
    done
}
ok "a broker serves 64 traces" wait_until 20 all_trace
exits 1 "one more" "$FLUX" module trace barrier
like "$err" 'has 64 traces already' "is refused with a sentence"
kill "${tracers[@]}"
wait "${tracers[@]}"
room() { timeout 1 "$FLUX" module trace --topic=nothing kvs; [ $? = 124 ]; }
ok "clients that are gone leave room" wait_until 20 room

release
is "$status" 0 "the session ends in order"
like "$(stat -c %a trace.txt)" '^600$' "--trace: the file is for its owner alone"
for rank in 0 1 2; do
    like "$(cat trace.txt)" "rank $rank response " "has the messages of rank $rank"
done
like "$(cat trace.txt)" 'rank 0 event overlay\.run: rank 0 -> subscribers' "and events, from the first one on"
unlike "$(cat trace.txt)" ' trace\.watch' "but not those of the trace itself"
exits 1 "--trace: a file that cannot be written" "$FLUX" start --size=1 --trace=/dev/full/x true
like "$err" 'the trace cannot be written to /dev/full/x: Not a directory' "says so"

# shellcheck disable=SC2016 # the command expands them
wrapped='for r in 0 1 2; do tr "\0" "\n" <"/proc/$(flux getattr -r $r broker.pid)/environ" | grep -c ^WRAPPED=; done'
ok "--wrap" "$FLUX" start --size=3 --wrap='1-2:env WRAPPED=1' bash -c "PATH=${FLUX%/*}:\$PATH; $wrapped"
is "$(tr '\n' ' ' <<<"$out")" "0 1 1 " "runs the brokers of these ranks under the command"
ok "--wrap of one broker" "$FLUX" start --size=1 --wrap='0:env WRAPPED=2' printenv WRAPPED
is "$out" 2 "too"
# Debuggers that note their arguments, and run the program among them.
mkdir tools
for tool in gdb rr; do
    cat >tools/$tool <<END
#!/bin/sh
printf '%s\n' "\$@" >"$PWD/$tool.args"
while [ "\${1#/}" = "\$1" ]; do
    shift
done
exec "\$@"
END
    chmod +x tools/$tool
done
wraps() { # COMMAND EXPECTED-ARGUMENTS
    PATH=$PWD/tools:$PATH ok "--wrap=0:$1" "$FLUX" start --size=1 --wrap="0:$1" true
    like "$(tr '\n' ' ' <"${1%% *}.args")" "^$2 /[^ ]*flux-broker " "... passes '$2' and the broker"
}
wraps gdb '--args'
wraps rr 'record'
wraps 'gdb -q --args' '-q --args'
for arg in "1env:is not RANKS:COMMAND" "x=y:is not a set of ranks" "3,env:rank 3 is not in the session" \
    "1, :names no command"; do
    exits 2 "--wrap=$arg" "$FLUX" start --size=3 --wrap="$(sed 's/:.*//; s/[=,]/:/' <<<"$arg")" true
    like "$err" "${arg#*:}" "says what is wrong"
done
exits 2 "--wrap without --size" "$FLUX" start --wrap=0:env true
like "$err" 'requires --size' "is a usage error"
exits 1 "--wrap with a command that does not exist" "$FLUX" start --size=2 --wrap=1:no-such-debugger true
like "$err" 'no-such-debugger cannot be run: No such file' "says so"

finish
