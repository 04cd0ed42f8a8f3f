#!/usr/bin/env bash
# A store that outlives its session: after an orderly end and after SIGKILL, with each hash,
# reloaded, and what is said when it cannot come back.
. "$(dirname "$0")/lib.sh"
need_flux start kvs module
need setsid

state=$TEST_DIR/state
client=$BUILDDIR/t/kvs/kvs_client
durable=$BUILDDIR/t/kvs/kvs_durable
fsck=$BUILDDIR/src/modules/flux-kvs-fsck
with=("--set=modules=kvs,wrexec" --statedir="$state")

# killed OPTION... -- COMMAND: a session that is killed when COMMAND is over
killed() {
    local opts=() sid
    while [ "$1" != -- ]; do
        opts+=("$1")
        shift
    done
    shift
    rm -f over
    # shellcheck disable=SC2016 # to be expanded inside the session
    setsid "$FLUX" start --size=1 --set=modules=kvs --statedir="$state" "${opts[@]}" sh -c \
        '"$@" && : >"$0/over"; exec sleep 60' "$TEST_DIR" "$@" >out 2>err </dev/null &
    sid=$!
    disown $sid
    wait_until 30 test -e over
    local status=$?
    kill_setsid $sid
    rm -rf "$TMPDIR"/flux-*
    return $status
}
fresh() {
    rm -rf "$state"
}

# --- an orderly end ------------------------------------------------------------------------------

head -c 300000 /dev/urandom >chunked
head -c 5000 /dev/urandom | od -An -tx1 | tr -d ' \n' >large
cat >fill.sh <<'EOF'
set -e
flux=$1
"$flux" kvs put a.small=1 a.b.c=two "a.large=$(cat large)" empty=
"$flux" kvs put --raw a.chunked=- <chunked
"$flux" kvs put --append log=one
"$flux" kvs put --append log=,two
"$flux" kvs mkdir a.dir
"$flux" kvs link a.small a.link
"$flux" kvs copy a copied
"$flux" kvs put gone=1
"$flux" kvs unlink gone
EOF
cat >look.sh <<'EOF'
flux=$1
"$flux" kvs get a.small a.b.c log a.link copied.b.c
"$flux" kvs readlink a.link
"$flux" kvs ls a
"$flux" kvs get a.large | cksum
"$flux" kvs get --raw a.chunked | cksum
"$flux" kvs get --raw copied.chunked | cksum
"$flux" kvs get empty | wc -c
"$flux" kvs version
"$flux" kvs get gone 2>&1
"$flux" kvs ls
EOF
ok "a session that keeps its store" session 1 "${with[@]}" -- sh -e -c "sh -e fill.sh '$FLUX'; sh look.sh '$FLUX' >before"
is "$(tail -n +10 before | head -2 | sort -u | wc -l)" 2 "values of different kinds are in it"
is "$(stat -c %a "$state/content.sqlite")" 600 "nobody else can read the file"
is "$(ls "$state")" content.sqlite "an orderly end leaves one file"
ok "and it is sound" "$fsck" -v "$state"
like "$out" ", 0 rows.*sound" "with nothing to be replayed"
ok "it comes back" session 1 "${with[@]}" -- sh -c "sh look.sh '$FLUX' >after"
is "$(diff before after)" "" "with everything in it, at the same version"
ok "in a session of three" session 3 "${with[@]}" -- "$FLUX" exec -r 2 sh -c "cd $TEST_DIR && sh look.sh '$FLUX' >after"
is "$(diff before after)" "" "seen from a leaf"

# --- SIGKILL --------------------------------------------------------------------------------------

fresh
ok "a session that is killed" killed -- sh -c "sh fill.sh '$FLUX' && sh look.sh '$FLUX' >before"
ok "leaves a sound file" "$fsck" "$state"
unlike "$out" ", 0 rows" "with rows to be replayed"
ok "and it comes back" session 1 "${with[@]}" -- sh -c "sh look.sh '$FLUX' >after"
is "$(diff before after)" "" "with everything in it"
fresh
ok "killed while checkpoints are made all the time" killed --set=kvs.checkpoint-bytes=1 -- \
    sh -c "sh fill.sh '$FLUX' && sh look.sh '$FLUX' >before"
ok "it comes back" session 1 "${with[@]}" -- sh -c "sh look.sh '$FLUX' >after"
is "$(diff before after)" "" "with everything in it"
for hash in sha1 blake2b; do
    fresh
    ok "$hash: killed" killed --set=content.hash=$hash -- sh -c "sh fill.sh '$FLUX' && sh look.sh '$FLUX' >before"
    ok "$hash: sound" "$fsck" "$state"
    like "$out" sound "$hash: says so"
    ok "$hash: comes back" session 1 "${with[@]}" --set=content.hash=$hash -- sh -c "sh look.sh '$FLUX' >after"
    is "$(diff before after)" "" "$hash: with everything in it"
done
fails "another hash is refused" session 1 "${with[@]}" -- true
like "$err" 'content.hash=blake2b' "and what to do is said"

