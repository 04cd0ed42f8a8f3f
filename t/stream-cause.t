#!/usr/bin/env bash
# What the session knows of the death of a writer that is a task of a job: how the task ended, while the others of its
# job run.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by release
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"

hold 3 --topology=kary:1

# Three tasks write a stream.  The writer of rank 2 is the task, or the task then ends with an exit code.
write_job() { # STREAM [EXIT CODE]
    rm -f pid
    job=$("$FLUX" submit -N3 -n3 sh -c 'peer=$0 stream=$1 code=$2 rank=$FLUX_TASK_RANK
        if [ "$rank" = 2 ] && [ "$code" ]; then
            "$peer" write "$stream" 1000000 2 3 &
            echo $! >pid
            wait
            exit "$code"
        fi
        [ "$rank" = 2 ] && echo $$ >pid
        exec "$peer" write "$stream" 1000000 "$rank" 3' "$PEER" "$@")
}
# The writer of rank 2 is killed under a reader.
dies() { # STREAM END WHAT [EXIT CODE]
    local stream=$1 end=$2 what=$3 cat step
    shift 3
    "$FLUX" stream cat --var=n "$stream" >cat.out 2>cat.err &
    cat=$!
    wait_until 20 has "$stream" readers 1
    "$FLUX" stream throttle "$stream" 50
    write_job "$stream" "$@"
    wait_until 20 test -s cat.out
    wait_until 20 test -s pid
    if [ "$stopped" ]; then
        kill -STOP $cat
        step=$(field "$stream" step)
        wait_until 20 above "$stream" step "$step"
    fi
    kill -KILL "$(cat pid)"
    [ "$stopped" ] && kill -CONT $cat
    wait $cat
    is "$?" 1 "$what ends a reader"
    like "$(cat cat.err)" \
        "^flux stream cat: (variable 'n' in step [0-9]+ was not read: )?stream '$stream': rank 2 of writer job $job $end in step [0-9]+\$" \
        "... and is told to it"
    is "$(field "$stream" writers)" 2 "... while the others of the job write on"
    "$FLUX" cancel "$job"
}
stopped=
for transport in ring tcp; do
    export FLUX_STREAM_TRANSPORT=$transport
    dies signal-$transport "ended by signal 9" "$transport: a writer that a signal ended"
    dies code-3-$transport "ended with exit code 3" "$transport: one whose task ended with exit code 3" 3
    dies code-0-$transport "ended with exit code 0" "$transport: one whose task ended with exit code 0" 0
done
stopped=yes
dies announced "ended by signal 9" "tcp: a writer that has announced a step, and is gone when the reader gets it,"
unset FLUX_STREAM_TRANSPORT

release
is "$status" 0 "the session ends well"
finish
