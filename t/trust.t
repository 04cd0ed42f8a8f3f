#!/usr/bin/env bash
# What others can change is not believed: state directories, configuration, policies, hooks,
# certificates and shared objects; records of jobs that name another user; jobs in an archive.
# shellcheck disable=SC2154 # set by run, ok
. "$(dirname "$0")/lib.sh"
need_flux start kvs submit jobs wreck queue keygen

other=54321 # a user that nobody is
single=("$FLUX" start --size=1)

# refused DESC WORDS COMMAND...: it fails with a sentence that has the words in it.
refused() {
    local desc=$1 words=$2
    shift 2
    exits 1 "$desc" run_with_timeout 60 "$@"
    like "$err" "$words" "... and says why"
}

# --- the state directory -----------------------------------------------------------------------

state=$PWD/state
keep=("${single[@]}" --statedir="$state")
ok "a session with a state directory" run_with_timeout 60 "${keep[@]}" \
    sh -c "'$FLUX' queue stop && '$FLUX' submit --hold sh -c 'echo ran >>$PWD/ran'"
id=$out
ok "its own directory is used again" run_with_timeout 60 "${keep[@]}" true
chmod 777 state
refused "a state directory that everybody can write to" "'$state' is not trusted: it can be changed by everybody" \
    "${keep[@]}" true
chmod 755 state
chmod 666 state/content.sqlite
refused "a store that everybody can write to" "content.sqlite' is not trusted" "${keep[@]}" true
chmod 600 state/content.sqlite
mkdir up
chmod 777 up
refused "a directory that everybody can exchange" "up' can be changed by everybody" \
    "${single[@]}" --statedir="$PWD/up/state" true

# --- files that are read -----------------------------------------------------------------------

cat >config.lua <<END
session { hosts = "$(hostname)", curve = false, address = "tcp://127.0.0.1:9999" }
END
config=("$FLUX" start --config="$PWD/config.lua" --set=modules=log true)
ok "a configuration file" run_with_timeout 60 "${config[@]}"
chmod 666 config.lua
refused "one that everybody can write to" "config.lua' is not trusted" "${config[@]}"
chmod 644 config.lua
echo 'policy { name = "mine", priority = function(job) return 1 end }' >policy.lua
policy=("${single[@]}" --set=sched.queue-policy="$PWD/policy.lua" true)
ok "a policy" run_with_timeout 60 "${policy[@]}"
chmod 666 policy.lua
refused "one that everybody can write to" "policy.lua' is not trusted" "${policy[@]}"
echo '{ "switches": [] }' >shape
chmod 666 shape
refused "the same for the shape of the tree" "shape' is not trusted" \
    "$FLUX" start --size=2 --topology="$PWD/shape" true
echo 'SwitchName=s0 Nodes=none' >topology.conf
chmod 666 topology.conf
refused "the same for the switches" "topology.conf' is not trusted" \
    "${single[@]}" --set=resource.topology="$PWD/topology.conf" true
"$FLUX" keygen key
cat >keys.lua <<END
session { hosts = "127.0.0.[2-3]", address = "tcp://%h:9998", keyfile = "$PWD/key.%r" }
END
"$FLUX" keygen key.0
"$FLUX" keygen key.1
chmod 666 key.1.pub
refused "the public key of another host" "key.1.pub' is not trusted" \
    "$FLUX" start --config=keys.lua --set=boot.rank=0 --set=modules=log true
mkdir modules
cp "$BUILDDIR/src/modules/.libs/log.so" modules
chmod 777 modules
refused "a module" "modules' can be changed by everybody" \
    "${single[@]}" --set=modules="$PWD/modules/log.so" true

