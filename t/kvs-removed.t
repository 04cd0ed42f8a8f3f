#!/usr/bin/env bash
# The files of the store are removed under a running session: nothing is acknowledged that the next
# session would not find.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start kvs dmesg

state=$TEST_DIR/state
begin() {
    hold 1 --statedir="$state" --set=modules=log,hb,kvs
}

begin
head -c 3000000 /dev/urandom >large
ok "a value that stays on disk" kvs put large=- <large
ok "and a small one" kvs put a=1
rm "$state"/content.sqlite*
ok "a commit after the files were removed" kvs put b=2
like "$("$FLUX" dmesg)" "removed under the session: it was written anew" "the log says so"
ok "the file is there" test -s "$state/content.sqlite"
is "$(stat -c %a "$state/content.sqlite")" 600 "for its owner only"
ok "a large value is read from it" kvs get --raw large
rm -r "$state"
ok "a commit after the directory was removed" kvs put c=3
rm "$state"/content.sqlite-wal
ok "a commit after the log was removed" kvs put d=4
rm "$state"/content.sqlite*
release
is "$status" 0 "a session ends whose files were removed before that"

begin
is "$(kvs get a b c d | tr '\n' ' ')" "1 2 3 4 " "the next one has all that was acknowledged"
kvs get --raw large >back
ok "large values, too" cmp large back
mv "$state/content.sqlite" elsewhere
echo "somebody else's" >"$state/content.sqlite"
fails "a commit when another file has taken the place" kvs put e=5
like "$err" "another file has taken the place" "is refused and says so"
is "$(kvs get d)" 4 "reading goes on"
fails "what was refused is not there" kvs get e
is "$(cat "$state/content.sqlite")" "somebody else's" "that file is not touched"
mv elsewhere "$state/content.sqlite"
ok "commits go on when it is moved back" wait_until 20 "$FLUX" kvs put e=6
release
is "$status" 0 "the session ends well"
begin
is "$(kvs get a b c d e | tr '\n' ' ')" "1 2 3 4 6 " "and has left everything"
release
ok "flux kvs fsck finds nothing wrong" kvs fsck "$state"
finish
