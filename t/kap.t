#!/usr/bin/env bash
# KAP: many processes put, synchronize and get; every byte is right; and what is equal crosses the
# tree once, however many processes say it.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start kap kvs exec

# A number from the JSON in $out: of the whole, or of a phase.
field() {
    sed -n "s/^  \"$1\": *\\([-0-9.e]*\\),*$/\\1/p" <<<"$out"
}
phase() {
    sed -n "/^  \"$1\"/,/}/s/^    \"$2\": *\\([-0-9.e]*\\),*$/\\1/p" <<<"$out"
}
integer() {
    local x=$1
    echo "${x%.*}"
}
under_way() {
    "$FLUX" kvs ls | finds kap-
}
empty() {
    [ "$("$FLUX" kvs ls | grep -c kap-)" = 0 ]
}

# --- usage errors ------------------------------------------------------------------------------

exits 0 "--help" "$FLUX" kap --help
exits 1 "without a session" "$FLUX" kap -n 4
for bad in -n0 --nprocs=x "-n2 --producers=3" "-n2 --consumers=3" --sync=never --dirs=0 --dirs=x \
    --value-size=17M --value-size=x --repeat=0 --timeout=0 operand --puts=x --gets=x --stride=-1; do
    # shellcheck disable=SC2086 # two words
    exits 2 "wrong: $bad" "$FLUX" kap $bad
done

hold 16

exits 1 "a rank that is not there" "$FLUX" kap -r 16
exits 1 "a namespace that is not there" "$FLUX" kap -N nowhere

# --- every byte -------------------------------------------------------------------------------

ok "one process a rank" "$FLUX" kap
like "$out" "producer +16 .*sync +16 .*consumer +16 " "all take part in all phases"
like "$out" "in [0-9.]+ messages from other brokers" "and the fence's bytes are told"
ok "one process, of no byte" "$FLUX" kap -n 1 -s 0
ok "more producers than ranks" "$FLUX" kap --producers=30 --consumers=7
like "$out" "producer +30 .*consumer +7 " "make as many processes"
ok "no producer" "$FLUX" kap -n 20 --producers=0
like "$out" "sync +20 .*consumer +0 +-" "is an empty fence"
ok "no consumer" "$FLUX" kap -n 20 --consumers=0
like "$out" "producer +20 .*consumer +0 +-" "gets nothing"
for opt in --redundant --dirs=8 --sync=commit "--sync=commit --dirs=3 --redundant" \
    "--producers=5 --puts=7 --gets=9 --stride=4" "--consumers=3 --gets=100" --stride=0 "-s 256" \
    "-s 257" "-s 40000 --redundant" "-s 100K -n 10 --puts=2 --gets=2" "-s 300K -n 4 --sync=commit" \
    "-r 3,5-7 -n 9" "-r 2 -n 50"; do
    # shellcheck disable=SC2086
    ok "kap -n 40 $opt" "$FLUX" kap -n 40 $opt
done
ok "its keys are removed" empty

# Two keys that are one by a link: one of the two values cannot be right.
start_bg "$FLUX" kap -n 16 --repeat=100000 >bad.out 2>bad.err
ok "a test is under way" wait_until 20 under_way
dir=$("$FLUX" kvs ls | sed -n 's/^\(kap-[0-9a-f]*\).*/\1/p')
now=$("$FLUX" kvs version | sed 's/[^0-9].*//')
ok "spoil a run to come" "$FLUX" kvs link "$dir.$((now + 100)).k3" "$dir.$((now + 100)).k4"
wait "$bg"
is $? 1 "a wrong value is found"
like "$(cat bad.err)" "k[34]: differs from byte 0 on" "and named"
ok "its keys are removed, too" empty

