#!/bin/bash
# flux wreckrun: tasks, places, exit codes, environment, files.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
hold 4

ok "one task, its output comes here" "$FLUX" wreckrun -n1 echo hello
is "$out" hello "... and nothing else"
is "$err" "" "... and nothing on standard error"

run "$FLUX" wreckrun -N4 -n8 -l sh -c 'echo $FLUX_TASK_RANK $FLUX_JOB_SIZE $FLUX_NODE_ID'
is "$(sort -n <<<"$out" | tr '\n' ' ')" \
    "0: 0 8 0 1: 1 8 0 2: 2 8 1 3: 3 8 1 4: 4 8 2 5: 5 8 2 6: 6 8 3 7: 7 8 3 " \
    "8 tasks on 4 nodes, in blocks, labeled"
run "$FLUX" wreckrun -N4 -n6 -l sh -c 'echo $FLUX_NODE_ID $FLUX_TASK_LOCAL_ID'
is "$(sort -n <<<"$out" | tr '\n' ' ')" "0: 0 0 1: 0 1 2: 1 0 3: 1 1 4: 2 0 5: 3 0 " \
    "6 tasks on 4 nodes: the first nodes have one more"
run "$FLUX" wreckrun -N3 sh -c 'echo $FLUX_JOB_SIZE'
is "$out" "$(printf '3\n3\n3')" "without -n there is one task a node"
run "$FLUX" wreckrun -N2 -l sh -c 'echo $FLUX_JOB_NNODES; "$0" getattr rank' "$FLUX"
is "$(sort <<<"$out" | tr '\n' ' ')" "0: 0 0: 2 1: 1 1: 2 " \
    "FLUX_URI is that of the task's own broker"
run "$FLUX" wreckrun -n2 -l sh -c 'echo $FLUX_JOB_SIZE $FLUX_TASK_RANK'
is "$(sort <<<"$out" | tr '\n' ' ')" "0: 2 0 1: 2 1 " "without -N tasks are where there is room"
run "$FLUX" wreckrun sh -c 'echo $FLUX_JOB_SIZE'
is "$out" 1 "without -n and -N there is one"
run "$FLUX" wreckrun --overcommit -N4 -n64 sh -c 'echo $FLUX_JOB_SIZE'
is "$(wc -l <<<"$out")" 64 "--overcommit: 64 tasks on 4 nodes"
fails "64 tasks that do not fit" "$FLUX" wreckrun -n64 true
like "$err" "--overcommit" "... and a sentence says what helps"

mkdir one two
printf '#!/bin/sh\necho one $#\n' >one/prog
printf '#!/bin/sh\necho two $PART\n' >two/prog
chmod +x one/prog two/prog
run env PATH="$PWD/one:$PATH" "$FLUX" wreckrun -l -n2 prog x :: : \
    -n1 --env=PART=2 --env=PATH="$PWD/two:$PATH" prog : sh -c 'echo $FLUX_JOB_SIZE $FLUX_TASK_RANK'
is "$(sort <<<"$out" | tr '\n' ' ')" "0: one 2 1: one 2 2: two 2 3: 4 3 " "three programs in one job"
exits 127 "one of several that is not there" "$FLUX" wreckrun true : no-such-program
exits 5 "the exit code of one of several" "$FLUX" wreckrun -N2 true : sh -c 'exit 5'
run "$FLUX" wreckrun -- echo a : b
is "$out" "a : b" "a ':' after -- is an argument"
exits 2 "nothing after ':'" "$FLUX" wreckrun echo a :
id=$("$FLUX" submit -n1 --output=many.out echo a b : -n2 echo 'c d')
ok "submit takes several, too" run_with_timeout 20 "$FLUX" wreck wait "$id"
is "$(sort many.out | tr '\n' ' ')" "a b c d c d " "... and they ran"
like "$("$FLUX" wreck status "$id")" "command +echo a b : echo 'c d'" "... and are shown"
printf '%s\n' "echo 1 : -n2 echo 2" "echo 3" >lines
ok "... also from lines of a file" "$FLUX" submit --quiet --wait --from=lines --output='l.{{id}}'
is "$(sort l.* | tr '\n' ' ')" "1 2 2 3 " "... each its own"