printf '#!/bin/sh\necho prolog\n' >prolog
chmod 755 prolog
hooked=("${single[@]}" --set=wrexec.prolog="$PWD/prolog" "$FLUX" wreckrun true)
ok "a prolog" run_with_timeout 60 "${hooked[@]}"
chmod 777 prolog
exits 2 "one that everybody can write to: the session does not start" run_with_timeout 60 "${hooked[@]}"
like "$err" "prolog' is not trusted" "... and says why"
mkdir lua
echo 'return { init = function(job) end }' >lua/hook.lua
hooked=("${single[@]}" --set=wrexec.lua-path="$PWD/lua" "$FLUX" wreckrun true)
ok "a plugin in Lua" run_with_timeout 60 "${hooked[@]}"
chmod 666 lua/hook.lua
run run_with_timeout 60 "${hooked[@]}"
isnt "$status" 0 "one that everybody can write to: no job runs"
like "$err" "hook.lua' is not trusted" "... and says why"

# --- another user's ----------------------------------------------------------------------------

mkdir lib
: >lib/libpmi.so.0
srun=(env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 LD_LIBRARY_PATH="/nonexistent:$PWD/lib" "$FLUX" start --boot=pmi true)
refused "a library of Slurm's that is empty" "libpmi.so.0: file too short" "${srun[@]}"
chmod 777 lib
refused "... that others can exchange, is not loaded" "'$PWD/lib' can be changed by everybody" "${srun[@]}"
srun[3]=LD_LIBRARY_PATH=/nonexistent:
cd lib || bail "no directory"
refused "... nor from the current directory, as an empty name means" "can be changed by everybody" "${srun[@]}"
cd .. || bail "no directory"

if [ "$(id -u)" = 0 ]; then
    chown -R $other state
    refused "a state directory of another user" "'$state' is not trusted: it belongs to user $other" \
        "${keep[@]}" true
    chown 0 state
    refused "a store of another user" "content.sqlite' is not trusted: it belongs to user $other" \
        "${keep[@]}" true
    chown -R 0 state
    chown $other config.lua
    refused "a configuration file of another user" "it belongs to user $other" "${config[@]}"
else
    skip 6 "files cannot be given to another user"
fi
ok "what is ours again is used" run_with_timeout 60 "${keep[@]}" "$FLUX" jobs -n -o id,state
like "$out" "$id +held" "the job is still there"

# --- a record that names another user ----------------------------------------------------------

# It is changed while the job module is not there.
cat >forge <<END
set -e
'$FLUX' kvs get --raw job.$id.eventlog | sed 's/"userid":$(id -u)/"userid":$other/' >log
grep -q '"userid":$other' log
'$FLUX' module unload job
'$FLUX' kvs put job.$id.eventlog=- <log
END
ok "a record is forged" run_with_timeout 60 "${keep[@]}" sh forge
cat >use <<END
'$FLUX' queue start
'$FLUX' jobs -a -n -o id,result
'$FLUX' wreck eventlog $id
'$FLUX' submit true >next
'$FLUX' queue idle
END
ok "the next session" run_with_timeout 60 "${keep[@]}" sh use
like "$out" "names user $other, but jobs of this session run as user $(id -u)" "refuses the job, and says why"
ok "it has not run" [ ! -e ran ]

# --- an archive ----------------------------------------------------------------------------------

cat >fill <<END
'$FLUX' queue stop >&2
'$FLUX' kvs put mine=1
'$FLUX' submit sh -c 'echo ran >>$PWD/ran'
'$FLUX' kvs dump $PWD/archive
END
ok "an archive with a job" run_with_timeout 60 "${single[@]}" sh fill
id=$out
ok "has it" grep -q "^job\.$id\.jobspec" archive
sed -i '2a sneak -> job' archive
cat >restore <<END
'$FLUX' kvs restore "\$@" $PWD/archive || exit
'$FLUX' kvs get mine
'$FLUX' kvs get job.$id.jobspec >/dev/null 2>&1 && echo is there
'$FLUX' kvs readlink sneak
'$FLUX' module reload job
'$FLUX' queue start
'$FLUX' queue idle
END
run run_with_timeout 60 "${single[@]}" sh restore
is "$out" 1 "restored without jobs"
like "$err" "entries that belong to jobs were left out \(--jobs" "... which is said"
ok "no job has run" [ ! -e ran ]
run run_with_timeout 60 "${single[@]}" sh restore --jobs
is "$out" "1
is there
job" "restored with jobs"
like "$err" "flux module reload job" "what has to follow is said"
is "$(cat ran)" ran "and the job runs"
finish
