#!/usr/bin/env bash
# flux sim and the second implementation agree on small random workloads, start by start and list by
# list; and each fault planted in the second one is noticed.  SIM_COUNT and SIM_SEED change which;
# `make soak` has 10,000 workloads.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux version
need python3
"$FLUX" sim --help >/dev/null 2>&1 || skip_all "flux sim has not been built"

if [ -n "${SOAK_TIME:-}" ]; then
    SIM_COUNT=${SIM_COUNT:-10000} SIM_SEED=${SIM_SEED:-${SOAK_SEED:-1}}
fi
sim=$(printf '%q' "$FLUX")" sim"
compare() {
    python3 "$SRCDIR/t/sim-ref/compare.py" --sim="$sim" "$@"
}
# The faults are planted in the implementation in Python: sanitizers have nothing to see there.
sanitized=${FLUX_TEST_SANITIZERS:-}
[ -z "$sanitized" ] || SIM_COUNT=${SIM_COUNT:-40}
ok "random workloads agree" compare --count="${SIM_COUNT:-150}" --seed="${SIM_SEED:-1}"
note "$out"
# A job that buddy cannot place came between, and made a pass with it.
ok "what can never be placed makes no pass" compare --count=1 --seed=1423
for fault in tie less extra R pod compress wakeup; do
    [ -z "$sanitized" ] || break
    ok "fault $fault is noticed" compare --count=400 --seed=1 --fault=$fault
    note "$(tail -n1 <<<"$out")"
done
finish
