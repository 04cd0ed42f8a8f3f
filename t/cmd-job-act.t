#!/bin/bash
# flux wreck, flux cancel, flux queue: jobs and the queue are acted on.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
export SESSION_LIMIT=150
need_flux start submit jobs wreck cancel queue
hold 2

json() {
    local text=$out
    ok "$2" python3 -c 'import json, sys
v = json.loads(sys.argv[1])
sys.exit(not ('"$1"'))' "$text"
    out=$text
}
flux() {
    "$FLUX" "$@"
}
queue_is() {
    test "$(flux queue list | awk -v name="$1" '$1 == name { print $2 }')" = "$2"
}

# --- status, timing, eventlog ---

id=$(flux submit -N2 -t 1h --name=sleeper --urgency=20 sh -c 'sleep 1000' 'a b')
wait_until 10 job_state_is "$id" running
ok "status of a job that runs" flux wreck status "$id"
like "$out" "^job $id" "begins with the job"
like "$out" "name +sleeper" "name"
like "$out" "command +sh -c 'sleep 1000' 'a b'" "command, quoted"
like "$out" "state +running" "state"
like "$out" "urgency +20" "urgency"
like "$out" "nodes +2: .*ranks 0-1" "nodes"
like "$out" "limit +1h" "limit"
ok "status --json" flux wreck status -j "$id"
json "v[0]['id'] == $id and v[0]['jobspec']['attributes']['system']['duration'] == 3600" \
    "has the jobspec"
exits 1 "status of what is not there" flux wreck status 99999
exits 2 "status of nothing" flux wreck status
"$FLUX" wreck eventlog -f "$id" >events &
pid=$!
ok "eventlog -f" wait_until 10 grep -q ' start' events
flux wreck kill -s KILL "$id"
wait $pid
is $? 0 "ends with the job"
is "$(awk '{ print $2 }' events | tr '\n' ' ')" \
    "submit depend priority alloc start finish release free clean " "with all that happened"
like "$(cat events)" "finish status=9" "and its status"
is "$(flux wreck eventlog "$id")" "$(cat events)" "eventlog is the same"
ok "eventlog --json" flux wreck eventlog -j "$id"
out=$(head -n 1 <<<"$out")
json 'v["name"] == "submit" and v["context"]["urgency"] == 20' "is the record"
like "$(flux wreck eventlog --time=clock "$id" | head -n 1)" "^2[0-9-]+T[0-9:.]+ submit" "--time=clock"
ok "timing" flux wreck timing -j "$id"
json 'v[0]["run"] > 0 and abs(v[0]["total"] - sum(v[0][k] for k in
    ("ready", "queued", "launch", "run", "cleanup"))) < 1e-4' "adds up"
other=$(flux submit -N2 sh -c 'sleep 0.3; exit 3')
flux wreck wait "$other"
ok "timing of one that ended by itself" flux wreck timing -j "$other"
json '0 < v[0]["launch"] < v[0]["total"] and v[0]["run"] >= 0.28 and v[0]["cleanup"] > 0' \
    "its launch, run and clean-up are told apart"
out=$(flux wreck eventlog -j "$other" | tr '\n' ,)
out="[${out%,}]"
json '[0 for e in [{e["name"]: e for e in v}] for f in [e["finish"]]
    if e["submit"]["timestamp"] <= e["alloc"]["timestamp"] <= f["context"]["started"]
    <= f["context"]["exited"] <= f["timestamp"] and f["context"]["status"] == 3 << 8]' \
    "tasks run between alloc and finish"
other=$(flux submit /no/such/program)
flux wreck wait "$other" 2>/dev/null
unlike "$(flux wreck eventlog "$other")" "started=" "without a task there are no times"
ok "timing of that" flux wreck timing "$other"
fails "timing of what is not there" flux wreck timing 99999
is "$(flux wreck ls -n -o id,state,code "$id" | tr -s ' ')" "$id failed 137" "ls"

# --- kill, wait, raise ---

