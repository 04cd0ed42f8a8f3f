#!/usr/bin/env bash
# The heartbeat: an event from the root, once per period, numbered.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start dmesg event module
plan 12

# A busy host makes turns long, of which the module would complain.
hold 2 --set=hb.period=50ms --set=module.turn-max=0
FLUX_URI=${FLUX_URI%/*/local}/1/local run run_with_timeout 30 "$FLUX" event sub --count=5 hb
is "$status" 0 "another rank sees the heartbeat"
numbers=$(sed -nE 's/.*"epoch": ?([0-9]+).*/\1/p' <<<"$out")
first=$(head -n 1 <<<"$numbers")
is "$(tr '\n' ' ' <<<"$numbers")" "$(seq -s ' ' "$first" $((first + 4))) " \
    "with consecutive numbers"
run "$FLUX" module stats hb
like "$out" "period[[:space:]]+0.05" "at the period that was set"
like "$out" "failed[[:space:]]+0$" "without one that failed"
is "$("$FLUX" dmesg --source=hb)" "" "and without a complaint in the log"
fails "it runs at the root only" "$FLUX" module load --ranks=1 hb
like "$err" "runs at rank 0 only, not at rank 1" "and says so elsewhere"
ok "it can be unloaded" "$FLUX" module unload hb
fails "a period that is none is refused" "$FLUX" module load hb period=0s
ok "another one is not" "$FLUX" module load hb period=1h
run "$FLUX" module stats hb
like "$out" "period[[:space:]]+3600" "and is then there"

release
is "$status" 0 "the session ends well"
