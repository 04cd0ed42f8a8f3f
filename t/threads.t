#!/usr/bin/env bash
# Where threads meet: modules that are loaded, used from several clients at a time, reloaded and
# unloaded. Worth most in a build with the thread sanitizer, whose reports it looks for.
. "$(dirname "$0")/lib.sh"
need_flux start module kvs barrier

# ZeroMQ is not built with the sanitizer: what its threads do looks like a race.
export TSAN_OPTIONS="exitcode=66 ignore_noninstrumented_modules=1"
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
    is "$(grep -c 'WARNING: ThreadSanitizer' err)" 0 "size $size: no race was reported"
    grep -A 20 'WARNING: ThreadSanitizer' err | head -n 40 | sed 's/^/# /'
done
finish
