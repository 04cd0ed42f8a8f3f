#!/usr/bin/env bash
# A node that flaps: its broker joins, is killed soon after, and is started again at once, as systemd
# would do it.  It is held off for longer each time, and rank 0 says so; the session goes on.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up ping dmesg
need ss

port=$(free_ports 10)
"$FLUX" keygen shared.key
cat >conf.lua <<END
session {
    hosts = "$NET.[2-4]",
    address = "tcp://%h:$port",
    keyfile = "$PWD/shared.key",
    topology = "flat",
    attrs = { ["orphan.timeout"] = "0.1s", modules = "log" },
}
END

mkdir -m 700 run
export FLUX_URI="local://$PWD/run/0/local"
begin 2
begin 1
begin_root
ok "three brokers" wait_until 30 up_is "3 of 3 up: 0-2"

held_off() { # SECONDS
    logged "rank 1 is lost again soon after it joined, .* it may not join for $1 s"
}
flap() {
    kill -KILL "${pids[1]}"
    wait "${pids[1]}" 2>/dev/null
    wait_until 30 up_is "2 of 3 up: 0,2; lost: 1" || return 1
    begin 1
}
comes_back() {
    wait_until 60 up_is "3 of 3 up: 0-2"
}
# On a slow host, a broker may stay for so long that its loss does not count.
flap_until() { # SECONDS
    local i
    for ((i = 0; i < 30; i++)); do
        flap || return 1
        ! held_off "$1" || return 0
        comes_back || return 1
    done
    return 1
}
ok "a rank that joins and is lost again, several times, is held off" flap_until 1
ok "it joins after that" comes_back
ok "it is held off for longer when it is lost again" flap_until 2
ok "the others go on" "$FLUX" ping -c 1 2
ok "it joins after that, too" comes_back
ok "and is part of the session" "$FLUX" ping -c 1 1
unlike "$("$FLUX" dmesg)" "rank 2 is lost again" "its neighbor is not held off"

end_in_order 1 2
unset FLUX_URI
finish