id=$(flux submit sh -c 'trap "echo got it; exit 7" USR1; echo ready; while :; do sleep 0.1; done')
wait_until 10 sh -c "'$FLUX' kvs get job.$id.output | grep -q ready"
ok "kill -s USR1" flux wreck kill -s USR1 "$id"
exits 7 "wait has its exit code" flux wreck wait "$id"
fails "kill what has ended" flux wreck kill "$id"
fails "kill what is not there" flux wreck kill 99999
exits 2 "no signal" flux wreck kill -s LOUD "$id"
ids=$(flux submit --cc=0-3 sh -c 'exit {{cc}}')
exits 3 "wait for several" flux wreck wait -v "$(head -n 1 <<<"$ids")-$(tail -n 1 <<<"$ids")"
is "$(wc -l <<<"$out")" 4 "-v: a line each"
like "$out" "$(tail -n 1 <<<"$ids") failed 3" "with the result"
exits 1 "wait for what is not there" flux wreck wait 99999
id=$(flux submit sleep 1000)
wait_until 10 job_state_is "$id" running
ok "raise -- severity 5" flux wreck raise --severity=5 --type=hint -m "mind the gap" "$id"
ok "the job goes on" job_state_is "$id" running
like "$(flux wreck eventlog "$id")" 'exception type=hint severity=5 note="mind the gap"' "it is on record"
ok "raise -- severity 0" flux wreck raise --type=mishap -m "too bad" "$id"
run flux wreck wait "$id"
isnt "$status" 0 "ends the job"
like "$(flux jobs -n -o info "$id")" "mishap: too bad" "why is on record"
exits 2 "no severity" flux wreck raise --severity=8 "$id"

# --- urgency, hold, release ---

flux queue stop
a=$(flux submit --name=a sleep 0)
b=$(flux submit --name=b sleep 0)
is "$(flux jobs -n -o name | tr '\n' ' ')" "a b " "who came first goes first"
ok "urgency" flux wreck urgency "$b" 20
is "$(flux jobs -n -o name | tr '\n' ' ')" "b a " "unless the other is more urgent"
ok "hold" flux wreck hold "$b"
ok "is held" job_state_is "$b" held
flux queue start
exits 0 "the other runs" flux wreck wait "$a"
ok "it does not" job_state_is "$b" held
ok "release" flux wreck release "$b"
exits 0 "then it does" flux wreck wait "$b"
exits 2 "no urgency" flux wreck urgency "$b" 32
fails "urgency of what has ended" flux wreck urgency "$b" 20

# --- cancel ---

flux queue stop
ids=$(flux submit --cc=1-10 --name=many sleep 1000)
first=$(head -n 1 <<<"$ids")
ok "cancel one" flux cancel "$first"
ok "is canceled" wait_until 10 job_state_is "$first" canceled
fails "cancel it again" flux cancel "$first"
like "$err" "$first" "it is named"
ok "cancel several" flux cancel -m "no need" "$((first + 1))-$((first + 3))"
ok "are canceled" wait_until 10 job_state_is "$((first + 3))" canceled
like "$(flux jobs -n -o note "$((first + 3))")" "no need" "why is on record"
is "$(flux cancel --all --dry-run)" "6 jobs would be canceled" "cancel --all --dry-run"
is "$(flux cancel --name=other)" "0 jobs" "cancel --name of nobody"
flux queue start
wait_until 10 sh -c "test -n \"\$('$FLUX' jobs -n -s running)\""
run flux cancel -s pending
like "$out" "^[0-9]+ jobs?\$" "cancel -s pending says how many there were"
ok "those that run go on" test -n "$(flux jobs -n -s running)"
ok "cancel --all --wait" flux cancel --all --wait
is "$(flux jobs -n)" "" "nothing is left"
exits 2 "cancel nothing" flux cancel
exits 2 "cancel ids and all" flux cancel --all 1
exits 2 "cancel what has ended" flux cancel -s inactive
fails "cancel what is not there" flux cancel 99999

# --- queue ---

