#!/usr/bin/env bash
# A node whose broker was lost gets no job before the next broker has ended what the earlier one has
# left running, or an operator says that nothing is left.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up submit wreckrun resource dmesg
need ss

port=$(free_ports 10)
cat >conf.lua <<END
session { hosts = "$NET.[2-4]", address = "tcp://%h:$port", curve = false, topology = "flat" }
END

status_has() {
    "$FLUX" resource status -s "$1" | finds -E "$2"
}
free_is() {
    "$FLUX" resource list -s free | finds -E "^free +$1 "
}
# Nobody may reap it: a zombie is gone.
gone() {
    ! grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null
}
lose() {
    kill -KILL "${pids[$1]}"
    wait "${pids[$1]}" 2>/dev/null
    wait_until 30 up_is "2 of 3 up: 0-1; lost: 2"
}

mkdir -m 700 run
export FLUX_URI="local://$PWD/run/0/local"
begin_root
begin 1
begin 2
ok "a session of three" wait_until 30 up_is "3 of 3 up: 0-2"

# A broker is killed while its launcher is stopped: nobody ends what this has started.
"$FLUX" submit -N1 -n1 --ranks=2 sh -c 'setsid sh -c "echo \$\$ >pid.tmp; mv pid.tmp pid; exec sleep 1000" & wait' >id
wait_until 30 test -s pid
read -r launcher _ <run/2/launcher
kill -STOP "$launcher"
lose 2
ok "what a lost broker ran still runs" kill -0 "$(cat pid)"
begin 2
ok "the next broker of its rank joins" wait_until 30 up_is "3 of 3 up: 0-2"
ok "the node is given to jobs again" wait_until 30 free_is 3
ok "what ran there is gone by then" gone "$(cat pid)"
ok "so is the launcher" gone "$launcher"
ok "a job on all nodes" "$FLUX" wreckrun -N3 -n3 true

# One that cannot confirm it.
if [ -e "$BUILDDIR/t/.libs/module_mute.so" ]; then
    cp "$BUILDDIR/t/.libs/module_mute.so" wrexec.so
    lose 2
    begin 2 --set=modules="log,barrier,kvs,resrc,$PWD/wrexec.so"
    ok "a broker that does not confirm it joins" wait_until 30 up_is "3 of 3 up: 0-2"
    ok "its node is unconfirmed" wait_until 30 status_has unconfirmed "^unconfirmed +1 +2 .*was lost"
    ok "it is not free" free_is 2
    like "$("$FLUX" resource list)" $'\nunconfirmed +1 ' "flux resource list shows it"
    fails "what was not lost needs no confirmation" "$FLUX" resource confirm-dead 1-2
    like "$err" "1: not lost" "with a sentence"
    ok "an operator confirms it" "$FLUX" resource confirm-dead 2
    ok "the node is free" wait_until 30 free_is 3
    like "$("$FLUX" dmesg)" "user $(id -u) confirmed that nothing runs any more on rank 2" "the log says who"
else
    skip 8 "t/module_mute.la has not been built"
fi

end_in_order 1 2
unset FLUX_URI
finish
