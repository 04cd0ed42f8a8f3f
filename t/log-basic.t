#!/usr/bin/env bash
# The log: lines of a rank, the important ones also at the root, bounded, followed, cleared.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start logger dmesg
plan 23

at() {
    local rank=$1
    shift
    FLUX_URI=${FLUX_URI%/*/local}/$rank/local "$FLUX" "$@"
}

hold 4 --topology=chain --set=log.ring-size=100

ok "a line can be logged" at 3 logger --level=info --source=tester "only here"
ok "an important one, too" at 3 logger --level=err --source=tester "for all to see"
run at 3 dmesg --broker=3 --source=tester
like "$out" "tester.info\[3\]: only here.*tester.err\[3\]: for all to see" "a rank has its own lines"
ok "the root gets the important one" wait_until 20 eval 'at 0 dmesg | grep -q "for all to see"'
run at 0 dmesg
like "$out" "tester.err\[3\]: for all to see" "with the rank it is from"
unlike "$out" "only here" "but not the other"
run at 1 dmesg --broker=1
unlike "$out" "for all to see" "nor do those on the way keep it"

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
    at 0 module stats log | grep -qE "[[:space:]]followers[[:space:]]+$1\$"
}
"$FLUX" dmesg --follow --source=followed >followed 2>&1 &
follower=$!
ok "who follows is known" wait_until 20 followers 1
at 2 logger --level=err --source=followed "new from rank 2"
ok "a new line is shown" wait_until 20 grep -q "new from rank 2" followed
kill "$follower"
wait "$follower" 2>/dev/null
ok "and who goes away is forgotten" wait_until 20 followers 0

ok "the log can be cleared" at 0 dmesg --clear
run at 0 dmesg
is "$out" "" "and is empty then"

release
is "$status" 0 "the session ends well"
