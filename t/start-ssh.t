#!/usr/bin/env bash
# flux start --hosts: brokers on other hosts, started through ssh.  The hosts are addresses of
# loopback, at which an sshd of the test's own listens.
. "$(dirname "$0")/lib.sh"
need_flux start up getattr overlay ping
need ssh ssh-keygen
SSHD=$(PATH=$PATH:/usr/sbin command -v sshd) || skip_all "sshd is not installed"

M=--set=modules=log
for key in host user stranger; do
    ssh-keygen -q -t ed25519 -N '' -f "$key"
done
# Brokers there need the variables that lib.sh looks for, where sockets belong, and what sanitizers do.
far=("FLUX_TEST_ID=$FLUX_TEST_ID" "TMPDIR=$TMPDIR")
for name in ASAN UBSAN TSAN; do
    name=${name}_OPTIONS
    [ -z "${!name:-}" ] || far+=("$name=${!name}")
done
cat >sshd_config <<END
ListenAddress 127.0.0.1
ListenAddress 127.0.0.2
ListenAddress 127.0.0.3
ListenAddress 127.0.0.4
HostKey $TEST_DIR/host
AuthorizedKeysFile $TEST_DIR/user.pub
StrictModes no
PidFile none
UseDNS no
MaxStartups 100
SetEnv ${far[*]}
Match LocalAddress 127.0.0.3 User *
    ForceCommand [ -e $TEST_DIR/odd ] && . $TEST_DIR/odd; eval "\$SSH_ORIGINAL_COMMAND"
END
echo "h $(cut -d' ' -f1,2 host.pub)" >known_hosts
if [ "$(id -u)" = 0 ] && [ ! -d /run/sshd ]; then
    mkdir -p /run/sshd || skip_all "sshd as root needs /run/sshd"
    made_run=yes
fi
# Some port that is free.
for _ in 1 2 3 4 5 6 7 8; do
    port=$((20000 + RANDOM % 10000))
    "$SSHD" -D -f sshd_config -p $port -E sshd.log &
    sshd=$!
    wait_until 10 grep -qE 'listening on 127.0.0.4 |rror|issing|fail' sshd.log
    grep -qE 'rror|issing|fail' sshd.log || break
    kill $sshd 2>/dev/null
    wait $sshd
    sshd=''
    grep -q 'in use' sshd.log || break
    rm sshd.log
done
[ -n "$sshd" ] || skip_all "sshd does not start here: $(tail -n 1 sshd.log)"
config() { # FILE IDENTITY [LINE...]
    printf '%s\n' "Port $port" "IdentityFile $TEST_DIR/$2" 'IdentitiesOnly yes' 'HostKeyAlias h' \
        "UserKnownHostsFile $TEST_DIR/known_hosts" "${@:3}" >"$1"
}
config known user
config refused user
sed -i 's/^Port .*/Port 1/' refused
config denied stranger
config strange user "UserKnownHostsFile /dev/null"
sed -i '/UserKnownHostsFile .*known_hosts/d' strange
printf 'Host 127.0.0.4\nPort 1\nHost *\n' | cat - known >partly
export FLUX_SSH="ssh -F $TEST_DIR/known"
start() { # A busy host may let a broker wait for long: only the end of its connection tells its loss.
    run_with_timeout 60 "$FLUX" start "$M" --set=live.lost=600s "$@"
}
nobody_left() { # but sshd.  No other process may run beside, which would be found.
    local pids
    pids=$(test_processes)
    [ -z "$pids" ] || [ "$pids" = "$sshd" ]
}

# --- a session ---

cat >look <<END
"$FLUX" up
"$FLUX" getattr size
"$FLUX" getattr user.secret
for rank in 0 1 2 3; do
    "$FLUX" getattr -r \$rank user.secret
    "$FLUX" getattr -r \$rank tcp.address
done
ps -o args= -p \$(ps -e -o pid= -o args= | grep "[s]sh -F $TEST_DIR/known" | awk '{print \$1}')
cat
exit 42
END
echo typed >input
exits 42 "a session of four hosts, and its exit code" \
    start --hosts='127.0.0.[1-4]' --ssh --set=user.secret=only-here --set=link.transport=zmq sh look <input
like "$out" "0-3" "all are up"
is "$(grep -c '^only-here$' <<<"$out")" 5 "attributes reach all brokers"
is "$(grep '^127' <<<"$out" | tr '\n' ' ')" "127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4 " \
    "a broker listens at the address that names its host"
