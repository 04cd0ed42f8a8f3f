#!/usr/bin/env bash
# Brokers that a session on several hosts must not take, by TCP and with a key for each rank: a second
# one of a rank that is up on another host, also of rank 0; and, in the place of a rank that was lost,
# ones with the key of another host, of another size or topology, or of an older version.  Each ends
# and says what to do.  So does the session, in one line; it goes on, and counts nobody as lost and
# no incarnation.  (t/heal-strangers.t has brokers on one host, and those below another parent.)
# shellcheck source=t/lib.sh disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/netns.sh
. "$SRCDIR/t/netns.sh"
# shellcheck source=t/heal-net.sh
. "$SRCDIR/t/heal-net.sh"
need_flux start up live kvs keygen
need ip unshare nsenter
older=$BUILDDIR/t/.libs/oldbroker.so
[ -e "$older" ] || skip_all "no $older: make check builds it"
# The runtime of a sanitizer has to come before all that is preloaded.
case ${FLUX_TEST_SANITIZERS-} in
*address*) older="$(gcc -print-file-name=libasan.so) $older" ;;
esac

# shellcheck disable=SC2034 # of heal-net.sh
net_attrs="[\"join.timeout\"] = \"$((60 * TIME_SCALE))s\","
heal_net 4 4 'hosts = "10.77.0.[1-4]", bind = "tcp://*:8050", topology = "kary:2",' \
    "keyfile = \"$PWD/key.%r\","
mkdir -m 700 foreign

variant() { # NAME EXPRESSION: NAME.lua is conf.lua, changed by sed(1)
    sed "$2" conf.lua >"$1.lua"
    ! cmp -s conf.lua "$1.lua"
}
wrong_key() { # NAME RANK: rank 3 has the key of this one
    mkdir "$1"
    cp key.* "$1"
    cp "key.$2" "$1/key.3"
    cp "key.$2.pub" "$1/key.3.pub"
    variant "$1" "s#$PWD/key#$PWD/$1/key#"
}
# What the session knows of all ranks.
known() {
    "$FLUX" up --long
    "$FLUX" live history
}
# Rank RANK is started on host 4 by file NAME.  It is to say SAID, and rank BY of the session LOGGED,
# in one line.
refused() { # DESC NAME RANK SAID BY LOGGED [ENVIRONMENT...]
    local before seen
    before=$(known)
    seen=$(wc -l <"out.$5")
    fails "$1" run_with_timeout 120 nsenter -t "${holders[4]}" -n env "${@:7}" "$FLUX" start \
        --config="$2.lua" --rundir="$PWD/foreign" --set=boot.rank="$3"
    is "$status" 1 "... ends with 1"
    like "$err" "$4" "... says why, and what to do"
    tail -n +$((seen + 1)) "out.$5" >said
    like "$(cat said)" "$6" "... so does rank $5 of the session"
    is "$(wc -l <said)" 1 "... in one line"
    is "$(known)" "$before" "... which goes on as before"
}

begin_all
wait_until 30 up_is 0-3 || bail "the session did not come up: $(cat out.*)"
pass "four hosts"
kill_broker 3
ok "rank 3 is killed" wait_until 30 up_is "0-2; lost: 3"

refused "a second broker of rank 2" conf 2 \
    "rank 0 at [^ ]* refused this broker: the rank is connected: stop one of the two brokers of this rank" \
    0 "refused a broker at 10.77.0.4:.*: it is rank 2, which has another connection to this broker: stop one of the two"
refused "a second broker of rank 0" conf 0 \
    "rank 0 does not begin a session: rank 1 is in one with another broker of rank 0, which is up: stop one of the two" \
    1 "refused a broker at 10.77.0.4:.*: it is rank 0, which has another connection to this broker: stop one of the two"

wrong_key far 2
refused "rank 3 returns with the key of rank 2, which is not a neighbor of its parent" far 3 \
    "rank 1 at [^ ]* refused this broker's public key, .*: start it with the key of its own rank" \
    1 "refused a connection from 10.77.0.4: its public key, .*, is not that of a neighbor: start it with the key of its own rank"
wrong_key near 0
refused "rank 3 returns with the key of rank 0, which is one" near 3 \
    "rank 1 at [^ ]* refused this broker: the key is of another rank: start it with the key of its own rank" \
    1 "refused a broker at 10.77.0.4:.*: it claims to be rank 3 but has the key of another rank: start it with the key of its own rank"

"$FLUX" keygen key.4
variant more 's/1-4/1-5/'
size="it was started with size 5 and topology kary:2, not 4 and kary:2: all brokers of a session need the same configuration"
refused "rank 3 of a session of another size" more 3 \
    "rank 3 was refused by its parent, rank 1: $size" 1 "rank 3 was refused: $size"
variant other 's/kary:2/kary:3/'
topology="it was started with size 4 and topology kary:3, not 4 and kary:2: all brokers of a session need the same configuration"
refused "rank 3 of another topology, by which its parent is rank 0" other 3 \
    "rank 3 was refused by its parent, rank 0: $topology" 0 "rank 3 was refused: $topology"

refused "rank 3 of a version with another format of messages" conf 3 \
    "rank 1 at [^ ]* refused this broker: another version of Flux: start the same version of Flux at all ranks" \
    1 "rank 3 is refused: the message format is 1, and not 2: .*: start the same version of Flux at all ranks" \
    OLDBROKER=format LD_PRELOAD="$older"
version="it uses version 0 of the protocol, and rank 1 uses version 1: start the same version of Flux at all ranks"
refused "rank 3 of a version with another protocol" conf 3 \
    "rank 3 was refused by its parent, rank 1: $version" 1 "rank 3 was refused: $version" \
    OLDBROKER=protocol LD_PRELOAD="$older"

begin 3
ok "the right one joins" wait_until 30 up_is 0-3
ok "it serves" at 3 kvs put mine=1
is "$("$FLUX" live history | grep -cw lost)" 1 "nobody else was lost"
ok "the session ends" end_all
netns_end
finish
