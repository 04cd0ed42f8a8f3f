#!/bin/bash
# What a site adds to jobs: prolog and epilog, Lua plugins.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start submit wreckrun

# lines_are N FILE: has it this many lines?
lines_are() {
    test "$(wc -l 2>/dev/null <"$2")" -eq "$1"
}
cat >prolog <<X
#!/bin/sh
echo "prolog \$FLUX_JOB_ID \$FLUX_NODE_ID \${FLUX_TASK_RANK-none} \$(test -d "\$FLUX_JOB_TMPDIR" && echo dir)" \
    >>"$PWD/log"
case \$SITE in
fail) echo "the disk is broken"; exit 3 ;;
slow) sleep 60 ;;
esac
exit 0
X
cat >epilog <<X
#!/bin/sh
echo "epilog \$FLUX_JOB_ID \$FLUX_NODE_ID" >>"$PWD/log"
test "\$SITE" != dirty || { echo "cannot clean"; exit 4; }
X
chmod +x prolog epilog

hold 2 --set=wrexec.prolog="$PWD/prolog" --set=wrexec.epilog="$PWD/epilog" \
    --set=wrexec.hook-timeout=60s
run "$FLUX" wreckrun -N2 sh -c 'echo task >>log'
is "$status" 0 "a job with prolog and epilog"
is "$(cut -d ' ' -f 1,3- log | sort | tr '\n' '|')" \
    "epilog 0|epilog 1|prolog 0 none dir|prolog 1 none dir|task|task|" \
    "both run on each node, with the job's environment and directory"
like "$(cut -d ' ' -f 1 log | tr '\n' ' ')" "^prolog .*task .*epilog $" "... before and after the tasks"
: >log
run env SITE=fail "$FLUX" wreckrun -N1 sh -c 'echo task >>log'
is "$status" 126 "a prolog that fails: the job does not run"
like "$err" "prolog .* failed on .*: exit code 3 \(the disk is broken\)" "... with what it said"
ok "... which flux dmesg shows" wait_until 10 logged "job .*prolog .* failed on .*: exit code 3 \(the disk is broken\)"
is "$(cut -d ' ' -f 1 log | tr '\n' ' ')" "prolog epilog " "... but its epilog does"
id=$(SITE=slow "$FLUX" submit true)
wait_until 10 sh -c "'$FLUX' jobs -a | grep -q 'running\|RUN'"
"$FLUX" cancel "$id"
ok "a job that is canceled during its prolog ends" wait_until 10 sh -c \
    "'$FLUX' kvs get job.$id.eventlog | grep -q '\"clean\"'"
id=$(SITE=dirty "$FLUX" submit --wait true)
is $? 0 "an epilog that fails does not change the job's result"
like "$("$FLUX" kvs get "job.$id.eventlog")" "epilog .* failed .*exit code 4 .cannot clean" \
    "... but is in its event log"
ok "flux exec is not a job: no prolog" "$FLUX" exec true
release

# However a job ends: the launcher is killed under it, before its tasks, with them and in the
# epilog.
cat >epilog <<X
#!/bin/sh
test "\$SITE" != held || { echo >>"$PWD/held.\$FLUX_JOB_ID"; read -r word <"$PWD/gate"; }
test -d "\$FLUX_JOB_TMPDIR" || exit 1
echo "epilog \$FLUX_JOB_ID \$SITE" >>"$PWD/log"
X
mkfifo gate
launcher() {
    "$FLUX" exec -r 0 sh -c 'echo $PPID'
}
begun() {
    grep -qs "^begun $1\$" log
}
hold 1 --set=wrexec.prolog="$PWD/prolog" --set=wrexec.epilog="$PWD/epilog"
: >log
pid=$(launcher)
id=$(SITE=mine "$FLUX" submit sh -c 'echo "begun $FLUX_JOB_ID" >>log; exec sleep 1000')
ok "a job runs" wait_until 30 begun "$id"
kill -KILL "$pid"
ok "its launcher is killed: the next one runs the epilog" wait_until 30 grep -qx "epilog $id mine" log
run "$FLUX" wreck wait "$id"
is "$status" 137 "... and the job has failed"
id=$(SITE=slow "$FLUX" submit true)
ok "a prolog runs" wait_until 30 grep -q "^prolog $id " log
kill -KILL "$(launcher)"
ok "... and is killed with its launcher: the epilog is run" wait_until 30 grep -qx "epilog $id slow" log
id=$(SITE=held "$FLUX" submit true)
ok "an epilog runs" wait_until 30 test -s "held.$id"
kill -KILL "$(launcher)"
ok "... and again after its launcher was killed" \
    wait_until 30 sh -c "test \$(wc -l <held.$id) -eq 2"
