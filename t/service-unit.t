#!/bin/bash
# The systemd unit that is installed as an example: what it starts is a session with its state on
# disk, which ends with a code that it calls success when it is told to stop.
# shellcheck disable=SC2154 # set by run, ok
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
need ss hostname

port=$((20000 + ($$ * 20) % 12000))
while ss -Hltn 2>/dev/null | finds -E ":($port|$((port + 1))) "; do
    port=$((port + 2))
done
mkdir -p etc/flux state/flux
cat >etc/flux/session.lua <<END
session {
    hosts = "$(hostname)",
    address = "tcp://127.0.0.1:$port",
    curve = false,
}
END
mkdir -m 700 run run/flux
sed -e "s,@bindir@,$(dirname "$FLUX"),; s,@sysconfdir@,$PWD/etc,; s,%S,$PWD/state,g; s,%t,$PWD/run,g" \
    "$SRCDIR/etc/flux.service.in" >unit
read -ra command < <(sed -n 's/^ExecStart=//p' unit)
good=$(sed -n 's/^SuccessExitStatus=//p' unit)
export FLUX_URI="local://$PWD/run/flux/local"

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
rm run/flux/local
ok "its name is made again when somebody removes it" wait_until 30 "$FLUX" getattr size
# The same directory at its usual place: without FLUX_URI the session is found.
if unshare -m sh -c 'mkdir -p /run && mount -t tmpfs none /run && mkdir /run/flux' 2>/dev/null; then
    cat >inside <<END
mount -t tmpfs none /run && mkdir /run/flux && mount --bind "$PWD/run/flux" /run/flux || exit
unset FLUX_URI
"$FLUX" getattr size
"$FLUX" uri --json
"$FLUX" uri system
END
    run unshare -m bash inside
    is "$status" 0 "a system session is found without FLUX_URI"
    like "$out" "^1"$'\n' "... and answers"
    like "$out" '"uri": "local:///run/flux/local"' "flux uri prints its address"
    like "$out" $'\n'"local:///run/flux/local$" "... also when asked for it"
else
    skip 4 "no mount namespace can be made"
fi
is "$("$FLUX" uri)" "$FLUX_URI" "flux uri: what is in force"
is "$("$FLUX" uri local)" "local://$PWD/run/flux/0/local" "flux uri local: the broker's own word"
fails "flux uri of a job that is not a session" "$FLUX" uri "$id"
is "$("$FLUX" jobs -n -o id,state | xargs)" "$id held" "the next one has its queue"
end
is $? "$good" "... and ends like it"
unset FLUX_URI
finish
