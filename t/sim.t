#!/usr/bin/env bash
# A session in one thread: many seeds of every scenario hold, a run can be replayed, operations take
# no more messages than the shape of the tree predicts, and a broken link would be noticed.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck source=t/sim/seeds.sh
. "$SRCDIR/t/sim/seeds.sh"

plan 11

seeds_hold 1

for shape in "16 kary:16" "1024 kary:16" "64 kary:2"; do
    if run "$SIM" --figures --size="${shape% *}" --topology="${shape#* }"; then
        pass "messages per operation are as predicted for $shape"
        while read -r line; do
            note "$line"
        done <<<"$out"
    else
        note "$out $err" >&2
        fail "messages per operation are as predicted for $shape"
    fi
done

many=2048
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || many=512
ok "a hundredth of $many brokers dies at once, and all others go on" \
    "$SIM" --scenario=many --size=$many --topology=kary:16
note "$out"

# Everything but the time that it took.
trace() {
    "$SIM" "$@" | sed 's/, [0-9.]* s:/:/; s/seed [0-9]*//'
}
is "$(trace --seed=7)" "$(trace --seed=7)" "the same seed gives the same run"
isnt "$(trace --seed=7)" "$(trace --seed=8)" "another seed another one"

ok "links that reorder, double or drop messages, and faults planted in healing and commits, are noticed" "$SIM" --self-test
note "$out"
exits 1 "a failing run is a failure" "$SIM" --seed=1 --break=drop
replay=$(sed -n 's/^replay: t.sim.sim //p' <<<"$out" | head -n 1)
failed=$(grep '^FAILED' <<<"$out" | head -n 1)
# shellcheck disable=SC2086 # the words of the line that was printed
run "$SIM" $replay
is "$(grep '^FAILED' <<<"$out")" "$failed" "and the line that it prints replays it"

fails "a usage error is refused" "$SIM" --scenario=no-such
