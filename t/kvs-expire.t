#!/usr/bin/env bash
# What is cached and nobody uses is dropped after a while; one bound for all namespaces; kvs.gc.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_client kvs_probe
AT=("$PROBE")

cached() {
    [ "$(at "$1" stat cached_objects)" -le "$2" ]
}
field() {
    sed -n "s/.*\"$1\": *\\([0-9]*\\).*/\\1/p"
}

hold 3 --topology=chain --set=content.expire=3s --set=content.cache-limit=1m

# Expiry at an instance that is not the master, and of garbage at the master.
ok "a directory" "$CLIENT" fill dir 2000
is "$(at 2 pages dir 100)" "2000 20" "is read at rank 2"
ok "which caches it" test "$(at 2 stat cached_objects)" -gt 50
# Used several times in the time after which the rest expires.
keeps_used() {
    at 2 -N primary get dir.k7 >/dev/null
    cached 2 12
}
ok "after a while it keeps what was used" wait_until 30 keeps_used
is "$(at 2 get dir.k7)" v7 "which is right"
ok "and counts the rest" test "$(at 2 stat expired)" -gt 40
is "$(at 2 pages dir 100)" "2000 20" "what is gone comes again"
at 0 put a 1 >/dev/null
FLUX_URI=$(uri 0) "$CLIENT" overwrite a 500
ok "garbage of the master expires" wait_until 20 cached 0 3

# kvs.gc, at any rank, in any namespace.
ok "a namespace at the end" at 0 create far 2
FLUX_URI=$(uri 0) "$CLIENT" overwrite b 500
ok "collect all garbage" at 1 call kvs.gc '{"namespace":"primary"}'
ok "it says how much" test "$(printf '%s' "$out" | field collected)" -ge 0
is "$(at 0 stat cached_objects)" 0 "nothing is cached at the master now"
for i in 1 2 3; do
    at 1 -N far put k "$(head -c 4000 /dev/zero | tr '\0' "$i")" >/dev/null
done
ok "of a namespace elsewhere" at 0 call kvs.gc '{"namespace":"far"}'
is "$(at 1 -N far get k | head -c 3)" 333 "what is there stays"
fails "of none" at 0 call kvs.gc '{"namespace":"none"}'
like "$err" "^ENOENT: .{10}" "with a sentence"

# What a snapshot holds is not collected; what waits for it does not stop anybody.
at 0 put k held >/dev/null
FLUX_URI=$(uri 2) "$PROBE" snapshot 4 k >snap 2>&1 &
holder=$!
ok "a snapshot" wait_until 10 grep -q sha256 snap
at 0 put k new >/dev/null
at 0 call kvs.gc >/dev/null
at 1 call kvs.dropcache >/dev/null
at 2 call kvs.dropcache >/dev/null
ok "outlives a collection" wait "$holder"
is "$(tail -n 1 snap)" held "with its contents"

release
is "$status" 0 "the session ends well"

# One bound for all.
hold 3 --topology=chain --set=content.cache-limit=1m
at 0 put a 1 >/dev/null
for i in 1 2 3 4 5 6; do
    at 0 create "n$i" 0
    at 0 -N "n$i" upload v 1 "$i" >/dev/null
    at 2 -N "n$i" range v 0 1048576 >/dev/null
done
within() {
    local n
    n=$(at "$1" stat cached_in_all)
    [ "$n" -le 1300000 ] && [ "$n" -ge 100000 ]
}
at 2 get a >/dev/null
ok "six namespaces together use the bound and keep it" wait_until 10 within 2
release
is "$status" 0 "the session ends well"
finish
