#!/bin/bash
# Arguments, variables and paths of any bytes reach the tasks as they are.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun submit
hold 2

# All bytes but NUL, those from 0x80 in descending order: no UTF-8.
all=$(for ((i = 1; i < 128; i++)); do printf '\\%03o' "$i"; done
    for ((i = 255; i > 127; i--)); do printf '\\%03o' "$i"; done)
# shellcheck disable=SC2059
all=$(printf "$all.")
all=${all%.}
is "$(LC_ALL=C && echo ${#all})" 255 "255 different bytes"
printf %s "$all" | od -An -tx1 >want
octets() {
    run "$FLUX" "$@" sh -c 'printf %s "$1" | od -An -tx1 >arg.$FLUX_TASK_RANK
        printf %s "$BYTES" | od -An -tx1 >env.$FLUX_TASK_RANK' sh "$all"
    [ "$status" -eq 0 ] && cmp want arg.0 && cmp want arg.1 && cmp want env.0 && cmp want env.1 &&
        rm arg.? env.?
}
ok "wreckrun over two nodes: an argument and a variable" octets wreckrun -N2 --env=BYTES="$all"
export BYTES=$all
ok "... the variable from the environment" octets wreckrun -N2
ok "submit" octets submit --wait -N2
ok "submit --cc" octets submit --wait -N2 --cc=7
printf '#!/bin/sh\nprintf %%s "$1" | od -An -tx1 >arg.0\n' >script
run "$FLUX" batch --wait -N1 ./script "$all"
ok "an argument of a batch script" cmp want arg.0

dir=$'dir\xe4\xff'
mkdir "$dir"
printf '#!/bin/sh\necho hello\n' >"$dir/"$'prog\xfe'
chmod +x "$dir/"$'prog\xfe'
run "$FLUX" wreckrun -N2 --chdir="$dir" ./prog$'\xfe'
is "$status/$out" "0/hello
hello" "a working directory and a program"
run "$FLUX" wreckrun -N1 --output="$dir/"$'out\xf6.{{task}}' --error="$dir/"$'err\xf6' \
    sh -c 'echo one; echo two >&2'
is "$status/$(cat "$dir/"$'out\xf6.0')/$(cat "$dir/"$'err\xf6')" "0/one/two" "files for output"
run "$FLUX" wreckrun -N1 --input="$dir/"$'out\xf6.0' cat
is "$out" one "... and for input"
exits 127 "a program that is not there" "$FLUX" wreckrun -N2 $'no\xffprogram'
like "$err" "cannot run 'no[?]program'" "... is named"
id=$("$FLUX" submit "$dir/"$'prog\xfe' $'\xff')
ok "a job has a name for people" run_with_timeout 20 "$FLUX" wreck wait "$id"
is "$("$FLUX" jobs -n -a -o '{name}' | head -1)" 'prog?' "... without those bytes"
run "$FLUX" wreck status "$id"
is "$(grep -c $'prog\xfe.*\xff' <<<"$out")" 1 "its command is shown with them"
"$FLUX" submit --dry-run echo $'a\xff' ä >specs
ok "the form in the jobspec" grep -qF '"command":["echo",{"bytes":"aÿ"},"ä"]' specs
sed -i 's/aÿ/Ā/' specs
fails "characters that are not bytes" "$FLUX" submit --from=specs
like "$err" 'tasks\[0\][.]command\[1\]: must be a string, or [{]"bytes"' "... are refused"
fails "a name that is not UTF-8" "$FLUX" submit --name=$'\xff' true
like "$err" UTF-8 "... with a sentence"
release
finish
