#!/usr/bin/env bash
# Brokers that a session must not take: a second one of a rank, at its place and while the first one
# lives below another broker, one with the key of another host, and ones of another size or shape.
# Each ends with a sentence that says what to do; so does the session, which goes on, and counts
# nobody as lost and no incarnation.  By UNIX sockets with a shared key, and by ZeroMQ with a key for each
# rank.  (t/link-foreign.t has brokers of other sessions; check_ulink and check_link_gate have other
# versions.)
# shellcheck disable=SC2016,SC2154 # for Lua; set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up keygen live
need ss

# Of seven ranks, rank 4 (below rank 1) and rank 6 (below rank 2) are absent.
port=$(free_ports 2)
twin_port=$((port + 2))
for rank in 0 1 2 3 4 5 6 7; do
    "$FLUX" keygen "key.$rank"
done
"$FLUX" keygen shared.key

configure() { # KEYFILE
    cat >conf.lua <<END
local taken = {}
session {
    hosts = "$NET.[2-8]",
    address = function(rank, host) return "tcp://" .. host .. ":" .. (taken[rank] or $port) end,
    keyfile = "$PWD/$1",
    topology = "kary:2",
    attrs = {
        ["boot.timeout"] = "1s", quorum = 5, ["orphan.timeout"] = "0.1s", ["overlay.settle"] = "0",
        ["join.timeout"] = "$((60 * TIME_SCALE))s", modules = "log",
    },
}
END
}
# A variant of conf.lua by sed(1).
variant() { # NAME EXPRESSION
    sed "$2" conf.lua >"$1.lua"
    ! cmp -s conf.lua "$1.lua"
}
stranger() { # NAME RANK
    run_with_timeout 120 "$FLUX" start --config="$1.lua" --rundir="$PWD/foreign" "${set[@]}" \
        --set=boot.rank="$2"
}
# What the session knows of all ranks.
known() {
    "$FLUX" up --long
    "$FLUX" live history
}
# Rank RANK is started by file NAME.  Rank PARENT is to log the last of these.
refused() { # DESC NAME RANK SAID PARENT LOGGED
    local before seen
    before=$(known)
    seen=$(wc -l <"out.$5")
    fails "$1" stranger "$2" "$3"
    is "$status" 1 "... ends with 1"
    like "$err" "$4" "... says why, and what to do"
    like "$(tail -n +$((seen + 1)) "out.$5")" "$6" "... so does rank $5 of the session"
    is "$(known)" "$before" "... which goes on as before"
}

all="5 of 7 up: 0-3,5; absent: 4,6"
export FLUX_URI="local://$PWD/run/0/local"
for transport in auto zmq; do
    rm -rf run foreign
    mkdir -m 700 run foreign
    set=(--set=link.transport="$transport")
    case $transport in
    auto)
        configure shared.key
        taken="rank 3 is connected already: stop one of its two brokers"
        said=$taken
        ;;
    zmq)
        configure key.%r
        taken="refused a broker at [^ ]*: it is rank 3, which has another connection to this broker: stop one of the two brokers of this rank"
        said="rank 1 at [^ ]* refused this broker: the rank is connected: stop one of the two brokers of this rank"
        ;;
    esac
    variant twin "s/^local taken = .*/local taken = { [3] = $twin_port }/"
    variant more "s/2-8/2-9/"
    variant other "s/kary:2/kary:3/"
    begin 1 "${set[@]}"
    begin 2 "${set[@]}"
    begin 3 "${set[@]}"
    begin 5 "${set[@]}"
    begin_root "${set[@]}"
    ok "$transport: the session begins" wait_until 30 up_is "$all"

    refused "$transport: a second broker of rank 3" twin 3 "$said" 1 "$taken"
    refused "$transport: one of a session with another size" more 6 \
        "rank 6 was refused by its parent, rank 2: it was started with size 8 and topology kary:2, not 7 and kary:2: all brokers of a session need the same configuration" \
        2 "rank 6 was refused: it was started with size 8 .* need the same configuration"
    refused "$transport: one of another topology" other 4 \
        "rank 4 was refused by its parent, rank 1: .* topology kary:3, not 7 and kary:2: all brokers .* same configuration" \
        1 "rank 4 was refused: .* topology kary:3"
    if [ "$transport" = zmq ]; then
        # As on a host that has got the key of another one.
        mkdir -p wrong
        cp key.* wrong
        cp key.3 wrong/key.4
        variant wrong "s#$PWD/key#$PWD/wrong/key#"
        refused "zmq: rank 4 with the key of rank 3" wrong 4 \
            "rank 1 at [^ ]* refused this broker: the key is of another rank: start it with the key of its own rank" \
            1 "it claims to be rank 4 but has the key of another rank: start it with the key of its own rank"
        cp key.0 wrong/key.6
        cp key.5 wrong/key.4
        refused "zmq: rank 4 with the key of rank 5, which is not a neighbor of rank 1" wrong 4 \
            "refused this broker's public key, .*: start it with the key of its own rank" \
            1 "its public key, .*, is not that of a neighbor: start it with the key of its own rank"
    fi

    kill -KILL "${pids[1]}"
    wait "${pids[1]}" 2>/dev/null
    ok "$transport: rank 1 dies, rank 3 lives below rank 0" wait_until 30 below 3 0
    begin 1 "${set[@]}"
    ok "$transport: rank 1 comes back, rank 3 stays" wait_until 30 up_is "$all"
    ok "$transport: ... below rank 0" below 3 0
    refused "$transport: a second broker of rank 3" twin 3 \
        "rank 3 was refused by its parent, rank 1: rank 3 is up below rank 0: stop one of its two brokers" \
        1 "rank 3 was refused: rank 3 is up below rank 0: stop one of its two brokers"

    begin 4 "${set[@]}"
    begin 6 "${set[@]}"
    ok "$transport: the right ones join" wait_until 30 up_is "7 of 7 up: 0-6"
    ok "$transport: the session ends well" end_session
done
finish
