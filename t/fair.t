#!/usr/bin/env bash
# What many clients ask of one module that is late: each has its turn, however much others have
# asked before, from its own rank or from another one.
# shellcheck disable=SC2154 # set by run and lib.sh
. "$(dirname "$0")/lib.sh"
export SESSION_LIMIT=300 # for hold in lib.sh
need_flux start module
PRESSURE=$BUILDDIR/t/pressure
MODULE=$BUILDDIR/t/.libs/module_order.so
if [ ! -x "$PRESSURE" ] || [ ! -e "$MODULE" ]; then
    skip_all "t/pressure and t/module_order.la have not been built"
fi
cp "$MODULE" order.so
export ORDER_MODULE_HELD=$PWD/held ORDER_MODULE_GO=$PWD/go
hold 4 --topology=kary:2 --set=modules=log
ok "load a module" "$FLUX" module load ./order.so

queued() {
    [ "$("$FLUX" module list -j | tr -d '\n' | tr '{' '\n' |
        sed -n 's/.*"name": *"order".*"queued": *\([0-9]*\).*/\1/p')" = "$1" ]
}
at() {
    local uri
    uri=local://$("$FLUX" getattr rundir)/$1/local
    shift
    FLUX_URI=$uri run_with_timeout 60 "$@"
}
pids=()
# COUNT requests of LETTER, from a client at RANK: they wait.
total=0
asks() {
    at "$2" "$PRESSURE" ask "$3" "order.$1" any 0 >"$1.out" &
    pids+=($!)
    total=$((total + $3))
    ok "$3 requests of a client at rank $2 wait" wait_until 30 queued "$total"
}

"$PRESSURE" ask 1 order.hold any 0 >hold.out &
pids+=($!)
ok "the module is late" wait_until 30 test -e held
# No more than this of one process waits in modules while several send; the rest waits in its
# socket.
asks a 0 16
asks b 3 200
# A client that leaves when its requests wait here: its end is told after them.
for leaver in e:0:12 f:3:50; do
    IFS=: read -r letter rank count <<<"$leaver"
    FLUX_URI=local://$("$FLUX" getattr rundir)/$rank/local "$PRESSURE" flood "$count" "order.$letter" \
        >/dev/null 2>&1 &
    flooder=$!
    total=$((total + count + 1))
    ok "a client at rank $rank has left its requests there" wait_until 30 queued "$total"
    kill -KILL "$flooder"
    wait "$flooder" 2>/dev/null
    total=$((total + 1))
    ok "its end is known" wait_until 30 queued "$total"
done
asks c 0 3
asks d 1 3
touch go
for pid in "${pids[@]}"; do
    wait "$pid" || fail "process $pid"
done
for who in a:16 b:200 c:3 d:3; do
    is "$(cat "${who%:*}.out")" "sent ${who#*:} answered ${who#*:} failed 0 twice 0" "${who%:*} has its answers"
done

run "$FLUX" module stats -j order
order=$(sed -n 's/.*"order": *"\([A-Za-z]*\)".*/\1/p' <<<"$out")
note "$order"
like "$out" '"sorted": *true' "each sender's requests are served in their order"
# Those of ranks 0 and 3 (a and e of one rank, b and f of the other one, each a process or a rank)
# have each had no more turns than who came last.
before=${order%c*}
ok "who came last at rank 0 is served before most of the others" test "${#before}" -lt 20
before=${order%d*}
ok "who came last from rank 1, too" test "${#before}" -lt 20
for who in e:12 f:50; do
    letter=${who%:*}
    before=${order%%"${letter^}"*}
    is "$(tr -dc "$letter" <<<"$before" | wc -c)" "${who#*:}" "$letter has gone after its requests"
done
# Rank 3's clients share its turns: while c had three, they had no more than four.
before=${order%c*}
ok "clients of one rank have turns together" test "$(tr -dc 'bf' <<<"$before" | wc -c)" -le 4
release
is "$status" 0 "the session ends well"

finish
