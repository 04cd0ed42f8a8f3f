#!/usr/bin/env bash
# While the services of the root are full of what others ask, flux wreckrun runs its program, or
# says in one sentence that there is no room: it never hangs, and no job is left behind.
# shellcheck disable=SC2154 # set by run
SESSION_LIMIT=300
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun jobs queue
ATTACK=$BUILDDIR/t/attack/attack
[ -x "$ATTACK" ] || skip_all "t/attack/attack has not been built"

hold 2
there=local://$("$FLUX" getattr rundir)/1/local
no_room='^flux wreckrun: .*(try again later|keep up with|is full)[^'$'\n'']*$'
count=0 refused=0 bad=0
for asked in 'job.list job.wait job.submit' 'wrexec.listen wrexec.stats wrexec.launch'; do
    tr ' ' '\n' <<<"$asked" >topics
    FLUX_URI=$there setsid "$ATTACK" 200 1 4 topics flood >attack.out 2>&1 &
    attacker=$!
    end=$((SECONDS + 4)) # of attack
    while [ "$SECONDS" -lt "$end" ]; do
        FLUX_URI=$there run run_with_timeout 60 "$FLUX" wreckrun -N2 echo it runs </dev/null
        count=$((count + 1))
        if [ "$status" = 1 ] && [ -z "$out" ] && [[ $err =~ $no_room ]]; then
            refused=$((refused + 1))
        elif [ "$status" != 0 ] || [ "$out" != $'it runs\nit runs' ] || [ -n "$err" ]; then
            note "exit code $status: $out $err"
            bad=$((bad + 1))
        fi
    done
    kill_setsid "$attacker"
    wait "$attacker"
done
note "$refused of $count were refused"
is "$bad" 0 "each ran its program, or was refused with a sentence"
ok "a job runs when the others are gone" "$FLUX" wreckrun -N2 true
ok "the queue becomes empty" run_with_timeout 60 "$FLUX" queue idle
is "$("$FLUX" jobs -n)" "" "no job is left"
release
is "$status" 0 "the session ends"
finish