# A worker that is killed.
worker() {
    local env
    for env in /proc/[0-9]*/environ; do
        if grep -qzx "FLUX_TEST_ID=$FLUX_TEST_ID" "$env" 2>/dev/null &&
            tr '\0' ' ' <"${env%environ}cmdline" 2>/dev/null | finds ' kap --worker '; then
            basename "${env%/environ}"
            return
        fi
    done
    return 1
}
start_bg "$FLUX" kap -n 64 --repeat=100000 --timeout=3 >bad.out 2>bad.err
ok "a test is under way" wait_until 20 worker
ok "kill a worker" kill -9 "$(worker)"
wait "$bg"
isnt $? 0 "the test fails"
like "$(cat bad.err)" "rank [0-9]+ on .*: signal 9" "and says so"
ok "its keys are removed all the same" empty

# --- JSON -------------------------------------------------------------------------------------

ok "--json" "$FLUX" kap -n 48 --producers=24 --puts=2 --dirs=16 --repeat=3 -s 100 --json
is "$(field nprocs) $(field producers) $(field consumers)" "48 24 48" "processes"
is "$(field puts) $(field gets) $(field stride) $(field value_size)" "2 1 1 100" "keys"
is "$(field keys_per_directory)" 16 "directories"
is "$(phase producer processes) $(phase sync processes) $(phase consumer processes)" "72 144 144" \
    "those of each phase, in all runs"
is "$(grep -c '"fence_bytes":' <<<"$out")" 4 "each run, and the mean"
ok "least, mean and greatest are in order" awk -v a="$(phase sync min)" -v b="$(phase sync mean)" \
    -v c="$(phase sync max)" 'BEGIN {exit !(a > 0 && a <= b && b <= c)}'

# --- what crosses the tree --------------------------------------------------------------------

# 15 brokers send one value of 4096 bytes each, and a few bytes with each message.
V=4096
declare -A bytes
for n in 64 128 256 1024; do
    ok "$n processes, one value" "$FLUX" kap -n "$n" --redundant -s $V --json --repeat=3
    bytes[$n]=$(integer "$(field fence_bytes)")
    most=$(awk -v v=$V -v m="$(field fence_messages)" 'BEGIN {printf "%d", 15 * v + 160 * m}')
    note "$n: ${bytes[$n]} bytes in $(field fence_messages) messages"
    ok "the value crosses once a broker" [ "${bytes[$n]}" -le "$most" ]
    ok "and does" [ "${bytes[$n]}" -ge $((15 * V)) ]
done
for n in 128 256 1024; do
    ok "$n processes bring as much as 64" \
        [ $((bytes[$n] * 100)) -le $((bytes[64] * 115)) ]
done
ok "unique values" "$FLUX" kap -n 256 -s $V --json
all=$(integer "$(field fence_bytes)")
ok "cross once each" [ "$all" -le $((240 * (V + 32) + 16 * 400)) ]
ok "all of them" [ "$all" -ge $((240 * V)) ]
ok "empty fence" "$FLUX" kap -n 256 --puts=0 --json
ok "is a few bytes a message" awk -v b="$(field fence_bytes)" -v m="$(field fence_messages)" \
    'BEGIN {exit !(b < 120 * m)}'

# The root of a namespace of its own, at rank 5.
PROBE=$BUILDDIR/t/kvs/kvs_probe
if [ -x "$PROBE" ]; then
    ok "a namespace" "$PROBE" create own 5
    ok "a fence in it" "$FLUX" kap -N own -n 64 --redundant -s $V --json
    ok "goes to its master" awk -v b="$(field fence_bytes)" -v v=$V 'BEGIN {exit !(b >= v)}'
    ok "and by commits" "$FLUX" kap -N own -n 64 --sync=commit
else
    skip 4 "t/kvs/kvs_probe has not been built"
fi

release
is "$status" 0 "the session ends well"

# A deep tree: the root hears from two.
hold 16 --topology=kary:2
for n in 64 256; do
    ok "$n processes in a binary tree" "$FLUX" kap -n "$n" --redundant -s $V --json --repeat=3
    note "$n: $(field fence_bytes) bytes in $(field fence_messages) messages"
    ok "the root gets the value twice" awk -v b="$(field fence_bytes)" \
        -v m="$(field fence_messages)" -v v=$V 'BEGIN {exit !(b >= 2 * v && b <= 2 * v + 300 * m)}'
done
release
is "$status" 0 "the session ends well"
finish