is "$(grep -c '^ssh .* 127.0.0.[234] exec .*/flux-broker. --remote$' <<<"$out")" 3 \
    "ssh runs flux-broker, with no settings on its command line"
unlike "$(grep '^ssh' <<<"$out")" "only-here|127.0.0.1" "... which are known to nobody else"
is "$(tail -n 1 <<<"$out")" typed "the command has standard input"
# What the shell of the account writes on another host comes here, too.
unlike "$err" 'flux|broker|rank' "and nothing is said"

ok "a host that is named twice has two brokers" start --hosts=127.0.0.2,127.0.0.1,127.0.0.2,localhost \
    sh -c "'$FLUX' up && '$FLUX' getattr -r 1 rundir && '$FLUX' getattr -r 3 rundir"
like "$out" "0-3" "all are up"
ok "one host needs no ssh" start --hosts=localhost --ssh=/nonexistent "$FLUX" getattr size
is "$out" 1 "one broker"
ok "several brokers of one host, neither" start --hosts=localhost,localhost --ssh=/nonexistent \
    "$FLUX" getattr size
is "$out" 2 "two brokers"
echo 'echo "Welcome to this host!"; printf "No newline"; echo Beware >&2' >odd
# shellcheck disable=SC2016 # for the shells that get it
ok "jobs run on the hosts" run_with_timeout 60 "$FLUX" start -v --hosts='127.0.0.[1,3]' \
    "$FLUX" wreckrun -N2 sh -c 'echo task $FLUX_TASK_RANK'
rm odd
is "$(sort <<<"$out" | tr '\n' ' ')" "task 0 task 1 " "although a shell there prints something"
like "$err" $'\n'"127.0.0.3: flux-broker: rank 1: state" "standard error of a broker has the name of its host"
like "$err" "127.0.0.3: Beware" "so has that of its shell"

# --- hosts that cannot be used ---

cannot() { # DESC HOSTS SENTENCE
    fails "$1" start --hosts="$2" touch ran
    like "$err" "$3" "the sentence says why"
    is "$(wc -l <<<"$err")" 1 "once"
}
FLUX_SSH="ssh -F $TEST_DIR/refused" cannot "a host that cannot be reached" '127.0.0.[1-2]' \
    "broker 1 was not started: host 127.0.0.2 cannot be reached: ssh: connect to host 127.0.0.2 port 1: Connection refused"
FLUX_SSH="ssh -F $TEST_DIR/denied" cannot "a host that asks for a password" '127.0.0.[1-2]' \
    "host 127.0.0.2 does not let ssh in without a password: set up a key \(ssh-copy-id 127.0.0.2\)"
FLUX_SSH="ssh -F $TEST_DIR/strange" cannot "a host whose key is not known" '127.0.0.[1-2]' \
    "ssh does not know the key of host 127.0.0.2"
FLUX_SSH=/nonexistent/ssh cannot "no ssh" '127.0.0.[1-2]' \
    "host 127.0.0.2 cannot be reached: /nonexistent/ssh cannot be run: No such file"
echo 'exec /nonexistent/flux-broker' >odd
cannot "a host without flux" '127.0.0.[1-3]' \
    "broker 2 was not started: host 127.0.0.3 cannot run .*/flux-broker: install this version"
# shellcheck disable=SC2028
echo 'printf "\nflux-broker --remote 0.0.1\n"; exec cat >/dev/null' >odd
cannot "a host with another version" '127.0.0.[1-3]' \
    "host 127.0.0.3 has flux 0.0.1, this host [0-9.]+: install the same version"
rm odd
FLUX_SSH="ssh -F $TEST_DIR/partly" ok "a host that is not needed" start --hosts='127.0.0.[1-4]' \
    --set=quorum=3 --set=boot.timeout=0.1s --set=link.transport=zmq sh -c "'$FLUX' live status
    cp known partly
    until '$FLUX' up | grep -q '0-3'; do sleep 0.1; done
    '$FLUX' getattr -r 3 rank"
