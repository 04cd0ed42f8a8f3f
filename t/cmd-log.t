#!/usr/bin/env bash
# flux logger and flux dmesg.
. "$(dirname "$0")/lib.sh"
need_flux start logger dmesg

hold 4 --topology=kary:2 --set=modules=log,hb,barrier
uri3=$("$FLUX" getattr --rank=3 uri)

ok "logger" "$FLUX" logger some words
ok "dmesg" "$FLUX" dmesg
like "$out" 'Z logger\.notice\[0\]: some words$' "has them"
exits 2 "logger with a level that there is not" "$FLUX" logger --level=bad text
like "$err" "'bad' is not one of emerg,.* notice, info, debug" "... lists those that there are"
ok "logger with level and source" "$FLUX" logger --level=err --source=me 'an error'
ok "dmesg of a source" "$FLUX" dmesg --source=me
is "$(wc -l <<<"$out")" 1 "has one line"
like "$out" 'me.err\[0\]: an error' "which is it"
ok "dmesg of a level" "$FLUX" dmesg --level=err
unlike "$out" 'some words' "has no others"
seq 1 1000 >numbers
ok "logger of standard input" sh -c "'$FLUX' logger --source=seq <numbers"
ok "dmesg of a few" "$FLUX" dmesg --source=seq --count=3
is "$(awk '{print $NF}' <<<"$out" | tr '\n' ' ')" "998 999 1000 " "has the last ones"
ok "dmesg --json" "$FLUX" dmesg --source=me --json
like "$out" '"text": "an error"' "has it"

# What is said at another rank stays there, unless it is important.
FLUX_URI=$uri3 ok "logger at rank 3" "$FLUX" logger --source=far --level=info unimportant
FLUX_URI=$uri3 ok "logger at rank 3" "$FLUX" logger --source=far --level=crit 'important far away'
wait_until 10 sh -c "'$FLUX' dmesg --source=far | grep -q far.away"
ok "dmesg at the root" "$FLUX" dmesg --source=far
like "$out" 'far.crit\[3\]: important far away' "has what is important"
unlike "$out" 'unimportant' "not the rest"
ok "dmesg of rank 3" "$FLUX" dmesg --broker=3 --source=far
like "$out" 'unimportant' "has that"
ok "dmesg of some ranks" "$FLUX" dmesg --ranks=1-3 --source=far
like "$out" 'far away' "has their lines"

"$FLUX" dmesg --follow --source=later >follow.out 2>follow.err &
pid=$!
wait_until 10 sh -c "'$FLUX' module stats log | grep -q 'followers.*1'"
"$FLUX" logger --source=later one
"$FLUX" logger --source=later two
ok "dmesg --follow sees what is added" wait_until 10 grep -q two follow.out
is "$(wc -l <follow.out)" 2 "and nothing else"
kill "$pid"
wait "$pid" 2>/dev/null
ok "the follower is forgotten" wait_until 10 sh -c "'$FLUX' module stats log | grep -q 'followers.*0'"

ok "dmesg --clear" "$FLUX" dmesg --clear
ok "dmesg" "$FLUX" dmesg --source=me
is "$out" "" "is empty"
exits 2 "a level that is none" "$FLUX" dmesg --level=loud
exits 2 "a level that is none" "$FLUX" logger --level=loud x
exits 1 "ranks that are none" "$FLUX" dmesg --ranks=x-y
exits 1 "text that is not UTF-8" "$FLUX" logger $'\xff\xfe'

release
is "$status" 0 "the session ends well"
finish
