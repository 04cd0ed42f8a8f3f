#!/bin/bash
# The systemd unit that is installed as an example: what it starts is a session with its state on disk, which ends
# with a code that it calls success when it is told to stop.
# shellcheck disable=SC2154 # set by run, ok
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
need ss hostname

port=$((20000 + ($$ * 20) % 12000))
while ss -Hltn 2>/dev/null | grep -qE ":($port|$((port + 1))) "; do
    port=$((port + 2))
done
mkdir -p etc/flux state/flux
cat >etc/flux/session.lua <<END
session {
    hosts = "$(hostname)",
    address = "tcp://127.0.0.1:$port",
    curve = false,
    attrs = { rundir = "$PWD/run" },
}
END
mkdir -m 700 run
sed -e "s,@bindir@,$(dirname "$FLUX"),; s,@sysconfdir@,$PWD/etc,; s,%S,$PWD/state,g" \
    "$SRCDIR/etc/flux.service.in" >unit
read -ra command < <(sed -n 's/^ExecStart=//p' unit)
good=$(sed -n 's/^SuccessExitStatus=//p' unit)
export FLUX_URI="local://$PWD/run/0/local"

begin() {
    "${command[@]}" >"out.$1" 2>&1 </dev/null &
    broker=$!
    wait_until 30 "$FLUX" queue list || note "$(cat "out.$1")"
}
end() {
    kill -TERM "$broker"
    wait "$broker"
}

begin first >/dev/null 2>&1
ok "what it starts is a session" "$FLUX" submit --hold true
id=$out
end
is $? "$good" "SIGTERM ends it, with a code that counts as success"
begin second >/dev/null 2>&1
is "$("$FLUX" jobs -n -o id,state | xargs)" "$id held" "the next one has its queue"
end
is $? "$good" "... and ends like it"
unset FLUX_URI
finish
