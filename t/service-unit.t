#!/bin/bash
# The systemd unit that is installed as an example: what it starts is a session with its state on
# disk, which ends with a code that it calls success when it is told to stop.
# shellcheck disable=SC2154 # set by run, ok
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs up resource wreckrun shutdown
need ss hostname

port=$(free_ports 2)
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
# --- a session on three hosts: the unit is on each ---

cat >etc/flux/session.lua <<END
session { hosts = "$NET.[2-4]", address = "tcp://%h:$port", curve = false, topology = "kary:16" }
END
# As systemd does it; on one machine the name of the host does not tell the rank.
host_begin() { # RANK
    mkdir -p "run$1/flux" && chmod 700 "run$1" "run$1/flux"
    "${command[@]:0:2}" --set=boot.rank="$1" --set=boot.timeout=60s "${command[@]:2}" >>"host.$1" 2>&1 </dev/null &
    hosts[$1]=$!
}
for rank in 0 1 2; do
    read -ra command < <(sed -n 's/^ExecStart=//p' unit | sed "s,$PWD/run/,$PWD/run$rank/,; s,$PWD/state,$PWD/state$rank,")
    mkdir -p "state$rank/flux"
    host_begin $rank
    commands[rank]="${command[*]}"
done
again() { # RANK
    read -ra command <<<"${commands[$1]}"
    host_begin "$1"
}
export FLUX_URI="local://$PWD/run0/flux/local"
up_is() {
    [ "$("$FLUX" up)" = "$1" ]
}
takes_jobs() {
    "$FLUX" wreckrun --ranks=1 -n1 true
}
ok "three hosts" wait_until 30 up_is "3 of 3 up: 0-2"
kill -TERM "${hosts[1]}"
wait "${hosts[1]}"
is $? 0 "one of them is stopped: its broker ends well, and is not started again"
ok "its rank has left" wait_until 30 up_is "2 of 3 up: 0,2; left: 1"
like "$("$FLUX" resource drain)" "drained .* 1 .*leaving" "its node is drained"
ok "the others take jobs" "$FLUX" wreckrun -N2 -n2 true
again 1
ok "it starts again: it joins" wait_until 30 up_is "3 of 3 up: 0-2"
ok "the node takes jobs" wait_until 30 takes_jobs
kill -KILL "${hosts[2]}"
wait "${hosts[2]}" 2>/dev/null
ok "a broker that is killed is lost" wait_until 30 up_is "2 of 3 up: 0-1; lost: 2"
again 2
ok "the next one joins" wait_until 30 up_is "3 of 3 up: 0-2"
kill -TERM "${hosts[0]}"
wait "${hosts[0]}"
is $? "$good" "the host of rank 0 is stopped"
for rank in 1 2; do
    wait "${hosts[rank]}"
    is $? 75 "rank $rank ends with the session, as one that is to be started again"
done
for rank in 1 2 0; do
    again $rank
done
ok "all return" wait_until 30 up_is "3 of 3 up: 0-2"
ok "the session is shut down" "$FLUX" shutdown
for rank in 0 1 2; do
    wait "${hosts[rank]}"
    is $? 0 "rank $rank ends, and is not started again"
done
unset FLUX_URI
finish
