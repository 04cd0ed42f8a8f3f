#!/usr/bin/env bash
# The log: lines of a rank, the important ones also at the root, bounded, followed, cleared.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start logger dmesg module
plan 46

at() {
    local rank=$1
    shift
    FLUX_URI=${FLUX_URI%/*/local}/$rank/local "$FLUX" "$@"
}

hold 4 --topology=chain --set=log.ring-size=100 --set=live.lost=60s

ok "a line can be logged" at 3 logger --level=info --source=tester "only here"
ok "an important one, too" at 3 logger --level=err --source=tester "for all to see"
run at 3 dmesg --broker=3 --source=tester
like "$out" "tester.info\[3\]: only here.*tester.err\[3\]: for all to see" "a rank has its own lines"
ok "the root gets the important one" wait_until 20 eval 'at 0 dmesg | finds "for all to see"'
run at 0 dmesg
like "$out" "tester.err\[3\]: for all to see" "with the rank it is from"
unlike "$out" "only here" "but not the other"
run at 1 dmesg --broker=1
unlike "$out" "for all to see" "nor do those on the way keep it"

# More than a message holds, all in one go while the instance above is stopped: all of it is passed
# on, and nothing is counted as dropped.
counter() {
    at "$1" module stats log | awk -v name="$2" '$2 == name { print $3 }'
}
before=$(counter 3 forwarded)
is "$before" 1 "what is passed on is counted"
above=$(at 2 getattr broker.pid)
kill -STOP "$above"
seq 1 200 | at 3 logger --level=err --source=many
kill -CONT "$above"
last() {
    at 0 dmesg --source=many | finds ': 200$'
}
ok "many lines at once get to the root" wait_until 20 last
is "$(counter 3 forwarded)" 201 "all of them"
is "$(for rank in 0 1 2 3; do counter $rank forward_dropped; done | tr '\n' ' ')" "0 0 0 0 " \
    "and none is counted as dropped on the way"
# More than may wait for it: what is dropped is counted at the root, and only there.
kill -STOP "$above"
seq 1 1000 | at 3 logger --level=err --source=flood3
kill -CONT "$above"
told() {
    [ "$(counter 0 forward_dropped)" -gt 0 ]
}
at 3 logger --level=err --source=many "and one more"
ok "what was dropped on the way is told to the root" wait_until 20 told
is "$(for rank in 1 2 3; do counter $rank forward_dropped; done | tr '\n' ' ')" "0 0 0 " \
    "and is counted once"

for level in emerg alert crit err warning notice info debug; do
    at 0 logger --level="$level" --source=levels "at level $level"
done
run at 0 dmesg --source=levels --level=crit
is "$(grep -c 'at level' <<<"$out")" 3 "lines can be chosen by level"
run at 0 dmesg --ranks=1-3
unlike "$out" "at level" "and by rank"
run at 0 dmesg --source=levels --count=2
is "$(cut -d ' ' -f 3- <<<"$out")" $'at level info\nat level debug' "and the last ones only"
run at 0 dmesg --json --source=levels --count=1
like "$out" '"level": ?7.*"rank": ?0|"rank": ?0.*"level": ?7' "and printed as JSON"
fails "a bad set of ranks is refused" at 0 dmesg --ranks=x
fails "a bad level is refused" at 0 logger --level=loud text
ok "control characters do not get to the terminal" at 0 logger $'bell \a escape \e[31m end'
run at 0 dmesg --source=logger --count=1
like "$out" "bell   escape  .31m end" "but become blanks"

# Bounds.
flood() {
    seq 1 5000 | "$FLUX" logger --source=flood
}
ok "a flood is taken" flood
run at 0 dmesg --source=flood
is "$(wc -l <<<"$out") $(tail -n 1 <<<"$out" | sed 's/.*: //')" "100 5000" \
    "and only the last are kept, as many as log.ring-size says"

# Following.
# Does the root count $1 followers?
followers() {
    at 0 module stats log | finds -E "[[:space:]]followers[[:space:]]+$1\$"
}
"$FLUX" dmesg --follow --source=followed >followed 2>&1 &
follower=$!
ok "who follows is known" wait_until 20 followers 1
at 2 logger --level=err --source=followed "new from rank 2"
ok "a new line is shown" wait_until 20 grep -q "new from rank 2" followed
at 2 logger --level=err --source=followed "and another one"
wait_until 20 grep -q "another one" followed
"$FLUX" dmesg --follow --source=followed --count=1 >last 2>&1 &
second=$!
wait_until 20 grep -q "another one" last
is "$(wc -l <last)" 1 "who wants the last line only gets no more"
kill "$follower" "$second"
wait "$second" 2>/dev/null
wait "$follower" 2>/dev/null
ok "and who goes away is forgotten" wait_until 20 followers 0

ok "the log can be cleared" at 0 dmesg --clear
run at 0 dmesg
is "$out" "" "and is empty then"

# Settings as arguments.
at 3 module unload log
for bad in ring-size=0 ring-size=x ring-bytes=1K ring-bytes=2G ring-bytes=many forward-level=loud \
    color=red; do
    fails "$bad is refused" at 3 module load --ranks=3 log "$bad"
    like "$err" "log" "with a sentence"
done
ok "what is in bounds is not" at 3 module load --ranks=3 log ring-size=7 ring-bytes=4K \
    forward-level=none
seq 1 10 | at 3 logger --level=emerg --source=own
is "$(counter 3 entries) $(counter 3 forwarded)" "7 0" "and is what counts"

release
is "$status" 0 "the session ends well"
