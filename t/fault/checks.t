#!/usr/bin/env bash
# The checkers of t/fault: each kind of violation, planted in a sound record, is named; a sound one
# has none. (Those of histories and of event logs have tests of this kind of their own: t/history,
# t/jobs.)
# shellcheck source=t/lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=t/fault/check.sh
. "$SRCDIR/t/fault/check.sh"

# --- jobs ---

sound() {
    printf '%s\n' '1 1 any' '2 2 any' '3 1 endless' '5 1 any' '6 2 any' '7 2 survive' >accepted
    # 4: whoever submitted it was killed; 5 was canceled; 6 has two attempts; 7 lost a task at once
    printf '%s\n' '2 1' '1 0' '2 0' '3 0' '4 0' '6 0' '6 1' '6 1' '7 1' >runs
    printf '%s\n' '1 completed 1' '2 completed 2' '3 timeout 1' '4 failed 1' '5 canceled 1' '6 completed 2' \
        '7 completed 2' >listed
    echo '6 2' >starts
}
# planted NAME SENTENCE COMMAND...: what is wrong after this command
planted() {
    local name=$1 sentence=$2
    shift 2
    sound
    "$@"
    is "$(jobs_violations accepted runs listed starts)" "$sentence" "$name"
}
line() { # FILE TEXT
    echo "$2" >>"$1"
}
planted "nothing is wrong" "" true
planted "no job at all" "" eval ': >accepted; : >runs; : >listed; : >starts'
planted "a task that ran twice" "job 2: task 1 ran 2 times in 1 attempt" line runs "2 1"
planted "a job that failed and ran twice" "job 4: task 0 ran 2 times in 1 attempt" line runs "4 0"
planted "an id that was given twice" "id 1 was given to two jobs" line accepted "1 1 any"
planted "an accepted job that is not there" "job 5: was accepted, and is not on record" sed -i /^5/d listed
planted "one that ran and is not there" "job 4: ran, and is not on record" sed -i /^4/d listed
planted "a lost job that is recorded twice" "job 4: is on record twice" line listed "4 failed 1"
planted "one that has not ended" 'job 4: has not ended: "running"' sed -i 's/4 failed/4 running/' listed
planted "one without a result" 'job 4: has not ended: ""' sed -i 's/^4 .*/4/' listed
planted "one that completed and did not run" "job 1: completed, and 0 of 1 tasks ran" sed -i '/^1/d' runs
planted "one of which a task did not run" "job 2: completed, and 1 of 2 tasks ran" sed -i '/^2 0/d' runs
planted "one whose time limit did not end it" "job 3: completed, which it cannot by itself" \
    sed -i 's/3 timeout/3 completed/' listed
planted "a task that ran more often than its job was started" "job 6: task 1 ran 3 times in 2 attempts" \
    line runs "6 1"
planted "one of a job that was not started again" "job 6: task 1 ran 2 times in 1 attempt" eval ': >starts'
planted "one that ran again and did not run as a whole" "job 6: completed, and 1 of 2 tasks ran" \
    sed -i '/^6 1/d' runs
planted "a task of a job that goes on, which ran twice" "job 7: task 1 ran 2 times in 1 attempt" line runs "7 1"
planted "a line that no task wrote" 'a task wrote "7x"' line runs 7x

# --- jobs that lose nodes ---

losses() { # NOTE...: what is wrong with these jobs when the brokers of ranks 1 and 3 have died
    printf '%s\n' 1 3 >gone
    printf '%s\n' "$@" >reasons
    losses_violations reasons gone
}
is "$(losses '1 ' '2 lost rank 3 (a) with task 0: why' '3 lost ranks 1,3 (a,b) with tasks 0-3: why')" "" \
    "jobs that lose the nodes of dead brokers"
is "$(losses '4 lost ranks 1-3 (a,b,c) with tasks 0-2: why')" "job 4: lost its tasks on rank 2, whose broker lives" \
    "one that loses another one"
is "$(losses '5 lost the tasks on rank 7: why')" "job 5: lost its tasks on rank 7, whose broker lives" \
    "one that loses its tasks with the way to them"

# --- barriers ---

meet() { # LINE... : what is wrong with these participants, when rank 3 is lost from 20 to 21
    printf '%s\n' "$@" >met
    echo '20 21 3' >excuses
    barriers_violations met excuses
}
is "$(meet 'a 2 10.5 11.25 0 1 10' 'a 2 11.125 11.5 0 2 10' 'b 2 1 9 1 1 1')" "" "barriers that nobody leaves too early"
is "$(meet 'a 2 10.5 11.0 0 1 10' 'a 2 11.125 11.5 0 2 10')" "barrier a: somebody left before all had entered" \
    "one that somebody leaves before the last one enters"
is "$(meet 'a 3 10.5 11.25 0 1 10' 'a 3 11.125 11.5 0 2 10')" "barrier a: somebody left, and 2 of 3 entered" \
    "one that fewer have entered"
