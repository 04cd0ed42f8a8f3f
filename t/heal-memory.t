#!/usr/bin/env bash
# Brokers that have used up their address space when the broker between them dies: they heal from
# their reserve, refuse what clients ask for meanwhile, and serve again when there is memory.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || skip_all "sanitizers reserve address space of their own"
need_flux start up barrier kvs ping

waiting=()

# No more address space for this rank than it has, and clients until it refuses one.
starve() {
    local rank=$1 i
    prlimit --pid "${pids[rank]}" --as="$(awk '/^VmSize/ { print $2 * 1024 }' "/proc/${pids[rank]}/status")":
    for ((i = 0; i < 200; i++)); do
        at "$rank" barrier -n 9 -t 120 "b-$rank-$i" >/dev/null 2>&1 &
        waiting+=($!)
        if ! at "$rank" ping -c 1 "$rank" >"ping.$rank" 2>&1; then
            grep -q "the broker of rank $rank is out of memory" "ping.$rank"
            return
        fi
    done
    return 1
}
through_2() { # is RANK below PARENT?  asked at a rank that has memory
    at 2 up --long >ranks
    grep -qE "^ *$1 +up +$2 " ranks
}

hold 8 --topology=kary:2 --set=modules=log,barrier,kvs
of_all 8
"$FLUX" kvs put before=1
for rank in 3 4 0; do
    ok "rank $rank runs out of memory, and says so to a client" starve "$rank"
    note "$(cat "ping.$rank")"
done
kill -KILL "${pids[1]}"
ok "those below the dead one connect to the next above" wait_until 30 through_2 3 0
ok "both" wait_until 30 through_2 4 0
ok "nobody else is lost" at 2 ping -c 1 7
exits 1 "clients are refused as before" at 3 ping -c 1 3
for rank in 0 3 4; do
    prlimit --pid "${pids[rank]}" --as=unlimited:
done
ok "with memory, all serve" at 3 kvs put after=2
is "$("$FLUX" kvs get after)" 2 "each other"
ok "and know who is up" up_is "7 of 8 up: 0,2-7; lost: 1"
kill "${waiting[@]}" 2>/dev/null
wait "${waiting[@]}" 2>/dev/null
release
is "$status" 0 "the session ends well"
finish
