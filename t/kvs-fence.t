#!/usr/bin/env bash
# Fences: together, in one version, or not at all.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_client kvs_probe

# Take part in fence $3 of $4 from broker $1 in the background; what it says is in fence.TAG.
pids=()
enter() {
    local rank=$1 tag=$2
    shift 2
    FLUX_URI=$(uri "$rank") "$CLIENT" fence "$@" >"fence.$tag" 2>&1 &
    pids[tag]=$!
}
open() {
    [ "$(counter "$1" fences_open)" = "$2" ]
}

# This many calls have come to the root.
gathered() {
    [ "$(counter 0 fence_calls)" = "$1" ]
}

hold 7 --topology=kary:2 --set=modules=log,hb,barrier,kvs,wrexec

# Twelve over all ranks.
for i in {0..11}; do
    enter $((i % 7)) "$i" all 12 "f.k$i=$i" same=thing "f.rank$((i % 7)).k$i=x"
done
for i in {0..11}; do
    ok "participant $i of 12 is let through" wait "${pids[i]}"
done
is "$(cat fence.? fence.?? | sort -u | wc -l)" 1 "all have the same version"
before=$(cat fence.0)
is "$(at 6 dir f | grep -c '^f.k')" 12 "all keys are there, at once"
is "$(at 4 get same)" thing "also the one that all wrote"
ok "no fence is left" wait_until 10 open 0 0

# The name again, ten rounds.
bad=0
for round in {1..10}; do
    for i in 0 1 2 3; do
        enter $((i + 3)) "$i" all 4 "round.$round.$i=1"
    done
    for i in 0 1 2 3; do
        wait "${pids[i]}" || bad=1
    done
    [ "$(cat fence.[0-3] | sort -u | wc -l)" = 1 ] || bad=1
done
is "$bad" 0 "a name can be used repeatedly"
ok "with a version each" [ "$(cat fence.0)" -ge $((before + 10)) ]
is "$(at 3 dir -R round | wc -l)" 40 "and all keys"
ok "a fence of one" client 6 fence one 1 alone=1
ok "a fence without a transaction" client 5 fence one 1

# Calls that do not fit.
enter 3 0 odd 2 odd.a=1
ok "a fence begins" wait_until 10 open 0 1
fails "another number of participants" client 3 fence odd 3 odd.b=1
like "$err" "^EINVAL: .*2 participants, not 3" "is refused with a sentence"
fails "at another rank, too" client 0 fence odd 3 odd.b=1
like "$err" "^EINVAL: " "with EINVAL"
ok "the others are not disturbed" client 4 fence odd 2 odd.c=1
ok "both of them" wait "${pids[0]}"
fails "a number of none" client 4 fence none 0
fails "a name that is too long" client 4 fence "$(printf 'n%.0s' {1..256})" 1
fails "a blank in a name" client 4 fence "a b" 1

# A transaction that cannot be applied: for all, since it is one.
at 0 put value=1
enter 5 0 wrong 2 value.below=1
fails "one that cannot be applied fails for all" client 6 fence wrong 2 fine=1
like "$err" "^ENOTDIR: " "with the reason"
exits 1 "all" wait "${pids[0]}"
exits 1 "and nothing of it is there" at 0 get fine

# A participant that dies.
for rank in 3 4 5; do
    enter "$rank" "$rank" broken 4 "broken.$rank=1"
done
ok "three of four wait" wait_until 10 gathered 3
kill -KILL "${pids[4]}"
wait "${pids[4]}" 2>/dev/null
for rank in 3 5; do
    exits 1 "the death of one ends it for rank $rank" wait "${pids[rank]}"
    like "$(cat "fence.$rank")" "^ECONNABORTED: fence 'broken' .* participant at rank 4 disconnected" \
        "with a sentence"
