#!/usr/bin/env bash
# What a session that is a job has for itself: ids, queue, policy, store, directory for its state.
# shellcheck disable=SC2016,SC2154 # the scripts expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start batch submit queue jobs proxy cancel
# shellcheck source=t/nest/lib.sh
. "$SRCDIR/t/nest/lib.sh"

nodes 2 4
hold 2 --set=resrc.config="$PWD/res.lua"
"$FLUX" submit --quiet --wait --cc=1-3 true

printf '#!/bin/sh\nexec sleep 100\n' >sleep.sh
id=$("$FLUX" batch -N1 -n2 sleep.sh)
in_it() {
    run_with_timeout 30 "$FLUX" proxy --wait=20 "$id" "$FLUX" "$@"
}
is "$(in_it submit sleep 100)" 1 "ids of its own"
ok "its queue can be stopped" in_it queue stop
held=$(in_it submit true)
like "$(in_it queue list)" "scheduling +stopped" "... and is"
is "$(in_it jobs -n -o '{state}' "$held")" pending "a job in it waits"
ok "which is not that of the session around it" "$FLUX" submit --quiet --wait true
ok "it is started" in_it queue start
ok "... and the job runs" run_with_timeout 20 "$FLUX" proxy "$id" "$FLUX" wreck wait "$held"
fails "more cores than its share" in_it submit -n3 true
fails "more nodes than its share" in_it submit -N2 true
full=$(in_it submit sleep 0)
ok "its share is for it alone" run_with_timeout 20 "$FLUX" proxy "$id" "$FLUX" wreck wait "$full"
ok "the rest is for others" "$FLUX" submit --quiet --wait -n6 true
big=$("$FLUX" submit -n7 true)
waits() {
    [[ $("$FLUX" jobs -n -o '{state} {why}' "$big") == pending\ waits\ for* ]]
}
ok "which cannot have its share" wait_until 10 waits
after=$("$FLUX" submit -n1 -t 1s true)
ok "... also when others have come and gone" "$FLUX" wreck wait "$after"
ok "... and waits on" waits
"$FLUX" cancel "$big"
"$FLUX" cancel "$id"
ok "ended" wait_until 10 no_active_jobs

# A statedir outlives the job; what was queued runs in the next one.
cat >first.sh <<END
#!/bin/sh
"$FLUX" kvs put kept=value
"$FLUX" queue stop -q 2>/dev/null || "$FLUX" queue stop
"$FLUX" submit --quiet touch "$TEST_DIR/from-the-queue"
END
cat >second.sh <<END
#!/bin/sh
"$FLUX" kvs get kept
"$FLUX" queue start
"$FLUX" queue idle
END
state=--start-option=--statedir=$TEST_DIR/state
ok "a session with a directory for its state" "$FLUX" batch --wait --quiet -O first "$state" first.sh
[ ! -e from-the-queue ]
is $? 0 "a job stays in its queue"
ok "another one with the same" "$FLUX" batch --wait --quiet -O second "$state" second.sh
like "$(cat second)" value "has what the first one had"
[ -e from-the-queue ]
is $? 0 "also its queue"
rm -rf state
ok "options for its flux start" "$FLUX" batch --wait --quiet -O topo -N2 --start-option=--topology=chain \
    --wrap "'$FLUX' getattr topology"
is "$(cat topo)" chain "arrive"
release
finish
