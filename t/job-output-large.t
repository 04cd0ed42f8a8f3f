#!/usr/bin/env bash
# More output in the store than a broker would keep for a client: whoever attaches gets all of it,
# as fast as its reader takes it.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck ping

hold 2
size=80000000
ok "a job with much output" "$FLUX" submit --wait --output-limit=1G -N2 -n2 head -c $((size / 2)) /dev/zero
attached() { "$FLUX" wreck attach 1 | wc -c; }
is "$(attached)" "$size" "all of it is printed"
is "$(FLUX_URI=${FLUX_URI%/0/local}/1/local attached)" "$size" "at another rank, too"

# The reader takes nothing until the program has had a request answered that is behind what it was
# sent.
mkfifo slow
"$FLUX" wreck attach 1 >slow 2>slow.err &
attach=$!
exec 5<slow
dd bs=1 count=1 <&5 2>/dev/null | wc -c >first
asleep() { [ "$(awk '{ print $3 }' "/proc/$attach/stat")" = S ] && "$FLUX" ping -c1 0 >/dev/null; }
ok "one whose reader stops waits" wait_until 20 asleep
left=$(wc -c <&5)
is "$(tr -d " " <first)" 1 "... after the first byte"
exec 5<&-
wait "$attach"
is $? 0 "... and ends well when it goes on"
is "$(cat slow.err)" "" "... without a word"
ok "... and nothing is missing" test "$left" -eq $((size - 1))
release
is "$status" 0 "the session ends well"
finish
