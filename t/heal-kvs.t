#!/usr/bin/env bash
# Brokers between a client and the master of the key-value store are killed: large values arrive
# whole, and namespaces are created and removed once, with the right answers.
# shellcheck disable=SC2154 # set by heal.sh and lib.sh
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up kvs

# Rank 7 is below rank 3, rank 3 below rank 1.
hold 8 --topology=kary:2
of_all 8
# Each name is created and removed once, until there is the file $1.
names() {
    local n=0
    while [ ! -e "$1" ]; do
        "$FLUX" kvs namespace create "n$n" || return
        "$FLUX" kvs namespace create "n$n" 2>again.err && return 3
        grep -q "already" again.err || return 4
        "$FLUX" kvs namespace remove "n$n" || return
        "$FLUX" kvs namespace remove "n$n" 2>again.err && return 5
        grep -q "there is no namespace" again.err || return 6
        echo $((++n))
    done
}
# Large values, one after the other, until there is the file $1.
values() {
    local n=0
    while [ ! -e "$1" ]; do
        { echo $n && cat large; } | "$FLUX" kvs put --raw "large.$n=-" || return
        echo $((++n))
    done
}
lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
further() {
    wait_until 60 lines "$1" $(($(wc -l <"$1") + $2))
}
seq 1 1000000 >large
(FLUX_URI=${uris[7]} names enough) >names.out 2>names.err &
names=$!
(FLUX_URI=${uris[7]} values enough) >values.out 2>values.err &
values=$!
wait_until 30 lines names.out 3 || bail "no namespaces are created: $(cat names.err)"
wait_until 30 lines values.out 1 || bail "no values are stored: $(cat values.err)"
for rank in 1 3; do
    kill -KILL "${pids[rank]}"
    ok "namespaces are created and removed after rank $rank has died" further names.out 5
    ok "so are values" further values.out 2
done
touch enough
ok "each once" wait "$names"
ok "all values are stored" wait "$values"
is "$(cat names.err values.err)" "" "without complaint"
is "$("$FLUX" kvs namespace list | grep -c '^n')" 0 "no namespace is left"
last=$(tail -n 1 values.out)
for ((n = 0; n < last; n++)); do
    "$FLUX" kvs get --raw "large.$n" | cmp - <(echo $n && cat large)
done >differ 2>&1
is "$(cat differ)" "" "values are whole"
release
is "$status" 0 "the session ends well"
finish