done
exits 1 "also for who comes late" client 6 fence broken 4 broken.late=1
like "$err" "^ECONNABORTED: .* \([0-9]+ s before this call; call again" "in the same way"
exits 1 "nothing of it is there" at 0 dir broken
ok "a fence of that name with another number" client 6 fence broken 1
for i in 0 1 2 3; do
    enter $((i + 3)) "$i" broken 4
done
for i in 0 1 2 3; do
    ok "and of the same number, once all were told" wait "${pids[i]}"
done

# Who was told of the end begins the next one at once; who comes late for the old one does not count
# for it, though it is there already.
calls() {
    FLUX_URI=$(uri "$1") "$PROBE" fence "$2" "$3" "$4"
}
answered() {
    [ "$(wc -l <"calls.$1")" -ge "$2" ]
}
for round in 1 2 3; do
    rm -f calls.*
    calls 4 "next.$round" 4 2 >calls.0 &
    pids[0]=$!
    calls 2 "next.$round" 4 2 >calls.1 &
    pids[1]=$!
    enter 3 2 "next.$round" 4
    ok "round $round: three of four wait" wait_until 10 gathered 3
    kill -KILL "${pids[2]}"
    wait "${pids[2]}" 2>/dev/null
    ok "one dies, two are told" wait_until 10 answered 0 1
    ok "both" wait_until 10 answered 1 1
    ok "and call again" wait_until 10 open 0 1
    exits 1 "a late one is refused" client 6 fence "next.$round" 4
    like "$err" "^ECONNABORTED: " "with the reason"
    enter 5 3 "next.$round" 4
    ok "four that are not late" client 1 fence "next.$round" 4
    ok "are all let through" wait "${pids[3]}"
    wait "${pids[0]}" "${pids[1]}"
    is "$(tail -qn 1 calls.0 calls.1 | sort -u)" ok "also who calls again"
done

# Who dies when the fence is complete, but does not know that yet, does no harm to the next of its
# name; nor does who dies before.  Each round kills at another moment.
bad=0 complete=0
for round in {1..40}; do
    enter 3 0 "race.$round" 2
    wait_until 10 open 3 1
    enter 4 1 "race.$round" 2
    sleep "0.00$((round % 10))"
    kill -KILL "${pids[0]}" 2>/dev/null
    wait "${pids[0]}" 2>/dev/null
    wait "${pids[1]}" && complete=$((complete + 1))
    enter 3 0 "race.$round" 2
    client 4 fence "race.$round" 2 >/dev/null || bad=$((bad + 1))
    wait "${pids[0]}" || bad=$((bad + 1))
done
is "$bad" 0 "an abort that comes too late hits nobody ($complete of 40 were complete)"
ok "no fence is left behind" wait_until 10 open 0 0
ok "nowhere" wait_until 10 open 3 0

# A list of those that are not over.
at_ranks() {
    local rank=$1 tag=$2
    shift 2
    FLUX_URI=$(uri "$rank") "$CLIENT" fence-at "$@" >"fence.$tag" 2>&1 &
    pids[tag]=$!
}
listed() {
    "$FLUX" kvs fences | finds -E "$1"
}
at_ranks 4 0 2,4-6 listed 4 listed=1
at_ranks 6 1 6 listed 4 listed=1
enter 5 2 other 2 other=1
ok "a list shows who is waited for" wait_until 30 listed '^primary +listed +4 +2 .* 4,6 +2,5$'
ok "and no rank where nobody said where participants are" wait_until 30 listed '^primary +other +2 +1 .* 5 +-$'
like "$("$FLUX" kvs fences --json)" '"waits_for": *"2,5"' "in JSON, too"
is "$("$FLUX" kvs fences -N primary | wc -l)" 3 "of one namespace"
fails "of one that does not exist" "$FLUX" kvs fences -N a/b
exits 2 "no argument" "$FLUX" kvs fences listed
client 2 fence other 2 >/dev/null
ok "one is over" wait "${pids[2]}"
isnt "$("$FLUX" kvs fences | grep -c other)" 1 "and is not in the list"

