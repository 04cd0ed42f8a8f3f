#!/usr/bin/env bash
# Namespaces of the key-value store: made, used at every rank, removed; masters at any rank, and
# lost.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_probe
AT=("$PROBE")

# Rank $1 says this ($3) about a key ($2) in namespace a.
says() {
    [ "$(at "$1" -N a get "$2" 2>/dev/null)" = "$3" ]
}
hears() {
    grep -q "$2" "$1"
}

hold 7 --topology=binary

is "$(at 3 list | awk '{ print $1, $3, $4 }')" "primary 0 live" "the primary is there"
ok "make one with its master at a leaf" at 3 create a 5
ok "list it elsewhere" at 6 list
like "$out" "a $(id -u) 5 live" "with owner and rank"
fails "no second one of that name" at 1 create a 2
like "$err" "^EEXIST: .{10}" "with a sentence"
fails "none of a bad name" at 1 call kvs.namespace-create '{"namespace":"a/b","owner":1,"rank":0}'
like "$err" "^EINVAL: .{10}" "with a sentence"
fails "none at a rank that does not exist" at 1 call kvs.namespace-create '{"namespace":"z","owner":1,"rank":99}'
like "$err" "^EHOSTUNREACH: .{10}" "with a sentence"

# Used at every rank.  The session's own notes are in the primary by then, and change it no more.
ok "the inventory is kept" wait_until 10 at 0 get resource.inventory
before=$(at 0 version)
for rank in 0 1 2 3 4 5 6; do
    is "$(at "$rank" -N a put "r$rank" "$rank")" "$((rank + 1))" "commit at rank $rank: the next version"
    is "$(at "$rank" -N a get "r$rank")" "$rank" "and read it back"
done
for rank in 0 1 2 3 4 5 6; do
    ok "rank $rank comes to the last version" at "$rank" -N a wait 7 20
    is "$(at "$rank" -N a get r0)$(at "$rank" -N a get r6)" 06 "and reads what others wrote"
done
fails "the primary has none of it" at 5 get r5
like "$err" "^ENOENT" "at the other's master"
is "$(at 0 version)" "$before" "and is at the version it had"

# A fence through the instances on the way.
pids=()
for rank in 0 1 2 3 4 6; do
    at "$rank" -N a fence f 6 1 >"fence.$rank" &
    pids+=($!)
done
ok "a fence" wait "${pids[@]}"
is "$(cat fence.* | sort -u)" ok "is over for all"

# Watching from the other end of the tree.
FLUX_URI=$(uri 4) "$PROBE" -N a watch w 0 3 >watch.4 &
watcher=$!
ok "a watcher" wait_until 10 hears watch.4 absent
at 6 -N a put w one >/dev/null
ok "hears of it" wait_until 10 hears watch.4 one
at 5 -N a put w two >/dev/null
ok "and again" wait "$watcher"
is "$(cat watch.4)" "absent
value 3 one
value 3 two" "in order"

# Commits there do not touch the session's root.
before=$(counter 0 root_changes)
for i in {1..20}; do
    at 5 -N a put busy "$i" >/dev/null
done
is "$(counter 0 root_changes)" "$before" "no root change at rank 0"

# Two namespaces do not know each other's keys.
ok "another" at 0 create b 0
at 0 -N b put r0 other >/dev/null
is "$(at 4 -N b get r0)$(at 4 -N a get r0)" other0 "each has its own"

# Removal: who waits, who watches, who comes later.
at 4 -N a watch r0 0 2 >watch.gone 2>err.gone &
watcher=$!
known=$(at 3 stat senders)
at 3 -N a wait 1000 60 >/dev/null 2>err.wait &
waiter=$!
at 6 -N a fence never 2 1 >fence.gone &
fencer=$!
wait_until 10 hears watch.gone value
# A client that waits is known by its claim.
waits() { # RANK KNOWN
    [ "$(at "$1" stat senders)" -gt "$2" ]
}
fence_is_open() {
    [ "$(at 6 -N a stat fences_open)" = 1 ]
}
wait_until 10 waits 3 "$known"
wait_until 10 fence_is_open
ok "remove it" at 2 remove a
exits 1 "a watcher" wait "$watcher"
like "$(cat err.gone)" "^ENOENT: .*was removed" "is told"
exits 1 "who waits for a version" wait "$waiter"
like "$(cat err.wait)" "^ENOENT: .{10}" "is told"
ok "a participant of a fence" wait "$fencer"
like "$(cat fence.gone)" "^(ENOENT|ECONNABORTED): .{10}" "is told"
for rank in 0 4 5; do
    fails "it is gone at rank $rank" at "$rank" -N a get r0
    like "$err" "^ENOENT: .*namespace" "with a sentence"
    fails "and cannot be written" at "$rank" -N a put r0 1
    like "$err" "^ENOENT: .*namespace" "with a sentence"
