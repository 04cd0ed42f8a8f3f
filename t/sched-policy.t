#!/usr/bin/env bash
# Policies of the scheduler: by attribute, by argument, from a shared object that was built outside,
# and in Lua.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need cc
need_flux start module
# shellcheck source=t/sched/lib.sh
. "$SRCDIR/t/sched/lib.sh"

cat >res.lua <<'END'
resource { nodes = "n[0-3]", cores = 4, emulate = true }
END
# As on a site: one header, one compiler.
mkdir -p include/flux plugins
cp "$SRCDIR/src/common/libsched/sched_plugin.h" include/flux/
ok "a plugin is built with the installed header alone" cc -Wall -Wextra -Werror -std=c99 -shared -fPIC \
    -Iinclude -o plugins/policy-small.so "$SRCDIR/t/sched/policy_small.c"
echo 'const int sched_nothing = 1;' >empty.c
cc -shared -fPIC -o plugins/policy-empty.so empty.c
cat >plugins/late.lua <<'END'
policy {
    backfill = "none",
    priority = function(job, now) return job.id end, -- last come, first served
    score = function(job, node) return -node.rank end,
}
END
cat >plugins/broken.lua <<'END'
policy { priority = function(job, now) return job.nothing.at_all end }
END
echo 'policy { backfill = 3 }' >plugins/wrong.lua

hold 1 --set=resrc.config="$PWD/res.lua" --set=sched.plugin-path="$PWD:$PWD/plugins" \
    --set=sched.queue-policy=small:2 --set=sched.node-policy=spread
"$FLUX" module unload --force job >/dev/null
ask sched.status '{}'
like "$out" '"queue":"small","node":"spread"' "attributes say which are used"
peer_start '{}'
add() {
    printf '{"id":%d,"urgency":16,"t_submit":1,"uid":%d,"req":{"nslots":1,"cores":%d}}' "$@"
}
feed "{\"enabled\":true,\"add\":[$(add 1 7 4),$(add 2 7 2),$(add 3 7 1),$(add 4 8 3)]}"
ok "the plugin decides about the order" seen '"alloc":\[\{"id":3,.*\{"id":2,.*\{"id":4,'
ok "... and who may start" never '"id":1,'
ask sched.why '{"ids":[1]}'
is "$out" '{"why":[[1,null,"is kept back by the policy small: 2 jobs of the user run already"]]}' \
    "... which is the reason shown"
feed '{"free":[3]}'
ok "... until a job of the user has ended" seen '"id":1,'
fails "an argument that it does not like" "$PEER" ask sched.policy '{"queue":"small:x"}'
like "$err" "policy small cannot be used: 'x' is not a number of jobs" "... is refused in its words"
ask sched.policy '{"node":"small"}'
feed "{\"free\":[1,2,4],\"add\":[$(add 5 9 1)]}"
ok "it also chooses nodes" seen '"id":5,"R":.*"rank":"1"'
fails "a shared object that is not a policy is refused" "$PEER" ask sched.policy \
    "{\"queue\":\"$PWD/plugins/policy-empty.so\"}"
like "$err" "it does not export sched_policy" "... with a sentence"

ask sched.policy '{"queue":"late","node":"late"}'
is "$out" '{"queue":"late","node":"late"}' "a file in Lua is found by its name"
feed "{\"free\":[5],\"add\":[$(add 11 7 4),$(add 12 7 4),$(add 13 7 4)]}"
ok "... decides about the order, and nodes" seen '"id":13,"R":.*"rank":"3".*"id":12,"R":.*"rank":"2"'
ask sched.policy "{\"queue\":\"$PWD/plugins/broken.lua\"}"
feed "{\"free\":[11,12,13],\"add\":[$(add 21 7 4),$(add 22 7 4)]}"
ok "with one that fails jobs are started nevertheless" seen '"id":21,.*"id":22,'
run "$FLUX" dmesg
like "$out" "queue policy broken gave no priority for job 21: urgencies count instead" \
    "... and the log says so"
fails "a file that is wrong is refused" "$PEER" ask sched.policy '{"queue":"wrong"}'
like "$err" "policy.backfill must be a string" "... with a sentence"
ask sched.status '{}'
like "$out" '"queue":"broken"' "... and the policy stays"
ask sched.expiration '{"expiration":1000.5}'
is "$out" '{"expiration":1000.5}' "the resources are available until a certain time"
ask sched.status '{}'
like "$out" '"expiration":1000.5' "... which is shown"
limited='{"id":31,"urgency":16,"t_submit":1,"uid":7,"req":{"nslots":1,"duration":60}}'
feed "{\"free\":[21,22],\"add\":[$limited,$(add 32 7 1)]}"
ok "... a job without a limit starts, and is told" seen '"id":32,"R":.*"expiration":1000.5'
ask sched.why '{"ids":[31]}'
like "$out" '31,null,"can never run: its time limit would end at .*, and the resources go at 1970-01-01 00:16:40"' \
    "... one with a limit does not"
fails "what is not a time is refused" "$PEER" ask sched.expiration '{"expiration":-1}'
ask sched.expiration '{"expiration":0}'
ok "... it starts when they stay" seen '"id":31,"R":'
peer_end

"$FLUX" module unload sched
ok "arguments of the module say which are used" "$FLUX" module load sched queue-policy=conservative:9 \
    node-policy=best-fit
ask sched.status '{}'
like "$out" '"queue":"conservative","node":"best-fit"' "... and count more than attributes"
"$FLUX" module unload sched
fails "a policy that is not there as an argument" "$FLUX" module load sched queue-policy=none
like "$err" "no policy none" "... is refused with a sentence"
release
is "$status" 0 "the session ends well"
fails "a policy that is not there ends the start" session 1 --set=sched.queue-policy=none -- true
like "$err" "attribute sched.queue-policy: .*no policy none" "... with a sentence"
fails "as does a time that is none" session 1 --set=sched.expiration=soon -- true
like "$err" "sched.expiration=soon: expected a number" "... likewise"
fails "as does one of nodes" session 1 --set=sched.node-policy=spraed -- true
like "$err" "attribute sched.node-policy: .*no policy spraed; did you mean spread\? \(built in: first-fit, " \
    "... with the nearest"
finish
