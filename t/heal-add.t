#!/usr/bin/env bash
# Hosts that are added to a session by configuration file: each gets a rank, which it keeps when the
# session begins again; a host that was not added is refused. Hosts are addresses of the loopback
# interface.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up keygen overlay wreckrun resource
need ss

mkdir -m 700 run other
port=$(free_ports 4)
for rank in 0 1 2 3 4 5; do
    "$FLUX" keygen "key.$rank"
done
# conf FILE HOSTS [FIELD]
conf() {
    cat >"$1" <<END
session {
    hosts = "$2", size = 6, ${3-}
    address = "tcp://%h:$port",
    keyfile = "$PWD/key.%r",
    topology = "kary:2",
    attrs = { ["orphan.timeout"] = "0.1s", ["join.timeout"] = "${TIME_SCALE}0s" },
}
END
}
conf conf.lua "$NET.[2-4]"
conf longer.lua "$NET.[2-6]"
# stranger HOST OPTION...: the broker of a host that is not part of the session
stranger() {
    local host=$1
    shift
    run_with_timeout 60 "$FLUX" start --config=conf.lua --rundir="$PWD/other" --set=modules=log \
        --set=boot.host="$host" "$@"
}
begin_three() { # ranks 0 to 2
    begin 1
    begin 2
    begin_root --statedir="$PWD/state"
}
export FLUX_URI="local://$PWD/run/0/local"

begin_three
ok "the session begins without the ranks that have no host" \
    wait_until 30 up_is "3 of 6 up: 0-2; absent: 3-5"
fails "a host that is not in the file" stranger "$NET.5"
like "$err" "this host, $NET.5, is not in session.hosts: after 'flux overlay add $NET.5' .*--set=boot.rank=RANK" \
    "... is told what to do"
fails "a host that was not added, at a rank" stranger "$NET.5" --set=boot.rank=3
like "$err" "host $NET.5 has not been added to the session: run 'flux overlay add $NET.5' on a host" "... is refused"
up=$("$FLUX" up)
is "$up" "3 of 6 up: 0-2; absent: 3-5" "... and the session goes on"

is "$(FLUX_URI=local://$PWD/run/1/local "$FLUX" overlay add "$NET.[5-6]" | sort)" \
    "rank 3 is for host $NET.5: start its broker there with --set=boot.rank=3, or with the host as rank 3 in session.hosts
rank 4 is for host $NET.6: start its broker there with --set=boot.rank=4, or with the host as rank 4 in session.hosts" \
    "hosts are added, by any broker"
is "$(cat state/hosts)" "3 $NET.5
4 $NET.6" "... and recorded"
fails "a host is added once" "$FLUX" overlay add "$NET.5"
like "$err" "host $NET.5 is rank 3 of the session already" "... and its rank is told"
fails "another host at its rank" stranger "$NET.6" --set=boot.rank=3
like "$err" "host $NET.6 was added as rank 4, not as rank 3: start its broker with --set=boot.rank=4" "... is told its own"

begin 3 --set=boot.host="$NET.5"
ok "its broker joins, started with the same file" wait_until 30 up_is "4 of 6 up: 0-3; absent: 4-5"
mv conf.lua short.lua
mv longer.lua conf.lua
begin 4
ok "so does the next one, with a longer list" wait_until 30 up_is "5 of 6 up: 0-4; absent: 5"
is "$("$FLUX" wreckrun --ranks=3-4 -N2 -n2 sh -c 'echo task' | sort | uniq -c | tr -s ' ')" " 2 task" "they take jobs"
kill -TERM "${pids[3]}"
wait "${pids[3]}"
is $? 0 "a host leaves like the others"
ok "... its rank is left" wait_until 30 up_is "4 of 6 up: 0-2,4; left: 3; absent: 5"
begin 3
ok "... and it comes back" wait_until 30 up_is "5 of 6 up: 0-4; absent: 5"
is "$("$FLUX" wreckrun --ranks=3 -N1 -n1 echo task)" task "... and takes jobs again"

