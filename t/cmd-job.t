#!/bin/bash
# flux submit, flux jobs, flux wreck attach: jobs go in, are seen, and what they write comes out.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
export SESSION_LIMIT=150
need_flux start submit jobs wreck
hold 2

# json EXPRESSION DESC: what Python thinks of the JSON in $out (v)
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

# --- submit ---

ok "submit" flux submit true
is "$out/$err" "1/" "prints the id, and nothing else"
ok "--cc" flux submit --cc=1-5,7 sh -c 'exit 0'
is "$out" "$(seq 2 7)" "prints the ids, one a line"
ok "--quiet" flux submit --quiet true
is "$out$err" "" "prints none"
exits 3 "--wait: the worst exit code" flux submit --quiet --wait --cc=0-3 sh -c 'exit {{cc}}'
exits 0 "--wait: all are well" flux submit --quiet --wait --cc=1-3 true
exits 127 "a program that is not there" flux submit --quiet --wait no-such-program
like "$err" "job [0-9]+: .*no such program in PATH" "... which is said"
ok "--watch" flux submit --watch sh -c 'echo out; echo err >&2'
like "$out" "^[0-9]+.out\$" "shows the id and the output"
is "$err" err "and standard error apart"
ok "--watch, labeled" flux submit --quiet --watch -N2 -l sh -c 'echo $FLUX_TASK_RANK'
is "$(sort <<<"$out" | tr '\n' ' ')" "0: 0 1: 1 " "labels are numbers of tasks"
ok "--watch of two" flux submit --cc=8,9 --watch -l sh -c 'echo $FLUX_JOB_CC {{cc}}'
id=$(head -n 1 <<<"$out")
is "$(tail -n +3 <<<"$out" | sort | tr '\n' ' ')" "$id.0: 8 8 $((id + 1)).0: 9 9 " \
    "labels have the id, too; {{cc}} is replaced"
ok "--progress" flux submit --quiet --progress --cc=1-20 true
like "$err" "^20 of 20 ended" "says how far it is"
run flux submit --quiet --watch -t 1h --name=x --env=COLOR=blue --chdir=/usr sh -c 'echo $COLOR; pwd'
is "$out" "$(printf 'blue\n/usr')" "--env, --chdir"

printf 'sh -c "echo %s a b; exit 2"\n\n# a comment\n  true  \n' "'" >commands
sed -i "s/' a b/'a  b'/" commands
exits 2 "--from" flux submit --quiet --watch --from=commands
is "$out" "a  b" "a command a line, quoted as for a shell, which does not run it"
flux submit --dry-run --cc=1-3 echo from a jobspec >specs
is "$(wc -l <specs)" 3 "--dry-run prints the jobspecs"
ok "--from, jobspecs from standard input" flux submit --from=- <specs
is "$(wc -l <<<"$out")" 3 "are three jobs"
flux wreck wait "$(head -n 1 <<<"$out")-$(tail -n 1 <<<"$out")"
is "$(flux wreck attach "$(head -n 1 <<<"$out")")" "from a jobspec" "as they were"
(
    cat specs
    echo '{"version":1}'
    cat specs
) >mixed
exits 1 "--from with a bad one" flux submit --from=mixed
is "$(wc -l <<<"$out")" 6 "takes the others"
like "$err" "^flux submit: mixed, line 4: .*" "and names its line"
echo 'sh -c "never closed' >broken
exits 1 "--from with a broken line" flux submit --from=broken
like "$err" "broken, line 1: a quote" "is named, too"

fails "more nodes than there are" flux submit -N3 true
like "$err" "flux submit: .*[23] nodes" "says how many there are"
is "$out" "" "no id"
fails "a property that no node has" flux submit --requires=golden true
fails "a dependency on what was never there" flux submit --dependency=afterok:99999 true
exits 2 "no command" flux submit
exits 2 "no such option" flux submit --no-such true
exits 2 "no duration" flux submit -t soon true
exits 2 "no set" flux submit --cc=3-1 true
exits 2 "--from and a command" flux submit --from=- true
exits 2 "input that nobody sends" flux submit --stdin=all cat
ok "--input" flux submit --quiet --watch -i commands cat
is "$out" "$(cat commands)" "is read"
ok "--output" flux submit --quiet --wait -O 'o-{{id}}-{{task}}' -N2 sh -c 'echo $FLUX_TASK_RANK'
is "$(cat o-*-0 o-*-1 | tr '\n' ' ')" "0 1 " "goes to files"
echo old >plain
ok "--output to one file" flux submit --quiet --wait -O plain --cc=1-3 sh -c 'echo new'
is "$(sort -u plain)" new "which begins empty"
fails "a file that cannot be made" flux submit -O /no/such/file true
is "$(flux submit --dry-run -O /no/such/file true | head -c 1)" "{" "--dry-run makes none"

