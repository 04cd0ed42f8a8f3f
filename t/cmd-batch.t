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
like "$out" '"start","--","\{\{tmpdir\}\}/script","x","y"' "the script runs in a session, with its arguments"
like "$out" 'flux-\{\{id\}\}.out' "the output file"
dry -N3 job.sh
like "$out" '"type":"node","count":3' "the command line wins"
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
exits 2 "a word that is no option" "$FLUX" batch --dry-run bad.sh
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
run "$FLUX" batch --wait -q -O changed job.sh
printf '#!/bin/sh\necho second\n' >job.sh
is "$out" "" "--quiet"
is "$(cat changed)" first "the text travels with the job"
ok "a script from standard input" sh -c "printf '#!/bin/sh\necho from stdin\n' | '$FLUX' batch --wait -O stdin"
is "$(cat stdin)" "from stdin" "has run"
ok "a script that does not say what runs it" sh -c "echo 'echo \"\$#\"' | '$FLUX' batch --wait -O plain - a b"
is "$(cat plain)" 2 "is for the shell"
exits 124 "the time limit" "$FLUX" batch -q --wait -t 1s --wrap 'sleep 100'
exits 127 "an interpreter that is not there" sh -c "printf '#!/no/such/interpreter\n' |
    '$FLUX' batch -q --wait -O nobody"
fails "more nodes than there are" "$FLUX" batch -N5 --wrap true
release
finish
