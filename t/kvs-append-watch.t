#!/usr/bin/env bash
# Watchers that are told what is new only: what was appended to a value, what changed below a
# directory; and a thousand watchers beside a busy key.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs
need_programs kvs_client kvs_probe
AT=("$PROBE")

watch() {
    local rank=$1 out=$2
    shift 2
    : >"$out"
    FLUX_URI=$(uri "$rank") "$PROBE" "$@" >"$out" 2>"$out.err" &
    pids+=($!)
}
bytes() {
    head -c "$2" /dev/zero | tr '\0' "$1"
}
APPEND=32
DIFF=64

hold 3 --topology=chain
ok "a namespace at the end" at 0 create far 2

for ns in primary far; do
    # A value that grows, from nothing, past 256 bytes, past a chunk.
    pids=()
    for rank in 0 1 2; do
        watch "$rank" "app.$rank" -N $ns watch log $APPEND 9
    done
    for rank in 0 1 2; do
        ok "$ns: rank $rank watches what is not there" wait_until 10 has_lines "app.$rank" 1
    done
    n=1
    step() {
        n=$((n + 1))
        for rank in 0 1 2; do
            wait_until 10 has_lines "app.$rank" $n || note "rank $rank: step $n"
        done
    }
    at 1 -N $ns append log one >/dev/null
    step
    at 0 -N $ns append log two >/dev/null
    step
    at 2 -N $ns append log "$(bytes x 300)" >/dev/null
    step
    at 2 -N $ns append log "$(bytes y 40000)" >/dev/null
    step
    at 0 -N $ns append log "$(bytes z 100000)" >/dev/null
    step
    FLUX_URI=$(uri 0) "$CLIENT" overwrite busy 200
    for rank in 0 1 2; do
        at "$rank" call kvs.dropcache >/dev/null
    done
    at 1 -N $ns append log end >/dev/null
    step
    at 1 -N $ns put log new >/dev/null
    step
    at 1 -N $ns append log er >/dev/null
    step
    for rank in 0 1 2; do
        ok "$ns: rank $rank hears all" wait "${pids[rank]}"
        is "$(cut -c 1-20 "app.$rank")" "absent
whole 3 one
add 3 two
add 300 xxxxxxxxxxxx
add 40000 yyyyyyyyyy
add 100000 zzzzzzzzz
add 3 end
whole 3 new
add 2 er" "only what is new"
    done
    # A directory, at any depth.
    at 0 -N $ns put d.a 1 >/dev/null
    at 0 -N $ns put d.sub.b 1 >/dev/null
    pids=()
    for rank in 0 1 2; do
        watch "$rank" "diff.$rank" -N $ns watch d $DIFF 7
    done
    for rank in 0 1 2; do
        ok "$ns: rank $rank watches a directory" wait_until 10 has_lines "diff.$rank" 1
    done
    n=1
    step() {
        n=$((n + 1))
        for rank in 0 1 2; do
            wait_until 10 has_lines "diff.$rank" $n || note "rank $rank: step $n"
        done
    }
    at 1 -N $ns put d.sub.deep.c 1 >/dev/null
    step
    at 1 -N $ns put d.a 2 >/dev/null
    step
    FLUX_URI=$(uri 0) "$CLIENT" overwrite busy 200
    for rank in 0 1 2; do
        at "$rank" call kvs.dropcache >/dev/null
    done
    at 1 -N $ns unlink d.a >/dev/null
    step
    at 1 -N $ns unlink d >/dev/null
    step
    at 1 -N $ns put d.back 1 >/dev/null
    step
    at 1 -N $ns put d.back 2 >/dev/null
    step
    for rank in 0 1 2; do
        ok "$ns: rank $rank hears all changes" wait "${pids[rank]}"
        tr ' ' '\n' <"diff.$rank" | sed '/^$/d' >sorted
        is "$(head -n 1 "diff.$rank" | tr ' ' '\n' | sort | tr '\n' ' ')" " +a +sub +sub.b " "all was added"
        is "$(sed -n '2,$p' "diff.$rank" | sed 's/ $//')" "+sub.deep +sub.deep.c
*a
-a
absent
+back
*back" "and then changes"
    done
done
fails "an append-watch of a directory" at 1 watch d $APPEND 1
like "$err" "^EISDIR: .{10}" "with a sentence"
at 1 put v 1 >/dev/null
fails "a diff-watch of a value" at 1 watch v $DIFF 1
like "$err" "^EINVAL: .{10}" "with a sentence"
fails "both at a time" at 1 watch v $((APPEND + DIFF)) 1
none() {
    [ "$(at 0 stat snapshots)" = 0 ] && [ "$(at 2 stat snapshots)" = 0 ]
}
ok "no root is held any more" wait_until 10 none

# A large value comes in pieces.
at 0 upload big 3 5 >/dev/null
ok "a watcher of 3 MiB" at 1 watch big $APPEND 3
is "$(printf '%s\n' "$out" | cut -d ' ' -f 1,2 | tr '\n' ' ')" "whole 1048576 add 1048576 add 1048576 " "is told in pieces"

# A thousand watchers and a hot key that is none of their business.
watch 2 many watchers w 1000
ok "a thousand watchers" wait_until 30 grep -q ready many
before=$(at 2 stat watch_looked)
FLUX_URI=$(uri 0) "$CLIENT" overwrite hot 2000
v=$(at 0 version)
ok "2000 changes beside them" at 2 wait "$v" 20
looked() {
    [ "$(at 2 stat watch_pending)" = 0 ]
}
wait_until 10 looked
is "$(at 2 stat watch_looked)" "$before" "are not examined"
at 0 put w.500 1 >/dev/null
ok "one of theirs" wait_until 10 grep -q again many
is "$(grep -c again many)" 1 "is heard of by one"
kill "${pids[@]}" 2>/dev/null
wait "${pids[@]}" 2>/dev/null
gone() {
    [ "$(at 2 stat watchers)" = 0 ] && [ "$(at 2 stat senders)" -le 2 ]
}
ok "and they leave nothing behind" wait_until 10 gone
release
finish
