#!/usr/bin/env bash
# flux batch: options in scripts, the script on its allocation, what becomes of it.
# shellcheck disable=SC2016,SC2154 # the script expands; set by run
. "$(dirname "$0")/lib.sh"
need_flux start batch wreck jobs

# --- options, without a session ---

dry() {
    run "$FLUX" batch --dry-run "$@"
}
printf '#!/bin/sh\n#FLUX: -N2 --time-limit=1h\n# FLUX: --name="a b" # comment\necho\n' >job.sh
dry job.sh x y
like "$out" '"type":"node","count":2' "nodes from the script"
like "$out" '"duration":3600' "time limit from the script"
like "$out" '"name":"a b"' "quoted words"
like "$out" '"start","--","[^"]*/flux-rsh","--setup","\{\{tmpdir\}\}","\{\{tmpdir\}\}/script","x","y"' "the script runs in a session, with its arguments"
like "$out" 'flux-\{\{id\}\}.out' "the output file"
dry -N3 job.sh
like "$out" '"type":"node","count":3' "the command line wins"
dry -t 30 job.sh
like "$out" '"duration":1800' "a time limit without unit counts minutes"
dry --time=1-12:30:00 job.sh
like "$out" '"duration":131400' "days, hours, minutes and seconds"
like "$("$FLUX" batch --help)" 'number without a unit is in minutes' "--help says so"
printf -- '-- FLUX: -N5\nprint(1)\n' >job.lua
dry job.lua
like "$out" '"count":5' "comments of another language"
dry --wrap 'echo hello | cat'
like "$out" '"script":"#!/bin/sh\\necho hello \| cat\\n"' "--wrap of a line"
dry --wrap echo "it's"
like "$out" "'echo' 'it'" "--wrap of words"
printf '#!/bin/sh\n\n#FLUX: --frobnicate\n' >bad.sh
exits 2 "an option that is unknown" "$FLUX" batch --dry-run bad.sh
like "$err" 'bad.sh:3: .*--frobnicate' "the sentence names file and line"
printf '#FLUX: -N many\n' >bad.sh
exits 2 "a value that is wrong" "$FLUX" batch --dry-run bad.sh
like "$err" 'bad.sh:1: ' "the sentence names file and line"
printf '#FLUX: job.sh\n' >bad.sh
exits 2 "a word that is not an option" "$FLUX" batch --dry-run bad.sh
printf '#FLUX: --name="x\n' >bad.sh
exits 2 "a quote that is not closed" "$FLUX" batch --dry-run bad.sh
printf '#!/bin/sh\ntrue\n#FLUX: -N9\n' >late.sh
dry late.sh
unlike "$out" '"count":9' "an option behind the first command does not count"
like "$err" 'late.sh:3' "a sentence says so"
fails "a script that is not there" "$FLUX" batch nonesuch.sh
like "$err" nonesuch.sh "the sentence names it"
fails "a program" "$FLUX" batch /bin/true
printf '#!/bin/sh\r\necho x\r\n' >dos.sh
fails "a script with the ends of lines of another system" "$FLUX" batch dos.sh
like "$err" "dos.sh:1: the line ends with a carriage return" "... says so"
fails "an empty script" sh -c "'$FLUX' batch </dev/null"
exits 2 "--wrap of nothing" "$FLUX" batch --wrap

# --- other spellings, and other schedulers ---