# Namespaces, values of all kinds, uploads; see kvs_durable.c.
fresh
mkdir record
ok "clients with namespaces" session 1 "${with[@]}" -- "$durable" run "$TEST_DIR/record" 1 4 200
ok "find all again" session 1 "${with[@]}" -- "$durable" check "$TEST_DIR/record" 1 4
ok "and when they do not wait for each other" killed -- "$durable" run "$TEST_DIR/record" 1 4 200
ok "also after a kill" session 2 "${with[@]}" -- "$durable" check "$TEST_DIR/record" 1 4

# What was removed does not come back, however soon the end is.
fresh
ok "a namespace is removed" killed -- sh -e -c "'$FLUX' kvs namespace create gone
    '$FLUX' kvs put -N gone k=v
    '$FLUX' kvs namespace remove gone"
fails "and stays so after a kill" session 1 "${with[@]}" -- "$FLUX" kvs get -N gone k
like "$err" "no namespace 'gone'" "as is said"

# --- large values ------------------------------------------------------------------------------

# They leave memory when they are on disk, and are read again: by look-ups, by other ranks, by an
# append.
fresh
stat_of() {
    "$FLUX" kvs stats --json | tr -d '" ' | tr ',{}' '\n' | sed -n "s/^$1://p"
}
small_enough() {
    [ "$(stat_of bytes)" -lt 6000000 ]
}
hold 2 "${with[@]}" --set=content.cache-limit=1M --set=kvs.checkpoint-interval=50ms
for i in 1 2 3 4 5 6 7 8; do
    head -c 3000000 /dev/urandom >"v$i"
    "$FLUX" kvs put --raw "v$i=-" <"v$i"
done
ok "large values leave memory" wait_until 20 small_enough
bad=0
for i in 1 2 3 4 5 6 7 8; do
    "$FLUX" kvs get --raw "v$i" | cmp - "v$i" || bad=1
    "$FLUX" exec -r 1 "$FLUX" kvs get --raw "v$i" | cmp - "v$i" || bad=1
done
is $bad 0 "and are read again"
"$FLUX" kvs dropcache >/dev/null
ok "what is on disk only is appended to" "$FLUX" kvs put --append v1=more
printf more >>v1
ok "and is right" sh -c "'$FLUX' kvs get --raw v1 | cmp - v1"
"$FLUX" kvs put --append v2=more --append v3=more
printf more >>v2
release
ok "an append is replayed" killed -- sh -c "'$FLUX' kvs dropcache >dropped && '$FLUX' kvs put --append v2=again"
printf again >>v2
ok "on what is on disk only" session 1 "${with[@]}" -- sh -c "'$FLUX' kvs get --raw v2 | cmp - v2"
ok "and all is sound" "$fsck" "$state"

# --- a deletion that takes longer than the time between checkpoints ------------------------------

fresh
all_written() {
    [ "$(stat_of journal_bytes)" = 0 ] && [ "$(stat_of dirty_bytes)" = 0 ]
}
hold 1 "${with[@]}" --set=kvs.checkpoint-interval=1ms
seq 1 20000 | sed 's/.*/many.k&=v&/' | xargs -n 10000 "$FLUX" kvs put
ok "many keys are written" wait_until 20 all_written
"$FLUX" kvs unlink -R many
for i in {1..30}; do
    "$FLUX" kvs put "beside=$i"
done
ok "what changes while they are deleted is written, too" wait_until 20 all_written
release

# --- in the session -----------------------------------------------------------------------------

fresh
hold 2 "${with[@]}"
"$FLUX" kvs put before=1
ok "a namespace elsewhere" "$FLUX" kvs namespace create --rank=1 elsewhere
"$FLUX" kvs put -N elsewhere key=here
ok "the master can be reloaded: nothing is lost" "$FLUX" module reload kvs
is "$("$FLUX" kvs get before)" 1 "it is there"
ok "what has its master elsewhere is found again" wait_until 10 "$FLUX" kvs get -N elsewhere key
is "$("$FLUX" kvs get -N elsewhere key)" here "as it was"
"$FLUX" kvs put after=2
is "$("$FLUX" exec -r 1 "$FLUX" kvs get after)" 2 "and the other rank sees what comes after"
fails "a second session cannot have it" session 1 "${with[@]}" -- true
like "$err" 'in use by another session' "and says why"
fails "nor can it be checked now" "$fsck" "$state"
like "$err" 'in use' "and that is said"
ok "the first one goes on" "$FLUX" kvs put more=3
release
is "$status" 0 "and ends well"
# shellcheck disable=SC2016 # to be expanded inside the session
session 1 --set=modules=kvs -- sh -c 'grep -c sqlite /proc/$PPID/maps' >maps 2>&1
is "$(cat maps)" 0 "a session that keeps nothing does not even load SQLite"

# --- kvs.sync=interval --------------------------------------------------------------------------

fresh
ok "an orderly end" session 1 "${with[@]}" --set=kvs.sync=interval --set=kvs.sync-interval=60 -- \
    "$FLUX" kvs put a=1