is "$(meet 'a 2 10.5 20.25 0 1 10' 'a 2 11.125 20.5 1 3 10')" "" "one participant was lost after all had entered"
is "$(meet 'a 2 20.5 31 1 1 20.4' 'a 2 20.6 22 1 3 20.4')" "" "one participant was lost before all had entered"
is "$(meet 'a 2 20.5 31 1 1 20.4' 'a 2 20.6 22 137 2 20.4')" "" "one participant was killed"
is "$(meet 'a 2 20.5 31 1 1 20.4' 'a 2 20.6 22 1 2 20.4')" \
    "barrier a: failed for 2 of 2, and the brokers of ranks 1 2 live" "one that fails when another rank is lost"
is "$(meet 'a 2 20.5 31 1 13 20.4' 'a 2 20.6 22 0 30 20.4')" \
    "barrier a: failed for 1 of 2, and the brokers of ranks 13 30 live" "one that forgets a participant"
is "$(meet 'a 2 10.5 19 1 1 10' 'a 2 11.5 19 1 3 10')" \
    "barrier a: failed for 2 of 2, and the brokers of ranks 1 3 live" "one that fails before its rank is lost"
is "$(meet 'a 2 22 23 1 1 21.5' 'a 2 22 23 1 3 21.5')" \
    "barrier a: failed for 2 of 2, and the brokers of ranks 1 3 live" "one that fails after its rank has returned"
is "$(
    echo 'a 2 10 19 1 1 10' >met
    echo 'a 2 10 19 1 2 10' >>met
    echo '18 18.5 all' >excuses
    barriers_violations met excuses
)" "" "the session ended"

# --- programs of MPI ---

ring() { # LINE...
    printf '%s\n' "$@" >rings
    rings_violations rings
}
is "$(ring '1 says rank 0 of 2 on x: ring 1: right' '1 says rank 1 of 2 on y: ring 1: right' '1 exit 0' '2 exit 1')" "" "programs that are right"
is "$(ring '1 says rank 0 of 2 on x: ring 1: right' '1 exit 0')" "program 1: succeeded, and 1 of 2 ranks were right" \
    "one whose output is not whole"
is "$(ring '1 says rank 0: token: got 3, want 1' '1 exit 1')" "program 1 says rank 0: token: got 3, want 1" "one that is wrong"

failed_runs() { # LINE...: what is wrong with these, when there was a fault from 20 to 21
    printf '%s\n' "$@" >rings
    echo '20 21 jobs' >excuses
    wreckruns_violations rings excuses
}
is "$(failed_runs '1 exit 0 3 4' '2 exit 1 20.5 24' '3 exit 137 3 4' '4 says 1 exit 5')" "" "programs that fail in a fault"
is "$(failed_runs '1 exit 1 3 4' '1 err why' '2 exit 1 20 21' '2 err that')" "program 1: failed with code 1
1 err why" "one that fails before"
is "$(failed_runs '1 exit 1 21.5 24')" "program 1: failed with code 1" "one that fails after"

# --- output, and jobs that fail ---

prints() { # LINE... ("ID TASK WHAT", or "ID exit CODE")
    printf '%s\n' "$@" | sed -E 's/^([0-9]+) ([01]) /\1 says \2: /' >outputs
    outputs_violations outputs
}
whole=('1 0 0' '1 1 0' '1 0 1' '1 1 1' '1 0 end' '1 1 end')
is "$(prints "${whole[@]}" '1 exit 0' '2 exit 1' '3 0 0' '3 exit 1')" "" "output without a gap"
is "$(prints "${whole[@]:1}" '1 exit 0')" "job 1: task 0 printed 1 instead of 0" "... of which the first line is lost"
is "$(prints "${whole[@]:0:3}" '1 0 3' '1 exit 1')" "job 1: task 0 printed 3 instead of 2" "... one in the middle"
is "$(prints "${whole[@]:0:5}" '1 exit 0')" "job 1: succeeded, and 1 of 2 tasks printed all" "... the last one"
is "$(prints '1 0 0' '1 0 1' '1 0 1' '1 exit 1')" "job 1: task 0 printed 1 instead of 2" "... one is doubled"
is "$(prints "${whole[@]}" '1 1 end' '1 exit 0')" 'job 1: task 1 printed "end" after its end' "... the last one is"
is "$(prints '1 0 0' '1 0 x' '1 exit 1')" 'job 1: printed "0: x"' "... one is another"
is "$(prints '1 0 0' '1 1 0' '1 exit told')" "" "... or some was lost, and the event log says so"
is "$(prints '1 0 0' '1 0 2' '1 exit told')" "job 1: task 0 printed 2 instead of 1" "... and some was stored after that"
is "$(prints '1 0 0' '1 0 x' '1 exit 137')" "" "the client was killed in a line"

failures() { # ID RESULT...
    printf '%s\n' '1 1 any' '2 1 fails' '3 2 prints' >accepted
    printf '%s\n' "$@" >listed
    echo 3 >causes
    failures_violations accepted listed causes
}
is "$(failures '1 completed 1' '2 failed 1' '3 failed 2' '4 failed 1')" "" "jobs that fail for a cause"
is "$(failures '1 failed 1' '2 failed 1')" "job 1: failed, and there is no cause on record" "one that fails without"