done
fails "nor be removed again" at 2 remove a
like "$err" "^ENOENT" "with a sentence"
fails "the primary stays" at 2 remove primary
like "$err" "^EPERM: .{10}" "with a sentence"

# Its name again, elsewhere.
ok "make it anew at another rank" at 1 create a 2
is "$(at 4 -N a version)" 0 "it begins at the beginning"
fails "and is empty" at 4 -N a get r0
ok "and usable" at 4 -N a put r0 new
ok "everywhere" wait_until 10 says 5 r0 new
at 4 remove a

# Many, made and removed: memory comes back (objects in all namespaces).
for i in {1..40}; do
    at $((i % 7)) create "many$i" $(((i * 3) % 7)) || note "$i"
    at $(((i + 3) % 7)) -N "many$i" put k "$i" >/dev/null || note "put $i"
done
is "$(at 0 list | grep -c many)" 40 "forty namespaces"
for i in {1..40}; do
    at $((i % 5)) remove "many$i" || note "remove $i"
done
is "$(at 0 list | grep -c many)" 0 "are removed"
only_two_at() {
    [ "$(counter "$1" namespaces_known)" -le 2 ]
}
ok "and forgotten at rank 4" wait_until 10 only_two_at 4

# A thousand come and go, made at one rank, mastered at another: memory comes back.
rss() {
    local pid
    pid=$("$FLUX" getattr -r "$1" broker.pid)
    awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"
}
ok "a hundred come and go" at 6 churn 100 5
before=$(rss 5)
root=$(rss 0)
ok "a thousand" at 6 churn 1000 5
after=$(rss 5)
note "rank 5: $before KiB before, $after KiB after; rank 0: $root, $(rss 0)"
if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
    skip 2 "a sanitizer's allocator keeps what was freed"
else
    ok "their master is as large as before" test $((after - before)) -le 2048
    ok "and the root" test $(($(rss 0) - root)) -le 2048
fi
ok "and who used them knows few" wait_until 10 only_two_at 6

# Instances that are reloaded: one on the way, that of the master, that of the directory.
flux_at() {
    local rank=$1
    shift
    FLUX_URI=$(uri "$rank") "$FLUX" "$@"
}
ok "two more" at 0 create d 4
ok "of them" at 0 create e 5
at 6 -N d put k v >/dev/null
at 6 -N e put k v >/dev/null
FLUX_URI=$(uri 6) "$PROBE" -N e watch k 0 2 >watch.reload 2>&1 &
watcher=$!
ok "a watcher" wait_until 10 hears watch.reload "value 1 v"
ok "reload an instance on the way" flux_at 2 module reload kvs
at 3 -N e put k w >/dev/null
ok "the watcher goes on" wait "$watcher"
is "$(tail -n 1 watch.reload)" "value 1 w" "and hears"
fails "a master does not lose what it has" flux_at 4 module reload kvs
like "$err" "store" "with a sentence"
ok "unless it is forced" flux_at 4 module reload --force kvs
gone() {
    at 0 list | finds "^d [0-9]* 4 lost"
}
ok "then it is listed as lost" wait_until 10 gone
fails "and cannot be used" at 6 -N d get k
like "$err" "^EHOSTUNREACH: .{10}" "with a sentence"
ok "remove it" at 6 remove d
ok "reload the directory" flux_at 0 module reload --force kvs
again() {
    at 3 list | finds "^e [0-9]* 5 live"
}
ok "it learns of the others" wait_until 10 again
is "$(at 1 -N e get k)" w "which are as they were"
ok "remove it, too" at 1 remove e
at 0 put after 1 >/dev/null

# Loss of a rank with a master; ranks 3 and 4 are leaves.
ok "one at rank 3" at 0 create c 3
at 4 -N c put k v >/dev/null
at 4 -N c watch k 0 2 >watch.lost 2>err.lost &
watcher=$!
wait_until 10 hears watch.lost value
known=$(at 4 stat senders)
at 4 -N c wait 1000 60 >/dev/null 2>err.waits &
waiter=$!
wait_until 10 waits 4 "$known"
kill -KILL "$("$FLUX" getattr -r 3 broker.pid)"
lost() {
    at 0 list | finds "^c [0-9]* 3 lost"
}
exits 1 "a watcher of what was at a rank that is lost" wait "$watcher"
like "$(cat err.lost)" "^EHOSTUNREACH: .{10}" "is told"
exits 1 "who waits for a version" wait "$waiter"
like "$(cat err.waits)" "^EHOSTUNREACH: .{10}" "is told"
ok "it is listed as lost" wait_until 20 lost
for rank in 0 4 6; do
    fails "and cannot be used at rank $rank" at "$rank" -N c get k
    like "$err" "^EHOSTUNREACH: .{10}" "with a sentence"
done
fails "nor made again before it is removed" at 4 create c 2
ok "remove it" at 6 remove c
ok "make it elsewhere" at 6 create c 4
ok "and use it" at 6 -N c put k w
is "$(at 0 -N c get k)" w "from another rank"
release
finish
