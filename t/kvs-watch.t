#!/usr/bin/env bash
# flux kvs watch: values, directories, what is not there; and that others' changes cost nothing.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_client

# Watch with options ($3 and on) at broker $1 in the background; what it says is in watch.TAG.
pids=()
watch() {
    local rank=$1 tag=$2
    shift 2
    : >"watch.$tag" # what an earlier one of that name said must not be taken for its words
    FLUX_URI=$(uri "$rank") "$FLUX" kvs watch "$@" >"watch.$tag" 2>&1 &
    pids[tag]=$!
}
lines() {
    [ "$(wc -l <"watch.$1")" -ge "$2" ]
}
watchers() {
    [ "$(counter "$1" watchers)" = "$2" ]
}
# The watchers of rank $1 have looked at all that it has seen.
looked() {
    [ "$(counter "$1" watch_pending)" = 0 ]
}
# Rank $1 has seen all that was committed.
settle() {
    local v
    v=$(at 0 version | awk '{ print $1 }')
    at "$1" wait "$v" >/dev/null
}

hold 4 --topology=chain --set=modules=log,hb,barrier,kvs,wrexec

# A value.
at 0 put a=1 dir.x=1 dir.sub.deep=1
settle 3
watch 3 0 --count=3 a
ok "the value as it is" wait_until 10 lines 0 1
at 1 put a=2
ok "a change" wait_until 10 lines 0 2
at 1 unlink a
ok "a watch with a count ends by itself" wait "${pids[0]}"
is "$(cat watch.0)" "1
2
a is not there" "and told all"
ok "nobody watches any more" wait_until 10 watchers 3 0

# What is not there yet; below what is not there yet.
watch 3 0 --count=2 new.dir.key
watch 2 1 --count=2 new
ok "what is absent" wait_until 10 lines 0 1
is "$(cat watch.0)" "new.dir.key is not there" "is told"
wait_until 10 lines 1 1
at 0 put new.dir.key=here
ok "appears" wait "${pids[0]}"
is "$(tail -n 1 watch.0)" here "with its value"
ok "the directory above" wait "${pids[1]}"
like "$(cat watch.1)" "new.dir\." "is seen, too"

# A directory: its entries, not what is below.
watch 3 0 --count=4 dir
ok "a directory" wait_until 10 lines 0 3
at 0 put dir.y=2
ok "a new entry" wait_until 10 lines 0 7
at 0 put dir.y=3
ok "a changed entry" wait_until 10 lines 0 11
at 0 unlink dir.x
ok "an entry less" wait "${pids[0]}"
is "$(tail -n 3 watch.0)" "dir.sub.
dir.y = 3
--" "the last of it"

# A link on the way.
at 0 put one.v=1 two.v=2
at 0 link one current
settle 3
watch 3 0 --count=3 current.v
wait_until 10 lines 0 1
at 0 put one.v=1b
ok "a change behind a link" wait_until 10 lines 0 2
at 0 link two current
ok "a link that leads elsewhere" wait "${pids[0]}"
is "$(cat watch.0)" "1
1b
2" "is followed"

# Links that lead through links, to what is there and what is not; then what is beside them changes.
at 0 put way.real.v=1
at 0 link way.real way.one
at 0 link way.one.v way.two
at 0 link way.real.none way.dangling
settle 3
watch 3 0 --count=3 way.two
watch 3 1 --count=2 way.one
watch 3 2 --count=2 way.dangling
for i in 0 1 2; do
    wait_until 10 lines $i 1
done
at 0 put way.beside=0
at 0 put elsewhere.v=0
settle 3
before=$(counter 3 watch_looked)
for i in {1..20}; do
    at 0 put "way.beside=$i" "elsewhere.v=$i"
done
settle 3
wait_until 10 looked 3
is "$(counter 3 watch_looked)" "$before" "a change beside what links lead to is not examined"
at 0 put way.real.v=2
ok "a change behind two links" wait_until 10 lines 0 2
ok "and in the directory behind one" wait "${pids[1]}"
at 0 put way.real.none=there
ok "a link that leads nowhere leads there" wait "${pids[2]}"
at 0 unlink way.one
at 0 mkdir way.one
ok "a directory in the place of a link on the way" wait "${pids[0]}"
is "$(cat watch.0)" "1
2
way.two is not there" "has not what was behind the link"

# A link that appears where nothing was, far above.
at 0 put far.b.c.d=there
watch 3 0 --count=2 near.b.c.d
wait_until 10 lines 0 1
at 0 put far.other=1 # so that it is known what stood there
settle 3
at 0 link far near
ok "a key appears by a link three levels above" run_with_timeout 10 tail --pid="${pids[0]}" -f /dev/null
is "$(tail -n 1 watch.0)" there "with its value"

# Many watchers, and changes that are none of their business.
settle 3
for i in {0..19}; do
    watch 3 "$i" "quiet.k$i"
done
watch 3 20 quiet
ok "21 watchers" wait_until 20 watchers 3 21
for i in {0..20}; do
    wait_until 10 lines "$i" 1
done
before=$(counter 3 watch_looked)
for i in {1..20}; do
    at 0 put "busy.k$i=$i" "busy.deep.k$i=$i" "other=$i"
done
ok "a thousand keys beside them" env FLUX_URI="$FLUX_URI" "$CLIENT" fill busy 1000
settle 3
wait_until 10 looked 3
is "$(counter 3 watch_looked)" "$before" "an unrelated change is not examined"
at 0 put quiet.k7=now
ok "a change of one of them" wait_until 10 lines 7 2
ok "is seen in its directory" wait_until 10 lines 20 2
looked=$(($(counter 3 watch_looked) - before))
ok "and the others do not look ($looked looks)" [ "$looked" -le 3 ]
is "$(cat watch.8)" "quiet.k8 is not there" "nor hear of it"

# One that goes away, one that is killed, an instance that is reloaded.
kill -KILL "${pids[0]}"
kill -TERM "${pids[1]}"
wait "${pids[0]}" "${pids[1]}" 2>/dev/null
ok "who is gone is forgotten" wait_until 10 watchers 3 19
ok "a reload" env FLUX_URI="$(uri 3)" "$FLUX" module reload kvs
at 0 put quiet.k9=after
ok "and who watches still hears" wait_until 10 grep -q after watch.9
for i in {2..20}; do
    kill "${pids[i]}" 2>/dev/null
    wait "${pids[i]}" 2>/dev/null
done
ok "all are gone" wait_until 10 watchers 3 0
watch 3 0 --timeout=100ms a
exits 1 "a time limit" wait "${pids[0]}"
like "$(tail -n 1 watch.0)" "nothing has changed within the timeout" "with a sentence"
exits 1 "a key that is none" at 3 watch ..
release
is "$status" 0 "the session ends well"
finish