printf '#!/bin/sh\n#flux: -N2\n# flux: -n6\n#FLUX -c3\n# flux is what runs this\n' >small.sh
dry small.sh
like "$out" '"type":"node","count":2.*"count":3.*"type":"core","count":3' "flux: in small letters, and without the colon"
cat >slurm.sh <<'END'
#!/bin/bash
#SBATCH --job-name=run
#SBATCH -N 2 --ntasks-per-node=4
#SBATCH --time=1-00:00:30   # a day and a bit
#SBATCH --mem=8G
#SBATCH -o %x-%j.log
#SBATCH --partition=debug --mail-type=ALL
##SBATCH -n 99
srun ./simulate
END
dry slurm.sh
like "$out" '"type":"node","count":2.*"count":4.*"type":"memory","count":2048' "resources of #SBATCH lines"
like "$out" '"duration":86430' "the time limit of #SBATCH lines"
like "$out" '\{\{name\}\}-\{\{id\}\}.log' "the output of #SBATCH lines"
like "$err" 'slurm.sh:7: #SBATCH --partition: there is one queue \(ignored\)' "one that is ignored is named"
like "$err" 'slurm.sh:7: #SBATCH --mail-type: no mail is sent \(ignored\)' "so is another one"
dry -N3 -n3 --tasks-per-node=1 slurm.sh
like "$out" '"type":"node","count":3' "the command line wins over #SBATCH"
printf '#!/bin/sh\n#SBATCH -N7\n#FLUX: -N2\n' >both.sh
dry both.sh
like "$out" '"type":"node","count":2' "#FLUX lines count alone"
like "$err" 'both.sh: #SBATCH lines are ignored' "... which is told"
printf '#!/bin/sh\n#SBATCH -N many\n' >bad.sh
exits 2 "a wrong value in a #SBATCH line" "$FLUX" batch --dry-run bad.sh
like "$err" "bad.sh:2: --nodes: 'many'" "the sentence names file and line"
printf '#!/bin/sh\n#PBS -l nodes=4\n' >pbs.sh
dry pbs.sh
like "$err" 'pbs.sh: #PBS lines are ignored' "lines for another scheduler are named"
exits 2 "a queue that is not there" "$FLUX" batch -q debug --dry-run pbs.sh
like "$err" "there is no queue 'debug'" "... is told"
exits 0 "the queue that is there" "$FLUX" submit -q default --dry-run true
exits 2 "-q of flux submit takes a queue" "$FLUX" submit -q debug true
like "$err" "there is no queue 'debug'" "... and does not make it the command"

# --- in a session ---

hold 4
cat >job.sh <<'END'
#!/bin/sh
#FLUX: -N2 --output=out
flux getattr size
flux getattr instance-level
flux getattr jobid
echo "$# $1"
echo to stderr >&2
sleep 0.2
exit 7
END
exits 7 "the exit code of the script" "$FLUX" batch --wait job.sh 'a b'
id=$out
is "$(cat out)" $'2\n1\n'"$id"$'\n1 a b\nto stderr' "ran at rank 0 of a session of two, output in the file"
id=$("$FLUX" batch --wrap 'echo hello')
like "$id" '^[0-9]+$' "the id alone"
ok "it ends" run_with_timeout 30 "$FLUX" wreck wait "$id"
is "$(cat "flux-$id.out")" hello "the default output file"
printf '#!/bin/sh\necho first\n' >job.sh
run "$FLUX" batch --wait --quiet -O changed job.sh
printf '#!/bin/sh\necho second\n' >job.sh
is "$out" "" "--quiet"
is "$(cat changed)" first "the text travels with the job"
ok "a script from standard input" sh -c "printf '#!/bin/sh\necho from stdin\n' | '$FLUX' batch --wait -O stdin"
is "$(cat stdin)" "from stdin" "has run"
ok "a script that does not say what runs it" sh -c "echo 'echo \"\$#\"' | '$FLUX' batch --wait -O plain - a b"
is "$(cat plain)" 2 "is for the shell"
exits 124 "the time limit" "$FLUX" batch --quiet --wait -t 1s --wrap 'sleep 100'
exits 127 "an interpreter that is not there" sh -c "printf '#!/no/such/interpreter\n' |
    '$FLUX' batch --quiet --wait -O nobody"
printf '#!/bin/sh\necho "$FLUX_JOB_ID $FLUX_JOB_NNODES ${FLUX_JOB_EXPIRATION+limit} $(flux getattr jobid)"
flux start flux getattr instance-level\n' >env.sh
id=$("$FLUX" batch --wait -N2 -t 10 -O env.out env.sh)
is "$(cat env.out)" "$id 2 limit $id"$'\n0' "the script knows its job, which a session of its own is not a job of"
printf '#!/bin/sh\necho "$FLUX_JOB_CC $1 {{cc}}"\nexit "$FLUX_JOB_CC"\n' >cc.sh
exits 3 "--cc: the worst exit code" "$FLUX" batch --wait --cc=1-3 -O 'cc-{{cc}}' cc.sh 'a{{cc}}'
is "$(wc -l <<<"$out")" 3 "an id for each member"
is "$(cat cc-1 cc-2 cc-3)" $'1 a1 {{cc}}\n2 a2 {{cc}}\n3 a3 {{cc}}' "each knows its member; the script is as it was written"
fails "more nodes than there are" "$FLUX" batch -N5 --wrap true
release
finish