for code in 0 1 3 125 255; do
    exits $code "exit code $code" "$FLUX" wreckrun -n1 sh -c "exit $code"
done
exits 7 "the greatest exit code of all tasks" "$FLUX" wreckrun -N4 sh -c \
    'test $FLUX_TASK_RANK = 2 && exit 7; exit $FLUX_TASK_RANK'
exits 137 "a task that is killed: 128 + signal" "$FLUX" wreckrun -N4 sh -c \
    'test $FLUX_TASK_RANK = 1 && kill -9 $$; exit 0'
like "$err" 'task 1 on [^ ]+ \(rank 1\): signal 9' "... and who it was"
exits 127 "a program that is not there" "$FLUX" wreckrun -N4 no-such-program
like "$err" "cannot run 'no-such-program': no such program in PATH" "... is named"
exits 126 "a file that is not a program" "$FLUX" wreckrun -n1 /etc/passwd
like "$err" "cannot run '/etc/passwd': Permission denied" "... is named"
exits 126 "a directory that is not there" "$FLUX" wreckrun -n1 --chdir=/no/such/dir true
like "$err" "cannot enter the working directory '/no/such/dir'" "... is named"
printf 'echo script; exit 5\n' >script
chmod +x script
exits 5 "a script without #! is run by the shell" "$FLUX" wreckrun -n1 ./script
is "$out" script "... from this directory"

run "$FLUX" wreckrun -N2 pwd
is "$out" "$(printf '%s\n%s' "$PWD" "$PWD")" "tasks start in this directory"
run "$FLUX" wreckrun -n1 --chdir=/usr pwd
is "$out" /usr "--chdir"
run env COLOR=blue TASTE=sour "$FLUX" wreckrun -n1 --env=TASTE=sweet --env=SIZE='a b' --env=-HOME \
    sh -c 'echo $COLOR $TASTE $SIZE ${HOME-none}'
is "$out" "blue sweet a b none" "the environment is this one; --env sets and removes"
run "$FLUX" wreckrun -n1 --share-connections sh -c 'echo ${FLUX_STREAM_SHARE-none}' : sh -c 'echo ${FLUX_STREAM_SHARE-none}'
is "$out" "$(printf 'yes\nyes')" "--share-connections is for the streams of all tasks"
run "$FLUX" wreckrun -n1 sh -c 'echo ${FLUX_STREAM_SHARE-none}'
is "$out" none "without it, the session decides"
run env PMIX_NAMESPACE=x PMI_FD=77 "$FLUX" wreckrun --mpi=pmi -n1 sh -c 'echo $PMI_FD ${PMIX_NAMESPACE-none}'
is "$out" "3 none" "what an outer launcher said about PMI is not passed on"
run env PMIX_NAMESPACE=x PMIX_SERVER_URI3=x "$FLUX" wreckrun -n1 sh -c 'env | grep -c "^PMIX_.*=x"'
is "$out" 0 "... nor about PMIx"
run "$FLUX" wreckrun -n1 printf '%s,' 'a b' '' "$(printf '\303\244\001')" '*'
is "$(printf %s "$out" | od -An -tx1 | tr -d ' \n')" "6120622c2cc3a4012c2a2c" \
    "arguments arrive as they are"
