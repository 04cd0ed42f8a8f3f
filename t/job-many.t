#!/bin/bash
# Requests that name thousands of jobs, which are done a slice at a time, and a restart of a session
# whose jobs have records of all sizes.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"

hold 1 --statedir="$TEST_DIR/state"
run "$FLUX" submit --quiet --hold --cc=1-2500 true
is "$status" 0 "2500 jobs are held"
run "$FLUX" wreck urgency 1-2600 0
is "$status" 1 "their urgency, and that of a hundred that are not there"
like "$err" "no job 2501" "... which is said"
like "$err" "and 90 more" "... of some of them"
"$FLUX" wreck wait 1-2600 >waited 2>&1 &
waiter=$!
ok "who waits for all is known" wait_until 10 eval '[ "$("$FLUX" module stats job |
    sed -n "s/.*senders[^0-9]*//p")" -gt 0 ]'
run "$FLUX" cancel 1-2500
is "$status" 0 "all are canceled"
wait "$waiter"
is $? 130 "... as who waited for them learns"
is "$("$FLUX" jobs -a -n -o state | sort | uniq -c | tr -s ' ')" " 2500 canceled" "... and the list says"
run "$FLUX" cancel 2-2400
is "$status" 1 "what has ended is not canceled again"
ok "forget half of them" "$FLUX" wreck purge -q 2-1251
is "$("$FLUX" kvs ls job | wc -w)" 1250 "... the store has the others"
ok "... and all but ten" "$FLUX" wreck purge -q --keep=10
is "$("$FLUX" kvs ls job | wc -w)" 10 "... the store has ten"

# Of a job that is read back what is small comes with its directory, and what is not by itself.
long=$(printf '%020000d' 7)
small=$("$FLUX" submit --hold --env=WHAT=small sh -c 'echo "$WHAT" >"$0"' small)
large=$(LONG=$long "$FLUX" submit --hold --env=WHAT="$long" sh -c 'echo "$WHAT $LONG $1" >"$0"' large "$long")
ended=$("$FLUX" submit sh -c 'head -c 40000 /dev/zero | tr "\0" x')
ok "a job writes more than its record" "$FLUX" wreck wait "$ended"
release
is "$status" 0 "the session ends"

hold 1 --statedir="$TEST_DIR/state"
is "$("$FLUX" jobs -n -o id | tr -d ' ' | tr '\n' ' ')" "$small $large " "a restart: what waited is there"
is "$("$FLUX" jobs -a -n -s inactive -o id | head -1 | tr -d ' ')" "$ended" "... the newest of what had ended is first"
is "$("$FLUX" jobs -a -n -s inactive | wc -l)" 11 "... and nothing is missing"
ok "both run" "$FLUX" wreck release "$small" "$large"
ok "... to their end" "$FLUX" wreck wait "$small" "$large"
is "$(cat small)" small "a small environment came back"
is "$(cat large)" "$long $long $long" "... and a large one, with a large jobspec"

# Thousands that wait for one.
first=$("$FLUX" submit --hold true)
run "$FLUX" submit --quiet --name=never --cc=1-1500 --dependency=afterok:"$first" true
run "$FLUX" submit --quiet --name=later --hold --cc=1-1500 --dependency=afterany:"$first" true
is "$status" 0 "3000 jobs wait for one"
ok "which is canceled" "$FLUX" cancel "$first"
all_are() {
    is_count=$("$FLUX" jobs -a -n --name="$1" -o state | sort | uniq -c | tr -s ' ')
    [ "$is_count" = " 1500 $2" ]
}
ok "half of them end, since that can never be met" wait_until 20 all_are never failed
ok "... the others have gone on" wait_until 20 all_are later held
"$FLUX" cancel -q --all
ok "... until they are canceled" "$FLUX" wreck wait --all
jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