# --- brokers that were counted as lost ---

zombie() { # LINE
    echo "$1" >zombies
    zombies_violations zombies
}
since="rank 3, after it was counted as lost:"
is "$(zombie '3 1 17 17 0 1 none')" "" "a broker that was counted as lost, and ends"
is "$(zombie '3 - 17 17 0 1 none')" "$since its broker goes on" "one that does not end"
is "$(zombie '3 0 17 17 0 1 none')" "$since its broker ended with exit code 0" "one that nobody starts again"
is "$(zombie '3 139 17 17 0 1 none')" "$since its broker ended with exit code 139" "one that crashes"
is "$(zombie '3 ? 17 17 0 1 none')" "$since its broker ended with exit code ?" "one of which nobody tells how it ended"
is "$(zombie '3 1 17 18 0 1 none')" "$since its task wrote 18 after 17" "one that writes what its task asks for"
is "$(zombie '3 1 17 17 2 1 none')" "$since 2 of its processes go on" "one that leaves a task that goes on"
is "$(zombie '3 1 17 17 0 0 none')" "$since it answered that a commit was done" "one that confirms what is not there"
is "$(zombie '3 1 17 17 0 1 1')" "$since a commit was done" "one that writes what a client asks for"

# --- events ---

events() { # LAST EVENT... : what is wrong with these ("NUMBER TOPIC PAYLOAD [TERM]", or a part of a line)
    local last=$1 one seq topic payload term
    shift
    for one; do
        read -r seq topic payload term <<<"$one"
        [ -n "$topic" ] || {
            echo "$seq"
            continue
        }
        echo "{\"seq\":$seq,\"term\":${term:-1},\"topic\":\"$topic\",\"rank\":0,\"payload\":$payload}"
    done >events
    events_violations events "$last"
}
lost=' event.lost {"from":7,"to":9}'
is "$(events '' '5 a {}' '6 b {}')" "" "events follow each other"
is "$(events 6 '5 a {}' '6 b {}')" "" "... up to the last one"
is "$(events 7 '5 a {}' '6 b {}')" "events: ends before event 7" "one that did not come at the end"
is "$(events '' '5 a {}' '7 b {}')" "events: event 7 follows 5" "one that did not come"
is "$(events '' '5 a {}' '5 b {}')" "events: event 5 follows 5" "one that came twice"
is "$(events '' '5 a {}' '4 b {}')" "events: event 4 follows 5" "one that came late"
is "$(events 10 '6 a {}' "0$lost" '10 b {}')" "" "events that are told as lost"
events 10 '6 a {}' "0$lost" '10 b {}' >violations
is "$(events_violations events 10 none)" "events: 3 events are lost" "... where none may be"
events 10 '6 a {}' '7 event.lost. {"from":7,"to":7}' '8 b {}' '9 c {}' '10 d {}' >violations
is "$(events_violations events 10 none)" "" "... and none is"
is "$(events '' '6 a {}' "0$lost" '11 b {}')" "events: event 11 follows 9" "... of which one more is missing"
is "$(events '' '5 a {}' "0$lost")" "events: event 7 follows 5" "... of which one is not told"
is "$(events '' '6 a {}' '0 event.lost {"from":7,"to":6}')" "events: events 7 to 6 are told as lost" \
    "... of which there is none"
is "$(events '' '6 a {}' '0 event.lost {"from":7,"to":0}')" "" "none any more"
is "$(events '' '6 a {}' '0 event.lost {"from":7,"to":0}' '7 a {}')" "events: event 7 after the last one" \
    "... and then one"
is "$(events 6 '6 a {}' '0 event.lost {"from":7,"to":0}')" "events: ends before event 6" \
    "... at a rank that is up"
is "$(events 8 '6 a {}' '7 b null' '8 c {}')" "" "an event without a payload"
is "$(events '' '6 a {}' '7')" "" "a client that was killed while it printed"
is "$(events '' '6 a {}' '7' '8 c {}')" "events: line 2 is \"7\"
events: event 8 follows 6" "... not at its end"
is "$(events '' '6 a {"seq":9,"term":7}' '7 event.lost. {}')" "" "what a payload says is not the number"
is "$(events '' '6 a {} 1' '7 b {} 2' '8 c {} 2')" "" "events of the next term"
is "$(events '' '6 a {} 2' '7 b {} 1')" "events: event 7 of term 1 follows one of term 2" "... and then one of the last"
is "$(events '' '6 a {} 1' '7 b {} 2' '7 c {} 2')" "events: event 7 follows 7" "... of which one came twice"
is "$(events '' '6 a {} 0')" "events: event 6 of term 0 follows one of term 0" "one that did not enter the session"

# --- refusals ---

printf '%s\n' 'flux submit: there is no room on the disk' '' 'flux: no session' 'flux kvs put: refused' >refused
is "$(refusals_violations refused)" "" "sentences of commands"
for text in 'Segmentation fault' 'flux submit: ' 'Assertion failed'; do
    printf '%s\n' 'flux submit: there is no room on the disk' "$text" >refused
    is "$(refusals_violations refused)" "$text" "something else: $text"
done
finish
