#!/usr/bin/env bash
# A full disk: whoever wrote gets a sentence, and the session goes on.
# What is mounted is seen by this test alone, and gone with it.
if [ -z "${FULL_DISK_NAMESPACE-}" ] && unshare -m true 2>/dev/null; then
    FULL_DISK_NAMESPACE=1 exec unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun

mkdir small
mount -t tmpfs -o size=64k tmpfs small 2>/dev/null || skip_all "no file system can be mounted here"
fill() {
    dd if=/dev/zero of=small/filler bs=1k count=1000 2>/dev/null
    [ -s small/filler ]
}

hold 2
ok "the disk is full" fill
# Output of a job.
fails "a job whose output does not fit" "$FLUX" wreckrun -n2 -O "$TEST_DIR/small/out" \
    sh -c 'head -c 200000 /dev/zero'
# shellcheck disable=SC2154 # set by fails
like "$err" 'No space left|small/out' "says what and where"
ok "the next job runs" "$FLUX" wreckrun -n2 true
ok "the store works" "$FLUX" kvs put after=1
is "$("$FLUX" kvs get after)" 1 "and knows what it was told"
# Output of a command.
"$FLUX" kvs put big="$(head -c 5000 /dev/zero | tr '\0' x)"
"$FLUX" kvs get big >small/value 2>err.txt
is $? 1 "a command that cannot write"
like "$(cat err.txt)" 'No space left' "says so"
ok "all ranks are up" "$FLUX" up
release
is "$status" 0 "the session ends well"

# A session that has no room for its sockets' directory.
rm -f small/*
mount -o remount,nr_inodes=4 small 2>/dev/null
touch small/a small/b small/c small/d 2>/dev/null
fails "a session without room for its directory" "$FLUX" start --size=2 --rundir="$TEST_DIR/small/run" true
umount -l small
finish