# Rank 5 is lost before anybody has called there: nobody but who said so can know that somebody
# would.
kill -KILL "$(FLUX_URI=$(uri 0) "$FLUX" getattr -r 5 broker.pid)"
for i in 0 1; do
    exits 1 "a rank that is lost before its call ends the fence for participant $i" wait "${pids[i]}"
    like "$(cat "fence.$i")" "^ECONNABORTED: fence 'listed' was aborted: rank 5 is lost" "with its name"
done
fails "a later one ends at once" client 6 fence-at 5-6 later 2
like "$err" "^ECONNABORTED: .*rank 5 is lost" "with its name, too"

# A broker dies with a participant below it, which has called there: the fence goes on.  The broker
# of a participant dies: it ends.
enter 3 0 lost 3 lost=1
enter 2 1 lost 3 lost=1
wait_until 10 gathered 2
kill -KILL "$(FLUX_URI=$(uri 0) "$FLUX" getattr -r 1 broker.pid)"
ok "when a broker between dies, the last call" client 6 fence lost 3 lost=1
ok "completes it for who is elsewhere" wait "${pids[1]}"
ok "and for who was below" wait "${pids[0]}"
enter 3 0 lost 3 lost=1
enter 2 1 lost 3 lost=1
wait_until 10 gathered 2
kill -KILL "$(FLUX_URI=$(uri 0) "$FLUX" getattr -r 3 broker.pid)"
exits 1 "the death of a participant's broker ends it for who is elsewhere" wait "${pids[1]}"
like "$(cat fence.1)" "^ECONNABORTED: fence 'lost' was aborted: rank 3 is lost" "and names the rank"
wait "${pids[0]}" 2>/dev/null
ok "nothing is left of it" wait_until 10 open 0 0
ok "the others have fences still" client 2 fence after 1 after=1
release
note "the session ends with $status"

# A participant's call dies with its broker, and nobody has said where participants are: nobody can
# know that it was there, but the fence ends for the others.
hold 4 --topology=flat --set=modules=log,hb,barrier,kvs,wrexec --set=kvs.fence-grace=1s
enter 2 0 unnamed 3 unnamed.a=1
enter 0 1 unnamed 3 unnamed.b=1
ok "two of three calls come" wait_until 30 gathered 2
ok "and no lost rank is known" wait_until 30 listed '^primary +unnamed +3 +2 .* 0,2 +-$'
FLUX_URI=$(uri 0) kill -KILL "$("$FLUX" getattr -r 3 broker.pid)"
for i in 0 1; do
    exits 1 "the fence ends for participant $i when it stays incomplete" wait "${pids[i]}"
    like "$(cat "fence.$i")" "^ECONNABORTED: fence 'unnamed' was aborted: 2 of 3 calls came, from ranks 0,2, " \
        "with the ranks of those that came"
    like "$(cat "fence.$i")" "ranks 3, which are lost" "and those that are lost"
done
ok "a fence of the remaining ranks" client 1 fence complete 1 complete=1
release
hold 4 --topology=flat --set=modules=log,hb,barrier,kvs,wrexec --set=kvs.fence-grace=1d
enter 2 0 unnamed 3 unnamed.a=1
ok "one of three calls comes" wait_until 30 gathered 1
FLUX_URI=$(uri 0) kill -KILL "$("$FLUX" getattr -r 3 broker.pid)"
ok "the list shows the lost rank" wait_until 30 listed '^primary +unnamed +3 +1 .* 2 +3$'
enter 0 1 later 2 later=1
ok "also for a fence that begins after the loss" wait_until 30 listed '^primary +later +2 +1 .* 0 +3$'
client 1 fence later 2 later=2 >/dev/null
ok "which can still complete" wait "${pids[1]}"
enter 0 1 unnamed 3 unnamed.b=1
client 1 fence unnamed 3 unnamed.c=1 >/dev/null
ok "as can the other" wait "${pids[0]}"
release
finish