exec 3<>gate
echo go >&3
ok "... to its end" wait_until 30 grep -qx "epilog $id held" log
exec 3>&-
is "$(grep -c "^epilog" log)" 3 "each epilog ends once"
id=$(SITE=mine "$FLUX" submit sh -c 'echo "begun $FLUX_JOB_ID" >>log; exec sleep 1000')
ok "another job runs" wait_until 30 begun "$id"
"$FLUX" module unload --force wrexec
ok "the module is removed under it: its epilog is run" wait_until 30 grep -qx "epilog $id mine" log
release
hold 1 --set=wrexec.prolog="$PWD/prolog" --set=wrexec.hook-timeout=1s
run run_with_timeout 30 env SITE=slow "$FLUX" wreckrun -N1 true
is "$status" 126 "a prolog that takes too long"
like "$err" "it took longer than 1 s" "... is told, too"
release

mkdir lua.d empty
cat >lua.d/20-count.lua <<'X'
local ended = {}
return {
    init = function(job)
        ended[job.id] = 0
        job:setenv("FROM_INIT", job.name .. "/" .. job.ntasks .. "/" .. (job.command[2] or ""))
        job:setenv("GONE")
    end,
    task_start = function(job, task)
        job:setenv("FROM_TASK", task.rank .. "/" .. task.local_id .. "/" .. job:getenv("FROM_INIT"))
    end,
    task_exit = function(job, task)
        ended[job.id] = ended[job.id] + 1
        if task.code == 5 then job:note("task " .. task.rank .. " said five") end
    end,
    finish = function(job)
        if job.code == 5 then job:note(ended[job.id] .. " ended, the worst with " .. job.code) end
        ended[job.id] = nil
    end,
}
X
cat >lua.d/10-check.lua <<'X'
count = (count or 0) + 1 -- a global of this file's own
local kept
return {
    init = function(job)
        local what = job:getenv("WHAT")
        if what == "refuse" then job:cancel("a project is needed, see the site's pages") end
        if what == "loop" then while true do end end
        if what == "memory" then local t = {} while true do t[#t + 1] = ("x"):rep(1000) .. #t end end
        if what == "wrong" then return job.nothing.there end
        if what == "move" then table.move({}, 1, 1 << 45, 1) end
        if what == "pattern" then ("a"):rep(3000):find(".-.-.-.-.-.-x") end
        if what == "exit" then os.exit(1) end
        kept = job
    end,
    task_start = function(job, task)
        if job:getenv("WHAT") == "late" then kept:setenv("KEPT", "yes") end
        if job:getenv("WHAT") == "notask" and task.rank == 1 then job:cancel("no second task") end
    end,
    finish = function(job)
        if job:getenv("WHAT") == "end" then error("broken") end
    end,
}
X
# What they do is limited by instructions and by memory here: time is not to be the first limit on a busy host.
hold 1 --set=wrexec.lua-path="$PWD/empty:$PWD/lua.d" --set=wrexec.hook-timeout="$((5 * PATIENCE))s"
run env GONE=1 "$FLUX" wreckrun -l -n2 --overcommit sh -c 'echo $FROM_TASK ${GONE-unset}'
is "$(sort <<<"$out")" "0: 0/0/sh/2/-c unset
1: 1/1/sh/2/-c unset" "plugins set and remove variables, for a job and for a task"
id=$("$FLUX" submit --wait -n2 --overcommit sh -c 'exit $((5 * FLUX_TASK_RANK))')
log=$("$FLUX" kvs get "job.$id.eventlog")
like "$log" "task 1 said five" "notes of plugins are in the event log"
like "$log" "2 ended, the worst with 5" "... and the end of the job is known to them"
for what in refuse:"a project is needed" loop:"more than 10000000 instructions" \
    move:"more than 10000000 instructions" pattern:"more than 10000000 instructions" \
    memory:"more than 64 MiB of memory" wrong:"attempt to index" exit:"attempt to call" \
    notask:"no second task"; do
    run run_with_timeout 30 env WHAT="${what%%:*}" "$FLUX" wreckrun -n2 --overcommit true
    is "$status" 126 "${what%%:*}: the job is refused"
    like "$err" "plugin 10-check.lua, .*: .*${what#*:}" "... with a sentence"
done
run env WHAT=late "$FLUX" wreckrun -n1 sh -c 'echo $KEPT'
is "$status" 0 "a job that a plugin keeps for later"
is "$out$err" "yes" "... stands for the job of the call under way"
run env WHAT=loop "$FLUX" wreckrun -n1 true
is "$status" 126 "a plugin that failed"
run "$FLUX" wreckrun -n1 true
is "$status" 0 "... leaves nothing behind for the next job"
ok "the session goes on" "$FLUX" wreckrun -n1 true
id=$(WHAT=end "$FLUX" submit --wait true)
is $? 0 "an error at the end does not change the result"
like "$("$FLUX" kvs get "job.$id.eventlog")" "plugin 10-check.lua, finish: .*broken" "... and is noted"
release

# A hook that waits delays its own job only: here it waits for a task of another one.
cat >node.lua <<'X'
resource { { nodes = "node0", cores = 4 }, emulate = true }
X
mkdir wait.d
cat >wait.d/x.lua <<X
local function wait(hook)
    return function(job)
        if job:getenv("WAIT") ~= hook then return end
        io.open("$PWD/waits." .. hook, "w"):close()
        local gate = io.open("$PWD/gate." .. hook)
        job:note(hook .. " was told: " .. gate:read())
        gate:close()
    end
end
return { init = wait("init"), task_start = wait("task_start"), task_exit = wait("task_exit"),
         finish = wait("finish") }
X
hold 1 --set=resrc.config="$PWD/node.lua" --set=wrexec.lua-path="$PWD/wait.d" --set=wrexec.hook-timeout=600s \
    --set=job.grace=0.1s
for hook in init task_start task_exit finish; do
    mkfifo "gate.$hook"
    id=$(WAIT=$hook "$FLUX" submit -n1 true)
    ok "$hook waits" wait_until 60 test -e "waits.$hook"
    run run_with_timeout 60 "$FLUX" wreckrun -n1 sh -c "echo go >gate.$hook"
    is "$status" 0 "... and meanwhile another job starts and ends"
    run run_with_timeout 60 "$FLUX" wreck wait "$id"
    is "$status" 0 "... and the one that waited goes on"
    like "$("$FLUX" kvs get "job.$id.eventlog")" "$hook was told: go" "... with its note"
done
rm -f waits.* gate.*
for hook in init task_start finish; do
    mkfifo "gate.$hook"
    id=$(WAIT=$hook "$FLUX" submit -n1 true)
    ok "$hook waits" wait_until 60 test -e "waits.$hook"
    ok "... and its job is canceled" "$FLUX" cancel "$id"
    run run_with_timeout 60 "$FLUX" wreck wait "$id"
    isnt "$status" 124 "... and ends"
    like "$("$FLUX" kvs get "job.$id.eventlog")" "is left behind" "... and it is on record that something waits"
done
ok "others run" "$FLUX" wreckrun -n1 true
release
is "$status" 0 "the session ends while hooks wait"

hold 1 --set=wrexec.lua-path="$PWD/empty"
"$FLUX" wreckrun -n1 true
launcher=$("$FLUX" exec sh -c 'echo $PPID')
ok "a launcher without plugins does not map Lua" sh -c "! grep -q lua /proc/$launcher/maps"
echo 'this is not Lua' >empty/x.lua
run "$FLUX" wreckrun -n1 true
is "$status" 126 "a plugin that cannot be read: no job runs"
like "$err" "plugin .*empty/x.lua: .*x.lua:1:" "... with the line"
rm empty/x.lua
ok "... until it is mended" "$FLUX" wreckrun -n1 true
release
finish
