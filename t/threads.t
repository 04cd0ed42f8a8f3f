#!/usr/bin/env bash
# Where threads meet: modules that are loaded, used from several clients at a time, reloaded and
# unloaded. Worth most in a build with the thread sanitizer, whose reports it looks for.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start module kvs barrier wreckrun submit queue jobs up

# ZeroMQ is not built with the sanitizer: what its threads do looks like a race.  Each process writes its reports to a
# file, the launcher and clients, too.
export TSAN_OPTIONS="exitcode=66 ignore_noninstrumented_modules=1 log_path=$TEST_DIR/race"
is_without_race() { # NAME
    is "$(cat race.* 2>/dev/null | grep -c ThreadSanitizer)" 0 "$1: no race was reported"
    cat race.* 2>/dev/null | head -n 40 | sed 's/^/# /'
    rm -f race.*
}
cat >work.sh <<'END'
set -e
flux=$1
"$flux" kvs put a=1 b=2
for i in 1 2 3 4 5; do
    "$flux" kvs put "k$i=$i" &
done
wait
"$flux" kvs dir | wc -l
"$flux" module reload barrier
"$flux" barrier -n 1 one
"$flux" event sub --count=3 ev. >events &
sub=$!
while kill -0 "$sub" 2>/dev/null; do # until it has its three
    "$flux" event pub ev.1
done
wait "$sub"
"$flux" logger hello
"$flux" dmesg | grep -q hello
"$flux" module unload barrier
"$flux" module load barrier
"$flux" ping -c 3 "0!kvs" >/dev/null
END
for size in 1 3; do
    run_with_timeout 200 "$FLUX" start --size=$size --set=modules=log,hb,barrier,kvs \
        bash work.sh "$FLUX" >out 2>err
    is $? 0 "size $size: all works"
    is "$(head -n 1 out)" 7 "size $size: and all is stored"
    is_without_race "size $size"
done

# All modules, the thread of the store on disk, and the launcher's.
cat >jobs.sh <<'END'
set -e
flux=$1
"$flux" kvs put a=1 b="$(head -c 20000 /dev/zero | tr '\0' x)"
[ "$("$flux" kvs get a)" = 1 ]
"$flux" wreckrun -n 3 echo ran
"$flux" submit --quiet --cc=1-6 true
"$flux" module reload sched
"$flux" submit --quiet --cc=1-6 true
until "$flux" module reload job; do # it refuses while jobs are put on record
    :
done
"$flux" wreckrun echo ran
"$flux" queue idle >&2
"$flux" jobs -a --no-header | grep -c completed
END
mkdir state
for ended in 14 28; do # the second one loads what the first has stored
    run_with_timeout 200 "$FLUX" start --size=2 --statedir="$PWD/state" bash jobs.sh "$FLUX" >out 2>err
    is $? 0 "all modules, $ended jobs: all works"
    sed 's/^/# /' err
    is "$(tr '\n' ' ' <out)" "ran ran ran ran $ended " "... its jobs and those before have run"
    is_without_race "all modules, $ended jobs"
done

# The tree heals while all modules run in threads of their own, and have work.
hold 4 --topology=chain --restart --set=overlay.settle=1s --set=module.place=thread
of_all 4
ok "modules in threads: the session is up" wait_until 60 up_is "4 of 4 up: 0-3"
# Some of these fail when a broker dies.
busy() { # FILE COMMAND...: repeat it, and count what succeeds
    while [ ! -e enough ]; do
        "${@:2}" >/dev/null 2>&1 && echo one >>"$1"
    done
}
goes_on() { # FILE
    local n
    n=$(wc -l <"$1")
    wait_until 60 more "$1" "$n"
}
more() { # FILE COUNT
    [ "$(wc -l <"$1")" -gt "$2" ]
}
work=()
for file in puts.0 puts.3 jobs; do : >"$file"; done
busy puts.0 at 0 kvs put load.0=1 &
work+=($!)
busy puts.3 at 3 kvs put load.3=1 &
work+=($!)
busy jobs at 0 wreckrun -n 1 true &
work+=($!)
again() { # RANK N PARENT: its N-th broker is up
    "$FLUX" up --long | finds -E "^ *$1 +up +$3 +[0-9]+ +$2\$"
}
for victim in 1 2; do
    kill -KILL "$("$FLUX" getattr -r "$victim" broker.pid)"
    ok "rank $victim dies and is started again" wait_until 60 again "$victim" 2 $((victim - 1))
    ok "... and the one below it returns to it" wait_until 60 below $((victim + 1)) "$victim"
    for file in puts.0 puts.3 jobs; do
        ok "... $file: the work goes on" goes_on "$file"
    done
done
touch enough
wait "${work[@]}"
release
is "$status" 0 "the session ends well"
is_without_race "a tree that heals"
finish