ok "queue list" flux queue list
like "$out" "submission +accepted" "accepts"
like "$out" "policy +easy" "by its policy"
ok "queue list --json" flux queue list -j
json 'v["jobs"]["accepting"] and v["jobs"]["scheduling"] and v["sched"]["queue"] == "easy"' "is JSON"
ok "stop" flux queue stop at noon
ok "is stopped" queue_is scheduling stopped
id=$(flux submit true)
for_queue() {
    flux jobs --why "$id" | finds 'the queue is stopped'
}
ok "a job waits for it" wait_until 10 for_queue
ok "... and is pending" job_state_is "$id" pending
flux submit --quiet --hold --name=words true
later=$(flux submit --name=words true)
left=$(flux submit --name=words true)
ok "a job that is pending" job_state_is "$later" pending
ok "... is held" flux wreck hold "$later"
counts_agree() {
    local word
    for word in depend held pending running ending; do
        queue_is "$word" "$(flux jobs -n -A -o '{state}' | grep -cx "$word")" || return
        test "$(flux jobs -n -A -o '{id}' -s "$word")" = \
            "$(flux jobs -n -A -o '{state} {id}' | sed -n "s/^$word //p")" || return
    done
}
ok "the queue is counted by the words that jobs are listed with" counts_agree
is "$(flux queue list | awk '/^(held|pending)/ { print $2 }' | xargs)" "2 2" "... two of each"
is "$(flux jobs -n -s pending -c 1 -o state)" pending "-s pending -c"
ok "what is held can be canceled by that word" flux cancel -s held
is "$(flux jobs -n --name=words -o '{id}')" "$left" "... and nothing else"
fails "idle, for a while" flux queue idle -t 300ms
ok "start" flux queue start
ok "idle" flux queue idle -t $((60 * PATIENCE))
ok "the job is over" job_state_is "$id" completed
ok "disable" flux queue disable back at noon
fails "nothing is accepted" flux submit true
like "$err" "back at noon" "for a reason"
ok "stop, too" flux queue stop
ok "a reason for both" flux queue disable "closed for ü days, which is a sentence of some length"
ok "start" flux queue start
like "$(flux queue list)" "closed for ü days, which is a sentence of some length" "the reason stays"
ok "stop again" flux queue stop "the reason for both is a new one, which is a sentence of some length, too"
fails "nothing is accepted" flux submit true
like "$err" "closed for ü days" "... and the reason is not that of the stop"
ok "enable" flux queue enable
like "$(flux queue list)" "some length, too" "... here, too"
ok "start again" flux queue start
is "$(flux queue list | grep -c reason)" 0 "no reason is left"
id=$(flux submit sleep 0.3)
ok "drain" flux queue drain
ok "waits for all" job_state_is "$id" completed
fails "and accepts none" flux submit true
ok "enable again" flux queue enable
exits 0 "accepts" flux submit --quiet --wait true
ok "policy" flux queue policy --queue=fcfs --nodes=best-fit
is "$(tr -s ' \n' ' ' <<<"$out")" "queue fcfs nodes best-fit " "is another one"
fails "no policy" flux queue policy --queue=no-such-policy
exits 2 "no command" flux queue
exits 2 "no such command" flux queue jump

# --- purge ---

n=$(flux jobs -a -n | wc -l)
is "$(flux wreck purge --keep=$((n - 2)))" "2 jobs forgotten" "purge --keep"
is "$(flux jobs -a -n | wc -l)" "$((n - 2))" "the others stay"
is "$(flux wreck purge --age=1h)" "0 jobs forgotten" "purge --age"
is "$(flux wreck purge "$id")" "1 job forgotten" "purge one"
fails "is not there any more" flux wreck eventlog "$id"
exits 2 "purge needs to know which" flux wreck purge
exits 1 "purge of a job that is not there" flux wreck purge 9999
like "$err" "there is no job 9999" "... is told"
run flux submit sleep 1000
exits 1 "purge of a job that has not ended" flux wreck purge "$out"
like "$err" "has not ended yet" "... is told"
flux cancel --all >/dev/null
ok "all have ended" flux queue idle
ok "purge --force" flux wreck purge --force
is "$(flux jobs -a -n)" "" "nothing is left"
ok "ids go on" test "$(flux submit true)" -gt "$id"

release
is "$status" 0 "the session ends"
finish
