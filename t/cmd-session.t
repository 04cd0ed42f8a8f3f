#!/usr/bin/env bash
# Commands that look at a session: up, topo, ping, getattr, setattr, lsattr.
. "$(dirname "$0")/lib.sh"
need_flux start up topo ping getattr

hold 5 --topology=kary:2 --set=modules=log,hb,barrier

ok "up" "$FLUX" up
is "$out" "5 of 5 up: 0-4" "has one line"
ok "up --quiet" "$FLUX" up --quiet
is "$out" "" "has none"
ok "up --long" "$FLUX" up --long
is "$(wc -l <<<"$out")" 6 "has one for each rank and a title"
ok "up --json" "$FLUX" up --json
like "$out" '"up": "0-4"' "has the ranks"
ok "up --long --json" "$FLUX" up --long --json
is "$(grep -c '"state": "up"' <<<"$out")" 5 "has all of them"

ok "up --addresses" "$FLUX" up --addresses
like "$out" $'\n *4 +up +1 +2 +1 +[a-z]+://[^ ]+$' "has where each is reached"
ok "up --addresses --json" "$FLUX" up --addresses --json
is "$(grep -c '"address": ".*://' <<<"$out")" 5 "has it, too"

ok "topo" "$FLUX" topo
is "$out" "0
|-- 1
|   |-- 3
|   \`-- 4
\`-- 2" "draws the tree"
ok "topo --dot" "$FLUX" topo --dot
like "$out" '^digraph' "is a graph"
is "$(grep -c -e '->' <<<"$out")" 4 "with its edges"
ok "topo --json" "$FLUX" topo --json
like "$out" '"topology": "kary:2"' "says the shape"
ok "topo --file" "$FLUX" topo --file
like "$out" '0: 1-2' "is a topology file"

ok "getattr size" "$FLUX" getattr size
is "$out" 5 "is the session's"
ok "getattr of another rank" "$FLUX" getattr --rank=3 rank
is "$out" 3 "is asked there"
exits 1 "getattr of nothing" "$FLUX" getattr no.such.attribute
like "$err" "no attribute 'no.such.attribute'" "says so"
ok "setattr" "$FLUX" setattr test.mine "a value"
ok "getattr" "$FLUX" getattr test.mine
is "$out" "a value" "gets it"
exits 1 "setattr of a misspelt setting" "$FLUX" setattr hb.perid 1s
like "$err" "no setting 'hb.perid'; did you mean hb.period" "names the nearest"
exits 1 "... which was not kept" "$FLUX" getattr hb.perid
exits 1 "setattr of a fixed one" "$FLUX" setattr size 6
like "$err" 'fixed' "is refused"
exits 1 "getattr of a rank that does not exist" "$FLUX" getattr -r 99 rank
ok "lsattr" "$FLUX" lsattr
like "$out" 'test.mine +a value' "lists it"
ok "lsattr --json" "$FLUX" lsattr --json
like "$out" '"test.mine": "a value"' "has it"

ok "ping the local broker" "$FLUX" ping --count=3 --interval=0
is "$(grep -c '^0!broker seq=[0-9]* hops=0 ' <<<"$out")" 3 "is answered each time"
like "$out" '3 sent, 3 answered, 0 failed' "with statistics"
ok "ping down the tree" "$FLUX" ping --count=1 4
like "$out" 'hops=2 .* > 0 > 1 > 4' "shows the way"
ok "ping along the ring" "$FLUX" ping --count=1 --ring 3
like "$out" 'hops=3 .* > ring:0 > ring:1 > ring:2 > 3' "shows that way"
ok "ping a service of a rank" "$FLUX" ping --count=1 '2!log'
like "$out" '^2!log ' "is answered there"
ok "ping a service" "$FLUX" ping --count=1 log
ok "ping with padding" "$FLUX" ping --count=2 --interval=0 --pad=100K 4
ok "ping at intervals" "$FLUX" ping --count=3 --interval=10ms 1
exits 1 "ping a service that does not exist" "$FLUX" ping --count=1 nonsense
like "$err" "service 'nonsense'" "says so"
like "$out" '0 answered, 1 failed' "and counts it"
exits 1 "without a count" run_with_timeout 20 "$FLUX" ping --interval=10s nonsense
like "$out" '1 sent, 0 answered, 1 failed' "it is asked once"
exits 1 "ping a rank that does not exist" "$FLUX" ping --count=1 5
like "$err" 'ranks are 0 to 4' "says which there are"
exits 2 "ping a bad target" "$FLUX" ping '!x'
exits 2 "ping --ring of no rank" "$FLUX" ping --ring log

# Interrupted, it prints what it has seen.
"$FLUX" ping --interval=10ms 3 >ping.out 2>ping.err &
pid=$!
wait_until 10 grep -q seq=3 ping.out
kill -INT "$pid"
wait "$pid"
is $? 0 "ping interrupted: exit code"
like "$(tail -n 1 ping.out)" 'sent, .* answered, 0 failed' "and statistics"

release
is "$status" 0 "the session ends well"
finish
