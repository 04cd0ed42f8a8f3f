#!/usr/bin/env bash
# The module kvs is unloaded and reloaded: nothing that was accepted is lost unless that is meant.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"

need_flux start kvs module getattr
need_programs kvs_client
AT=("$FLUX")

open() {
    [ "$(counter "$1" fences_open)" = "$2" ]
}

hold 4 --topology=chain --set=modules=log,hb,barrier,kvs,wrexec
ok "a store with something in it" at 3 kvs put a=1 b=2
version=$(at 0 kvs version)

for what in unload reload; do
    exits 1 "$what at the root is refused" at 0 module "$what" kvs
    like "$err" "module kvs stays loaded: the store is in its memory and would be lost" "with a sentence"
    exits 1 "and again" at 3 module "$what" --ranks=0 kvs
done
is "$(at 0 kvs version)" "$version" "nothing has changed"
is "$(at 0 kvs get a)" 1 "and the store serves"
like "$(at 0 module list)" "kvs" "the module is loaded"
ok "other modules are not asked" at 0 module reload barrier

# An instance that is not the master has nothing that cannot be had again.
ok "reload at rank 2" at 2 module reload kvs
is "$(at 2 kvs get a)" 1 "reads"
is "$(at 3 kvs get b)" 2 "and below"
ok "a put through it" at 3 kvs put c=3
is "$(at 0 kvs get c)" 3 "arrives"

# A fence that is open at an instance: its calls were merged, and cannot be told apart again.
FLUX_URI=$(uri 3) "$CLIENT" fence f 2 f.a=1 >fence.out 2>&1 &
waiter=$!
ok "a fence is open" wait_until 10 open 0 1
exits 1 "a reload on its way is refused" at 2 module reload kvs
like "$err" "1 open fence would be aborted" "with a sentence"
ok "the fence can be completed" env FLUX_URI="$(uri 1)" "$CLIENT" fence f 2 f.b=1
ok "by all" wait "$waiter"
ok "then it can be reloaded" at 2 module reload kvs
FLUX_URI=$(uri 3) "$CLIENT" fence g 2 g.a=1 >fence.out 2>&1 &
waiter=$!
wait_until 10 open 0 1
ok "or when forced" at 2 module reload --force kvs
exits 1 "which ends the fence for all" wait "$waiter"
like "$(cat fence.out)" "^ECONNABORTED: .*kvs was stopped at rank 2" "with the reason"
ok "everywhere" wait_until 10 open 0 0

# No instance on the way: the next one above serves.
ok "unload at rank 2" at 2 module unload kvs
ok "its clients go to the one above" at 2 kvs put d=4
ok "those below, too" at 3 kvs put e=5
is "$(at 3 kvs get d)" 4 "reads too"
ok "load" at 2 module load kvs
is "$(at 2 kvs get e)" 5 "it finds its way"

# When it is meant.
old=$(at 3 kvs version | awk '{ print $1 }')
ok "a forced reload at the root" at 0 module reload --force kvs
exits 1 "begins anew" at 0 kvs get a
ok "and takes commits" at 3 kvs put fresh=1
v=$(at 0 kvs version | awk '{ print $1 }')
ok "with versions from the beginning" [ "$v" -lt "$old" ]
lost() {
    ! at "$1" kvs get a && at "$1" kvs get fresh
}
for rank in 1 2 3; do
    ok "rank $rank has the new store" wait_until 10 lost "$rank"
done
ok "unload at the root" at 0 module unload --force kvs
fails "no store" at 0 kvs put a=1
like "$err" "kvs" "with a sentence"
fails "nor below" at 3 kvs put a=1
ok "with a sentence, too" [ -n "$err" ]
ok "load at the root" at 0 module load kvs
ok "and it goes on" at 3 kvs put a=again
is "$(at 3 kvs get a)" again "from below"
at 0 kvs put last=1
release
is "$status" 0 "the session ends without asking"

# With a statedir, the store is read back: who commits, watches or waits goes on.
hold 4 --topology=chain --set=modules=log,hb,barrier,kvs,wrexec --set=statedir="$PWD/state"
appended() {
    at 0 kvs get log >log.out && (($(wc -l <log.out) >= $1))
}
at 0 kvs put counter=0 log=""
at 3 kvs watch counter >watch.out 2>watch.err &
watch=$!
wait_until 10 grep -q 0 watch.out
FLUX_URI=$(at 3 getattr uri) run_with_timeout 60 "$BUILDDIR/t/kvs/kvs_client" append log enough >append.out 2>append.err &
append=$!
wait_until 20 appended 100
for n in 1 2 3; do
    ok "a reload at the root under commits" at 0 module reload kvs
    ok "they go on" wait_until 20 appended $(($(wc -l <log.out) + 100))
done
at 0 kvs put counter=1
ok "so does who watches" wait_until 10 grep -q 1 watch.out
touch enough
ok "all commits are applied" wait "$append"
is "$(cat watch.err append.err)" "" "without complaint"
at 0 kvs get log >log.out
{ seq "$(cat append.out)" && echo; } >numbers
ok "each once, in order" cmp log.out numbers
kill "$watch"
wait "$watch" 2>/dev/null
FLUX_URI=$(at 3 getattr uri) run_with_timeout 60 "$BUILDDIR/t/kvs/kvs_client" fence meet 2 a.meet=1 >fence.out 2>fence.err &
fence=$!
wait_until 10 open 0 1
exits 1 "a reload at the root is refused while a fence is open" at 0 module reload kvs
like "$err" "1 open fence would be aborted.*--force" "with a sentence"
ok "the fence is complete" "$BUILDDIR/t/kvs/kvs_client" fence meet 2 b.meet=1
ok "for all" wait "$fence"
release
is "$status" 0 "the session ends well"
finish
