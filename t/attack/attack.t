#!/usr/bin/env bash
# A hostile client against a session in which others work: it floods, lies, stalls, hangs up and
# sends every request in every wrong shape.  The broker's memory stays bounded, the others' work is
# done, nothing hangs afterwards, and each job that was accepted ends.
#
# The same work goes on in a session of its own, which is not attacked: what the load of the host
# makes of it, it makes there, too.  The others' rounds may take ten times as long (thirty times
# with sanitizers, with which a broker spends more on each message).
#
# SOAK_TIME: seconds of attack (default 40); SOAK_SEED: where chance comes from.
# shellcheck disable=SC2154 # set by run and lib.sh
. "$(dirname "$0")/../lib.sh"
need_flux start kvs submit queue ping jobs
ATTACK=$BUILDDIR/t/attack/attack
[ -x "$ATTACK" ] || skip_all "t/attack/attack has not been built"
# A minute in .ci: the other 20 s under sanitizers.
SECONDS_OF_ATTACK=${SOAK_TIME:-40}
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || SECONDS_OF_ATTACK=${SOAK_TIME:-20}
SEED=${SOAK_SEED:-1}
export SESSION_LIMIT=$((SECONDS_OF_ATTACK + 600))
# KiB that a broker may grow: mailboxes, queues of clients and caches of all workers, several times
# over.
BOUND=600000
TIMES=10
if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
    BOUND=2000000
    TIMES=30
fi

# What services know, from the source, so that a new request is attacked from its first day.
grep -rhoE 'FLUX_MSG_REQUEST, *"[a-z-]+\.[a-z*-]+"' "$SRCDIR"/src/modules "$SRCDIR"/src/broker --include='*.c' \
    --exclude-dir=test | cut -d'"' -f2 | grep -v '^nest\.' | LC_ALL=C sort -u >topics
note "$(wc -l <topics) requests, seed $SEED, $SECONDS_OF_ATTACK s"

rss() {
    awk '/^VmRSS/ {print $2}' "/proc/$1/status"
}
now() {
    date +%s%N
}

hold 1
idle=("$FLUX_URI" "$_held" "$_held_pid")
hold 4
pid=$("$FLUX" getattr broker.pid)

# Whatever a service of this session answers to is among them: each service is asked for each word
# that the source has.  All services answer to a ping; nest is in sessions within others.
"$FLUX" module list | awk 'NR > 1 { print $1 }' >services
printf '%s\n' attr broker connector event module overlay trace >>services
grep -rhoE '[a-z][a-z-]*' "$SRCDIR"/src/modules "$SRCDIR"/src/broker --include='*.c' --exclude-dir=test |
    LC_ALL=C sort -u >words
awk 'NR == FNR { service[n++] = $0; next } $0 != "ping" { for (i = 0; i < n; i++) print service[i] "." $0 }' \
    services words >candidates
run_with_timeout 120 "$ATTACK" probe candidates >found
is $? 0 "services are asked $(wc -l <candidates) times what they know"
is "$(LC_ALL=C sort found | diff - topics)" "" "it is what will be attacked"

# A neighbor's work: put, get, a job. Appends the milliseconds of each round to the file.
work() { # FILE STOP
    local begin n=0
    while [ ! -e "$2" ]; do
        begin=$(now)
        n=$((n + 1))
        if ! run_with_timeout 120 "$FLUX" kvs put "work.$1=$n" ||
            [ "$(run_with_timeout 120 "$FLUX" kvs get "work.$1")" != "$n" ] ||
            ! run_with_timeout 120 "$FLUX" submit --quiet --wait true; then
            echo "round $n failed" >>"$1.failed"
        fi
        echo $((($(now) - begin) / 1000000)) >>"$1"
    done
}
# The middle of the numbers in a file.
median() {
    sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
rounds() {
    [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}

work calm calm.stop &
worker=$!
ok "others work" wait_until 60 rounds calm 10
touch calm.stop
wait "$worker"
before=$(rss "$pid")

ok "every request in every wrong shape, and role, is answered, once" run_with_timeout 120 "$ATTACK" shapes topics
submitted=$("$FLUX" jobs -a -n | wc -l)
ok "clients hang up at every step" run_with_timeout 120 "$ATTACK" steps
accepted() {
    [ "$("$FLUX" jobs -a -n | wc -l)" -gt "$submitted" ]
}
ok "jobs are accepted from such clients" accepted

work busy busy.stop &
worker=$!
FLUX_URI=${idle[0]} work idle busy.stop &
idle_worker=$!
# From outside of rank 0, too: what floods another rank goes on to the services of the root.
FLUX_URI=local://$("$FLUX" getattr rundir)/3/local "$ATTACK" "$SECONDS_OF_ATTACK" "$((SEED + 100))" 2 topics \
    >attack3.out 2>&1 &
remote=$!
"$ATTACK" "$SECONDS_OF_ATTACK" "$SEED" 2 topics >attack.out 2>&1
code=$?
wait "$remote"
code3=$?
peak=$(awk '/^VmHWM/ {print $2}' "/proc/$pid/status")
ok "others worked meanwhile" wait_until 60 rounds busy 1
touch busy.stop
wait "$worker" "$idle_worker"
sort attack.out attack3.out | uniq -c | sort -rn | head -n 40 >attack.top
note "$(cat attack.top)"
is "$code" 0 "each request had its answer, once"
is "$code3" 0 "at another rank, too"
ok "no round of the others failed" test ! -e busy.failed
ok "nor before the attack" test ! -e calm.failed
ok "nor any elsewhere" test ! -e idle.failed
note "a round of the others: $(median calm) ms before, $(median busy) ms under attack, $(wc -l <busy) rounds;" \
    "$(median idle) ms elsewhere, $(wc -l <idle) rounds"
[ "$(median busy)" -le $((TIMES * $(median idle))) ]
is $? 0 "a round takes at most $TIMES times as long as elsewhere"
note "memory of rank 0: $before KiB before, $peak KiB at most, $(rss "$pid") KiB after"
[ $((peak - before)) -lt "$BOUND" ]
is $? 0 "the broker's memory stayed bounded"

# Nothing hangs afterwards.
ok "all ranks are up" run_with_timeout 60 "$FLUX" up
ok "and answer" run_with_timeout 60 "$FLUX" ping -c 3 -i 0 3
ok "every accepted job ends" run_with_timeout 120 "$FLUX" queue idle
is "$("$FLUX" jobs -n | wc -l)" 0 "none is left"
ok "a job runs" run_with_timeout 60 "$FLUX" submit --wait -N4 true
no_clients() {
    [ "$(find "/proc/$pid/fd" -lname 'socket:*' | wc -l)" -lt 100 ]
}
ok "the attackers' connections are forgotten" wait_until 60 no_clients
if [ "$(id -u)" = 0 ]; then
    socket=${FLUX_URI#local://}
    chmod o+rwx "$socket"
    for dir in "${TMPDIR%/*}" "$TMPDIR" "${socket%/*/*}" "${socket%/*}"; do
        chmod o+x "$dir"
    done
    ok "another user is refused, whatever it sends and claims to be" "$ATTACK" guest 65534 topics
else
    skip 1 "only root can become another user"
fi
release
is "$status" 0 "the session ends well"
_held=${idle[1]}
_held_pid=${idle[2]}
release
is "$status" 0 "so does the other one"

finish
