#!/usr/bin/env bash
# Snapshots, reads in ranges and pages, tags and guards, values that are uploaded in chunks.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_client kvs_probe
AT=("$PROBE")

hears() {
    grep -q "$2" "$1"
}
snapshots() {
    [ "$(at "$1" stat snapshots)" = "$2" ]
}

hold 4 --topology=chain
ok "a namespace at the other end" at 0 create far 2

# In both namespaces, from every rank: a root is kept while the store goes on.
for ns in primary far; do
    at 0 -N $ns put k "old of $ns" >/dev/null
    v=$(at 0 -N $ns put big.k first)
    pids=()
    rm -f snap.*
    for rank in 0 1 2 3; do
        at "$rank" -N $ns wait "$v" 10 >/dev/null
        FLUX_URI=$(uri "$rank") "$PROBE" -N $ns snapshot 4 k >"snap.$rank" 2>&1 &
        pids+=($!)
    done
    for rank in 0 1 2 3; do
        ok "$ns: a snapshot from rank $rank" wait_until 10 hears "snap.$rank" sha256
    done
    at 1 -N $ns put k "new of $ns" >/dev/null
    FLUX_URI=$(uri 0) "$CLIENT" overwrite busy 300
    for i in {1..30}; do
        at 1 -N $ns put "k$i" "$i" >/dev/null
    done
    for rank in 0 1 2 3; do
        at "$rank" call kvs.dropcache >/dev/null
    done
    for rank in 0 1 2 3; do
        ok "$ns: at rank $rank it lasts" wait "${pids[rank]}"
        is "$(tail -n 1 "snap.$rank")" "old of $ns" "and shows what was"
    done
    is "$(at 3 -N $ns get k)" "new of $ns" "while now is now"
done
ok "snapshots end with who held them" wait_until 10 snapshots 0 0
ok "at the other master, too" wait_until 10 snapshots 2 0

# One that is killed, a rank that is lost: nothing is held any more.
FLUX_URI=$(uri 1) "$PROBE" snapshot 60 k >snap.killed 2>&1 &
killed=$!
ok "one more" wait_until 10 hears snap.killed sha256
ok "is held" wait_until 10 snapshots 0 1
kill -KILL $killed
wait $killed 2>/dev/null
ok "until its client dies" wait_until 10 snapshots 0 0
FLUX_URI=$(uri 3) "$PROBE" snapshot 60 k >snap.lost 2>&1 &
lost=$!
ok "one of rank 3" wait_until 10 hears snap.lost sha256
kill -KILL "$("$FLUX" getattr -r 3 broker.pid)"
wait $lost 2>/dev/null
ok "ends with its broker" wait_until 20 snapshots 0 0
fails "a root that never was" at 1 get k "sha256-$(printf '0%.0s' {1..64})"
like "$err" "^ENOENT: .{10}" "with a sentence"

# Ranges.
at 1 put text 0123456789 >/dev/null
is "$(at 0 range text 2 3)" 234 "a range"
is "$(at 1 range text 8 100)" 89 "one that ends with the value"
is "$(at 1 range text 10 1)" "" "one at its end"
is "$(at 1 range text 1000000 1)" "" "and behind it"
ok "upload a value of 20 MiB" at 2 upload large 20 7
fails "it does not come in one answer" at 1 get large
like "$err" "^EFBIG: .*ranges" "with a sentence"
is "$(at 1 range large 1048570 4 | wc -c)$(at 0 range large 20971519 100 | wc -c)" 52 "but in parts"
ok "upload one of 3 MiB" at 1 upload three 3 7
ok "the same from elsewhere" at 0 upload again 3 7
is "$(at 1 tag three)" "$(at 0 tag again)" "it is the same value"
ok "and another" at 1 upload other 3 8
ok "which is not" [ "$(at 1 tag three)" != "$(at 0 tag other)" ]
ok "upload to a master elsewhere" at 1 -N far upload v 2 3
is "$(at 0 -N far range v 2097151 9 | wc -c)" 2 "and read it"
is "$(at 1 upload-only 100000)" 4 "pieces that nobody names"
fails "a piece too long" at 1 upload-only 1048577

# Tags and guards.
at 0 put g 1 >/dev/null
tag=$(at 1 tag g)
like "$tag" "^value-[0-9a-f]+$" "the tag of a value"
like "$(at 1 tag big)" "^dir-[0-9a-f]+$" "and of a directory"
ok "a commit that is guarded by it" at 1 guard g "$tag" g 2
fails "but not again" at 1 guard g "$tag" g 3
like "$err" "^EAGAIN: .*g" "with a sentence that names the key"
is "$(at 1 get g)" 2 "nothing was changed"
ok "guarded by absence" at 0 guard h - h 1
fails "once" at 0 guard h - h 2

# Pages.
ok "a directory of 3000" "$CLIENT" fill dir 3000
is "$(at 1 pages dir 100)" "3000 30" "is listed in pages"
is "$(at 0 pages dir 7)" "3000 429" "of any size"
is "$(at 2 page big 10)" "k
end" "one is the last"
is "$(at 1 page dir 2 | tail -n 1)" more "one is not"
release
finish