# --- jobs ---

flux submit --quiet --wait --name=ended sh -c 'exit 4'
big=$(flux submit -N2 -x -t 10m --name=big sleep 1000)
wait_until 10 job_state_is "$big" running
ok "another runs" test -n "$big"
small=$(flux submit -N1 -x --name=small sleep 0)
held=$(flux submit --hold --name=held true)
flux submit --quiet --dependency=afterok:"$small" --name=after true
later=$(flux submit --begin-time=+1h --name=later true)

ok "jobs" flux jobs
like "$out" "ID +USER +NAME +STATE +TASKS +NODES +TIME +INFO" "has a line of titles"
is "$(wc -l <<<"$out")" 6 "and a line for each active job"
is "$(flux jobs -n -o id,state "$big" | tr -s ' ')" "$big running" "one by its id"
is "$(flux jobs -n -o '{name}:{state}' "$small-$later" | sort | tr '\n' ' ')" \
    "after:depend held:held later:depend small:pending " "states of those that wait"
like "$(flux jobs -n -o why "$later")" 'waits for begin-time ([0-9-]+T)?[0-9]+:[0-9]+(:[0-9]+)?$' \
    "a time is told as one"
far=$(flux submit --setattr=system.begin-time=1e300 true)
is "$(flux jobs -n -o why "$far")" "waits for begin-time never" "... of a year that no calendar has"
flux cancel -q "$far"
is "$(flux jobs -n -s running -o name)" big "-s running"
is "$(flux jobs -n -s held -o name)" held "-s held: a word that STATE shows"
is "$(flux jobs -n --name=ended -s failed -o '{name} {state}')" "ended failed" "-s failed"
is "$(flux jobs -n -s failed,running -o state | sort -u | tr '\n' ' ')" "failed running " "-s failed,running"
is "$(flux jobs -n -s completed -c 2 -o state | sort -u)" completed "-s completed -c"
exits 2 "-s of a word that is none" flux jobs -s asleep
like "$err" "held, pending, running, ending, completed, failed, canceled, timeout" "... names those that are"
exits 0 "... of a job that waits: none" flux jobs -s running "$held"
fails "one that is not there" flux jobs 4000
like "$err" "no job 4000" "... is named"
fails "nor can it be watched" flux jobs --watch 4000
is "$(flux jobs -n -s queued -o name | sort | tr '\n' ' ')" "after held later small " "-s queued"
is "$(flux jobs -n -s pending -o name | sort | tr '\n' ' ')" "small " "-s pending"
is "$(flux jobs -n -a --name=ended -o '{code} {result} {info}')" "4 failed exit code 4" "-a --name"
is "$(flux jobs -n -a -c 3 | wc -l)" 3 "-c"
is "$(flux jobs -a --since=1h -n | wc -l)" "$(flux jobs -a -n | wc -l)" "--since"
is "$(flux jobs -u "$(id -u)" -n | wc -l)/$(flux jobs -A -n | wc -l)" 5/5 "-u, -A"
ok "--why" flux jobs --why
like "$out" "small.* pending " "lists who waits"
like "$(grep small <<<"$out")" "pending .*waits for.*node" "why"
like "$(grep after <<<"$out")" "afterok:$small" "and for whom"
unlike "$out" "big" "but not who runs"
like "$(flux jobs -n --why -o '{expected}' "$small")" "^[0-9]+:[0-9]+:[0-9]+\$|^2" \
    "when it is expected: there is a time limit"
ok "--json" flux jobs --json
json 'len(v) == 5 and all(j["user"] and j["state"] and j["t_submit"] > 0 for j in v)' "is an array"
json "[j for j in v if j['id'] == $big][0]['nnodes'] == 2" "with everything"
json "{j['id']: j['state'] for j in v} == {$big: 'running', $held: 'held', $small: 'pending'} | \
    {j['id']: 'depend' for j in v if j['id'] in ($small + 2, $later)}" "with the words of the column STATE"
json "[j['rawstate'] for j in v if j['id'] == $held] == ['SCHED'] or \
    [j['rawstate'] for j in v if j['id'] == $held] == ['PRIORITY']" "and the names of the event log"
