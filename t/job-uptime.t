#!/usr/bin/env bash
# Hosts that were booted at other times: time namespaces in which the monotonic clock and that of
# the time since boot differ by months.  Limits last as long as they do elsewhere, and no time of
# one host is taken for one of another.
# shellcheck disable=SC2154 # set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs queue
need unshare ss
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
booted() { # DAYS COMMAND...: on a host that was booted this many days earlier
    local seconds=$(($1 * 86400))
    shift
    unshare -T --monotonic $((seconds / 2)) --boottime $seconds --fork --kill-child -- "$@"
}
booted 100 true 2>/dev/null || skip_all "no time namespaces without more privileges"
# shellcheck disable=SC2016 # awk's
is "$(booted 100 awk '{ print ($1 > 100 * 86400) }' /proc/uptime)" 1 "a host that was booted 100 days ago"

port=$(free_ports 1)
"$FLUX" keygen key
cat >conf.lua <<END
session { hosts = "127.0.0.[2-3]", address = "tcp://%h:$port", keyfile = "$PWD/key" }
END
cat >two.lua <<'END'
resource { { nodes = "node[0-1]", cores = 8 }, emulate = true }
END
# shellcheck disable=SC2016 # for the inner shell
booted 100 "$FLUX" start --config=conf.lua --set=boot.rank=1 >out.1 2>&1 &
pids=($!)
# shellcheck disable=SC2016 # for the inner shell
booted 3 "$FLUX" start --config=conf.lua --set=boot.rank=0 --set=resrc.config="$PWD/two.lua" \
    sh -c 'echo "$FLUX_URI" >uri.new && mv uri.new uri && until [ -e end ]; do sleep 0.05; done' \
    >out.0 2>&1 &
pids+=($!)
wait_until 60 test -e uri || bail "the session did not come up: $(cat out.*)"
FLUX_URI=$(cat uri)
export FLUX_URI
like "$("$FLUX" up)" 'up: 0-1' "two hosts, booted 100 and 3 days ago"

result() { # ID RESULT DESCRIPTION
    is "$("$FLUX" jobs -a -n -o '{result}' "$1" | tr -d ' ')" "$2" "$3"
}
over() {
    [ "$("$FLUX" jobs -a -n -o '{result}' "$1" | tr -d ' ')" = timeout ]
}
running() {
    [ "$("$FLUX" jobs -n -s run -o '{id}' "$1" | tr -d ' ')" = "$1" ]
}
submit -N2 -t 1h sh -c 'until [ -e go ]; do sleep 0.05; done'
long=$id
ok "a job on both with a limit of an hour" wait_until 30 running "$long"
submit -N2 -t 1s sleep 600
ok "a limit of a second on both is over in time" wait_until 60 over "$id"
ok "... and the other job still runs" running "$long"
for days in 0 50; do
    exits 124 "a command on a host booted $days days earlier: the limit of its job" \
        booted $days "$FLUX" wreckrun -N2 -t 1s sleep 600
    ok "... jobs run" booted $days "$FLUX" wreckrun -N2 true
    like "$(booted $days "$FLUX" jobs -n -o '{id} {time}' "$long")" \
        "^ *$long +[0-9.]+s" "... it took as long as it did"
done
touch go
ok "the job with a limit of an hour ends" run_with_timeout 60 "$FLUX" wreck wait "$long"
result "$long" completed "... well"
ok "the queue becomes idle" run_with_timeout 30 "$FLUX" queue idle
about_now() { # TIME...
    local t
    for t in "$@"; do
        [ $((${t%.*} - $(date +%s))) -gt -600 ] && [ $((${t%.*} - $(date +%s))) -lt 600 ] || return 1
    done
}
mapfile -t times < <("$FLUX" kvs get "job.$long.eventlog" | sed -n 's/.*"timestamp":\([0-9.]*\).*/\1/p')
ok "times on record are those of the day" about_now "${times[@]}"
touch end
wait "${pids[1]}"
is $? 0 "the session ends well"
wait "${pids[0]}"
is $? 0 "... on both hosts"
finish
