#!/bin/bash
# What hooks of a site may not do to the launcher: wait, loop, fill its memory; and what signals do
# while they run.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start submit wreckrun wreck

mkdir lua.d
mkfifo fifo
cat >lua.d/x.lua <<X
local kept
local function wait() return io.open("$PWD/fifo") end
local function never() return (("a"):rep(400)):find((".-"):rep(12) .. "b") end
return {
    init = function(job)
        local what = job:getenv("WHAT")
        if what == "fifo" then wait() end
        if what == "caught" then while true do pcall(wait) end end
        if what == "loop" then while true do pcall(function() while true do end end) end end
        if what == "pattern" then never() end
        if what == "notes" then for i = 1, 1000 do job:note("note " .. i) end end
        if what == "closer" then kept = setmetatable({}, {__gc = function() while true do end end}) end
    end,
    task_exit = function(job, task)
        if job:getenv("WHAT") == "exits" then wait() end
    end,
}
X
hold 1 --set=wrexec.lua-path="$PWD/lua.d" --set=wrexec.hook-timeout=0.8s
launcher() {
    "$FLUX" exec sh -c 'echo $PPID'
}
"$FLUX" wreckrun -n1 true
first=$(launcher)
for what in fifo caught; do
    run run_with_timeout 30 env WHAT=$what "$FLUX" wreckrun -n1 true
    is "$status" 126 "$what: a hook that waits for ever is ended"
    like "$err" "plugin x.lua, init: .*it takes longer than 0.8 s" "... with a sentence"
done
run run_with_timeout 30 env WHAT=loop "$FLUX" wreckrun -n1 true
is "$status" 126 "a loop that catches its errors is ended"
like "$err" "plugin x.lua, init: .*(it computes for too long|longer than)" \
    "... with a sentence"
id=$(WHAT=exits run_with_timeout 30 "$FLUX" submit --wait -n20 --overcommit true)
is $? 0 "a hook that waits after each of 20 tasks does not change the result"
log=$("$FLUX" kvs get "job.$id.eventlog")
is "$(grep -o 'task_exit: [^"]*takes longer' <<<"$log" | wc -l)" 1 "... is called no more, and noted"
id=$(WHAT=notes run_with_timeout 30 "$FLUX" submit --wait true)
is $? 0 "a hook that notes 1000 things"
log=$("$FLUX" kvs get "job.$id.eventlog")
is "$(grep -o '"note [0-9]* (' <<<"$log" | wc -l)" 100 "... of which 100 are kept"
like "$log" "further messages about this job are suppressed" "... and it says so"
is "$(launcher)" "$first" "the launcher is the first one still"
run run_with_timeout 30 env WHAT=pattern "$FLUX" wreckrun -n1 true
is "$status" 126 "a pattern that would be matched for ever"
like "$err" "plugin x.lua, init: .*it computes for too long" "... is ended with a sentence"
is "$(launcher)" "$first" "... and costs nobody the launcher"
ok "... and the next job runs" "$FLUX" wreckrun -n1 true
WHAT=closer "$FLUX" wreckrun -n1 true
release

cat >prolog <<X
#!/bin/sh
test -z "\$GATE" || { echo >"$PWD/begun"; read -r word <"\$GATE"; }
exit 0
X
cat >epilog <<X
#!/bin/sh
test -z "\$LEAVE" || { sleep 1000 & echo \$! >"$PWD/left"; }
exit 0
X
chmod +x prolog epilog
mkfifo gate
hold 1 --set=wrexec.prolog="$PWD/prolog" --set=wrexec.epilog="$PWD/epilog"
id=$(GATE=$PWD/gate "$FLUX" submit sleep 1000)
ok "the prolog of a job runs" wait_until 10 test -e begun
"$FLUX" wreck kill -s USR1 "$id"
exec 3<>gate
echo go >&3
run run_with_timeout 20 "$FLUX" wreck wait "$id"
is "$status" 138 "... a signal meets its tasks when they are there"
exec 3>&-
run run_with_timeout 20 env LEAVE=1 "$FLUX" wreckrun -n1 true
is "$status" 0 "an epilog that leaves a process behind"
ok "... which is killed" sh -c '! kill -0 "$(cat left)" 2>/dev/null'
release
finish