ok "-o help" flux jobs -o help
like "$out" "nodelist " "lists columns"
exits 1 "an id that is not there" flux jobs 99999
like "$err" "there is no job 99999" "is named"
exits 2 "no column" flux jobs -o color
like "$err" "no column 'color'" "is named"
exits 2 "no state" flux jobs -s nowhere
exits 2 "no user" flux jobs -u no-such-user
exits 2 "no id" flux jobs x
is "$(flux jobs --color=always -n -s running -o state)" "$(printf '\033[32mrunning\033[0m')" "--color"
is "$(flux jobs -n -s running -o state)" running "none elsewhere than on a terminal"
"$FLUX" jobs --watch "$small" >changes &
pid=$!
ok "--watch" wait_until 10 grep -q "^[0-9.]* $small pending\$" changes
flux cancel "$big"
ok "tells of changes" wait_until 20 grep -q "^[0-9.]* $small inactive\$" changes
kill -INT $pid
wait $pid
is $? 0 "until it is interrupted"
is "$(flux cancel -s held)" "1 job" "flux cancel -s takes the words of the column STATE"
flux cancel "$later"

# --- attach ---

id=$(flux submit -N2 sh -c 'echo first $FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.05; done
    echo second; exit $FLUX_TASK_RANK')
"$FLUX" wreck attach -l "$id" >attached 2>attached.err &
pid=$!
ok "attach to a job that runs" wait_until 10 grep -q "first 1" attached
: >go
wait $pid
is $? 1 "attach exits as the job"
is "$(sort attached | tr '\n' ' ')" "0: first 0 0: second 1: first 1 1: second " "with all its output"
ok "and again, when it has ended" wait_until 5 job_state_is "$id" failed
exits 1 "the exit code is the same" flux wreck attach "$id"
is "$(sort <<<"$out" | tr '\n' ' ')" "first 0 first 1 second second " "and so is the output"
id=$(flux submit head -c 3000000 /dev/zero)
is "$(flux wreck attach "$id" | wc -c)" 3000000 "3 MB of zeros"
id=$(flux submit printf 'no newline')
is "$(flux wreck attach -l "$id")" "0: no newline" "a last line without newline"
id=$(flux submit -O 'file-{{id}}' sh -c 'exit 5')
exits 5 "attach to a job with files" flux wreck attach "$id"
like "$(head -n 1 <<<"$err")" "goes to .*/file-$id\$" "says where its output is"
like "$err" "job $id: task 0 on [^ ]+ \(rank [0-9]\): exit code 5" "... and which task failed"
like "$(flux wreck status "$id")" "output +[^ ]*/file-$id" "so does status"
fails "attach to what is not there" flux wreck attach 99999
exits 2 "attach to two" flux wreck attach 1 2
id=$(flux submit sh -c 'echo ready; exec sleep 1000')
rm -f attached attached.err
"$FLUX" wreck attach "$id" >attached 2>attached.err &
pid=$!
wait_until 10 grep -q ready attached # so it hears signals
kill -INT $pid
wait_until 10 grep -q 'once more' attached.err
ok "^C once does not leave" kill -0 $pid
# On a busy host 2 s may be over before the second one: then it is the first again.
leaves() {
    kill -INT $pid 2>/dev/null
    sleep 0.1 # it needs a moment, and two signals within 2 s are what counts
    ! kill -0 $pid 2>/dev/null
}
wait_until 10 leaves
wait $pid
is $? 130 "twice does"
like "$(cat attached.err)" "once more within 2 s leaves job $id" "as it says"
ok "the job goes on" job_state_is "$id" running
flux cancel --wait "$id"
ok "until it is canceled" job_state_is "$id" canceled

# --- completion ---

complete_words() {
    PATH=$(dirname "$FLUX"):$PATH bash -c '. "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) &&
        _flux; echo "${COMPREPLY[*]}"' "$SRCDIR/etc/flux.bash-completion" "$@"
}
is "$(complete_words flux submit --lay)" "--layout=" "options are completed"
is "$(complete_words flux submit --layout = c)" cyclic "and their values"
is "$(complete_words flux wreck ti)" timing "commands of commands"
id=$(flux submit sleep 1000)
is "$(complete_words flux cancel '')" "$id" "ids"
is "$(complete_words flux wreck attach "$id")" "$id" "of flux wreck"
is "$(complete_words flux jobs -o nodel)" nodelist "columns"
flux cancel "$id"
is "$(complete_words flux wreckrun -o lay)" layout= "options of the launcher"
is "$(complete_words flux queue policy --queue = e)" easy "policies"
is "$(complete_words flux resource list --states = d)" "down drained" "states of nodes"
like "$(complete_words flux resource drain --force '')" '^0-?1?' "nodes"

release
is "$status" 0 "the session ends"
finish