# shellcheck disable=SC2046
run "$FLUX" wreckrun -n1 sh -c 'echo $#' $(seq 0 10000)
is "$out" 10000 "10,000 arguments"
run "$FLUX" wreckrun -n1 sh -c 'ls /proc/self/fd | tr "\n" " "'
is "$out" "0 1 2 3 4 " "open files: the standard streams, PMI, and what ls opened"
run "$FLUX" wreckrun -n1 sh -c 'grep -E "Sig(Blk|Ign)" /proc/self/status | cut -f2 | uniq'
is "$out" 0000000000000000 "no signal is blocked or ignored"
is "$("$FLUX" wreckrun -n1 sh -c 'ulimit -n')" "$(ulimit -n)" "the limit of open files is the user's"

fails "more nodes than there are" "$FLUX" wreckrun -N5 true
like "$err" "needs 5 nodes; there are 4" "... and how many there are"
exits 2 "fewer tasks than nodes" "$FLUX" wreckrun -N4 -n2 true
exits 2 "no command" "$FLUX" wreckrun -N4
exits 2 "no number" "$FLUX" wreckrun -n x true
exits 2 "no task" "$FLUX" wreckrun -n0 true
exits 2 "a strange duration" "$FLUX" wreckrun -t 1y true

# Files.
ok "output and error to files" "$FLUX" wreckrun -N2 -n4 -O out.txt -E err.txt sh -c \
    'echo out $FLUX_TASK_RANK; echo err $FLUX_TASK_RANK >&2'
is "$out$err" "" "... and nowhere else"
is "$(sort out.txt | tr '\n' ' ')" "out 0 out 1 out 2 out 3 " "... standard output of all tasks"
is "$(sort err.txt | tr '\n' ' ')" "err 0 err 1 err 2 err 3 " "... standard error of all tasks"
ok "the same file again" "$FLUX" wreckrun -n1 -O out.txt echo fresh
is "$(cat out.txt)" fresh "... begins empty"
ok "a file for each task" "$FLUX" wreckrun -N2 -n4 -O 'o-{{task}}-{{node}}' sh -c 'echo $FLUX_TASK_RANK'
is "$(cat o-0-0 o-1-0 o-2-1 o-3-1 | tr '\n' ' ')" "0 1 2 3 " "... by its name"
ok "labels in a file" "$FLUX" wreckrun -N2 -l -O lab.txt sh -c 'echo x'
is "$(sort lab.txt | tr '\n' ' ')" "0: x 1: x " "... are there"
fails "a file that cannot be written" "$FLUX" wreckrun -n1 -O /no/such/file true
exits 126 "a template that cannot be written" "$FLUX" wreckrun -n1 -O '/no/such/{{id}}' true
like "$err" "cannot open '/no/such/[0-9]+'" "... is named as it came out"
echo from a file >in.txt
run "$FLUX" wreckrun -N2 -i in.txt -l cat
is "$out" "0: from a file" "standard input of task 0 from a file"

# Jobs that wait.
"$FLUX" wreckrun -N4 -x sleep 100 2>/dev/null &
busy=$!
wait_until 10 sh -c "'$FLUX' jobs -n -s running | grep -q sleep"
"$FLUX" wreckrun -n1 touch started 2>err.txt &
pid=$!
wait_until 10 sh -c "'$FLUX' jobs -n -s pending | grep -q touch"
# What runs in the background ignores SIGINT until it asks for it.
wait_until 10 interrupted $pid
wait $pid
is $? 130 "SIGINT cancels a job that waits"
ok "... which was not started" test ! -e started
"$FLUX" wreckrun -n1 sh -c 'echo here; exit 3' >out.txt &
pid=$!
wait_until 10 sh -c "'$FLUX' jobs -n -s pending | grep -q sh"
kill -TERM $busy
wait $busy
is $? 143 "a job that ends makes room"
wait $pid
is "$?/$(cat out.txt)" 3/here "... for one that waits"

run "$FLUX" wreckrun -d -n1 sleep 30
like "$out" '^[0-9]+$' "a detached job: its id"
is "$status" 0 "... and exit code 0"
id=$out
isnt "$id" "$("$FLUX" wreckrun -d -n1 true)" "the next has another"

release
is "$status" 0 "the session ends while a job runs"
finish