like "$err" "rank 3 is absent: host 127.0.0.4 cannot be reached: ssh: " "is absent"
like "$out" "up +3 +0-2.*absent +1 +3" "in the session, too"
like "$err" "broker 3 starts late on host 127.0.0.4" "when it can be reached, it is tried again"
is "$(tail -n 1 <<<"$out")" 3 "and its broker joins"
printf 'Host 127.0.0.2\nPort 1\nHost *\n' | cat - known >partly
FLUX_SSH="ssh -F $TEST_DIR/partly" ok "a host with others below it" start --hosts='127.0.0.[1-4]' \
    --topology=kary:1 --set=quorum=1 --set=boot.timeout=0.1s --set=overlay.settle=0 \
    sh -c "until '$FLUX' up | grep -q '0,2-3'; do sleep 0.1; done
    '$FLUX' up --long
    '$FLUX' ping -c 1 3
    cp known partly
    until '$FLUX' up | grep -q '0-3'; do sleep 0.1; done
    '$FLUX' overlay restore 1
    '$FLUX' up --long"
like "$err" "rank 1 is absent: host 127.0.0.2 cannot be reached: ssh: " "is absent"
like "$out" $'\n *2 +up +0 +1 +1\n *3 +up +2 +2 +1\n' "those below it join above"
like "$out" $'\nmoved: 2\n' "when it is there, they go to their place"
like "$out" $'\n *1 +up +0 +1 +1\n *2 +up +1 +2 +1\n *3 +up +2 +3 +1$' "with those below them"
# Rank 2 comes when rank 1, its parent, has come; that was absent, too, when the session began.
printf 'Host 127.0.0.2 127.0.0.3\nPort 1\nHost *\n' | cat - known >partly
printf 'Host 127.0.0.3\nPort 1\nHost *\n' | cat - known >partly.next
FLUX_SSH="ssh -F $TEST_DIR/partly" ok "two hosts, one after the other" start --hosts='127.0.0.[1-4]' \
    --topology=kary:1 --set=quorum=2 --set=boot.timeout=0.1s \
    sh -c "mv partly.next partly
    until '$FLUX' up | grep -q '0-1,3'; do sleep 0.1; done
    cp known partly
    until '$FLUX' up | grep -q '0-3'; do sleep 0.1; done
    '$FLUX' ping -R -c 1 2"
like "$err" "broker 2 starts late on host 127.0.0.3" "join both"
# Another process has the ports at which rank 3 is looked for, whichever these are.
cat >take.py <<END
import os, resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
taken = []
for port in range(20000, 32000, 2):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(("127.0.0.4", port))
        s.listen(1)
    except OSError:
        pass  # others have it, which is as good
    taken.append(s)
print("taken", flush=True)
sys.stdin.read()
END
printf 'Host 127.0.0.4\nPort 1\nHost *\n' | cat - known >partly
mkfifo hold
if [ "$(ulimit -H -n)" = unlimited ] || [ "$(ulimit -H -n)" -gt 6100 ]; then
    python3 take.py <hold >taken &
    taker=$!
    exec 9>hold
    wait_until 30 grep -q taken taken
    FLUX_SSH="ssh -F $TEST_DIR/partly" ok "a port that is taken: the ring finds the broker at another one" start --hosts='127.0.0.[1-4]' \
        --set=quorum=3 --set=boot.timeout=0.1s sh -c "cp known partly
        until '$FLUX' up | grep -q '0-3'; do sleep 0.1; done
        '$FLUX' ping -R -c 1 3"
    exec 9>&-
    wait "$taker"
else
    skip 1 "the limit on open files is too low"
fi
rm -f hold
printf 'Host 127.0.0.4\nPort 1\nHost *\n' | cat - known >partly
FLUX_SSH="ssh -F $TEST_DIR/partly" fails "one that is needed" start --hosts='127.0.0.[1-4]' \
    --set=quorum=4 --set=boot.timeout=0.1s touch ran
like "$err" "broker 3 was not started: host 127.0.0.4 cannot be reached" "ends the start"

# --- hosts that are added ---