is "$(session 1 "${with[@]}" -- "$FLUX" kvs get a)" 1 "loses nothing"
ok "a kill within the interval" killed --set=kvs.sync=interval --set=kvs.sync-interval=60 \
    --set=kvs.checkpoint-interval=60 -- "$FLUX" kvs put b=1
fails "loses what was not written yet" session 1 "${with[@]}" -- "$FLUX" kvs get b
# What it finds was written by another commit, which does not wait for the disk.
# shellcheck disable=SC2016 # for the inner shell
ok "a kill after a durable commit that changes nothing" killed --set=kvs.sync=interval \
    --set=kvs.sync-interval=60 --set=kvs.checkpoint-interval=60 -- sh -c '"$1" kvs put d=1 && "$2" sync' \
    sh "$FLUX" "$client"
is "$(session 1 "${with[@]}" -- "$FLUX" kvs get d)" 1 "loses nothing"
is "$(session 1 "${with[@]}" -- "$FLUX" kvs get a)" 1 "and nothing else"
# The second sync that ends from now on began after the put; each needs something to write.
cat >put.sh <<'END'
syncs() {
    "$1" kvs stats | sed -n 's/.*"disk_syncs": *\([0-9]*\).*/\1/p'
}
"$1" kvs put b=1 || exit 1
enough=$(($(syncs "$1") + 2)) n=0
until [ "$(syncs "$1")" -ge "$enough" ]; do
    n=$((n + 1))
    "$1" kvs put "c=$n" || exit 1
done
END
ok "a kill after the interval" killed --set=kvs.sync=interval --set=kvs.sync-interval=50ms -- \
    sh put.sh "$FLUX"
is "$(session 1 "${with[@]}" -- "$FLUX" kvs get b)" 1 "loses nothing"
fails "another value" session 1 "${with[@]}" --set=kvs.sync=sometimes -- true
like "$err" 'kvs.sync.*sometimes' "is refused"

# --- garbage --------------------------------------------------------------------------------------

# The end does not wait until what was unlinked is deleted on disk: a later session does that.  A
# checkpoint, which the put of a second value causes, lets the first one be collected; only the next
# checkpoint would delete it.
fresh
objects() {
    "$fsck" "$state" | sed -n 's/.* \([0-9]*\) objects .*: sound$/\1/p'
}
head -c 20000000 /dev/urandom >first
head -c 200000 /dev/urandom >second
cat >collect.sh <<'END'
"$1" kvs unlink first && "$1" kvs put --raw second=- <second || exit 1
until [ "$("$1" kvs stats | sed -n 's/.*"collected": *\([0-9]*\).*/\1/p')" -gt 600 ]; do
    "$1" kvs put more=x || exit 1
done
END
cat >clean.sh <<'END'
"$1" kvs put more=y || exit 1
until [ "$("$1" kvs stats | sed -n 's/.*"disk_bytes": *\([0-9]*\).*/\1/p')" -lt 10000000 ]; do
    sleep 0.1
done
END
ok "a large value" session 1 "${with[@]}" --set=kvs.checkpoint-interval=1d -- \
    sh -c "'$FLUX' kvs put --raw first=- <first"
ok "is unlinked and collected" session 1 "${with[@]}" --set=kvs.checkpoint-interval=1d \
    --set=kvs.checkpoint-bytes=100K -- sh collect.sh "$FLUX"
ok "the end leaves it on disk, in a sound file" [ "$(objects)" -gt 600 ]
ok "the next session deletes it" timeout 60 "$FLUX" start --size=1 "${with[@]}" \
    --set=kvs.checkpoint-interval=50ms sh clean.sh "$FLUX"
ok "and its end leaves a sound file without it" [ "$(objects)" -lt 100 ]
is "$(session 1 "${with[@]}" -- sh -c "'$FLUX' kvs get --raw second" | cksum)" "$(cksum <second)" \
    "what was not unlinked is there"

# --- damage ---------------------------------------------------------------------------------------

fresh
ok "a large store" session 1 "${with[@]}" -- "$client" fill dir 20000
for at in 20 60 100 140; do
    printf 'damage' | dd of="$state/content.sqlite" bs=1 seek=$((at * 4096 + 1000)) conv=notrunc 2>/dev/null
done
fails "is not served when it is damaged" session 1 "${with[@]}" -- true
like "$err" 'damaged|missing' "and that is said"
exits 1 "flux-kvs-fsck finds it" "$fsck" "$state"
like "$out" '[0-9]+ problem' "and sums up"
printf 'this is something else, a text\n' >"$state/content.sqlite"
fails "a file that is not a store is not touched" session 1 "${with[@]}" -- true
like "$err" 'no store' "and that is said"
is "$(wc -c <"$state/content.sqlite")" 31 "indeed"
# What is left of a session that is killed as it makes its store.
: >"$state/content.sqlite"
ok "an empty file is sound" "$fsck" -v "$state"
like "$out" 'is empty.*sound' "and empty"
ok "a store is made in it" session 1 "${with[@]}" -- "$FLUX" kvs put a=1
ok "which is sound" "$fsck" "$state"
fails "a directory that cannot be made" session 1 --set=modules=kvs --statedir=/dev/null/x -- true
like "$err" '/dev/null/x' "is named"
finish
