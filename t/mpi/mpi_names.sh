# shellcheck shell=bash disable=SC2154 # set by run
# Two jobs and a name; to be sourced after lib.sh, with ./mpi_names built:
#
#     mpi_names [OPTION...]     for flux wreckrun
#     names_left                there is none left in the store

_names() {
    "$FLUX" kvs dir -R pmi.names 2>/dev/null | grep '='
}
names_left() {
    wait_until 10 no_names
    is "$(_names)" "" "no name is left"
}
no_names() {
    [ -z "$(_names)" ]
}
# publish ARG...: run mpi_names in the background, with a standard input that $hold keeps open
publish() {
    rm -f hold.fifo publish.out # whose last line is waited for
    mkfifo hold.fifo
    "$FLUX" wreckrun "$@" <hold.fifo >publish.out 2>&1 &
    pid=$!
    exec {hold}>hold.fifo
    wait_until 20 grep -q published publish.out
}

mpi_names() {
    local pid hold
    run "$FLUX" wreckrun "$@" -n2 ./mpi_names once here "some-port"
    is "$status" 0 "publish, publish again in vain, take back, look for it in vain"

    run "$FLUX" wreckrun "$@" -n1 ./mpi_names lookup there
    is "$status" 3 "what nobody published is not found"

    publish "$@" -N2 -n2 ./mpi_names publish there port-17
    like "$("$FLUX" kvs dir -R pmi.names 2>&1)" "$(id -u)[.].*there" "the store has it"
    run "$FLUX" wreckrun "$@" -N3 -n3 ./mpi_names lookup there
    is "$status/$out" "0/found port-17" "another job finds it"
    run "$FLUX" wreckrun "$@" -n1 ./mpi_names once there port-18
    is "$status" 4 "another job cannot publish it"
    exec {hold}>&-
    wait "$pid"
    is $? 0 "the job that published it ends"
    run "$FLUX" wreckrun "$@" -n1 ./mpi_names lookup there
    is "$status" 3 "... and the name with it"

    publish "$@" -N2 -n2 ./mpi_names publish there port-19
    kill "$pid"
    wait "$pid"
    exec {hold}>&-
    run "$FLUX" wreckrun "$@" -n1 ./mpi_names lookup there
    is "$status" 3 "a job that was killed takes its names along"
}
