#!/usr/bin/env bash
# Sessions from a configuration file: several "hosts", which are addresses of the loopback
# interface.
. "$(dirname "$0")/lib.sh"
need_flux start up getattr
need ip

M=--set=modules=log
# Addresses that no other test has at the same time, and ports that nobody has: 20 in a row.
port=$(free_ports 20)

# Start rank $1 of the session in file $2, with further arguments; ranks other than 0 in the
# background.
member() {
    local rank=$1 file=$2
    shift 2
    run_with_timeout 60 "$FLUX" start "$M" --config="$file" --set=boot.rank="$rank" "$@"
}
# All ranks of a session of $1 brokers, command at rank 0.
together() {
    local size=$1 file=$2 rank code
    shift 2
    local pids=()
    for ((rank = 1; rank < size; rank++)); do
        member $rank "$file" >"out.$rank" 2>&1 &
        pids+=($!)
    done
    member 0 "$file" "$@"
    code=$?
    wait "${pids[@]}" || echo "a broker failed: $(cat out.*)" >&2
    return $code
}

# --- keys ---

ok "flux keygen" "$FLUX" keygen shared.key
is "$(stat -c %a shared.key)" 600 "the secret is for its owner only"
fails "it does not overwrite" "$FLUX" keygen shared.key
ok "unless told to" "$FLUX" keygen --force shared.key
for rank in 0 1 2; do
    "$FLUX" keygen "key.$rank"
done
# 203.0.113.0/24 belongs to no host: it is for documentation.
echo 'session { hosts = "203.0.113.[1-2]", curve = false }' >moved.lua
fails "an address that this host does not have" run_with_timeout 60 "$FLUX" start --config=moved.lua --set=boot.rank=1 true
like "$err" "tcp://203.0.113.2:8050: .*gives this address to rank 1; .*correct the file on all hosts" \
    "... and what to do is said"
fails "a directory that is not there" "$FLUX" keygen none/key
exits 2 "no name" "$FLUX" keygen

# --- sessions ---

cat >shared.lua <<END
session {
    hosts = "$NET.[2-4]",
    address = "tcp://%h:$port",
    keyfile = "$PWD/shared.key",
    attrs = { ["user.name"] = "value", ["hb.period"] = 5 },
}
END
ok "three hosts with one certificate" together 3 shared.lua "$FLUX" up
# shellcheck disable=SC2154 # set by ok
like "$out" "0-2" "all are there"
# shellcheck disable=SC2154
is "$err" "" "without complaint"
is "$(together 3 shared.lua "$FLUX" getattr user.name)" value "attributes of the file"
is "$(together 3 shared.lua --set=user.name=mine "$FLUX" getattr user.name)" mine \
    "the command line comes first"
is "$(together 3 shared.lua "$FLUX" getattr boot.method)" config "booted by configuration"
exits 9 "the exit code" together 3 shared.lua sh -c 'exit 9'

cat >each.lua <<END
local base = $port
session {
    hosts = "$NET.[2-4]",
    address = function(rank, host) return "tcp://" .. host .. ":" .. base + 2 * rank end,
    bind = function(rank, host) return "tcp://" .. host .. ":" .. base + 2 * rank end,
    keyfile = "$PWD/key.%r",
    topology = "chain",
}
END
ok "a certificate each, computed addresses" together 3 each.lua "$FLUX" up
like "$out" "0-2" "all are there"
is "$(together 3 each.lua "$FLUX" getattr topology)" chain "the shape in the file"
is "$(together 3 each.lua "$FLUX" getattr topology)" chain "and once more at the same ports"

sed "s/keyfile.*/curve = false,/" shared.lua >plain.lua
ok "without CURVE" together 3 plain.lua "$FLUX" up
printf 'session { hosts = "%s", keyfile = "%s", address = "tcp://127.0.0.1:%d" }' "$(hostname)" \
    "$PWD/shared.key" "$port" >self.lua
is "$(run_with_timeout 30 "$FLUX" start "$M" --config=self.lua "$FLUX" getattr size)" 1 \
    "the rank by the host's name"

# --- on one host ---

# Neighbors whose addresses are of this host use UNIX sockets, whoever begins; ZeroMQ ends.
established() {
    ss -Htn state established | finds -F "$NET."
}
export -f established finds
export NET
# shellcheck disable=SC2016 # for the inner shell
says='until "$0" dmesg -b "$1" | grep -F "$2"; do sleep 0.05; done'
# shellcheck disable=SC2016
by_tcp='! "$0" dmesg | grep "by UNIX" && ss -Htn state established | grep -F "$1"'
ok "brokers of one host" together 3 shared.lua bash -c "$says"'; ! established' "$FLUX" 0 \
    "neighbors on this host, by UNIX sockets: 1-2; others, by ZeroMQ: none"
ok "those without keys" together 3 plain.lua bash -c "$says" "$FLUX" 0 "by UNIX sockets: 1-2;"
ok "with a certificate each they use ZeroMQ" together 3 each.lua bash -c "$by_tcp" \
    "$FLUX" "$NET."
sed 's/attrs = {/attrs = { ["link.transport"] = "zmq",/' shared.lua >zmq.lua
ok "so they do if they are told to" together 3 zmq.lua bash -c "$by_tcp" \
    "$FLUX" "$NET."

# One that has no UNIX socket is reached by ZeroMQ.
member 1 shared.lua >out.1 2>&1 &
a=$!
member 2 shared.lua --set=link.transport=zmq >out.2 2>&1 &
b=$!
ok "one of them without UNIX sockets" member 0 shared.lua bash -c "$says" "$FLUX" 1 \
    "rank 2 is on the same host, but is reached by ZeroMQ"