printf 'Host 127.0.0.4\nPort 1\nHost *\n' | cat - known >partly
cat >grow <<END
"$FLUX" up
"$FLUX" overlay add 127.0.0.4 && exit 1
"$FLUX" overlay add 127.0.0.2 && exit 2
cp denied partly
"$FLUX" overlay add 127.0.0.3 && exit 3
cp known partly
echo 'ulimit -n 90' >odd
"$FLUX" overlay add -t 60 127.0.0.3 && exit 8
rm odd
"$FLUX" overlay add '127.0.0.[3-4]' || exit 4
"$FLUX" up --long
"$FLUX" ping -R -c 1 3
"$FLUX" getattr -r 3 tcp.address
"$FLUX" getattr -r 3 user.secret
FLUX_URI=local://\$("$FLUX" getattr -r 3 rundir)/3/local "$FLUX" overlay add localhost || exit 5
"$FLUX" overlay add 127.0.0.5 && exit 6
"$FLUX" up
# flux start sees the end of a broker when ssh has ended.
launcher=\$(ps -o ppid= -p \$("$FLUX" getattr broker.pid))
ssh2=\$(ps -o pid= -o args= --ppid \$launcher | awk '/ 127.0.0.3 / {print \$1}')
kill -STOP \$ssh2
kill -KILL \$("$FLUX" getattr -r 2 broker.pid)
until "$FLUX" up | grep -q 'lost: 2'; do sleep 0.1; done
"$FLUX" overlay add 127.0.0.3
code=\$?
kill -CONT \$ssh2
[ \$code = 1 ] || exit 7
until "$FLUX" overlay add 127.0.0.3; do sleep 0.1; done
"$FLUX" up --long
until "$FLUX" ping -R -c 1 3; do sleep 0.1; done # the ring closes a little later
kill -KILL \$("$FLUX" getattr -r 1 broker.pid)
until "$FLUX" up | grep -q 'lost: 1'; do sleep 0.1; done
until "$FLUX" overlay add 127.0.0.2 2>&1 | tee said | grep ended; do sleep 0.1; done
exit 42
END
FLUX_SSH="ssh -F $TEST_DIR/partly" exits 42 "hosts are added to a session that runs" \
    start --hosts='127.0.0.[1-2]' --size=5 --topology=kary:2 --set=user.secret=only-here sh grow
like "$out" "^2 of 5 up: 0-1; absent: 2-4"$'\n' "it begins with those that are listed"
like "$err" "overlay add: host 127.0.0.4 cannot be reached: ssh: connect to host 127.0.0.4 port 1: Connection refused" \
    "a host that cannot be reached is refused with the reason"
like "$err" "overlay add: host 127.0.0.2 is rank 1 of the session already" "so is one that is there"
like "$err" "overlay add: host 127.0.0.3 does not let ssh in without a password" "and one that asks for a password"
like "$err" "overlay add: host 127.0.0.3: its broker, rank 2, ended with exit code 1 before it was up: .*limit on open files is 90" \
    "one whose broker fails before it is up is not waited for"
like "$out" "rank 2 on host 127.0.0.3 is up" "others join"
like "$out" "rank 3 on host 127.0.0.4 is up" "... two at once"
like "$out" $'\n *2 +up +0 +1 +1\n *3 +up +1 +2 +1\n *4 +absent' "at their places in the tree"
is "$(grep -c "ring:2 > 3" <<<"$out")" 2 "and on the ring, also when one has been started again"
like "$out" $'\n127.0.0.4\nonly-here\n' "with the settings of the session"
like "$out" "rank 4 on host localhost is up" "also when another rank is asked"
like "$err" "overlay add: host 127.0.0.5 cannot be added: all 5 ranks of the session have a host" "until all ranks have one"
like "$out" $'\n5 of 5 up: 0-4(\n|$)' "all are up"
like "$err" "overlay add: host 127.0.0.3 is rank 2 of the session already, which is lost, .*: try again" \
    "one that is lost is refused until its broker is seen to have ended"
like "$out" $'\n *2 +up +0 +1 +2\n' "one whose broker has died is added again, as the same rank"
like "$out" "127.0.0.2 is rank 1 of the session already, and its broker has ended" "but not one that was there from the start"

printf '#!/bin/sh\necho no route >&2\nexit 255\n' >noroute
chmod +x noroute
# shellcheck disable=SC2016 # for the inner shell
FLUX_SSH=$TEST_DIR/noroute run start --hosts=localhost --size=600 \
    sh -c '"$0" overlay add "n[1-500]"' "$FLUX"
is "$(grep -c "overlay add: host n[0-9]* cannot be reached: no route" <<<"$err")" 500 \
    "more hosts than flux start takes at once wait their turn"

