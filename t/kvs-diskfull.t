#!/usr/bin/env bash
# A store on a disk that is full: commits fail with a sentence, nothing that was acknowledged is
# lost, and all goes on when there is room. What is mounted is seen by this test alone, and gone
# with it.
if [ -z "${KVS_DISKFULL_NAMESPACE-}" ] && unshare -m true 2>/dev/null; then
    KVS_DISKFULL_NAMESPACE=1 exec unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
need_flux start kvs
need setsid

mkdir small
mount -t tmpfs -o size=12m tmpfs small 2>/dev/null || skip_all "no file system can be mounted here"
fsck=$BUILDDIR/src/modules/flux-kvs-fsck
# put PREFIX: keys until one fails; the number of those that did not is left in $n
put() {
    n=0
    while [ $n -lt 300 ] && "$FLUX" kvs put "$1.$n=$n.$value" 2>refused; do
        n=$((n + 1))
    done
}
# all_there PREFIX N: the first N keys of PREFIX are, and no other
all_there() {
    "$FLUX" kvs dir "$1" | sort >listing || return 1
    for ((i = 0; i < $2; i++)); do
        echo "$1.$i = $i.$value"
    done | sort | cmp - listing
}
head -c 2000000 /dev/urandom >big
value=$(head -c 9000 /dev/zero | tr '\0' v)
try() {
    local what=$1
    shift
    hold 2 --set=modules=kvs --statedir="$TEST_DIR/small/state" "$@"
    ok "$what: there is room" "$FLUX" kvs put "$what.first=1"
    ok "$what: the disk is full" fill_disk small 300
    put "$what.more"
    like "$(cat refused)" 'no room on the disk' "$what: a commit that does not fit says so"
    was=$n
    ok "$what: others did fit" test "$was" -gt 0
    version=$("$FLUX" kvs version)
    fails "$what: and again" sh -c "'$FLUX' kvs put --raw $what.no=- <big"
    is "$("$FLUX" kvs version)" "$version" "$what: what fails makes no version"
    is "$("$FLUX" kvs get "$what.first")" 1 "$what: reading works"
    fails "$what: what failed is not there" "$FLUX" kvs get "$what.no"
    rm small/filler
    # With kvs.sync=interval this is noticed when it is tried again.
    ok "$what: there is room again" wait_until 20 "$FLUX" kvs put "$what.after=2"
    is "$("$FLUX" kvs get "$what.after")" 2 "$what: commits work"
    ok "$what: all that was acknowledged is there" all_there "$what.more" "$was"
    release
    is "$status" 0 "$what: the session ends well"
    ok "$what: the file is sound" "$fsck" small/state
    hold 2 --set=modules=kvs --statedir="$TEST_DIR/small/state"
    ok "$what: and all is there after a restart" all_there "$what.more" "$was"
    is "$("$FLUX" kvs get "$what.after")" 2 "$what: what came later too"
    release
    rm -r small/state
}
try commit
try checkpoints --set=kvs.checkpoint-bytes=100k --set=kvs.checkpoint-interval=50ms
try interval --set=kvs.sync=interval --set=kvs.sync-interval=100ms

# Killed while the disk is full.
export -f fill_disk put
export FLUX value
# shellcheck disable=SC2016 # to be expanded inside the session
setsid "$FLUX" start --set=modules=kvs --statedir="$TEST_DIR/small/state" \
    --set=kvs.checkpoint-bytes=100k bash -c '"$FLUX" kvs put x.first=1; fill_disk small 300; put x.more
        echo "$n" >n.tmp; mv n.tmp n; exec sleep 60' >out 2>err </dev/null &
sid=$!
disown $sid
ok "commits on a disk that becomes full" wait_until 60 test -s n
kill_setsid $sid
rm -rf "$TMPDIR"/flux-*
like "$(cat refused)" 'no room on the disk' "are refused at last"
ok "what a session leaves that is killed then is sound" "$fsck" small/state
rm small/filler
hold 1 --set=modules=kvs --statedir="$TEST_DIR/small/state"
ok "all that was acknowledged is there" all_there x.more "$(cat n)"
release

# A file system that can only be read.
hold 1 --statedir="$TEST_DIR/small/state"
fill_disk small 0
fails "on a full disk a job is not accepted" "$FLUX" submit touch "$TEST_DIR/ran"
like "$err" 'not accepted, since the store refused it: no room on the disk' "... which is said"
ok "... nothing runs" test ! -e ran
unlike "$("$FLUX" dmesg)" 'job [0-9]+ [^ ]* was started' "... and the log does not tell of a start"
release
rm small/filler
mount -o remount,ro small
for where in state none; do
    fails "no session on a disk that can only be read ($where)" \
        "$FLUX" start --statedir="$TEST_DIR/small/$where" true
done
like "$err" 'Read-only file system' "... which is said of what is to be made"
run "$FLUX" start --statedir="$TEST_DIR/small/state" true
like "$err" "small/state/content.sqlite' can only be read" "... and of what is there"
umount -l small
finish