wait "$a" && wait "$b"
is $? 0 "... joins"

# --- strangers ---

mkdir other
cp key.* other
"$FLUX" keygen --force other/key.2
sed "s|$PWD/key|$PWD/other/key|" each.lua >stranger.lua
# Who is refused ends; the root and the stranger's parent wait for the right one until they are told
# to end.
rm -f out.*
"$FLUX" start "$M" --config=each.lua --set=boot.rank=0 --set=join.timeout=1 echo running >out.0 2>&1 &
a=$!
"$FLUX" start "$M" --config=each.lua --set=boot.rank=1 --set=join.timeout=1000 >out.1 2>&1 &
b=$!
member 2 stranger.lua --set=join.timeout=1000 >out.2 2>&1
isnt $? 124 "a broker with another key does not wait"
like "$(cat out.2)" "rank 1 at tcp://$NET.3:.* refused this broker's public key" "... and says why"
like "$(cat out.2)" "rank 2 cannot join" "... that it does not get in"
like "$(cat out.1)" "refused a connection from 127.0.0.[0-9.]*: its public key, $(sed -n \
    's/^public-key *//p' other/key.2 | sed 's/[][\.*^$?+(){}|/]/./g')" "so does its parent, with the key"
ok "the root says who is missing" wait_until 30 grep -qE 'for ranks? .*2' out.0
unlike "$(cat out.0)" "running" "the session does not begin without it"
kill "$a" "$b"
wait "$a" "$b"

# --- who does not belong ---

# A rank 2 whose file has one host more, and a second rank 1, at another port.
"$FLUX" keygen key.3
sed 's/2-4/2-5/' each.lua >more.lua
sed '/bind =/s/2 \* rank/2 * rank + 8/' each.lua >twin.lua
rm -f out.*
mkfifo end
# shellcheck disable=SC2016 # its own shell expands it
"$FLUX" start "$M" --config=each.lua --set=boot.rank=0 --set=quorum=2 \
    sh -c 'echo running; read -r x <end; "$0" ping -c 1 1' "$FLUX" >out.0 2>&1 &
a=$!
"$FLUX" start "$M" --config=each.lua --set=boot.rank=1 --set=quorum=2 >out.1 2>&1 &
b=$!
fails "a rank of a session with another size" member 2 more.lua
like "$err" "refused.*size 4 and topology chain, not 3 and chain" "... is told why"
like "$(cat out.1)" "rank 2 was refused: .*size 4" "... and its parent says so"
ok "the session begins" wait_until 30 grep -q running out.0
fails "a second rank 1" member 1 twin.lua
like "$err" "rank 0 at tcp://$NET.2:.* refused this broker: the rank is connected" "... is told why"
like "$(cat out.0)" "refused a broker at .* it is rank 1, which has another connection" \
    "... and its parent says so"
end_reader "$a" end out.0
is $? 0 "the session goes on with the first"
wait "$b"

# --- mistakes ---

bad() { # DESC PATTERN TEXT
    printf '%s\n' "$3" >bad.lua
    fails "$1" run_with_timeout 20 "$FLUX" start "$M" --config=bad.lua --set=boot.rank=0 true
    like "$err" "$2" "the sentence: $2"
}
base="hosts = \"$NET.[2-3]\", keyfile = \"$PWD/shared.key\", address = \"tcp://%h:$port\""
bad "no Lua" 'bad.lua:2' 'session {{'
bad "an unknown field" 'bad.lua:2: session has no field "host"' $'\nsession { host = "a" }'
bad "an unknown section" 'bad.lua:1.*sesion' 'sesion { hosts = "a" }'
bad "nothing" 'no section session' ''
bad "no hosts" 'session.hosts is missing' 'session { }'
bad "malformed hosts" 'bad.lua: session.hosts' 'session { hosts = "a[1-", curve = false }'
bad "no key" 'session.keyfile is missing' 'session { hosts = "a,b" , address = "tcp://127.0.0.1:1" }'
bad "a key that is not there" 'none.key' "session { hosts = '$NET.[2-3]', keyfile = 'none.key' }"
bad "for ever" 'too long' 'while true do end'
bad "the outside" 'os' 'os.execute("true")'
bad "a bad address" 'tcp://HOST:PORT' "session { $base, bind = 'udp://1.2.3.4:5' }"
export RES_OPTIONS='timeout:2 attempts:1' # where no name server answers it takes long
bad "an unknown host" 'no.such.host.invalid' \
    "session { hosts = 'no.such.host.invalid,b', keyfile = '$PWD/shared.key' }"
bad "somebody else's address" '192.0.2.1' "session { $base, bind = 'tcp://192.0.2.1:$port' }"
bad "a bad shape" 'pretzel' "session { $base, topology = 'pretzel' }"
chmod 644 shared.key
bad "a secret that others can read" 'chmod 600' "session { $base }"
chmod 600 shared.key
echo "session { $base }" >bad.lua
fails "a rank that is not there" "$FLUX" start --config=bad.lua --set=boot.rank=2 true
fails "this host is not in it" "$FLUX" start --config=bad.lua true
like "$err" "boot.rank" "the sentence says what to do"
fails "no file" "$FLUX" start --config=none.lua true

# An address in use.
start_bg "$FLUX" start "$M" --config=shared.lua --set=boot.rank=0 sleep 100
wait_until 5 sh -c "ss -Hltn | grep -q $NET.2:$port"
fails "an address in use" member 0 shared.lua true
like "$err" "$NET.2:$port.*in use" "the sentence names it"
# shellcheck disable=SC2154
kill "$bg" && wait "$bg"

finish