# The rank above that of the second host remains without one at first.
printf 'Host 127.0.0.3\nPort 1\nHost *\n' | cat - known >partly
FLUX_SSH="ssh -F $TEST_DIR/partly" ok "a host whose parent in the tree is missing" \
    start --hosts=127.0.0.1,127.0.0.2 --size=5 --topology=kary:1 sh -c "'$FLUX' overlay add '127.0.0.[3-4]'
    '$FLUX' up --long
    cp known partly
    '$FLUX' overlay add 127.0.0.3 && '$FLUX' overlay restore || exit
    '$FLUX' up --long
    '$FLUX' ping -R -c 1 3"
like "$out" $'\n *2 +absent +1 +2 +0\n *3 +up +1 +2 +1\n' "joins at the next broker above"
like "$out" $'\n *2 +up +1 +2 +1\n *3 +up +2 +3 +1\n' "and goes to its place when its parent is there"
FLUX_SSH="ssh -F $TEST_DIR/known" ok "one host, and a larger size" start --hosts=127.0.0.1 --size=2 \
    sh -c "'$FLUX' overlay add 127.0.0.3 && '$FLUX' up"
like "$out" "2 of 2 up: 0-1" "grows, too"
FLUX_SSH="ssh -F $TEST_DIR/known" ok "jobs get the nodes that were added" run_with_timeout 60 "$FLUX" start \
    --hosts=127.0.0.1 --size=4 sh -c "'$FLUX' overlay add 127.0.0.2 127.0.0.3 &&
    until '$FLUX' resource list | grep -q '^free .* 0-2 '; do sleep 0.1; done
    '$FLUX' wreckrun -N3 sh -c 'echo task \$FLUX_TASK_RANK'"
is "$(grep ^task <<<"$out" | sort | tr '\n' ' ')" "task 0 task 1 task 2 " "and run there"
fails "a session of another kind" start --size=2 "$FLUX" overlay add n7
like "$err" "no host can be added to this session: it was not started by flux start with --hosts" "does not"
exits 2 "no host" "$FLUX" overlay add
exits 2 "a list that is malformed" "$FLUX" overlay add 'n[1-'
exits 2 "a size below the number of hosts" "$FLUX" start --hosts=localhost,127.0.0.2 --size=1 true
fails "a list without this host" start --hosts=127.0.0.2.example,127.1.example true
like "$err" "this host, .* is not in the list" "the sentence says so"
exits 2 "a list that is none" "$FLUX" start --hosts='n[1-' true
exits 2 "--ssh without --hosts" "$FLUX" start --ssh true
exits 2 "--hosts with --restart" "$FLUX" start --hosts=localhost --restart true
fails "a broker that cannot start" start --hosts='127.0.0.[1-2]' --set=live.lost=soon true
like "$err" "live.lost=soon" "the sentence says why"
[ ! -e ran ]
is $? 0 "the command does not run"
ok "and nobody is left" wait_until 10 nobody_left

# --- brokers and connections that end ---

begin() { # COMMAND...: in the background, until its command runs
    mkfifo up1 go
    "$FLUX" start "$M" --hosts='127.0.0.[1-3]' \
        sh -c "'$FLUX' getattr -r 1 broker.pid >pid1; echo up >up1; $*" >begin.out 2>begin.err &
    session=$!
    read -r _ <up1
}
end_is() { # CODE DESC
    local code
    wait "$session" 2>/dev/null
    code=$?
    is "$code" "$1" "$2"
    [ "$code" = "$1" ] || cat begin.err >&2
    rm up1 go
    ok "and nobody is left" wait_until 10 nobody_left
}
begin 'exec sleep 100'
kill -TERM "$session"
end_is 143 "SIGTERM ends the session in order"
begin 'exec sleep 100'
kill -KILL "$session"
end_is 137 "flux start is killed"

begin "read -r _ <go; '$FLUX' up; exit 5"
kill -KILL "$(ps -o pid= -o args= --ppid "$session" | awk '/ 127.0.0.3 / {print $1}')"
ok "a lost ssh connection is reported" \
    wait_until 10 grep -q "connection to host 127.0.0.3 was lost; broker 2 goes on" begin.err
kill -KILL "$(cat pid1)"
ok "so is a broker that is killed" wait_until 10 grep -q "broker 1 on host 127.0.0.2 ended with exit code 137" begin.err
echo >go
end_is 5 "the session goes on"
like "$(cat begin.out)" "0,2" "with the others, also the one without its connection"

kill "$sshd"
wait "$sshd" 2>/dev/null
[ -z "${made_run:-}" ] || rmdir /run/sshd
finish
