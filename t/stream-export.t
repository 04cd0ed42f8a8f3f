#!/usr/bin/env bash
# Streams in other sessions: from a child to its parent, from there to another child, and back.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
need_flux batch proxy cancel

hold 2
own=$FLUX_URI
cat >inner.sh <<'END'
#!/bin/sh
exec sleep 1000
END
a=$("$FLUX" batch -N1 inner.sh)
b=$("$FLUX" batch -N1 inner.sh)
child_a=$(run_with_timeout 30 "$FLUX" proxy --wait=20 --uri "$a")
child_b=$(run_with_timeout 30 "$FLUX" proxy --wait=20 --uri "$b")
like "$child_a $child_b" '^local://.* local://' "two sessions are jobs of this one"
at() { # SESSION COMMAND...: run it there
    local FLUX_URI=$1
    export FLUX_URI
    shift
    "$@"
}
exports() { # NAME SESSION ARGUMENT...: flux stream export there, in the background
    local name=$1 session=$2
    shift 2
    FLUX_URI=$session "$FLUX" stream export "$@" 2>"$name.err" &
    # shellcheck disable=SC2004 # an associative array
    pid[$name]=$!
}

# Usage errors.
exits 2 "flux stream export to nowhere" "$FLUX" stream export heat
like "$err" "--to or --from is required" "says what is missing"
exits 2 "flux stream export of nothing" "$FLUX" stream export --to=parent
exits 1 "flux stream export to a parent that is not there" "$FLUX" stream export --to=parent heat
like "$err" "has no parent" "says so"
exits 1 "flux stream export to a session that is not there" "$FLUX" stream export --to=local:///none heat

# From a child to its parent, by another name, and on to another child.
at "$child_a" peer w0 0 write heat 30 0 2 ready=1
at "$child_a" peer w1 0 write heat 30 1 2 ready=1
opened w0
opened w1
exports up "$child_a" heat --to=parent --as=warm
wait_until 20 has warm writers 2
is "$(at "$child_a" has warm writers 2 || echo none)" none "the name is that of the other session only"
exports down "$child_b" warm --from=parent
wait_until 20 at "$child_b" has warm writers 2
peer r 0 read warm
at "$child_b" peer s 0 read warm
opened r
opened s
exits 1 "a second export by the same name" at "$child_a" "$FLUX" stream export heat --to=parent --as=warm
like "$err" "'warm' is being written already" "is refused"
go w0
go w1
ended r
is "$last" "0-29 30 the end " "the parent reads all steps of both writers"
ended s
is "$last" "0-29 30 the end " "so does another child, of the parent's"
wait "${pid[up]}"
is $? 0 "flux stream export ends with its stream"
wait "${pid[down]}"
is $? 0 "and so does the next one"
is "$(cat up.err down.err)" "" "without a message"
wait "${pid[w0]}" "${pid[w1]}"

# Down to a child, while this one names the session: by TCP, with its format.
FLUX_STREAM_TRANSPORT=tcp peer w 0 write heat 20 0 1 ready=1
opened w
FLUX_STREAM_TRANSPORT=tcp exports down "$own" heat --to="$child_a"
wait_until 20 at "$child_a" has heat writers 1
FLUX_STREAM_TRANSPORT=tcp at "$child_a" peer r 0 read heat
opened r
is "$(at "$child_a" "$FLUX" stream format heat)" "n u64, data bytes" "the format is exported"
go w
ended r
is "$last" "0-19 20 the end " "a child reads all steps of its parent, by TCP"
wait "${pid[down]}" "${pid[w]}"

# Nobody reads: nothing is got.  The numbers are those of the first session.
at "$child_a" peer w 0 write idle 100000000 0 1
exports up "$child_a" idle --to=parent
wait_until 20 above idle step 0
is "$(at "$child_a" field idle asked)" 0 "an export gets nothing while nobody reads"
step=$(field idle step)
wait_until 20 at "$child_a" above idle step "$((step - 1))"
pass "its numbers are those of the stream"
first=$("$FLUX" stream cat --count=1 --var=n idle | cut -f 1)
ok "a reader begins where the stream is" test "$first" -ge "$step"

# A pause there holds up the stream here, and ends with it.
"$FLUX" stream cat --var=n idle >/dev/null &
cat=$!
wait_until 20 above idle bytes 0
"$FLUX" stream pause idle
wait_until 20 at "$child_a" above idle blocked 0.1
pass "a pause in the other session holds up the writer"
"$FLUX" stream resume idle
kill -TERM "${pid[up]}"
wait "${pid[up]}"
is $? 0 "SIGTERM ends an export"
wait $cat
is $? 0 "its readers get the end"
at "$child_a" above idle writers 0
is $? 0 "and the stream goes on"
exports up "$child_a" idle --to=parent
wait_until 20 has idle writers 1
exports back "$own" idle --to="$child_b"
wait_until 20 at "$child_b" has idle writers 1
"$FLUX" stream rm idle
wait "${pid[up]}"
is $? 1 "the removal of the exported stream ends the export"
like "$(cat up.err)" "'idle' was removed" "with an error"
wait "${pid[back]}"
is $? 0 "and the export of that ends, too"
at "$child_a" "$FLUX" stream rm idle
ended w

# Deaths are passed on.
at "$child_a" peer w 0 write crash 20 0 1 ready=1 crash=7
opened w
exports up "$child_a" crash --to=parent
wait_until 20 has crash writers 1
peer r 0 read crash
opened r
go w
ended r
is "$last" "0-6 7 stream 'crash': rank 0 of the writers has failed in step 7 " "a reader learns that a writer died"
wait "${pid[up]}"
is $? 1 "an export ends with an error when a writer dies"
wait "${pid[w]}" 2>/dev/null

# --stay: writers are restarted, and the exporter.  Another reader keeps the stream meanwhile.
at "$child_a" peer other 0 read again stay=1
at "$child_a" peer w 0 write again 10 0 1 wait=2 crash=7
exports up "$child_a" again --to=parent --stay --keep=50
wait_until 20 has again writers 1
peer r 0 read again stay=1
opened r
wait "${pid[w]}" 2>/dev/null
at "$child_a" peer w 0 write again 5 0 1 readers=2 hold=1
wait_until 20 has again epoch 2
pass "a restarted writer begins an epoch of the exported stream, too"
wait_until 20 has again step 12
kill -KILL "${pid[up]}"
wait "${pid[up]}" 2>/dev/null
go w
ended w
at "$child_a" peer w 0 write again 5 0 1 ready=1 hold=1
exports up "$child_a" again --to=parent
wait_until 20 has again writers 1
go w
wait_until 20 grep -q written w.out
go w
ended w
wait "${pid[up]}"
is $? 0 "another export goes on with the stream"
"$FLUX" stream rm again
ended r
is "$last" "0-16 17 the end " "a reader that stays has read all steps of all of them"
at "$child_a" "$FLUX" stream rm again
ended other

"$FLUX" cancel "$a" "$b"
release
finish