mkdir state/hosts.new
fails "a host that cannot be recorded" "$FLUX" overlay add "$NET.7"
like "$err" "host $NET.7 was not added, since .*/hosts cannot be written: Is a directory" "... is not added"
rmdir state/hosts.new
like "$("$FLUX" overlay add "$NET.7")" "^rank 5 is for host $NET.7: start its broker there " "it is, when it can"
fails "there are no more ranks" "$FLUX" overlay add "$NET.8"
like "$err" "host $NET.8 cannot be added: all 6 ranks of the session have a host .*session.size" "... which is told"
ok "the session ends" end_session

mv conf.lua longer.lua
mv short.lua conf.lua
begin 3 --set=boot.host="$NET.5"
begin_three
ok "the session begins again: who was added joins" wait_until 30 up_is "4 of 6 up: 0-3; absent: 4-5"
fails "ranks are kept" "$FLUX" overlay add "$NET.7"
like "$err" "host $NET.7 is rank 5 of the session already" "... for hosts that are not there, too"
ok "the session ends again" end_session

# One key for all, so that neighbors of one host are connected by UNIX sockets, and fewer hosts: rank
# 0 is the parent of a host that is added, and another one begins before its parent.
mv conf.lua long.lua
conf conf.lua "$NET.[2-3]"
sed -i 's/key.%r/key.0/' conf.lua
rm -r state
begin 1
begin_root --statedir="$PWD/state"
ok "a session with one key" wait_until 30 up_is "2 of 6 up: 0-1; absent: 2-5"
fails "a host that was not added" stranger "$NET.4" --set=boot.rank=2
like "$err" "host $NET.4 has not been added to the session" "... is refused by rank 0 itself"
"$FLUX" overlay add "$NET.[4-7]" >added
begin 5 --set=boot.host="$NET.7"
ok "one whose parent has not begun joins" wait_until 30 up_is "3 of 6 up: 0-1,5; absent: 2-4"
ok "... above it" wait_until 30 below 5 0
begin 2 --set=boot.host="$NET.4"
ok "the parent joins, too" wait_until 30 up_is "4 of 6 up: 0-2,5; absent: 3-4"
"$FLUX" overlay restore >moved
ok "... and gets its child" wait_until 30 below 5 2
ok "that session ends" end_session
mv long.lua conf.lua

# More hosts than rank 0 has room for at a time.
mv conf.lua six.lua
mv state six
conf conf.lua "$NET.2"
sed -i 's/size = 6/size = 2000/; s/key.%r/key.0/' conf.lua
begin_root --statedir="$PWD/state"
ok "a session with many ranks" wait_until 30 up_is "1 of 2000 up: 0; absent: 1-1999"
"$FLUX" overlay add "node[1-1999]" >added
is "$(sort -u added | wc -l)" 1999 "all the others are added at once"
is "$(wc -l <state/hosts)" 1999 "... and recorded"
ok "that session ends, too" end_session
mv six.lua conf.lua
rm -r state
mv six state

# refused NAME WORDS: rank 0 does not start with conf.lua
refused() {
    fails "$1" run_with_timeout 60 "$FLUX" start --config="${3:-conf.lua}" --rundir="$PWD/run" \
        --statedir="$PWD/state" --set=boot.rank=0 --set=modules=log true
    like "$err" "$2" "... is told"
}
conf wrong.lua "$NET.[2-3],$NET.9"
refused "another host in the file at a rank that was given away" \
    "state/hosts:1: host $NET.4 was added as rank 2, but session.hosts has $NET.9 in its place" wrong.lua
echo "some 3" >>state/hosts
refused "a list of hosts that cannot be read" "state/hosts:5: expected 'RANK HOST'"
conf wrong.lua "$NET.[2-4]" "size = 2,"
refused "a size below the number of hosts" "session.size is 2; expected a number from 3 .*to 65536" wrong.lua
conf wrong.lua "$NET.[2-4]"
sed -i 's/key.%r/key.%h/' wrong.lua
for host in 2 3 4; do
    cp key.0 "key.$NET.$host"
    cp key.0.pub "key.$NET.$host.pub"
done
rm state/hosts
refused "a key that depends on a host that is not known" \
    "session.keyfile depends on the host, but rank [3-5] has none yet: use one for all, or that of the rank" wrong.lua
finish
