#!/usr/bin/env bash
# Where threads meet: modules that are loaded, used from several clients at a time, reloaded and
# unloaded. Worth most in a build with the thread sanitizer, whose reports it looks for.
. "$(dirname "$0")/lib.sh"
need_flux start module kvs barrier wreckrun submit queue jobs

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
finish
